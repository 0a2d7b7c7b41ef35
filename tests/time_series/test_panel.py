"""Several series in one table: each as by itself, whatever the order of rows and the number of threads."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sksvi
from sksvi import DynamicGLM
from sksvi.time_series import SeriesPanel

NAMES = ["north", "south", "east"]
DATES = pd.date_range("2024-01-01", periods=50, freq="D", name="date")


@pytest.fixture
def shops(global_random_seed):
    """A long table, days in order and shops in none."""
    rng = np.random.default_rng(global_random_seed)
    parts = []
    for k, name in enumerate(NAMES):
        f = 1.0 + 0.5 * k + np.cumsum(0.1 * rng.standard_normal(50))
        price = rng.random(50)
        y = rng.poisson(np.exp(f - price)).astype(float)
        y[10 + k] = np.nan
        parts.append(pd.DataFrame({"shop": name, "price": price, "y": y}, index=DATES))
    return pd.concat(parts).sample(frac=1.0, random_state=0).sort_index(kind="stable")


def alone(shops, name, **own):
    part = shops[shops["shop"] == name]
    return DynamicGLM(**own).fit(part[["price"]], part["y"])


@pytest.mark.costly
def test_each_series_is_as_by_itself(shops):
    X, y = shops[["shop", "price"]], shops["y"]
    model = DynamicGLM(groups="shop", n_jobs=2).fit(X, y)
    assert model.groups_.tolist() == sorted(NAMES)
    ahead = pd.DataFrame(
        {"shop": np.repeat(NAMES, 2), "price": 0.5}, index=[*pd.date_range("2024-02-20", periods=2)] * 3
    )
    forecast = model.forecast(2, ahead)
    assert forecast.index.names == ["shop", "date"] and len(forecast) == 6
    for name in NAMES:
        single = alone(shops, name)
        assert model.series_[name].level_variance_ == single.level_variance_
        mine = (shops["shop"] == name).to_numpy()
        for own, other in zip(model.predict(return_std=True), single.predict(return_std=True), strict=True):
            assert_array_equal(own[mine], other)
        assert_array_equal(model.predict(X)[mine], single.predict(X[mine][["price"]]))
        assert_array_equal(model.log_predictive_density()[mine], single.log_predictive_density())
        assert_array_equal(model.predict_interval(X)[mine], single.predict_interval(X[mine][["price"]]))
        pd.testing.assert_frame_equal(
            forecast.loc[name], single.forecast(2, ahead[ahead["shop"] == name][["price"]]), check_freq=False,
            check_names=False,
        )  # fmt: skip
        pd.testing.assert_frame_equal(model.components_.loc[name], single.components_, check_freq=False)
        pd.testing.assert_frame_equal(model.summary().loc[name], single.summary())
        pd.testing.assert_frame_equal(model.filter().loc[name], single.filter(), check_freq=False)
    only = model.forecast(X=ahead.iloc[:2], steps=2)
    pd.testing.assert_frame_equal(only, forecast.loc[["north"]])
    assert model.lower_bound_ == sum(member.lower_bound_ for member in model.series_.values())
    assert model.n_features_in_ == 2 and model.feature_names_in_.tolist() == ["shop", "price"] and model.converged_


def test_no_number_of_threads_changes_a_bit(shops):
    X, y = shops[["shop", "price"]], shops["y"]
    for share in (False, True):
        tables = [DynamicGLM(groups="shop", share_variances=share, n_jobs=n).fit(X, y).components_ for n in (1, 2, 3)]
        for table in tables[1:]:
            pd.testing.assert_frame_equal(tables[0], table, check_exact=True)


@pytest.mark.costly
def test_the_series_may_be_a_level_of_the_index_or_a_column_by_number(shops):
    y = shops.set_index("shop", append=True)["y"]
    model = DynamicGLM(groups="shop").fit(None, y)
    column = DynamicGLM(groups="shop").fit(shops[["shop"]], shops["y"])
    pd.testing.assert_frame_equal(model.forecast(2), column.forecast(2))
    both = shops.set_index("shop", append=True)
    levels = DynamicGLM(groups="shop").fit(both[["price"]], both["y"])
    columns = DynamicGLM(groups="shop").fit(shops[["shop", "price"]], shops["y"])
    pd.testing.assert_frame_equal(levels.components_, columns.components_)
    days = pd.date_range("2024-02-20", periods=2)
    later = pd.MultiIndex.from_product([days, ["east", "north"]], names=["date", "shop"])
    X = pd.DataFrame({"price": [0.1, 0.2, 0.3, 0.4]}, later)
    found = columns.forecast(2, X.reset_index("shop"))
    pd.testing.assert_frame_equal(levels.forecast(2, X), found)
    assert found.index[0] == ("east", pd.Timestamp("2024-02-20"))
    codes = shops["shop"].map({"east": 7.0, "north": 8.0, "south": 9.0})
    array = DynamicGLM(groups=0).fit(codes.to_numpy()[:, None], shops["y"].to_numpy())
    assert array.groups_.tolist() == [7.0, 8.0, 9.0]
    # Rows that are only counted have no times, and a series goes on from its own last one.
    counted = DynamicGLM(groups="shop").fit(shops[["shop"]].reset_index(drop=True), shops["y"].to_numpy())
    for other in (array, counted):
        forecast = other.forecast(2)
        assert_array_equal(forecast.to_numpy(), model.forecast(2).to_numpy())
        assert forecast.index.get_level_values(1).tolist() == [50, 51] * 3


def test_shared_variances_maximise_the_sum_of_the_bounds(shops, tmp_path):
    X, y = shops[["shop", "price"]], shops["y"]
    own = {"likelihood": "gaussian", "autoregressive": True, "damping": 0.9, "tol": 1e-8}
    model = DynamicGLM(groups="shop", share_variances=True, **own).fit(X, y)
    first = next(iter(model.series_.values()))
    for member in model.series_.values():
        assert member.level_variance_ == first.level_variance_ and member.noise_ == first.noise_

    def total(variance, noise):
        likelihood = sksvi.likelihoods.Gaussian(variance=noise)
        fixed = {**own, "likelihood": likelihood, "level_variance": variance}
        return sum(alone(shops, name, **fixed).lower_bound_ for name in NAMES)

    at = first.level_variance_, first.noise_
    best = total(*at)
    assert model.lower_bound_ == pytest.approx(best, abs=1e-4)
    slack = own["tol"] * (abs(best) + 1.0)  # where a fit ends; a level that does not move has a variance of nearly none
    for factor in (0.8, 1.25):
        assert total(at[0] * factor, at[1]) < best + slack and total(at[0], at[1] * factor) < best + slack
    model.save(tmp_path / "shared.sksvi")
    loaded = sksvi.load(tmp_path / "shared.sksvi")
    for one in (model, loaded):
        one.partial_fit(pd.DataFrame({"shop": ["east"], "price": [0.5]}), [2.0]).smooth()
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())
    assert loaded.series_["east"].noise_ == first.noise_
    separate = DynamicGLM(groups="shop", hyperparameters="point", **own).fit(X, y)
    assert separate.lower_bound_ > model.lower_bound_
    with pytest.raises(ValueError, match="ordinal"):
        DynamicGLM(groups="shop", share_variances=True, likelihood="ordinal").fit(X, np.minimum(y.fillna(0), 2))


def test_a_shared_cycle_begins_where_all_series_show_it(global_random_seed):
    """One series has one period in every difference, the other another in each."""
    at, noise = 2.0 * np.pi * np.arange(40), 0.1 * np.random.default_rng(global_random_seed).standard_normal(80)
    waves = [np.sin(at / 8.0), 4.0 * np.sin(at / 20.0) + 2.5 * np.sin(at / 8.0) + np.sin(at / 3.5)]
    X = pd.DataFrame({"name": np.repeat(["a", "b"], 40)})
    own = {"likelihood": "gaussian", "cycle": True, "groups": "name"}
    model = DynamicGLM(share_variances=True, **own).fit(X, np.concatenate(waves) + noise)
    assert model.converged_ and len({member.cycle_period_ for member in model.series_.values()}) == 1


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_shared_cycle_is_found_that_some_series_hardly_show(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    own, X = {"likelihood": likelihood, "groups": "name"}, pd.DataFrame({"name": np.repeat(["a", "b", "c"], 40)})
    for _ in range(3):
        size, shifts = np.array([[1.0], [0.1], [0.05]]), rng.uniform(0.0, 2.0 * np.pi, (3, 1))
        f = 2.0 + 0.8 * size * np.sin(2.0 * np.pi * np.arange(40) / 8.0 + shifts)
        y = (rng.poisson(np.exp(f)) if likelihood == "poisson" else rng.normal(f, 0.3)).astype(float).ravel()
        free, known = (DynamicGLM(cycle=cycle, share_variances=True, **own).fit(X, y) for cycle in (True, 8.0))
        assert free.lower_bound_ > known.lower_bound_ - 1.0


def test_series_go_on(shops, tmp_path):
    X, y = shops[["shop", "price"]], shops["y"]
    late = X.index >= "2024-02-10"
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(X[~late], y[~late])
    before = model.predict()
    model.partial_fit(X[late], y[late])
    single = alone(shops[~late], "south", level_variance=0.01)
    part = shops[late & (shops["shop"] == "south")]
    single.partial_fit(part[["price"]], part["y"])
    assert_array_equal(model.series_["south"].predict(), single.predict())
    assert len(model.predict()) == len(shops) and len(before) == (~late).sum()
    assert model.n_samples_seen_ == y.notna().sum()
    model.smooth()
    assert_array_equal(model.series_["south"].predict(), single.smooth().predict())
    model.save(tmp_path / "shops.sksvi")
    loaded = sksvi.load(tmp_path / "shops.sksvi")
    pd.testing.assert_frame_equal(loaded.components_, model.components_)
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    assert warm.fit(X, y).n_iter_ >= warm.series_["east"].n_iter_
    # An error in one series leaves all as they were.
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(X[~late], y[~late])
    told = model.summary()
    with pytest.raises(ValueError, match="series 'south' of 'shop': Poisson needs y >= 0"):
        model.partial_fit(X[late], y[late].where(X[late]["shop"] != "south", -1.0))
    assert [len(member.index_) for member in model.series_.values()] == [40, 40, 40]
    pd.testing.assert_frame_equal(model.summary(), told)
    # Two series of which one has no later rows.
    one = X[late]["shop"] == "east"
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(X[~late], y[~late])
    model.partial_fit(X[late][one], y[late][one])
    assert [len(member.index_) for member in model.series_.values()] == [50, 40, 40]


def test_what_is_refused_names_the_series(shops):
    X, y = shops[["shop", "price"]], shops["y"]
    with pytest.raises(NotFittedError):
        DynamicGLM(groups="shop").forecast(2)
    with pytest.raises(
        ValueError,
        match=r"groups='store' is neither a column of X nor a level of an index: X has \['shop', 'price'\]",
    ):
        DynamicGLM(groups="store").fit(X, y)
    with pytest.raises(ValueError, match="groups='shop' is missing in row 3"):
        DynamicGLM(groups="shop").fit(X.assign(shop=X["shop"].where(np.arange(len(X)) != 3)), y)
    with pytest.raises(ValueError, match="series 'north' of 'shop': Poisson needs y >= 0"):
        DynamicGLM(groups="shop").fit(X, y.where(X["shop"] != "north", -1.0))
    with pytest.raises(ValueError, match="X and y differ in length"):
        DynamicGLM(groups="shop").fit(X, y.to_numpy()[:-1])
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(X, y)
    state = model.series_
    for call in (model.predict, lambda rows: model.partial_fit(rows, y[:3])):
        with pytest.raises(ValueError, match=r"the series \['west'\] of 'shop' were not fitted"):
            call(X[:3].assign(shop="west"))
    with pytest.raises(ValueError, match="series 'north' of 'shop': forecast needs X"):
        DynamicGLM(groups="shop", level_variance=0.01).fit(X[X["shop"] == "north"], y[X["shop"] == "north"]).forecast(2)
    with pytest.raises(ValueError, match="log_evidence is of one series"):
        model.log_evidence()
    for name in ("coef_", "posterior_", "index_"):
        with pytest.raises(AttributeError, match=r"each series' own.*series_"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="level_variance_"):
        _ = model.level_variance_
    with pytest.raises(AttributeError, match="no attribute 'levle_variance'"):
        _ = model.levle_variance
    assert all(model.series_[name] is state[name] for name in NAMES)
    with pytest.warns(UserWarning, match=r"2 series of 'shop' \('east', 'south'\): y is 0 in every row") as told:
        DynamicGLM(groups="shop", level_variance=0.01).fit(X, y.where(X["shop"] == "north", 0.0))
    assert {one.filename for one in told} == {__file__}


@pytest.mark.costly
def test_a_binomial_and_exposures(shops):
    X, y = shops[["shop"]], np.minimum(shops["y"].fillna(1.0), 9.0)
    pairs = pd.DataFrame({"yes": y, "no": 9.0 - y})
    model = DynamicGLM(groups="shop", likelihood="binomial", level_variance=0.01).fit(X, pairs)
    mine = (X["shop"] == "east").to_numpy()
    single = DynamicGLM(likelihood="binomial", level_variance=0.01).fit(None, pairs[mine])
    assert_array_equal(model.predict()[mine], single.predict())
    exposure = np.log(np.linspace(1, 2, len(X)))
    counts = DynamicGLM(groups="shop", level_variance=0.01).fit(X, shops["y"], offset=exposure)
    single = DynamicGLM(level_variance=0.01).fit(None, shops["y"][mine], offset=exposure[mine])
    assert_allclose(counts.series_["east"].predict(), single.predict())
    with pytest.raises(ValueError, match="offset has an entry per row"):
        counts.forecast(2, offset=[0.0, 1.0])


def test_between_one_series_and_several(shops):
    X, y = shops[["shop", "price"]], shops["y"]
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(X, y)
    one = (X["shop"] == "east").to_numpy()
    model.set_params(groups=None)
    for call in (model.partial_fit, model.set_params(warm_start=True).fit):
        with pytest.raises(ValueError, match="groups=None, and this is a fit to several series"):
            call(X[one][["price"]], y[one])
    model.set_params(warm_start=False).fit(X[one][["price"]], y[one])
    assert not hasattr(model, "series_") and not hasattr(model, "groups_") and model.n_features_in_ == 1
    assert_array_equal(model.predict(), alone(shops, "east", level_variance=0.01).predict())
    for call in (model.partial_fit, model.set_params(warm_start=True).fit):
        with pytest.raises(ValueError, match="groups"):
            model.set_params(groups="shop")
            call(X, y)
    model.set_params(warm_start=False).fit(X, y)
    assert model.n_features_in_ == 2 and sorted(model.series_) == sorted(NAMES)


def test_a_score_leaves_out_what_is_missing(shops):
    X, y = shops[["shop", "price"]], shops["y"]
    model = alone(shops, "east", level_variance=0.01)
    east = (X["shop"] == "east").to_numpy()
    part, target = X[east][["price"]], y[east]
    kept = target.notna()
    assert target.isna().any()
    assert model.score(part, target) == pytest.approx(model.score(part[kept], target[kept]), rel=1e-12)
    weight = np.arange(1.0, 51.0)
    weighted = model.score(part[kept], target[kept], weight[kept])
    assert model.score(part, target, weight) == pytest.approx(weighted, rel=1e-12)
    with pytest.raises(ValueError, match="no observed value among 50"):
        model.score(part, target * np.nan)


def pooled(model, X, y, weight=None):
    """The share of what one mean loses that the panel's own predictions save, of rows that are there."""
    there = y.notna().to_numpy()
    weight = (np.ones(len(y)) if weight is None else weight) * there
    y, mean = y.fillna(1.0).to_numpy(), np.average(y.fillna(1.0), weights=weight)

    def loss(mu):
        if model.likelihood == "gaussian":
            return weight @ np.square(y - mu)
        return weight @ next(iter(model.series_.values())).likelihood_.unit_deviance(y, mu)

    return 1.0 - loss(model.predict(X)) / loss(np.full(len(y), mean))


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_score_is_that_of_all_rows(likelihood, shops, global_random_seed):
    X, y = shops[["shop", "price"]], shops["y"]
    model = DynamicGLM(likelihood=likelihood, groups="shop", level_variance=0.01).fit(X, y)
    weight = np.random.default_rng(global_random_seed).uniform(0.0, 2.0, len(y)) * (X["shop"] != "east")
    assert model.score(X, y) == pytest.approx(pooled(model, X, y), rel=1e-12)
    assert model.score(X, y, weight) == pytest.approx(pooled(model, X, y, weight), rel=1e-12)
    north = X["shop"] == "north"
    assert model.score(X, y.where(north)) == pytest.approx(pooled(model, X[north], y[north]), rel=1e-12)
    first = X["shop"].ne("north") | (X.index == X.index[0])  # one row of a series
    assert model.score(X[first], y[first]) == pytest.approx(pooled(model, X[first], y[first]), rel=1e-12)
    with pytest.raises(ValueError, match="no observed value"):
        model.score(X, y * np.nan)


def test_a_score_of_named_levels_counts_steps_over_all_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"name": np.repeat(["a", "b"], 40)})
    size = pd.Categorical.from_codes(rng.permutation(np.arange(80) % 3), ["small", "middle", "large"], ordered=True)
    own = {"likelihood": "ordinal", "groups": "name", "level_variance": 0.01}
    model = DynamicGLM(**own).fit(X, pd.Series(size))
    found = pd.Categorical(model.predict(X), categories=size.categories).codes
    least = min(np.abs(size.codes.astype(int) - k).sum() for k in range(3))
    assert model.score(X, pd.Series(size)) == pytest.approx(1.0 - np.abs(size.codes.astype(int) - found).sum() / least)
    fewer = np.where(X["name"] == "b", np.where(size == "large", "small", size), size)
    y = pd.Series(pd.Categorical(fewer, categories=size.categories, ordered=True))
    with pytest.warns(UserWarning, match="large"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="each series' own"):
        model.score(X, y)


def test_a_file_that_does_not_fit_is_refused(shops, tmp_path):
    model = DynamicGLM(groups="shop", level_variance=0.01).fit(shops[["shop"]], shops["y"])
    single = model.series_["east"]
    other = DynamicGLM(level_variance=0.01).fit(None, shops["y"].to_numpy()[:7])

    def broken(**attributes):
        wrong, panel = clone(model), copy.copy(model._panel)
        vars(wrong).update(vars(model) | {"_panel": panel})
        vars(wrong if "state_" in attributes else panel).update(attributes)
        wrong.save(tmp_path / "wrong.sksvi")
        return tmp_path / "wrong.sksvi"

    assert sksvi.load(broken()).groups_.tolist() == sorted(NAMES)
    for attributes, said in (
        ({"_members": [single, single]}, "_labels"),
        ({"_members": []}, "_members"),
        ({"_members": [single, single, model]}, "_members"),
        ({"_members": [single, single, DynamicGLM()]}, "_members"),
        ({"_members": [single, single, other]}, "_rows"),
        ({"_rows": [np.arange(50)] * 3}, "_rows"),
        ({"state_": single.state_}, "state_"),
    ):
        with pytest.raises(ValueError, match=said):
            sksvi.load(broken(**attributes))


@pytest.mark.parametrize("freq", ["D", "MS"])
def test_a_series_of_one_date_has_the_step_of_the_others(freq):
    days = pd.date_range("2024-01-01", periods=20, freq=freq)
    table = pd.concat([pd.DataFrame({"s": s, "y": np.arange(n) % 3 + 1.0}, days[:n]) for s, n in (("a", 20), ("b", 1))])
    model = DynamicGLM(groups="s", level_variance=0.1).fit(table[["s"]], table["y"])
    assert list(model.forecast(2).loc["b"].index) == list(days[1:3])
    assert isinstance(model.components_.index.levels[1], pd.DatetimeIndex)
    table.loc[table["s"] == "b", "y"] = np.nan
    with pytest.raises(ValueError, match=r"series 'b' of 's': y has no observed value.*Leave such a series out"):
        model.fit(table[["s"]], table["y"])


def test_a_panel_is_what_groups_say(shops, tmp_path):
    X, y = shops[["shop"]], shops["y"]
    door = DynamicGLM(groups="shop", level_variance=0.01).fit(X, y)
    panel = clone(SeriesPanel(DynamicGLM(level_variance=0.01), groups="shop")).fit(X, y)
    assert panel.groups_.tolist() == door.groups_.tolist() and panel.lower_bound_ == door.lower_bound_
    for one in (panel, sksvi.load(saved(panel, tmp_path / "panel"), SeriesPanel)):
        pd.testing.assert_frame_equal(one.forecast(3), door.forecast(3))
        pd.testing.assert_frame_equal(one.components_, door.components_)
        np.testing.assert_array_equal(one.predict(X), door.predict(X))
        assert one.score(X, y) == door.score(X, y)
    with pytest.raises(ValueError, match="groups"):
        SeriesPanel(DynamicGLM(), groups=None).fit(X, y)


def saved(model, path):
    sksvi.persistence.save(model, path)
    return path
