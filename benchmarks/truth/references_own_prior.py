"""Published sets beside draws of the exact posterior under the priors that our fit has, not those of a judge.

GasolineYield, a beta regression of 32 rows with eleven coefficients, and bacteria, 50 levels of few binary rows, differ
from `truth.references` by more than others. Here coefficients are flat, 1 / √precision exponential with mean 1, and a
standard deviation between levels half-t(3) with scale 2.5, as in a fit; levels' effects are integrated on a grid.
Draws are of an ensemble that moves by differences of its members (ter Braak 2006). "error" is the largest of their
means' standard errors by batches of moves, in standard deviations. Needs the folder of the sets, as `truth.responses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, log_expit, logsumexp

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.references import fitted, models
from benchmarks.truth.responses import columns, read
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE

#: Members of an ensemble, the share of moves that comes first and does not count, and batches of the others.
MEMBERS, WARM_UP, BATCHES = 40, 0.2, 20
#: Moves for each set.
MOVES = {"GasolineYield": 8000, "bacteria": 1200}
#: Nodes of a level's effect, in its standard deviations.
NODES = np.linspace(-5.0, 5.0, 26)
Density = Callable[[np.ndarray], np.ndarray]


def beta(A: np.ndarray, y: np.ndarray) -> Density:
    """Log density of (members, coefficients and log precision)."""

    def log_density(at: np.ndarray) -> np.ndarray:
        mean, log_precision = expit(at[:, :-1] @ A.T), at[:, -1:]
        a, b = mean * np.exp(log_precision), (1.0 - mean) * np.exp(log_precision)
        rows = gammaln(a + b) - gammaln(a) - gammaln(b) + (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
        found: np.ndarray = rows.sum(axis=1) - 0.5 * log_precision[:, 0] - np.exp(-0.5 * log_precision[:, 0])
        return found

    return log_density


def mixed(A: np.ndarray, y: np.ndarray, level: np.ndarray) -> Density:
    """Log density of (members, coefficients and log standard deviation), the effects of levels integrated."""
    order = np.argsort(level, kind="stable")
    A, signs = A[order], np.where(y[order] == 1, 1.0, -1.0)
    first = np.flatnonzero(np.diff(level[order], prepend=-1))
    log_weights = -0.5 * np.square(NODES)

    def log_density(at: np.ndarray) -> np.ndarray:
        std = np.exp(at[:, -1])
        f = (at[:, :-1] @ A.T)[:, :, None] + std[:, None, None] * NODES
        by_level = np.add.reduceat(log_expit(signs[:, None] * f), first, axis=1)
        prior = at[:, -1] - 2.0 * np.log1p(np.square(std / GROUP_PRIOR_SCALE) / 3.0)
        found: np.ndarray = logsumexp(by_level + log_weights, axis=2).sum(axis=1) + prior
        return found

    return log_density


def drawn(log_density: Density, at: np.ndarray, moves: int, seed: int = 0) -> np.ndarray:
    """Draws (moves, members, parameters) of an ensemble that begins at some members."""
    rng, jitter = np.random.default_rng(seed), 1e-5 * at.std(axis=0)
    at, here, out = at.copy(), log_density(at), []
    halves = np.arange(len(at)).reshape(2, -1)
    for move in range(moves):
        length = 1.0 if move % 10 == 0 else 2.38 / np.sqrt(2.0 * at.shape[1])
        for moved, still in (halves, halves[::-1]):  # by differences of those that stay, or its law would be another
            one, other = rng.permutation(still), rng.permutation(still)
            there = at[moved] + length * (at[one] - at[other]) + jitter * rng.standard_normal(at[moved].shape)
            value = log_density(there)
            taken = np.log(rng.random(len(moved))) < value - here[moved]
            at[moved[taken]], here[moved[taken]] = there[taken], value[taken]
        out.append(at.copy())
    return np.array(out)


def compared(data_name: str, moves: int) -> dict[str, Any]:
    """The row of a set: distances of means and ratios of standard deviations, ours to those of draws."""
    row = next(one for one in models() if one.data == data_name)
    data = read(row.data)
    data = data.assign(**row.made(data))
    X = columns(data, row.terms, dict(row.base))
    y, names = row.target(data), [*X, "intercept"]
    given = X if row.group is None else X.assign(**{row.group: data[row.group].astype(str)})
    model = fitted(row, given, y, np.zeros(len(data)))
    table, A = model.summary(effects="joint"), np.column_stack([X.to_numpy(float), np.ones(len(X))])
    if row.group is None:
        last, log_density = "precision", beta(A, np.asarray(y, float))
    else:
        last = f"std({row.group}, intercept)"
        level = np.unique(given[row.group].to_numpy(), return_inverse=True)[1]
        log_density = mixed(A, np.asarray(y), level)
    ours = table.loc[[*names, last]]
    others = np.log(ours["mean"].iloc[-1]) + 0.2 * np.random.default_rng(1).standard_normal(MEMBERS)
    start = np.column_stack([model.posterior_["weights"].sample(MEMBERS, 0), others])
    draws = drawn(log_density, start, moves)[int(WARM_UP * moves) :]
    draws[..., -1] = np.exp(draws[..., -1])
    mean, std = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    parts = np.array([part.mean(axis=(0, 1)) for part in np.array_split(draws, BATCHES)])
    away, ratio = np.abs(ours["mean"].to_numpy() - mean) / std, ours["std"].to_numpy() / std
    return {
        "set": row.data,
        "coefficients": len(names),
        "most distance, sd": away[:-1].max(),
        "sd / sd, least": ratio[:-1].min(),
        "most": ratio[:-1].max(),
        "besides": last,
        "ours": ours["mean"].iloc[-1],
        "its sd": ours["std"].iloc[-1],
        "draws'": mean[-1],
        "sd of that": std[-1],
        "error": float((parts.std(axis=0, ddof=1) / np.sqrt(BATCHES) / std).max()),
    }


def main(quick: bool = False) -> None:
    rows = []
    for name, moves in MOVES.items():
        rows.append(compared(name, 60 if quick else moves))
        progress(rows[-1])
    report("truth/references_own_prior", "Models of published sets beside draws under our priors", rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
