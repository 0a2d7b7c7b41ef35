"""Small runs of ``glm.wide_regression``, and its exact references against refits."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest

from benchmarks.glm import wide_regression as bench
from benchmarks.glm._text_sets import unchanged
from benchmarks.glm._wide_sets import WideSet, counted, measured, simulated, standardised
from sksvi import BayesianGLMRegressor


def small(count: bool, seed: int) -> WideSet:
    load = partial(simulated, 300, 60, "factors", seed, count=count)
    return WideSet("factors", "wide, count" if count else "wide", load, unchanged, 40, splits=2)


def test_sets_have_names_of_their_own():
    sets = measured() + counted()
    assert len({(data.name, data.kind) for data in sets}) == len(sets) >= 24
    assert all(data.counted for data in counted())
    assert not any(data.counted for data in measured())


def test_columns_that_do_not_vary_are_left_out():
    X = np.column_stack([np.arange(4.0), np.full(4, 0.1)])
    A, B = standardised(X, X[:2])
    np.testing.assert_allclose([A.mean(), A.std()], [0.0, 1.0], atol=1e-12)
    assert A.shape == (4, 1)
    assert B.shape == (2, 1)


def test_splits_have_new_rows(global_random_seed):
    for A, ya, B, yb in small(False, global_random_seed).drawn():
        assert A.shape == (40, 60)
        assert len(ya) == 40
        assert len(yb) == len(B) == 260
        assert not {row.tobytes() for row in A} & {row.tobytes() for row in B}


@pytest.mark.costly
def test_tables_of_small_sets(global_random_seed):
    rows = bench.rows_of([small(False, global_random_seed)], bench.of_measured, 2)
    counts = bench.rows_of([small(True, global_random_seed)], bench.of_counted, 2)
    totals = [bench.judged(rows, "RidgeCV"), bench.judged(counts, "PoissonRegressor")]
    assert totals[0]["worst"] == pytest.approx(rows[0]["ours"] / rows[0]["RidgeCV"])
    wanted = bench.demands(totals, rows)
    known = {line["demand"]: line["holds"] for line in wanted}
    assert known["loo_ less exact, the most, nats"]
    assert known["error of sd, median, the most"]
    assert len(known) == 10
    assert "quick" in inspect.signature(bench.main).parameters


def test_exact_leave_one_out_is_that_of_refits(global_random_seed):
    A, ya, _, _ = next(small(False, global_random_seed).drawn())
    model = BayesianGLMRegressor(covariance="low-rank").fit(A, ya)
    centred = A - A.mean(axis=0)
    Z = np.column_stack([centred, np.ones(len(ya))])
    centre, vague = model._encoding.prior.intercept
    prior = np.diag(np.append(np.broadcast_to(model.prior_precision_, A.shape[1]), vague))
    losses = []
    for i in range(len(ya)):
        rest = np.arange(len(ya)) != i
        S = np.linalg.inv(prior + Z[rest].T @ Z[rest] / model.noise_)
        mean = centre + Z[i] @ S @ Z[rest].T @ (ya[rest] - centre) / model.noise_
        losses.append(bench.log_loss_of(mean, Z[i] @ S @ Z[i] + model.noise_, ya[i : i + 1]))
    assert bench.exact(model, A, ya)["loo_ less exact"] == pytest.approx(model.loo_ - np.mean(losses), abs=1e-8)
