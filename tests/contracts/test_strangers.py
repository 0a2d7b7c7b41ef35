"""Ids and levels that a fit did not see: a warning where they look like a mistake, silence, or an error."""

from __future__ import annotations

import contextlib
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import GeneralizedPMF, GMEClassifier, GMERegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CALLS = {
    "regressor": ["predict", "predict_latent", "predict_interval", "sample_y", "score", "log_predictive_density"],
    "classifier": ["predict", "predict_proba", "predict_latent", "score", "decision_function"],
    "users": [
        "predict",
        "predict_latent",
        "predict_interval",
        "transform",
        "score",
        "recommend",
        "log_predictive_density",
    ],
    "items": ["predict", "predict_latent", "predict_interval", "score", "fold_in"],
}
NAMES = {"regressor": "site", "classifier": "site", "users": "user", "items": "item"}


def table(seed, columns, n=120, n_ids=6):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: np.concatenate([np.arange(n_ids), rng.integers(0, n_ids, n - n_ids)]) for name in columns})
    return X.assign(x=rng.standard_normal(n)) if "site" in columns else X, rng.standard_normal(n)


def fitted(kind, seed, convert=lambda ids: ids, **options):
    """A model of ids 0 to 5, its X with integer ids, y, and the column of ids."""
    column = NAMES[kind]
    X, y = table(seed, ["site"] if column == "site" else ["user", "item"])
    if kind in ("users", "items"):
        model = GeneralizedPMF(n_components=1, max_iter=3, random_state=0, **options)
    else:
        cls = GMERegressor if kind == "regressor" else GMEClassifier
        model = cls(groups="site", max_iter=3, **options)
    y = (y > 0).astype(int) if kind == "classifier" else y
    return model.fit(X.assign(**{column: convert(X[column])}), y), X, y, column


def call(model, name, X, y):
    if name in ("score", "fold_in", "log_predictive_density"):
        return getattr(model, name)(X, y)
    return getattr(model, name)(X["user"]) if name == "recommend" else getattr(model, name)(X)


def told(function):
    """The messages of the warnings, each of which names this file as its place."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    caught = [one for one in caught if one.category is UserWarning]
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("kind", NAMES)
def test_a_column_of_another_type_is_told_of_with_examples(kind, global_random_seed):
    model, X, y, column = fitted(kind, global_random_seed)
    other = X.assign(**{column: X[column].astype(str)})
    for name in CALLS[kind]:
        (message,) = told(lambda name=name: call(model, name, other, y))
        where = "users" if name == "recommend" else f"column '{column}'"
        assert "none of the 6" in message and where in message, name
        assert "'0', '1', '2', … (text)" in message and "0, 1, 2, … (numbers)" in message
        assert "one type" in message and "on_unseen='ignore'" in message
        assert told(lambda name=name: call(model, name, X, y)) == []


@pytest.mark.parametrize("kind", NAMES)
def test_a_column_of_the_same_type_of_which_nothing_is_known(kind, global_random_seed):
    model, X, y, column = fitted(kind, global_random_seed)
    for name in CALLS[kind]:
        (message,) = told(lambda name=name: call(model, name, X.assign(**{column: X[column] + 6}), y))
        assert "none of the 6" in message and "6, 7, 8, … (numbers)" in message and "0, 1, 2, …" in message


@pytest.mark.parametrize("kind", NAMES)
def test_single_strangers_are_ordinary(kind, global_random_seed):
    model, X, y, column = fitted(kind, global_random_seed)
    for ids in (7, None, [6, 7, 8, None] * 29 + [0] * 4, [2, "guest", None, 0] * 30):
        other = X.assign(**{column: pd.Series([ids] * len(X) if not isinstance(ids, list) else ids, dtype=object)})
        assert [told(lambda name=name, other=other: call(model, name, other, y)) for name in CALLS[kind]] == [
            [] for _ in CALLS[kind]
        ]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    ("ids", "there", "text"),
    [
        (["3"] + [3] * 119, int, "X has '3' (text), the fit had 3 (numbers)"),
        (["guest"] * 120, int, "X has 'guest' (text), the fit had 0, 1, 2, … (numbers)"),
        ([3] + ["3"] * 119, str, "X has 3 (numbers), the fit had '3' (text)"),
        ([3.0] + ["3"] * 119, str, "X has 3.0 (numbers), the fit had '3' (text)"),
        ([pd.Timestamp("2020-01-01")] * 120, str, "(times), the fit had '0', '1', '2', … (text)"),
        ([(3, 1)] * 120, str, "X has (3, 1) (tuple), the fit had"),
    ],
)
def test_ids_of_another_type(kind, ids, there, text, global_random_seed):
    """Among known ones where they are written as one of the fit, alone always."""
    model, X, y, column = fitted(kind, global_random_seed, lambda values: values.astype(there))
    other = X.assign(**{column: pd.Series(ids, dtype=object)})
    (message,) = told(lambda: call(model, CALLS[kind][0], other, y))
    assert "of another type" in message and text in message


@pytest.mark.parametrize("kind", NAMES)
def test_numbers_of_any_type_and_text_of_any_type_are_one(kind, global_random_seed):
    model, X, y, column = fitted(kind, global_random_seed)
    for dtype in (float, np.int8, object, "category", "Int64"):
        assert told(lambda dtype=dtype: model.predict(X.astype({column: dtype}))) == []
    model = fitted(kind, global_random_seed, lambda ids: ids.astype(str))[0]
    for dtype in ("string", "category", object):
        other = X.assign(**{column: X[column].astype(str).astype(dtype)})
        assert told(lambda other=other: call(model, CALLS[kind][0], other, y)) == []


@pytest.mark.parametrize("kind", NAMES)
def test_ignore_and_error(kind, global_random_seed):
    model, X, y, column = fitted(kind, global_random_seed, on_unseen="ignore")
    other = X.assign(**{column: X[column].astype(str)})
    one = X.assign(**{column: X[column].where(X.index != 5, 9)})
    missing = X.assign(**{column: X[column].astype(object).where(X.index != 5, None)})
    for name in CALLS[kind]:
        assert told(lambda name=name: call(model, name, other, y)) == []
    expected, before = model.predict(one), pickle.dumps(model)
    strict = pickle.loads(before).set_params(on_unseen="error")
    state = pickle.dumps(strict)
    for name in CALLS[kind]:
        with pytest.raises(
            ValueError, match=rf"{'users' if name == 'recommend' else column}.*row 5.*X has 9 .*fit had 0"
        ):
            call(strict, name, one, y)
        call(strict, name, missing, y)
    assert pickle.dumps(strict) == state
    np.testing.assert_array_equal(model.set_params(on_unseen="warn").predict(one), expected)
    with pytest.raises(ValueError, match="'on_unseen' parameter"):
        model.set_params(on_unseen="raise").fit(X, y)


def test_the_policy_is_saved_and_cloned(tmp_path, global_random_seed):
    for kind in ("regressor", "users"):
        model, X, _, column = fitted(kind, global_random_seed, on_unseen="error")
        model.save(tmp_path / "model.sksvi")
        for again in (sksvi.load(tmp_path / "model.sksvi"), pickle.loads(pickle.dumps(model))):
            with pytest.raises(ValueError, match="the first in row 0"):
                again.predict(X.assign(**{column: 77}))


def test_levels_that_are_declared_are_known(global_random_seed):
    """Categories without a row have the prior's effect, which the fit knows."""
    X, y = table(global_random_seed, ["site"])
    X = X.astype({"site": pd.CategoricalDtype(range(12))})
    model = GMERegressor(groups="site", max_iter=3, on_unseen="error").fit(X, y)
    assert np.all(np.isfinite(model.predict(pd.DataFrame({"site": [10, 11], "x": 0.0}))))


def test_every_grouping_column_is_looked_at(global_random_seed):
    X, y = table(global_random_seed, ["site"])
    X["area"] = np.arange(len(X)) % 4
    model = GMERegressor(groups=["site", "area"], max_iter=3).fit(X, y)
    (message,) = told(lambda: model.predict(X.astype({"area": str})))
    assert "'area'" in message
    assert len(told(lambda: model.predict(X.astype({"area": str, "site": str})))) == 2
    array = X.to_numpy(dtype=object)
    model = GMERegressor(groups=[0, 2], max_iter=3).fit(array, y)
    array[:, 2] = array[:, 2].astype(str)
    (message,) = told(lambda: model.predict(array))
    assert "grouping column 2 of X" in message


@pytest.mark.filterwarnings("ignore:group .* has one row in each level")
def test_a_group_without_a_level_has_none_to_compare(global_random_seed):
    X, y = table(global_random_seed, ["site"])
    model = GMERegressor(groups="site", max_iter=3).fit(X.assign(site=None), y)
    assert told(lambda: model.predict(X.head(1))) == []
    (message,) = told(lambda: model.predict(X))
    assert "the fit had none" in message


# ---- fits that go on, and tables of features
@pytest.mark.costly
@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_new_ids_of_another_type_in_a_fit_that_goes_on(method, global_random_seed):
    """New ids are what such a fit is for; the ids of the fit in another type are not new."""
    for policy in ("warn", "error", "ignore"):
        model, X, y, _ = fitted("users", global_random_seed, on_unseen=policy)
        model.set_params(warm_start=True)
        go_on = getattr(model, method)
        assert told(lambda go_on=go_on, X=X, y=y: go_on(X.assign(user=X["user"] + 100), y)) == []
        before = pickle.dumps(model)
        if policy == "error":
            with pytest.raises(ValueError, match=r"'user'.*another type.*X has '0', .*the fit had 0, "):
                go_on(X.astype({"user": str}), y)
            assert pickle.dumps(model) == before
        else:
            messages = told(lambda go_on=go_on, X=X, y=y: go_on(X.astype({"user": str}), y))
            assert len(messages) == (policy == "warn") and len(model.users_) == 18


@pytest.mark.costly
@pytest.mark.parametrize("side", ["user", "item"])
def test_a_table_without_a_row_for_most_ids(side, global_random_seed):
    X, y = table(global_random_seed, ["user", "item"])
    good = pd.DataFrame({"age": np.arange(6.0)})
    for features, text in (
        (good.set_axis(list("012345")), f"{side}_features has a row for 0 of 6.*X has 0, 1, 2, .*its index '0', '1'"),
        (good.iloc[:2], f"{side}_features has a row for 2 of 6 {side}s.*X has 2, 3, 4, .*its index 0, 1"),
        (good.iloc[:3], None),
        (good, None),
    ):
        model = GeneralizedPMF(n_components=1, max_iter=3, **{f"{side}_features": features})
        expected = pytest.warns(UserWarning, match=text) if text else contextlib.nullcontext()
        with expected:
            model.fit(X, y)
        assert told(lambda model=model: model.set_params(on_unseen="ignore").fit(X, y)) == []
        refusal = pytest.raises(ValueError, match=text) if text else contextlib.nullcontext()
        with refusal:
            model.set_params(on_unseen="error").fit(X, y)


def test_who_has_features_is_no_stranger(global_random_seed):
    X, y = table(global_random_seed, ["user", "item"])
    features = pd.DataFrame({"age": np.arange(20.0)})
    model = GeneralizedPMF(n_components=1, max_iter=3, user_features=features, on_unseen="error").fit(X, y)
    new = X.assign(user=X["user"] + 10)
    assert len(model.predict(new)) == len(new)
    with pytest.raises(ValueError, match=r"X has 30, 31, 32, … \(numbers\)"):
        model.predict(X.assign(user=X["user"] + 30))
