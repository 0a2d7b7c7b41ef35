"""The growing batch of ``factorization.batch_sizes``: it grows by noise, to all rows, and the seed decides how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.factorization import _growing, batch_sizes
from benchmarks.factorization._growing import growing
from sksvi import BayesianGLMClassifier
from sksvi.datasets import make_glm
from sksvi.estimators.base import BaseSVI
from sksvi.inference import plan


def rows(n: int = 2000) -> tuple[Any, Any]:
    X, y = make_glm(n, 3, random_state=0)
    return X, y


def grown(**options: Any) -> tuple[Any, list[int]]:
    model = BayesianGLMClassifier(algorithm="mc-ssvi", batch_size=32, hyperparameters="point", **options)
    with growing():
        model.fit(*rows())
    return model, list(_growing.LAST[0].used)


def test_a_gain_is_told_from_noise(global_random_seed: int) -> None:
    noise = np.random.default_rng(global_random_seed).standard_normal(6)
    climbing = np.arange(6.0)
    assert not _growing.gains_nothing(climbing.tolist())
    assert not _growing.gains_nothing((100.0 * climbing + 1e-3 * noise).tolist())
    assert _growing.gains_nothing((-climbing).tolist())
    assert not _growing.gains_nothing((-climbing)[:5].tolist())  # too few passes to say so


def test_batches_double_until_a_fit_ends_on_all_rows_where_one_on_all_rows_ends() -> None:
    model, used = grown(random_state=1)
    steps = [size for size in used if size in {32 * 2**k for k in range(10)}]  # the last batch of a pass may be smaller
    assert np.all(np.diff(steps) >= 0) and steps[0] == 32 and 2 * steps[-1] >= 1000
    alone = BayesianGLMClassifier(algorithm="mc-ssvi", batch_size=None, hyperparameters="point").fit(*rows())
    assert model.converged_ and model.lower_bound_ == pytest.approx(alone.lower_bound_, abs=1e-3)


def test_the_seed_alone_decides() -> None:
    (one, used), (other, again) = grown(random_state=3), grown(random_state=3, n_jobs=2)
    assert used == again
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_the_package_is_as_before_afterwards() -> None:
    before = plan.pass_of, BaseSVI._phases
    with pytest.raises(ValueError, match="inside"), growing():
        raise ValueError("inside")
    assert (plan.pass_of, BaseSVI._phases) == before


def test_a_small_run(capsys: pytest.CaptureFixture[str]) -> None:
    batch_sizes.main(quick=True)
    assert "growing from 16" in capsys.readouterr().out
