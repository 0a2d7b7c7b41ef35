"""The algorithms beside CVI end where an independent solver does; batches of a full GP are followed pass by pass."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from benchmarks._lib.exact import optimum
from benchmarks.glm._peers import Task, by_cholesky, proximal, regression
from benchmarks.gp import batches
from benchmarks.nmf import table5


@pytest.fixture
def task(global_random_seed: int) -> Task:
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.standard_normal((120, 3)), np.ones(120)])
    y = (rng.random(120) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5, 0.0, 0.3]))).astype(float)
    precision = np.array([1.0, 1.0, 1.0, 1e-2])
    return Task(X, y, precision, optimum(X, y, precision)[0], 1e-2)


def test_exact_peers_end_at_the_optimum(task: Task) -> None:
    for run in (by_cholesky(task, 500), proximal(task, 0.5, 500), proximal(task, 0.25, 500)):
        assert abs(run.bound - task.best) < 1e-6 * abs(task.best)
        assert run.bound == pytest.approx(task.look(run.m, run.S)[0], abs=1e-8)
        assert run.reached is not None and run.reached <= run.iterations and run.seconds is not None


@pytest.mark.costly
@pytest.mark.parametrize("factorized", [False, True])
def test_regression_on_draws_ends_close_to_the_optimum(task: Task, factorized: bool, global_random_seed: int) -> None:
    """A loss of 0.1 nats is that of a mean a fifth of a standard deviation off in each of four coordinates."""
    run = regression(task, 400, factorized, global_random_seed)
    assert -1e-6 < task.best - run.bound < 0.1
    more = regression(task, 6400, factorized, global_random_seed)
    assert task.best - more.bound < 0.02


def test_a_path_ends_where_the_bound_is_close(global_random_seed: int) -> None:
    from sksvi.likelihoods import Bernoulli
    from sksvi.models.data import Table
    from sksvi.models.gp.full import FullGP

    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((40, 2))
    data = Table(X, (rng.random(40) < 0.5 + 0.4 * np.sign(X[:, 0])).astype(float))
    model = FullGP(Bernoulli(), RBF(1.0), X, learned=False)
    best = batches.path(model, data, None, None, 100, tol=1e-12)[-1][0]
    for size in (None, 7):
        found = batches.path(model, data, None, size, 100, best)
        assert best - found[-1][0] < batches.CLOSE <= best - found[-2][0]
        assert np.all(np.diff([seconds for _, seconds in found]) >= 0)


def test_quick_gamma_factorization_prints_both_methods(capsys: pytest.CaptureFixture[str]) -> None:
    table5.main(quick=True)
    printed = capsys.readouterr().out
    assert "CVI, rate" in printed and "Adam, rate" in printed
