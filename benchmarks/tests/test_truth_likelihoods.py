"""Every likelihood in every family, by the benchmark's own runner."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.truth import likelihoods, references_own_prior


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", likelihoods.NAMES)
def test_a_likelihood_fits_with_nothing_set_wherever_it_may(name, global_random_seed):
    """New rows are 150, of whose share the standard error is 0.025; a curve or walk of few counts adds to it."""
    for family in likelihoods.FAMILIES:
        row = likelihoods.run(name, family, 1, global_random_seed)
        assert row["converged"] == "1 of 1" and row["warned"] == "", row
        assert row["y"] > 0.9 - 4 * 0.03, row


@pytest.mark.costly
def test_an_ensemble_has_the_moments_of_a_gaussian():
    """By batches the standard error of its means is near 0.02."""
    rng, std = np.random.default_rng(0), np.array([1.0, 20.0, 0.1])
    draws = references_own_prior.drawn(
        lambda at: -0.5 * np.square(at / std).sum(axis=1), std * rng.standard_normal((40, 3)), 2000
    )
    assert np.all(np.abs(draws.mean(axis=(0, 1)) / std) < 4 * 0.02)
    np.testing.assert_allclose(draws.std(axis=(0, 1)), std, rtol=0.08)
