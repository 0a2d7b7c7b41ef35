"""Other algorithms for the bound of Bayesian logistic regression, as their papers state them, in plain numpy.

All have the exact expectations of `benchmarks._lib.exact` or draws, one start, and a Gaussian q with all covariances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from benchmarks._lib import Array
from benchmarks._lib.exact import expectations, gaussian_kl, latent_variance

#: Draws of a step of the two stochastic algorithms, as in the paper's table 2.
DRAWS = 10


@dataclass
class Task:
    """Rows with a constant column, labels 0/1, prior precisions, the optimum, and the nats at which a run is there."""

    X: Array
    y: Array
    precision: Array
    best: float
    close: float

    def start(self) -> tuple[Array, Array]:
        """Mean zero, and a covariance by which latents have a variance of about one."""
        S = 1.0 / (self.precision + 1.0)
        return np.zeros(len(S)), np.diag(S / max(1.0, float(np.mean(np.square(self.X) @ S))))

    def look(self, m: Array, S: Array) -> tuple[float, Array, Array]:
        """Bound, slopes in the latents' means, and expected curvatures."""
        value, slope, bend = expectations("logit", self.y, self.X @ m, latent_variance(self.X, S))
        return float(value.sum()) - gaussian_kl(m, S, self.precision), slope, bend

    def information(self, bend: Array) -> Array:
        """Prior precision less the data's curvature, (D, D)."""
        return np.diag(self.precision) - self.X.T @ (bend[:, None] * self.X)


@dataclass
class Run:
    """q at the end of a run, and iterations and CPU seconds to where the bound is close to the optimum."""

    m: Array
    S: Array
    bound: float
    iterations: int
    reached: int | None = None
    seconds: float | None = None
    option: str = ""
    started: float = field(default_factory=time.process_time)


def followed(task: Task, steps: Iterator[tuple[float, Array, Array]], most: int, option: str = "") -> Run:
    """Steps until the bound is within 1e-7 of the optimum (relative), falls without end, or there were `most`."""
    run = Run(*task.start(), -np.inf, 0, option=option)
    for t, (value, m, S) in enumerate(steps, 1):
        run.m, run.S, run.bound, run.iterations = m, S, value, t
        if run.reached is None and task.best - value < task.close:
            run.reached, run.seconds = t, time.process_time() - run.started
        if task.best - value < 1e-7 * abs(task.best) or t == most or value < 1e3 * task.best:
            break
    return run


def by_cholesky(task: Task, most: int) -> Run:
    """Chol: L-BFGS on the mean and the Cholesky factor (Challis and Barber 2011)."""
    D = len(task.precision)
    low, diagonal = np.tril_indices(D), np.arange(D)
    run, looks = Run(*task.start(), -np.inf, 0), 0

    def negative(z: Array) -> tuple[float, Array]:
        nonlocal looks
        m, L = z[:D], np.zeros((D, D))
        L[low] = z[D:]
        XL = task.X @ L
        value, slope, bend = expectations("logit", task.y, task.X @ m, np.square(XL).sum(1))
        kl = task.precision @ (np.square(L).sum(1) + m * m) - D - np.log(task.precision).sum()
        bound = float(value.sum()) - 0.5 * float(kl) + float(np.log(L[diagonal, diagonal]).sum())
        gradient = task.X.T @ (bend[:, None] * XL) - task.precision[:, None] * L
        gradient[diagonal, diagonal] += 1.0 / L[diagonal, diagonal]
        looks += 1
        if run.reached is None and task.best - bound < task.close:
            run.reached, run.seconds = looks, time.process_time() - run.started
        if bound > run.bound:
            run.m, run.S, run.bound, run.iterations = m.copy(), L @ L.T, bound, looks
        return -bound, -np.concatenate([task.X.T @ slope - task.precision * m, gradient[low]])

    m, S = task.start()
    box = [(None, None)] * D + [(1e-8, None) if i == j else (None, None) for i, j in zip(*low, strict=True)]
    options = {"maxfun": most, "maxiter": most, "ftol": 1e-13, "gtol": 1e-8, "maxcor": 20}
    minimize(negative, np.r_[m, np.linalg.cholesky(S)[low]], jac=True, method="L-BFGS-B", bounds=box, options=options)
    return run


def proximal(task: Task, step: float, most: int) -> Run:
    """PG-exact: proximal gradient steps with the divergence to the last q (Khan et al. 2015, KL proximal)."""

    def steps() -> Iterator[tuple[float, Array, Array]]:
        m, S = task.start()
        P = np.linalg.inv(S)
        _, slope, bend = task.look(m, S)
        while True:
            # The mean is moved along the prior and the last precision alone: where CVI has the new precision.
            system = step * np.diag(task.precision) + (1.0 - step) * P
            m = np.linalg.solve(system, step * (task.X.T @ slope) + (1.0 - step) * (P @ m))
            P = (1.0 - step) * P + step * task.information(bend)
            S = np.linalg.inv(P)
            try:
                value, slope, bend = task.look(m, S)
            except ValueError:  # latents too wide for the rule: the step is too long
                return
            yield value, m, S

    return followed(task, steps(), most, f"step {step:g}")


def regression(task: Task, iterations: int, factorized: bool, seed: int = 0) -> Run:
    """S&K Alg. 2, by draws of the weights, or FG, by draws of each row's latent (Salimans and Knowles 2013).

    Slopes, curvatures and draws are averaged with weight 1/√N, and q at the end is that of the second half's means.
    """
    rng, run = np.random.default_rng(seed), Run(*task.start(), -np.inf, iterations)
    update = _by_rows if factorized else _by_weights
    m, S, sums, late, weight = run.m, run.S, None, [], 1.0 / np.sqrt(iterations)
    solve: Callable[..., tuple[Array, Array]]
    for t in range(iterations):
        found, solve = update(task, m, S, rng)
        if sums is None:
            sums = [np.zeros_like(found[0]), np.linalg.inv(S), m] if not factorized else [0.0 * part for part in found]
        sums = [(1.0 - weight) * old + weight * new for old, new in zip(sums, found, strict=True)]
        late = [a + b for a, b in zip(late, found, strict=True)] if late else [*found] if 2 * t >= iterations else []
        m, S = solve(*sums)
    count = iterations - -(-iterations // 2)
    run.m, run.S = solve(*(part / count for part in late))
    run.seconds = time.process_time() - run.started
    run.bound = task.look(run.m, run.S)[0]
    return run


def _curved(task: Task, f: Array) -> tuple[Array, Array]:
    """Slope and curvature of the log-likelihood at latents."""
    p = 1.0 / (1.0 + np.exp(-np.clip(f, -500.0, 500.0)))
    return task.y - p, -p * (1.0 - p)


def _by_weights(task: Task, m: Array, S: Array, rng: np.random.Generator) -> tuple[list[Array], Callable[..., tuple]]:
    """Means over draws of gradient, negative Hessian and draw, and q from their averages."""
    draws = m + rng.standard_normal((DRAWS, len(m))) @ np.linalg.cholesky(S).T
    slopes, bends = zip(*(_curved(task, task.X @ w) for w in draws), strict=True)
    gradient = task.X.T @ np.mean(slopes, 0) - task.precision * draws.mean(0)

    def solved(a: Array, P: Array, z: Array) -> tuple[Array, Array]:
        V = np.linalg.inv(P)
        return V @ a + z, V

    return [gradient, task.information(np.mean(bends, 0)), draws.mean(0)], solved


def _by_rows(task: Task, m: Array, S: Array, rng: np.random.Generator) -> tuple[list[Array], Callable[..., tuple]]:
    """Means over draws of slope, negative curvature and the latent they are at, by row; q from their averages."""
    mean, sd = task.X @ m, np.sqrt(latent_variance(task.X, S))
    draws = mean + sd * rng.standard_normal((DRAWS, len(mean)))
    slope, bend = _curved(task, draws)

    def solved(a: Array, p: Array, pz: Array) -> tuple[Array, Array]:
        V = np.linalg.inv(task.information(-p))
        return V @ (task.X.T @ (a + pz)), V

    return [slope.mean(0), -bend.mean(0), (-bend).mean(0) * draws.mean(0)], solved
