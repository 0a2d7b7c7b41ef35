"""Simulators: data drawn from the models of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sksvi import likelihoods
from sksvi._typing.arrays import RandomState
from sksvi._typing.parameters import LikelihoodLike

# A scale that a fit would learn has to be a number before anything can be drawn.
SIMULATED: dict[str, dict[str, float | tuple[float, ...]]] = {
    "gaussian": {"variance": 1.0},
    "student-t": {"scale": 1.0, "df": 4.0},
    "negative-binomial": {"dispersion": 0.5},
    "ordinal": {"cut_points": (-1.0, 0.0, 1.0)},
}


def _generator(random_state: Any) -> np.random.Generator:
    """NumPy Generator from None, an int, a Generator, or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


def _count(name: str, value: Any) -> int:
    """A positive integer, or the error that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer; found {value!r} of type {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; found {value}")
    return int(value)


def _check_positive(**numbers: float | None) -> None:
    """An error that names the first of these that is given, and not positive and finite."""
    for name, value in numbers.items():
        if value is not None and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite; found {value}")


def _simulable(likelihood: Any, n_classes: int) -> Any:
    """The likelihood with a number for every scale."""
    model = likelihoods.resolve(likelihood, n_classes)
    model = model.set_params(**SIMULATED.get(likelihood, {})) if isinstance(likelihood, str) else model
    unknown = [name for name, value in model.get_params(deep=False).items() if str(value) == "auto"]
    if unknown:
        raise ValueError(
            f"likelihood {type(model).__name__} has {', '.join(unknown)}='auto', which a fit learns from data; "
            "to simulate, give a number"
        )
    return model


def _scalar(likelihood: Any) -> Any:
    """The likelihood of one number given one latent, with a number for every scale."""
    model = _simulable(likelihood, 2)
    if model.n_latents != 1 or model.traits.paired:
        raise ValueError(f"likelihood must have one latent and one number per row; found {type(model).__name__}")
    return model


def make_glm(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    likelihood: LikelihoodLike = "logit",
    prior_precision: float | None = None,
    intercept_precision: float | None = None,
    n_classes: int = 3,
    n_trials: int = 10,
    coef: bool = False,
    random_state: RandomState | np.random.Generator = None,
) -> tuple:
    """Data from a Bayesian generalized linear model, its weights drawn from their prior.

    ``X`` is standard normal, ``w_j ~ N(0, 1 / prior_precision_j)``, ``f = X w`` and ``y ~ p(y | f)``.

    Parameters
    ----------
    n_samples, n_features : int
        Rows and columns of X.
    likelihood : str or Likelihood, default="logit"
        As in the estimators. Scales that a fit learns are fixed for a string at: Gaussian variance 1; Student-t scale 1
        with 4 degrees of freedom; negative binomial dispersion 0.5; ordinal cut points -1, 0, 1. Give an instance for
        others.
    prior_precision : float or array-like of shape (n_features,), default=None
        Precision (one over the variance) of the weights' prior. None: ``n_features``, so that f has variance 1.
    intercept_precision : float, default=None
        Precision of the intercept's prior. None: there is no intercept.
    n_classes : int, default=3
        Classes of ``"softmax"``.
    n_trials : int, default=10
        Trials per row of ``"binomial"``.
    coef : bool, default=False
        Return the weights too.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), or (n_samples, 2) for the binomial
        Numbers as the likelihood has them; classes are 0, 1, …; binomial rows are (successes, failures).
    weights : ndarray of shape (n_features,), (n_features + 1,) with an intercept, which is last
        Only if ``coef``. Softmax: one row per class.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, a precision is not positive, the likelihood is unknown or has a scale "auto".

    Examples
    --------
    >>> from sksvi.datasets import make_glm
    >>> X, y, w = make_glm(4, 2, likelihood="poisson", coef=True, random_state=0)
    >>> X.shape, y.shape, w.shape
    ((4, 2), (4,), (2,))
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    model = _simulable(likelihood, _count("n_classes", n_classes))
    precision = np.asarray(float(n_features) if prior_precision is None else prior_precision, dtype=float)
    if precision.shape not in ((), (n_features,)):
        raise ValueError(f"prior_precision must be a number or have shape ({n_features},); found {precision.shape}")
    precision = np.broadcast_to(precision, (n_features,))
    if intercept_precision is not None:
        precision = np.append(precision, intercept_precision)
    if not np.all(precision > 0):
        raise ValueError("prior_precision and intercept_precision must be positive")

    rng = _generator(random_state)
    X = rng.standard_normal((n_samples, n_features))
    latents = model.n_latents
    weights = rng.standard_normal((latents, len(precision))) / np.sqrt(precision)
    f = X @ weights[:, :n_features].T + weights[:, n_features:].sum(axis=1)
    if latents == 1:
        weights, f = weights[0], f[:, 0]
    y = model.sample_trials(f, _count("n_trials", n_trials), rng) if model.traits.paired else model.sample(f, rng)
    return (X, y, weights) if coef else (X, y)


def make_wide_logistic(
    n_samples: int = 20_000,
    n_features: int = 1_000,
    *,
    coef: bool = False,
    random_state: RandomState | np.random.Generator = None,
) -> tuple:
    """Dense wide data for logistic regression with rows of unit length.

    As in the GLM experiment of Sheth and Khardon, "Monte Carlo Structured SVI for Two-Level Non-Conjugate Models"
    (Figure 1): the rows have length 1, as those of their ``epsilon`` data (which is not needed here: the features are
    standard normal before scaling), and where they make labels, "true parameters were sampled from the priors", which
    is N(0, I) there. So f = X w has variance 1, and y ~ Bernoulli(1 / (1 + exp(-f))).

    Parameters
    ----------
    n_samples, n_features : int
        Rows and columns of X.
    coef : bool, default=False
        Return the weights too.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Every row has Euclidean length 1.
    y : ndarray of shape (n_samples,)
        Classes 0 and 1.
    weights : ndarray of shape (n_features,)
        Only if ``coef``.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer.

    Examples
    --------
    >>> from sksvi.datasets import make_wide_logistic
    >>> X, y = make_wide_logistic(5, 3, random_state=0)
    >>> bool(((X**2).sum(axis=1).round(12) == 1).all()), sorted(set(y.tolist())) <= [0, 1]
    (True, True)
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    rng = _generator(random_state)
    weights = rng.standard_normal(n_features)
    X = rng.standard_normal((n_samples, n_features))
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    y = likelihoods.Bernoulli(link="logit").sample(X @ weights, rng)
    return (X, y, weights) if coef else (X, y)


def make_gme(
    n_samples: int = 20_000,
    n_features: int = 500,
    *,
    likelihood: LikelihoodLike = "poisson-softplus",
    noise_variance: float | None = None,
    noise_prior_scale: float = 5.0,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Data from a generalized linear model with Gaussian noise on the latent of every row (mixed effects GLM).

    As in the GME experiment of Sheth and Khardon, "Monte Carlo Structured SVI for Two-Level Non-Conjugate Models"
    (Figure 2), where "true parameters (w1, w2) were sampled from the priors": w1 ~ N(0, I), w2 ~ Rayleigh(5),
    f_i ~ N(w1'x_i, w2) and y_i ~ Poisson(log(1 + exp(f_i))). The rows of X have length 1, as those of their
    ``epsilon`` data (see :func:`make_wide_logistic`), so w1'x has variance 1.

    Parameters
    ----------
    n_samples, n_features : int
        Rows and columns of X.
    likelihood : str or Likelihood, default="poisson-softplus"
        Any with one latent; scales as in :func:`make_glm`.
    noise_variance : float, default=None
        Variance w2 of the noise. None: drawn from its prior.
    noise_prior_scale : float, default=5.0
        Scale of the Rayleigh prior of w2, whose mean is 1.25 times the scale.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (n_samples, n_features), ``target`` (n_samples,), ``coef`` (n_features,), the
        number ``noise_variance`` and ``latent`` (n_samples,), the f with its noise.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, a variance or scale is not positive, the likelihood is unknown, has a scale
        "auto" or more than one latent.

    Examples
    --------
    >>> from sksvi.datasets import make_gme
    >>> bunch = make_gme(100, 3, noise_variance=2.0, random_state=0)
    >>> bunch.data.shape, bunch.target.shape, bunch.noise_variance
    ((100, 3), (100,), 2.0)
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    model = _scalar(likelihood)
    _check_positive(noise_variance=noise_variance, noise_prior_scale=noise_prior_scale)
    rng = _generator(random_state)
    weights = rng.standard_normal(n_features)
    drawn = float(rng.rayleigh(noise_prior_scale))
    variance = drawn if noise_variance is None else float(noise_variance)
    X = rng.standard_normal((n_samples, n_features))
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    f = X @ weights + np.sqrt(variance) * rng.standard_normal(n_samples)
    return Bunch(data=X, target=model.sample(f, rng), coef=weights, noise_variance=variance, latent=f)


def make_pmf(
    n_users: int = 1000,
    n_items: int = 1000,
    n_components: int = 100,
    *,
    likelihood: LikelihoodLike = "logit",
    observed: float = 1.0,
    user_variance: float = 1.0,
    item_variance: float = 1.0,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Entries of a matrix drawn from probabilistic matrix factorization with any scalar likelihood.

    As in the PMF experiment of Sheth and Khardon, "Monte Carlo Structured SVI for Two-Level Non-Conjugate Models"
    (Figures 4 to 6), whose artificial matrices are 1000 x 1000, fully observed, with 100 components and variances 1:
    u_i ~ N(0, user_variance I), v_j ~ N(0, item_variance I), f_ij = u_i'v_j and y_ij ~ p(y | f_ij). Theirs are
    ``"logit"``, ``"poisson-softplus"`` and ``"ordinal"``.

    Parameters
    ----------
    n_users, n_items, n_components : int
        Rows and columns of the matrix, and its rank K.
    likelihood : str or Likelihood, default="logit"
        Any with one latent; scales as in :func:`make_glm`, but ``"ordinal"`` has five levels with cut points at -2.25,
        -0.75, 0.75 and 2.25 standard deviations s of f and slope 1000 / s: with s = 10, as in the paper, the cut points
        are 15 apart and the slope is 100.
    observed : float in (0, 1], default=1.0
        Share of the cells that is observed, chosen at random without replacement (at least one).
    user_variance, item_variance : float, default=1.0
        Variances of the factors.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (n, 2), user and item of every observed cell as integers from 0, in random order,
        ``target`` (n,), ``latent`` (n,), the f, ``user_factors`` (n_users, n_components), ``item_factors`` (n_items,
        n_components) and the ``likelihood`` that drew the target.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, a variance is not positive, ``observed`` is not in (0, 1], the likelihood is
        unknown, has a scale "auto" or more than one latent.

    Examples
    --------
    >>> from sksvi.datasets import make_pmf
    >>> bunch = make_pmf(30, 20, 3, observed=0.5, random_state=0)
    >>> bunch.data.shape, bunch.target.shape, bunch.user_factors.shape, bunch.item_factors.shape
    ((300, 2), (300,), (30, 3), (20, 3))
    """
    n_users, n_items = _count("n_users", n_users), _count("n_items", n_items)
    n_components = _count("n_components", n_components)
    _check_positive(user_variance=user_variance, item_variance=item_variance)
    if not 0 < observed <= 1:
        raise ValueError(f"observed must be in (0, 1]; found {observed}")
    if isinstance(likelihood, str) and likelihood == "ordinal":
        sd = float(np.sqrt(n_components * user_variance * item_variance))
        likelihood = likelihoods.Ordinal(cut_points=(-2.25 * sd, -0.75 * sd, 0.75 * sd, 2.25 * sd), slope=1000.0 / sd)
    model = _scalar(likelihood)
    rng = _generator(random_state)
    users = np.sqrt(user_variance) * rng.standard_normal((n_users, n_components))
    items = np.sqrt(item_variance) * rng.standard_normal((n_items, n_components))
    cells = n_users * n_items
    pairs = np.column_stack(np.divmod(rng.choice(cells, max(round(observed * cells), 1), replace=False), n_items))
    f = np.empty(len(pairs))
    for start in range(0, len(f), 100_000):  # a block of rows of both factors at a time
        part = pairs[start : start + 100_000]
        f[start : start + 100_000] = np.einsum("ij,ij->i", users[part[:, 0]], items[part[:, 1]])
    return Bunch(
        data=pairs, target=model.sample(f, rng), latent=f, user_factors=users, item_factors=items, likelihood=model
    )


def make_beta_process(
    n_samples: int = 1000,
    n_features: int = 40,
    n_components: int = 80,
    *,
    a: float = 10.0,
    b: float = 10.0,
    weight_precision: float = 1.0,
    noise_precision: float = 100.0,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Rows drawn from the prior of beta process factor analysis: sparse sums of factors, and noise.

    As in the synthetic experiment of Shah, Knowles and Ghahramani, "An empirical study of stochastic variational
    algorithms for the beta Bernoulli process" (Figures 1 and 2), with 80 factors of 40 columns, weights of precision
    1 and noise of precision 100: pi_k ~ Beta(a/K, b(K-1)/K), z_ik ~ Bernoulli(pi_k), w_ik ~ N(0, 1/weight_precision),
    factors phi_k ~ N(0, I/D) and y_i ~ N(sum_k z_ik w_ik phi_k, I/noise_precision).

    Parameters
    ----------
    n_samples, n_features, n_components : int
        Rows, columns D, and factors K.
    a, b : float, default=10.0
        Of the prior of the probabilities.
    weight_precision, noise_precision : float
        Precisions of weights and noise.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (n_samples, n_features), ``components`` (n_components, n_features), ``codes``
        (n_samples, n_components), the z w, and ``probabilities`` (n_components,).

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, or another number is not positive.

    Examples
    --------
    >>> from sksvi.datasets import make_beta_process
    >>> bunch = make_beta_process(100, 8, 5, random_state=0)
    >>> bunch.data.shape, bunch.components.shape, bunch.codes.shape
    ((100, 8), (5, 8), (100, 5))
    """
    n, D, K = _count("n_samples", n_samples), _count("n_features", n_features), _count("n_components", n_components)
    _check_positive(a=a, b=b, weight_precision=weight_precision, noise_precision=noise_precision)
    rng = _generator(random_state)
    # One factor alone has b (K - 1)/K = 0: its probability keeps the b of two.
    probabilities = rng.beta(a / K, b * max(K - 1, 0.5) / K, K)
    components = rng.standard_normal((K, D)) / np.sqrt(D)
    codes = np.where(rng.random((n, K)) < probabilities, rng.standard_normal((n, K)) / np.sqrt(weight_precision), 0.0)
    X = codes @ components + rng.standard_normal((n, D)) / np.sqrt(noise_precision)
    return Bunch(data=X, components=components, codes=codes, probabilities=probabilities)
