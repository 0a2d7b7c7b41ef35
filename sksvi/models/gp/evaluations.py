"""Fast evaluations of a process at other hyperparameters: in closed form, or by the messages of the mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from sksvi._runtime import parallel
from sksvi._runtime.parallel import times_triangle
from sksvi.families import DiagonalGaussian, NotPositiveDefinite
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.integrals.nodes import Nodes, Rule, corners, curvature_by_slopes, design, normal_about, shape_about
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import LOG_2PI, Geometry, factor, inverse_triangle, log_density
from sksvi.models.gp.collapsed import at_best, by_sums, collapsed, summed
from sksvi.models.gp.full_search import LEFT, average_information
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.gp.integrated import (
    CORNERS,
    CURVATURE_ROWS,
    NARROW,
    Explored,
    HyperparameterNodes,
    best_given,
    block_of,
    over_chunks,
    sampled,
    slopes_at,
)
from sksvi.models.gp.kernel_nodes import Pair
from sksvi.models.linear.rows import DenseRows

Array = np.ndarray

#: Numbers of a block of all rows by inducing points beyond which the mode is taken, and, times hyperparameters, beyond
#: which their density is a normal's and the mode predicts, where the bound has a closed form.
MOST_NUMBERS, NORMAL_NUMBERS = 2**23, 2**24
#: Natural steps of q at a node, at most, and the gain that is not worth another, nats.
NODE_STEPS, WORTH = 2, 0.02


class _Sparse(Explored):
    """Evaluations of sparse processes: their rows in terms of the inducing points."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.Z = self.q["inputs"].value * self.model.scale

    def rows_at(self, q: dict[str, Any]) -> Callable[[Array], tuple[Array, Array]]:
        """Rows h (n, M), and variances d (n,) that inducing points leave open, as a function of X."""
        tree = kernels.node(self.kernel_at(q))
        L, _ = factor(tree.value(Pair(self.Z, self.Z, False)), "the kernel matrix of the inducing points")
        inverse = inverse_triangle(L)

        def rows(X: Array) -> tuple[Array, Array]:
            H = times_triangle(tree.value(Pair(X, self.Z, False)), inverse)
            return H, np.maximum(tree.diagonal(X) - np.einsum("ij,ij->i", H, H), 0.0)

        return rows


class ConjugateEvaluations(_Sparse):
    """Gaussian noise: everything has a closed form."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        data = self.data
        # With every row an inducing point, in their order, the process has no more points than rows.
        every_row = self.Z.shape == data.X.shape and np.allclose(self.Z, data.X, rtol=1e-12, atol=0.0)
        self.exact = every_row or self.model.bound == "optimal"

    def integrated(self) -> HyperparameterNodes | None:
        """Nodes; of many rows those of the normal with the curvature at the mode, which predicts alone."""
        mode = self.mode
        if self.exact or self.numbers * len(mode) <= NORMAL_NUMBERS:
            return super().integrated() if self.numbers <= MOST_NUMBERS else None
        low, high = self.ends()
        curvature = cast(Array, self.curvature(low, high))
        density = normal_about(mode, self.log_density(mode), curvature)
        nodes = shape_about(density, mode, curvature, low, high, narrow=NARROW).nodes(self.rule, True).few()
        return HyperparameterNodes(self.whole(nodes), self.whole(Nodes(mode[None], np.ones(1))), [None])

    def parts(self, q: dict[str, Any]) -> tuple[float, Array, Array]:
        """The bound's part of the rows alone, linear and quadratic natural parameter of the best q(v)."""
        noise, data = self.model.current_likelihood(q).noise_variance, self.data
        if by_sums(self.model, q, data):
            value, linear, B, *_ = summed(self.model, q, partial(sum_over, self.model, data))
            return value, linear, np.eye(len(B)) + B / noise
        teacher, rows_of = self.model.teacher, self.rows_at(q)

        def sums(rows: slice) -> tuple[float, Array, Array]:
            part = data.take(rows)
            H, d = rows_of(part.X)
            weight = np.ones(len(d)) if part.weight is None else part.weight
            c = noise + d if teacher == "v1" else np.full(len(d), noise)
            y, W = part.centred, weight / c
            H *= np.sqrt(W)[:, None]
            open_ = W @ d if teacher == "simple" else 0.0
            value = -0.5 * float(weight @ (LOG_2PI + np.log(c)) + W @ np.square(y) + open_)
            return value, H.T @ (np.sqrt(W) * y), H.T @ H

        value, linear, precision = parallel.summed(sums, self.model.chunks(slice(0, len(data)), data), 1)
        precision.flat[:: len(precision) + 1] += 1.0
        return value, linear, precision

    def quick(self, q: dict[str, Any]) -> float:
        """The collapsed bound; where nothing is left open, and of the optimal one, the exact evidence."""
        if not self.exact:
            return at_best(*self.parts(q))[0]
        K = kernels.node(self.kernel_at(q)).value(Pair(self.data.X, self.data.X, False))
        return log_density(K, self.data, self.model.current_likelihood(q).noise_variance)[0]

    def curvature(self, low: Array, high: Array) -> Array | None:
        """By slopes of the bound: of a sample where rows are many, blown up to all of them."""
        if self.exact:
            return None
        model = self.model.replaced(bound=self.model.teacher, learn_kernel=True, learn_inputs=False)
        rows = sampled(self.data, model, CURVATURE_ROWS) if len(self.data) > CURVATURE_ROWS else self.data

        over_rows = partial(sum_over, model, rows)

        def slope(h: Array) -> Array:
            q = self.at(h)
            try:
                if by_sums(model, q, rows):
                    parts = collapsed(model, q, over_rows)[1]
                else:
                    q["inducing"], gram = best_given(model, q, over_rows)
                    parts = slopes_at(model, q, self.expect, gram, over_rows, rows.total_weight)[1]
            except NotPositiveDefinite:
                return np.full(len(h), np.nan)
            return np.concatenate([parts[n] + self.density.of(n, q[n].value)[1] for n in self.names])[self.moves]

        return curvature_by_slopes(slope, self.mode, low, high)

    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """No gain, as `quick` is exact, and the best q(v)."""
        if self.model.bound != "optimal":
            return 0.0, block_of(*self.parts(q)[1:], self.model.full)
        batch = self.model.batch(self.data, slice(0, len(self.data)))
        batch.fill(self.model, Geometry(self.kernel_at(q), self.Z), q)
        A = batch.rows.A
        return 0.0, block_of(A.T @ batch.data.y, np.eye(A.shape[1]) + A.T @ A, self.model.full)


def sum_over(model: Any, data: Any, one: Any, *args: Any) -> Any:
    """Sum of `one` over the chunks of these rows."""
    return over_chunks(one, model, 1, *args, data)


class IterativeEvaluations(_Sparse):
    """Any likelihood: messages about f at the rows, and natural steps."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.model = self.model.replaced(keep=False, by="nothing")
        terms = self._terms(self.q, self.q["inducing"])
        self.messages, self.there = self._messages_of(terms), self._value(terms, self.q["inducing"])
        self.base = self._evidence(self.q)

    def _terms(self, q: dict[str, Any], block: Any) -> Any:
        model = self.model
        batch = model.batch(self.data, slice(0, len(self.data)))
        block.prepare()
        return model.terms({**q, "inducing": block}, batch, self.expect, None)

    def _value(self, terms: Any, block: Any) -> float:
        prior = self.model.prior({"inducing": block})["inducing"]
        return float(terms.value.sum()) - float(block.kl(prior))

    @staticmethod
    def _messages_of(terms: Any) -> tuple[Array, Array]:
        """Messages, without those that open upwards."""
        if terms.gamma.ndim == 3:
            return terms.message()
        gamma = np.minimum(terms.gamma, 0.0)
        return terms.alpha - 2.0 * gamma * terms.linear, gamma

    def _natural(self, H: Array, messages: tuple[Array, Array]) -> tuple[Array, Array]:
        linear, gamma = messages
        lin, quad = self.model._pull(DenseRows.of(H), linear, gamma)
        quad = np.asarray(quad)
        if quad.ndim == 1 or not self.model.full:
            return lin, 1.0 - 2.0 * quad
        return lin, np.eye(len(quad)) - 2.0 * quad

    def _block(self, H: Array, messages: tuple[Array, Array]) -> Any:
        linear, precision = self._natural(H, messages)
        if precision.shape == linear.shape:
            return DiagonalGaussian(linear / precision, precision)
        return block_of(linear, precision, self.model.full)

    def _evidence(self, q: dict[str, Any]) -> float:
        """Log of the integral of the prior times the messages of the mode."""
        H, d = self.rows_at(q)(self.data.X)
        linear, precision = self._natural(H, self.messages)
        gamma = self.messages[1]
        left = float(
            np.sum((gamma if gamma.ndim == 1 else np.einsum("naa->n", gamma) if gamma.ndim == 3 else gamma.sum(1)) * d)
        )
        if precision.shape == linear.shape:
            return 0.5 * float(np.sum(linear**2 / precision - np.log(precision))) + left
        return at_best(left, linear, precision)[0]

    def quick(self, q: dict[str, Any]) -> float:
        """Bound by the messages of the mode; what another likelihood gains is evaluated at the mode's q."""
        value = self.there + self._evidence(q) - self.base
        if "likelihood" not in self.names:
            return value
        there, block = {**self.q, "likelihood": q["likelihood"]}, self.q["inducing"]
        return value + self._value(self._terms(there, block), block) - self.there

    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """Gain and block of the best of a few natural steps from the messages of the mode."""
        H, _ = self.rows_at(q)(self.data.X)

        def step(terms: Any) -> Any:
            return self._block(H, self._messages_of(terms))

        def value(block: Any) -> tuple[float, Any]:
            terms = self._terms(q, block)
            return self._value(terms, block), terms

        best, block = climbed(self._block(H, self.messages), value, step)
        return best - self.quick(q), block


class V2Evaluations(IterativeEvaluations, ConjugateEvaluations):
    """Bound "v2", whose hyperparameters are those of "v1": nodes weigh what that bound does."""

    def quick(self, q: dict[str, Any]) -> float:
        """Bound "v1" at its best q."""
        return ConjugateEvaluations.quick(self, q)

    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """No gain beyond bound "v1", and the q(v) of "v2" after natural steps."""
        return 0.0, IterativeEvaluations.settled(self, q)[1]


class FullEvaluations(Explored):
    """The full process under any likelihood: its messages are about the latents themselves."""

    main = "latents"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        block = self.q["latents"]
        self.messages = block.over(SiteGaussian(block.prior_cov))
        self.there = self._value(block)
        self.base = block.log_evidence()

    def _terms(self, block: Any) -> Any:
        rows = self.model.batch(self.data, slice(0, len(self.data)))
        return self.model.terms({**self.q, "latents": block}, rows, self.expect, None)

    def _value(self, block: Any) -> float:
        return float(self._terms(block).value.sum()) - float(block.kl(SiteGaussian(block.prior_cov)))

    def _under(self, q: dict[str, Any]) -> SiteGaussian:
        return SiteGaussian(kernels.gram(self.kernel_at(q), self.model.X)).times(self.messages)

    @property
    def rule(self) -> Rule:
        """Corners alone where there are few: axes have been looked at for their scales, and an integral costs n³."""
        size = len(self.mode)
        return corners(size) if 1 < size <= CORNERS else design(size)

    def curvature(self, low: Array, high: Array) -> Array:
        """Average information: no further evaluation."""
        return average_information(self.model, self.q)[np.ix_(self.moves, self.moves)]

    def quick(self, q: dict[str, Any]) -> float:
        """Bound by the messages of the mode."""
        return self.there + self._under(q).log_evidence() - self.base

    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """Gain and numbers of the rows of the best of a few natural steps from the messages of the mode: no matrix."""
        latest = self._under(q)
        start = self.there + latest.log_evidence() - self.base

        def value(block: Any) -> tuple[float, Any]:
            nonlocal latest
            latest, terms = block, self._terms(block)
            return float(terms.value.sum()) - float(block.kl(SiteGaussian(block.prior_cov))), terms

        def step(terms: Any) -> Any:
            return latest.replace((terms.alpha, -2.0 * np.minimum(terms.gamma, 0.0)))

        best, block = climbed(latest, value, step)
        return best - start, (block.dual, block.weights)


def climbed(block: Any, value: Callable[[Any], tuple[float, Any]], step: Callable[[Any], Any]) -> tuple[float, Any]:
    """The best bound that a few natural steps find, and its block.

    ``value`` : of a block its bound and terms. ``step`` : the block that terms lead to.
    """
    best: tuple[float, Any] = -np.inf, block
    for _ in range(1 + NODE_STEPS):
        bound, terms = value(block)
        gained = bound - best[0]
        if gained > 0:
            best = bound, block
        if LEFT * gained < WORTH:
            break
        block = step(terms)
    return best


def explored(
    model: Any, q: dict[str, Any], data: Any, expect: Any, density: HyperPrior, frozen: frozenset[str]
) -> Explored | None:
    """The function of its hyperparameters that fits this model; None where rows are so many that the mode is taken."""
    kind: Callable[..., Explored]
    if not hasattr(model, "bound"):
        names, kind = ["kernel"] if model.learned and q["kernel"].value.size else [], FullEvaluations
    else:
        names = ["kernel"] if model.learn_kernel else []
        names += ["likelihood"] if "likelihood" in q and "likelihood" not in frozen else []
        noisy = model.likelihood.noise_variance is not None
        kind = (V2Evaluations if model.bound == "v2" else ConjugateEvaluations) if noisy else IterativeEvaluations
    many = len(data) * np.size(q[model.main].mean) > MOST_NUMBERS and kind is not ConjugateEvaluations
    return None if many else kind(model, q, data, expect, density, names)
