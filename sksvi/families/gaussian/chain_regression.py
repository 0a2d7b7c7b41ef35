"""A sweep over a chain most of whose states never move: a regression on these beside a filter of the others.

States without noise that no moving state depends on, such as fixed seasons and coefficients, are f's coefficients γ
with rows Z_t = h A^t. Given γ the others are a short chain: its filter, run along every column of Z, leaves
innovations whose normal equations give γ exactly (de Jong 1991, "The diffuse Kalman filter", Annals of Statistics 19).
A point then costs O(n) in a compiled loop and O(n²) in products of matrices, in the place of several times n².
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dtrmm

from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian import chain_columns as columns

Array = np.ndarray

#: Fewest fixed states for which a regression is faster.
FEWEST = 20


def fixed_states(chain: Any) -> Array:
    """Mask (n,) of uncertain states that never move and that none which moves depends on, nor they on one."""
    A, first = chain.transition() != 0.0, chain.cov != 0.0
    linked = A | A.T | first
    fixed = (chain.noise == 0.0) & (np.diagonal(chain.cov) > 0.0)
    fixed[chain.damped] = False  # whose part of A has a parameter
    while True:
        found = fixed & ~linked[:, ~fixed].any(axis=1)
        if np.array_equal(found, fixed):
            return found
        fixed = found


def part(chain: Any, chosen: Array) -> Any:
    """The chain of some of its states alone."""
    S, place = len(chain.h), np.cumsum(chosen) - 1
    own = [i for i, row in enumerate(chain.rows) if chosen[row]]
    cuts = [slice(chain.starts[i], chain.starts[i + 1]) for i in own]
    entries = np.concatenate([np.arange(cut.start, cut.stop) for cut in cuts]) if cuts else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum([cut.stop - cut.start for cut in cuts])]).astype(np.int64)
    return replace(
        chain,
        X=np.ascontiguousarray(chain.X[:, chosen[S:]]),
        h=chain.h[chosen[:S]],
        rows=place[chain.rows[own]],
        starts=starts,
        columns=place[chain.columns[entries]],
        values=chain.values[entries],
        noise=chain.noise[chosen],
        mean=chain.mean[chosen],
        cov=np.ascontiguousarray(chain.cov[np.ix_(chosen, chosen)]),
        damped=place[chain.damped],
    )


def swept_by_regression(chain: Any, fixed: Array, linear: Array, weights: Array) -> dict[str, Any]:
    """Filter and smoother of a chain with these fixed states: the fields of `chain.Swept` by name.

    Raises
    ------
    NotPositiveDefinite
        Where the joint precision of the states is not.
    """
    still, moving = part(replace(chain, damped=chain.damped[:0]), fixed), part(chain, ~fixed)
    T, m, k, K = len(linear), len(moving.noise), len(moving.damped), len(still.noise)
    design, D, spread, reach = np.empty((T, K)), np.empty(T), np.empty((T, m)), np.empty((T, k, m))
    columns.rolled(*still.moves[:6], design)
    f = design @ still.mean
    slope = linear - weights * (f + moving.sweep(linear - weights * f, weights).mean)
    Z, filtered, last = design.copy(), np.empty((T, k, K)), np.zeros((m, K))
    columns.filter_columns(*moving.moves, moving.cov.copy(), weights, Z, moving.damped, D, spread, reach)
    whitener, root, log_det = _normal_equations(still.cov, Z, weights / D)
    off = root.T @ (design.T @ slope)
    gamma = still.mean + root @ off
    f = design @ gamma
    given = moving.sweep(linear - weights * f, weights)
    Z = dtrmm(1.0, root, Z.T, trans_a=1, overwrite_b=1).T
    columns.states_of_columns(*moving.moves[2:6], weights, Z, D, spread, moving.damped, filtered, last)
    scores, r, pulls = np.zeros((m, K)), np.zeros((m, K)), np.zeros((k, m, K))
    columns.smooth_columns(*moving.moves, weights, Z, D, spread, filtered, reach, scores, r, pulls)
    prior = np.sum(np.square(whitener @ (gamma - still.mean)))
    variance = np.einsum("tj,tj->t", Z, Z)
    found = {
        "mean": given.mean + f,
        "variance": given.variance + variance,
        "log_det": given.log_det + log_det,
        "kl": given.kl + 0.5 * (log_det + prior - weights @ variance),
        "log_z": given.log_z + f @ (linear - 0.5 * weights * f) - 0.5 * (prior + log_det),
    }
    moves = {"score": given.score + scores.sum(axis=1), "pull": given.pull + pulls.sum(axis=2).T}
    moves |= {"first": given.first, "information": given.information - r @ r.T}
    return found | _last_states(still, fixed, gamma, root, given, last) | _among_all(fixed, moves)


def _normal_equations(prior: Array, Z: Array, weights: Array) -> tuple[Array, Array, float]:
    """Whitener of the prior covariance, an upper root of the posterior's, and the log ratio of their determinants."""
    whitener = solve_triangular(cholesky(prior, lower=True), np.eye(len(prior)), lower=True)
    scaled = np.sqrt(np.abs(weights))[:, None] * Z
    below = scaled[weights < 0.0]  # of few likelihoods: a product of a matrix with itself takes half of the time
    precision = whitener.T @ whitener + scaled.T @ scaled - 2.0 * (below.T @ below)
    try:
        factor = cholesky(precision, lower=True)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefinite("the messages leave no positive precision of the fixed states") from error
    root = solve_triangular(factor, np.eye(len(prior)), lower=True).T
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum() - np.log(np.diagonal(whitener)).sum())
    return whitener, root, log_det


def _last_states(still: Any, fixed: Array, gamma: Array, root: Array, given: Any, last: Array) -> dict[str, Array]:
    """Mean and covariance of all states after the last message; `last`: what columns make of the moving ones."""
    ahead = np.linalg.matrix_power(still.transition(), len(still) - 1)
    mean, cov, n = np.empty(len(fixed)), np.empty((len(fixed), len(fixed))), np.flatnonzero
    here, there, roots = n(fixed), n(~fixed), ahead @ root
    mean[here], mean[there] = ahead @ gamma, given.last
    cov[np.ix_(here, here)] = roots @ roots.T
    cov[np.ix_(there, there)] = given.last_cov + last @ last.T
    cov[np.ix_(there, here)] = -last @ roots.T
    cov[np.ix_(here, there)] = cov[np.ix_(there, here)].T
    return {"last": mean, "last_cov": cov}


def _among_all(fixed: Array, moves: dict[str, Array]) -> dict[str, Array]:
    """Slopes in the noise, the first states and A of the moving states, 0 of the others, which have no parameter."""
    at, n = np.flatnonzero(~fixed), len(fixed)
    shapes = {"score": (n,), "first": (n,), "information": (n, n), "pull": (n, moves["pull"].shape[1])}
    out = {name: np.zeros(shape) for name, shape in shapes.items()}
    for name, values in moves.items():
        out[name][np.ix_(at, at) if name == "information" else at] = values
    return out
