"""Intervals of loadings cover where factors share all columns: a small run of ``gamma_factor.intervals``."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gamma_factor.intervals import covers


@pytest.mark.costly
@pytest.mark.parametrize("sets", [5, pytest.param(12, marks=pytest.mark.exhaustive)])
def test_intervals_hold_where_factors_share_all_columns(sets, global_random_seed):
    """Linear response alone holds 74 to 76 %; of 12 sets the share has a standard error of about 0.05, of 5 of 0.08."""
    rng = np.random.default_rng(global_random_seed)
    shares = np.array([covers(rng, 1000, 2)[0] for _ in range(sets)])
    assert shares.mean() > 0.9 - 0.04 - 4 * shares.std(ddof=1) / np.sqrt(sets)
