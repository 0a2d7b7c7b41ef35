"""What estimators refuse, show and need for fits at the mode judged by leave-one-out, ``covariance="low-rank"``."""

from __future__ import annotations

from typing import Any

from sksvi._runtime import memory
from sksvi.estimators.base import BatchRule
from sksvi.estimators.published import with_postponed
from sksvi.linear_model._integrated import FittedWeights
from sksvi.linear_model._named_priors import check_no_named_priors
from sksvi.linear_model._prior import covariance_of, prior_kind
from sksvi.models.data import Table, nbytes
from sksvi.models.linear.cavity import FEW_DIRECTIONS, directions_of
from sksvi.models.linear.row_matrices import affordable
from sksvi.models.linear.wide_rows import filled_columns

#: Numbers per coefficient that a fit holds at its peak (L-BFGS: two for each of five corrections and six more; three
#: fits of the path; eight directions and what is formed of them), those of a column without entries (three fits), and
#: per row and class.
PER_COEFFICIENT, PER_EMPTY, PER_LATENT = 48, 10, 16
#: Numbers per column and row of each direction more: itself, and two that are formed of it.
PER_DIRECTION = 3
#: Numbers per coefficient that a stream has: several q, and what is shown.
PER_STREAMED = 14
#: Matrices of rows that few rows take at a time, beside one of each class.
SQUARES = 6
#: Why there is no bound.
NO_BOUND = (
    "lower_bound_: covariance='low-rank' is fitted at the mode and judged by leave-one-out, which bounds no evidence. "
    "Compare such fits by loo_, their leave-one-out loss; covariance='full' and 'diag' have a bound."
)


#: Attributes that nodes of hyperparameters are looked for first, and of an estimator before its fit.
POSTPONED = frozenset(("_fitted", "posterior_", "coef_", "coef_std_", "intercept_", "prior_precision_", "lower_bound_"))
NOTHING_FITTED = FittedWeights()


def attribute_or_reason(self: Any, name: str) -> Any:
    """``__getattr__``: what a chunk left to be found, or why there is no bound."""
    own = with_postponed(self) if name in POSTPONED else vars(self)
    if name in own:
        return own[name]
    if name == "lower_bound_" and "state_" in own:
        raise AttributeError(NO_BOUND)
    # The error of a property that raised one is its own.
    return NOTHING_FITTED if name == "_fitted" else object.__getattribute__(self, name)


def all_rows(self: Any) -> BatchRule | None:
    """Rows of a step: leave-one-out looks at all."""
    return BatchRule() if covariance_of(self) == "low-rank" else None


def of_low_rank(name: str, doc: str) -> property:
    """Attribute of a fit with ``covariance="low-rank"``, from its `FittedWeights`."""

    def get(self: Any) -> float:
        value = getattr(self._fitted, name)
        if value is None:
            raise AttributeError(f"{name}_ is there after a fit with covariance='low-rank'.")
        return float(value)

    return property(get, doc=doc)


def streams(estimator: Any) -> bool:
    """Whether a regressor has `partial_fit`; an AttributeError says why not."""
    if covariance_of(estimator) == "low-rank":
        raise AttributeError(
            "covariance='low-rank' of a regressor has no partial_fit: noise is learned from all rows at hand. Fit all "
            "of them, or set covariance='full' or 'diag', whose streams take any number of rows."
        )
    return True


def check_low_rank(estimator: Any, goes_on: bool) -> None:
    """Raise for a prior that ``covariance="low-rank"`` has no use for, before rows are read.

    Raises
    ------
    ValueError
        Naming both parameters.
    """
    if (covariance_of(estimator) if goes_on else estimator.covariance) != "low-rank":
        return
    check_no_named_priors(estimator)
    if not estimator._target_class.has_mode(estimator):
        raise ValueError(
            f"likelihood={estimator.likelihood!r} with covariance='low-rank': the fit is at the mode and judged by "
            "leave-one-out, which needs a log-concave likelihood without cut points to be learned. Set "
            "covariance='full' or 'diag', or another likelihood."
        )
    kind = prior_kind(estimator.prior_precision)
    if kind in ("ard", "flat", "groups") or (kind == "fixed" and hasattr(estimator.prior_precision, "__len__")):
        raise ValueError(
            f"prior_precision={estimator.prior_precision!r} with covariance='low-rank': one scale is for all "
            "coefficients there. Set prior_precision='auto' or a positive number, or covariance='full' or 'diag'."
        )


def check_memory(estimator: Any, data: Table) -> None:
    """Raise where a fit to these rows exceeds the memory that is available."""
    (n, d), k = data.X.shape, estimator.likelihood_.n_latents
    filled = filled_columns(data.X)
    some = d if filled is None else len(filled)
    numbers = float(k) * (PER_COEFFICIENT * (some + 1) + PER_EMPTY * (d - some) + PER_LATENT * n)
    more = directions_of(n, max(some, 1), getattr(data.X, "nnz", float(n) * d), few=False) - FEW_DIRECTIONS
    numbers += PER_DIRECTION * max(more, 0) * float(some + n)
    if affordable(n, k):  # variances by matrices of rows
        numbers += (SQUARES + (k if k > 1 else 0)) * float(n) ** 2
    what = f"covariance='low-rank' of {d:,} coefficients{f' in each of {k:,} classes' if k > 1 else ''}"
    remedy = "take fewer columns (HashingVectorizer, max_features), or fit the classes in groups"
    memory.need(8.0 * numbers + (nbytes(data.X) if data.at_hand else 0.0), what, remedy)


def check_memory_of_chunk(estimator: Any, data: Table) -> None:
    """Raise where what a stream has of all columns exceeds the memory that is available."""
    (_, d), k = data.X.shape, estimator.likelihood_.n_latents
    what = f"a stream of {d:,} coefficients{f' in each of {k:,} classes' if k > 1 else ''} (covariance='low-rank')"
    memory.need(8.0 * PER_STREAMED * float(k) * (d + 1), what, "take fewer columns (HashingVectorizer, n_features)")
