"""Functions and series whose truth is known: the part of the simulations that has no coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi.testing.simulations import Effect, Rows, Simulated, draw_targets

if TYPE_CHECKING:
    from sksvi._typing.arrays import RandomState

Array = np.ndarray


def _function(X: Array, truth: str, length_scale: float, amplitude: float, rng: np.random.Generator) -> Array:
    """A function at the rows of X."""
    if truth == "additive":
        return np.sin(2 * X[:, 0]) + (0.5 * X[:, 1] if X.shape[1] > 1 else 0.0)
    squares = ((X[:, None] - X[None]) ** 2).sum(-1) / length_scale**2
    if truth == "rbf":
        K = np.exp(-0.5 * squares)
    elif truth == "matern":
        K = (1 + np.sqrt(3 * squares)) * np.exp(-np.sqrt(3 * squares))
    else:
        raise ValueError(f"no function {truth!r}")
    return np.sqrt(amplitude) * (np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X)))


def simulate_gp(
    n_samples: int,
    n_features: int = 2,
    *,
    likelihood: str = "gaussian",
    truth: str = "rbf",
    length_scale: float = 1.0,
    amplitude: float = 1.0,
    noise: float = 0.3,
    random_state: RandomState | np.random.Generator = None,
) -> Simulated:
    """Rows of a smooth function, predicted inside and outside the data.

    Parameters
    ----------
    n_samples, n_features : int
        Rows to fit, uniform in (-2, 2), and columns D.
    likelihood : str, default="gaussian"
        "gaussian" or "logit".
    truth : str, default="rbf"
        "rbf" or "matern" (of smoothness 3/2): drawn from a Gaussian process. "additive": sin(2 x0) + x1 / 2.
    length_scale, amplitude : float, default=1.0
        Length scale, and variance of f.
    noise : float, default=0.3
        Standard deviation of a Gaussian target.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    simulated : Simulated
        Data and truth; ``new`` has 40 rows "inside" and 20 "outside", 0.3 to 1.2 beyond the data in each column.

    Examples
    --------
    >>> from sksvi.testing import simulate_gp
    >>> data = simulate_gp(20, random_state=0)
    >>> data.X.shape, list(data.new)
    ((20, 2), ['inside', 'outside'])
    """
    rng = np.random.default_rng(random_state)
    outside = rng.uniform(2.3, 3.2, (20, n_features)) * rng.choice([-1, 1], (20, n_features))
    X = np.concatenate([rng.uniform(-2, 2, (n_samples + 40, n_features)), outside])
    f = _function(X, truth, length_scale, amplitude, rng)
    y = f + noise * rng.standard_normal(len(f)) if likelihood == "gaussian" else draw_targets(likelihood, f, rng)
    parts = {"inside": slice(n_samples, n_samples + 40), "outside": slice(n_samples + 40, None)}
    new = {name: Rows(X[part], f[part], y[part]) for name, part in parts.items()}
    return Simulated(X[:n_samples], y[:n_samples], f[:n_samples], likelihood, (), new)


def simulate_series(
    n_samples: int,
    *,
    likelihood: str = "gaussian",
    level_variance: float = 0.05,
    seasonal: int | None = None,
    coef: float | None = None,
    steps: int = 12,
    random_state: RandomState | np.random.Generator = None,
) -> Simulated:
    """A series whose level walks, with a season and an autocorrelated column where they are asked for.

    Parameters
    ----------
    n_samples : int
        Points to fit.
    likelihood : str, default="gaussian"
        "gaussian" (sd 0.5) or "poisson".
    level_variance : float, default=0.05
        Variance of a step of the level, which begins at 1.5.
    seasonal : int or None, default=None
        Points of a season, a sine of amplitude 0.4.
    coef : float or None, default=None
        Effect of the column "x", of autocorrelation 0.95.
    steps : int, default=12
        Points after the last fitted one.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    simulated : Simulated
        Data and truth; ``new`` has "ahead", the points that follow.

    Examples
    --------
    >>> from sksvi.testing import simulate_series
    >>> data = simulate_series(20, coef=0.4, random_state=0)
    >>> data.X.shape, len(data.new["ahead"].y)
    ((20, 1), 12)
    """
    rng, n = np.random.default_rng(random_state), n_samples + steps
    level = 1.5 + np.cumsum(np.sqrt(level_variance) * rng.standard_normal(n))
    f, X = level.copy(), None
    effects = [Effect("level", float(level[n_samples - 1]), "level")]
    if seasonal:
        f = f + 0.4 * np.sin(2 * np.pi * np.arange(n) / seasonal + 2 * np.pi * rng.random())
    if coef is not None:
        import pandas as pd

        x = np.zeros(n)
        for t in range(1, n):
            x[t] = 0.95 * x[t - 1] + np.sqrt(1 - 0.95**2) * rng.standard_normal()
        X, f = pd.DataFrame({"x": x}), f + coef * x
        effects.append(Effect("x", coef, "coefficient"))
    y = f + 0.5 * rng.standard_normal(n) if likelihood == "gaussian" else draw_targets(likelihood, f, rng)
    return _ahead(X, f, y, n_samples, likelihood, tuple(effects))


def _ahead(X: Any, f: Array, y: Array, n: int, likelihood: str, effects: tuple[Effect, ...] = ()) -> Simulated:
    fitted, later = (None, None) if X is None else (X.iloc[:n], X.iloc[n:])
    return Simulated(fitted, y[:n], f[:n], likelihood, effects, {"ahead": Rows(later, f[n:], y[n:])})


def simulate_intermittent(
    n_samples: int = 208, *, steps: int = 13, random_state: RandomState | np.random.Generator = None
) -> Simulated:
    """Intermittent demand: 92 % zeros, sales of 1 to 5 otherwise, no trend; the mean is always 0.24.

    Parameters
    ----------
    n_samples, steps : int
        Points to fit, and after them.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    simulated : Simulated
        Data and truth; ``f`` is the logarithm of the mean.

    Examples
    --------
    >>> from sksvi.testing import simulate_intermittent
    >>> data = simulate_intermittent(random_state=0)
    >>> len(data.y), round(float(data.y.mean()), 2)
    (208, 0.29)
    """
    rng, n = np.random.default_rng(random_state), n_samples + steps
    y = np.where(rng.random(n) < 0.08, rng.integers(1, 6, n), 0).astype(float)
    return _ahead(None, np.full(n, np.log(0.24)), y, n_samples, "intermittent")
