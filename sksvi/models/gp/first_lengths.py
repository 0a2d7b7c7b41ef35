"""Where the length scales of a kernel begin that nobody gave: shorter than rows are apart where f has many waves.

Between one wave in all rows and many the evidence has a valley, on whose far side a search ends at noise alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

from sksvi.algorithms.ascent import ascend
from sksvi.families import NotPositiveDefinite
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import log_evidence
from sksvi.models.gp.inducing import uniforms

Array = np.ndarray

#: Rows of the sample, about.
ROWS = 200
#: Shares of f in the variance of what is measured; shorter lengths, each a third of the one before.
SHARES, SHORTER = (0.1, 0.4, 0.8, 0.97), 4
#: Nats by which a shorter length must be better, and share of what it explains that explains a part.
CLEARLY, PART = 5.0, 0.1
#: Gain of a search below which it ends, looks at most, and e-folds that it may go.
ENOUGH, LOOKS, WIDEST = 0.3, 40, 6.9
#: Least curvature of a row, relative to the mean of all.
LEAST_CURVATURE = 0.5


def shortened(kernel: Any, likelihood: Any, data: Any) -> Any:
    """The kernel, a scaled RBF, with the lengths at which some rows have clearly more evidence than where it begins.

    As it is where nothing is clearly better, and where it explains a part and a search from there finds as much.
    """
    rows = data.reduced(partial(_sampled, ROWS / len(data)), Table.concatenated)
    found = as_measured(likelihood, rows)
    if found is None:
        return kernel
    rows, noise, unit = found
    values, alone = _of_lengths(kernel, rows), _evidence(np.eye(len(rows)), 0.0, rows)
    best = int(np.argmax(values))
    clear = values[best] - CLEARLY
    if values[0] > clear:
        return kernel
    partly = values[0] - alone > PART * (values[best] - alone)
    variance, lengths = kernel.theta[:1], kernel.theta[1:]
    start = np.concatenate([variance - 2.0 * np.log(unit), lengths, [np.log(noise)]])
    end, value = _climbed(kernel, start, rows, clear if partly else np.inf)
    if partly and value > clear:
        return kernel
    varies = np.ptp(rows.X, axis=0) > 0 if len(lengths) > 1 else True
    lengths = end[1:-1] if value > values[best] else lengths - best * np.log(3.0) * varies
    return kernel.clone_with_theta(np.concatenate([variance, lengths]))


def _of_lengths(kernel: Any, data: Table) -> list[float]:
    """Log evidence, nats, at the lengths of a kernel and shorter ones, while these relate rows to each other."""
    R = kernels.cross(kernel.clone_with_theta(np.append(0.0, kernel.theta[1:])), data.X, data.X)
    values: list[float] = []
    while len(values) <= SHORTER and R.sum() > len(R) + 1.0:
        values.append(max(_evidence(R, share, data) for share in SHARES))
        R = R * R * R
        R = R * R * R  # of a third of the length
        R[R < np.finfo(float).eps] = 0.0
    return values


def _sampled(share: float, data: Any) -> Table:
    """About this share of rows, the same ones however they lie."""
    return data.take(np.flatnonzero(uniforms(0, getattr(data, "first", 0), len(data)) < share))


def as_measured(likelihood: Any, data: Table) -> tuple[Table, float, float] | None:
    """Rows with what a step of Newton's from f = 0 regresses on, (n, K), and their noise; its size, which is taken out.

    None where it says nothing.
    """
    latents = np.zeros((len(data), likelihood.n_latents))
    _, slope, bend = likelihood.derivatives(data.y, data.on(latents if likelihood.n_latents > 1 else latents[:, 0]))
    slope, bend = slope.reshape(latents.shape), -bend.reshape(latents.shape).mean(axis=1)
    own = np.ones(len(data)) if data.weight is None else data.weight
    mean = np.average(np.maximum(bend, 0.0), weights=own)
    if not (mean > 0 and np.all(np.isfinite(slope)) and np.isfinite(mean)):
        return None
    curvature = np.maximum(bend / mean, LEAST_CURVATURE)
    y = slope / (mean * curvature[:, None])
    weight = own * curvature / np.average(curvature, weights=own)
    y -= np.average(y, axis=0, weights=weight)
    unit = float(np.max(np.abs(y)))
    if not unit > 0:
        return None
    return Table(data.X, y / unit, weight), 1.0 / (mean * unit) / unit, unit


def _evidence(R: Array, share: float, data: Table) -> float:
    """Log evidence, nats, of correlations R of f, which has this share of a variance that is the best one."""
    weight, rest = data.weight, 1.0 - share
    A = share * R
    A.flat[:: len(A) + 1] += rest / weight
    L, info = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if info:
        return -np.inf
    total, latents = weight.sum(), data.y.shape[1]
    squares = np.square(lapack.dtrtrs(L, data.y, lower=1)[0]).sum(axis=0)
    of_rows = 2.0 * np.log(np.diagonal(L)).sum() + (total - len(R)) * np.log(rest) + np.log(weight).sum()
    return -0.5 * float(latents * (of_rows + total * (1.0 + np.log(2.0 * np.pi))) + total * np.log(squares / total).sum())


def _climbed(kernel: Any, start: Array, data: Table, clear: float) -> tuple[Array, float]:
    """Parameters and log evidence where a search ends that begins at the kernel's and log noise, or above `clear`."""
    targets = [Table(data.X, y, data.weight) for y in data.y.T]

    def look(x: Array) -> tuple[float, Array]:
        here, noise = kernel.clone_with_theta(x[:-1]), np.exp(x[-1])
        found = [log_evidence(here, one, noise) for one in targets]
        return sum(value for value, *_ in found), sum(np.append(own, slope * noise) for _, own, slope in found)

    box = list(zip(start - WIDEST, start + WIDEST, strict=True))
    return ascend(look, start, box, lambda value: value > clear, lambda _: ENOUGH, LOOKS)
