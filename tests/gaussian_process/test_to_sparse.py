"""A sparse process in the place of a full one: as near as it says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from sksvi import GPClassifier, SparseGPClassifier
from sksvi.gaussian_process._sparsened import between
from sksvi.models.gp import kernels


def fitted(seed, n=60, **options):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(n) > 0, "yes", "no")
    model = GPClassifier(kernel=4.0 * RBF(1.0), optimize_hyperparameters=False, tol=1e-8)
    return model.fit(pd.DataFrame(X, columns=["a", "b"]), y, **options)


def test_points_beside_every_row_give_the_process_itself(global_random_seed):
    """The limit: with points between nearly all rows nothing is lost, offsets and weights included."""
    rng = np.random.default_rng(global_random_seed)
    options = {"offset": rng.standard_normal(60), "sample_weight": rng.integers(1, 4, 60)}
    model = fitted(global_random_seed, **options)
    sparse = model.to_sparse(57, random_state=0)
    new = pd.DataFrame(rng.uniform(-2, 2, (30, 2)), columns=["a", "b"])
    for found, wanted in zip(sparse.predict_latent(new, offset=0), model.predict_latent(new, offset=0), strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.02)
    np.testing.assert_allclose(sparse.predict_proba(new, offset=0), model.predict_proba(new, offset=0), atol=2e-3)
    assert 0 <= model.lower_bound_ - sparse.lower_bound_ < 0.01
    assert sparse.predict(new, offset=0).tolist() == model.predict(new, offset=0).tolist()
    assert sparse.feature_names_in_.tolist() == ["a", "b"] and sparse.kernel_ == model.kernel_


def test_what_was_lost_is_the_divergence_of_the_two(global_random_seed):
    """KL(q_s ‖ q) = KL(q_s(u) ‖ p(u)) - E Σ log t_i(f_i) + log ∫ p Π t_i, from predictions and dense matrices."""
    model = fitted(global_random_seed)
    sparse = model.to_sparse(6, random_state=0)
    X, Z, kernel, q = model.X_train_, sparse.inducing_points_, model.kernel_, sparse.posterior_["inducing"]
    message = model.posterior_["latents"].block
    W, linear = message.weights, message.dual + message.weights * message.mean
    prior = kernels.cross(kernel, Z, Z)
    of_points = np.sum(np.linalg.solve(prior, q.cov + np.outer(q.mean, q.mean)) * np.eye(6)) - 6
    of_points += np.linalg.slogdet(prior)[1] - np.linalg.slogdet(q.cov)[1]
    m, v = sparse.predict_latent(pd.DataFrame(X, columns=["a", "b"]))
    expected = linear @ m - 0.5 * W @ (m**2 + v)
    B = np.eye(len(X)) + np.sqrt(W)[:, None] * kernels.cross(kernel, X, X) * np.sqrt(W)
    evidence = 0.5 * (linear @ message.mean - np.linalg.slogdet(B)[1])
    kl = 0.5 * of_points - expected + evidence
    assert kl > 0.01  # six points do lose something
    np.testing.assert_allclose(model.lower_bound_ - sparse.lower_bound_, kl, rtol=1e-4, atol=1e-4)


def test_it_loses_about_what_a_fit_to_the_data_would(global_random_seed):
    """Not more than a tenth of a nat more: it knows messages, and no labels."""
    model = fitted(global_random_seed)
    X = pd.DataFrame(model.X_train_, columns=["a", "b"])
    y = model.predict(X)
    again = GPClassifier(kernel=model.kernel_, optimize_hyperparameters=False).fit(X, y)
    sparse = again.to_sparse(12, random_state=0)
    told = SparseGPClassifier(kernel=model.kernel_, optimize_hyperparameters=False, n_inducing=12, random_state=0)
    assert sparse.lower_bound_ > told.fit(X, y).lower_bound_ - 0.1


def test_points_lie_between_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for rows in (rng.standard_normal((40, 2)), rng.permutation(np.mgrid[:6, :6].reshape(2, -1).T).astype(float)):
        for m in (1, 10, len(rows) - 1):
            points = between(rows, m, 0)
            assert points.shape == (m, 2)
            assert not np.any(np.all(points[:, None] == rows, axis=2))


def test_what_makes_no_sense_is_refused():
    model = fitted(0, n=12)
    for wrong, match in ((12, "n_inducing=12 must be below .* which is 12"), (0, "n_inducing"), (2.5, "n_inducing")):
        with pytest.raises(ValueError, match=match):
            model.to_sparse(wrong)
    with pytest.raises(NotFittedError):
        GPClassifier().to_sparse()
    assert len(model.to_sparse(random_state=0).inducing_points_) == 6
    a, b = (model.to_sparse(4, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(a.inducing_points_, b.inducing_points_)
