"""Priors by name: which prior each coefficient and the intercept have under the parameter `prior`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from numbers import Integral
from typing import Any

import numpy as np

from sksvi._names import all_names, own_name
from sksvi.linear_model._columns import SPREAD, ColumnScaling
from sksvi.linear_model._prior import FLAT, prior_kind
from sksvi.models.linear.named import NamedPriors
from sksvi.priors import Horseshoe, Normal, StudentT

Array = np.ndarray

#: Names that an error shows.
SHOWN = 20
#: Priors of coefficients that are no words.
PROPER = (Normal, StudentT, Horseshoe)


class PriorsByName:
    """The prior of every coefficient, and of the intercept, that an estimator's `prior` names.

    Parameters
    ----------
    estimator : estimator
    columns : list of str
        Names of the columns that have coefficients.
    categories : CategoricalColumns or None
    second : SecondPredictor or None
        Of a second latent, whose coefficients have names too.
    groups : PrecisionGroups or None
        Of `prior_precision`, where it has groups of columns.

    Attributes
    ----------
    coefficients : list
        A Normal, StudentT or Horseshoe, "flat" or "auto" for each.
    keys : list of int
        For each which of the estimator's keys it is of, -1: none.
    intercept : Normal or None
        None: not named.

    Raises
    ------
    ValueError
        A key that is no coefficient, a value that is no prior, or two priors of one coefficient.
    """

    def __init__(
        self, estimator: Any, columns: list[str], categories: Any, second: Any = None, groups: Any = None
    ) -> None:
        self.estimator, self.categories, self.groups = estimator, categories, groups
        self.names = columns if categories is None else categories.names(columns)
        #: Of each coefficient the column that it belongs to.
        self.columns = columns if categories is None else categories.for_each(np.array(columns, object)).tolist()
        if second is not None:
            further = second.names(self.names)[len(self.names) :]
            self.names, self.columns = self.names + further, self.columns + further
        self.coefficients: list[Any] = ["auto"] * len(self.names)
        self.keys = [-1] * len(self.names)
        self.intercept: Normal | None = None
        self._read(own_name("intercept", {*self.names, *columns}))

    def _read(self, intercept: str) -> None:
        """Give every coefficient the prior of the key that fits it best, of patterns the first."""
        prior = self.estimator.prior
        found: list[tuple[int, list[int], Any, int]] = []
        for k, (key, value) in enumerate(prior.items()):
            if not isinstance(value, PROPER) and not (isinstance(value, str) and value in ("auto", "flat")):
                raise ValueError(
                    f"prior[{key!r}] must be a Normal, StudentT or Horseshoe of sksvi.priors, 'auto' or 'flat'; found "
                    f"{value!r}."
                )
            if key == intercept:
                self._name_intercept(key, value)
            else:
                found.append((*self._coefficients_of(key, intercept), value, k))
        taken: set[int] = set()
        for _, at, value, k in sorted(found, key=lambda one: one[0]):
            for j in set(at) - taken:
                self.coefficients[j], self.keys[j] = value, k
            taken.update(at)
        self._check_flat()
        self._check_alone(sorted(taken))

    def _check_alone(self, taken: list[int]) -> None:
        """Raise where `prior_precision` gives one of these coefficients a prior too."""
        given = self.estimator.prior_precision
        if prior_kind(given) == "auto":
            return
        if self.groups is None:
            both, remedy = taken, "set prior_precision='auto', or leave the column out of prior"
        else:  # columns without a key there are learned, as under "auto"
            keyed = ~self.groups.own_spread[self.groups.of_columns]
            both = [j for j in taken if keyed[j] and self.coefficients[j] != "auto"]
            remedy = "leave it out of one of them, or set it to 'auto' in prior, before patterns that match it"
        if both:
            raise ValueError(
                f"prior names {self.names[both[0]]!r}, which prior_precision={given!r} gives a prior too: {remedy}."
            )

    def _coefficients_of(self, key: Any, intercept: str) -> tuple[int, list[int]]:
        """How closely a key names coefficients (0 one by name, 1 a column, 2 a pattern), and their positions."""
        estimator = self.estimator
        position = isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) < estimator.n_features_in_
        name = all_names(estimator, None)[int(key)] if position else key
        for rank, names in enumerate((self.names, self.columns)):
            at = [j for j, own in enumerate(names) if own == name]
            if at:
                return rank, at
        pairs = enumerate(zip(self.names, self.columns, strict=True)) if isinstance(name, str) else ()
        at = [j for j, pair in pairs if any(fnmatchcase(own, name) for own in pair)]
        if not at:
            more = f" and {len(self.names) - SHOWN} more" if len(self.names) > SHOWN else ""
            raise ValueError(
                f"prior names {key!r}, which is no coefficient of this {type(estimator).__name__}: it has "
                f"{', '.join(map(str, self.names[:SHOWN]))}{more}, and {intercept!r}."
            )
        return 2, at

    def _name_intercept(self, key: str, value: Any) -> None:
        estimator = self.estimator
        if not estimator.fit_intercept:
            raise ValueError(f"prior[{key!r}] is that of an intercept, and fit_intercept=False: leave one of them out.")
        if isinstance(value, str) and value == "auto":
            return
        if not isinstance(value, Normal):
            raise ValueError(f"prior[{key!r}] must be a Normal of sksvi.priors or 'auto'; found {value!r}.")
        if not isinstance(estimator.intercept_precision, str):
            raise ValueError(
                f"prior names {key!r}, which intercept_precision={estimator.intercept_precision!r} gives a prior too: "
                "set intercept_precision='auto', or leave the intercept out of prior."
            )
        self.intercept = value

    def _check_flat(self) -> None:
        """Raise for a flat prior of levels, which a constant beside the intercept leaves undetermined."""
        numeric = np.ones(len(self.names), bool)
        if self.categories is not None:
            numeric[: self.categories.width] = self.categories.numeric
        for name, value, number in zip(self.names, self.coefficients, numeric, strict=True):
            if isinstance(value, str) and value == "flat" and not number:
                raise ValueError(
                    f"prior gives {name!r} a flat prior, and levels of a categorical column are determined beside the "
                    "intercept only under a proper one: give it a Normal, or set prior_precision='flat' without prior, "
                    "where first levels are the reference."
                )

    def check_target(self, likelihood: Any) -> None:
        """Coefficients of every target may have these priors."""

    def in_coordinates(self, columns: ColumnScaling, unit: float | Array) -> tuple[ColumnScaling, NamedPriors | None]:
        """Coordinates in which the named columns have a scale of their own for good, and the priors in these.

        `unit`: of the latents. Where every coefficient is "auto", all is as without names.
        """
        proper = np.array([isinstance(one, PROPER) for one in self.coefficients], bool)
        flat = np.array([isinstance(one, str) and one == "flat" for one in self.coefficients], bool)
        if not np.any(proper | flat):
            return columns, None
        given = [one if own else Normal() for one, own in zip(self.coefficients, proper, strict=True)]
        mean, std = np.array([one.location_scale for one in given], float).T
        # A standardised coefficient is in units of the spread of its column, which is the scale of that.
        relative = np.array([one.standardized for one in given], bool)
        columns = columns.with_scale((proper | flat) & ~relative, np.where(proper, 1.0 / std, 1.0))
        width = np.where(relative, SPREAD * unit, std * columns.scale)
        keys = np.where([one.mixture for one in given], self.keys, -1)
        used, mixture_of = np.unique(keys[keys >= 0], return_inverse=True)
        number = np.full(len(keys), -1)
        number[keys >= 0] = mixture_of
        return columns, NamedPriors(
            mean=np.where(proper, mean * columns.scale, 0.0),
            precision=np.where(flat, FLAT / np.square(unit), 1.0 / np.square(width)),
            learned=~(proper | flat),
            flat=flat,
            mixtures=tuple(list(self.estimator.prior.values())[k] for k in used),
            mixture_of=number if len(used) else None,
        )


def check_no_named_priors(estimator: Any) -> None:
    """Raise for priors by name beside ``covariance="low-rank"``.

    Raises
    ------
    ValueError
        Naming both parameters.
    """
    if estimator.prior is not None:
        raise ValueError(
            "prior with covariance='low-rank': one scale is for all coefficients there, chosen by leave-one-out. Set "
            "covariance='full' or 'diag', or leave prior out."
        )
