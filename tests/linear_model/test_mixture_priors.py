"""Student-t and horseshoe priors by name: their bound, what they leave alone and shrink, refusals, ways to use them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm, t

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, from_formula, load
from sksvi.likelihoods import Gaussian
from sksvi.priors import Horseshoe, Normal, StudentT

PRIORS = [StudentT(3, 0.5, 0.3), Horseshoe(0.2)]


@pytest.fixture(scope="module")
def frame():
    """Columns in units of their own; one far from zero, one moderate, the others nothing."""
    rng = np.random.default_rng(7)
    return pd.DataFrame(rng.normal(size=(90, 8)) * 10.0 ** np.arange(-3, 5), columns=[f"c{j}" for j in range(8)])


@pytest.fixture(scope="module")
def target(frame):
    standard = frame / frame.std()
    return 2.0 + 1.5 * standard.c0 - 0.5 * standard.c1 + np.random.default_rng(8).normal(size=len(frame))


# ---- the tangent
def test_the_value_of_students_t_is_its_density():
    squares = np.array([0.0, 0.5, 9.0])
    assert StudentT(3).tangent(squares)[0] == pytest.approx(t(3).logpdf(np.sqrt(squares)).sum())


def test_the_value_of_a_horseshoe_is_its_density():
    prior = Horseshoe(0.3)

    def given(log_shared, r):
        def own(x):
            variance = 1.0 / (np.exp(-2.0 * (x + log_shared)) + prior.slab**-2.0)
            return np.exp(-0.5 * r / variance) / np.sqrt(2.0 * np.pi * variance) / (np.pi * np.cosh(x))

        return quad(own, -30, 30, limit=200, points=[-log_shared, 0.0])[0] / (
            np.pi * np.cosh(log_shared - np.log(prior.scale))
        )

    for r in (0.01, 4.0):
        exact = quad(given, -30, 30, args=(r,), limit=200, points=[np.log(prior.scale)])[0]
        assert prior.tangent(np.array([r]))[0] == pytest.approx(np.log(exact), abs=1e-3)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_each", [1, 3])
def test_precisions_are_slopes_and_the_tangent_is_a_bound(prior, n_each, global_random_seed):
    squares = np.exp(np.random.default_rng(global_random_seed).normal(-1.0, 2.0, 5))
    value, precision = prior.tangent(squares, n_each)
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-4 * squares[j]
        up, down = (prior.tangent(squares + sign * step, n_each)[0] for sign in (1.0, -1.0))
        assert -(up - down) / step[j] == pytest.approx(precision[j], rel=1e-5)
    for other in (0.01 * squares, 3.0 * squares, squares[::-1]):
        assert prior.tangent(other, n_each)[0] >= value - 0.5 * precision @ (other - squares) - 1e-10


@pytest.mark.parametrize("prior", PRIORS)
def test_draws_of_scales_have_the_density_of_the_prior(prior, global_random_seed):
    # One coefficient each: log E N(√r | 0, 1/precision) is the value at r. 8,000 draws leave at most 0.02 of it.
    rng, r = np.random.RandomState(global_random_seed), 0.7
    precision = np.concatenate([prior.drawn_precisions(1, rng) for _ in range(8000)])
    density = norm.pdf(np.sqrt(r), scale=precision**-0.5)
    error = density.std() / np.sqrt(len(density)) / density.mean()
    assert np.log(density.mean()) == pytest.approx(prior.tangent(np.array([r]))[0], abs=4.0 * error + 1e-3)


# ---- the fit
def test_the_bound_is_below_the_evidence_and_near_it():
    """One column and Gaussian noise of variance one: the evidence is an integral over the coefficient."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    y = 1.2 * x + rng.normal(size=40)
    model = BayesianGLMRegressor(
        likelihood=Gaussian(variance=1.0), fit_intercept=False, prior={"x0": StudentT(2, 0.1, 0.2)}, tol=1e-10
    ).fit(x[:, None], y)

    def density(w, power=0):
        return w**power * np.exp(norm(w * x, 1.0).logpdf(y).sum() + 60.0) * t(2, 0.1, 0.2).pdf(w)

    evidence, first, second = (quad(density, 0.0, 2.5, args=(power,), epsabs=0.0)[0] for power in (0, 1, 2))
    mean = first / evidence
    std = np.sqrt(second / evidence - mean**2)
    exact = np.log(evidence) - 60.0
    assert exact - 0.1 < model.lower_bound_ < exact
    assert model.coef_[0] == pytest.approx(mean, abs=0.1 * std)
    assert model.coef_std_[0] == pytest.approx(std, rel=0.1)


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi"])
def test_every_algorithm_ends_at_one_bound_and_no_pass_lowers_it(algorithm, frame, target):
    prior = {"c0": PRIORS[0], "*": PRIORS[1]}
    model = BayesianGLMRegressor(prior=prior, algorithm=algorithm, hyperparameters="point", tol=1e-8).fit(frame, target)
    again = BayesianGLMRegressor(prior=prior, hyperparameters="point", tol=1e-8).fit(frame, target)
    assert np.all(np.diff(model.lower_bounds_) > -1e-6)
    assert model.lower_bound_ == pytest.approx(again.lower_bound_, abs=1e-2)


def test_heavy_tails_leave_a_large_coefficient_and_a_horseshoe_shrinks_small_ones(frame, target):
    spread = frame.std().to_numpy()
    standard = {f"c{j}": Normal(0.0, 0.1 / s) for j, s in enumerate(spread)}
    heavy = {f"c{j}": StudentT(1, 0.0, 0.1 / s) for j, s in enumerate(spread)}
    normal, heavy, horseshoe = (
        BayesianGLMRegressor(prior=prior).fit(frame, target) for prior in (standard, heavy, {"*": Horseshoe(0.1)})
    )
    plain = BayesianGLMRegressor(prior_precision="flat").fit(frame, target)
    share = [(m.coef_ / plain.coef_)[0] for m in (normal, heavy, horseshoe)]
    assert share[0] < 0.9 < share[1] < 1.01 and share[2] > 0.9
    small = [np.abs(m.coef_ * spread)[2:].sum() for m in (horseshoe, plain)]
    assert small[0] < 0.7 * small[1]


def test_units_of_columns_do_not_matter_to_a_horseshoe(frame, target):
    a, b = (BayesianGLMRegressor(prior={"*": Horseshoe()}).fit(X, target) for X in (frame, 7.0 * frame))
    np.testing.assert_allclose(a.coef_, 7.0 * b.coef_, rtol=1e-6)
    scaled = BayesianGLMRegressor(prior={"*": Horseshoe()}).fit(frame, 5.0 * target)
    np.testing.assert_allclose(scaled.coef_, 5.0 * a.coef_, rtol=1e-3)


def test_a_weight_of_two_is_two_rows(frame, target):
    prior = {"c?": Horseshoe(), "c0": StudentT()}
    weighted = BayesianGLMRegressor(prior=prior, tol=1e-9).fit(frame, target, sample_weight=np.full(len(frame), 2.0))
    twice = BayesianGLMRegressor(prior=prior, tol=1e-9).fit(pd.concat([frame] * 2), pd.concat([target] * 2))
    np.testing.assert_allclose(weighted.coef_, twice.coef_, rtol=1e-6)
    assert weighted.lower_bound_ == pytest.approx(twice.lower_bound_, abs=1e-6)


def test_groups_and_auto_stand_beside_each_other(frame, target):
    prior = {"c0": Normal(0.0, 1e3), "c[12]": Horseshoe(), "c[34]": Horseshoe(), "c5": StudentT()}
    model = BayesianGLMRegressor(prior=prior).fit(frame, target)
    assert len(model._encoding.named.mixtures) == 3
    learned = model.prior_precision_ / np.square(frame.std())
    assert learned.iloc[6] == pytest.approx(learned.iloc[7]) and learned.iloc[1] != pytest.approx(learned.iloc[2])
    assert "scale(coefficients)" in model.hyperparameter_posterior_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels(n_classes, frame, target):
    y = np.digitize(target, np.quantile(target, np.arange(1, n_classes) / n_classes))
    model = BayesianGLMClassifier(prior={"c0": StudentT(4, 0.0, 1e3), "*": Horseshoe()}).fit(frame, y)
    assert model.score(frame, y) > 0.6 and np.all(np.diff(model.lower_bounds_) > -1e-4)


# ---- the ways of use
def test_streams_files_draws_and_mixed_effects(frame, target, tmp_path):
    prior = {"c0": StudentT(4, 0.0, 1e3), "*": Horseshoe(0.1)}
    whole = BayesianGLMRegressor(prior=prior).fit(frame, target)
    stream = BayesianGLMRegressor(prior=prior)
    for start in range(0, 90, 30):
        stream.partial_fit(frame[start : start + 30], target[start : start + 30])
    assert np.all(np.abs(stream.coef_ - whole.coef_) < 0.5 * whole.coef_std_)
    stream.save(tmp_path / "m.sksvi")
    loaded = load(tmp_path / "m.sksvi")
    assert loaded.get_params()["prior"] == prior
    np.testing.assert_array_equal(loaded.predict(frame), stream.predict(frame))
    loaded.partial_fit(frame, target)
    y = whole.sample_prior(frame, 50, random_state=0)
    assert y.shape == (50, 90) and np.all(np.isfinite(y))
    grouped = frame.assign(g=np.resize(list("abcde"), 90))
    mixed = GMERegressor(groups="g", prior=prior).fit(grouped, target)
    assert np.all(np.abs(mixed.coef_ - whole.coef_) < whole.coef_std_)


def test_beside_a_smooth_of_a_formula(frame, target):
    data = frame.assign(y=target)
    data["x"] = np.linspace(0.0, 6.0, len(data))
    data["y"] += np.sin(data["x"])
    model = from_formula("y ~ s(x, k=8) + c0 + c1", data, prior={"c0": Normal(7.0, 1e-5), "c1": Horseshoe()}).fit(data)
    assert model[-1].coef_[0] == pytest.approx(7.0, abs=1e-3)
    assert "scale(s(x)_s*)" in model[-1].hyperparameter_posterior_
    with pytest.raises(ValueError, match=r"prior names 's\(x\)_s1', which prior_precision={'s\(x\)_s\*': 'auto'}"):
        from_formula("y ~ s(x, k=8) + c0", data, prior={"*": Normal()}).fit(data)
    all_but = {"s(x)_s*": "auto", "*": Normal(0.0, 10.0)}
    assert np.isfinite(from_formula("y ~ s(x, k=8) + c0", data, prior=all_but).fit(data)[-1].lower_bound_)
    with pytest.raises(ValueError, match=r"prior names 'c0', which prior_precision={'c0': 2.0"):
        from_formula("y ~ s(x, k=8) + c0", data, prior={"c0": Normal()}, prior_precision={"c0": 2.0}).fit(data)


# ---- refusals
@pytest.mark.parametrize(
    ("kind", "arguments", "error", "words"),
    [
        (StudentT, (0.0, 0.0, 1.0), ValueError, "df of a StudentT prior must be positive; found 0.0"),
        (StudentT, (3.0, 0.0, -1.0), ValueError, "scale of a StudentT prior must be positive; found -1.0"),
        (StudentT, (3.0, np.inf, 1.0), ValueError, "loc of a StudentT prior must be finite"),
        (StudentT, ("3", 0.0, 1.0), TypeError, "df of a StudentT prior must be a number"),
        (Horseshoe, (-0.1,), ValueError, "scale of a Horseshoe prior must be positive; found -0.1"),
        (Horseshoe, (1.0, 0.0), ValueError, "slab of a Horseshoe prior must be positive"),
    ],
)
def test_what_is_no_prior(kind, arguments, error, words):
    with pytest.raises(error, match=words):
        kind(*arguments)


@pytest.mark.parametrize("estimator", [BayesianGLMRegressor(), GMERegressor(groups="g")])
def test_bad_keys_are_refused_before_the_fit_changes(estimator, frame, target):
    X = frame.assign(g=np.resize(list("abcde"), 90)) if hasattr(estimator, "groups") else frame
    for prior, words in (
        ({"x*": Horseshoe()}, r"prior names 'x\*', which is no coefficient"),
        ({"intercept": StudentT()}, r"prior\['intercept'\] must be a Normal"),
    ):
        with pytest.raises(ValueError, match=words):
            estimator.set_params(prior=prior).fit(X, target)
    with pytest.raises(ValueError, match=r"prior names 'c0', which prior_precision=1.0 gives a prior too"):
        estimator.set_params(prior={"c0": StudentT()}, prior_precision=1.0).fit(X, target)
    assert not hasattr(estimator, "coef_")
    estimator.set_params(prior=None, prior_precision="auto")


def test_intervals_that_scales_do_not_widen_are_warned_of(monkeypatch, global_random_seed):
    monkeypatch.setattr("sksvi.models.linear.named.LEAST", np.inf)  # as where q is at none of its maxima
    X = np.random.default_rng(global_random_seed).normal(size=(40, 3))
    with pytest.warns(UserWarning, match="ended at no maximum in the scales of single coefficients"):
        BayesianGLMRegressor(prior={"*": StudentT(3)}).fit(X, X[:, 0])
