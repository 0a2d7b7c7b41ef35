"""Topics whose proportions depend on covariates: the regression, its intervals, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.base import clone

import sksvi
from sksvi import CorrelatedTopicModel
from sksvi.families import Population, RegressedPopulation
from sksvi.models.topics.chain import matched

K = 3


def corpus(seed, n=150, V=40, words=60):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(40.0, 10.0, n), "party": rng.choice(["left", "right", "third"], n)})
    log_odds = np.outer(frame["age"] - 40.0, [0.1, -0.05]) + np.outer(frame["party"] == "right", [0.0, 1.5])
    shares = softmax(np.pad(log_odds + 0.4 * rng.standard_normal((n, 2)), ((0, 0), (0, 1))), 1)
    topics = rng.dirichlet(np.full(V, 0.1), K)
    counts = np.stack([rng.multinomial(words, p / p.sum()) for p in shares @ topics])
    return counts, frame, topics, shares


@pytest.fixture(scope="module")
def data():
    return corpus(0)


@pytest.fixture(scope="module")
def fitted(data):
    return CorrelatedTopicModel(K, random_state=0).fit(data[0], covariates=data[1])


def regressed(rng, n=30, D=2, P=3):
    rows = np.column_stack([np.ones(n), rng.standard_normal((n, D + P))])
    return RegressedPopulation(rows.T @ rows, D), rows


def log_density(rows, D, coefficients, scale):
    rest = rows[:, 1 + D :] - rows[:, : 1 + D] @ coefficients
    return -0.5 * np.sum(rest @ np.linalg.inv(scale) * rest) - 0.5 * len(rows) * np.linalg.slogdet(scale)[1]


def test_the_regression_is_where_the_density_has_no_slope(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    block, rows = regressed(rng)
    D, P = block.n_covariates, len(block.location)

    def value(x):
        factor = np.zeros((P, P))
        factor[np.tril_indices(P)] = x[(1 + D) * P :]
        return log_density(rows, D, x[: (1 + D) * P].reshape(1 + D, P), factor @ factor.T)

    best = np.concatenate([block.coefficients.ravel(), np.linalg.cholesky(block.scale)[np.tril_indices(P)]])
    np.testing.assert_allclose(approx_fprime(best, value, 1e-7), 0.0, atol=1e-3)
    np.testing.assert_allclose(np.sum(block.sums * block.moments), value(best), rtol=1e-9)


def test_without_effects_it_is_a_population(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    root = rng.standard_normal((3, 3))
    plain, scale = rng.standard_normal(3), root @ root.T + np.eye(3)
    block = RegressedPopulation.around(np.vstack([plain, np.zeros((2, 3))]), scale)
    other = Population.of(1.0, plain, scale)
    for name in ("location", "scale", "precision"):
        np.testing.assert_allclose(getattr(block, name), getattr(other, name), atol=1e-9)
    assert block.log_det() == pytest.approx(other.log_det())


@pytest.mark.parametrize("bound", ["optimal", "mean-field"])
def test_the_bound_never_falls(data, bound):
    model = CorrelatedTopicModel(K, bound=bound, batch_size=None, max_iter=15, tol=0.0, random_state=0)
    with pytest.warns(match="did not converge"):
        model.set_params(uncertainty="variational").fit(data[0], covariates=data[1])
    bounds = model.lower_bounds_[1:]
    assert np.all(np.diff(bounds) > -1e-6 * np.abs(bounds[:-1]))


@pytest.mark.costly
def test_effects_have_the_users_names_and_the_right_signs(data, fitted):
    own = matched(fitted.components_, data[2])
    table = fitted.effects_["mean"].unstack("covariate").iloc[own]
    assert list(table.columns) == ["age", "party_right", "party_third"]
    np.testing.assert_allclose(fitted.effects_["mean"].groupby("covariate").sum(), 0.0, atol=1e-9)
    assert table["age"].iloc[0] > 0.05 > -0.03 > table["age"].iloc[1]
    assert table["party_right"].iloc[1] > 0.5 > table["party_third"].abs().max()
    pairs = fitted.effects(contrast="party")["mean"].unstack("covariate").iloc[own]
    assert list(pairs.columns) == ["party: right - left", "party: third - left", "party: third - right"]
    np.testing.assert_allclose(pairs["party: right - left"], table["party_right"])


@pytest.mark.costly
def test_units_move_effects_and_nothing_else(data, fitted):
    other = CorrelatedTopicModel(K, random_state=0).fit(
        data[0], covariates=data[1].assign(age=7.0 - data[1]["age"] / 9)
    )
    np.testing.assert_allclose(*(m.state_.q["population"].scale for m in (other, fitted)), rtol=1e-6)
    ages = [model.effects_.xs("age", level="covariate")["mean"] for model in (fitted, other)]
    np.testing.assert_allclose(ages[1], -9.0 * ages[0], atol=0.3)


def test_covariates_predict_words(data, fitted):
    new, frame, *_ = corpus(0, words=6)
    assert fitted.score(new, covariates=frame) > fitted.score(new)
    assert fitted.score(new, covariates=frame.iloc[:, ::-1]) == fitted.score(new, covariates=frame)
    empty, two = np.zeros((2, data[0].shape[1])), pd.DataFrame({"age": [20.0, 60.0], "party": ["left", "left"]})
    shares = fitted.transform(empty, covariates=two)
    expected = fitted.expected_proportions(two)["mean"].to_numpy().reshape(K, 2).T
    np.testing.assert_allclose(shares, expected, atol=0.05)
    assert np.ptp(shares[:, matched(fitted.components_, data[2])[0]]) > 0.3
    np.testing.assert_allclose(np.diff(fitted.transform(empty), axis=0), 0.0, atol=1e-12)
    interval = fitted.proportion_interval(empty, covariates=two)
    assert np.all((interval[..., 0] < shares) & (shares < interval[..., 1]))


@pytest.mark.costly
def test_files_clones_and_seeds(data, fitted, tmp_path):
    fitted.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    pd.testing.assert_frame_equal(loaded.effects_, fitted.effects_)
    part = data[0][:5], data[1][:5]
    np.testing.assert_array_equal(
        loaded.transform(part[0], covariates=part[1]), fitted.transform(part[0], covariates=part[1])
    )
    again = clone(fitted).set_params(n_jobs=2).fit(data[0], covariates=data[1])
    pd.testing.assert_frame_equal(again.effects_, fitted.effects_)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, c: (X, c[:-1]), "covariates has 149 rows and X has 150 documents"),
        (lambda X, c: (X, c.assign(age=c["age"].where(c.index != 3))), "'age' is missing in 1 rows, first in row 3"),
        (lambda X, c: (X, c.assign(year=2000)), "'year' has the same value in all documents"),
        (lambda X, c: (iter([X]), c), "X is read in parts"),
    ],
)
def test_covariates_that_cannot_be_are_refused(data, change, match):
    X, covariates = change(*data[:2])
    model = CorrelatedTopicModel(K, random_state=0)
    with pytest.raises(ValueError, match=match):
        model.fit(X, covariates=covariates)
    assert not hasattr(model, "state_")


@pytest.mark.costly
def test_later_calls_name_what_is_wrong(data, fitted):
    X, frame = data[:2]
    with pytest.raises(ValueError, match=r"the columns \['age'\], and the fit had \['age', 'party'\]"):
        fitted.transform(X, covariates=frame[["age"]])
    with pytest.raises(ValueError, match="column 'party' has 'new' in row 0; the fit knows"):
        fitted.transform(X, covariates=frame.assign(party="new"))
    with pytest.raises(ValueError, match="'age' is no categorical column"):
        fitted.effects(contrast="age")
    with pytest.raises(ValueError, match="fitted with covariates and goes on with documents"):
        clone(fitted).fit(X, covariates=frame).partial_fit(X)
    plain = CorrelatedTopicModel(K, uncertainty="variational", random_state=0).fit(X)
    with pytest.raises(ValueError, match="the fit had none"):
        plain.transform(X, covariates=frame)
    with pytest.raises(ValueError, match=r"fit\(X, covariates=\.\.\.\)"):
        plain.effects()
    assert not hasattr(plain, "effects_")
    for options, why in (({"n_components": 1}, "n_components=1"), ({"algorithm": "s-dsvi"}, "s-dsvi")):
        with pytest.raises(ValueError, match=why):
            clone(plain).set_params(**options).fit(X, covariates=frame)
