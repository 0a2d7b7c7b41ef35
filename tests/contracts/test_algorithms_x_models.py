"""Models × algorithms × likelihoods × covariances × expectations, full batches and mini-batches."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, likelihoods
from sksvi.algorithms import VARIATIONAL
from sksvi.models.base import Model
from sksvi.models.linear import glm as linear
from sksvi.models.mixed import glm as mixed_effects
from tests.cases import NAMES, TRUTH, data_for, fitted, model_for, problem_for

N = 120
#: The mixed model has its own product in test_mixed_model.py.
MODELS = {"linear": linear.LinearModel, "mixed": mixed_effects.MixedModel}
EXPECTATIONS = ["auto", "quadrature", "gauss-hermite", "monte-carlo"]
COVARIANCES, BATCHES = ["full", "diag"], {"full batch": None, "mini-batch": 40}
#: Likelihoods whose integrals are as those of another one are fitted by every algorithm to rows of a stream alone.
ALIKE = {
    "log-normal", "weibull", "exponential", "log-logistic", "beta-binomial", "hurdle-poisson",
    "zero-inflated-negative-binomial", "hurdle-negative-binomial", "tweedie",
}  # fmt: skip
#: (likelihood, algorithm, covariance, expectation, batch): every pair of any two once at least, the rest is exhaustive.
PRODUCT = [
    pytest.param(
        name, algorithm, covariance, expectation, BATCHES[batch],
        id="-".join([name, algorithm, covariance, expectation, batch]),
        marks=[] if (i + j + 2 * k + l + (j // 2) * m) % 4 == 0 else [pytest.mark.exhaustive],
    )
    for i, name in enumerate(name for name in NAMES if name not in ALIKE)
    for j, algorithm in enumerate(VARIATIONAL)
    for k, covariance in enumerate(COVARIANCES)
    for l, expectation in enumerate(EXPECTATIONS)
    for m, batch in enumerate(BATCHES)
]  # fmt: skip
#: Relative error of the bound that a stochastic fit of a small, well-conditioned set may leave; 5 % where draws and a
#: diagonal covariance come together.
CLOSE, CLOSE_DIAGONAL_DRAWS = 0.01, 0.05
#: What ten draws per datum cost on top, nats: about a quarter per coordinate that wanders.
NOISE = 1.0


@cache
def problem(name, covariance, seed):
    """Data, the best bound that deterministic fits find, and the posterior there."""
    data = data_for(name, n=N, seed=seed)
    model = model_for(name, data, covariance == "full")
    states = [fitted(problem_for(model, data, algorithm), tol=1e-9) for algorithm in ("fp", "cvi")]
    best = max(states, key=lambda state: state.bound)
    assert states[0].bound == pytest.approx(states[1].bound, rel=1e-5)
    return data, best.bound, model.exposed(best.q["weights"])


def estimator(name, seed, **options):
    classifies = TRUTH[name].traits.classifies
    cls = BayesianGLMClassifier if classifies else BayesianGLMRegressor
    likelihood = name if classifies else TRUTH[name]
    settings = {"prior_precision": 1.5, "intercept_precision": 0.2, "random_state": seed}
    return cls(likelihood=likelihood, **{**settings, **options})


def test_the_product_is_complete():
    """A new likelihood, algorithm or model without a row here fails."""
    classes = {
        getattr(likelihoods, name) for name in likelihoods.__all__ if isinstance(getattr(likelihoods, name), type)
    }
    # Rows of a softmax, and a likelihood of quantiles: both have tests of their own.
    classes -= {likelihoods.Multinomial, likelihoods.AsymmetricLaplace}
    classes -= {likelihoods.Censored, likelihoods.Likelihood, likelihoods.LikelihoodTraits, likelihoods.Support}
    assert classes == {type(likelihood) for likelihood in TRUTH.values()}
    assert {name for name in likelihoods._BY_NAME if name not in ("bernoulli", "multinomial")} == set(NAMES)
    classes = {
        value for module in (linear, mixed_effects) for value in vars(module).values() if isinstance(value, type)
    }
    found = {
        value
        for value in classes
        if Model in value.__mro__ and value.__module__ in (linear.__name__, mixed_effects.__name__)
    }
    assert found == set(MODELS.values())


def test_the_quick_part_has_every_pair():
    quick = [choice.values for choice in PRODUCT if not choice.marks]
    for a, b in combinations(range(5), 2):
        assert {(v[a], v[b]) for v in quick} == {(p.values[a], p.values[b]) for p in PRODUCT}


@pytest.mark.parametrize(("name", "algorithm", "covariance", "expectation", "batch_size"), PRODUCT)
def test_every_combination(name, algorithm, covariance, expectation, batch_size, global_random_seed):
    data, best, optimum = problem(name, covariance, global_random_seed)
    model = estimator(
        name,
        global_random_seed,
        algorithm=algorithm,
        covariance=covariance,
        expectation=expectation,
        batch_size=batch_size,
    )
    if algorithm == "fp" and (batch_size or expectation == "monte-carlo"):
        message = "works on all rows at once.*choose 'cvi'" if batch_size else ".*monte-carlo"
        with pytest.raises(ValueError, match=f"algorithm='fp' {message}"):
            model.fit(data.X, data.y)
        return
    if name == "softmax" and expectation == "gauss-hermite":
        with pytest.raises(ValueError, match=r'integrates over one f .* use "auto"'):
            model.fit(data.X, data.y)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    q = model.posterior_["weights"]
    assert np.all(np.isfinite(q.mean))
    assert np.all(q.std > 0)
    assert np.all(np.isfinite(model.lower_bounds_))
    # lower_bound_ is computed without draws, so that it cannot lie above the optimum.
    slack = 1e-4 if name == "softmax" or expectation == "gauss-hermite" else 1e-6
    assert model.lower_bound_ <= best + slack * (abs(best) + 1)
    draws = expectation == "monte-carlo"
    if draws and name == "inverse-gaussian":  # averages of few draws of exp(-2f) have no law: doc/likelihoods.md
        return
    share = CLOSE_DIAGONAL_DRAWS if draws and covariance == "diag" else CLOSE
    assert best - model.lower_bound_ <= share * abs(best) + NOISE * draws
    if covariance == "full":
        # A bound that is k nats short allows the means to be about sqrt(2 k) posterior standard deviations off.
        short = max(best - model.lower_bound_, 0.0) + 1e-3 * abs(best)
        assert np.all(np.abs(q.mean - optimum.mean) <= 2 * np.sqrt(2 * short) * optimum.std + 1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("algorithm", [name for name in sorted(VARIATIONAL) if name != "fp"])
def test_streams_of_every_combination(name, algorithm, global_random_seed):
    """partial_fit: finite, and every row counted."""
    data, _, _ = problem(name, "full", global_random_seed)
    model = estimator(name, global_random_seed, algorithm=algorithm)
    first = {"classes": np.unique(data.y)} if TRUTH[name].traits.classifies else {}
    levels = np.argsort(np.arange(N) >= 4, kind="stable")  # the first rows have every level
    for rows in np.array_split(levels, 3):
        model.partial_fit(data.X[rows], data.y[rows], **first)
    assert np.all(np.isfinite(model.posterior_["weights"].mean))
    assert np.isfinite(model.lower_bound_)
    assert model.n_samples_seen_ == N


def test_fp_does_not_stream(global_random_seed):
    data, _, _ = problem("poisson", "full", global_random_seed)
    model = estimator("poisson", global_random_seed, algorithm="fp", batch_size=40)
    with pytest.raises(ValueError, match="algorithm='fp' works on all rows at once"):
        model.partial_fit(data.X, data.y)
