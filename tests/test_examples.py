"""The examples run, print what they promise and draw their figures (the demo: test_public, inpaint: test_images)."""

from __future__ import annotations

import re
import sys

import pytest


def run(example, tmp_path, monkeypatch, capsys):
    """What the example prints; its figures are below tmp_path."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["example", "--output", str(tmp_path / "figures")])
    example.main()
    return capsys.readouterr().out


@pytest.mark.costly
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


@pytest.mark.costly
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


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ratings(tmp_path, monkeypatch, capsys):
    from examples import ratings

    class FewPasses(ratings.GeneralizedPMF):
        def fit(self, X, y):
            return self.set_params(max_iter=3).fit(X, y) if self.max_iter != 3 else super().fit(X, y)

    monkeypatch.setattr(ratings, "GeneralizedPMF", FewPasses)
    path = tmp_path / "ratings.csv"
    ratings.simulated().iloc[:3000].to_csv(path, index=False)
    monkeypatch.setattr(sys, "argv", ["ratings"])
    pytest.importorskip("matplotlib")
    ratings.main(["--path", str(path), "--components", "2", "--output", str(tmp_path / "figures")])
    printed = capsys.readouterr().out
    for text in ("2400 ratings", "film's shares", "GeneralizedPMF", "inside 90 %", "rank"):
        assert text in printed
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["ratings.png"]


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_topics(tmp_path, monkeypatch, capsys):
    from examples import topics

    monkeypatch.setattr(topics, "DOCUMENTS", 80)
    monkeypatch.setattr(topics, "PASSES", 2)
    printed = run(topics, tmp_path, monkeypatch, capsys)
    for text in (
        "60 documents, 400 words; 2 passes",
        "LatentDirichletAllocation",
        "CorrelatedTopicModel",
        "correlated",
    ):
        assert text in printed
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["topic_graph.png", "topic_words.png"]


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_topics_of_files(tmp_path, monkeypatch, capsys):
    from examples import topics

    monkeypatch.setattr(topics, "PASSES", 2)
    groups = {"space": "orbit moon", "medicine": "doctor drug", "sport": "goal team", "cars": "engine brake"}
    for group, words in groups.items():
        (tmp_path / "text" / group).mkdir(parents=True)
        for i in range(40):
            (tmp_path / "text" / group / f"{i}.txt").write_text(f"the {words} " * (1 + i % 5))
    pytest.importorskip("matplotlib")
    topics.main(["--path", str(tmp_path / "text"), "--components", "2", "--output", str(tmp_path / "figures")])
    printed = capsys.readouterr().out
    assert "120 documents, 8 words; 2 passes" in printed and "orbit" in printed


@pytest.mark.exhaustive
def test_nonnegative_factors(tmp_path, monkeypatch, capsys):
    from examples import nonnegative_factors

    printed = run(nonnegative_factors, tmp_path, monkeypatch, capsys)
    for text in ("cosine of each factor", "market", "software", "non-negative", "nonnegative_factors.png"):
        assert text in printed
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["nonnegative_factors.png"]


@pytest.mark.exhaustive
def test_digit_parts(tmp_path, monkeypatch, capsys):
    from examples import digit_parts

    monkeypatch.setattr(digit_parts, "PARTS", 10)
    printed = run(digit_parts, tmp_path, monkeypatch, capsys)
    error, by_mean = map(float, re.findall(r"mean error ([\d.]+) of 16, by the mean image ([\d.]+)", printed)[0])
    assert error < 0.8 * by_mean
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["digit_parts.png"]


@pytest.mark.exhaustive
def test_unmix_sounds(tmp_path, monkeypatch, capsys):
    from examples import unmix_sounds

    monkeypatch.setattr(unmix_sounds, "SECONDS", 6.0)
    printed = run(unmix_sounds, tmp_path, monkeypatch, capsys)
    assert "6 notes were played" in printed
    gains = [float(found) - float(before) for found, before in re.findall(r"(-?[\d.]+) dB; .*?(-?[\d.]+) dB", printed)]
    assert len(gains) == 6 and min(gains) > 0.0
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["unmix_sounds.png"]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_latent_classes(tmp_path, monkeypatch, capsys):
    from examples import latent_classes

    monkeypatch.setattr(latent_classes, "HOUSEHOLDS", 1500)
    printed = run(latent_classes, tmp_path, monkeypatch, capsys)
    assert re.search(r"^[4-6] classes", printed, re.MULTILINE)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["latent_classes.png"]


@pytest.mark.costly
def test_van_drivers(tmp_path, monkeypatch, capsys):
    from examples import van_drivers

    pytest.importorskip("matplotlib")
    van_drivers.main(["--output", str(tmp_path / "figures")])
    printed = capsys.readouterr().out
    step, law = (float(re.search(pattern, printed)[1]) for pattern in (r"deviation of ([\d.]+)", r"law: (-[\d.]+)"))
    # The default averages over the variances; published is the maximum of the likelihood.
    assert 0.0244 < step < 1.15 * 0.0244 and abs(law + 0.279) < 0.01
    point = van_drivers.model().set_params(hyperparameters="point").fit(*van_drivers.series())
    assert abs(point.level_variance_**0.5 - 0.0244) < 3e-4
    assert abs(point.summary().loc["coefficient law", "mean"] + 0.279) < 3e-3
    assert "24 % fewer" in printed and "90 % intervals held 94 % of the 36 months" in printed
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["forecast_fan.png", "van_drivers.png"]


@pytest.mark.exhaustive
def test_local_cluster(capsys):
    pytest.importorskip("distributed", reason="needs the extra dask")
    from examples import local_cluster

    local_cluster.main(["--rows", "8000", "--partitions", "4"])
    printed = capsys.readouterr().out
    accuracy, held = float(re.search(r"accuracy ([\d.]+)", printed)[1]), float(re.search(r"hold ([\d.]+)%", printed)[1])
    assert "4 partitions on 2 workers" in printed and 0.64 < accuracy < 0.75 and held > 90.0
