"""Warnings about a finished fit whose numbers do not show what is wrong: they are worded here and nowhere else.

A finding is one sentence: what was found, and what to do. Any estimator contributes its own in `BaseSVI._fit_warnings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtr

from sksvi._runtime import parallel
from sksvi._runtime.user import warn_user
from sksvi.estimators.checks import LEAST_SPREAD
from sksvi.estimators.targets import weighted_by_class
from sksvi.partitions.collections import is_collection
from sksvi.predictive import Predictive

Array = np.ndarray

#: What has a number per row beside X and y.
PER_ROW = ("sample_weight", "offset", "exposure")


def warn_all(warnings: Iterable[str | Warning]) -> None:
    """Issue each finding, a text as a `UserWarning`."""
    for found in warnings:
        warn_user(str(found), UserWarning if isinstance(found, str) else type(found))


def of_fit(estimator: Any, data: Any) -> Iterator[str]:
    """Warnings about the target of a fit, and about what its likelihood has learned of it."""
    likelihood = getattr(estimator, "likelihood_", None)
    if likelihood is not None:
        yield from of_target(likelihood, data.y)
        yield from likelihood.scales.warnings()


def of_target(likelihood: Any, y: Array) -> Iterator[str]:
    """Warning about a target without information: no event in any row, events in all that could have one, or one value.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,), or (n, 2) successes and failures
        Or every value that the n rows have.
    """
    y = likelihood.points(y)
    first = np.ravel(y[0])
    if likelihood.traits.ordered or (not np.all(y == y[0]) and not likelihood.traits.paired):
        return
    if not likelihood.traits.discrete and not likelihood.traits.classifies:
        yield (
            f"y is {first[0]:g} in every row: there is nothing to explain, and noise and effects were learned "
            "down to the least that a fit allows. Check the target."
        )
    else:
        what = one_sided(likelihood, y)
        if what:
            yield (
                f"{what} in every row: the data bound the prediction from one side only, the rest is prior, "
                "and they say nothing about columns or dispersion; their best fit is far away, so that `max_iter` may "
                "end the fit. Add rows in which the other happened, or fix the priors to what you know."
            )


def too_small(names: Sequence[str], spread: Array) -> Iterator[str]:
    """Warning about columns in a unit so large that their variances nearly underflow.

    Parameters
    ----------
    names : sequence of str
        What errors call the columns.
    spread : ndarray of shape (D,)
        Distance of the largest value from the smallest.
    """
    small = np.flatnonzero((spread > 0) & (spread <= LEAST_SPREAD))
    if len(small):
        more = f" (and {len(small) - 1} more)" if len(small) > 1 else ""
        yield (
            f"{names[small[0]]}{more} spreads over {spread[small[0]]:.3g}, whose square is hardly a number, so that "
            "its effect may be lost: give it in another unit."
        )


def all_at_one_end(model: Any, data: Any) -> bool:
    """Whether every target of the rows of a fit lies at one end of its support."""
    likelihood = getattr(model, "likelihood", None)
    return likelihood is not None and bool(one_sided(likelihood, data.y))


def one_sided(likelihood: Any, y: Array) -> str:
    """Description of targets that all lie at one end of their support; empty where they do not."""
    y = likelihood.points(y)
    if not likelihood.traits.paired:
        at_end = not likelihood.traits.ordered and y[0] in (likelihood.support.low, likelihood.support.high)
        return f"y is {y[0]:g}" if at_end and np.all(y == y[0]) else ""
    ends = ("no success", "no failure")
    return next((text for text, column in zip(ends, likelihood.outcomes(y), strict=True) if not np.any(column)), "")


#: Mean of weights that are no whole numbers from which they are hardly repetitions: intervals are half as wide as of 1.
MOST_REPEATED = 4.0
#: How much too narrow intervals are by weights from which on a fit says so: how scores vary over their curvature (the
#: sandwich of White 1980), where all rows, or those of a class, are alike.
LEAST_NARROW = 1.1


def of_weights(estimator: Any, y: Any, weight: Any) -> Iterator[str]:
    """Warnings about weights that are hardly numbers of rows: of a survey, inverse variances, or those of classes."""
    given = np.asarray(1.0 if weight is None or is_collection(weight) else weight, float)
    # Of measured targets and of rates weights that vary may be inverse variances and exposures.
    own = given.size > 1 and getattr(getattr(estimator, "likelihood_", None), "traits", None)
    counts = own and own.discrete and (own.classifies or own.ordered or not np.any(np.asarray(y, float) % 1.0))
    least, each = (LEAST_NARROW**2, np.sum(given**2) / given.sum()) if counts else (MOST_REPEATED, given.mean())
    if given.size > 1 and each > least and np.any(given != np.round(given)):
        yield (
            f"sample_weight says how many rows a row counts as: these {given.size} count as {given.sum():,.0f}, and "
            "intervals are as narrow as those of so many. If w = sample_weight has weights of a survey or of "
            "propensities, give w * w.sum() / (w**2).sum(); if inverse variances, w / w.mean()."
        )
    if (class_weight := getattr(estimator, "class_weight", None)) is None or is_collection(y) or np.ndim(y) != 1:
        return
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    rows = np.bincount(codes, weight)
    counted = np.asarray(weighted_by_class(class_weight, labels, np.arange(len(labels)), rows))
    p, each = counted / counted.sum(), counted / np.maximum(rows, LEAST_SPREAD)
    narrow = np.sqrt((p * each) @ ((1.0 - p) ** 2 + p @ p - p**2) / max(1.0 - p @ p, LEAST_SPREAD))
    if narrow > LEAST_NARROW:
        yield (
            f"class_weight counts rows as more than they are: intervals of coefficients have about {1.0 / narrow:.0%} "
            "of the width that they should have, and probabilities are not those of the data. Leave it out, and choose "
            "from which one on to decide (scikit-learn's TunedThresholdClassifierCV)."
        )


def separation(names: list[str], n: int) -> str:
    """Warning about perfect separation of labels by a combination of columns; `names`: the most important first."""
    return (
        f"a combination of columns, mostly {', '.join(names)}, tells the labels of all {n} rows apart (perfect "
        "separation): the data say that its coefficients are large and not how large, so that their size is the "
        "prior's. Look whether a column gives the label away; else set prior_precision to a number that says how "
        "large an effect can be, such as 1.0 on scaled columns."
    )


def other_order(**tables: Any) -> Iterator[str]:
    """Warning about tables with the same index in different orders: scikit-learn goes by position, pandas by label.

    And numbers per row whose dates are those of no earlier table.

    Parameters
    ----------
    **tables : table or array-like of the same rows, an index, or None
        By name; an index of another kind than all others says nothing.
    """
    earlier: dict[str, Any] = {}
    for name, own in ((name, labels_of(table)) for name, table in tables.items()):
        if own is None:
            continue
        if not any(index.equals(own) for index in earlier.values()):
            texts = (_misplaced(first, index, name, own) for first, index in earlier.items())
            yield from islice(filter(None, texts), 1)
        earlier[name] = own


def _misplaced(first: str, index: Any, name: str, own: Any) -> str:
    """Warning that rows of two tables, taken by position, have different labels; empty where there is none."""
    if _reordered(index, own):
        what, mend = "the same index in different orders", f"label, give {name}.loc[{first}.index]"
    elif name in PER_ROW and _otherwise_dated(index, own):
        what, mend = "different dates", f"date, give {name} of the dates of {first}"
    else:
        return ""
    row = int(np.argmax(np.asarray(index != own)))
    there, here = (labels[[row]].tolist()[0] for labels in (index, own))
    return (
        f"{first} and {name} have {what} (row {row} is {there!r} in {first} and {here!r} in {name}), and rows were "
        f"taken by their position. If they belong together by {mend}; if by position, {name}.to_numpy()."
    )


def labels_of(table: Any) -> Any:
    """The index of a frame or series, or an index itself, or None."""
    index = table if hasattr(table, "get_indexer") else getattr(table, "index", None)
    return index if hasattr(index, "get_indexer") else None


def _otherwise_dated(index: Any, own: Any) -> bool:
    """Whether two indices of as many dates hold others; those of two time zones, or kinds, are not compared."""
    dates = own.dtype == index.dtype and hasattr(own, "freq") and hasattr(own, "year")
    return bool(dates and len(own) == len(index) and not own.equals(index))


def _reordered(index: Any, own: Any) -> bool:
    """Whether two indices hold the same labels, each once, in different orders."""
    if len(own) != len(index) or own.equals(index) or not (own.is_unique and index.is_unique):
        return False
    return bool(np.all(index.get_indexer(own) >= 0))


# ---- counts and rates that vary more than their likelihood lets them
#: Probability by which chance may bring the excess of a warning, and factor by which intervals are then too narrow.
CHANCE, NARROWER = 1e-3, 1.0 / 0.9
#: The likelihood of counts that vary more than those of a Poisson.
OF_COUNTS = 'likelihood="negative-binomial"'


def may_vary_more(likelihood: Any, y: Array) -> bool:
    """Whether y can vary more than a likelihood with no dispersion of its own lets it.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,), or (n, 2) successes and failures
    """
    return bool(likelihood.traits.discrete and not likelihood.learned and likelihood.overdispersible(y))


def has_excess(likelihood: Any, y: Array) -> bool:
    """Whether the likelihood implements `excess`, the moments of squared residuals."""
    return likelihood.excess(y[:1], likelihood.mean(np.zeros(1))) is not None


class Dispersion(NamedTuple):
    """Sums over rows from which the dispersion follows, each row in proportion to what it says of the latents.

    The squares of Pearson residuals have a variance of 2 plus what counts are skewed by, 1/mean of a Poisson, which
    drowns all else where counts are small. What is left of a square when its regression on the residual is taken off,
    (y - mean)² - y of a Poisson, has the variance 2 mean² at any mean, and an estimated mean moves it by its leverage
    alone (Dean 1992, Journal of the American Statistical Association 87).

    excess, square, cube: squares of residuals beyond what the likelihood lets them be, with the second and third moment
    that chance gives it. information: variance of y less the part that the fit has followed.
    """

    excess: float = 0.0
    square: float = 0.0
    cube: float = 0.0
    information: float = 0.0

    @classmethod
    def of(
        cls, likelihood: Any, y: Array, f: tuple[Array, Array], leverage: Array, weight: Array | None, rates: bool
    ) -> Dispersion:
        """Dispersion sums of some rows.

        Parameters
        ----------
        likelihood : Likelihood
            With `excess`.
        y : ndarray of shape (n,), or (n, 2) successes and failures
        f : tuple of two ndarrays of shape (n,)
            Mean and variance of the latents.
        leverage : ndarray of shape (n,)
            Coefficients that each row determines, with its weight.
        weight : ndarray of shape (n,), or None
            Of a row that stands for k rows; where `rates`, what each count was divided by.
        rates : bool
            Whether y are counts divided by their weights.
        """
        mean = np.asarray(Predictive(likelihood, *f).mean(), float)
        weight = np.ones(len(mean)) if weight is None else np.asarray(weight, float)
        if rates:
            y, mean, weight = y * weight, mean * weight, np.ones(len(mean))
        excess, square, cube, variance = likelihood.excess(np.asarray(y, float), mean)
        safe = np.where(variance > 0, variance, 1.0)
        # A fitted mean takes its leverage from the square of a residual, of one trial nothing.
        followed = leverage * square / (2.0 * safe)
        # A weight of k is k rows that are alike; one that is no whole number is a factor of a single row.
        single = weight % 1 > 0
        second, third = (np.where(single, weight**power, weight) for power in (2, 3))
        return cls(
            float(weight @ excess + followed.sum()),
            float(second @ square),
            float(third @ cube),
            float(weight @ variance - leverage @ variance),
        )

    @property
    def factor(self) -> float:
        """Ratio of the variance of y to that under the likelihood, on average; 1 where the rows have no information."""
        return 1.0 + self.excess / self.information if self.information > 0 else 1.0

    @property
    def chance(self) -> float:
        """Probability of so much excess, or more, under the likelihood.

        By the gamma distribution of these moments, or the normal one where that has more above: the gamma's mass of
        rare counts that did not come lies at its lower end, where theirs is spread.
        """
        if not self.square > 0:
            return 1.0
        deviation = np.sqrt(self.square)
        z, skewness = self.excess / deviation, self.cube / deviation**3
        normal = float(ndtr(-z))
        if not skewness > 0:
            return normal
        shape = 4.0 / skewness**2
        return max(normal, float(gammaincc(shape, max(shape + np.sqrt(shape) * z, 0.0))))

    @property
    def matters(self) -> bool:
        """Whether the excess is significant, and large enough to make intervals noticeably too narrow."""
        return self.factor >= NARROWER**2 and self.chance < CHANCE


def dispersion(model: Any, q: Any, expect: Any, threads: int, rates: bool, data: Any) -> tuple[float, ...]:
    """`Dispersion` of the rows of a linear model at q, in one pass over them, under a likelihood that has `excess`.

    Parameters
    ----------
    model : LinearModel
        Without learned parameters of its likelihood, and without noise per row.
    q : dict
        With a block "weights".
    expect : Expectation
        Without draws.
    threads : int
    rates : bool
        Whether y are counts divided by their weights.
    data : Table
    """

    def one(rows: Any) -> Dispersion:
        batch = model.batch(data, rows)
        terms, part = model.terms_at(q, batch, expect, None, None), batch.data
        latents = part.on(terms.linear), terms.variance
        return Dispersion.of(model.likelihood, part.y, latents, -2.0 * terms.gamma * terms.variance, part.weight, rates)

    return parallel.summed(one, model.chunks(slice(0, len(data)), data), threads)


def varies_more(likelihood: Any, name: Any, found: Dispersion) -> str:
    """Warning about y that varies more than its likelihood allows; `name`: what the user calls the likelihood."""
    wider = float(np.sqrt(found.factor))
    remedy = (
        "give each row an effect of its own, GMERegressor(noise=True), or the rows that share one a column in its "
        "groups"
        if likelihood.traits.paired
        else f"say {OF_COUNTS}, or give each row an effect of its own, GMERegressor(noise=True)"
    )
    return (
        f"y varies {found.factor:.3g} times as much as likelihood={name!r} lets it: 90 % intervals of coefficients "
        f"have {1.0 / wider:.0%} of the width that they should have ({wider:.3g} times as wide is right). If no column "
        f"is missing that explains it, {remedy}."
    )
