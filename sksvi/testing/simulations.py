"""Data whose truth is known: what the suite and the benchmarks simulate to count how often an interval holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, ndtr

from sksvi import likelihoods

if TYPE_CHECKING:
    from sksvi._typing.arrays import MatrixLike, RandomState


# ---- what one row says of its linear predictor, and the scales of what is simulated
#: Cut points of an ordinal target, dispersion of a negative binomial, degrees of freedom and scale of a Student-t.
CUT_POINTS = (-1.0, 0.5, 2.0)
DISPERSION = 0.5
T_DF, T_SCALE = 4.0, 0.7
#: Likelihoods of positive y, of shares and of counts with zeros of their own, with their scales.
MEASURED: dict[str, likelihoods.Likelihood] = {
    "gamma": likelihoods.Gamma(dispersion=0.5),
    "inverse-gaussian": likelihoods.InverseGaussian(dispersion=0.5),
    "tweedie": likelihoods.Tweedie(power=1.5, dispersion=1.0),
    "log-normal": likelihoods.LogNormal(scale=0.7),
    "weibull": likelihoods.Weibull(scale=0.7),
    "exponential": likelihoods.Exponential(),
    "log-logistic": likelihoods.LogLogistic(scale=0.5),
    "beta": likelihoods.Beta(precision=5.0),
    "zero-inflated-poisson": likelihoods.ZeroInflatedPoisson(zero_probability=0.3),
    "zero-inflated-negative-binomial": likelihoods.ZeroInflatedNegativeBinomial(zero_probability=0.3, dispersion=0.5),
    "hurdle-poisson": likelihoods.HurdlePoisson(zero_probability=0.3),
    "hurdle-negative-binomial": likelihoods.HurdleNegativeBinomial(zero_probability=0.3, dispersion=0.5),
}
#: Quantiles at which their information is averaged.
STEPS = 2000


def information(likelihood: str, f: float) -> float:
    """Fisher information of a row about f; of a softmax with three equal classes about one contrast."""
    if likelihood == "gaussian":
        return 1.0
    if likelihood == "student-t":
        return (T_DF + 1) / (T_DF + 3) / T_SCALE**2
    if likelihood == "logit":
        return float(expit(f) * expit(-f))
    if likelihood == "probit":
        return float(np.exp(-f * f) / (2 * np.pi) / (ndtr(f) * ndtr(-f)))
    if likelihood == "poisson":
        return float(np.exp(f))
    if likelihood == "negative-binomial":
        return float(np.exp(f) / (1 + DISPERSION * np.exp(f)))
    if likelihood == "ordinal":
        cumulative = np.concatenate([[0.0], expit(np.array(CUT_POINTS) - f), [1.0]])
        slopes = -np.diff(cumulative * (1 - cumulative))
        return float(np.sum(slopes**2 / np.diff(cumulative)))
    if likelihood == "softmax":
        return 1 / 6
    if likelihood in MEASURED:
        own, at = MEASURED[likelihood], np.full(STEPS, f)
        return float(np.mean(np.square(own.d1(own.ppf((np.arange(STEPS) + 0.5) / STEPS, at), at))))
    raise ValueError(f"no simulation of likelihood {likelihood!r}")


# ---- simulated data
Array = np.ndarray

#: An effect of at least so many standard errors is "strong".
STRONG = 2.5
#: The latent f where every column is zero.
INTERCEPTS = {
    "gaussian": 3.0,
    "student-t": 3.0,
    "logit": -0.5,
    "probit": -0.3,
    "poisson": 0.5,
    "negative-binomial": 1.0,
    "ordinal": 0.0,
    "softmax": 0.0,
} | dict.fromkeys(MEASURED, 0.5)


@dataclass(frozen=True)
class Effect:
    """A number that ``summary()`` has a row for, and its true value.

    Parameters
    ----------
    name : str
        The row's label, or how it begins.
    value : float
        The truth, on the scale of the linear predictor.
    kind : str
        "null", "moderate" or "strong" (2.5 standard errors and more) for coefficients; "null", "within", "between" and
        "sd" in mixed models; "coefficient" and "level" in series.
    label : int or None, default=None
        The class of a softmax, against class 0.
    """

    name: str
    value: float
    kind: str
    label: int | None = None


@dataclass(frozen=True)
class Rows:
    """Rows that no fit has seen, with f and y there.

    Parameters
    ----------
    X : array or DataFrame of shape (n, D), or None
        None where a series has no columns.
    f : ndarray of shape (n,), or (n, n_classes) of a softmax
        True linear predictor.
    y : ndarray of shape (n,)
        Targets.
    """

    X: MatrixLike | None
    f: Array
    y: Array


@dataclass(frozen=True)
class Simulated:
    """Data and the truth that they were drawn from.

    Parameters
    ----------
    X : array or DataFrame of shape (n, D), or None
        Rows to fit.
    y : ndarray of shape (n,)
        Targets.
    f : ndarray of shape (n,), or (n, n_classes) of a softmax
        True linear predictor of the rows.
    likelihood : str
        Name of the likelihood that y was drawn from.
    effects : tuple of Effect
        What ``summary()`` should find.
    new : dict of str to Rows
        Rows to predict, by what they are ("new", "outside", "new levels", "ahead").
    groups : tuple of str, default=()
        Columns with the levels of a mixed model.
    """

    X: MatrixLike | None
    y: Array
    f: Array
    likelihood: str
    effects: tuple[Effect, ...] = ()
    new: dict[str, Rows] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


def draw_targets(likelihood: str, f: Array, rng: np.random.Generator) -> Array:
    """Targets of a likelihood at the linear predictor f; scales are those of this module.

    Parameters
    ----------
    likelihood : str
        "gaussian" (sd 1), "student-t" (4 degrees of freedom, scale 0.7), "logit", "probit", "poisson",
        "negative-binomial" (dispersion 0.5), "ordinal" (cut points -1, 0.5 and 2), "softmax" or one of `MEASURED`.
    f : ndarray of shape (n,), or (n, n_classes) of a softmax
        Linear predictor.
    rng : Generator
        Source of randomness.

    Returns
    -------
    y : ndarray of shape (n,)
        Targets.
    """
    n = len(f)
    if likelihood == "gaussian":
        return f + rng.standard_normal(n)
    if likelihood == "student-t":
        return f + T_SCALE * rng.standard_t(T_DF, n)
    if likelihood in ("logit", "probit"):
        return (rng.random(n) < (expit(f) if likelihood == "logit" else ndtr(f))).astype(int)
    if likelihood == "ordinal":
        return np.digitize(f + rng.logistic(size=n), CUT_POINTS)
    if likelihood == "softmax":
        return np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    rate = np.exp(np.minimum(f, 15.0))
    if likelihood == "poisson":
        return rng.poisson(rate).astype(float)
    if likelihood in MEASURED:
        return MEASURED[likelihood].sample(f, rng)
    if likelihood == "negative-binomial":
        return rng.negative_binomial(1 / DISPERSION, 1 / (1 + DISPERSION * rate)).astype(float)
    raise ValueError(f"no simulation of likelihood {likelihood!r}")


def _design(n: int, D: int, design: str, rng: np.random.Generator) -> Array:
    """Rows whose columns are normal, correlated at 0.9, rare (5 % ones), or log-normal (exp(2 z))."""
    if design == "rare":
        return (rng.random((n, D)) < 0.05).astype(float)
    Z = rng.standard_normal((n, D))
    if design == "log-normal":
        return np.exp(2.0 * Z)
    return np.sqrt(0.1) * Z + np.sqrt(0.9) * rng.standard_normal((n, 1)) if design == "correlated" else Z


def _standard_errors(n: int, D: int, design: str, likelihood: str) -> Array:
    """Standard errors of coefficients by the information of a row at the intercept."""
    variance = {"rare": 0.05 * 0.95, "log-normal": np.exp(8.0) - np.exp(4.0)}.get(design, 1.0)
    covariance = 0.1 * np.eye(D) + 0.9 if design == "correlated" else variance * np.eye(D)
    if design == "factor":
        covariance[0, 0] = 0.25
    return np.sqrt(np.diag(np.linalg.inv(covariance)) / (n * information(likelihood, INTERCEPTS[likelihood])))


def _coefficients(effects: str | Sequence[float], errors: Array, rng: np.random.Generator) -> Array:
    """True coefficients: sizes in standard errors but for "dense", N(0, 1 / D), and numbers, as they are."""
    D = len(errors)
    if not isinstance(effects, str):
        return np.concatenate([effects, np.zeros(D - len(effects))])
    if effects == "dense":
        return rng.standard_normal(D) / np.sqrt(D)
    sizes = np.zeros(D)
    if effects == "one":
        sizes[0] = 3.0
    elif effects == "few":
        sizes[:3] = np.array([2.0, -2.0, 1.5])[:D]
    elif effects == "many":
        sizes = rng.standard_normal(D)
    elif effects == "heavy":
        sizes = np.clip(rng.standard_t(1.5, D), -20.0, 20.0)
    elif effects != "null":
        raise ValueError(f"no effects {effects!r}")
    return sizes * errors


def _kind(value: float, error: float) -> str:
    if value == 0:
        return "null"
    return "strong" if abs(value) >= STRONG * error else "moderate"


def simulate_glm(
    n_samples: int,
    n_features: int,
    *,
    likelihood: str = "gaussian",
    effects: str | Sequence[float] = "one",
    design: str = "normal",
    n_new: int = 40,
    random_state: RandomState | np.random.Generator = None,
) -> Simulated:
    """Rows of a generalised linear model with known coefficients.

    Parameters
    ----------
    n_samples, n_features : int
        Rows to fit, columns D.
    likelihood : str, default="gaussian"
        As :func:`~sksvi.testing.draw_targets` has them. A softmax has three classes and effects of class 1
        against class 0.
    effects : str or sequence of float, default="one"
        "null": none. "one": the first is three standard errors. "few": three of 1.5 to 2. "many": every one N(0, 1)
        standard errors. "heavy": those of a t distribution with 1.5 degrees of freedom. "dense": N(0, 1 / D).
        Numbers: the first coefficients, the others zero.
    design : str, default="normal"
        "normal", "correlated" (each pair at 0.9), "rare" (ones in 5 % of the rows), "log-normal" (heavy tails:
        exp(2 z) of normal z) or "factor" (a DataFrame whose first column "gender" is text, female or male, and whose
        effect is of male against female).
    n_new : int, default=40
        Rows to predict.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    simulated : Simulated
        Data and truth.

    Raises
    ------
    ValueError
        If the likelihood or the effects are none of these.

    Examples
    --------
    >>> from sksvi.testing import simulate_glm
    >>> data = simulate_glm(50, 3, likelihood="poisson", random_state=0)
    >>> data.X.shape, [effect.kind for effect in data.effects]
    ((50, 3), ['strong', 'null', 'null'])
    """
    rng, n = np.random.default_rng(random_state), n_samples + n_new
    X: Any = _design(n, n_features, design, rng)
    errors = _standard_errors(n_samples, n_features, design, likelihood)
    coef = _coefficients(effects, errors, rng)
    names = [f"x{j}" for j in range(n_features)]
    if design == "factor":
        male = rng.random(n) < 0.5
        X[:, 0], names[0] = male, "gender_male"
    f = INTERCEPTS[likelihood] + X @ coef
    found = [Effect(name, float(w), _kind(w, e)) for name, w, e in zip(names, coef, errors)]
    if likelihood == "softmax":
        f = np.column_stack([np.zeros(n), f, np.zeros(n)])
        found = [Effect(e.name, e.value, e.kind, 1) for e in found] + [Effect(e.name, 0.0, "null", 2) for e in found]
    y = draw_targets(likelihood, f, rng)
    if design == "factor":
        import pandas as pd

        frame = pd.DataFrame({"gender": np.where(male, "male", "female")})
        X = frame.assign(**{name: X[:, j] for j, name in enumerate(names) if j})
    return _split(X, f, y, n_samples, likelihood, found)


def _split(X: Any, f: Array, y: Array, n: int, likelihood: str, effects: list[Effect]) -> Simulated:
    return Simulated(X[:n], y[:n], f[:n], likelihood, tuple(effects), {"new": Rows(X[n:], f[n:], y[n:])})


def simulate_mixed(
    n_groups: int = 20,
    n_each: int = 30,
    *,
    likelihood: str = "gaussian",
    between: float | None = 1.0,
    within: Sequence[float] = (0.05, -0.05, 0.1),
    std: float = 1.0,
    n_new: int = 40,
    random_state: RandomState | np.random.Generator = None,
) -> Simulated:
    """Rows in groups, with a treatment that is constant within each group and columns that vary.

    Parameters
    ----------
    n_groups, n_each : int
        Levels, and rows of each.
    likelihood : str, default="gaussian"
        "gaussian", "logit" or "poisson".
    between : float or None, default=1.0
        Effect of the column "treatment", which every second level has; None: no such column.
    within : sequence of float
        Effects of the columns "w0", "w1", ..., which vary within levels.
    std : float, default=1.0
        Standard deviation between levels.
    n_new : int, default=40
        Rows to predict, of known levels and as many of new ones.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    simulated : Simulated
        Data and truth; ``new`` has "known levels" and "new levels".

    Examples
    --------
    >>> from sksvi.testing import simulate_mixed
    >>> data = simulate_mixed(6, 10, random_state=0)
    >>> list(data.X), data.groups, list(data.new)
    (['w0', 'w1', 'w2', 'treatment', 'group'], ('group',), ['known levels', 'new levels'])
    """
    import pandas as pd

    rng, fitted = np.random.default_rng(random_state), n_groups * n_each
    known_levels = rng.integers(0, n_groups, n_new)
    levels = np.concatenate([np.repeat(np.arange(n_groups), n_each), known_levels, n_groups + np.arange(n_new)])
    W = rng.standard_normal((len(levels), len(within)))
    group = std * rng.standard_normal(n_groups + n_new)
    f = {"gaussian": 2.0, "poisson": 0.5}.get(likelihood, -0.5) + W @ np.asarray(within, float) + group[levels]
    X = pd.DataFrame(W, columns=[f"w{j}" for j in range(len(within))])
    effects = [Effect(f"w{j}", float(w), "within" if w else "null") for j, w in enumerate(within)]
    if between is not None:
        X["treatment"] = (levels % 2).astype(float)
        f = f + between * X["treatment"].to_numpy()
        effects.append(Effect("treatment", between, "between" if between else "null"))
    X["group"] = levels
    effects.append(Effect("std(group, intercept)", std, "sd"))
    y = draw_targets(likelihood, f, rng)
    parts = {"known levels": slice(fitted, fitted + n_new), "new levels": slice(fitted + n_new, None)}
    new = {name: Rows(X[part], f[part], y[part]) for name, part in parts.items()}
    return Simulated(X[:fitted], y[:fitted], f[:fitted], likelihood, tuple(effects), new, ("group",))
