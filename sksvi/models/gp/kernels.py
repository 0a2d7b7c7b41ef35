"""scikit-learn's kernels with what sparse Gaussian processes need besides: gradients of cross-covariances.

Everything takes an adjoint and returns the contracted derivative, so memory stays at a few (rows, M) blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaln, kve
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from sksvi._runtime.parallel import slices
from sksvi.models.gp.kernel_nodes import Added, ConstantNode, LinearNode, Multiplied, Opaque, Pair, Power, Radial

Array = np.ndarray

#: Numbers of an (n, M) block that is worked on at once: stays in the second-level cache.
CHUNK_NUMBERS = 2**17
#: Rows about which `lengths` looks.
MOST_ROWS = 64
#: Say that they need no rows of numbers (as a constant does not), and accept them.
OF_ANYTHING = (sk.ConstantKernel, sk.KernelOperator, sk.Exponentiation)


def scaled_rbf(variance: float, scale: Array) -> Any:
    """An RBF of this variance and length scale (one, or one per feature); both may move far to either side."""
    box = np.stack([1e-3 * scale, 1e3 * scale], axis=1)
    one = len(scale) == 1
    return sk.ConstantKernel(variance, (1e-5 * variance, 1e5 * variance)) * sk.RBF(
        float(scale[0]) if one else scale, tuple(box[0].tolist()) if one else box
    )


def about_constant(kernel: Any, constant: float) -> Any:
    """The kernel of what varies and of a constant part of f, about as large as this one."""
    return kernel + sk.ConstantKernel(1.0 + constant**2, "fixed")


def varying_part(kernel: Any) -> Any:
    """What `about_constant` added a constant to, or the kernel itself."""
    return kernel.k1 if isinstance(kernel, sk.Sum) else kernel


def checked(kernel: Any, n_features: int) -> Any:
    """A clone of the user's kernel, or an error that says what is wrong with it."""
    if not isinstance(kernel, sk.Kernel):
        raise TypeError(
            f"kernel must be a kernel of sklearn.gaussian_process.kernels or None; found {type(kernel).__name__}. "
            "Pass an instance such as ConstantKernel(1.0) * RBF(1.0)."
        )
    for part in _parts(kernel):
        if isinstance(part, sk.WhiteKernel):
            raise ValueError(
                f"kernel must not contain WhiteKernel; found {kernel!r}. "
                "The noise is the parameter noise_variance (learned by default): leave WhiteKernel out."
            )
        if isinstance(part, sk.CompoundKernel):
            raise ValueError(
                f"kernel must be one kernel; found {kernel!r}, several in a CompoundKernel. Use their sum or product."
            )
        if not part.requires_vector_input and not isinstance(part, OF_ANYTHING):
            raise ValueError(
                f"kernel must work on rows of numbers; {type(part).__name__} is for other objects "
                "(requires_vector_input is False). Choose a kernel on vectors."
            )
        _check_length_scale(part, n_features)
    with np.errstate(divide="ignore", invalid="ignore"):
        finite = np.all(np.isfinite(kernel.theta))
    if not finite:
        raise ValueError(f"kernel has a parameter that is not positive and finite: {kernel!r}. Give positive values.")
    return clone(kernel)


def _check_length_scale(part: Any, n_features: int) -> None:
    if not isinstance(part, sk.RBF | sk.RationalQuadratic | sk.ExpSineSquared):
        return
    size, name = np.size(part.length_scale), type(part).__name__
    if size == 1 or (size == n_features and isinstance(part, sk.RBF)):
        return
    more = f", or one for each of the {n_features} features" if isinstance(part, sk.RBF) else ""
    raise ValueError(f"kernel {name} has {size} length scales. Give length_scale one number{more}.")


def _parts(kernel: Any) -> Iterator[Any]:
    """The kernel and every kernel inside it."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, sk.Kernel):
                yield from _parts(part)


# ---------------------------------------------------------------- values and derivatives


def cross(kernel: Any, X: Array, Z: Array) -> Array:
    """k(X, Z), (n, M); exactly symmetric when Z is X."""
    if X is Z:
        gram = np.asarray(kernel(X), dtype=np.float64)
        return 0.5 * (gram + gram.T)
    tree, out = node(kernel), np.empty((len(X), len(Z)))
    for rows in _slices(out.shape):
        out[rows] = tree.value(Pair(X[rows], Z))
    return out


def gram(kernel: Any, X: Array) -> Array:
    """k(X, X) by its lower half, exactly symmetric: faster than `cross`, and exact to 1e-12 of the diagonal."""
    tree, n = node(kernel), len(X)
    out = np.empty((n, n))
    for rows in _slices(out.shape):
        out[rows, : rows.stop] = tree.value(Pair(X[rows], X[: rows.stop]))
        out[: rows.stop, rows] = out[rows, : rows.stop].T
        corner = np.tril(out[rows, rows], -1)
        out[rows, rows] = corner + corner.T
    out.flat[:: n + 1] = tree.diagonal(X)
    return out


def diagonal(kernel: Any, X: Array) -> Array:
    """k(x_i, x_i), (n,)."""
    return node(kernel).diagonal(X)


def lengths(kernel: Any, Z: Array, step: Array) -> Array:
    """How far a row goes in each column until f has changed by its own standard deviation, (D,), by small steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sksvi.models.gp.kernels import lengths
    >>> lengths(RBF([0.5, 8.0]), np.zeros((1, 2)), np.full(2, 0.01)).round(3)
    array([0.5, 8. ])
    """
    tree, rows = node(kernel), Z[:MOST_ROWS]
    variance, moved = tree.diagonal(rows), [rows + own for own in np.diag(step)]
    both = [2.0 * np.diagonal(tree.value(Pair(rows, to))) for to in moved]
    changes = [np.mean(variance + tree.diagonal(to) - twice) for to, twice in zip(moved, both, strict=True)]
    return step * np.sqrt(np.mean(variance) / np.maximum(changes, np.finfo(float).eps * np.mean(variance)))


def cross_pullback(
    kernel: Any, X: Array, Z: Array, G: Array, K: Array | None = None, inputs: bool = True
) -> tuple[Array, Array | None]:
    """Derivative of sum(G * k(X, Z)) in ``kernel.theta`` and in Z.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X : ndarray of shape (n, D)
    Z : ndarray of shape (M, D)
    G : ndarray of shape (n, M)
        The adjoint.
    K : ndarray of shape (n, M), default=None
        k(X, Z) where it is known; saves its recomputation.
    inputs : bool, default=True
        Whether the derivative in Z is wanted.

    Returns
    -------
    theta : ndarray of shape (P,)
        In scikit-learn's log parameters, fixed ones left out, in its order.
    rows : ndarray of shape (M, D), or None without `inputs`
    """
    tree = node(kernel)
    theta, rows = 0.0, np.zeros(Z.shape) if inputs else None
    for part in _slices(G.shape):
        pulled, moved = tree.pull(Pair(X[part], Z, inputs), G[part], None if K is None else K[part])
        theta = theta + pulled
        if rows is not None and moved is not None:
            rows += moved
    return np.asarray(theta), rows


def gram_pullback(
    kernel: Any, Z: Array, G: Array, K: Array | None = None, inputs: bool = True
) -> tuple[Array, Array | None]:
    """Derivative of sum(G * k(Z, Z)) in ``kernel.theta`` and in Z, which is on both sides."""
    theta, rows = cross_pullback(kernel, Z, Z, G + G.T, K, inputs)
    return 0.5 * theta, rows


def diagonal_pullback(kernel: Any, X: Array, g: Array) -> Array:
    """Derivative of sum_i g_i k(x_i, x_i) in ``kernel.theta``."""
    return node(kernel).pull_diagonal(X, g)


def _slices(shape: tuple[int, ...]) -> list[slice]:
    return slices(shape[0], max(64, CHUNK_NUMBERS // max(shape[1], 1)))


# ---------------------------------------------------------------- from a kernel to its tree


def node(kernel: Any) -> Any:
    """The tree of a kernel; subclasses are opaque, as they may have changed anything."""
    return NODES.get(type(kernel), Opaque)(kernel)


def _product(kernel: Any) -> Any:
    factors = []
    for part in (node(kernel.k1), node(kernel.k2)):
        factors += part.factors if isinstance(part, Multiplied) else [part]
    return Multiplied(factors)


def _free(kernel: Any, *names: str) -> list[str]:
    return [name for name in names if not getattr(kernel, f"hyperparameter_{name}").fixed]


def _scale(kernel: Any) -> Any:
    """One number, or an array where the kernel has a parameter per feature."""
    scale = np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64))
    return scale if scale.ndim else float(scale)


def _constant(kernel: Any) -> ConstantNode:
    return ConstantNode(float(kernel.constant_value), bool(_free(kernel, "constant_value")))


def _linear(kernel: Any) -> LinearNode:
    return LinearNode(float(kernel.sigma_0) ** 2, bool(_free(kernel, "sigma_0")))


def _exp(s: Array) -> Array:
    return np.exp(s, out=s)


def _rbf(kernel: Any) -> Radial:
    return Radial(_free(kernel, "length_scale"), _scale(kernel), _exp, None, factor=-0.5)


def _matern(kernel: Any) -> Radial:
    nu = float(kernel.nu)
    if nu == math.inf:
        return _rbf(kernel)
    value, slope = {0.5: _exponential, 1.5: _matern_3_2, 2.5: _matern_5_2}.get(nu, lambda: _matern_any(nu))()
    # below 1 the slope at distance zero is infinite, so near pairs count
    return Radial(_free(kernel, "length_scale"), _scale(kernel), value, slope, factor=2.0 * nu, sharp=nu <= 1.0)


def _root(s: Array) -> Array:
    """t = sqrt(2 nu) * distance."""
    return np.sqrt(np.maximum(s, 0.0, out=s), out=s)


def _exponential() -> tuple[Any, Any]:
    def value(s: Array) -> Array:
        return _exp(np.negative(_root(s), out=s))

    def slope(s: Array) -> Array:
        t = _root(s)
        return np.divide(1.0, t, out=np.zeros_like(t), where=t > 0)

    return value, slope


def _matern_3_2() -> tuple[Any, Any]:
    def value(s: Array) -> Array:
        t = _root(s)
        return (1.0 + t) * np.exp(-t)

    return value, lambda s: 3.0 / (1.0 + _root(s))


def _matern_5_2() -> tuple[Any, Any]:
    def value(s: Array) -> Array:
        t = _root(s)
        return (1.0 + t + t**2 / 3.0) * np.exp(-t)

    def slope(s: Array) -> Array:
        t = _root(s)
        return (5.0 / 3.0) * (1.0 + t) / (1.0 + t + t**2 / 3.0)

    return value, slope


def _matern_any(nu: float) -> tuple[Any, Any]:
    def value(s: Array) -> Array:
        t = np.maximum(_root(s), 1e-15)
        log_factor = (1.0 - nu) * math.log(2.0) - gammaln(nu)
        return np.exp(log_factor + nu * np.log(t) - t) * kve(nu, t)

    def slope(s: Array) -> Array:
        t = np.maximum(_root(s), 1e-15)
        ratio = 2.0 * nu * kve(nu - 1.0, t) / (t * kve(nu, t))
        return np.where(t > 1e-15, ratio, 0.0)  # meets (x - z)^2 = 0 there

    return value, slope


def _rational_quadratic(kernel: Any) -> Radial:
    alpha = float(kernel.alpha)

    def shape(s: Array) -> dict[str, Array]:
        return {"alpha": alpha * (s / (1.0 + s) - np.log1p(s))}

    return Radial(
        _free(kernel, "alpha", "length_scale"),
        _scale(kernel),
        lambda s: _exp(np.multiply(-alpha, np.log1p(np.maximum(s, 0.0, out=s), out=s), out=s)),
        lambda s: 1.0 / (1.0 + s),
        shape,
        factor=0.5 / alpha,
    )


def _exp_sine_squared(kernel: Any) -> Radial:
    period, scale = float(kernel.periodicity), float(kernel.length_scale)

    def value(s: Array) -> Array:
        angle = np.sin(np.pi / period * _root(s))
        return np.exp(-2.0 * (angle / scale) ** 2)

    def slope(s: Array) -> Array:
        angle = np.pi / period * _root(s)
        return (2.0 * np.pi / (period * scale)) ** 2 * np.cos(angle) * np.sinc(angle / np.pi)

    def shape(s: Array) -> dict[str, Array]:
        angle = np.pi / period * np.sqrt(np.maximum(s, 0.0))
        sine = np.sin(angle)
        return {"length_scale": 4.0 / scale**2 * sine**2, "periodicity": 4.0 / scale**2 * angle * np.cos(angle) * sine}

    return Radial(_free(kernel, "length_scale", "periodicity"), 1.0, value, slope, shape)


NODES: dict[type, Any] = {
    sk.Sum: lambda kernel: Added(node(kernel.k1), node(kernel.k2)),
    sk.Product: _product,
    sk.Exponentiation: lambda kernel: Power(node(kernel.kernel), float(kernel.exponent)),
    sk.ConstantKernel: _constant,
    sk.DotProduct: _linear,
    sk.RBF: _rbf,
    sk.Matern: _matern,
    sk.RationalQuadratic: _rational_quadratic,
    sk.ExpSineSquared: _exp_sine_squared,
    sk.PairwiseKernel: lambda kernel: Opaque(kernel, rowwise=True),
}
