"""Calls drawn at random in which one argument of one method of an estimator has an unusual or invalid value."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from support.estimator_cases import (
    NAMES,
    VARIANTS,
    N,
    fitted_estimator,
    n_variants,
    new_estimator,
    parameter_names,
    valid_arguments,
    valid_data,
)
from support.invalid_arguments import PARTITIONED, ROW_VALUES, SCALARS, TABLES

#: Methods that are not called: other tests have them.
SKIPPED_METHODS = {
    "get_params",
    "get_metadata_routing",
    "get_feature_names_out",
    "save",
    "to_arviz",
    "fit_transform",
    "fit_predict",
}
#: Parameters that are not set: large values are long fits, or other tests have them.
SKIPPED_PARAMETERS = {"max_iter", "verbose", "n_burn_in", "n_local_samples"}


class Call(NamedTuple):
    """A call of a method with another value in the place of one argument.

    Parameters
    ----------
    name : str
        Name of the estimator's class.
    options : int
        Index of its variant in `support.estimator_cases.VARIANTS`.
    fitted : bool
        Whether the estimator is fitted.
    method, argument : str
        Names of the method and of the argument; ``"set tol"`` sets the parameter ``tol`` before the call.
    what : str
        Name of the value, a key of `argument_values`.
    seed : int
        Seed of the value.
    """

    name: str
    options: int
    fitted: bool
    method: str
    argument: str
    what: str
    seed: int

    def __str__(self) -> str:
        state = "fitted" if self.fitted else "new"
        variant = VARIANTS.get(self.name, [{}])[self.options]
        return f"{state} {self.name}({variant}).{self.method}({self.argument}={self.what}) seed {self.seed}"


@lru_cache
def call_targets(name: str, variant: int) -> list[tuple[bool, str, str]]:
    """Every argument of an estimator, its parameters among those of ``fit``.

    Parameters
    ----------
    name : str
        Name of the estimator's class.
    variant : int
        Index of its variant.

    Returns
    -------
    targets : list of tuple
        Whether the estimator is fitted, the method, the argument.
    """
    new, model, found = new_estimator(name, variant), fitted_estimator(name, variant), []
    for method in dir(model):
        skipped = method.startswith(("_", "set_")) or method in SKIPPED_METHODS
        if skipped or not callable(getattr(type(model), method, None)) or not hasattr(model, method):
            continue
        arguments = parameter_names(getattr(type(model), method))
        unused = {"y"} if valid_data(name, variant)[1] is None else set()
        found += [(True, method, argument) for argument in arguments if argument not in unused]
        if method in ("fit", "partial_fit"):
            found += [(False, method, argument) for argument in arguments if argument not in unused]
    found += [(False, "fit", f"set {key}") for key in new.get_params() if key not in SKIPPED_PARAMETERS]
    return found


def random_calls(n: int, seed: int) -> Iterator[Call]:
    """Draw calls, with estimators in turn and everything else at random.

    Parameters
    ----------
    n : int
        Number of calls.
    seed : int
        Seed.

    Yields
    ------
    call : Call
        The next one.
    """
    rng = np.random.default_rng(seed)
    for i in range(n):
        name = NAMES[i % len(NAMES)]
        variant = int(rng.integers(n_variants(name)))
        targets = call_targets(name, variant)
        is_fitted, method, argument = targets[int(rng.integers(len(targets)))]
        names = sorted(argument_values(argument))
        what = names[int(rng.integers(len(names)))]
        yield Call(name, variant, is_fitted, method, argument, what, int(rng.integers(2**31)))


def argument_values(argument: str) -> dict[str, Any]:
    """Values that may stand in the place of an argument.

    Parameters
    ----------
    argument : str
        Name of the argument.

    Returns
    -------
    values : dict of str to callable
        Functions of a valid value and a generator, by name.
    """
    if argument in ("X", "held_out"):
        return TABLES
    if argument in ("y", "sample_weight", "offset", "users"):
        return ROW_VALUES
    scalars = {f"{value!r:.30}": (lambda valid, rng, value=value: value) for value in SCALARS}
    if argument in ("set prior_precision", "set inducing", "q", "classes", "feature_names", "set prior_words"):
        return scalars | ROW_VALUES
    return scalars


def prepare_call(call: Call, estimator: Any) -> tuple[Any, dict[str, Any], Any]:
    """Make the arguments of a call.

    Parameters
    ----------
    call : Call
        The call.
    estimator : estimator
        New or fitted, as the call has it; its parameter is set if the call sets one.

    Returns
    -------
    estimator : estimator
        The same estimator.
    arguments : dict
        Arguments of the method.
    value : object
        The value that the call replaces one of them, or the parameter, by.
    """
    rng = np.random.default_rng(call.seed)
    arguments = valid_arguments(call.name, call.options, estimator, call.method)
    key = call.argument.removeprefix("set ")
    base = arguments.get(key)
    if base is None:
        base = np.ones(N) if key != "users" else np.array([1, 2])
    with warnings.catch_warnings():  # conversions of the value itself
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            value = argument_values(call.argument)[call.what](base, rng)
    if call.argument.startswith("set "):
        estimator.set_params(**{key: value})
    else:
        arguments[key] = value
    if key == "X" and call.what in PARTITIONED:  # everything else with a value per row is partitioned alike
        along = {"y", "sample_weight", "offset", "held_out"} & arguments.keys()
        arguments |= {name: PARTITIONED[call.what](arguments[name], rng) for name in along}
    return estimator, arguments, value
