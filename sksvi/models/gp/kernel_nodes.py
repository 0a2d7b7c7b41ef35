"""scikit-learn's kernels as trees of small nodes that can be pulled back through.

A node knows its value between two sets of rows, and turns an adjoint G into the derivative of sum(G * value) in its
free log parameters and in the second set of rows, by matrix products with (n, M) arrays: never one of (n, M, P).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

Array = np.ndarray

#: Squared norm, in length scales, above which the expanded square loses more than 1e-12 and is not used.
FAR = 1e3
#: Squared distance over squared norm below which a distance (not squared) needs the plain difference.
NEAR = 1e-4
#: Step of central differences in a log parameter, or in an input relative to the spread of its column.
STEP = 6e-6

NOTHING = np.empty(0)


class Pair:
    """Rows X (n, D) against rows Z (M, D)."""

    def __init__(self, X: Array, Z: Array, inputs: bool = True) -> None:
        self.X, self.Z, self.inputs = X, Z, inputs
        self.centre = Z.mean(axis=0)  # against cancellation; of Z, so that row blocks of X agree

    @cached_property
    def centred(self) -> tuple[Array, Array]:
        return self.X - self.centre, self.Z - self.centre

    @cached_property
    def design(self) -> Array:
        """[x, x^2, 1] per row."""
        A = self.centred[0]
        return np.column_stack([A, A**2, np.ones(len(A))])

    def squared(self, scale: Any, factor: float = 1.0, shift: float = 0.0, sharp: bool = False) -> Array:
        """shift + factor * squared distance of X / scale and Z / scale, up to rounding of 1e-12.

        `sharp`: exact where rows nearly coincide; for what has no slope there.
        """
        A, B = (rows / scale for rows in self.centred)
        a, b = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B)
        left = np.column_stack([A, a, np.ones(len(A))])
        right = np.column_stack([-2.0 * factor * B, np.full(len(B), factor), factor * b + shift])
        out = left @ right.T
        distant = a > FAR
        if distant.any():
            out[distant] = factor * cdist(A[distant], B, "sqeuclidean") + shift
        if sharp:
            i, j = np.nonzero(out < NEAR * factor * a[:, None])
            out[i, j] = factor * np.sum((A[i] - B[j]) ** 2, axis=1)
        return out

    def moments(self, W: Array, scale: Any) -> tuple[Array, Array | None]:
        """sum_ij W_ij ((x_id - z_jd) / scale)^2 per column d, and sum_i W_ij (x_i - z_j) / scale^2 per row of Z."""
        B = self.centred[1]
        sums = np.dot(W.T, self.design)
        first, second, total = sums[:, : B.shape[1]], sums[:, B.shape[1] : -1], sums[:, -1:]
        spread = np.sum(second - B * (2.0 * first - B * total), axis=0)
        square = np.square(scale)
        return spread / square, (first - B * total) / square if self.inputs else None


class ConstantNode:
    """A constant c, its logarithm free or not."""

    logarithmic = True

    def __init__(self, value: float, free: bool) -> None:
        self.constant, self.free = value, free

    def value(self, pair: Pair) -> Array:
        return np.full((len(pair.X), len(pair.Z)), self.constant)

    def pull_log(self, pair: Pair, W: Array) -> tuple[Array, Array | None]:
        return (np.array([W.sum()]) if self.free else NOTHING), None

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        return self.pull_log(pair, self.constant * G)

    def diagonal(self, X: Array) -> Array:
        return np.full(len(X), self.constant)

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        return np.array([self.constant * g.sum()]) if self.free else NOTHING


class Radial:
    """A positive function of the scaled squared distance s, one at s = 0.

    The functions take t = factor * s and may overwrite it: `value_of` = k, `slope_of` = -2 d log k / d s (None: 1).
    `shape_of(t)`, which leaves t alone, has d log k / d log of other parameters than the length scale.
    `order` names the free parameters as scikit-learn sorts them.
    """

    logarithmic = True

    def __init__(
        self,
        order: list[str],
        scale: Any,
        value_of: Callable[[Array], Array],
        slope_of: Callable[[Array], Array] | None,
        shape_of: Callable[[Array], dict[str, Array]] | None = None,
        factor: float = 1.0,
        sharp: bool = False,
    ) -> None:
        self.order, self.scale, self.factor, self.sharp = order, scale, factor, sharp
        self.value_of, self.slope_of, self.shape_of = value_of, slope_of, shape_of

    def value(self, pair: Pair, log_amplitude: float = 0.0) -> Array:
        if self.slope_of is None:  # exp(-s / 2): an amplitude costs nothing inside the product
            return self.value_of(pair.squared(self.scale, self.factor, log_amplitude))
        K = self.value_of(pair.squared(self.scale, self.factor, sharp=self.sharp))
        return K if log_amplitude == 0.0 else np.multiply(K, np.exp(log_amplitude), out=K)

    def pull_log(self, pair: Pair, W: Array) -> tuple[Array, Array | None]:
        """Derivatives of sum(G * k) in the free log parameters and in the rows of Z, from W = G * k."""
        shapes: dict[str, Array | np.floating] = {}
        if self.slope_of is not None:
            s = pair.squared(self.scale, self.factor, sharp=self.sharp)
            if self.shape_of is not None:
                shapes = {name: np.vdot(W, part) for name, part in self.shape_of(s).items() if name in self.order}
            W = W * self.slope_of(s)
        spread, rows = pair.moments(W, self.scale) if pair.inputs or "length_scale" in self.order else (NOTHING, None)
        if "length_scale" not in shapes:
            shapes["length_scale"] = spread if np.ndim(self.scale) else np.sum(spread)
        return np.hstack([shapes[name] for name in self.order]) if self.order else NOTHING, rows

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        return self.pull_log(pair, G * (self.value(pair) if K is None else K))

    def diagonal(self, X: Array) -> Array:
        return np.ones(len(X))

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        return np.zeros(np.size(self.scale) if self.order == ["length_scale"] else len(self.order))


class LinearNode:
    """Inner product plus sigma_0 squared."""

    logarithmic = False

    def __init__(self, offset: float, free: bool) -> None:
        self.offset, self.free = offset, free

    def value(self, pair: Pair) -> Array:
        return pair.X @ pair.Z.T + self.offset

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        theta = np.array([2.0 * self.offset * G.sum()]) if self.free else NOTHING
        return theta, np.dot(G.T, pair.X) if pair.inputs else None

    def diagonal(self, X: Array) -> Array:
        return np.einsum("ij,ij->i", X, X) + self.offset

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        return np.array([2.0 * self.offset * g.sum()]) if self.free else NOTHING


class Added:
    """Sum of two nodes."""

    logarithmic = False

    def __init__(self, first: Any, second: Any) -> None:
        self.terms = (first, second)

    def value(self, pair: Pair) -> Array:
        out = self.terms[0].value(pair)
        out += self.terms[1].value(pair)
        return out

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        return concatenated([term.pull(pair, G, None) for term in self.terms])

    def diagonal(self, X: Array) -> Array:
        return self.terms[0].diagonal(X) + self.terms[1].diagonal(X)

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        return np.concatenate([term.pull_diagonal(X, g) for term in self.terms])


class Multiplied:
    """Product of nodes; positive ones share G * value, the others get the product of the rest."""

    def __init__(self, factors: list[Any]) -> None:
        self.factors = factors
        self.logarithmic = all(factor.logarithmic for factor in factors)
        constants = [factor.constant for factor in factors if isinstance(factor, ConstantNode)]
        self.log_amplitude = float(np.sum(np.log(constants)))
        self.varying = [factor for factor in factors if not isinstance(factor, ConstantNode)]

    def value(self, pair: Pair) -> Array:
        if not self.varying:
            return np.full((len(pair.X), len(pair.Z)), np.exp(self.log_amplitude))
        first, *others = self.varying
        if isinstance(first, Radial):
            out = first.value(pair, self.log_amplitude)
        else:
            out = first.value(pair)
            out *= np.exp(self.log_amplitude)
        for factor in others:
            out *= factor.value(pair)
        return out

    def pull_log(self, pair: Pair, W: Array) -> tuple[Array, Array | None]:
        return concatenated([factor.pull_log(pair, W) for factor in self.factors])

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        if self.logarithmic:
            return self.pull_log(pair, G * (self.value(pair) if K is None else K))
        values = [factor.value(pair) for factor in self.factors]
        W = G * reduce(np.multiply, values)
        parts = []
        for i, factor in enumerate(self.factors):
            if factor.logarithmic:
                parts.append(factor.pull_log(pair, W))
            else:  # may be zero or negative: the others' product, not a quotient
                rest = reduce(np.multiply, values[:i] + values[i + 1 :], G)
                parts.append(factor.pull(pair, rest, values[i]))
        return concatenated(parts)

    def diagonal(self, X: Array) -> Array:
        return reduce(np.multiply, [factor.diagonal(X) for factor in self.factors])

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        values = [factor.diagonal(X) for factor in self.factors]
        rests = [reduce(np.multiply, values[:i] + values[i + 1 :], g) for i in range(len(values))]
        return np.concatenate([factor.pull_diagonal(X, rest) for factor, rest in zip(self.factors, rests, strict=True)])


class Power:
    """A node to a fixed exponent."""

    def __init__(self, base: Any, exponent: float) -> None:
        self.base, self.exponent = base, exponent
        self.logarithmic = base.logarithmic

    def value(self, pair: Pair) -> Array:
        return self.base.value(pair) ** self.exponent

    def pull_log(self, pair: Pair, W: Array) -> tuple[Array, Array | None]:
        return self.base.pull_log(pair, self.exponent * W)

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        if self.logarithmic:
            return self.pull_log(pair, G * (self.value(pair) if K is None else K))
        base = self.base.value(pair)
        return self.base.pull(pair, G * self.exponent * base ** (self.exponent - 1.0), base)

    def diagonal(self, X: Array) -> Array:
        return self.base.diagonal(X) ** self.exponent

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        return self.base.pull_diagonal(X, g * self.exponent * self.base.diagonal(X) ** (self.exponent - 1.0))


class Opaque:
    """Any other kernel: values from its own call, derivatives by central differences."""

    logarithmic = False

    def __init__(self, kernel: Any, rowwise: bool = False) -> None:
        self.kernel, self.rowwise = kernel, rowwise

    def value(self, pair: Pair) -> Array:
        return np.array(self.kernel(pair.X, pair.Z), dtype=np.float64)

    @cached_property
    def neighbours(self) -> list[tuple[Opaque, Opaque]]:
        """This kernel with one log parameter a step up and a step down, per parameter."""
        theta = self.kernel.theta
        steps = STEP * np.eye(len(theta))
        both = [[self.kernel.clone_with_theta(theta + sign * step) for sign in (1, -1)] for step in steps]
        return [(Opaque(up, self.rowwise), Opaque(down, self.rowwise)) for up, down in both]

    def pull(self, pair: Pair, G: Array, K: Array | None) -> tuple[Array, Array | None]:
        theta = [np.vdot(G, up.value(pair) - down.value(pair)) / (2.0 * STEP) for up, down in self.neighbours]
        return np.array(theta, dtype=np.float64), self._pull_rows(pair, G) if pair.inputs else None

    def _pull_rows(self, pair: Pair, G: Array) -> Array:
        out = np.empty(pair.Z.shape)
        for d, width in enumerate(np.maximum(np.ptp(pair.Z, axis=0), 1e-3 * (1.0 + np.abs(pair.centre)))):
            up, down = pair.Z.copy(), pair.Z.copy()
            up[:, d] += STEP * width
            down[:, d] -= STEP * width
            change = self.value(Pair(pair.X, up)) - self.value(Pair(pair.X, down))
            out[:, d] = np.einsum("ij,ij->j", G, change) / (up[:, d] - down[:, d])
        return out

    def diagonal(self, X: Array) -> Array:
        if not self.rowwise:
            return np.array(self.kernel.diag(X), dtype=np.float64)
        parts = [np.diagonal(self.kernel(X[start : start + 32])) for start in range(0, len(X), 32)]
        return np.concatenate(parts).astype(np.float64)

    def pull_diagonal(self, X: Array, g: Array) -> Array:
        slopes = [g @ (up.diagonal(X) - down.diagonal(X)) / (2.0 * STEP) for up, down in self.neighbours]
        return np.array(slopes, dtype=np.float64)


def concatenated(parts: list[tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
    """Derivatives of several nodes: in their log parameters side by side, in rows added up."""
    rows = [row for _, row in parts if row is not None]
    return np.concatenate([theta for theta, _ in parts]), sum(rows[1:], rows[0]) if rows else None
