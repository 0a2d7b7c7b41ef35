"""Power-scaling: the closed form of a conjugate Gaussian, and what it says of strong priors and weak data."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.special import rel_entr
from scipy.stats import norm

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    SparseGPRegressor,
    StructuredLDA,
)
from sksvi.families import Point
from sksvi.inspection import power_scale
from sksvi.inspection._power import POWER, cumulative_distance
from sksvi.likelihoods import Gaussian


def posterior(prior, data, mean, powers):
    """Mean and sd of a Gaussian whose prior N(0, 1/prior) and likelihood N(mean, 1/data) have these powers."""
    precision = powers[0] * prior + powers[1] * data
    return powers[1] * data * mean / precision, precision**-0.5


def distance(x, below, other):
    """The definition, of distribution functions (n,) at x: both divergences with the terms that make each positive."""
    ways = []
    for P, Q in ((below, other), np.maximum(1.0 - np.stack([below, other]), 0.0)):
        M, total = 0.5 * (P + Q), trapezoid(P + Q, x)
        divergence = [
            trapezoid(rel_entr(one, M), x) / np.log(2.0) + trapezoid(two - one, x) / (2.0 * np.log(2.0))
            for one, two in ((P, Q), (Q, P))
        ]
        assert min(divergence) > -1e-9
        ways.append(np.sqrt(sum(divergence) / total))
    return max(ways)


def between_normals(first, others, span):
    """Sensitivity of a normal (mean, std) whose scaled posteriors are others, where draws reach."""
    m, s = first
    x = np.linspace(m - span * s, m + span * s, 20001)
    return np.mean([distance(x, norm.cdf(x, m, s), norm.cdf(x, *own)) for own in others]) / np.log2(POWER)


def exact(prior, data, mean, which, span):
    """Sensitivity by quadrature over the distribution functions, where draws reach."""
    others = [posterior(prior, data, mean, np.where(np.arange(2) == which, power, 1.0)) for power in (1 / POWER, POWER)]
    return between_normals(posterior(prior, data, mean, (1.0, 1.0)), others, span)


def test_the_distance_of_weighted_draws_is_that_of_its_definition(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    values, base, weight = rng.normal(size=40), rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40))
    x = np.linspace(values.min(), values.max(), 50001)
    below, other = ((values <= x[:, None]) @ own for own in (base, weight))
    assert cumulative_distance(values, weight, base) == pytest.approx(distance(x, below, other), rel=5e-3)
    # Distribution functions x and x² on (0, 1).
    at = (np.arange(20000) + 0.5) / 20000
    assert cumulative_distance(at, at / at.sum(), np.full(20000, 1 / 20000)) == pytest.approx(
        distance(at, at, np.square(at)), rel=1e-3
    )


def test_coefficients_are_those_of_fits_under_scaled_precision_and_weights(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(30, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    y = 1.0 + X[:, 0] + rng.normal(size=30)

    def fitted(prior, weight):
        model = BayesianGLMRegressor(
            likelihood=Gaussian(variance=1.0), prior_precision=10.0 * prior, intercept_precision=5.0 * prior
        )
        model.fit(X, y, sample_weight=np.full(30, weight))
        view = model.posterior_["weights"]
        return model, np.column_stack([view.mean, view.std])

    model, own = fitted(1.0, 1.0)
    found = power_scale(model, X, y, sample_weight=np.ones(30), n_draws=20000)
    for name, powers in (("prior", np.array([1.0, 0.0])), ("likelihood", np.array([0.0, 1.0]))):
        others = [fitted(*power**powers)[1] for power in (1 / POWER, POWER)]
        for c, value in enumerate(found[name]):
            expected = between_normals(own[c], [other[c] for other in others], 4.0)
            # Weights of draws shift means by 0.007 standard deviations at the most that their number allows.
            assert value == pytest.approx(expected, rel=0.08, abs=0.01)


#: Priors that data contradict are what is looked at.
CONTRADICTED = pytest.mark.filterwarnings("ignore:prior_precision=.* the data contradict it:UserWarning")


@CONTRADICTED
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


@pytest.mark.filterwarnings("ignore:noise is larger where column")
@pytest.mark.costly
@CONTRADICTED
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


@pytest.mark.costly
def test_the_prior_of_levels_is_not_scaled(global_random_seed):
    """A weak prior of coefficients is weak beside thirty levels too, whose own prior is a part of the model."""
    rng = np.random.default_rng(global_random_seed)
    site = np.repeat(np.arange(30.0), 8)
    X = np.column_stack([rng.normal(size=240), site])
    y = X[:, 0] + rng.normal(size=30)[site.astype(int)] + rng.normal(size=240)
    model = GMERegressor(groups=1, prior_precision=0.01, intercept_precision=0.01).fit(X, y)
    # Below 0.005 but for weights that differ from draw to draw; 0.06 to 0.09 where levels are scaled too.
    assert (power_scale(model, X, y)["prior"] < 0.03).all()


@pytest.mark.costly
def test_hyperparameters_of_gaussian_noise_are_those_of_a_dense_grid(global_random_seed):
    """The evidence of scale and noise in closed form, powers and all, on a grid."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(40, 3))
    y = X @ rng.normal(size=3) + rng.normal(size=40)
    model = BayesianGLMRegressor().fit(X, y)
    found = power_scale(model, X, y).loc[["scale(coefficients)", "std(residual)"], ["prior", "likelihood"]]
    problem, q = model._with_rows_of_fit(X, y, None, None)[0], model.state_.shown
    own, scales, A = problem.model, problem.model.scales, np.column_stack([problem.data.X, np.ones(40)])
    h = np.linspace(scales.lowest[0], scales.highest[0], 121)
    theta = q["likelihood"].value[0] + np.linspace(-1.2, 1.2, 61)
    noise = np.array([own.current_likelihood({**q, "likelihood": Point(t[None])}).noise_variance for t in theta])
    W, V = np.exp(-h) * scales.variance[0] / scales.unit**2, noise / own.unit**2
    axes = [0.5 * np.exp(-0.5 * h)[::-1], np.sqrt(noise)]

    def marginals(prior_power, power):
        logs = np.empty((121, 61))
        for i in range(121):
            prior = own.prior({**q, "prior_precision": Point(h[i : i + 1])})["weights"]
            P = prior.precision * np.append(np.ones(3), prior_power)  # the intercept's is no part of a hierarchy
            L = np.diag(P) + (power / noise)[:, None, None] * (A.T @ A)
            b = P * prior.mean + (power / noise)[:, None] * (A.T @ problem.data.y)
            explained = np.sum(b * np.linalg.solve(L, b[..., None])[..., 0], axis=1)
            squares = power / noise * (problem.data.y @ problem.data.y) + prior.mean @ (P * prior.mean) - explained
            determinants = np.log(P).sum() - np.linalg.slogdet(L)[1]
            logs[i] = 0.5 * (determinants - squares - 40.0 * power * np.log(noise))
        # Half-Cauchy densities of both deviations, and the derivatives of these in the axes of the grid.
        logs -= prior_power * (np.log1p(W)[:, None] + np.log1p(V)) - 0.5 * (np.log(W)[:, None] + np.log(V))
        w = np.exp(logs - logs.max())
        return [np.cumsum(w.sum(1)[::-1]) / w.sum(), np.cumsum(w.sum(0)) / w.sum()]

    base = marginals(1.0, 1.0)
    for name, powers in (("prior", np.array([1.0, 0.0])), ("likelihood", np.array([0.0, 1.0]))):
        sides = [marginals(*power**powers) for power in (1 / POWER, POWER)]
        for k, (x, P) in enumerate(zip(axes, base)):
            inside = (P > 1.25e-4) & (P < 1.0 - 1.25e-4)
            ways = [distance(x[inside], P[inside], side[k][inside]) for side in sides]
            # Points of the rule leave 0.005 to 0.04, however little there is.
            assert found[name].iloc[k] == pytest.approx(np.mean(ways) / np.log2(POWER), abs=0.05)


@CONTRADICTED
def test_levels_are_shown_as_their_differences_and_do_not_lean(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.normal(size=150), "kind": np.repeat(["a", "b", "c"], 50)})
    y = X["x"] + 2.0 * (X["kind"] == "b") + rng.normal(size=150)
    model = BayesianGLMRegressor(prior_precision=0.01, likelihood=Gaussian(variance=1.0)).fit(X, y)
    found = power_scale(model, X, y)
    assert found.index.tolist() == ["x", "kind_b", "kind_c", "intercept"]
    assert found.index.equals(model.summary().index)
    assert (found["prior"] < 0.03).all() and (found["likelihood"] > 0.05).all()
    model = BayesianGLMRegressor(prior_precision=100.0, likelihood=Gaussian(variance=1.0)).fit(X, y)
    assert power_scale(model, X, y).loc["kind_b", "diagnosis"] == "prior-data conflict"


def test_classes_are_shown_less_their_mean(global_random_seed):
    """A shift of all classes, which the prior alone divides, is in no row."""
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.normal(size=300)})
    y = np.array(["u", "v", "w"])[np.argmax(np.outer(X["x"], [-1.0, 0.0, 1.0]) + rng.gumbel(size=(300, 3)), axis=1)]
    model = BayesianGLMClassifier(prior_precision=0.01).fit(X, y)
    found = power_scale(model, X, y)
    assert found.index.tolist() == [(k, name) for k in "uvw" for name in ("x", "intercept")]
    assert (found["prior"] < 0.03).all() and (found["likelihood"] > 0.05).all()


@pytest.mark.costly
def test_which_hyperparameters_have_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    site = np.repeat(np.arange(12.0), 8)
    X = pd.DataFrame({"x": rng.normal(size=96), "site": site})
    f = X["x"] + rng.normal(size=12)[site.astype(int)]
    models = {
        "gaussian": GMERegressor(groups="site"),
        "poisson": GMERegressor(groups="site", likelihood="poisson"),
        "classes": GMEClassifier(groups="site"),
        "point": GMERegressor(groups="site", hyperparameters="point"),
    }
    targets = {"poisson": rng.poisson(np.exp(0.5 * f)), "classes": np.where(f + rng.logistic(size=96) > 0, "y", "n")}
    found = {}
    for name, model in models.items():
        y = targets.get(name, f + rng.normal(size=96))
        found[name] = power_scale(model.fit(X, y), X, y).index.tolist()
    assert found["gaussian"][2:] == ["std(site, intercept)", "scale(coefficients)", "std(residual)"]
    assert found["poisson"] == ["x", "intercept", *["noise variance"] * bool(models["poisson"].noise_scale_)]
    assert found["classes"] == ["x", "intercept", *["noise variance"] * bool(models["classes"].noise_scale_)]
    assert found["point"] == ["x", "intercept"]


def test_processes(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(30, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
    found = power_scale(SparseGPRegressor(n_inducing=5).fit(X, y), X, y)
    assert len(found) == 5 and np.isfinite(found[["prior", "likelihood"]].to_numpy()).all()
    labels = y > 0
    for model, rows in (
        (GPClassifier().fit(X, labels), (X, labels)),
        (DynamicGLM(likelihood="gaussian").fit(None, y), ()),
    ):
        with pytest.raises(TypeError, match="fit anew under other ones"):
            power_scale(model, *rows)


def test_what_has_no_draws_is_refused():
    X = np.random.default_rng(0).poisson(1.0, (10, 4))
    with pytest.raises(TypeError, match="cannot weigh draws"):
        power_scale(StructuredLDA(n_components=2, random_state=0).fit(X), X)
