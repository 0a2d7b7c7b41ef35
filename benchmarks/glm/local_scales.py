"""Student-t and horseshoe priors by name: cover of 90 % intervals, and moments beside a Gibbs sampler.

Coefficients are drawn from the prior that the fit has, with noise and all scales learned, as by default. The sampler
has the same model: noise half-Cauchy in the unit of y, scales of coefficients by gamma distributions (Student's t) or
drawn on a grid of their logarithms (horseshoe).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.measures import inside, predicted
from benchmarks._lib.tables import arguments, progress, report

N, N_TEST = 100, 20
#: Name to columns, the prior that the fit has, and the scale of the horseshoe; None: Student's t.
CASES = ("student-t, df 3", "horseshoe, 10 columns", "horseshoe, 50 columns")
SWEEPS, WARM_UP = 20_000, 1_000


def case(name: str) -> tuple[int, Any]:
    """Number of columns and the prior."""
    from sksvi.priors import Horseshoe, StudentT

    if name.startswith("student"):
        return 10, StudentT(3, 0, 0.3)
    return (10, Horseshoe(0.3)) if "10" in name else (50, Horseshoe(0.05))


def simulated(name: str, seed: Any) -> tuple[Any, Any, Any, Any]:
    """X of unit deviation, y in the deviation of its noise, coefficients from the prior, and the prior."""
    d, prior = case(name)
    rng = np.random.RandomState(np.random.default_rng(seed).integers(2**31))
    X = rng.standard_normal((N + N_TEST, d))
    w = rng.standard_normal(d) / np.sqrt(prior.drawn_precisions(d, rng))
    return X, X @ w + rng.standard_normal(len(X)), w, prior


def one_set(name: str, seed: Any) -> dict[str, float]:
    """Shares covered in one data set: all coefficients, those above two standard errors, and new y."""
    from sksvi import BayesianGLMRegressor

    X, y, w, prior = simulated(name, seed)
    model = BayesianGLMRegressor(prior={"*": prior}).fit(X[N_TEST:], y[N_TEST:])
    q = model.posterior_["weights"]
    off, std, large = q.mean[:-1] - w, q.std[:-1], np.abs(w) > 2.0 / np.sqrt(N)
    found = {"coefficients": inside(off, std), "prediction": predicted(model, X[:N_TEST], y[:N_TEST])}
    return found | ({"large": inside(off[large], std[large])} if large.any() else {})


def coverage(name: str, n_sets: int, seed: int = 0) -> dict[str, Any]:
    """Coverage over data sets, with its standard error."""
    found = [one_set(name, [seed, i]) for i in range(n_sets)]
    row: dict[str, Any] = {"prior": name, "data sets": n_sets}
    for key in ("coefficients", "large", "prediction"):
        values = np.array([one[key] for one in found if key in one])
        row[key], row[f"{key}: error"] = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    return row


# ---- the sampler
GRID = np.arange(-16.0, 12.0, 0.1)


def drawn_on_grid(rng: Any, logs: Any) -> Any:
    """Positions on the grid, of probabilities proportional to exp(logs) (M, G)."""
    share = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
    return (share < rng.random_sample((len(logs), 1)) * share[:, -1:]).sum(axis=1)


def horseshoe_scales(rng: Any, w: Any, log_shared: float, prior: Any) -> tuple[Any, float]:
    """Precisions of coefficients, and the log of τ: λ drawn given τ, then τ given λ."""

    def logs(log_product: Any) -> Any:
        precision = np.exp(-2.0 * log_product) + prior.slab**-2.0
        return 0.5 * np.log(precision) - 0.5 * np.square(w)[:, None] * precision

    own = GRID[drawn_on_grid(rng, logs(log_shared + GRID) - np.log(np.cosh(GRID)))]
    centred = GRID - np.log(prior.scale)
    total = logs(own[:, None] + GRID).sum(axis=0) - np.log(np.cosh(centred))
    log_shared = GRID[drawn_on_grid(rng, total[None])[0]]
    return np.exp(-2.0 * (log_shared + own)) + prior.slab**-2.0, log_shared


def gibbs(X: Any, y: Any, prior: Any, sweeps: int, warm_up: int, seed: int = 0) -> Any:
    """Draws of the coefficients and the intercept at the centre, (S, D + 1), the columns of unit deviation."""
    rng, (n, d) = np.random.RandomState(seed), X.shape
    unit = y.std()
    A = np.column_stack([X, np.ones(n)])
    gram, b = A.T @ A, A.T @ y
    noise, log_shared, precision, found = unit**2, np.log(0.1), np.ones(d), []
    for s in range(warm_up + sweeps):
        root = np.linalg.cholesky(gram / noise + np.diag(np.append(precision, (10.0 * unit) ** -2.0)))
        fitted = np.linalg.solve(root, b / noise + np.append(np.zeros(d), y.mean() * (10.0 * unit) ** -2.0))
        w = np.linalg.solve(root.T, fitted + rng.standard_normal(d + 1))
        if prior.standardized:
            scaled, log_shared = horseshoe_scales(rng, w[:d] / unit, log_shared, prior)
            precision = scaled / unit**2
        else:
            rate = 0.5 * (prior.df + np.square(w[:d] / prior.scale))
            precision = rng.gamma(0.5 * (prior.df + 1.0), 1.0 / rate) / prior.scale**2
        own = rng.gamma(1.0, 1.0 / (1.0 / noise + unit**-2.0))
        noise = (0.5 * np.sum(np.square(y - A @ w)) + own) / rng.gamma(0.5 * (n + 1.0))
        if s >= warm_up:
            found.append(w)
    return np.array(found)


def beside_gibbs(name: str, sweeps: int, warm_up: int = WARM_UP, seed: int = 0) -> dict[str, Any]:
    """Means and deviations of coefficients under the fit, beside those of the sampler, one data set."""
    from sksvi import BayesianGLMRegressor

    X, y, _, prior = simulated(name, [seed, 0])
    X, y = X[N_TEST:], y[N_TEST:]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    draws = gibbs(X, y, prior, sweeps, warm_up)[:, :-1]
    q = BayesianGLMRegressor(prior={"*": prior}).fit(X, y).posterior_["weights"]
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    off, ratio = np.abs(q.mean[:-1] - mean) / std, q.std[:-1] / std
    halves = np.abs(draws[: sweeps // 2].mean(axis=0) - draws[sweeps // 2 :].mean(axis=0)) / std
    large = np.abs(mean) > 2.0 * std
    return {
        "prior": name,
        "sweeps": sweeps,
        "largest difference of means, sd": off.max(),
        "of half the sweeps, sd": halves.max(),
        "least ratio of sd": ratio.min(),
        "median ratio of sd": float(np.median(ratio)),
        "median ratio of sd, large": float(np.median(ratio[large])) if large.any() else None,
    }


def main(quick: bool = False) -> None:
    rows = []
    for name in CASES:
        rows.append(coverage(name, 20 if quick else 400))
        progress(rows[-1])
    notes = [
        f"{N} rows, standard normal columns, noise of deviation 1; coefficients from the prior. Large: above two "
        f"standard errors of least squares. {N_TEST} new rows per set."
    ]
    report("glm/local_scales", "Student-t and horseshoe priors: cover of 90 % intervals", rows, notes, quick)
    rows = []
    for name in CASES:
        rows.append(beside_gibbs(name, 500 if quick else SWEEPS))
        progress(rows[-1])
    notes = [
        "The fit over the sampler, the first of those data sets; half of the sweeps: their means less the others'."
    ]
    report("glm/local_scales_gibbs", "Student-t and horseshoe priors beside a Gibbs sampler", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
