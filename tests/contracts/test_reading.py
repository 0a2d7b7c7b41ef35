"""How rows are read: by position, and what is missing is named with what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMRegressor, GammaFactorModel, GeneralizedPMF, GPClassifier, SparseGPRegressor

N = 20


def table(seed, index=None):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((N, 3)), columns=list("abc"), index=index)
    return X, X["a"] + 0.1 * rng.standard_normal(N)


@pytest.mark.parametrize("index", [None, [f"row {k}" for k in range(N)]], ids=["numbers", "names"])
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_rows_in_another_order_are_told_of_and_taken_by_position(fit, index, global_random_seed):
    X, y = table(global_random_seed, index)
    shuffled = y.sample(frac=1, random_state=global_random_seed)
    for name, given in (("y", {"y": shuffled}), ("sample_weight", {"y": y, "sample_weight": shuffled.abs()})):
        with pytest.warns(UserWarning, match=f"X and {name} have the same index in different orders.*position"):
            told = getattr(BayesianGLMRegressor(), fit)(X, **given)
        plain = {key: value.to_numpy() for key, value in given.items()}
        np.testing.assert_array_equal(told.coef_, getattr(BayesianGLMRegressor(), fit)(X, **plain).coef_)


def test_the_warning_names_both_labels_of_the_first_such_row():
    X, y = table(0)
    with pytest.warns(UserWarning, match=r"\(row 3 is 3 in X and 4 in y\).*y\.loc\[X\.index\].*y\.to_numpy\(\)"):
        BayesianGLMRegressor().fit(X, y.iloc[[0, 1, 2, 4, 3, *range(5, N)]])


def test_a_table_of_pairs_is_read_alike():
    pairs = pd.DataFrame({"user": np.arange(N) % 4, "item": np.arange(N) % 5})
    y = pd.Series(np.arange(N, dtype=float))
    with pytest.warns(UserWarning, match="X and y have the same index in different orders"):
        GeneralizedPMF(n_components=1).fit(pairs, y[::-1])


def test_other_indices_are_no_finding(global_random_seed):
    """The same order, other labels, labels twice, none: nothing says that rows belong together otherwise."""
    X, y = table(global_random_seed)
    others = [
        y,
        y.to_numpy(),
        y.to_list(),
        y.set_axis(range(1, N + 1)),
        y.set_axis([0] * N),
        y.set_axis([str(k) for k in range(N)]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in others:
            BayesianGLMRegressor().fit(X, own)
        BayesianGLMRegressor().fit(X.to_numpy(), y[::-1])
        BayesianGLMRegressor().fit(X.set_axis([0] * N), y.set_axis([0] * N)[::-1])


@pytest.mark.parametrize(
    "model", [BayesianGLMRegressor(), GPClassifier(), SparseGPRegressor(), GammaFactorModel()], ids=repr
)
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA], ids=str)
def test_a_missing_value_is_named_with_what_to_do(model, nothing):
    X, y = table(0)
    target = (y > 0) if isinstance(model, GPClassifier) else y
    whole, one = X.astype(object), X.astype(object)
    whole["b"], one.loc[4, "b"] = nothing, nothing
    for given, where in ((whole, "(row 0|every row)"), (one, "row 4")):
        with pytest.raises(ValueError, match=rf"column 'b' of X, {where}: .*X contains NaN") as caught:
            model.fit(given, target)
        text = str(caught.value)
        assert "HistGradientBoosting" not in text and "\n" not in text
        assert nothing is pd.NA or "SimpleImputer" in text
    if nothing is None:
        with pytest.raises(ValueError, match=r"column 'b' of X, every row: .*Leave out the column"):
            model.fit(whole, target)
