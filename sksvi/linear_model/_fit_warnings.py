"""Warnings after the fit of a linear model: separated labels, streams of one target value, priors that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from sksvi.estimators import fit_warnings
from sksvi.estimators.fit_warnings import Dispersion, dispersion, has_excess, may_vary_more, varies_more
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.inference.stream_state import StreamState
from sksvi.inference.wide_stream import WideStream
from sksvi.linear_model._columns import ColumnStats
from sksvi.linear_model._prior import covariance_of
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.rows import Rescaled
from sksvi.models.linear.two_predictors import TwoPredictors

Array = np.ndarray

#: Columns named of a direction that separates labels, and how large they are at least, beside the largest.
LARGEST, SHARE = 3, 0.1
#: Prior standard deviations between an intercept and zero from which a user is told.
PINNED = 5.0
#: Share of a coefficient that the data must determine where the prior is flat.
DETERMINED = 0.99
#: Share of the intercept's deviation that columns without variation make up, from which a user is told, and how many of
#: them are named.
WIDENED, MOST_CONSTANTS = 0.1, 5
#: Standard deviation of a coefficient of a second latent, a logarithm or a logit on the spread of its column, beyond
#: which nothing is known of it.
WIDEST = 5.0
#: Standard deviations between an estimate and a fixed prior from which a user is told.
CONTRADICTED = 5.0
#: Share of a prior's precision that what the data say is rounding below.
ROUNDED = 1e-6
#: Ratio of spreads among columns from which a fixed prior is questioned.
UNEVEN = 100.0
#: What the variance of a coefficient lacks where noise is uneven, and its standard errors, from which a user is told;
#: residuals, in squared units of y, that are rounding and a prior's pull; and the share of them that a column explains
#: from which a prior has shrunk its effect away.
LACKING, CLEAR, EXACT, EXPLAINED = 1.21, 6.0, 1e-9, 0.01
#: Rows that tell at most.
MOST_ROWS = 4096


def glm_warnings(estimator: Any, problem: Problem, state: State) -> Iterator[str]:
    """Warnings about a finished fit that other models do not have."""
    yield from row_identifiers(estimator, problem)
    if covariance_of(estimator) != "low-rank":  # where one scale is for columns as they are
        yield from uneven(estimator)
        yield from contradicted(estimator, cast(LinearModel, problem.model), state.q)
    stats = estimator._encoding.columns.stats
    if stats is not None:
        yield from fit_warnings.too_small(estimator._coordinate_names(), stats.high - stats.low)
    yield from pinned(estimator)
    yield from constants(estimator, len(problem.data))
    yield from separated(estimator, problem, state)
    yield from more_variance(estimator, problem, state)
    yield from uneven_noise(estimator, problem, state)


def row_identifiers(estimator: Any, problem: Problem) -> Iterator[str]:
    """Categorical columns with as many levels as there are rows."""
    own, n = estimator._encoding.categorical, max(len(problem.data), problem.data.total_weight)
    for j, size in () if own is None else zip(own.columns, own.sizes, strict=True):
        if size >= n:
            yield (
                f"column {estimator._names_of_columns()[j]!r} of X has {size:,} levels in {n:,.0f} rows, "
                "as the name of a row has: its coefficients say nothing of other rows. Leave the column out."
            )


def more_variance(estimator: Any, problem: Problem, state: State) -> Iterator[str]:
    """Counts that vary more than their likelihood lets them, about a fit that has found its means."""
    model, y, q = cast(LinearModel, problem.model), cast(Table, problem.data).y, state.shown
    likelihood = model.likelihood
    # Where columns outnumber rows, residuals do not tell what y varies from what the rows leave open of f.
    settled = state.converged and "noise" not in q and model.traits.path is None
    if not settled or not may_vary_more(likelihood, y) or not has_excess(likelihood, y):
        return
    rates = not likelihood.traits.paired and bool(np.any(y % 1))
    one = partial(dispersion, model, q, problem.exact, problem.threads, rates)
    found = Dispersion(*problem.data.reduced(one))
    if found.matters:
        yield varies_more(likelihood, estimator.likelihood, found)


def uneven_noise(estimator: Any, problem: Problem, state: State) -> Iterator[str]:
    """A column far from whose mean Gaussian noise is larger, which its coefficient's interval knows nothing of.

    Squares of residuals and of the column's distances from its mean (Koenker 1981, Journal of Econometrics 17): the
    mean of their product over the product of their means is what the variance of the coefficient lacks.
    """
    model, data = cast(LinearModel, problem.model), cast(Table, problem.data)
    plain = data.at_hand and data.weight is None and isinstance(data.X, np.ndarray | Rescaled)
    if not (state.converged and plain) or model.traits.path is not None or model.likelihood.noise_variance is None:
        return
    batch = model.batch(data.portion(min(len(data), MOST_ROWS), 0), slice(0, MOST_ROWS))
    columns, rows = batch.rows.dense()[:, : model.n_features].astype(float), batch.data
    residual = (rows.y - rows.on(batch.rows.dot(state.shown["weights"].mean))) / model.unit
    off = columns - columns.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a column or residuals without variation
        off /= np.abs(off).max(0)
        r, x = np.square(residual), np.square(off)
        shrunk = np.square(residual @ off) / (r.sum() * x.sum(0)) > EXPLAINED
        lacking = r @ x / (r.sum() * x.mean(0))
        error = np.std(x, axis=0) / x.mean(0) * np.std(r) / r.mean() / np.sqrt(len(r))
        clear = np.where((lacking > LACKING) & ~shrunk, (lacking - 1.0) / error, 0.0)
    most = int(np.argmax(clear))
    if clear[most] > CLEAR and r.mean() > EXACT:
        yield (
            f"noise is larger where {estimator._coordinate_names()[most]} is far from its mean: the interval of its "
            f"coefficient has about {lacking[most] ** -0.5:.0%} of the width that it should have. If no curve in it is "
            "missing that explains this, name it in scale_features, or take the logarithm of y if it varies in "
            "proportion to its size."
        )


def stream_warnings(estimator: Any, data: Table, first: bool) -> Iterator[str]:
    """Warning, once, that rows of one target value were summarized before another value came."""
    fitted, stream_state = estimator._fitted, estimator.state_.messages
    before = data.y[:1] if first else fitted.only_target
    only = before if len(before) and np.all(data.y == before) else data.y[:0]
    alone = len(only) > 0 and isinstance(stream_state, StreamState | WideStream) and not stream_state.complete
    one_sided = alone or (fitted.one_sided_rows and not first)
    one = (data.y[:0] if alone else only).astype(float)
    estimator._fitted = replace(fitted, only_target=one, one_sided_rows=one_sided)
    if one_sided:  # a portion may have settled where the stream has not: some rows are read as they were at first
        estimator.state_, estimator.converged_ = replace(estimator.state_, converged=False), False
    if alone:
        yield (
            f"y is {target_name(estimator, only[0])} in all {estimator.n_samples_seen_:g} rows of the stream so far, "
            f"and not all of them are kept (stream_sample={estimator.stream_sample!r}): what they say of the columns "
            "stays as it is before other values come, and may leave the fit several standard deviations off. Shuffle "
            "the rows, begin with a chunk that has other values too, or let stream_sample hold all rows until they "
            "come."
        )


def target_name(estimator: Any, value: Any) -> str:
    """What a user calls a value of the encoded target."""
    names = getattr(estimator, "classes_", getattr(estimator, "levels_", None))
    if names is not None:
        return repr(np.asarray(names)[int(value)].item())
    return f"{value:g}" if np.ndim(value) == 0 else str(value.tolist())


def separated(estimator: Any, problem: Problem, state: State) -> Iterator[str]:
    """Labels told apart, by a prior without a size; few rows are told apart by chance columns (Cover 1965)."""
    model, data = cast(LinearModel, problem.model), problem.data
    free = model.width * max(1, model.likelihood.n_latents - 1)
    if estimator._prior_kind == "fixed" or len(data) <= 2 * free or not model.separates(state.q, data):
        return
    named = largest(estimator, problem, state)
    if named:
        yield fit_warnings.separation(named, len(data))


def largest(estimator: Any, problem: Problem, state: State) -> list[str]:
    """The coefficients that move the latents most, none of them by far less than the first."""
    model = cast(LinearModel, problem.model)
    one = partial(_column_stats, estimator._encoding.fixed_part, model.n_fixed)
    spread = problem.data.reduced(one, ColumnStats.merged).spread
    size = np.abs(model.by_latent(state.q["weights"].mean)[:, : model.n_fixed]).max(axis=0) * spread
    most = np.argsort(-size, kind="stable")[:LARGEST]
    return [estimator._coordinate_name(int(j)) for j in most if size[j] > SHARE * size[most[0]]]


def check_determined(estimator: Any, problem: Problem, state: State) -> None:
    """Raise where the data do not determine all coefficients under a flat prior; names the least determined one."""
    named = estimator._encoding.named
    if estimator._prior_kind != "flat" and (named is None or not named.flat.any()):
        return
    if estimator._fitted.subspace is not None:
        raise ValueError(
            f"prior_precision={estimator.prior_precision!r} is a flat prior, but X has more columns than rows: the "
            "data do not determine their coefficients. Choose prior_precision='auto'."
        )
    model, weights = cast(LinearModel, problem.model), state.q["weights"]
    prior = model.prior(state.q)["weights"]
    alone = prior.structure.diagonal(prior.precision)
    precision, variance = (model.by_latent(part) for part in (alone, weights.variance))
    if len(variance) > 1:  # a shift of all classes changes nothing: what is asked for are their differences
        inner: Any = estimator.posterior_["weights"].inner
        variance = np.stack([inner.contrast(k, 0).variance for k in range(1, len(variance))])
        precision = 1.0 / (1.0 / precision[1:] + 1.0 / precision[:1])
    share = (1.0 - precision * variance).min(axis=0)
    share = np.append(share[: model.n_fixed], share[-1:] if estimator.fit_intercept else [])
    if named is not None:  # the others have a proper prior
        share = np.where(named.flat, share[: model.n_fixed], 1.0)
    least = None
    if len(share) and share.min() < DETERMINED:
        least = estimator._coordinate_name(int(np.argmin(share)))
    elif (
        named is None
        and model.n_fixed + estimator.fit_intercept == model.width
        and model.separates(state.q, problem.data)
    ):
        # Larger is better without end, however far the passes went.
        least = next(iter(largest(estimator, problem, state)), None)
    if least is not None:
        raise undetermined(estimator, least)


def check_bounded(estimator: Any, model: Any, state: State) -> None:
    """Raise where passes widen a second latent without end under a flat prior; names the coefficient.

    Where counts have no more zeros than their likelihood expects, the probability of further ones runs to 0, and its
    logit to minus infinity: there is no posterior, and passes would go on.
    """
    if estimator._encoding.second is None or estimator._prior_kind != "flat":
        return
    of_second = cast(TwoPredictors, model).of_second
    std = np.sqrt(state.q["weights"].variance[of_second])
    if np.any(std > WIDEST):
        raise undetermined(estimator, estimator._coordinate_name(int(of_second[np.argmax(std)])))


def undetermined(estimator: Any, least: str) -> ValueError:
    """The error of a flat prior, or one that is by name, under which data do not determine this coefficient."""
    given, remedy = f"prior_precision={estimator.prior_precision!r}", "choose prior_precision='auto'"
    if estimator.prior is not None:
        given, remedy = "prior='flat' of a column", "give it a Normal"
    levels = ", and levels without rows (.cat.remove_unused_categories())"
    unused = "" if estimator._encoding.categorical is None else levels
    second = estimator._encoding.second
    zeros = "" if second is None or second.kind != "zero" else ", and zero_features where there is no excess of zeros"
    return ValueError(
        f"{given} is a flat prior, but the data do not determine the coefficient of {least}: drop columns that others "
        f"explain or that separate the labels{unused}{zeros}, or {remedy}."
    )


def uneven(estimator: Any) -> Iterator[str]:
    """Warning of one fixed prior precision for columns on different scales."""
    spreads = estimator._encoding.spreads
    if spreads is None or not np.any(spreads > 0):
        return
    some = np.flatnonzero(spreads > 0)
    low, high = (some[int(f(spreads[some]))] for f in (np.argmin, np.argmax))
    if spreads[high] > UNEVEN * spreads[low]:
        names = estimator._coordinate_names()
        yield (
            f"prior_precision={estimator.prior_precision:g} is one prior for columns on different scales: "
            f"{names[high]} spreads over {spreads[high]:.3g}, {names[low]} over {spreads[low]:.3g}. "
            "Set prior_precision='auto', or scale the columns."
        )


def constants(estimator: Any, n: int) -> Iterator[str]:
    """Columns that do not vary, where they leave the intercept, which is f at 0 of them, uncertain."""
    stats = estimator._encoding.columns.stats
    if stats is None or not estimator.fit_intercept or n < 2:
        return
    same = np.flatnonzero((stats.low == stats.high) & (stats.low != 0.0))
    if not len(same):
        return
    weights: Any = estimator.posterior_["weights"]
    at = np.zeros((2, weights.mean.shape[-1]))
    at[:, -1], at[1, same] = 1.0, stats.low[same]
    plates = [weights] if weights.mean.ndim == 1 else [weights[k] for k in range(len(weights.mean))]
    if not any(np.subtract(*np.sqrt(plate.spread(at))) > WIDENED * plate.std[-1] for plate in plates):
        return
    names, values = estimator._coordinate_names(), stats.low[same]
    named = ", ".join(f"{names[j]} is {value:g}" for j, value in zip(same[:MOST_CONSTANTS], values, strict=False))
    more = f" (and {len(same) - MOST_CONSTANTS} more)" if len(same) > MOST_CONSTANTS else ""
    yield (
        f"{named}{more} in every row: the data say nothing of the coefficient of a column that does not "
        "vary. It keeps its prior, and the intercept, which is f where the column is 0, takes that uncertainty; "
        "predictions at the same value are as sure as without the column. Leave it out; a column of ones in the "
        "place of an intercept needs fit_intercept=False."
    )


def pinned(estimator: Any) -> Iterator[str]:
    """An absolute prior of the intercept that the data contradict."""
    fixed = not isinstance(estimator.intercept_precision, str) and estimator.fit_intercept
    if not fixed or estimator.likelihood_.traits.discrete:
        return
    pull = float(np.max(np.abs(estimator.intercept_))) * np.sqrt(estimator.intercept_precision)
    if pull >= PINNED:
        yield (
            f"the intercept lies {pull:.1f} standard deviations of its prior from zero, which pulls it there: "
            f"set intercept_precision='auto', or lower {estimator.intercept_precision:g}."
        )


def contradicted(estimator: Any, model: LinearModel, q: dict[str, Any]) -> Iterator[str]:
    """One fixed prior precision that the data contradict (Box 1980): it shrinks what they say.

    A posterior N(m, s²) under the prior N(0, 1/α) is that of an estimate m / (d s²) of precision d = 1/s² - α, whose
    variance about zero is 1/α + 1/d if the prior is right. More columns than rows leave no such coordinates.
    """
    precision, spreads = estimator.prior_precision, estimator._encoding.spreads
    if spreads is None or not spreads.size or estimator._fitted.subspace is not None:
        return
    mean, variance = (model.by_latent(part)[:, : spreads.size] for part in (q["weights"].mean, q["weights"].variance))
    own = 1.0 / variance - precision
    some = own > ROUNDED * precision
    own = np.where(some, own, 1.0)
    away = np.where(some, np.abs(mean) / (own * variance) / np.sqrt(1.0 / precision + 1.0 / own), 0.0)
    worst = np.argmax(away) % spreads.size
    if away.max() >= CONTRADICTED:
        yield (
            f"prior_precision={precision:g} expects coefficients within a few times {precision**-0.5:.2g}, the data "
            f"contradict it, most of all for {estimator._coordinate_names()[worst]}: the prior shrinks what matters. "
            "Set prior_precision='auto', or scale y and the columns."
        )


def _column_stats(fixed_part: Callable[[Any], Any], n_fixed: int, data: Table) -> ColumnStats:
    return ColumnStats.of(fixed_part(data.X), data.weight, np.zeros(n_fixed))
