"""The posterior of standard deviations between levels: its looks at the data are passes of the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksvi import GMERegressor, load
from sksvi.algorithms import CVI
from sksvi.callbacks import Checkpoint
from sksvi.schedules import Constant
from support.group_posterior import posterior_below


def counts(seed):
    """Counts of 90 rows in 9 groups."""
    rng = np.random.default_rng([seed, 31])
    X = pd.DataFrame({"x": rng.standard_normal(90), "g": np.repeat(list("abcdefghi"), 10)})
    f = 0.8 + 0.3 * X["x"] + np.repeat(0.6 * rng.standard_normal(9), 10) + 0.4 * rng.standard_normal(90)
    return X, rng.poisson(np.exp(f)).astype(float)


@pytest.fixture(scope="module")
def data(global_random_seed):
    return counts(global_random_seed)


def model(**settings):
    return GMERegressor(**{"likelihood": "poisson", "groups": "g", **settings})


class Passes:
    """Counts passes; stops or crashes after some of them."""

    def __init__(self, stop_after=None, crash_after=None):
        self.stop_after, self.crash_after, self.count = stop_after, crash_after, 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name != "pass":
            return False
        self.count += 1
        if self.count == self.crash_after:
            raise KeyboardInterrupt
        return self.count == self.stop_after

    def teardown(self, estimator, context):
        pass


@pytest.fixture(scope="module")
def plain(data):
    """The fit without the looks."""
    return model(hyperparameters="point").fit(*data)


def test_looks_are_passes_of_the_fit(data, plain):
    passes = Passes()
    whole = model().set_callbacks(passes).fit(*data)
    history, looks = whole.history_, whole.n_iter_ - plain.n_iter_
    assert looks > 2 and passes.count == whole.n_iter_ == len(history) == len(whole.lower_bounds_)
    # What stands is the q of the last step, and its bound.
    assert np.all(history["rate"][-looks:] == 0.0) and np.all(history["rate"][:-looks] > 0.0)
    np.testing.assert_array_equal(whole.lower_bounds_[-looks:], whole.state_.bound)
    assert np.all(np.diff(history["seconds"]) >= 0) and np.all(np.diff(history["rows"]) == 90)
    assert whole.converged_ and whole.state_.bound == plain.lower_bound_
    # A point has no spread.
    assert whole.group_std_["std"].iloc[0] > 0 == plain.group_std_["std"].iloc[0]


def test_max_iter_is_the_most_passes_of_all(data, plain):
    with pytest.warns(ConvergenceWarning, match="group_std_.*raise max_iter"):
        cut = model(max_iter=plain.n_iter_ + 2).fit(*data)
    assert cut.n_iter_ == plain.n_iter_ + 2 and cut.converged_
    assert cut.group_std_["std"].iloc[0] > 0  # as messages have it that stay where they are
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        early = model(max_iter=2).fit(*data)
    assert early.n_iter_ == 2


def test_a_callback_ends_the_looks(data, plain, recwarn):
    stopped = model().set_callbacks(Passes(stop_after=plain.n_iter_ + 1)).fit(*data)
    assert stopped.n_iter_ == plain.n_iter_ + 1 and stopped.converged_
    assert stopped.group_std_["std"].iloc[0] > 0  # as messages have it that stay where they are
    assert not recwarn.list


def test_a_fit_that_crashes_while_it_looks_goes_on_to_the_same_bits(data, plain, tmp_path):
    whole = model(random_state=0).fit(*data)
    path = tmp_path / "fit.sksvi"
    broken = model(random_state=0)
    crash = Passes(crash_after=plain.n_iter_ + 2)
    with pytest.raises(KeyboardInterrupt):
        broken.set_callbacks(Checkpoint(path), crash).fit(*data)
    assert not hasattr(broken, "coef_")
    saved = load(path)
    assert saved.n_iter_ == plain.n_iter_
    resumed = saved.set_params(warm_start=True).fit(*data)
    assert resumed.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(resumed.lower_bounds_, whole.lower_bounds_)
    pd.testing.assert_frame_equal(resumed.group_std_, whole.group_std_)


def test_learned_parameters_of_the_likelihood_are_held():
    """With crossed groups what is looked at has them as they were learned: the posterior with these numbers given.

    Of the second groups, which tell nothing, nodes of a design of one hyperparameter less lie elsewhere on the slow
    fall towards none, and have another standard deviation.
    """
    from sksvi.likelihoods import NegativeBinomial

    X, y = counts(42)
    X, crossed = X.assign(h=np.tile(list("abcde"), 18)), {"groups": ["g", "h"], "tol": 1e-8}
    learned = model(likelihood="negative-binomial", **crossed).fit(X, y)
    fixed = model(likelihood=NegativeBinomial(dispersion=learned.noise_), **crossed).fit(X, y)
    off = np.abs(np.log(learned.group_std_ / fixed.group_std_))
    assert np.all(off.to_numpy() < [[2e-2, 5e-2], [5e-2, 2e-1]])


def test_summary_has_the_residual(data, global_random_seed):
    X, _ = data
    rng = np.random.default_rng([global_random_seed, 32])
    y = 3.0 + np.repeat(rng.standard_normal(9), 10) + 0.7 * rng.standard_normal(90)
    table = GMERegressor(groups="g", hyperparameters="point").fit(X, y).summary()
    mean, std, lower, upper = table.loc["std(residual)", ["mean", "std", "lower", "upper"]].astype(float)
    # The sd of 90 draws: a fourteenth of it is its standard error.
    assert abs(mean - 0.7) < 4 * 0.7 / np.sqrt(2 * 81)
    assert std == pytest.approx(mean / np.sqrt(2 * 90), rel=0.1)
    assert lower < mean < upper
    # Over nodes the effects of nine levels are not given: of about 80 rows, where the scale of the column is.
    whole = GMERegressor(groups="g", prior_precision=1.0).fit(X, y).summary().loc["std(residual)"].astype(float)
    assert whole["mean"] == pytest.approx(mean, rel=0.03)
    assert whole["std"] == pytest.approx(whole["mean"] / np.sqrt(2 * 80), rel=0.05)
    assert "std(residual)" not in model().fit(*data).summary().index
    assert "noise variance" in model().fit(*data).summary().index


@pytest.mark.costly
def test_damped_steps_end_where_full_ones_do(global_random_seed):
    """Intercepts that hardly vary, slopes that do, noise that grows with them: half a step was worth less than none."""
    rng = np.random.default_rng([global_random_seed, 32])
    group, age = np.repeat(np.arange(60), 4), np.tile([8.0, 10.0, 12.0, 14.0], 60)
    y = 0.2 * rng.standard_normal(60)[group] * (age - 8) + (age - 7) / 2 * rng.standard_normal(240)
    X = pd.DataFrame({"age": age, "g": group.astype(str)})
    settings = {"groups": "g", "random_slopes": "age", "tol": 1e-6}
    full = GMERegressor(**settings).fit(X, y)
    damped = GMERegressor(**settings, algorithm=CVI(schedule=Constant(0.3))).fit(X, y)
    assert damped.converged_ and damped.lower_bound_ > full.lower_bound_ - 0.01
    near = damped.group_std_ - full.group_std_
    assert (near.abs()["mean"] < 0.1 * full.group_std_["std"]).all()


@pytest.mark.parametrize(
    ("likelihood", "rows"), [("negative-binomial", ["dispersion"]), ("student-t", ["df", "scale"])]
)
def test_parameters_of_the_likelihood_have_nodes_beside_the_groups(likelihood, rows, data):
    X, y = data
    fit, point = (model(likelihood=likelihood, hyperparameters=h).fit(X, y) for h in ("integrated", "point"))
    nodes = fit.hyperparameter_posterior_
    assert all(nodes[row].nunique() > 1 for row in rows) and nodes["std(g, intercept)"].nunique() > 1
    table, at = fit.summary(), point.summary()
    assert np.all(table.loc[rows, "lower"] < at.loc[rows, "mean"])
    assert np.all(at.loc[rows, "mean"] < table.loc[rows, "upper"])


@pytest.mark.parametrize("std", [0.0, 0.3])
@pytest.mark.parametrize("levels", [6, 10])
def test_intervals_of_deviations_near_none_are_those_of_the_posterior(std, levels, global_random_seed):
    """Towards none the density of a deviation falls slowly: ends of normals left an eighth of it below them."""
    rng = np.random.default_rng([global_random_seed, 33])
    x, group = rng.standard_normal(10 * levels), np.repeat(np.arange(levels), 10)
    y = 0.5 * x + std * rng.standard_normal(levels)[group] + rng.standard_normal(len(x))
    fit = GMERegressor(groups="g").fit(pd.DataFrame({"x": x, "g": group.astype(str)}), y)
    ends = fit.summary().loc["std(g, intercept)", ["lower", "upper"]].to_numpy(float)
    np.testing.assert_allclose(posterior_below(ends, x, y, levels), [0.05, 0.95], atol=0.03)
