"""How the level moves, chosen by the log evidence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import DynamicGLM
from sksvi.likelihoods import NegativeBinomial, Poisson


def intermittent(seed, n=100):
    """Demand of a twelfth of the points."""
    rng = np.random.default_rng([seed, 92])
    return np.where(rng.random(n) < 0.08, rng.integers(1, 6, n), 0).astype(float)


def test_each_kind_is_found():
    rng = np.random.default_rng(0)
    n, shocks = 300, rng.standard_normal(300)
    returns = np.zeros(n)
    for t in range(1, n):
        returns[t] = 0.6 * returns[t - 1] + shocks[t]
    truths = {"walk": np.cumsum(shocks), "damped": returns, "constant": np.zeros(n)}
    for kind, f in truths.items():
        noise = np.random.default_rng(1).standard_normal(n)
        model = DynamicGLM(likelihood="gaussian").fit(None, 10.0 + f + 0.5 * noise)
        assert model.level_ == kind
        assert max(model.level_evidence_, key=model.level_evidence_.get) == f"{kind}, Gaussian"
        assert model.lower_bound_ == pytest.approx(model.level_evidence_[f"{kind}, Gaussian"], abs=0.1)
        assert f"level        {kind}, by the log evidence" in model.summary_text()


def test_counts_that_vary_more_have_a_dispersion():
    rng = np.random.default_rng(1)
    y = rng.poisson(5.0 * rng.gamma(1.0, 1.0, 150)).astype(float)
    model = DynamicGLM().fit(None, y)
    assert isinstance(model.likelihood_, NegativeBinomial)
    assert 0.7 < model.forecast(13)["mean"].iloc[-1] / y.mean() < 1.4
    y = rng.poisson(np.exp(1.5 + np.cumsum(0.2 * rng.standard_normal(150)))).astype(float)
    model = DynamicGLM().fit(None, y)
    assert isinstance(model.likelihood_, Poisson) and model.level_ == "walk"


def test_a_level_walks_beside_a_dispersion_but_of_few_events():
    """A level that stayed there held the effect of a step in 0.72 of 40 series, and f 12 ahead in 0.59."""
    rng, n = np.random.default_rng(1), 150
    f = 0.3 + np.cumsum(0.05 * rng.standard_normal(n))
    many = rng.negative_binomial(1 / 0.8, 1 / (1 + 0.8 * np.exp(f))).astype(float)
    for y, kind in ((many, "walk"), (intermittent(0), "constant")):
        model = DynamicGLM().fit(None, y)
        assert isinstance(model.likelihood_, NegativeBinomial) and model.level_ == kind
        best = max(model.level_evidence_.values())
        assert model.level_evidence_[f"{kind}, NegativeBinomial"] > best - 2.0


@pytest.mark.costly
def test_forecasts_of_intermittent_demand_stay():
    """A level that walks through them had a mean above 10, 13 steps ahead, in 40 of 40."""
    for seed in range(5):
        y = intermittent(seed)
        model = DynamicGLM().fit(None, y)
        assert model.forecast(13)["mean"].iloc[-1] < 10.0 * max(y.mean(), 0.1)


@pytest.mark.costly
def test_what_is_stated_is_not_chosen():
    y = intermittent(0)
    asked = {
        "walk": [{"level": "walk"}, {"level": True}, {"level_variance": 0.1}],
        "damped": [{"level": "damped"}, {"autoregressive": True}, {"level": True, "autoregressive": True}],
        "constant": [{"level": "constant"}],
        "none": [{"level": False, "seasonal": 4}],
    }
    for kind, several in asked.items():
        for given in several:
            model = DynamicGLM(likelihood="poisson", **given).fit(None, y)
            assert model.level_ == kind and not hasattr(model, "level_evidence_")
    with pytest.raises(ValueError, match="autoregressive=True is a level that returns"):
        DynamicGLM(level="walk", autoregressive=True).fit(None, y)
    with pytest.raises(ValueError, match="level='constant' does not move"):
        DynamicGLM(level="constant", level_variance=0.1).fit(None, y)


def test_old_words_are_the_same_fits():
    y = np.random.default_rng(0).poisson(4.0, 40).astype(float)
    pairs = [({"level": True}, {"level": "walk"}), ({"autoregressive": True}, {"level": "damped"})]
    for old, new in pairs:
        tables = [DynamicGLM(likelihood="poisson", **given).fit(None, y).forecast(3) for given in (old, new)]
        pd.testing.assert_frame_equal(*tables)


def test_a_fit_that_goes_on_keeps_what_was_chosen(tmp_path):
    y = intermittent(3)
    model = DynamicGLM(warm_start=True).fit(None, y)
    chosen = model.level_, type(model.likelihood_)
    model.save(tmp_path / "chosen.sksvi")
    loaded = sksvi.load(tmp_path / "chosen.sksvi")
    assert loaded.level_evidence_ == model.level_evidence_
    pd.testing.assert_frame_equal(loaded.forecast(3), model.forecast(3))
    assert (loaded.fit(None, y).level_, type(loaded.likelihood_)) == chosen
    assert (loaded.partial_fit(None, [0.0, 1.0]).level_, type(loaded.likelihood_)) == chosen


@pytest.mark.costly
def test_series_choose_one_by_one_and_together_walk():
    table = pd.DataFrame({"s": np.repeat(["a", "b"], 60), "y": np.concatenate([intermittent(4, 60), np.full(60, 5.0)])})
    rng = np.random.default_rng(0)
    table.loc[table["s"] == "b", "y"] = rng.poisson(5.0, 60).astype(float)
    apart = DynamicGLM(groups="s").fit(table[["s"]], table["y"])
    assert {type(one.likelihood_) for one in apart.series_.values()} == {NegativeBinomial, Poisson}
    shared = DynamicGLM(groups="s", share_variances=True).fit(table[["s"]], table["y"])
    assert all(one.level_ == "walk" and one._series.nodes is None for one in shared.series_.values())
