"""The posterior of what a dynamic model learns: its nodes, and the messages that q has at each of them.

Under Gaussian noise the evidence of the parameters is that of a sweep. Elsewhere it is the bound where the messages of
the fit have settled under the parameters of a node, by a few natural steps from where they are.

One-step-ahead predictions are of every point from those before it, with messages that depend on these alone. The
message of t follows from the prediction of f_t, which follows from earlier messages. Sweeping over all points at once,
and giving each message a few steps of its own at the prediction as it stands, settles them from the first on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.line_search import backtrack, halved
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.integrals.nodes import Nodes, nodes_about
from sksvi.models.data import Table
from sksvi.models.time_series.search import ConjugateOptimum

# ---- one-step-ahead predictions
Array = np.ndarray

#: Most sweeps, steps of a message in each, and the change of a prediction, in its standard deviations, that ends them.
SWEEPS, STEPS, SETTLED = 500, 2, 1e-6
#: How fast a shortened step grows again.
GROWTH = 1.3
#: Relative fall of a bound that the error of its integral explains.
SLACK = 1e-7


class Ahead(NamedTuple):
    """Predictions (T,) of f without offset, and the block of the messages that depend on earlier points alone."""

    mean: Array
    variance: Array
    block: ChainGaussian


def one_step_ahead(likelihood: Any, block: ChainGaussian, data: Table, expect: Any) -> Ahead:
    """Predictions of each point from those before it.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    block : ChainGaussian
        Its messages are where the search for others begins.
    data : Table
    expect : Expectation
    """
    chain, T = block.chain, len(block.chain)
    observed = np.arange(T) if data.weight is None else np.flatnonzero(data.weight > 0)
    linear, weights = block.linear.copy(), np.maximum(block.weights, 0.0)
    linear += (weights - block.weights) * block.mean  # the same mean, where a message of a negative precision is lost
    rate, before, moved = np.ones(T), np.full(T, np.inf), np.full(T, np.inf)
    for _ in range(SWEEPS):
        m, s = ChainGaussian(chain, linear, weights).ahead()
        reach = SETTLED * np.sqrt(s)
        at = observed[(np.abs(m - before) > reach)[observed] | (moved > reach)[observed]]
        if not len(at):
            break
        before = m
        with np.errstate(over="ignore", invalid="ignore"):  # steps beyond all numbers are not taken
            found = _own_steps(likelihood, data.take(at), expect, m[at], s[at], linear[at], weights[at], rate[at])
        linear[at], weights[at], rate[at], moved[at] = found
    return Ahead(m, s, ChainGaussian(chain, linear, weights))


def _own_steps(
    likelihood: Any, rows: Table, expect: Any, m: Array, s: Array, linear: Array, weights: Array, rate: Array
) -> tuple[Array, Array, Array, Array]:
    """A few natural steps of each point's own message at these predictions, each kept where its own bound rises.

    Also how far the mean of f moved in the last one.
    """
    rate = np.minimum(1.0, GROWTH * rate)
    here = _at(likelihood, rows, expect, m, s, linear, weights)
    for _ in range(STEPS):
        value, mean, alpha, gamma = here
        target = np.maximum(-2.0 * gamma, 0.0)
        # The linear part about the mean as it is: nothing is left to do where alpha is what the message says.
        own = linear - weights * mean
        tried_weights = (1.0 - rate) * weights + rate * target
        tried = (1.0 - rate) * own + rate * alpha + tried_weights * mean
        there = _at(likelihood, rows, expect, m, s, tried, tried_weights)
        better = there[0] >= value - SLACK * (1.0 + np.abs(value))
        rate = halved(rate, better)
        linear, weights = np.where(better, tried, linear), np.where(better, tried_weights, weights)
        here = tuple(np.where(better, new, old) for new, old in zip(there, here, strict=True))  # type: ignore[assignment]
        moved = np.abs(there[1] - mean)
    return linear, weights, rate, moved


def _at(
    likelihood: Any, rows: Table, expect: Any, m: Array, s: Array, linear: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Each point's own bound, the mean of f there, and slopes in mean and variance."""
    D = 1.0 + weights * s
    off = linear - weights * m
    v = s / D
    step = v * off
    mean = m + step
    f = mean if rows.offset is None else mean + rows.offset
    value, alpha, gamma = expect(likelihood, rows.y, f, v)
    kl = 0.5 * (np.log(D) - weights * v + step * (off - weights * step))
    if rows.weight is not None:
        value, alpha, gamma = value * rows.weight, alpha * rows.weight, gamma * rows.weight
    value = value - kl
    good = np.isfinite(value) & np.isfinite(mean) & np.isfinite(alpha) & np.isfinite(gamma)
    return np.where(good, value, -np.inf), mean, alpha, gamma


# ---- nodes of the posterior
#: Most natural steps at a node, their halvings, and the gain, nats, below which they end.
PASSES, HALVINGS, ENOUGH = 6, 4, 1e-2
#: Step of the differences of slopes that give the curvature at the mode.
STEP = 0.05
#: Series of more points keep the messages of the fit at every node: what is held would be many times theirs.
MOST_POINTS = 2**14


class Settled(NamedTuple):
    """Messages under some parameters, and the bound there, the prior of the parameters included."""

    block: ChainGaussian
    bound: float


class Integrand:
    """The bound as a function of some of the parameters of a dynamic model, the prior of these included.

    Parameters
    ----------
    model : DynamicModel
    data : Table
    expect : Expectation
        Without noise.
    q : dict
        Where the fit ended.
    free : ndarray of int
        Which places of all parameters, those of the states and then the likelihood's, are integrated over.
    """

    def __init__(self, model: Any, data: Table, expect: Any, q: dict[str, Any], free: Array) -> None:
        self.model, self.data, self.expect, self.q, self.free = model, data, expect, q, free
        self.mode = all_parameters(q)
        #: Of Gaussian noise the evidence, whatever the messages.
        self.closed = ConjugateOptimum(model, data, 1.0) if model.likelihood.noise_variance is not None else None
        #: What was found at points that were evaluated, by their bytes.
        self.found: dict[bytes, Settled] = {}

    def full(self, x: Array) -> Array:
        """All parameters, of those that are integrated over."""
        out = self.mode.copy()
        out[self.free] = x
        return out

    def at(self, x: Array, block: ChainGaussian | None = None) -> dict[str, Any]:
        """q under these parameters, with the messages of the fit or of another block."""
        return self.model.at(divided(self.full(x), self.q), self.q["latents"] if block is None else block)

    def __call__(self, x: Array) -> float:
        """Bound and log prior at x; -inf where there is none."""
        try:
            return self.closed(self.at(x))[0].bound if self.closed else self.settled(x).bound
        except NotPositiveDefinite:
            return -np.inf

    def settled(self, x: Array) -> Settled:
        """Messages that have settled under these parameters, and the bound there; cached."""
        key = x.tobytes()
        if key not in self.found:
            self.found[key] = self._settled(self.at(x))
        return self.found[key]

    def _settled(self, q: dict[str, Any]) -> Settled:
        likelihood, block = self.model.current_likelihood(q), q["latents"]
        bound, alpha, gamma = self._evaluated(likelihood, block)
        for _ in range(PASSES):
            found = self._stepped(likelihood, block, bound, alpha, gamma)
            if found is None:
                break
            gained, (block, (bound, alpha, gamma)) = found[1][0] - bound, found
            if gained < ENOUGH:
                break
        return Settled(block.forgotten(), bound + self.model.log_prior(q))

    def _stepped(self, likelihood: Any, block: ChainGaussian, bound: float, alpha: Array, gamma: Array) -> Any:
        """Messages after a natural step, halved while the bound falls, and their evaluation; None: no gain."""
        weights = -2.0 * gamma
        linear = alpha + weights * block.mean

        def attempt(share: float) -> Any:
            there = ChainGaussian(
                block.chain,
                (1.0 - share) * block.linear + share * linear,
                (1.0 - share) * block.weights + share * weights,
            )
            try:
                return there, self._evaluated(likelihood, there)
            except NotPositiveDefinite:
                return None

        found = backtrack(attempt, lambda trial: trial[1][0] > bound, HALVINGS)
        return None if found is None else found.trial

    def _evaluated(self, likelihood: Any, block: ChainGaussian) -> tuple[float, Array, Array]:
        """The bound of a block without the prior of parameters, and the slopes of E log p in mean and variance."""
        data, T = self.data, len(self.data)
        alpha, gamma, total = np.zeros(T), np.zeros(T), -block.swept.kl
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in self.model.parts(T):
                m = block.mean[rows] if data.offset is None else block.mean[rows] + data.offset[rows]
                value, a, g = self.expect(likelihood, data.y[rows], m, block.variance[rows])
                w = 1.0 if data.weight is None else data.weight[rows]
                total += float(np.sum(w * value))
                alpha[rows], gamma[rows] = w * a, w * g
        if not (np.isfinite(total) and np.all(np.isfinite(alpha)) and np.all(np.isfinite(gamma))):
            raise NotPositiveDefinite("the bound is not finite at these parameters")
        return total, alpha, gamma

    def slope(self, x: Array) -> Array:
        """Slope of the settled bound and of the prior."""
        if self.closed:
            slopes = self.closed(self.at(x))[1]
        else:
            slopes, _ = self.model.slopes(self.at(x, self.settled(x).block), self.data, self.expect)
        return np.concatenate([slopes[name] for name in self.model.hyper])[self.free]

    def curvature(self, mode: Array, low: Array, high: Array) -> Array | None:
        """Minus the second derivatives at the mode, by differences of slopes; None where there are none."""
        H, size = np.empty((len(mode), len(mode))), len(mode)
        try:
            here = self.slope(mode)
            for place, step in enumerate(STEP * np.eye(size)):
                by = step if mode[place] + STEP < high[place] else -step
                H[:, place] = (here - self.slope(mode + by)) / by[place]
        except NotPositiveDefinite:
            return None
        return 0.5 * (H + H.T)


def all_parameters(q: dict[str, Any]) -> Array:
    """All parameters as one vector: those of the states, then the likelihood's."""
    return np.concatenate([q[name].value for name in ("dynamics", "likelihood") if name in q])


def divided(values: Array, q: dict[str, Any]) -> dict[str, Array]:
    """A vector of all parameters divided into the blocks of q, by their names."""
    n = len(q["dynamics"].value)
    return {"dynamics": values[:n], "likelihood": values[n:]} if "likelihood" in q else {"dynamics": values[:n]}


def nodes_of(
    model: Any, data: Table, expect: Any, q: dict[str, Any], frozen: bool
) -> tuple[Nodes, Array | None] | None:
    """Nodes (k, P) of all parameters, and the messages (k, 2, T) there; None where none is learned.

    Parameters
    ----------
    model : DynamicModel
    data : Table
    expect : Expectation
    q : dict
        Where the fit ended.
    frozen : bool
        Whether the likelihood's parameters stay where they are.

    Returns
    -------
    tuple of Nodes and ndarray, or None
        Without messages of their own, nodes have those of the fit, or under Gaussian noise those of the data.
    """
    if not model.learned:
        return None
    n, size = len(q["dynamics"].value), len(all_parameters(q))
    free = np.arange(n if frozen or model.likelihood.traits.ordered else size)
    if not len(free):
        return None
    box = np.array([*model.dynamics.box, *[(-np.inf, np.inf)] * (size - n)], float).reshape(-1, 2)[free]
    integrand = Integrand(model, data, expect, q, free)
    mode = integrand.mode[free]
    curvature = integrand.curvature(mode, box[:, 0], box[:, 1])
    found = nodes_about(integrand, mode, curvature, box[:, 0], box[:, 1]).few()
    nodes = Nodes(np.array([integrand.full(x) for x in found.values]), found.weights, found.log_integral)
    if integrand.closed or len(data) > MOST_POINTS:
        return nodes, None
    blocks = [integrand.settled(x).block for x in found.values]
    return nodes, np.array([[block.linear, block.weights] for block in blocks])
