"""The search for a full process's kernel: its curvature, where it ends, and its start on a part of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import GPClassifier
from sksvi.algorithms import FixedPoint
from sksvi.callbacks import Checkpoint
from sksvi.inference.records import replace
from sksvi.models.gp import kernels
from sksvi.models.gp.full import FullGP
from sksvi.models.gp.full_search import KernelSearch, average_information
from sksvi.persistence import load

KERNEL = ConstantKernel(1.0) * RBF(1.0)


def labels(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * np.sin(2.0 * X[:, 0]) - X[:, 1]))).astype(int)


def test_average_information_is_half_of_a_quadratic_form(global_random_seed):
    """½ aᵀ K_i A K_j a by dense matrices, A = (K + W⁻¹)⁻¹ and K_i by central differences."""
    X, y = labels(30, global_random_seed)
    fit = GPClassifier(kernel=KERNEL, hyperparameters="point").fit(X, y)
    q, model = fit.state_.q, FullGP(fit.likelihood_, fit.kernel_, fit.X_train_)
    theta, block = fit.kernel_.theta, q["latents"]
    moved = [
        (
            kernels.gram(fit.kernel_.clone_with_theta(theta + unit), model.X)
            - kernels.gram(fit.kernel_.clone_with_theta(theta - unit), model.X)
        )
        @ block.dual
        / 2e-5
        for unit in 1e-5 * np.eye(2)
    ]
    A = np.linalg.inv(block.prior_cov + np.diag(1.0 / block.weights))
    expected = 0.5 * np.array([[a @ A @ b for b in moved] for a in moved])
    np.testing.assert_allclose(average_information(model, q), expected, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("start", [KERNEL, ConstantKernel(1e-2) * RBF(20.0), ConstantKernel(50.0) * RBF(0.3)], ids=str)
def test_searches_end_at_a_maximum(start, global_random_seed):
    """The bound falls to all sides of it; there may be several (seed 4: two, half a nat apart)."""
    X, y = labels(150, global_random_seed)
    point = {"hyperparameters": "point", "tol": 1e-6}
    found = GPClassifier(kernel=start, **point).fit(X, y)
    model = FullGP(found.likelihood_, found.kernel_, found.X_train_)
    assert np.abs(model.evidence_gradient(found.state_.q)).max() < 5e-2
    for angle in np.arange(8) * np.pi / 4:
        beside = found.kernel_.clone_with_theta(found.kernel_.theta + 0.3 * np.array([np.cos(angle), np.sin(angle)]))
        there = GPClassifier(kernel=beside, optimize_hyperparameters=False, **point).fit(X, y)
        assert there.lower_bound_ < found.lower_bound_ - 5e-2


def test_a_start_on_a_part_of_the_rows_saves_passes(monkeypatch, global_random_seed):
    """Over a few sets: of one alone the whole may be lucky."""
    passes = []
    for X, y in (labels(400, [global_random_seed, number]) for number in range(3)):
        found = GPClassifier().fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr("sksvi.gaussian_process._part.MANY", 401)
            whole = GPClassifier().fit(X, y)
        assert found.lower_bounds_[-1] == pytest.approx(whole.lower_bounds_[-1], abs=5e-2)
        np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), atol=2e-2)
        passes.append((found.n_iter_, whole.n_iter_))
    assert np.max(passes) <= 30
    assert np.less(*np.sum(passes, axis=0))


def cut_off(path, after, X, y, **options):
    """The file of a fit that is interrupted after a pass."""

    class Interrupted(Checkpoint):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            super().on_fit_task_end(estimator, context, fitted_estimator=fitted_estimator)
            if context.task_name == "pass" and context.task_id + 1 == after:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GPClassifier(**options).set_callbacks(Interrupted(path, every=after)).fit(X, y)
    return load(path).set_params(warm_start=True)


@pytest.mark.costly
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": ConstantKernel(1e-3, (1e-2, 1e3)) * RBF([40.0, 0.01]), "hyperparameters": "point", "tol": 1e-8},
        {"algorithm": FixedPoint(order="batch"), "hyperparameters": "point"},
    ],
    ids=["usual", "begun out of bounds", "covariance settled first"],
)
def test_a_search_that_was_cut_off_goes_on_from_its_last_step(options, tmp_path, monkeypatch, global_random_seed):
    """To the same bits, and no step is made twice."""
    X, y = labels(120, global_random_seed)
    steps, valued = [], KernelSearch.valued
    monkeypatch.setattr(KernelSearch, "valued", lambda self, q: (steps.append(1), valued(self, q))[1])
    whole = GPClassifier(**options).fit(X, y)
    n_steps, bounds = len(steps), whole.lower_bounds_
    for after in range(2, whole.n_iter_, 1 + whole.n_iter_ // 6):
        cut = cut_off(tmp_path / "fit.sksvi", after, X, y, **options)
        assert cut.n_iter_ == after and cut.lower_bound_ == cut.state_.progress.here.bound == bounds[after - 1]
        steps.clear()
        cut.fit(X, y)
        assert len(steps) <= n_steps - (after - 1)
        np.testing.assert_array_equal(cut.predict_proba(X), whole.predict_proba(X))
        np.testing.assert_array_equal(cut.lower_bounds_, bounds)
        assert cut.lower_bound_ == whole.lower_bound_ and cut.n_iter_ == whole.n_iter_


@pytest.mark.parametrize(
    "changes",
    [
        {"tol": 1e-7},
        {"kernel": ConstantKernel(1.0, (0.5, 20.0)) * RBF(1.0, (0.5, 20.0))},
        {"optimize_hyperparameters": False},
        {"batch_size": 40},
    ],
    ids=str,
)
def test_a_search_goes_on_on_other_terms(changes, tmp_path, global_random_seed):
    """What was found on others is left where it no longer leads."""
    X, y = labels(120, global_random_seed)
    options = {"kernel": KERNEL, "hyperparameters": "point", "tol": 1e-6, "random_state": 0}
    cut = cut_off(tmp_path / "fit.sksvi", 9, X, y, **options)
    kernel = cut.kernel_
    cut.set_params(**changes).fit(X, y)
    fixed = {"kernel": kernel} if "optimize_hyperparameters" in changes else {}
    anew = GPClassifier(**{**options, **changes, **fixed}).fit(X, y)
    assert cut.converged_ and cut.lower_bound_ == pytest.approx(anew.lower_bound_, abs=2e-2)


def test_labels_that_changed_begin_the_search_anew(tmp_path, global_random_seed):
    X, y = labels(120, global_random_seed)
    other = np.where(np.arange(120) < 100, 1 - y, y)
    options = {"kernel": KERNEL, "hyperparameters": "point", "tol": 1e-6}
    found = cut_off(tmp_path / "fit.sksvi", 9, X, y, **options).fit(X, other)
    anew = GPClassifier(**options).fit(X, other)
    assert found.converged_ and found.lower_bound_ == pytest.approx(anew.lower_bound_, abs=2e-2)


@pytest.mark.parametrize("n", [100, 160])
def test_a_search_that_was_cut_off_goes_on_with_other_rows(n, tmp_path, global_random_seed):
    """From the kernel that it had reached."""
    X, y = labels(160, global_random_seed)
    options = {"kernel": KERNEL, "hyperparameters": "point", "tol": 1e-6}
    found = cut_off(tmp_path / "fit.sksvi", 9, X[:120], y[:120], **options).fit(X[:n], y[:n])
    anew = GPClassifier(**options).fit(X[:n], y[:n])
    assert found.converged_ and found.lower_bound_ == pytest.approx(anew.lower_bound_, abs=2e-2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda record: {"left": record["left"]},
        lambda record: {**record, "rate": "1"},
        lambda record: {**record, "before": float("nan")},
        lambda record: {**record, "found": ((np.zeros(9), None), *record["found"])},
        lambda record: {**record, "settled": record["settled"][:2]},
        lambda record: {**record, "here": (record["here"][0], record["here"][1][:5], *record["here"][2:])},
        lambda record: {**record, "here": (*record["here"][:2], -record["here"][2], *record["here"][3:])},
    ],
)
def test_a_file_whose_search_is_none_is_refused(wrong, tmp_path):
    X, y = labels(60, 0)
    cut = cut_off(tmp_path / "fit.sksvi", 6, X, y, hyperparameters="point")
    progress = cut.state_.progress
    cut.state_.progress = replace(progress, under_way=wrong(progress.under_way))
    with pytest.raises(ValueError, match="under_way"):
        cut.save(tmp_path / "wrong.sksvi")
        load(tmp_path / "wrong.sksvi")
