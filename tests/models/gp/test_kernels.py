"""Kernels: values against scikit-learn's, contracted gradients against finite differences and its eval_gradient."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from sksvi.models.gp import kernels

D = 3
ARD = np.array([0.7, 1.3, 2.1])


class Bump(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A user's kernel: a Gaussian bump of the Euclidean distance to the fourth power."""

    def __init__(self, width=1.5, width_bounds=(1e-5, 1e5)):
        self.width = width
        self.width_bounds = width_bounds

    @property
    def hyperparameter_width(self):
        return sk.Hyperparameter("width", "numeric", self.width_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        squared = np.sum((X[:, None] - Y[None]) ** 2, axis=2)
        return np.exp(-((squared / self.width**2) ** 2))


class Halved(sk.RBF):
    """A subclass with another value: nothing of its parent may be assumed."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return 0.5 * super().__call__(X, Y)

    def diag(self, X):
        return np.full(len(X), 0.5)


C = sk.ConstantKernel
KERNELS = {
    "default": kernels.scaled_rbf(1.0, np.ones(D)),
    "constant": C(2.5),
    "rbf": sk.RBF(1.2),
    "rbf, length scale in a list": sk.RBF([1.2]),
    "rbf, ard": sk.RBF(ARD),
    "matern 1/2": sk.Matern(1.1, nu=0.5),
    "matern 1/2, ard": sk.Matern(ARD, nu=0.5),
    "matern 3/2": sk.Matern(1.1, nu=1.5),
    "matern 3/2, ard": sk.Matern(ARD, nu=1.5),
    "matern 5/2": sk.Matern(1.1, nu=2.5),
    "matern 5/2, ard": sk.Matern(ARD, nu=2.5),
    "matern inf, ard": sk.Matern(ARD, nu=np.inf),
    "matern 0.8, ard": sk.Matern(ARD, nu=0.8),
    "matern 2.1": sk.Matern(1.1, nu=2.1),
    "rational quadratic": sk.RationalQuadratic(1.3, alpha=0.6),
    "periodic": sk.ExpSineSquared(1.4, periodicity=2.7),
    "linear": sk.DotProduct(0.8),
    "pairwise rbf": sk.PairwiseKernel(gamma=0.4, metric="rbf"),
    "pairwise polynomial": sk.PairwiseKernel(gamma=0.4, metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    "user": Bump(2.0),
    "subclass": Halved(ARD),
    "scaled rbf": C(3.0) * sk.RBF(ARD),
    "scaled matern": C(3.0) * sk.Matern(ARD, nu=1.5),
    "constant last": sk.RBF(1.2) * C(0.3),
    "constants": C(3.0) * C(0.5, "fixed"),
    "sum": sk.RBF(ARD) + C(0.7),
    "nested": C(2.0) * sk.RBF(ARD) * sk.ExpSineSquared(1.4, periodicity=2.7)
    + C(0.5) * sk.DotProduct(0.8) * sk.RBF(2.0),
    "product of sums": (sk.RBF(ARD) + C(0.2)) * (sk.DotProduct(1.0) + sk.Matern(1.1, nu=2.5)) * C(1.7),
    "linear squared": C(0.4) * sk.DotProduct(0.8) ** 2,
    "power of a product": (C(2.0) * sk.Matern(ARD, nu=2.5)) ** 1.5 + sk.RationalQuadratic(0.9, alpha=1.6) ** 2,
    "user in a product": C(2.0) * Bump(2.0) * sk.RBF(ARD) + sk.DotProduct(0.3),
    "fixed constant": C(3.0, "fixed") * sk.RBF(ARD),
    "fixed length scale": C(3.0) * sk.RBF(ARD, "fixed"),
    "all fixed": C(3.0, "fixed") * sk.Matern(ARD, "fixed", nu=0.5),
    "fixed alpha": C(1.5) * sk.RationalQuadratic(1.3, 0.6, alpha_bounds="fixed"),
    "fixed scale, free alpha": sk.RationalQuadratic(1.3, 0.6, length_scale_bounds="fixed"),
    "fixed periodicity": sk.ExpSineSquared(1.4, 2.7, periodicity_bounds="fixed"),
    "fixed sigma": sk.DotProduct(0.8, "fixed") * C(1.2),
    "fixed in a sum": sk.RBF(1.2, "fixed") + C(0.7) * Bump(1.7, "fixed") + sk.Matern(0.6, nu=1.5),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
#: Kernels of users that have no eval_gradient here, and those where scikit-learn's is a difference with step 1e-10.
OWN = ("user", "subclass", "fixed in a sum")
ROUGH = ("pairwise", "matern 0.8", "matern 2.1")


def rows(seed, n=23, M=7, n_features=D):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, n_features)) + 0.5, rng.standard_normal((M, n_features)) + 0.5, rng


def central(function, start, step=1e-5):
    out = np.empty(np.shape(start))
    for index in np.ndindex(out.shape):
        up, down = np.array(start), np.array(start)
        up[index] += step
        down[index] -= step
        out[index] = (function(up) - function(down)) / (2 * step)
    return out


def close(found, wanted, tolerance=1e-7):
    assert found.shape == wanted.shape
    size = 1.0 + np.max(np.abs(wanted), initial=0.0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * size)


@EVERY
def test_values_are_scikit_learns(kernel, global_random_seed):
    X, Z, _ = rows(global_random_seed)
    X[:3] = Z[:3]
    np.testing.assert_allclose(kernels.cross(kernel, X, Z), kernel(X, Z), rtol=2e-12, atol=1e-13)
    np.testing.assert_allclose(kernels.diagonal(kernel, X), kernel.diag(X), rtol=1e-13)
    gram = kernels.cross(kernel, Z, Z)
    np.testing.assert_allclose(gram, kernel(Z), rtol=4e-15)  # far points: an exponent of some size, rounded otherwise
    np.testing.assert_array_equal(gram, gram.T)


@EVERY
@pytest.mark.parametrize("known", [True, False], ids=["K given", "K unknown"])
def test_cross_pullback_against_finite_differences(kernel, known, global_random_seed):
    X, Z, rng = rows(global_random_seed)
    G = rng.standard_normal((len(X), len(Z)))
    before = kernel.get_params()
    theta, moved = kernels.cross_pullback(kernel, X, Z, G, kernel(X, Z) if known else None)
    close(theta, central(lambda t: np.sum(G * kernel.clone_with_theta(t)(X, Z)), kernel.theta))
    close(moved, central(lambda rows: np.sum(G * kernel(X, rows)), Z))
    assert kernel.get_params() == before
    alone, nothing = kernels.cross_pullback(kernel, X, Z, G, inputs=False)
    assert nothing is None
    close(alone, theta, 1e-12)


@pytest.mark.parametrize("name", [name for name in KERNELS if not name.startswith(OWN)])
def test_pullback_against_eval_gradient(name, global_random_seed):
    kernel = KERNELS[name]
    X, _, rng = rows(global_random_seed)
    G = rng.standard_normal((len(X), len(X)))
    gradient = kernel(X, eval_gradient=True)[1]
    wanted = np.einsum("ij,ijp->p", G, gradient)
    close(kernels.cross_pullback(kernel, X, X.copy(), G)[0], wanted, 1e-3 if name.startswith(ROUGH) else 1e-10)


@EVERY
def test_gram_pullback(kernel, global_random_seed):
    _, Z, rng = rows(global_random_seed)
    G = rng.standard_normal((len(Z), len(Z)))  # need not be symmetric
    theta, moved = kernels.gram_pullback(kernel, Z, G)
    close(theta, central(lambda t: np.sum(G * kernel.clone_with_theta(t)(Z)), kernel.theta))
    close(moved, central(lambda rows: np.sum(G * kernel(rows)), Z))


@EVERY
def test_diagonal_pullback(kernel, global_random_seed):
    X, _, rng = rows(global_random_seed)
    g = rng.standard_normal(len(X))
    found = kernels.diagonal_pullback(kernel, X, g)
    close(found, central(lambda t: g @ kernel.clone_with_theta(t).diag(X), kernel.theta))


@pytest.mark.parametrize("name", ["rbf, ard", "matern 1/2, ard", "matern 3/2, ard", "rational quadratic", "periodic"])
@pytest.mark.parametrize("shift", [0.0, 1e3], ids=["near the origin", "far from it"])
def test_hard_distances(name, shift, global_random_seed):
    """Equal rows, nearly equal rows, an outlier of 1e4 length scales, and a common offset."""
    kernel = KERNELS[name]
    X, Z, rng = rows(global_random_seed)
    X[:5] = Z[:5]
    X[5:10] = Z[:5] + 1e-7 * rng.standard_normal((5, D))
    X[10] = Z[6] = 1e4
    X[11] = Z[6] + 0.5
    X, Z = X + shift, Z + shift
    # a sine of 1e4 periods has lost four digits in either computation
    tolerance = 2e-10 if name == "periodic" else 2e-12
    np.testing.assert_allclose(kernels.cross(kernel, X, Z), kernel(X, Z), rtol=tolerance * (1.0 + shift), atol=1e-14)


@pytest.mark.parametrize("name", ["matern 1/2, ard", "matern 0.8, ard", "matern 3/2, ard", "periodic"])
def test_equal_rows_pull_nothing(name, global_random_seed):
    """At distance zero the derivative is zero (or is taken so, at a kink), never nan."""
    _, Z, _ = rows(global_random_seed)
    theta, moved = kernels.cross_pullback(KERNELS[name], Z, Z, np.eye(len(Z)))
    np.testing.assert_allclose(theta, 0.0, atol=1e-12)
    np.testing.assert_allclose(moved, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["nested", "user in a product"])
def test_row_blocks_add_up(name, monkeypatch, global_random_seed):
    kernel = KERNELS[name]
    X, Z, rng = rows(global_random_seed, n=200)
    G = rng.standard_normal((len(X), len(Z)))
    value, (theta, moved) = kernels.cross(kernel, X, Z), kernels.cross_pullback(kernel, X, Z, G)
    monkeypatch.setattr(kernels, "CHUNK_NUMBERS", 1)
    np.testing.assert_allclose(kernels.cross(kernel, X, Z), value, rtol=1e-12)
    theta_blocks, moved_blocks = kernels.cross_pullback(kernel, X, Z, G)
    close(theta_blocks, theta, 1e-9)
    close(moved_blocks, moved, 1e-9)


def test_one_feature(global_random_seed):
    X, Z, rng = rows(global_random_seed, n_features=1)
    kernel = kernels.checked(kernels.scaled_rbf(1.0, np.ones(1)), 1)
    G = rng.standard_normal((len(X), len(Z)))
    theta, moved = kernels.cross_pullback(kernel, X, Z, G)
    close(theta, central(lambda t: np.sum(G * kernel.clone_with_theta(t)(X, Z)), kernel.theta))
    close(moved, central(lambda rows: np.sum(G * kernel(X, rows)), Z))


@EVERY
def test_checked_clones(kernel):
    found = kernels.checked(kernel, D)
    assert found == clone(kernel)
    assert found is not kernel


class Strings(sk.GenericKernelMixin, sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A kernel on other objects than rows."""

    def __call__(self, X, Y=None, eval_gradient=False):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        ("rbf", TypeError, "kernel must be a kernel .* found str"),
        (sk.RBF, TypeError, "Pass an instance"),
        (sk.RBF() + sk.WhiteKernel(), ValueError, "noise_variance"),
        (C(1.0) * (sk.RBF() * sk.WhiteKernel()) ** 2, ValueError, "noise_variance"),
        (sk.RBF([1.0, 2.0]), ValueError, "RBF has 2 length scales.* each of the 3 features"),
        (C(1.0) * sk.Matern([1.0, 2.0]), ValueError, "Matern has 2 length scales"),
        (sk.RationalQuadratic([1.0, 2.0, 3.0]), ValueError, "RationalQuadratic has 3 .* one number\\."),
        (C(1.0) + Strings(), ValueError, "rows of numbers"),
        (sk.CompoundKernel([sk.RBF(), sk.RBF(2.0)]), ValueError, "CompoundKernel"),
        (sk.RBF(0.0), ValueError, "not positive and finite"),
        (C(np.nan) * sk.RBF(), ValueError, "not positive and finite"),
    ],
)
def test_what_is_refused(kernel, error, words):
    with pytest.raises(error, match=words):
        kernels.checked(kernel, D)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_gram_matrix_by_its_lower_half_is_symmetric_and_has_the_values_of_the_kernel(name, monkeypatch):
    monkeypatch.setattr(kernels, "CHUNK_NUMBERS", 64)
    X, kernel = np.random.default_rng(3).normal(size=(150, D)), KERNELS[name]
    gram = kernels.gram(kernel, X)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, kernel(X), rtol=0.0, atol=1e-11 * np.max(kernel.diag(X)))
