"""`covariance="low-rank"` of regressors: what a user gets of a fit at the mode, and what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

import sksvi
from sksvi import BayesianGLMRegressor
from sksvi._runtime import memory
from sksvi.likelihoods import Gaussian, Ordinal

#: Rows, columns, and rows to judge by.
N, D, NEW = 120, 300, 400
LIKELIHOODS = ["gaussian", "poisson", "poisson-softplus", "negative-binomial", "binomial", "logit", "probit"]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 45])


def low_rank(likelihood="gaussian", **options):
    return BayesianGLMRegressor(likelihood=likelihood, covariance="low-rank", **options)


def target(likelihood, f, rng):
    n = len(f)
    if likelihood == "gaussian":
        return f + 0.5 * rng.standard_normal(n)
    if likelihood == "binomial":
        successes = rng.binomial(6, 1 / (1 + np.exp(-f)))
        return np.column_stack([successes, 6 - successes])
    if likelihood in ("logit", "probit"):
        return (f + rng.logistic(size=n) > 0).astype(int)
    rate = np.logaddexp(0, f) if likelihood == "poisson-softplus" else np.exp(f)
    return rng.poisson(rate * (rng.gamma(2.0, 0.5, n) if likelihood == "negative-binomial" else 1.0))


def documents(rng, likelihood="gaussian", n=N, d=D):
    """CSR rows of unit length, a target that follows from a few hundred words, and as many more to judge by."""
    X = np.log1p(rng.multinomial(30, rng.dirichlet(np.full(d, 0.3)), n + NEW))
    X = sp.csr_matrix(X / np.sqrt(np.square(X).sum(1, keepdims=True)))
    f = X @ rng.standard_normal(d)
    y = target(likelihood, 1.0 + (f - f.mean()) / f.std(), rng)
    return X[:n], y[:n], X[n:], y[n:]


# ---- what a fit has
@pytest.mark.filterwarnings("ignore:y varies")  # of few counts that chance spreads
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_fit_predicts_and_says_how_well(likelihood, rng):
    X, y, new, unknown = documents(rng, likelihood)
    model = low_rank(likelihood).fit(X, y)
    assert model.coef_.shape == model.coef_std_.shape == (D,)
    assert np.all(model.coef_std_ > 0)
    losses = -model._predictive(new, None).log_prob(unknown)
    # An estimate from N rows of what a new row loses on average.
    assert abs(model.loo_ - losses.mean()) < 4 * losses.std() * (1 / N + 1 / NEW) ** 0.5
    assert 0.0 <= model.temperature_ <= 1.0
    assert model.converged_
    assert model.history_["bound"].isna().all()
    assert (model.noise_ is not None) == (likelihood in ("gaussian", "negative-binomial"))
    with pytest.raises(AttributeError, match=r"bounds no evidence.*loo_"):
        model.lower_bound_  # noqa: B018
    table = model.summary().iloc[: D + 1]
    assert np.all(table["lower"] < table["upper"])
    assert "leave-one-out" in model.summary_text()
    draws = model.posterior_["weights"].sample(4000, random_state=0)
    assert np.all(np.abs(draws.mean(0) - model.posterior_["weights"].mean) < 5.5 * draws.std(0) / 4000**0.5)


def test_a_summary_has_what_leave_one_out_leaves_of_the_noise(rng):
    X, y, *_ = documents(rng)
    row = low_rank().fit(X, y).summary().loc["std(residual)"]
    assert row["std"] == pytest.approx(row["mean"] / (2 * N) ** 0.5, rel=1e-3)
    assert row["lower"] < row["mean"] < row["upper"]


@pytest.mark.filterwarnings("ignore:y varies")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial", "binomial"])
def test_intervals_hold_new_targets(likelihood, rng):
    """In 90 % of rows, counts in a few more of them; a fit's own error is allowed for by a tenth."""
    X, y, new, unknown = documents(rng, likelihood, n=300)
    unknown = unknown[:, 0] / unknown.sum(1) if likelihood == "binomial" else unknown
    low, high = low_rank(likelihood).fit(X, y).predict_interval(new, coverage=0.9).T
    share = np.mean((low <= unknown) & (unknown <= high))
    error = (0.09 / NEW) ** 0.5
    assert 0.8 - 4 * error < share <= (0.95 if likelihood == "gaussian" else 1.0) + 4 * error


def test_a_gaussian_fit_is_ridge_regression_with_exact_leave_one_out(rng):
    X, y, new, _ = documents(rng)
    model = low_rank().fit(X, y)
    penalty = model.noise_ * model.prior_precision_[0]
    ridge = Ridge(alpha=penalty, tol=1e-12, solver="sparse_cg", max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict(new), ridge.predict(new), atol=2e-3)
    A = np.column_stack([X.toarray(), np.ones(N)])
    precision = np.append(np.full(D, penalty), model.noise_ * model._encoding.prior.intercept[1])
    H = A @ np.linalg.solve(A.T @ A + np.diag(precision), A.T)
    left = 1 - np.diag(H)
    centre = model._encoding.prior.intercept[0]
    residual = ((y - centre) - H @ (y - centre)) / left
    np.testing.assert_allclose(model.noise_, np.mean(residual**2 * left), rtol=1e-3)
    exact = 0.5 * np.log(2 * np.pi * model.noise_ / left) + 0.5 * residual**2 * left / model.noise_
    assert model.loo_ == pytest.approx(exact.mean(), abs=1e-3)


def test_deviations_are_close_to_exact_ones(rng):
    X = rng.standard_normal((N, D)) / D**0.5
    X -= X.mean(0)
    y = X @ rng.standard_normal(D) + 0.5 * rng.standard_normal(N)
    model = low_rank(Gaussian(variance=0.25), prior_precision=1.0).fit(X, y)
    A = np.column_stack([X, np.ones(N)])
    prior = np.append(np.full(D, 1.0), model._encoding.prior.intercept[1])
    exact = np.sqrt(np.diag(np.linalg.inv(A.T @ A / model.noise_ + np.diag(prior))))
    ratio = model.coef_std_ / exact[:-1]
    assert abs(np.median(ratio) - 1) < 0.03
    assert np.quantile(np.abs(ratio - 1), 0.98) < 0.1


# ---- what may not matter
@pytest.mark.filterwarnings("ignore:y varies")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial", "binomial"])
def test_weights_are_repeats(likelihood, rng):
    X, y, new, _ = documents(rng, likelihood, n=60)
    counts = rng.integers(0, 4, 60)
    again = np.repeat(np.arange(60), counts)
    weighted, repeated = (
        low_rank(likelihood).fit(X, y, sample_weight=counts),
        low_rank(likelihood).fit(X[again], y[again]),
    )
    np.testing.assert_allclose(repeated.coef_, weighted.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(repeated.predict(new), weighted.predict(new), rtol=1e-6)
    assert repeated.loo_ == pytest.approx(weighted.loo_, rel=1e-6)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial"])
def test_an_offset_moves_latents(likelihood, rng):
    X, y, *_ = documents(rng, likelihood)
    offset = 0.5 * rng.normal(size=N)
    model = low_rank(likelihood, prior_precision=0.5, tol=1e-8).fit(X, y, offset=offset)
    f = model.predict_latent(X, offset=offset)[0]
    slope = model.likelihood_.d1(np.asarray(y, float), f)
    np.testing.assert_allclose(X.T @ slope, 0.5 * model.coef_, atol=2e-3)


@pytest.mark.filterwarnings("ignore:y varies")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial"])
def test_a_constant_offset_is_the_intercepts(likelihood, rng):
    """It also leaves as it was what columns gain over an intercept alone, by which scales are judged."""
    X, y, *_ = documents(rng, likelihood)
    model = low_rank(likelihood).fit(X, y)
    by = 1e4 if likelihood == "gaussian" else 5.0
    other = low_rank(likelihood).fit(X, y + by if likelihood == "gaussian" else y, offset=np.full(N, by))
    np.testing.assert_allclose(other.prior_precision_, model.prior_precision_, rtol=1e-6)
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-5, atol=1e-8)
    assert other.intercept_ + by * (likelihood != "gaussian") == pytest.approx(model.intercept_, abs=1e-5)
    assert other.loo_ == pytest.approx(model.loo_, rel=1e-6)


def test_exposure_is_an_offset(rng):
    X, y, *_ = documents(rng, "poisson")
    hours = rng.uniform(0.5, 2.0, N)
    one = low_rank("poisson").fit(X, y, exposure=hours)
    other = low_rank("poisson").fit(X, y, offset=np.log(hours))
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.costly
@pytest.mark.parametrize("n", [N, 1100])
def test_the_unit_of_a_measured_target_does_not_matter(n, rng):
    X, y, new, _ = documents(rng, n=n)
    one, other = low_rank().fit(X, y), low_rank().fit(X, 1e4 * y - 3e4)
    np.testing.assert_allclose(1e4 * one.predict(new) - 3e4, other.predict(new), rtol=1e-3, atol=30.0)
    assert other.noise_ == pytest.approx(1e8 * one.noise_, rel=0.01)
    assert other.loo_ - np.log(1e4) == pytest.approx(one.loo_, abs=0.01)


def test_single_precision_stays(rng):
    X, y, new, _ = documents(rng)
    model = low_rank().fit(X.astype(np.float32), y)
    assert model.coef_.dtype == model.predict(new.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.predict(new.astype(np.float32)), low_rank().fit(X, y).predict(new), atol=0.02)


def test_many_rows_are_fitted_as_few_are(rng, monkeypatch):
    """L-BFGS and approximate variances beside Newton's method and exact ones: means by a tenth of their deviation.

    Self-consistent variances average over n rows. Leading directions that such rows do not have make them too large:
    leave-one-out is without them here, and with them in `benchmarks glm.text_loo`.
    """
    from sksvi.models.linear import cavity
    from sksvi.models.linear import low_rank as module

    for likelihood in (Gaussian(variance=0.25), "poisson"):
        X, y, new, _ = documents(rng, "poisson" if likelihood == "poisson" else "gaussian", n=300)
        exact = low_rank(likelihood, prior_precision=0.3, tol=1e-6).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(module, "affordable", lambda rows, latents: False)
            other = low_rank(likelihood, prior_precision=0.3, tol=1e-6).fit(X, y)
            patch.setattr(cavity, "directions_of", lambda *rows: 1)
            alike = low_rank(likelihood, prior_precision=0.3, tol=1e-6).fit(X, y)
        m, v = exact.predict_latent(new)
        for model in (other, alike):
            assert np.all(np.abs(model.predict_latent(new)[0] - m) < 0.1 * np.sqrt(v))
        assert alike.loo_ == pytest.approx(exact.loo_, rel=300**-0.5)


# ---- files
@pytest.mark.parametrize("likelihood", ["gaussian", "negative-binomial"])
def test_files(likelihood, rng, tmp_path):
    X, y, new, _ = documents(rng, likelihood)
    model = low_rank(likelihood, warm_start=True).fit(X, y)
    model.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi")
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.loo_ == model.loo_
    assert again.noise_ == model.noise_
    np.testing.assert_allclose(again.fit(X, y).predict(new), model.predict(new), rtol=0.05, atol=0.05)


# ---- input of every kind
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial"])
def test_tables_that_say_nothing(likelihood, rng):
    y = rng.poisson(3.0, 40)
    model = low_rank(likelihood).fit(sp.csr_matrix((40, 3)), y)
    np.testing.assert_allclose(model.predict(np.zeros((1, 3))), y.mean(), rtol=0.15)
    X = rng.standard_normal((12, 60))
    for few in (np.arange(12) == 3, np.arange(12.0)):
        model = low_rank(likelihood).fit(X, few)
        assert np.all(np.isfinite(model.predict(X)))
        assert np.isfinite(model.loo_)


def test_noise_under_a_given_prior_settles(rng):
    """Also where rows are fitted without noise, and the prior leaves their latents more than they vary."""
    y = rng.standard_normal(60)
    X = sp.hstack([sp.csr_matrix(y[:, None]), sp.identity(60)]).tocsr()
    model = low_rank(prior_precision=1.0).fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 30
    assert np.isfinite(model.loo_)


def test_an_intercept_of_few_rows_has_its_exact_deviation(rng):
    """Its prior is flat there: as a difference of the prior's variance that of the rest had no digits."""
    X, y = rng.standard_normal((8, 900)), rng.standard_normal(8)
    X -= X.mean(0)
    model = low_rank(Gaussian(variance=1.0), prior_precision=900.0).fit(X, y)
    rows = np.linalg.inv(np.eye(8) + X @ X.T / 900.0)
    deviation = (model._encoding.prior.intercept[1] + rows.sum()) ** -0.5
    np.testing.assert_allclose(model.posterior_["weights"].std[-1], deviation, rtol=1e-6)
    removed = rows - np.outer(rows.sum(1), rows.sum(1)) / rows.sum()
    exact = (1.0 - np.einsum("ij,ik,kj->j", X, removed, X) / 900.0) / 900.0
    np.testing.assert_allclose(model.coef_std_**2, exact, rtol=1e-4)


@pytest.mark.parametrize("case", ["dense", "sparse", "light"])
def test_variances_of_few_rows_are_positive(case, rng):
    for _ in range(5):
        n = 250 if case == "light" else 8
        X = rng.standard_normal((n, 900))
        X = X if case == "dense" else sp.csr_matrix(X * (rng.uniform(size=X.shape) < 0.01))
        weight = np.full(n, 1e-8) if case == "light" else None
        model = BayesianGLMRegressor().fit(X, rng.standard_normal(n), sample_weight=weight)
        for rows in (X, rng.standard_normal((20, 900))):
            assert np.all(model.predict_latent(rows)[1] > 0.0)
        assert np.all(np.linalg.eigvalsh(model.state_.q["weights"].inner) > 0.0)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_large_counts_settle(likelihood, rng):
    """Without overflow, which would be an error: all of them large, and one alone."""
    X, y, *_ = documents(rng, "poisson", n=60)
    one = np.where(np.arange(60) == 3, 10_000_000, y)
    for counts in (100_000 * y, one):
        model = low_rank(likelihood).fit(X, counts)
        assert model.converged_
        assert np.all(np.isfinite(model.predict(X)))


def test_a_column_that_is_a_direction_of_its_own(rng):
    """Its variance off the directions is next to nothing whatever its own is, which is not to grow without end."""
    y = rng.standard_normal(300)
    X = sp.hstack([sp.csr_matrix(y[:, None]), sp.identity(300)]).tocsr()
    model = low_rank(prior_precision=1.0).fit(X, y)
    assert np.all(model.predict_latent(X)[1] > 0.0)
    assert np.all(model.state_.q["weights"].diagonal * model.prior_precision_ <= 1.0 + 1e-9)


def test_residuals_of_a_wide_fit_accuse_no_likelihood():
    own = np.random.default_rng(2)  # Poisson counts that were accused of varying three times as much
    own.standard_normal((3000, 2))
    words = np.minimum((8 * own.pareto(0.8, (1400, 40))).astype(int), 2999)
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 40)), shape=(1400, 3000))
    X.sum_duplicates()
    X, own = normalize(X), np.random.default_rng(1002)
    f = X @ own.standard_normal(3000)
    y = own.poisson(np.exp(0.5 + (f - f.mean()) / f.std()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        low_rank("poisson").fit(X[:400], y[:400])
    assert [str(each.message) for each in caught] == []


def test_a_given_noise_stays(rng):
    X, y, *_ = documents(rng)
    model = low_rank(Gaussian(variance=0.25)).fit(X, y)
    assert model.noise_ == 0.25
    assert model.prior_precision_[0] > 0


# ---- refusals
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "student-t"}, "likelihood='student-t' with covariance='low-rank'.*Set covariance='full'"),
        ({"likelihood": "ordinal"}, "likelihood='ordinal' with covariance='low-rank'.*cut points"),
        ({"algorithm": "mc-ssvi"}, "algorithm='mc-ssvi'.*covariance='low-rank'"),
        ({"prior_precision": "ard"}, "prior_precision='ard' with covariance='low-rank'"),
        ({"batch_size": 10}, "covariance='low-rank'.*batch_size=10"),
    ],
)
def test_refused_with_both_names(options, message, rng):
    X, y, *_ = documents(rng, "poisson")
    model = low_rank(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "likelihood_")


def test_given_cut_points_have_a_mode(rng):
    X, y, new, _ = documents(rng)
    levels = np.digitize(y, [0.5, 1.5])
    model = low_rank(Ordinal(cut_points=[-1.0, 1.0])).fit(X, levels)
    assert model.predict_proba(new).shape == (NEW, 3)


def test_streams_are_refused(rng):
    X, y, *_ = documents(rng)
    assert not hasattr(low_rank(), "partial_fit")
    with pytest.raises(AttributeError) as error:
        low_rank().partial_fit(X, y)
    assert "covariance='full' or 'diag'" in str(error.value.__cause__)
    stream = BayesianGLMRegressor(max_iter=3).partial_fit(X[:, :50], y)
    assert np.isfinite(stream.lower_bound_)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_rows_in_partitions_are_fitted_as_those_in_memory(likelihood, rng):
    array = pytest.importorskip("dask.array")
    X, y, new, _ = documents(rng, likelihood)
    X, y = X.toarray(), y.astype(float)
    here = low_rank(likelihood).fit(X, y)
    there = low_rank(likelihood).fit(array.from_array(X, chunks=(50, D)), array.from_array(y, chunks=50))
    np.testing.assert_allclose(there.predict(new.toarray()), here.predict(new.toarray()), rtol=0.02, atol=0.02)
    assert there.loo_ == pytest.approx(here.loo_, abs=0.01)


def test_memory_is_asked_for_before_it_is_taken(rng, monkeypatch):
    X, y, *_ = documents(rng)
    monkeypatch.setattr(memory, "available", lambda: 1e5)
    monkeypatch.setattr(memory, "SMALL", 0)
    with pytest.raises(ValueError, match="covariance='low-rank' of 300 coefficients needs"):
        low_rank().fit(X, y)


# ---- the covariance that the shape of the rows asks for
@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((60, 4), {}, "full"),
        ((30, 40), {}, "full"),
        ((30, 60), {"sparse": True}, "low-rank"),
        ((30, 40), {"sparse": True}, "full"),
        ((30, 60), {"sparse": True, "prior_precision": 1.0}, "full"),
        ((80, 60), {"sparse": True}, "full"),
        ((30, 800), {}, "low-rank"),
        ((30, 800), {"likelihood": "poisson"}, "low-rank"),
        ((30, 60), {"sparse": True, "likelihood": "student-t"}, "full"),
        ((30, 60), {"sparse": True, "likelihood": "ordinal"}, "full"),
        ((30, 800), {"prior_precision": "ard"}, "full"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_shape_of_the_rows_chooses(shape, options, expected, rng):
    X, y = rng.standard_normal(shape), rng.permutation(np.arange(shape[0]) % 12)
    options = {"max_iter": 20, "random_state": 0, **options}
    X = sp.csr_matrix(X) if options.pop("sparse", False) else X
    model = BayesianGLMRegressor(**options).fit(X, y)
    given = BayesianGLMRegressor(covariance=expected, **options).fit(X, y)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    np.testing.assert_array_equal(model.coef_std_, given.coef_std_)
    assert hasattr(model, "lower_bound_") == (expected == "full")
    assert ("low-rank, by the shape of the rows" in model.summary_text()) == (expected == "low-rank")
