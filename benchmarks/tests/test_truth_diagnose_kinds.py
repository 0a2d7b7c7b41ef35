"""One verdict over a fit: bad ones are accused of the right thing, good ones are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.truth._fits import BAD, GOOD
from sksvi.inspection import diagnose

CLEAR = ["Poisson on overdispersed counts", "Poisson on zero-inflated counts", "Gaussian on skewed y",
         "a row of high leverage", "separated labels", "three levels", "mixture of overlapping groups"]  # fmt: skip


def of(kind, seed):
    model, X, y = kind.make(np.random.default_rng(seed))
    model.fit(X) if y is None else model.fit(X, y)
    return diagnose(model, X, y)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in BAD if kind.name in CLEAR], ids=lambda kind: kind.name)
def test_what_misleads_is_named_with_a_remedy(kind, global_random_seed):
    found = [of(kind, [global_random_seed, i]) for i in range(3)]
    right = [any(re.search(kind.reason, alarm) for alarm in one.parts["alarm"]) for one in found]
    assert sum(right) >= 2
    first = found[right.index(True)]
    assert "Remedy: " in first.verdict and str(first).startswith(first.verdict)
    assert first.parts.loc[first.alarms, "remedy"].str.len().gt(0).all()


@pytest.mark.parametrize("kind", GOOD[:1] + GOOD[3:4] + GOOD[5:6], ids=lambda kind: kind.name)
def test_good_fits_are_rarely_accused(kind, global_random_seed):
    assert sum(bool(of(kind, [global_random_seed, i]).alarms) for i in range(4)) <= 1
