"""Missing cells of mixtures: filled as Bayes' rule says, in the kind of table that came."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksvi import BernoulliMixture, CategoricalMixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def survey():
    """Two groups whose answers differ, as strings, an ordered category, whole numbers and a constant."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 300)
    often = rng.random((300, 4)) < np.where(group, 0.9, 0.1)[:, None]
    X = pd.DataFrame({"tea": np.where(often[:, 0], "yes", "no"), "cups": np.where(often[:, 1], 5, 1)})
    X["size"] = pd.Categorical.from_codes(often[:, 2] * 2, ["s", "m", "l"], ordered=True)
    return X.assign(milk=np.where(often[:, 3], "yes", "no"), country="here")


@pytest.fixture(scope="module")
def model(survey):
    return CategoricalMixture(4, random_state=0).fit(survey)


@pytest.mark.costly
def test_probabilities_are_ratios_of_predictive_densities(survey, model):
    row = survey.head(1).astype({"tea": object})
    row.loc[row.index[0], ["tea", "milk"]] = None
    found = model.impute(row, probabilities=True)
    alone = row.assign(milk="yes")
    ratio = np.exp(model.score_samples(alone) - model.score_samples(row))
    assert found[row.index[0], "milk", "yes"] == pytest.approx(ratio[0])
    np.testing.assert_allclose(found.groupby(level=["row", "column"]).sum(), 1.0)


def test_a_frame_keeps_its_index_names_and_types(survey, model):
    X = survey.head(20).set_axis([f"r{i}" for i in range(20)])
    holes = X.copy()
    holes.loc["r3", "size"], holes.loc["r4", "tea"] = None, None
    full = model.impute(holes)
    assert not full.isna().any().any()
    assert full.index.equals(X.index) and list(full) == list(X) and full["size"].dtype == X["size"].dtype
    untouched = [name for name in X.index if name not in ("r3", "r4")]
    pd.testing.assert_frame_equal(full.loc[untouched], X.loc[untouched], check_dtype=False)
    assert len(model.impute(X, probabilities=True)) == 0


def test_more_left_out_answers_are_hit_than_by_the_commonest(survey, model, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    at = rng.integers(0, len(survey), 150)
    rows = survey.iloc[at].reset_index(drop=True)
    full = model.impute(rows.assign(milk=None))
    share = float(np.mean(full["milk"] == rows["milk"]))
    commonest = float(rows["milk"].value_counts(normalize=True).iloc[0])
    assert share > commonest + 4.0 * np.sqrt(0.25 / 150)


def test_zeros_and_ones_come_back_as_an_array(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = (rng.random((200, 6)) < np.where(rng.integers(0, 2, 200), 0.9, 0.1)[:, None]).astype(float)
    model = BernoulliMixture(3, random_state=0).fit(X)
    holes = X.copy()
    holes[:10, 2] = np.nan
    full = model.impute(holes)
    assert isinstance(full, np.ndarray) and full.dtype == X.dtype and set(np.unique(full)) <= {0.0, 1.0}
    np.testing.assert_array_equal(np.delete(full, 2, axis=1), np.delete(X, 2, axis=1))
    one = model.impute(holes, probabilities=True)[0, 2, 1.0]
    assert (full[0, 2] == 1.0) == (one > 0.5)
    with pytest.raises(TypeError, match=r"give X\.toarray"):
        model.impute(sp.csr_matrix(X))
