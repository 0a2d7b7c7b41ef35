"""The examples of mixed effects and Gaussian processes run, print what they promise and draw their figures."""

from __future__ import annotations

import sys

import pytest


def run(example, tmp_path, monkeypatch, capsys):
    """What the example prints; its figures are below tmp_path."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["example", "--output", str(tmp_path / "figures")])
    example.main()
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_group_effects(tmp_path, monkeypatch, capsys):
    from examples import group_effects

    # The two models that the figure shows, few passes, the bound that costs least.
    drawn = ("negative binomial GLM", "(1 | subject) + noise per row")
    quick = {"bound": "simple", "max_iter": 10}
    monkeypatch.setattr(group_effects, "MODELS", {name: group_effects.MODELS[name] | quick for name in drawn})
    monkeypatch.setattr(group_effects, "N_FOLDS", 2)
    printed = run(group_effects, tmp_path, monkeypatch, capsys)
    for text in (*drawn, "known patients", "new patients", "std(subject, intercept)", "group_effects.png"):
        assert text in printed
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["group_effects.png"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gp_bands(tmp_path, monkeypatch, capsys):
    from examples import gp_bands

    def few_passes(cls):
        return lambda **options: cls(**options, max_iter=20)

    for name in ("SparseGPRegressor", "SparseGPClassifier", "GPClassifier"):
        monkeypatch.setattr(gp_bands, name, few_passes(getattr(gp_bands, name)))
    printed = run(gp_bands, tmp_path, monkeypatch, capsys)
    for text in ("sparse, 10 points", "exact", "Poisson, 10 points", "logit, full", "RBF(length_scale", "gp_bands.png"):
        assert text in printed
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["gp_bands.png"]
