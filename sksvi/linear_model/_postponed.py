"""What a chunk of a stream leaves to be shown: found when somebody first asks, never where the next chunk comes first.

The nodes of hyperparameters take as long as the rest of a chunk of few rows, and no chunk reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sksvi._runtime import parallel
from sksvi.estimators.published import of_attributes
from sksvi.linear_model._integrated import FittedWeights
from sksvi.linear_model._low_rank import NO_BOUND

#: Attributes that wait.
SHOWN = {"_fitted", "posterior_", "coef_", "coef_std_", "intercept_", "prior_precision_", "lower_bound_"}
#: Of an estimator before its fit.
NOTHING_FITTED = FittedWeights()


@dataclass(eq=False)
class Postponed:
    """The model and the state that a chunk ended with, and the estimator as it was then, whatever is set since."""

    model: Any
    state: Any
    estimator: Any

    def found(self) -> dict[str, Any]:
        """The attributes; whoever asks at the same time finds the same bits."""
        shown = of_attributes(type(self.estimator), dict(vars(self.estimator)))
        with parallel.working(), shown._columns_named():
            shown._expose(self.model, self.state)
        return {name: value for name, value in vars(shown).items() if name in SHOWN}


@contextmanager
def postponing(estimator: Any) -> Iterator[None]:
    """Context of a chunk: begins without what the one before left waiting, and leaves its own to wait."""
    waiting = vars(estimator).pop("_postponed", None)
    if waiting is not None:
        estimator._fitted = waiting.estimator._fitted
    try:
        yield
        waiting = vars(estimator).pop("_postponed", None)
        if waiting is not None:
            waiting.estimator = of_attributes(type(estimator), dict(vars(estimator)))
    finally:  # of a chunk that failed the attributes are those that it began with
        if waiting is not None:
            rest = {name: value for name, value in vars(estimator).items() if name not in SHOWN}
            estimator.__dict__ = {**rest, "_postponed": waiting}


def postponed_or_reason(self: Any, name: str) -> Any:
    """``__getattr__`` of estimators whose chunks leave attributes to be found."""
    attributes = vars(self)
    waiting = attributes.get("_postponed") if name in SHOWN else None
    if waiting is not None:
        attributes.update(waiting.found())
        attributes.pop("_postponed", None)
    if name in attributes:
        return attributes[name]
    if name == "lower_bound_" and "state_" in attributes:
        raise AttributeError(NO_BOUND)
    # The error of a property that raised one is its own.
    return NOTHING_FITTED if name == "_fitted" else object.__getattribute__(self, name)
