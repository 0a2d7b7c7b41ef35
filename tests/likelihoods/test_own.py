"""Likelihoods of a user's own, with levels and with measured y, written against the public seam alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betainc, expit, logit, logsumexp

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, GMERegressor
from sksvi.expectations import Auto
from sksvi.likelihoods import Bernoulli, Gaussian, Likelihood, LikelihoodTraits, StudentT, Support
from sksvi.likelihoods.traits import log_sigmoid_terms, safe_exp
from sksvi.models.mixed import noise_bounds
from sksvi.predictive import NoisyPredictive, Predictive
from sksvi.testing import check_likelihood
from tests.chance import errors_allowed


class ComplementaryLogLog(Likelihood):
    """Two levels, P(y = 1 | f) = 1 - exp(-exp(f)): an event by the end of an interval; not symmetric."""

    support = Support(0.0, 1.0, True, "y in {0, 1}")
    traits = LikelihoodTraits(discrete=True, classifies=True)
    width = np.pi / 6.0  # exp(-exp(f)) is 1 at f = log(2 pi) + pi i / 2

    def derivatives(self, y, f):
        y, f = np.broadcast_arrays(np.asarray(y, float), np.asarray(f, float))
        rate, r = safe_exp(f), np.clip(safe_exp(f), 1e-300, 700.0)
        small = r < 1e-5  # by series, where differences lose digits
        slope = np.where(small, 1.0 - 0.5 * r, r / np.expm1(r))
        curve = np.where(small, -0.5 * r, slope * (1.0 - r - slope))
        value = np.where(small, np.minimum(f, 0.0) - 0.5 * r, np.log(-np.expm1(-r)))
        return np.where(y > 0, value, -rate), np.where(y > 0, slope, -rate), np.where(y > 0, curve, -rate)

    def mean(self, f):
        return -np.expm1(-safe_exp(f))

    def conditional_variance(self, f):
        return self.mean(f) * np.exp(-safe_exp(f))

    def cdf(self, y, f):
        return np.where(y < 0, 0.0, np.where(y < 1, np.exp(-safe_exp(f)), 1.0))

    def ppf(self, p, f):
        return np.where(p > np.exp(-safe_exp(f)), 1.0, 0.0)

    def sample(self, f, rng):
        return (rng.random(np.shape(f)) < self.mean(f)).astype(float)


class TwoTrials(Likelihood):
    """Three ordered levels, y ~ Binomial(2, sigmoid(f))."""

    support = Support(0.0, 2.0, True, "y in {0, 1, 2}")
    traits = LikelihoodTraits(discrete=True, ordered=True)

    def derivatives(self, y, f):
        up, down = log_sigmoid_terms(np.asarray(f, float)), log_sigmoid_terms(-np.asarray(f, float))
        y = np.asarray(y, float)
        value = y * up[0] + (2.0 - y) * down[0] + np.where(y == 1.0, np.log(2.0), 0.0)
        return value, y * up[1] - (2.0 - y) * down[1], y * up[2] + (2.0 - y) * down[2]

    def mean(self, f):
        return 2.0 * expit(f)

    def conditional_variance(self, f):
        return 2.0 * expit(f) * expit(-f)

    def cdf(self, y, f):
        y = np.floor(np.asarray(y, float))
        inside = betainc(2.0 - np.clip(y, 0.0, 1.0), np.clip(y, 0.0, 1.0) + 1.0, expit(-f))
        return np.where(y < 0, 0.0, np.where(y > 1, 1.0, inside))

    def ppf(self, p, f):
        return 0.0 + (self.cdf(0.0, f) < p) + (self.cdf(1.0, f) < p)

    def sample(self, f, rng):
        return rng.binomial(2, expit(f)).astype(float)


class Logistic(Likelihood):
    """y = f + scale times standard logistic noise; the scale may be learned."""

    traits = LikelihoodTraits(additive=True)

    def __init__(self, *, scale="auto"):
        self.scale = scale

    @property
    def width(self):
        return np.pi * self.scale / 3.0

    def derivatives(self, y, f):
        z = (y - np.asarray(f, float)) / self.scale
        up, down = log_sigmoid_terms(z), log_sigmoid_terms(-z)
        return up[0] + down[0] - np.log(self.scale), (down[1] - up[1]) / self.scale, (up[2] + down[2]) / self.scale**2

    def mean(self, f):
        return np.asarray(f, float)

    def conditional_variance(self, f):
        return np.full(np.shape(f), (np.pi * self.scale) ** 2 / 3.0)

    def cdf(self, y, f):
        return expit((y - f) / self.scale)

    def ppf(self, p, f):
        return f + self.scale * logit(p)

    def sample(self, f, rng):
        return rng.logistic(f, self.scale)

    def centre(self, y):
        return np.asarray(y, float)

    def start(self, y, weight=None):
        if not self._automatic():
            return self._replaced({}, ())
        return self._replaced({"scale": 0.4 * float(np.std(y))}, ("scale",))

    @property
    def unconstrained(self):
        return np.log([self.scale]) if self.learned else np.zeros(0)

    def _constrain(self, unconstrained):
        return {"scale": float(np.exp(unconstrained[0]))} if self.learned else {}

    def d_parameters(self, y, f):
        if not self.learned:
            return super().d_parameters(y, f)
        z = (y - np.asarray(f, float)) / self.scale
        t = np.tanh(0.5 * z)
        return (z * t - 1.0)[None], (-z * t - 0.5 * z * z * (1.0 - t * t))[None, None]


class Waiting(Likelihood):
    """Exponential waiting time with mean exp(f): neither counted nor additive."""

    support = Support(np.nextafter(0.0, 1.0), np.inf, False, "y > 0")
    variance_function = (0.0, 1.0)

    def derivatives(self, y, f):
        ratio = y * safe_exp(-f)
        return -f - ratio, ratio - 1.0, -ratio

    def expected(self, y, m, v):
        ratio = y * safe_exp(-m + 0.5 * v)
        return -m - ratio, ratio - 1.0, -0.5 * ratio

    def mean(self, f):
        return safe_exp(f)

    def conditional_variance(self, f):
        return safe_exp(2.0 * f)

    def cdf(self, y, f):
        return -np.expm1(-np.maximum(y, 0.0) * safe_exp(-f))

    def ppf(self, p, f):
        return -np.log1p(-p) * safe_exp(f)

    def sample(self, f, rng):
        return rng.exponential(safe_exp(f))

    def centre(self, y):
        return np.log(y)


OWN = {
    "cloglog": (ComplementaryLogLog(), [0.0, 1.0, 1.0, 0.0]),
    "two trials": (TwoTrials(), [0.0, 1.0, 2.0, 1.0]),
    "logistic": (Logistic(scale=0.4), [-1.0, 0.2, 2.5, 0.1]),
    "waiting": (Waiting(), [0.1, 1.0, 5.0, 0.7]),
}
FINITE = ["cloglog", "two trials"]
M, V = np.array([-1.5, 0.0, 0.4, 1.0]), np.array([0.02, 0.3, 1.0, 2.0])
DRAWS = 200_000


@pytest.mark.parametrize("name", OWN)
def test_own_likelihoods_do_not_contradict_themselves(name, global_random_seed):
    likelihood, y = OWN[name]
    check_likelihood(likelihood, np.array(y), seed=global_random_seed)
    if name == "logistic":
        check_likelihood(Logistic(), np.array(y), seed=global_random_seed)


@pytest.mark.parametrize(
    ("base", "declared", "y", "message"),
    [
        (ComplementaryLogLog, {"symmetric": True}, [0.0, 1.0], "symmetric"),
        (TwoTrials, {"levels": np.arange(2.0)}, [0.0, 1.0], "sum of probabilities"),
        (Waiting, {"additive": True}, [0.3, 2.0], "additive"),
        (Logistic, {"by_moments": True}, [0.3, 2.0, 7.0], "by_moments"),
        (Logistic, {"noise_variance": 0.5}, [0.3, 2.0], "noise_variance"),
        (Waiting, {"variance_function": (1.0, 1.0)}, [0.3, 2.0], "variance_function"),
        (Gaussian, {"scale_mixture": StudentT(scale=1.0, df=3.0).scale_mixture}, [0.3, 2.0], "scale_mixture"),
        (Waiting, {"expected_given_rate": lambda s, y, m, r: (m, m, m)}, [0.3, 2.0], "expected_given_rate"),
        (ComplementaryLogLog, {"ratio": "odds"}, [0.0, 1.0], "ratio"),
        (Gaussian, {"ratio": "odds"}, [0.3, 2.0], "no levels"),
        (Logistic, {"ratio": "rate"}, [0.3, 2.0], "ratio"),
        (Bernoulli, {"log_predictive_derivatives": lambda s, y, m, v: (m, m, m)}, [0.0, 1.0], "log_predictive_deriv"),
    ],
)
def test_a_wrong_declaration_is_found(base, declared, y, message):
    traits = {name: value for name, value in declared.items() if name in LikelihoodTraits.__dataclass_fields__}
    own = type("Wrong", (base,), declared | {"traits": replace(base.traits, **traits)})(
        **({"scale": 0.4} if base is Logistic else {})
    )
    with pytest.raises(AssertionError, match=message):
        check_likelihood(own, np.array(y))


# ---- predictions
def predictives(likelihood, rng):
    """With and without noise, and draws of y for each row."""
    w2 = rng.rayleigh(0.7, (len(M), DRAWS))
    z = rng.standard_normal((len(M), DRAWS))
    for predictive, extra in ((Predictive(likelihood, M, V), 0.0), (NoisyPredictive(likelihood, M, V, 0.7), w2)):
        yield predictive, likelihood.sample(M[:, None] + np.sqrt(V[:, None] + extra) * z, rng)


def rayleigh_nodes():
    """Nodes and weights, of Gauss and Legendre, for the density r exp(-r^2 / 2)."""
    x, w = np.polynomial.legendre.leggauss(80)
    r = 4.5 * (x + 1.0)
    return r, 4.5 * w * r * np.exp(-0.5 * r * r)


def density_by_trapezoid(likelihood, y, sigma=None):
    """log p(y) of each row, f and w2 integrated out on dense grids of their own."""
    r, weight = (np.zeros(1), np.ones(1)) if sigma is None else rayleigh_nodes()
    total = np.zeros(len(y))
    z = np.linspace(-9.0, 9.0, 2001)[:, None]
    normal = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    for node, share in zip(r, weight, strict=True):
        f = M + np.sqrt(V + (sigma or 0.0) * node) * z
        total += share * (normal * np.exp(likelihood.log_prob(np.asarray(y), f))).sum(0)
    return np.log(total)


@pytest.mark.parametrize("name", OWN)
def test_moments_and_quantiles_are_those_of_draws(name, global_random_seed):
    likelihood, _ = OWN[name]
    rng = np.random.default_rng(global_random_seed)
    allowed = errors_allowed(2 * len(M) * 8)  # two predictives; means, squares and both sides of three quantiles
    for predictive, draws in predictives(likelihood, rng):
        error = draws.std(axis=1) / np.sqrt(DRAWS)
        assert np.all(np.abs(draws.mean(axis=1) - predictive.mean()) < allowed * error)
        squares = (draws - predictive.mean()[:, None]) ** 2
        if name != "waiting":  # whose squares have no useful standard error where f is uncertain
            error = squares.std(axis=1) / np.sqrt(DRAWS)
            assert np.all(np.abs(squares.mean(axis=1) - predictive.variance()) < allowed * error)
        for level, quantile in zip((0.1, 0.5, 0.9), predictive.quantile([0.1, 0.5, 0.9]).T, strict=True):
            error = allowed * np.sqrt(level * (1 - level) / DRAWS)
            reached, below = (draws <= quantile[:, None]).mean(axis=1), (draws < quantile[:, None]).mean(axis=1)
            assert np.all(reached > level - error)
            assert np.all(below < level + error)
            np.testing.assert_allclose(predictive.cdf(quantile), reached, atol=0.5 * allowed / np.sqrt(DRAWS))
        np.testing.assert_allclose(predictive.interval(0.8), predictive.quantile([0.1, 0.9]), rtol=1e-8)


@pytest.mark.parametrize("name", OWN)
def test_log_density_is_that_of_dense_quadrature(name):
    likelihood, y = OWN[name]
    y = np.array(y)
    found = Predictive(likelihood, M, V).log_prob(y)
    np.testing.assert_allclose(found, density_by_trapezoid(likelihood, y), rtol=1e-6)
    found = NoisyPredictive(likelihood, M, V, 0.7).log_prob(y)
    np.testing.assert_allclose(found, density_by_trapezoid(likelihood, y, 0.7), rtol=1e-6)


@pytest.mark.parametrize("name", FINITE)
def test_probabilities_are_those_of_draws(name, global_random_seed):
    likelihood, _ = OWN[name]
    for predictive, draws in predictives(likelihood, np.random.default_rng(global_random_seed)):
        p = predictive.probabilities()
        assert p.shape == (len(M), len(likelihood.levels))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        share = (draws[:, :, None] == likelihood.levels).mean(axis=1)
        assert np.all(np.abs(p - share) < errors_allowed(p.size) * np.sqrt(p * (1 - p) / DRAWS))
        for k, level in enumerate(likelihood.levels):
            np.testing.assert_allclose(np.log(p[:, k]), predictive.log_prob(np.full(len(M), level)), atol=1e-6)


def test_levels_need_not_start_at_zero():
    class Score(TwoTrials):
        support = Support(1.0, 3.0, True, "y in {1, 2, 3}")

        def derivatives(self, y, f):
            return super().derivatives(np.asarray(y) - 1.0, f)

    np.testing.assert_array_equal(
        Predictive(Score(), M, V).quantile([0.2, 0.5, 0.9]),
        Predictive(TwoTrials(), M, V).quantile([0.2, 0.5, 0.9]) + 1.0,
    )


def test_measured_values_have_no_probabilities():
    with pytest.raises(ValueError, match="Logistic has no classes"):
        Predictive(Logistic(scale=1.0), M, V).probabilities()


# ---- noise of mixed effects
def term_by_trapezoid(likelihood, y, m, v, sigma, bound):
    """A datum's share of the optimal or the simple bound on dense grids."""
    z = np.linspace(-8.0, 8.0, 401)[:, None]
    normal = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    total = np.zeros(len(y))
    for node, share in zip(*rayleigh_nodes(), strict=True):
        if bound == "simple":
            total += share * (normal * likelihood.log_prob(y, m + np.sqrt(v + sigma * node) * z)).sum(0)
            continue
        u = m + np.sqrt(v) * z[::5]
        log_density = likelihood.log_prob(y, u + np.sqrt(sigma * node) * z[:, None])
        coarse = normal[::5] / normal[::5].sum()
        total += share * (coarse * logsumexp(log_density, axis=0, b=normal[:, None])).sum(0)
    return total


@pytest.mark.costly
@pytest.mark.parametrize("bound", ["optimal", "simple"])
@pytest.mark.parametrize("name", OWN)
def test_noise_bounds_are_those_of_dense_quadrature(name, bound):
    likelihood, y = OWN[name]
    y, v = np.array(y), np.array([0.02, 0.1, 0.3, 0.6])
    found = noise_bounds.BOUNDS[bound](likelihood, y, M, v, 0.6, Auto())
    wanted = term_by_trapezoid(likelihood, y, M, v, 0.6, bound)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    step = 1e-5
    for k, (dm, dv) in enumerate(((step, 0.0), (0.0, step)), start=1):
        ends = [noise_bounds.BOUNDS[bound](likelihood, y, M + s * dm, v + s * dv, 0.6, Auto())[0] for s in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), found[k], rtol=1e-4, atol=1e-6)


def test_optimal_bound_says_what_it_cannot_integrate():
    class Heavy(StudentT):
        scale_mixture = None

    with pytest.raises(ValueError, match="Heavy is neither: choose bound='simple'"):
        noise_bounds.optimal(Heavy(scale=1.0, df=3.0), np.zeros(2), np.zeros(2), np.ones(2), 1.0, Auto())


def rows_for(likelihood, seed, n=70):
    """Rows with a slope of 1, noise of variance 0.5 and effects of ten groups."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.standard_normal(n), "g": np.arange(n) % 10})
    f = X["x"].to_numpy() + 0.5 * rng.standard_normal(10)[X["g"]] + np.sqrt(0.5) * rng.standard_normal(n)
    return X, likelihood.sample(f, rng)


@pytest.mark.parametrize("bound", ["optimal", "simple", pytest.param("mean-field", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", OWN)
def test_mixed_effects_with_noise(name, bound, global_random_seed):
    """The bound rises, and what is predicted is what the fitted posterior would draw."""
    likelihood, _ = OWN[name]
    X, y = rows_for(likelihood, global_random_seed)
    maker = GMEClassifier if name == "cloglog" else GMERegressor
    # The prior is given: a mean field is so sure of a slope that 70 rows leave open that a learned one shrinks it to 0.
    options = {"bound": bound, "noise_prior_scale": 1.0, "prior_precision": 1.0, "tol": 1e-3}
    model = maker(likelihood=likelihood, noise=True, groups="g", **options)
    model.fit(X, y)
    assert np.all(np.diff(model.lower_bounds_) > -1e-6 * np.abs(model.lower_bound_))
    assert model.noise_variance_ > 0
    # q is too narrow, a mean field most of all: its family.
    narrow = 0.5 if bound == "mean-field" else 0.25
    assert abs(np.ravel(model.coef_)[0] - 1.0) < 4 * np.ravel(model.coef_std_)[0] + narrow

    few, rng = X[:5], np.random.default_rng(global_random_seed)
    mean, variance = model.predict_latent(few)
    spread = (variance - model.noise_variance_)[:, None] + rng.rayleigh(model.noise_scale_, (5, DRAWS))
    draws = likelihood.sample(mean[:, None] + np.sqrt(spread) * rng.standard_normal((5, DRAWS)), rng)
    if likelihood.levels is not None:
        p = model.predict_proba(few)
        share = (draws[:, :, None] == likelihood.levels).mean(axis=1)
        assert np.all(np.abs(p - share) < errors_allowed(p.size) * np.sqrt(p * (1 - p) / DRAWS))
        density = np.log(p[np.arange(5), y[:5].astype(int)])
        np.testing.assert_allclose(model.log_predictive_density(few, y[:5]), density, atol=1e-6)
    if maker is GMERegressor:
        low, high = model.predict_interval(few, coverage=0.9).T
        error = 5 * np.sqrt(0.05 * 0.95 / DRAWS)  # of ten numbers for each case and seed
        assert np.all((draws < low[:, None]).mean(axis=1) < 0.05 + error)
        assert np.all((draws > high[:, None]).mean(axis=1) < 0.05 + error)
        if likelihood.levels is None:
            assert np.all(np.abs((draws < low[:, None]).mean(axis=1) - 0.05) < error)


def test_a_learned_scale_of_ones_own(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((800, 2))
    y = X @ [1.0, -0.5] + rng.logistic(scale=0.4, size=800)
    model = GMERegressor(likelihood=Logistic(), noise=False).fit(X, y)
    # the information of 800 rows on log scale is 800 (3 + pi^2) / 9
    relative = 1 / np.sqrt(800 * (3 + np.pi**2) / 9)
    assert abs(np.log(model.likelihood_.scale / 0.4)) < 4 * relative
    assert model.summary().loc["scale", "std"] == pytest.approx(relative * model.likelihood_.scale, rel=0.15)
    assert np.all(np.abs(model.coef_ - [1.0, -0.5]) < 4 * model.coef_std_)


def test_linear_models_take_them_too(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((500, 2))
    f = X @ [1.0, -0.5]
    labels = np.where(ComplementaryLogLog().sample(f, rng) > 0, "event", "none")
    model = BayesianGLMClassifier(likelihood=ComplementaryLogLog()).fit(X, labels)
    assert list(model.classes_) == ["event", "none"]
    assert model.predict_proba(X).shape == (500, 2)
    with pytest.raises(ValueError, match=r"exponentiate=True.*ComplementaryLogLog\(\)"):
        model.summary(exponentiate=True)
    waits = BayesianGLMRegressor(likelihood=Waiting()).fit(X, rng.exponential(np.exp(f)))
    table = waits.summary(exponentiate=True, effects="joint")
    np.testing.assert_allclose(table["exp(mean)"][:2], np.exp(waits.coef_))
    counts = BayesianGLMRegressor(likelihood=TwoTrials()).fit(X, 10.0 * TwoTrials().sample(f, rng))
    np.testing.assert_array_equal(counts.levels_, [0.0, 10.0, 20.0])
    assert counts.predict_proba(X).shape == (500, 3)
    assert np.all(np.isin(counts.predict_quantiles(X, [0.1, 0.9]), counts.levels_))
    with pytest.raises(ValueError, match=r"TwoTrials\(\) has 3 levels; y has 4"):
        BayesianGLMRegressor(likelihood=TwoTrials()).fit(X, np.arange(500) % 4)


def test_ones_own_rates_have_noise_by_default():
    class Rates(TwoTrials):
        def overdispersible(self, y):
            return True

    X, y = rows_for(TwoTrials(), 0)
    settings = {"bound": "simple", "tol": 1e-3}
    assert GMERegressor(likelihood=Rates(), **settings).fit(X[["x"]], y).noise_variance_ > 0
    assert GMERegressor(likelihood=TwoTrials(), **settings).fit(X[["x"]], y).noise_variance_ == 0
