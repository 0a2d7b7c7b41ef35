"""Leave-one-out from messages: exact where it is, near refits where it is not; folds, weights, errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BernoulliMixture,
    DynamicGLM,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sksvi.datasets import make_glm
from sksvi.inspection import ElpdResult, compare, kfold, leave_future_out, loo
from sksvi.inspection._compare import stacking_weights
from sksvi.likelihoods import Gaussian


def refits(make, X, y):
    """Log density of each row from a fit without it."""
    out = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        out[i] = make().fit(X[rest], y[rest]).log_predictive_density(X[~rest], y[~rest])[0]
    return out


def test_gaussian_noise_is_exact(global_random_seed):
    """Given the hyperparameters a cavity is the posterior without its row."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(15, 4))
    y = X[:, 0] + rng.normal(size=15)

    def make():
        return BayesianGLMRegressor(
            likelihood=Gaussian(variance=0.7), prior_precision=0.5, intercept_precision=0.1, tol=1e-12
        )

    found = loo(make().fit(X, y), X, y)
    A = np.column_stack([X, np.ones(15)])
    exact = np.empty(15)
    for i in range(15):
        rest = np.arange(15) != i
        cov = np.linalg.inv(np.diag([0.5] * 4 + [0.1]) + A[rest].T @ A[rest] / 0.7)
        # The intercept's prior is centred where the fit to all rows has it.
        centre = make().fit(X, y)._encoding.prior.intercept[0]
        mean = cov @ (A[rest].T @ y[rest] / 0.7 + np.array([0.0] * 4 + [0.1 * centre]))
        variance = A[i] @ cov @ A[i] + 0.7
        exact[i] = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y[i] - A[i] @ mean) ** 2 / variance
    assert_allclose(found.pointwise["elpd"], exact, atol=1e-8)
    assert np.all(found.k_hat == -np.inf) and found.elpd_loo == pytest.approx(exact.sum(), abs=1e-7)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("make", "likelihood", "n", "d"),
    [
        (lambda: BayesianGLMClassifier(prior_precision=0.5), "logit", 30, 20),
        (lambda: BayesianGLMRegressor(likelihood="poisson", prior_precision=0.3), "poisson", 30, 4),
        (lambda: BayesianGLMRegressor(), "gaussian", 25, 3),
        (lambda: BayesianGLMRegressor(likelihood="negative-binomial"), "negative-binomial", 40, 2),
        (lambda: BayesianGLMRegressor(likelihood="ordinal"), "ordinal", 40, 2),
    ],
)
def test_near_refits(make, likelihood, n, d, global_random_seed):
    """Within a quarter of a standard error of fits without each row, messages of others found anew where they move."""
    X, y = make_glm(n, d, likelihood=likelihood, random_state=global_random_seed)
    found, exact = loo(make().fit(X, y), X, y), refits(make, X, y)
    assert abs(found.elpd_loo - exact.sum()) < 0.25 * found.se
    assert np.all(found.k_hat <= 0.7)


def test_several_classes(global_random_seed):
    """Latents of all classes leave together."""
    X, y = make_glm(40, 2, likelihood="softmax", n_classes=3, random_state=global_random_seed)

    def make():
        return BayesianGLMClassifier(likelihood="softmax", prior_precision=1.0)

    found, exact = loo(make().fit(X, y), X, y), refits(make, X, y)
    assert abs(found.elpd_loo - exact.sum()) < 0.25 * found.se
    assert "pit_lower" not in found.pointwise


def test_without_a_second_look_few_rows_are_off():
    """What a second look mends: 30 rows of 20 columns, whose cavities alone are too sure."""
    from sksvi.inspection import _cavities, _second_look

    X, y = make_glm(30, 20, likelihood="logit", random_state=0)
    fit = BayesianGLMClassifier(prior_precision=0.2).fit(X, y)._sites(X, y, None, None)
    folds = _second_look.Folds([np.array([i]) for i in range(30)], [np.ones(1)] * 30)
    cavities = _cavities.LeaveOut(fit, folds)
    alone = cavities.under(fit.mode)
    cavities.look()
    looked = cavities.under(fit.mode)
    assert np.abs(looked.mean - alone.mean).max() > 0.1
    # Messages are those of the latents that they leave: one round more changes next to nothing.
    assert max(look.change.max() for look in cavities.looks) < 0.05


def test_in_sample_density_is_that_of_the_fit(global_random_seed):
    """elpd + p_loo is the log predictive density with all rows."""
    X, y = make_glm(60, 3, likelihood="poisson", random_state=global_random_seed)
    model = BayesianGLMRegressor(likelihood="poisson", tol=1e-10).fit(X, y)
    found = loo(model, X, y).pointwise
    assert_allclose(found["elpd"] + found["p_loo"], model.log_predictive_density(X, y), atol=5e-3)
    assert np.all(found["pit_lower"] <= found["pit_upper"])


def test_a_weight_is_so_many_copies(global_random_seed):
    """Of a row of weight k one copy is left out at a time."""
    X, y = make_glm(25, 2, likelihood="poisson", random_state=global_random_seed)
    weight = np.random.default_rng(global_random_seed).integers(1, 4, 25)
    options = {"likelihood": "poisson", "prior_precision": 0.5, "intercept_precision": 0.1, "tol": 1e-10}
    found = loo(BayesianGLMRegressor(**options).fit(X, y, weight), X, y, sample_weight=weight)
    rows = np.repeat(np.arange(25), weight)
    copies = loo(BayesianGLMRegressor(**options).fit(X[rows], y[rows]), X[rows], y[rows])
    assert_allclose(found.pointwise["elpd"].to_numpy()[rows], copies.pointwise["elpd"], atol=2e-3)
    assert found.elpd_loo == pytest.approx(copies.elpd_loo, abs=0.05)
    assert found.se == pytest.approx(copies.se, rel=1e-2)


def test_index_columns_and_pipelines():
    """The user's index; a pipeline's steps transform the rows."""
    X, y = make_glm(40, 3, likelihood="logit", random_state=0)
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {i}" for i in range(40)])
    model = make_pipeline(StandardScaler(), BayesianGLMClassifier()).fit(frame, y)
    found = loo(model, frame, y)
    assert found.pointwise.index.equals(frame.index)
    assert list(found.pointwise) == ["elpd", "p_loo", "k_hat", "pit_lower", "pit_upper"]
    assert "can be trusted" in str(found)


def test_groups_leave_together(global_random_seed):
    """Rows of a group are predicted from the others, as fits without it do."""
    X, y = make_glm(40, 2, likelihood="poisson", random_state=global_random_seed)
    labels = np.arange(40) % 8

    def make():
        return BayesianGLMRegressor(likelihood="poisson", prior_precision=0.5)

    found = loo(make().fit(X, y), X, y, groups=labels)
    folds = kfold(make(), X, y, cv=8, groups=labels)
    assert_allclose(found.elpd_loo, folds.elpd_loo, atol=0.1 * folds.se)
    sums = found.pointwise.groupby("group")["elpd"].sum()
    assert found.se == pytest.approx(np.sqrt(8) * sums.std())


def test_kfold_of_single_rows_is_refits():
    """As many folds as rows leave out each alone; weights and offsets go along."""
    X, y = make_glm(12, 2, likelihood="poisson", random_state=0)

    def make():
        return BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0)

    found = kfold(make(), X, y, cv=12)
    assert_allclose(found.pointwise["elpd"], refits(make, X, y))
    assert "k_hat" not in found.pointwise
    options = {"offset": np.full(12, 0.5), "sample_weight": np.full(12, 2.0), "random_state": 0}
    inside = kfold(make(), X, y, cv=3, **options)
    assert inside.elpd_loo == pytest.approx(
        kfold(make_pipeline(StandardScaler(with_std=False), make()), X, y, cv=3, **options).elpd_loo, abs=2
    )


# ---- mixed effects, Gaussian processes
def grouped(seed, likelihood):
    """Rows of eight levels, and a column."""
    rng = np.random.default_rng(seed)
    codes, x = np.arange(48) % 8, rng.normal(size=48)
    f = 0.5 * x + rng.normal(size=8)[codes]
    y = {"gaussian": f + 0.5 * rng.normal(size=48), "poisson": rng.poisson(np.exp(f))}[likelihood]
    return pd.DataFrame({"x": x, "school": np.array(list("abcdefgh"))[codes]}), y


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
@pytest.mark.parametrize("groups", [None, "school"])
def test_mixed_effects(likelihood, groups, global_random_seed):
    """A row, or all rows of a level, whose effect is then that of a new one."""
    X, y = grouped(global_random_seed, likelihood)
    model = GMERegressor(likelihood=likelihood, groups="school", noise=False)
    found = loo(model.fit(X, y), X, y, groups=groups)
    rows = np.arange(48) if groups is None else X["school"].factorize()[0]
    folds = [(np.flatnonzero(rows != one), np.flatnonzero(rows == one)) for one in np.unique(rows)]
    exact = kfold(model, X, y, cv=folds, groups=groups)
    assert abs(found.elpd_loo - exact.elpd_loo) < 0.25 * exact.se


def test_a_process_under_gaussian_noise_is_exact():
    """Leave-one-out of a Gaussian process in closed form (Rasmussen and Williams 2006, eq. 5.12)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (12, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=12)
    model = SparseGPRegressor(
        kernel=RBF(1.0), noise_variance=0.1, inducing=X, optimize_hyperparameters=False, optimize_inducing=False
    ).fit(X, y)
    precision = np.linalg.inv(RBF(1.0)(X) + 0.1 * np.eye(12))
    variance = 1.0 / np.diag(precision)
    mean = y - precision @ y * variance
    exact = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - mean) ** 2 / variance
    assert_allclose(loo(model, X, y).pointwise["elpd"], exact, atol=1e-4)  # the jitter of the inducing points


@pytest.mark.costly
def test_processes_near_refits(global_random_seed):
    """Full and sparse, of labels; rows that are alike leave one by one."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-2, 2, (24, 1))
    X[12:] = X[:12]
    y = (rng.random(24) < expit(2 * X[:, 0])).astype(int)
    points = np.linspace(-2, 2, 8)[:, None]
    for model in (
        GPClassifier(kernel=4.0 * RBF(1.0), optimize_hyperparameters=False),
        SparseGPClassifier(
            kernel=4.0 * RBF(1.0), inducing=points, optimize_hyperparameters=False, optimize_inducing=False
        ),
    ):
        found, exact = loo(model.fit(X, y), X, y), refits(lambda model=model: model, X, y)
        model.fit(X, y)
        assert_allclose(found.pointwise["elpd"], exact, atol=0.05)
        weight = np.r_[0.0, np.ones(23)]
        without = loo(model.fit(X, y, weight), X, y, sample_weight=weight)
        assert np.isfinite(without.elpd_loo) and without.se > 0
    with pytest.raises(TypeError, match="bound='v2'"):
        loo(SparseGPRegressor(bound="v2", n_inducing=3, random_state=0).fit(X, X[:, 0] + rng.normal(size=24)), X, y)


# ---- series
def test_points_from_those_before_them():
    """Fits to the first points give the same densities of the next one, to what the hyperparameters' nodes leave."""
    rng = np.random.default_rng(0)
    y = pd.Series(rng.poisson(np.exp(1 + np.cumsum(0.1 * rng.normal(size=40)))))
    model = DynamicGLM(likelihood="poisson", level="walk")
    found = leave_future_out(model.fit(None, y), 30)
    exact = [model.fit(None, y[:t]).log_predictive_density(y=y[t : t + 1])[0] for t in range(30, 40)]
    assert list(found.pointwise.index) == list(range(30, 40)) and np.isnan(found.p_loo)
    assert_allclose(found.pointwise["elpd"], exact, atol=0.1)
    assert str(found).startswith("Leave-future-out") and "k-hat" not in str(found)


def test_given_variances_are_exact():
    """Under Gaussian noise and given variances the densities of the filter are those of fits to the points before."""
    y = pd.Series(np.random.default_rng(0).normal(size=20))
    model = DynamicGLM(likelihood=Gaussian(variance=1.0), level="walk", level_variance=0.1, initial_variance=4.0)
    found = leave_future_out(model.fit(None, y), 5)
    exact = [model.fit(None, y[:t]).log_predictive_density(y=y[t : t + 1])[0] for t in range(5, 20)]
    assert np.abs(found.pointwise["elpd"] - exact).max() < 0.1
    with pytest.raises(ValueError, match="has 20 observations"):
        leave_future_out(model.fit(None, y), 20)
    with pytest.raises(TypeError, match="leave_future_out"):
        loo(model, None)
    with pytest.raises(TypeError, match="use loo"):
        leave_future_out(BayesianGLMRegressor())


def test_several_series():
    """Each for itself, points named by their series."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": np.repeat(["a", "b"], 25)})
    y = rng.poisson(4.0, 50)
    model = DynamicGLM(likelihood="poisson", level="constant", groups="shop").fit(frame, y)
    found = leave_future_out(model)
    assert found.pointwise.index.names[0] == "shop"
    one = leave_future_out(model.series_["a"])
    assert_allclose(found.pointwise.loc["a", "elpd"], one.pointwise["elpd"])


# ---- models side by side
def test_stacking_weights_are_the_best(global_random_seed):
    """No weights on a fine grid predict better."""
    rng = np.random.default_rng(global_random_seed)
    densities = rng.normal(size=(50, 3)) - np.array([1.0, 1.2, 1.5])
    weight = rng.integers(1, 3, 50).astype(float)
    w = stacking_weights(densities, weight)
    grid = np.linspace(0, 1, 101)
    a, b = (part.ravel() for part in np.meshgrid(grid, grid))
    points = np.column_stack([a, b, 1 - a - b])[a + b <= 1 + 1e-12]
    score = weight @ np.log(np.maximum(np.exp(densities) @ points.T, 1e-300))
    assert w.sum() == pytest.approx(1.0) and np.all(w >= 0)
    assert weight @ np.log(np.exp(densities) @ w) >= score.max() - 1e-9


def test_compare():
    """The better model first, differences with their own standard errors."""
    X, y = make_glm(80, 2, likelihood="gaussian", random_state=0)
    results = {
        name: loo(BayesianGLMRegressor().fit(part, y), part, y) for name, part in {"one": X[:, :1], "both": X}.items()
    }
    table = compare(results)
    off = results["one"].pointwise["elpd"] - results["both"].pointwise["elpd"]
    assert list(table.index) == ["both", "one"] and table.loc["both", "difference"] == 0.0
    assert table.loc["one", "difference_se"] == pytest.approx(np.sqrt(80) * off.std())
    assert table["weight"].sum() == pytest.approx(1.0)


def test_compare_warns_of_rows_that_are_not_to_be_trusted():
    frame = pd.DataFrame({"elpd": [-1.0, -2.0], "p_loo": [0.1, 0.1], "k_hat": [0.2, 0.9]})
    result = ElpdResult(-3.0, 0.7, 0.2, frame)
    assert "k-hat is above 0.7 in 1 of them (1)" in str(result)
    with pytest.warns(UserWarning, match="k-hat above 0.7"):
        compare({"a": result})


def test_errors():
    X, y = make_glm(30, 2, likelihood="logit", random_state=0)
    fit = BayesianGLMClassifier().fit(X, y)
    found = loo(fit, X, y)
    with pytest.raises(TypeError, match="kfold"):
        loo(BernoulliMixture(2, random_state=0).fit(np.eye(4)), np.eye(4))
    with pytest.raises(TypeError, match="covariance='diag'"):
        loo(BayesianGLMClassifier(covariance="diag").fit(X, y), X, y)
    with pytest.raises(ValueError, match="total weight"):
        loo(fit, X[:20], y[:20])
    with pytest.raises(ValueError, match="no column of X"):
        loo(fit, X, y, groups="school")
    with pytest.raises(ValueError, match="groups has shape"):
        loo(fit, X, y, groups=np.arange(3))
    with pytest.raises(ValueError, match="other rows"):
        compare({"a": found, "b": ElpdResult(0.0, 0.0, 0.0, found.pointwise.iloc[:5])})
    with pytest.raises(TypeError, match="give what loo or kfold found"):
        compare({"a": fit})
    with pytest.raises(ValueError, match="between 2 and the 30 rows"):
        kfold(BayesianGLMClassifier(), X, y, cv=31)


def test_rows_that_move_others_in_tables_too_large_are_not_trusted(monkeypatch):
    from sksvi.inspection import _cavities

    X, y = make_glm(30, 20, likelihood="logit", random_state=0)
    model = BayesianGLMClassifier(prior_precision=0.2).fit(X, y)
    monkeypatch.setattr(_cavities, "HALVES", 10)
    found = loo(model, X, y)
    assert np.isnan(found.k_hat).any() and len(found.untrusted) == np.isnan(found.k_hat).sum()


def test_many_rows_have_few_rounds(monkeypatch, global_random_seed):
    """Where second looks would take longer than the fit, fewer rounds give nearly the same."""
    from sksvi.inspection import _second_look

    X, y = make_glm(40, 15, likelihood="logit", random_state=global_random_seed)
    model = BayesianGLMClassifier(prior_precision=0.5).fit(X, y)
    settled = loo(model, X, y)
    monkeypatch.setattr(_second_look, "TABLE", 10)
    few = loo(model, X, y)
    assert abs(settled.elpd_loo - few.elpd_loo) < 0.1 * settled.se


GIVEN = BayesianGLMRegressor(prior_precision=1.0, hyperparameters="point")
SMOOTH = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
PROCESS = SparseGPRegressor(kernel=SMOOTH, n_inducing=20, optimize_inducing=False)


@pytest.mark.parametrize("model", [BayesianGLMRegressor(), GIVEN, GMERegressor(groups=[2]), PROCESS])
@pytest.mark.parametrize(("n", "size"), [(15, 25.0), (300, 4.0), (300, 25.0)])
def test_noise_is_another_one_without_a_row(model, n, size, global_random_seed):
    """Nodes of other hyperparameters follow the best noise, which they do not spread; far off a step is too long."""
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.uniform(-1.0, 1.0, (n, 2)), np.arange(n) % 10 / 10.0])
    X[7, :2] = 0.0
    y = X[:, 0] + rng.normal(size=n)
    y[7] = X[7, 0] + size
    found, rest = loo(model.fit(X, y), X, y), np.arange(n) != 7
    alone = clone(model).fit(X[rest], y[rest]).log_predictive_density(X[[7]], y[[7]])[0]
    near = found.pointwise["elpd"][7] == pytest.approx(alone, rel=0.03)
    assert list(found.untrusted) == [7] if size > 10.0 else near and not len(found.untrusted)


@pytest.mark.parametrize(("rows", "options"), [(40, {}), (120, {"prior_precision": "ard"})])
def test_a_prior_that_leans_on_every_row_is_named(rows, options, global_random_seed):
    """Elpd is half a standard error too high there, and no k-hat tells (`truth.loo`)."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(rows, 30 if not options else 10))
    y = X[:, 0] + rng.normal(size=rows)
    found = loo(BayesianGLMRegressor(**options).fit(X, y), X, y)
    assert found.caution and "kfold" in str(found) and found.caution in str(found)
    wide = loo(BayesianGLMRegressor(prior_precision=1.0).fit(X, y), X, y)
    assert not wide.caution


@pytest.mark.parametrize("model", [BayesianGLMRegressor(), GMERegressor(groups="g"), SparseGPRegressor(n_inducing=6)])
def test_rows_of_no_weight_are_not_there(model, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.normal(size=40), "g": np.arange(40) % 5}, index=np.arange(40) + 7)
    y, weight = X["x"] + rng.normal(size=40), rng.integers(0, 3, 40).astype(float)
    rows = weight > 0
    found = loo(model.fit(X, y, weight), X, y, sample_weight=weight)
    without = loo(model, X[rows], y[rows], sample_weight=weight[rows])
    assert found.elpd_loo == pytest.approx(without.elpd_loo)
    assert_allclose(found.pointwise["elpd"][rows], without.pointwise["elpd"])
    assert found.pointwise["elpd"][~rows].isna().all() and not set(found.untrusted) & set(X.index[~rows])
