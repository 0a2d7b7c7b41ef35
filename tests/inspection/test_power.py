"""Power-scaling: the closed form of a conjugate Gaussian, and what it says of strong priors and weak data."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, StructuredLDA
from sksvi.inspection import power_scale
from sksvi.inspection._power import POWER
from sksvi.likelihoods import Gaussian


def posterior(prior, data, mean, powers):
    """Mean and sd of a Gaussian whose prior N(0, 1/prior) and likelihood N(mean, 1/data) have these powers."""
    precision = powers[0] * prior + powers[1] * data
    return powers[1] * data * mean / precision, precision**-0.5


def exact(prior, data, mean, which, span):
    """Sensitivity by quadrature over the distribution functions, where draws reach."""
    out = []
    m, s = posterior(prior, data, mean, (1.0, 1.0))
    x = np.linspace(m - span * s, m + span * s, 20001)
    for power in (1 / POWER, POWER):
        powers = [1.0, 1.0]
        powers[which] = power
        ways = []
        for tail in (norm.cdf, norm.sf):
            P, Q = tail(x, m, s), tail(x, *posterior(prior, data, mean, powers))
            M = 0.5 * (P + Q)
            ways.append(np.sqrt(trapezoid(P * np.log2(P / M) + Q * np.log2(Q / M), x) / trapezoid(P + Q, x)))
        out.append(max(ways))
    return np.mean(out) / np.log2(POWER)


@pytest.mark.parametrize("precision", [5.0, 60.0])
def test_a_conjugate_gaussian(precision, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(40, 1))
    y = 1.5 * X[:, 0] + rng.normal(size=40)
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0), prior_precision=precision, fit_intercept=False)
    found = power_scale(model.fit(X, y), X, y, n_draws=20000).iloc[0]
    data = float(X[:, 0] @ X[:, 0])
    for which, name in enumerate(("prior", "likelihood")):
        # 20,000 draws reach about four standard deviations; scaled weights are known to about a percent.
        assert found[name] == pytest.approx(exact(precision, data, float(X[:, 0] @ y) / data, which, 4.0), rel=0.08)


def test_what_is_said(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(200, 2))
    y = 2.0 * X[:, 0] + rng.normal(size=200)
    weak = power_scale(BayesianGLMRegressor(prior_precision=0.01).fit(X, y), X, y)
    assert (weak["diagnosis"] == "-").all() and (weak["prior"] < 0.05).all()
    strong = power_scale(BayesianGLMRegressor(prior_precision=100.0).fit(X, y), X, y)
    assert strong["diagnosis"].iloc[0] == "prior-data conflict"
    few, labels = np.repeat([[-1.0], [0.0], [1.0]], 2, axis=0), np.tile([0, 1], 3)  # which say that there is no effect
    alone = power_scale(BayesianGLMClassifier(prior_precision=50.0).fit(few, labels), few, labels)
    assert alone["diagnosis"].iloc[0] == "strong prior / weak likelihood"


def test_the_prior_of_levels_is_not_scaled(global_random_seed):
    """A weak prior of coefficients is weak beside thirty levels too, whose own prior is a part of the model."""
    rng = np.random.default_rng(global_random_seed)
    site = np.repeat(np.arange(30.0), 8)
    X = np.column_stack([rng.normal(size=240), site])
    y = X[:, 0] + rng.normal(size=30)[site.astype(int)] + rng.normal(size=240)
    model = GMERegressor(groups=1, prior_precision=0.01, intercept_precision=0.01).fit(X, y)
    # Below 0.005 but for weights that differ from draw to draw; 0.06 to 0.09 where levels are scaled too.
    assert (power_scale(model, X, y)["prior"] < 0.03).all()


def test_what_has_no_draws_is_refused():
    X = np.random.default_rng(0).poisson(1.0, (10, 4))
    with pytest.raises(TypeError, match="cannot weigh draws"):
        power_scale(StructuredLDA(n_components=2, random_state=0).fit(X), X)
