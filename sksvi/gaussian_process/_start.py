"""Before a fit of a Gaussian process: equal rows merged, the first kernel, noise and bounds that make no sense."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.ascent import ascend
from sksvi.likelihoods.scales import weighted_moments
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import JITTERS, log_density, log_evidence
from sksvi.models.gp.inducing import LEAST_ROWS, ROWS_PER_CENTRE, uniforms
from sksvi.models.gp.integrated import CANDIDATES, EXACT_ROWS, MANY_ROWS
from sksvi.models.gp.sparse import CACHED_NUMBERS
from sksvi.models.linear.glm import best_constant

Array = np.ndarray

#: Rows up to which the optimal bound is computed, and those up to which equal rows are merged.
OPTIMAL_ROWS, MERGED_ROWS = 5000, 2**16
#: Unit of the inducing inputs, in standard deviations of their column: how far the search moves them at first.
INPUT_UNIT = 3.0
#: Distance in these units at which an inducing point is a row.
AT_ROW = 1e-6
#: Rows that say how short the first lengths are, about, and of many a fifth up to so many; shares of f in the variance,
#: and thirds of lengths.
SAMPLE, MOST_SAMPLED, SHARES, THIRDS = 500, 1000, (0.1, 0.4, 0.8, 0.97), 4
#: Nats by which shorter lengths must be better, and share of what they explain that explains a part of it.
CLEARLY, PART = 5.0, 0.1
#: Features up to which each has a length scale, and over or under the median spread, those of features of one unit.
FEW_FEATURES, ONE_UNIT = 8, 3.0
#: Gain at which a search ends, its looks, and e-folds that it may go; least curvature of a row, relative to the mean.
ENOUGH, LOOKS, WIDEST, LEAST_CURVATURE = 0.3, 40, 6.9, 0.5


def refused(what: str) -> str:
    """Why the optimal bound cannot take a part of the rows."""
    size = BETWEEN_ROWS * 8 * OPTIMAL_ROWS**2 / 2**30
    return (
        f"bound='optimal' is no sum over rows and cannot take {what}: it needs all rows at once, {size:.1f} GB for "
        f"{OPTIMAL_ROWS} of them. Choose bound='simple', 'v1' or 'v2'."
    )


def lengths_per_feature(spread: Array) -> Array:
    """Length scales (D,) at which rows are neither equal nor unrelated, from standard deviations; 1 of constants."""
    return np.sqrt(max(int(np.count_nonzero(spread)), 1)) * np.where(spread > 0, spread, 1.0)


def default_kernel(likelihood: Any, data: Table, lengths: Array) -> Any:
    """Scaled RBF with these length scales, one or one per feature; behind a link it is about a constant."""
    if likelihood.traits.ordered:  # whose cut points are where f is
        return kernels.scaled_rbf(1.0, lengths)
    if not likelihood.traits.additive:
        constant = best_constant(likelihood, data) if likelihood.n_latents == 1 else 0.0
        return kernels.about_constant(kernels.scaled_rbf(1.0, lengths), constant)
    away = likelihood.points(data.y) - (0.0 if data.offset is None else data.offset)
    return kernels.scaled_rbf(float(np.average(np.square(away), weights=data.weight)) or 1.0, lengths)


def first_kernel(likelihood: Any, data: Table) -> Any:
    """The default kernel: a length scale per feature, or one for all of many, of which few labels say too little.

    One is for features of about one unit, and where it explains some rows better, as it does pixels.
    """
    spread = spread_of(data)
    each, varying = default_kernel(likelihood, data, lengths_per_feature(spread)), spread[spread > 0]
    if len(varying) <= FEW_FEATURES:
        return each
    common = default_kernel(likelihood, data, np.array([np.linalg.norm(spread)]))
    apart = np.abs(np.log(varying / np.median(varying))).max() > np.log(ONE_UNIT)
    return max((each, common), key=lambda one: max(evidences(one, likelihood, data)[-1])) if apart else common


def shortened(kernel: Any, likelihood: Any, data: Any) -> Any:
    """The scaled RBF, with other lengths where these have clearly more evidence of a sample than those that it has.

    Between one wave in all rows and many the evidence has a valley, beyond which a search ends at noise alone. The
    kernel stays where its lengths explain as much as shorter ones, or a part of it and a search from there finds it.
    """
    rows, targets, alone, values = evidences(kernel, likelihood, data)
    part, start = kernels.varying_part(kernel), np.concatenate([[0.0], kernel.theta[1:], [0.0]])
    best, clear = int(np.argmax(values)), max(values) - CLEARLY
    explains = values[0] >= max(clear, alone + CLEARLY)
    partly = values[0] - alone > PART * (values[best] - alone) and clear > alone
    if explains or not targets or (partly and _climbed(part, start, targets, clear)[1] > clear):
        return kernel
    # Where f varies fast along some features no length of all says much: a third of them leads to those of each.
    shorter = (best if clear > alone else 1) * np.log(3.0)
    start[1:-1] -= shorter * (np.ptp(rows.X, axis=0) > 0) if len(start) > 3 else shorter
    end, value = _climbed(part, start, targets, np.inf)
    better = value > max(values[0], alone) + CLEARLY
    return kernel.clone_with_theta(np.append(kernel.theta[0], end[1:-1])) if better else kernel


def evidences(kernel: Any, likelihood: Any, data: Any) -> tuple[Table, list[Table], float, list[float]]:
    """Some rows, as they are and as measured, and log evidence, nats, of noise alone and of ever shorter lengths."""
    share = max(SAMPLE, min(len(data) // 5, MOST_SAMPLED)) / len(data)
    rows = data.reduced(partial(_sampled, share), Table.concatenated)
    n, targets, part = len(rows), as_measured(likelihood, rows), kernels.varying_part(kernel)
    R = kernels.cross(part.clone_with_theta(np.append(0.0, kernel.theta[1:])), rows.X, rows.X)

    def evidence(share: float) -> float:
        found = [log_density(share * R, one, 1.0 - share) for one in targets]
        return sum(value + 0.5 * (square - n * (1.0 + np.log(square / n))) for value, square in found)  # best variance

    alone, values = evidence(0.0), list[float]()
    while not values or (len(values) <= THIRDS and R.sum() > n + 1.0):  # while rows have neighbours
        values.append(max(map(evidence, SHARES)))
        R[R < np.finfo(float).eps] = 0.0
        R = R * R * R
        R = R * R * R  # of a third of the length
    return rows, targets, alone, values


def _sampled(share: float, data: Any) -> Table:
    """About this share of rows, the same ones wherever they lie."""
    return data.take(np.flatnonzero(uniforms(0, getattr(data, "first", 0), len(data)) < share))


def as_measured(likelihood: Any, data: Table) -> list[Table]:
    """What Newton's step from f = 0 regresses on, of each latent, in units of its spread; none of rows without any.

    Weights are relative. A row that bends less than others is nearer to 0 than it would be with a weight of its own.
    """
    latents = np.zeros((len(data), likelihood.n_latents))
    _, slope, bend = likelihood.derivatives(data.y, data.on(latents if latents.shape[1] > 1 else latents[:, 0]))
    own = np.ones(len(data)) if data.weight is None else data.weight
    bend = -np.reshape(bend, latents.shape).mean(axis=1)
    curvature = np.maximum(bend, LEAST_CURVATURE * np.average(np.maximum(bend, 0.0), weights=own))
    if not (np.all(curvature > 0) and np.all(np.isfinite(slope)) and np.all(np.isfinite(curvature))):
        return []
    weight = own * curvature / np.mean(own * curvature)
    y = np.reshape(slope, latents.shape) / curvature[:, None]
    y -= np.average(y, axis=0, weights=weight)
    spread = np.sqrt(np.average(np.square(y), axis=0, weights=weight))
    return [Table(data.X, one / unit, weight) for one, unit in zip(y.T, spread, strict=True) if unit > 0]


def _climbed(kernel: Any, start: Array, targets: list[Table], clear: float) -> tuple[Array, float]:
    """Parameters and log evidence where a search ends that begins at the kernel's and log noise, or above `clear`."""

    def look(x: Array) -> tuple[float, Array]:
        here, noise = kernel.clone_with_theta(x[:-1]), np.exp(x[-1])
        values, own, in_noise = zip(*(log_evidence(here, one, noise) for one in targets), strict=True)
        return sum(values), np.append(np.sum(own, axis=0), noise * sum(in_noise))

    box = list(zip(start - WIDEST, start + WIDEST, strict=True))
    return ascend(look, start, box, lambda value: value > clear, lambda _: ENOUGH, LOOKS)


def at_rows(points: Array, data: Any, unit: Array, inducing: Any) -> Array:
    """Which inducing points are rows of the data, (M,); of rows that are not at hand, which were chosen among them."""
    from scipy.spatial import cKDTree

    if not data.at_hand:
        return np.full(len(points), isinstance(inducing, str) and inducing == "random")
    distance, _ = cKDTree(data.X / unit).query(points / unit, distance_upper_bound=AT_ROW, p=np.inf)
    return np.isfinite(distance)


def first_mean(likelihood: Any, at: Array, targets: Table) -> float:
    """The constant part of f: the mean of what is measured, the rate of all that is counted; labels and levels: 0."""
    if likelihood.traits.additive:
        return weighted_moments(at, targets.weight)[0]
    return 0.0 if likelihood.traits.classifies or likelihood.traits.ordered else best_constant(likelihood, targets)


def centred(mean: float, data: Table) -> Table:
    """The constant part of f as an offset."""
    if not mean:
        return data
    offset = np.zeros(len(data)) if data.offset is None else data.offset
    return replace(data, offset=offset + mean)


def spread_of(data: Table) -> Array:
    """Standard deviation of each column, (D,); 0 of a constant one."""
    mean = np.average(data.X, axis=0, weights=data.weight)
    spread = np.sqrt(np.average(np.square(data.X - mean), axis=0, weights=data.weight))
    spread[np.all(data.X == data.X[:1], axis=0)] = 0.0  # whatever the mean of a constant column rounds to
    return spread


def targets_and_spread(data: Table) -> tuple[Table, Array]:
    """Targets without their columns, and how these vary."""
    return replace(data, X=np.empty((len(data), 0))), spread_of(data)


def hyperparameters(kernel: Any, columns: Any = None) -> tuple[list[str], list[float]]:
    """Names and values of a kernel's numbers, fixed ones too; those with one per column are named by `columns`."""
    names, values = [], []
    ends = Counter(part.name.rpartition("__")[2] for part in kernel.hyperparameters)
    for part in kernel.hyperparameters:
        value = np.ravel(kernel.get_params()[part.name])
        end = part.name.rpartition("__")[2]
        if len(value) == 1:
            names.append(part.name)
        elif columns is None:
            names += [f"{part.name}[{j}]" for j in range(len(value))]
        else:  # the path to a part of the kernel only where two parts have numbers of that name
            names += [f"{end if ends[end] == 1 else part.name}({column})" for column in columns]
        values += value.tolist()
    return names, values


def distinct(data: Table) -> tuple[Table, Array]:
    """Equal rows as one row with the sum of their weights, sorted, and where each row of `data` is found there.

    Equal rows have one latent, so that the fit is smaller; repeats and weights share their bits this way.
    """
    columns = [data.X, data.y] if data.offset is None else [data.X, data.y, data.offset]
    _, first, where = np.unique(np.column_stack(columns), axis=0, return_index=True, return_inverse=True)
    where = where.ravel()
    weight = np.ones(len(data)) if data.weight is None else data.weight
    order = np.lexsort((weight, where))
    total = np.add.reduceat(weight[order], np.searchsorted(where[order], np.arange(len(first))))
    return replace(data.take(first), weight=total), where


def merged(data: Table) -> Table:
    """Equal rows as one row, where there are not too many rows to sort; no weights where each is one."""
    if len(data) > MERGED_ROWS:
        return data
    data, _ = distinct(data)
    return replace(data, weight=None) if np.all(data.weight == 1.0) else data


def noiseless(value: Any, likelihood: Any) -> None:
    """An error where a noise variance is given to a likelihood that has none."""
    if not isinstance(value, str):
        raise ValueError(
            f"noise_variance={value} is for likelihood='gaussian'; found {likelihood!r}: leave noise_variance='auto', "
            "and give a scale that this likelihood has to its instance."
        )


def checked_noise(value: Any) -> Any:
    """The noise variance as the likelihood takes it."""
    if not isinstance(value, str) and not value > 0:
        raise ValueError(
            f"noise_variance == {value}, must be positive: without noise duplicated rows could not differ in y, and "
            f"the jitter that the kernel matrix gets where it needs it (none, else {JITTERS[1]:g} to {JITTERS[-1]:g} "
            "of its mean diagonal) is no noise. For data without noise give a small one, such as 1e-6 of the variance "
            "of y."
        )
    return value


#: Matrices of the inducing values' covariance; of each latent's alone where q's is diagonal.
COVARIANCES, OF_LATENTS = 24.0, 12.0
#: Arrays of rows by inducing points: three places of the search with k_w and h each, and one of the gradient; of a
#: chunk of them where rows are too many to be kept; distances of k-means.
ROWS, CHUNKS, DISTANCES = 7.0, 6.0, 2.0
#: Where hyperparameters are integrated: matrices of the inducing values that nodes hold besides, fewer where points and
#: q's covariance leave little to fit at each, and arrays of rows by inducing points in place of those of the search.
OF_NODES, OF_CLOSED_NODES, NODE_ROWS = 16.0, 9.0, 5.0
#: The share of these in a fit that searches for nothing.
ALONE = 0.5
#: Vectors of the rows.
VECTORS = 20.0
#: Matrices between all rows under the optimal bound.
BETWEEN_ROWS = 5.0
#: Matrices between all rows of the process without inducing points.
OF_ALL_ROWS = 16.0


def numbers_held(
    n: int, m: int, latents: int, *, full: bool, kmeans: bool, optimal: bool, learns: bool, nodes: bool, closed: bool
) -> float:
    """Numbers that a fit of n rows with m inducing points holds at once, those of the exact process of a few too."""
    if optimal:
        return OF_LATENTS * m**2 + BETWEEN_ROWS * float(n) ** 2
    settled = COVARIANCES * float(latents * m) ** 2 if full else OF_LATENTS * latents * float(m) ** 2
    chunk = CHUNKS * min(n, parallel.chunk_rows(m, False)) * m
    rows = ROWS * n * m if n * m <= CACHED_NUMBERS else chunk
    searched = VECTORS * n + (settled + rows) * (1.0 if learns else ALONE)
    at_start = DISTANCES * min(n, max(LEAST_ROWS, ROWS_PER_CENTRE * m)) * m if kmeans else 0.0
    of_nodes = (OF_CLOSED_NODES if closed and full else OF_NODES) * float(m) ** 2
    spread = settled + of_nodes + (NODE_ROWS / ROWS) * rows if nodes else 0.0
    between = BETWEEN_ROWS * EXACT_ROWS**2 + CANDIDATES * m
    exact = VECTORS * n + settled + between if closed and learns and n >= MANY_ROWS else 0.0
    return max(searched, at_start, spread, exact)
