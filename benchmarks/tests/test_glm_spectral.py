"""Small runs of ``glm.spectral``: its designs are what they say, and its fits without a choice have none."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.glm import spectral


@pytest.mark.parametrize("design", [design for design in spectral.DESIGNS if design[0] != "words"])
def test_latents_have_variance_four_and_some_effects(design):
    X, f, w = spectral.simulated((60, 150), design, 0)
    assert X.shape == (60 + spectral.NEW, 150)
    assert np.var(f) == pytest.approx(4.0)
    assert np.count_nonzero(w) == (4 if design[1] == "sparse" else 150)
    np.testing.assert_allclose(f, X @ w - np.mean(X @ w), atol=1e-9)


@pytest.mark.costly
def test_a_fit_without_a_choice_has_equal_variances_and_no_larger_bound():
    data = next(data for data in spectral.all_sets() if data.name == "sphinx/docutils")
    row = spectral.text_row(data, 1)
    assert row["powers"] in ("1", "2")
    assert row["bound, chosen - equal"] > 0.0 and row["bound, equal - spreads"] > 0.0
    assert row["loss, chosen"] < row["loss, equal"] < row["loss, spreads"]
    assert spectral.summary([row])[0]["chosen / equal"] == pytest.approx(row["loss, chosen"] / row["loss, equal"])
