"""Where all is conjugate a network is variational message passing, and stochastic variational inference by batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from sksvi import BayesianGLMRegressor, likelihoods
from sksvi.algorithms import SVI
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.traits import Warmup
from sksvi.network import Beta, Categorical, Dirichlet, Factor, Gamma, Gaussian, Likelihood, Link, Network, Poisson
from sksvi.schedules import RobbinsMonro

K, D, N = 3, 6, 120
RATE = RobbinsMonro(delay=5.0, kappa=0.7)


def design(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4))
    return X, X @ rng.standard_normal(4) + 0.5 * rng.standard_normal(60)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_linear_models_of_the_library(likelihood, global_random_seed):
    """Weights of one Gaussian node through a design: the posterior and the bound of the estimator."""
    X, y = design(global_random_seed)
    if likelihood == "gaussian":
        child, options = Gaussian(Link("w", design=X), 4.0), likelihoods.Gaussian(variance=0.25)
    else:
        y = np.random.default_rng(global_random_seed).poisson(np.exp(0.5 * X[:, 0])).astype(float)
        child, options = Likelihood("poisson", Link("w", design=X)), "poisson"
    network = Network({"w": Gaussian(0.0, 1.5, size=4, covariance="full"), "y": child}).fit({"y": y}, tol=1e-14)
    model = BayesianGLMRegressor(
        likelihood=options, prior_precision=1.5, fit_intercept=False, algorithm="cvi", tol=1e-14, max_iter=200
    ).fit(X, y)
    q, wanted = network.posterior_["w"], model.posterior_["weights"]
    np.testing.assert_allclose(q.mean, wanted.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.cov, wanted.cov, rtol=1e-6, atol=1e-9)  # bounds cannot tell them apart
    assert network.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-8)


def test_one_step_is_the_exact_posterior(global_random_seed):
    """Conjugate pairs, by hand."""
    rng = np.random.default_rng(global_random_seed)
    y, e, codes, x = rng.poisson(3.0, 30), rng.uniform(0.5, 2.0, 30), rng.integers(0, 3, 40), rng.gamma(2.0, 0.5, 25)
    nodes = {
        "a": Gamma(2.0, 1.0),
        "b": Gamma(3.0, 2.0),
        "p": Dirichlet([0.5, 1.0, 2.0]),
        "y": Poisson("a", exposure=e),
        "x": Gamma(2.0, "b"),
        "codes": Categorical("p"),
    }
    network = Network(nodes).fit({"y": y, "x": x, "codes": codes})
    q = network.posterior_
    np.testing.assert_allclose([q.a.shape[0], q.a.rate[0]], [2.0 + y.sum(), 1.0 + e.sum()])
    np.testing.assert_allclose([q.b.shape[0], q.b.rate[0]], [3.0 + 2.0 * 25, 2.0 + x.sum()])
    np.testing.assert_allclose(q.p.concentration, np.array([0.5, 1.0, 2.0]) + np.bincount(codes, minlength=3))
    np.testing.assert_allclose(np.diff(network.lower_bounds_)[1:], 0.0, atol=1e-9)


def test_normal_with_unknown_mean_and_precision(global_random_seed):
    """The textbook's fixed point of variational message passing, iterated by hand."""
    y = np.random.default_rng(global_random_seed).normal(2.0, 0.5, 50)
    network = Network({"m": Gaussian(0.0, 0.1), "t": Gamma(1.0, 1.0), "y": Gaussian("m", "t")})
    network.fit({"y": y}, tol=1e-14)
    mean, precision = 0.0, 1.0
    for _ in range(200):
        rate = 1.0 + 0.5 * (np.square(y - mean).sum() + 50 / precision)
        expected = (1.0 + 25.0) / rate
        precision = 0.1 + 50 * expected
        mean = expected * y.sum() / precision
    q = network.posterior_
    np.testing.assert_allclose([q.m.mean[0], q.m.precision[0], q.t.rate[0]], [mean, precision, rate], rtol=1e-8)


# ---- a mixture: a factor of one's own, whose local variable is summed out
class Mixture(Factor):
    """Rows of zeros and ones of K components: log Σ_k exp(E log π_k + Σ_d E log p(y_d | φ_kd))."""

    nodes = ("weights", "probabilities")

    def __init__(self, Y):
        self.Y, self.n_rows = Y, len(Y)

    def terms(self, q, rows, expect=None):
        Y = self.Y[rows]
        logs = q["probabilities"].moments.reshape(K, D, 2)
        each = q["weights"].moments + (1 - Y) @ logs[..., 0].T + Y @ logs[..., 1].T
        value = logsumexp(each, axis=1)
        share = np.exp(each - value[:, None])
        ones = np.stack([share.T @ (1 - Y), share.T @ Y], -1).reshape(K * D, 2)
        return value, {"weights": (share.sum(0),), "probabilities": (ones,)}


def mixtures(seed, batch_size, max_iter):
    """The network's and the library's fit of the same rows, from the same q."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((N, D)) < rng.random((K, D))[rng.integers(0, K, N)]).astype(float)
    model = MixtureModel(K, (2,) * D, concentration=3.0)
    model = model.replaced(traits=replace(model.traits, warmup=Warmup()))
    data = Table(model.layout.cells(Y.astype(int)), np.zeros(N))
    problem = plan.problem(model, data, SVI(schedule=RATE if batch_size else None), batch_size=batch_size)
    number = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
    state = first_state(problem, number)
    flat = state.q["probabilities"]
    start = {"weights": state.q["weights"], "probabilities": type(flat)(flat.a.ravel(), flat.b.ravel())}
    theirs = plan.run(problem, state, max_iter, 0.0)
    nodes = {"weights": Dirichlet(np.full(K, 1.0)), "probabilities": Beta(1.0, 1.0, size=K * D)}
    ours = Network(nodes, {"rows": Mixture(Y)}).fit(
        start=start,
        order="parallel",
        rate=RATE if batch_size else None,
        batch_size=batch_size,
        max_iter=max_iter,
        tol=0.0,
        random_state=seed,
    )
    return ours, theirs


@pytest.mark.parametrize("batch_size", [None, 20])
def test_mixture_of_the_library(batch_size, global_random_seed):
    """Every pass has the same bound and the last q is the same: on all rows, and with mini-batches as SVI."""
    ours, theirs = mixtures(global_random_seed, batch_size, 6)
    np.testing.assert_allclose(ours.lower_bounds_, theirs.bounds, rtol=1e-10)
    assert ours.lower_bound_ == pytest.approx(theirs.bound, rel=1e-10)
    np.testing.assert_allclose(ours.posterior_["weights"].concentration, theirs.q["weights"].concentration, rtol=1e-8)
    for name in ("a", "b"):
        wanted = getattr(theirs.q["probabilities"], name).ravel()
        np.testing.assert_allclose(getattr(ours.posterior_["probabilities"], name), wanted, rtol=1e-8)


def test_batches_of_a_linear_model(global_random_seed):
    """Mini-batches of a design: the steps of the library's linear model under mc-ssvi, batch by batch."""
    from sksvi.algorithms import MCSSVI

    X, y = design(global_random_seed)
    likelihood = likelihoods.Gaussian(variance=0.25)
    options = {"intercept_precision": 1.0, "n_features": 4, "fit_intercept": False, "full": True}
    model = LinearModel(likelihood, prior_precision=1.5, **options)
    problem = plan.problem(model, Table(X, y), MCSSVI(schedule=RATE), batch_size=12)
    number = int(check_random_state(0).randint(np.iinfo(np.int32).max))
    state = first_state(problem, number)
    start = {"w": type(state.q["weights"])(state.q["weights"].mean, state.q["weights"].precision)}
    theirs = plan.run(problem, state, 4, 0.0)
    nodes = {"w": Gaussian(0.0, 1.5, size=4, covariance="full"), "y": Gaussian(Link("w", design=X), 4.0)}
    ours = Network(nodes).fit({"y": y}, start=start, rate=RATE, batch_size=12, max_iter=4, tol=0.0, random_state=0)
    np.testing.assert_allclose(ours.lower_bounds_, theirs.bounds, rtol=1e-9)
    np.testing.assert_allclose(ours.posterior_["w"].mean, theirs.q["weights"].mean, rtol=1e-8)
    np.testing.assert_allclose(ours.posterior_["w"].cov, theirs.q["weights"].cov, rtol=1e-8, atol=1e-12)
