"""The posterior of a process's hyperparameters: nodes about the mode of bound + log prior, and q at each of them.

With Gaussian noise the best q has a closed form at every node. Else what the data said at the mode, a Gaussian message
about each latent, is kept while curvature and scales are looked for: the integral of the prior at a node times these
messages has a closed form. At the nodes themselves q takes a few natural steps from there, and a node weighs what its
bound does.

The mode is found by L-BFGS on the bound whose q(v) is solved for at every point. Where the best q has a closed form
(Gaussian noise, bounds "simple" and "v1") it is used, else q settles by natural steps from where it was. The optimal
bound needs no q at all: its value is the exact GP's evidence. "v2" takes the hyperparameters of "v1": its own objective
grows without end as the noise vanishes and S takes its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.ascent import StopAscent, ascend
from sksvi.families import DiagonalGaussian, Free, NotPositiveDefinite, Point
from sksvi.integrals.nodes import Nodes, Rule, design, scattered, shape_about, simplex
from sksvi.models.base import Fit
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import log_evidence
from sksvi.models.gp.collapsed import at_best, by_sums, collapsed
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.gp.inducing import spread_out
from sksvi.models.linear.rows import pull_back

# ---- hyperparameters by the evidence
Array = np.ndarray

#: Most natural steps to settle q at one set of hyperparameters, and their relative tolerance.
SETTLING_PASSES, SETTLING_TOL = 30, 1e-5
#: E-folds that a scale of the likelihood may move: beyond, numbers overflow.
WIDEST = 20.0
#: Nats of each row that the gain of a few looks at many is relative to: a bound of them may be near zero, or far.
ROW_SHARE = 0.4
#: Pairs of steps and gradients that it remembers: a look costs far more than a product with them.
MEMORY = 60
#: More looks than any search takes: `max_iter` ends it.
MOST_LOOKS = 10**6
#: Rows of the first sample that a search begins with, at least and for each inducing point, where noise is Gaussian.
SAMPLED_ROWS, PER_POINT = 2560, 12
#: Samples at most, and how many times as many all rows are, at least: a search of fewer ends too far from theirs.
MOST_SAMPLES, LEAST_SHARE = 4, 2.5
#: Rows from which on it begins at the exact process of a few, how many these are, and among how many points are chosen.
MANY_ROWS, EXACT_ROWS, CANDIDATES = 4096, 600, 2**12
#: Nats that a few looks must gain for each row of the exact process, and in all of a sample.
EXACT_SHARE, SAMPLE_GAIN = 1e-3, 16.0
#: Nats of each row by which a later place to begin must be higher.
CLEARLY = 5e-3
#: Nats of each row that points must leave open, of so many rows, for more to be added.
OPEN, OPEN_ROWS = 1e-3, 512
#: Gains at which a search ends that has added points, relative to others: places gain little beside their number.
EARLY = 40.0
#: Share of another row in a point that is added, so that it is no row but where both are the same.
OTHER = 0.1
#: Unit of an input, in lengths over which f varies, and least square of a point's weight in f, relative to their mean.
LENGTHS, LEAST_WEIGHT = 3.0, 0.3
#: Step in an input, in its unit, over which f is asked how much it varies.
INPUT_STEP = 0.1
#: Rows of the sample in which the curvature at the mode is found.
CURVATURE_ROWS = 2560


class CollapsedSearch:
    """The bound as a function of one vector: kernel parameters, the likelihood's, inducing inputs."""

    def __init__(self, model: Any, fit: Fit, names: list[str], data: Any) -> None:
        self.model, self.names, self.fit, self.data = model.replaced(bound=model.teacher), names, fit, data
        self.closed = model.likelihood.noise_variance is not None
        self.q = {**fit.q, "inducing": fit.q["inducing"].natural_form()}
        self.first: float | None = None
        self.value = -np.inf
        self.scaled = len(data) >= SAMPLED_ROWS and self.closed and "inputs" in names

    # ---- the vector
    def start(self) -> Array:
        """Vector of the hyperparameters that the search goes on from."""
        return self.vector(self.q)

    def vector(self, q: dict[str, Any]) -> Array:
        """Vector of the hyperparameters of q."""
        return np.concatenate([q[name].value.ravel() for name in self.names])

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """The kernel's own bounds, a wide box around where scales are; inducing inputs are free."""
        out: list[tuple[float | None, float | None]] = []
        for name in self.names:
            if name == "kernel":
                out += [(float(low), float(high)) for low, high in np.reshape(self.model.kernel.bounds, (-1, 2))]
            elif name == "likelihood":
                out += [(value - WIDEST, value + WIDEST) for value in self.q[name].value.tolist()]
            else:
                out += [(None, None)] * self.q[name].value.size
        return out

    def at(self, x: Array) -> dict[str, Any]:
        """q with the hyperparameters of x."""
        q, begin = dict(self.q), 0
        for name in self.names:
            old = q[name]
            values = x[begin : begin + old.value.size].reshape(old.value.shape)
            begin += old.value.size
            q[name] = Point(values, old.centre, old.information) if name == "likelihood" else Free(values)
        return q

    # ---- the bound
    def __call__(self, x: Array) -> tuple[float, Array]:
        """Bound and its gradient at x."""
        return self.look(self.at(x))

    def look(self, q: dict[str, Any]) -> tuple[float, Array]:
        """Bound and its gradient at the hyperparameters of q."""
        if self.model.bound == "optimal":
            value, gradient = self._exact(q)
        elif self.fit.problem.scale == 1.0 and by_sums(self.model, q, self.data):
            value, gradient, q["inducing"] = collapsed(self.model, q, self._over_rows)
            value += 0.0 if self.model.density is None else self.model.density(q)
            gradient = self._with_prior(q, gradient)
        elif self.closed:
            q["inducing"], gram = best_given(self.model, q, self._over_rows)
            value, gradient = self._gradient(q, gram)
        else:
            q = self._settled(q)
            value, gradient = self._gradient(q, None)
        if self.first is None:
            self.first = value
        if value > self.value:
            self.value, self.q = value, q
        return value, np.concatenate([gradient[name].ravel() for name in self.names])

    # ---- the way up
    def climb(self, looks: Looks, enough: Callable[[float], float]) -> None:
        """Go to the maximum from where q is."""
        if not looks.ended:
            units = self.units if self.scaled else None
            ascend(self, self.start(), self.bounds(), looks, enough, MOST_LOOKS, MEMORY, units)

    def units(self) -> Array:
        """Lengths over which the bound curves about as much: of inputs those of f, shorter where f hangs on a point.

        Curvature in an input is about as the square of its point's weight in f, which differs by a factor of 100.
        """
        scale, geometry = self.model.scale, self.model.geometry(self.q)
        lengths = np.minimum(kernels.lengths(geometry.kernel, geometry.Z, INPUT_STEP * scale) / scale, 1.0)
        square = np.square(self.q["inducing"].mean @ geometry.inverse)
        weight = 0.5 * np.log(square + LEAST_WEIGHT * square.mean() + np.finfo(float).tiny)
        inputs = LENGTHS * lengths * np.exp(weight.mean() - weight)[:, None]
        return np.concatenate([inputs.ravel() if n == "inputs" else np.ones(self.q[n].value.size) for n in self.names])

    @property
    def has_all_points(self) -> bool:
        """Whether q has all points of a model that begins with fewer."""
        return bool(self.model.n_first) and len(self.q["inputs"].value) == self.model.n_inducing

    def trace_term(self) -> float:
        """Nats of each row that inducing points leave open: Σ d / 2σ² of the bound (Titsias 2009, equation 9)."""
        X = self.data.X[:: -(-len(self.data) // OPEN_ROWS)]
        left = self.model.geometry(self.q).rows(X)[2].mean()
        return float(0.5 * left / self.model.current_likelihood(self.q).noise_variance)

    def climb_adding_points(self, looks: Looks, enough: Callable[[float], float]) -> None:
        """`climb`, and once more with further points where the model may have some and those before leave much open."""
        self.climb(looks, enough)
        if self.model.n_first and not (self.has_all_points or looks.ended) and self.trace_term() > OPEN:
            self.add_points()
            self.climb(looks, enough)

    def add_points(self) -> None:
        """Go on with all points that the model may have, the further ones where those before leave most open."""
        model, rows = self.model, self.data.X[drawn_rows(self.model, self.data, CANDIDATES)]
        X = (1.0 - OTHER) * rows + OTHER * np.roll(rows, 1, axis=0)
        inputs, before = self.q["inputs"].value, model.geometry(self.q).rows(X)[1]
        chosen = spread_out(model.current_kernel(self.q), X, model.n_inducing - len(inputs), before)
        with suppress(NotPositiveDefinite):  # it goes on with those that it has
            self.look({**self.q, "inputs": Free(np.concatenate([inputs, X[chosen] / model.scale]))})

    def begin_at_highest(self, *places: dict[str, Any]) -> None:
        """Begin here, or where the bound is clearly higher than at the places before."""
        for q in [self.q, *places]:
            before = self.q, self.value
            try:
                self.look(q)
            except NotPositiveDefinite:  # no place to begin
                continue
            if self.value < before[1] + CLEARLY * self.data.total_weight:
                self.q, self.value = before

    def _with_prior(self, q: dict[str, Any], gradient: dict[str, Array]) -> dict[str, Array]:
        """Gradients with those of the hyperparameters' log prior."""
        density = self.model.density
        if density is None:
            return gradient
        return {
            n: g + density.of(n, q[n].value)[1] if n in ("kernel", "likelihood") else g for n, g in gradient.items()
        }

    def _exact(self, q: dict[str, Any]) -> tuple[float, dict[str, Array]]:
        likelihood = self.model.current_likelihood(q)
        variance = likelihood.noise_variance
        value, theta, noise = log_evidence(self.model.current_kernel(q), self.data, variance)
        gradient = {"kernel": theta, "likelihood": np.array([noise * (variance - likelihood.least)])}
        gradient = {name: gradient[name] for name in self.names if name in gradient}
        value += 0.0 if self.model.density is None else self.model.density(q)
        return value, self._with_prior(q, gradient)

    def _over_rows(self, one: Any, *args: Any) -> Any:
        """Sum of the function `one` over the chunks of all rows."""
        return self.data.reduced(partial(over_chunks, one, self.model, self.fit.problem.threads, *args))

    def _settled(self, q: dict[str, Any]) -> dict[str, Any]:
        """q(v) after natural steps from where it was."""

        def stop(bound: float) -> bool:
            if self.fit.tick(max(self.value, bound)):
                raise StopAscent
            return False

        try:
            return self.fit.settle(q, SETTLING_PASSES, SETTLING_TOL, stop, self.model).q
        except ValueError as error:  # no step is possible from here: a point to step back from
            raise NotPositiveDefinite(str(error)) from error

    def _gradient(self, q: dict[str, Any], gram: Array | None) -> tuple[float, dict[str, Array]]:
        """Bound and gradient at this q; `gram`: Σ gamma h hᵀ where it has been computed, else None."""
        model, fit = self.model, self.fit
        for block in q.values():
            block.prepare()
        model.geometry(q)

        value, gradient = slopes_at(model, q, fit.problem.expect, gram, self._over_rows, self.data.total_weight)
        scale = fit.problem.scale
        gradient = {name: scale * part for name, part in gradient.items()}
        return scale * value - fit.divergence(q), self._with_prior(q, gradient)


def best_given(model: Any, q: dict[str, Any], over_rows: Any) -> tuple[Any, Array]:
    """The best q(v) for Gaussian noise, and Σ gamma h hᵀ; `over_rows`: of a function and its arguments the sum."""
    linear, gram = over_rows(informing, q)
    return block_of(linear, np.eye(len(linear)) - 2.0 * gram, model.full), gram


def block_of(linear: Array, precision: Array, full: bool) -> Any:
    """q(v) from its natural parameters."""
    _, best = at_best(0.0, linear, precision)
    return best if full else DiagonalGaussian(best.mean, np.diagonal(precision).copy())


def slopes_at(
    model: Any, q: dict[str, Any], expect: Any, gram: Array | None, over_rows: Any, weight: float
) -> tuple[float, dict[str, Array]]:
    """The rows' part of the bound, and the bound's gradient at this q; `gram`: Σ gamma h hᵀ where it is known."""
    spread = None
    if gram is not None and model.bound == "simple":  # rows of one noise: only their mean variance counts
        noise = model.current_likelihood(q).noise_variance
        spread = -2.0 * noise * float(np.vdot(q["inducing"].cov, gram)) / weight
    sums, value, points = over_rows(sloping, q, expect, gram is None, spread)
    if gram is not None:
        sums = (*sums[:3], gram[None, None], sums[4])
    return value, model.slopes(q, sums) | points


def over_chunks(one: Any, model: Any, threads: int, *args: Any) -> Any:
    """Sum of `one` over the chunks of some rows, the last argument."""
    *leading, data = args
    chunks = model.chunks(slice(0, len(data)), data)
    return parallel.summed(partial(one, model, data, *leading), chunks, threads)


def informing(model: Any, data: Any, q: dict[str, Any], rows: Any) -> tuple[Array, Array]:
    """Sums over rows that determine q(v) under Gaussian noise: Σ h y / variance and -Σ h hᵀ / (2 variance)."""
    batch = model.batch(data, rows)
    batch.fill(model, model.geometry(q), q)
    part, noise = batch.data, model.current_likelihood(q).noise_variance
    variance = {"optimal": 1.0, "simple": noise, "v1": noise + batch.d}[model.bound]
    precision = np.ones(len(part)) / variance
    precision = precision if part.weight is None else precision * part.weight
    return pull_back(batch.rows, precision * part.centred, -0.5 * precision, True)


def sloping(
    model: Any, data: Any, q: dict[str, Any], expect: Any, gram: bool, spread: float | None, rows: Any
) -> tuple[Any, float, dict[str, Array]]:
    """Sums over rows for the gradient at q, their part of the bound, and its slope in the likelihood.

    ``spread`` : the variance of hᵀv that stands for that of every row; None: their own.
    """
    batch = model.batch(data, rows)
    terms = model.terms_at(q, batch, expect, None, None if spread is None else np.full(len(batch.data), spread))
    points = {name: g.sum(0) for name, (g, _) in terms.points.items()}
    return model.hyper_sums(terms, batch, gram), float(terms.value.sum()), points


def learned(model: Any, fit: Fit) -> list[str]:
    """Names of the blocks that the search moves."""
    names = ["kernel"] if model.learn_kernel else []
    names += ["likelihood"] if "likelihood" in fit.q else []
    names += ["inputs"] if model.learn_inputs else []
    return [name for name in names if name not in fit.problem.frozen]


def improved(model: Any, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
    """q with its hyperparameters where the bound is largest, and whether that was worth `tol`."""
    names = learned(model, fit)
    if not names or fit.already_searched(["kernel"]):
        return fit.q, False
    search, looks = CollapsedSearch(model, fit, names, fit.problem.data), Looks(fit, len(fit.problem.data))
    rows = ROW_SHARE * fit.problem.scale * fit.problem.data.total_weight if len(fit.problem.data) >= MANY_ROWS else None
    sizes = sizes_of_samples(fit.problem.data, model) if search.closed and model.bound == model.teacher else []
    higher = bool(sizes) and climbed_samples(search, looks, sizes)
    if not sizes and begins_at_exact(model, fit, names):
        search.begin_at_highest(*from_exact(search, looks))

    def enough(value: float) -> float:
        return tol * (fit.size(value) if rows is None else rows)

    if model.n_first:
        search.climb_adding_points(looks, lambda value: EARLY * enough(value))
    if not search.has_all_points:
        search.climb(looks, enough)
    if search.first is None:
        return fit.q, False
    if search.model.bound == "optimal":
        search.q["inducing"], _ = best_given(search.model, search.q, search._over_rows)
    q = {**search.q, "inducing": fit.q["inducing"].converted(search.q["inducing"])}
    return q, higher or search.value - search.first > tol * fit.size(search.value)


def climbed_samples(search: CollapsedSearch, looks: Looks, sizes: list[int]) -> bool:
    """Whether a search goes on from where those of samples end, each begun at the end of the one before."""
    model, fit, names, q = search.model, search.fit, search.names, search.q
    for size in sizes:
        few, own = CollapsedSearch(model, fit, names, sampled(fit.problem.data, model, size)), Looks(fit, size)
        if size > sizes[0]:
            few.q = q
        elif begins_at_exact(model, fit, names):
            few.begin_at_highest(*from_exact(few, own))
        least = SAMPLE_GAIN * few.data.total_weight / size
        few.climb_adding_points(own, lambda _, least=least: least)  # type: ignore[misc]
        q, looks.ended = few.q, own.ended
        if own.ended:
            break
    start, search.q = search.q, q
    search(search.start())
    higher = search.value > fit.here.bound  # else the fit goes on from where it is better
    search.q = search.q if higher else start
    return higher


class Looks:
    """Count of looks at some rows: as many as go over all rows together are a pass; a part has the fit's bound."""

    def __init__(self, fit: Fit, size: int) -> None:
        self.fit, self.share, self.looks, self.ended = fit, -(-len(fit.problem.data) // size), 0, False

    def __call__(self, value: float) -> bool:
        self.looks += 1
        self.ended = self.looks % self.share == 0 and self.fit.tick(value if self.share == 1 else self.fit.here.bound)
        return self.ended


def begins_at_exact(model: Any, fit: Fit, names: list[str]) -> bool:
    """Whether a search of many rows begins at the exact process of a few: of a kernel and points that it chose anew."""
    if not ({"kernel", "inputs"} <= set(names) and isinstance(model.inducing, str) and fit.problem.data.at_hand):
        return False
    fresh = np.array_equal(fit.q["kernel"].value, model.kernel.theta) and model.bound == "simple"
    return fresh and model.likelihood.noise_variance is not None and len(fit.problem.data) >= MANY_ROWS


def drawn_rows(model: Any, data: Any, most: int) -> Array:
    """Numbers of at most so many rows, in their order: fewer of them are among more."""
    return np.sort(np.random.default_rng([model.seed, 0, 8]).permutation(len(data))[:most])


def from_exact(search: CollapsedSearch, looks: Looks) -> list[dict[str, Any]]:
    """q with the hyperparameters of the exact process of a few rows; with points that spread out under these, too.

    With points between which columns vary a sparse process sees noise alone, and stays there. The exact one has no
    points to place.
    """
    model, fit = search.model, search.fit
    data = fit.problem.data
    rows, X = data.take(drawn_rows(model, data, EXACT_ROWS)), data.X[drawn_rows(model, data, CANDIDATES)]
    own, names = model.replaced(bound="optimal", learn_inputs=False), [n for n in search.names if n != "inputs"]
    exact, ticks = CollapsedSearch(own, fit, names, rows), Looks(fit, len(rows))
    exact.climb(ticks, lambda _: EXACT_SHARE * len(rows))
    looks.ended = ticks.ended
    found, kernel = {**search.q, **{name: exact.q[name] for name in names}}, exact.model.current_kernel(exact.q)
    inputs = search.q["inputs"].value
    chosen = spread_out(kernel, X, len(inputs))
    places = [found, {**found, "inputs": Free(np.concatenate([X[chosen] / model.scale, inputs[len(chosen) :]]))}]
    for q in places if "likelihood" in names else ():  # what the points leave open is noise to them
        likelihood, left = model.current_likelihood(q), model.geometry(q).rows(X)[2]
        q["likelihood"] = Point(np.log(likelihood.noise_variance - likelihood.least + left.mean())[None])
    return places


def sizes_of_samples(data: Any, model: Any) -> list[int]:
    """Rows of the samples that a search begins with, each three times as many as the one before."""
    points = model.n_first or model.n_inducing
    first, many = max(SAMPLED_ROWS, PER_POINT * points), data.at_hand and model.bound != "optimal"
    return [first * 3**k for k in range(MOST_SAMPLES) if many and len(data) > LEAST_SHARE * first * 3**k]


def sampled(data: Any, model: Any, size: int) -> Any:
    """A sample of rows at hand, in their order, that weighs as much; a smaller one is a part of a larger one."""
    rows = data.take(np.sort(np.random.default_rng([model.seed, 0, 7]).permutation(len(data))[:size]))
    share = np.full(len(rows), data.total_weight / rows.total_weight)
    return replace(rows, weight=share if rows.weight is None else share * rows.weight)


# ---- their posterior
#: Numbers of a block of all rows by inducing points up to which nodes are scattered, with Gaussian noise and without it
#: (a label says less than a measurement), how many, and how many predict: with few rows a posterior has heavy tails.
SCATTERED_NUMBERS, SCATTERED, PREDICTING = (10_000, 50_000), 64, 16
#: Most hyperparameters whose corners are looked at, and whose nodes weigh what the density is: of more they lie too far
#: out for that, and weigh as the normals of their half axes.
CORNERS, MOST_WEIGHED = 3, 12
#: Step of the finite differences in a log parameter.
STEP = 0.2
#: Standard deviation of an axis, in every log parameter, below which its middle predicts as well, and a normal stands
#: for the density: with many rows nearly all axes are so narrow, and each takes several looks at all of them.
NARROW = 0.1


@dataclass
class HyperparameterNodes:
    """Nodes of the hyperparameters, and the few that predict, with q's main block at each (None: that of the mode)."""

    nodes: Nodes
    few: Nodes
    blocks: list[Any]


class Explored(ABC):
    """Bound + log prior about a fit's mode, as a function of the hyperparameters that are learned.

    Parameters
    ----------
    model : SparseGPModel or FullGP
    q : dict of blocks
        Where the fit ended.
    data : Table
    expect : Expectation
    density : HyperPrior
    names : list of str
        Blocks of q that were learned, of "kernel" and "likelihood".
    """

    main = "inducing"

    def __init__(self, model: Any, q: dict[str, Any], data: Any, expect: Any, density: HyperPrior, names: list[str]):
        self.model, self.q, self.data, self.expect, self.density = copy(model), q, data, expect, density
        self.names = names
        self.full = {name: np.ravel(q[name].value) for name in names}
        moves = [
            np.array(density.columns) if name == "kernel" else np.ones(self.full[name].size, bool) for name in names
        ]
        self.moves = np.concatenate(moves) if moves else np.zeros(0, bool)
        self.kernel = deepcopy(model.current_kernel(q))
        self.cache: dict[bytes, float] = {}
        free = [part for part in self.kernel.hyperparameters if not part.fixed]
        owners = self.kernel.get_params()
        paths = [part.name.rpartition("__") for part in free]
        sizes = [part.n_elements for part in free]
        self.slots = [
            (owners[path] if path else self.kernel, name, n) for (path, _, name), n in zip(paths, sizes, strict=True)
        ]

    @property
    def numbers(self) -> int:
        """Numbers of a block of all rows by inducing points."""
        return len(self.data) * np.size(self.q[self.main].mean)

    @property
    def mode(self) -> Array:
        """Values at the mode of the hyperparameters that move."""
        return self._everything()[self.moves]

    def _everything(self) -> Array:
        """Values of all learned blocks, also of hyperparameters that the data say nothing of."""
        return np.concatenate([np.zeros(0), *(self.full[name] for name in self.names)])

    def ends(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the hyperparameters that move."""
        box = []
        for name in self.names:
            if name == "kernel":
                box.append(np.reshape(self.model.kernel.bounds, (-1, 2)))
            else:
                box.append(self.full[name][:, None] + WIDEST * np.array([-1.0, 1.0]))
        both = np.concatenate(box)[self.moves]
        # A mode at an end that a search has clipped to may lie a rounding beyond it.
        return np.minimum(both[:, 0], self.mode), np.maximum(both[:, 1], self.mode)

    def at(self, h: Array) -> dict[str, Any]:
        """q with these hyperparameters."""
        whole = self._everything()
        whole[self.moves] = h
        q, begin = dict(self.q), 0
        for name in self.names:
            values = whole[begin : begin + self.full[name].size]
            begin += len(values)
            q[name] = Point(values) if name == "likelihood" else Free(values)
        return q

    def kernel_at(self, q: dict[str, Any]) -> Any:
        """The kernel with q's parameters: one object that is set anew, as scikit-learn's copies take their time."""
        begin, values = 0, np.exp(q["kernel"].value)
        for owner, name, size in self.slots:
            setattr(owner, name, values[begin : begin + size] if size > 1 else float(values[begin]))
            begin += size
        return self.kernel

    @abstractmethod
    def quick(self, q: dict[str, Any]) -> float:
        """Bound at the best q, or what the messages of the mode say of it."""

    @abstractmethod
    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """Bound beyond `quick`, and main block, after a few steps."""

    def log_density(self, h: Array) -> float:
        """Log density at hyperparameters h: `quick` plus the log prior; cached."""
        key = h.tobytes()
        if key not in self.cache:
            q = self.at(h)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # far off, where nothing is likely
                    self.cache[key] = self.quick(q) + self.density(q)
            except NotPositiveDefinite:
                self.cache[key] = -np.inf
        return self.cache[key]

    @property
    def rule(self) -> Rule:
        """Rule of the nodes that the integral is over."""
        return design(len(self.mode), CORNERS)

    def curvature(self, low: Array, high: Array) -> Array | None:
        """Curvature of the negative log density at the mode, as near as axes need it; None: by differences of it."""
        return None

    def integrated(self) -> HyperparameterNodes | None:
        """Nodes with their blocks; None where nothing was learned."""
        mode = self.mode
        if not len(mode):
            return None
        low, high = self.ends()
        shape = shape_about(self.log_density, mode, self.curvature(low, high), low, high, step=STEP, narrow=NARROW)
        nodes_of = partial(shape.nodes, as_normals=len(mode) > MOST_WEIGHED)
        if len(mode) > 1 and self.numbers <= SCATTERED_NUMBERS[self.model.likelihood.noise_variance is None]:
            nodes, few = (nodes_of(scattered(len(mode), n)).few() for n in (SCATTERED, PREDICTING))
        else:
            wide = shape.wide(NARROW)
            nodes, few = nodes_of(self.rule).few(), wide.nodes(simplex(wide.axes.shape[1]))
        blocks, gains = [], []
        for h in few.values:
            block, gain = None, 0.0
            if not np.array_equal(h, mode):
                try:
                    gain, block = self.settled(self.at(h))
                except NotPositiveDefinite:
                    gain = -np.inf
            blocks.append(block)
            gains.append(gain)
        left = np.isfinite(gains)
        own = Nodes(few.values[left], few.weights[left], 0.0).corrected(np.array(gains)[left])
        # What a few steps gain beyond the messages is the same share of the integral over either set of nodes.
        nodes = Nodes(nodes.values, nodes.weights, nodes.log_integral + own.log_integral)
        blocks = [block for block, here in zip(blocks, left, strict=True) if here]
        return HyperparameterNodes(self.whole(nodes), self.whole(own), blocks)

    def whole(self, nodes: Nodes) -> Nodes:
        """Nodes with the kernel parameters that stay."""
        values = np.tile(self._everything(), (len(nodes.values), 1))
        values[:, self.moves] = nodes.values
        return Nodes(values, nodes.weights, nodes.log_integral)
