"""Compiled local steps of the correlated topic model: Newton's, AdaGrad's, and message passing (`algorithm="cvi"`).

Newton steps move a document's mean, a fixed point its covariance; its state is its mean and the diagonal of C, where
the next visit starts. AdaGrad serves h-mc-ssvi (the mean) and s-dsvi (mean and C).
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.algorithms.loops import halved
from sksvi.models.numbers import FLOAT, zeros
from sksvi.models.topics.loops.algebra import (
    compiled,
    inverse_root,
    load_square,
    newton_factor,
    project,
    solve,
    store_square,
)
from sksvi.models.topics.loops.bound import (
    MEAN_FIELD,
    curvature,
    local_value,
    look,
    node_slopes,
    opened,
    prior_of,
    pull_of,
    workspace,
)
from sksvi.models.topics.loops.records import (
    DOCUMENTS,
    Corpus,
    Curvature,
    Document,
    Effort,
    LogOddsPopulation,
    Rates,
    Work,
)

# ---- Newton steps
Array = np.ndarray

#: Longest Newton step of a coordinate (log odds), and halvings before a step is given up.
REACH, HALVINGS = 4.0, 12
#: Steps that one Hessian serves.
HELD = 3


@compiled
def matrices(p: int) -> Curvature:
    """Room for matrices, which begin at zero: of some only the diagonal is filled."""
    room = zeros(4 * p * p).reshape(4 * p, p)
    return Curvature(room[:p], room[p : 2 * p], room[2 * p : 3 * p], room[3 * p :])


@compiled
def settle_mean(
    bound: int, document: Document, prior: LogOddsPopulation, effort: Effort, mean: Array, root: Array, work: Work,
    curved: Curvature, age: int,
) -> float:  # fmt: skip
    """Newton steps of the mean at a fixed covariance; one that lowers the bound is halved. Returns the gain, nats.

    `age`: steps that the Hessian of `curved` has served. `work` is left as `look` leaves it at the mean.
    """
    p = len(mean)
    if p == 0:
        return 0.0
    yes = p > 0  # a constant would make the compiler write another version of `curvature`
    new, step, pull = np.empty(p, FLOAT), np.empty(p, FLOAT), np.empty(p, FLOAT)
    for k in range(p):  # of an array to an array numba compiles its error's words too: two seconds
        new[k] = mean[k]
    first = best = -np.inf
    rate, halvings = 1.0, 0
    for t in range(effort.steps + HALVINGS):
        value, slope = look(bound, document, new, root, work)
        value -= pull_of(new, prior, pull)
        if t > 0 and not value >= best - 1e-12 * abs(best):
            age, rate = HELD, halved(rate, halvings, HALVINGS)
            halvings += 1
            if rate == 0.0:
                look(bound, document, mean, root, work)
                break
            for k in range(p):
                new[k] = mean[k] + rate * step[k]
            continue
        gain, best = value - best, value
        if t == 0:
            first = value
        for k in range(p):
            mean[k] = new[k]
        if t >= effort.steps or (t > 0 and gain < effort.tol):
            break
        if age == HELD:
            curvature(bound, document, not yes, yes, not yes, work, curved.negative, curved.safe)
            newton_factor(prior.precision, curved.negative, curved.safe, curved.summed, curved.factor)
            age = 0
        age += 1
        longest = 0.0
        for k in range(p):
            step[k] = slope[k] - pull[k]
        solve(curved.factor, step)
        for k in range(p):
            longest = max(longest, abs(step[k]))
        rate = min(1.0, REACH / max(longest, 1e-300))
        for k in range(p):
            new[k] = mean[k] + rate * step[k]
    return best - first


@compiled
def settle_root(
    bound: int, document: Document, prior: LogOddsPopulation, full: bool, root: Array, work: Work, curved: Curvature,
) -> int:  # fmt: skip
    """Covariance from its fixed point S⁻¹ = Σ⁻¹ + Π₊(-E[Hessian]) after `look` at q(η); returns repairs."""
    yes = len(document.nodes) > 0
    curvature(bound, document, yes, not yes, not full, work, curved.negative, curved.safe)
    repairs = project(curved.negative, full, curved.factor)
    inverse_root(prior.precision, curved.negative, full, curved.factor, root)
    return repairs


@entry(*DOCUMENTS, "state (n, 2*P) f")
@compiled
def newton_documents(
    corpus: Corpus, topics: Array, prior: LogOddsPopulation, bound: int, full: bool, effort: Effort, state: Array,
    roots: Array,
) -> int:  # fmt: skip
    """q(η) of every document of a block by rounds of mean and covariance: `state` (n, 2P) moves, `roots` are filled.

    Returns repairs.
    """
    p = topics.shape[1] - 1
    curved = matrices(p)
    repairs = 0
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, root = workspace(document), state[i, :p], roots[i]
        own_prior = prior_of(prior, i)
        load_square(state[i, p:], False, root)
        for t in range(effort.rounds):
            # A Hessian serves the next round too: it differs by what the covariance moved.
            gain = settle_mean(bound, document, own_prior, effort, mean, root, work, curved, HELD if t == 0 else 0)
            if t > 0 and gain < effort.tol:
                break
            repairs += settle_root(bound, document, own_prior, full, root, work, curved)
        store_square(root, False, state[i, p:])
    return repairs


# ---- AdaGrad
#: The most that C changes in a step, as a share of its diagonal.
ROOT_SHARE = 0.5


@compiled
def mean_step(slope: Array, prior: LogOddsPopulation, rates: Rates, mean: Array, sums: Array) -> None:
    """AdaGrad on the mean."""
    pull = np.empty(len(mean))
    pull_of(mean, prior, pull)
    for k in range(len(mean)):
        ahead = slope[k] - pull[k]
        sums[k] += ahead**2
        mean[k] += rates.mean * ahead / np.sqrt(sums[k] + rates.epsilon)


@compiled
def root_step(
    slopes: Array, nodes: Array, prior: LogOddsPopulation, full: bool, rates: Rates, root: Array, sums: Array
) -> None:
    """AdaGrad on C by reparameterised gradients; `slopes` (S, P) at the nodes."""
    in_root = np.dot(nodes.T, slopes) / len(nodes) - np.dot(root, prior.precision)
    for j in range(len(root)):
        in_root[j, j] += 1.0 / root[j, j]
        for k in range(j + 1):
            if full or j == k:
                sums[j, k] += in_root[j, k] ** 2
                step = rates.root * in_root[j, k] / np.sqrt(sums[j, k] + rates.epsilon)
                limit = ROOT_SHARE * min(root[j, j], root[k, k])
                root[j, k] += min(max(step, -limit), limit)


@compiled
def gradient_visit(
    by_gradient: bool, bound: int, document: Document, prior: LogOddsPopulation, full: bool, effort: Effort,
    rates: Rates, state: Array, root: Array, work: Work, curved: Curvature,
) -> int:  # fmt: skip
    """Steps by AdaGrad on a document's mean, and of C `by_gradient` too, else by its fixed point; returns repairs.

    `state` holds the mean, its sums, C, and of steps on C their sums.
    """
    p, repairs = len(root), 0
    size = p * p if full else p
    mean, sums, root_sums = state[:p], state[p : 2 * p], np.zeros((p, p))
    if by_gradient:
        load_square(state[2 * p + size :], full, root_sums)
    slopes = np.empty((len(document.nodes), p))
    for _ in range(1 if by_gradient else effort.rounds):
        for _ in range(effort.steps):
            _, slope = look(bound, document, mean, root, work)
            if by_gradient:
                node_slopes(bound, document, work, slopes)
                root_step(slopes, document.nodes, prior, full, rates, root, root_sums)
            mean_step(slope, prior, rates, mean, sums)
        if not by_gradient:
            look(bound, document, mean, root, work)
            repairs += settle_root(bound, document, prior, full, root, work, curved)
    store_square(root, full, state[2 * p : 2 * p + size])
    if by_gradient:
        store_square(root_sums, full, state[2 * p + size :])
    return repairs


@compiled
def gradient_documents(
    by_gradient: bool, corpus: Corpus, topics: Array, prior: LogOddsPopulation, bound: int, full: bool, effort: Effort,
    state: Array, roots: Array,
) -> int:  # fmt: skip
    """Visits of all documents; a judged one that lowers its term is repeated at half the rates, at last given up."""
    p, repairs, rates = topics.shape[1] - 1, 0, effort.rates
    size = p * p if full else p
    curved = matrices(p)
    for i in range(len(state)):
        document, root = opened(corpus, i, topics), roots[i]
        work, before, share, own_prior = workspace(document), -np.inf, 1.0, prior_of(prior, i)
        load_square(state[i, 2 * p : 2 * p + size], full, root)
        old, old_root = state[i].copy(), root.copy()
        if effort.judged:
            value, _ = look(bound, document, old[:p], root, work)
            before = local_value(value, old[:p], root, full, own_prior)
        for halvings in range(HALVINGS):
            own = Rates(share * rates.mean, share * rates.root, rates.epsilon)
            repairs += gradient_visit(
                by_gradient, bound, document, own_prior, full, effort, own, state[i], root, work, curved
            )
            if not effort.judged:
                break
            value, _ = look(bound, document, state[i, :p], root, work)
            if local_value(value, state[i, :p], root, full, own_prior) >= before:
                break
            state[i], root[:] = old, old_root
            share = halved(share, halvings, HALVINGS)
    return repairs


@entry(*DOCUMENTS, "state (n, 2*P+P^) f")
@compiled
def hybrid_documents(
    corpus: Corpus, topics: Array, prior: LogOddsPopulation, bound: int, full: bool, effort: Effort, state: Array,
    roots: Array,
) -> int:  # fmt: skip
    """As `newton_documents`, the mean by AdaGrad; `state` holds mean, its sums and C (of diagonal q its diagonal)."""
    return gradient_documents(False, corpus, topics, prior, bound, full, effort, state, roots)


@entry(*DOCUMENTS, "state (n, 2*P+2*P^) f")
@compiled
def standard_documents(
    corpus: Corpus, topics: Array, prior: LogOddsPopulation, bound: int, full: bool, effort: Effort, state: Array,
    roots: Array,
) -> int:  # fmt: skip
    """s-dsvi: AdaGrad on mean and C. `state` holds mean, its sums, C, its sums (of diagonal q their diagonals)."""
    return gradient_documents(True, corpus, topics, prior, bound, full, effort, state, roots)


# ---- message passing
@compiled
def message_target(
    bound: int, slope: Array, negative: Array, full: bool, mean: Array, work: Work, word_message: Array, target: Array
) -> None:
    """The words' message about η given their topics (`word_message`), the natural parameter of the rest (`target`)."""
    for k in range(len(mean)):
        word_message[k] = work.counted_at_mean[0, k] if bound == MEAN_FIELD else 0.0
        target[k] = slope[k] - word_message[k]
        for j in range(len(mean)):
            if full or j == k:
                target[k] += negative[k, j] * mean[j]


@compiled
def message_mean(prior: LogOddsPopulation, full: bool, linear: Array, mean: Array, root: Array, out: Array) -> None:
    """Mean of the product of N(μ, Σ) and messages; a diagonal q takes the other coordinates at their means."""
    precision = prior.precision
    p = len(mean)
    pull = np.dot(precision, prior.location) + linear
    if not full:
        pull -= np.dot(precision, mean)
        for k in range(p):
            pull[k] += precision[k, k] * mean[k]
    out[:] = np.dot(root.T, np.dot(root, pull))


@compiled
def message_steps(
    bound: int, document: Document, prior: LogOddsPopulation, full: bool, effort: Effort, mean: Array, root: Array,
    site: Array, site_precision: Array, work: Work, curved: Curvature,
) -> int:  # fmt: skip
    """Message passing: the site of the softmax term (other bounds: of the whole term) by natural steps of rate 1.

    Words of the mean-field bound answer in closed form. A step that lowers the bound is halved. Returns repairs.
    """
    negative, factor = curved.negative, curved.factor
    p, repairs, rate = len(mean), 0, 1.0
    word_message, target = np.zeros(p), np.zeros(p)
    inverse_root(prior.precision, site_precision, full, factor, root)
    value, slope = look(bound, document, mean, root, work)
    best = local_value(value, mean, root, full, prior)
    new, new_root, new_site, new_precision = mean.copy(), root.copy(), site.copy(), site_precision.copy()
    yes = len(document.nodes) > 0
    for _ in range(effort.steps if p else 0):
        curvature(bound, document, yes, not yes, not full, work, negative, curved.safe)
        repairs += project(negative, full, factor)
        message_target(bound, slope, negative, full, mean, work, word_message, target)
        gain = -1.0
        for halvings in range(HALVINGS):
            for k in range(p):
                new_site[k] = (1.0 - rate) * site[k] + rate * target[k]
                for j in range(p):
                    new_precision[k, j] = (1.0 - rate) * site_precision[k, j] + rate * negative[k, j]
            inverse_root(prior.precision, new_precision, full, factor, new_root)
            message_mean(prior, full, word_message + new_site, mean, new_root, new)
            value, slope = look(bound, document, new, new_root, work)
            gain = local_value(value, new, new_root, full, prior) - best
            if gain >= 0.0:
                break
            rate = halved(rate, halvings, HALVINGS)
        if not gain >= 0.0:
            break
        best += gain
        mean[:], root[:], site[:], site_precision[:] = new, new_root, new_site, new_precision
        if gain < effort.tol:
            break
        rate = min(1.0, 2.0 * rate)
    return repairs


@entry(*DOCUMENTS, "state (n, 2*P+P^) f")
@compiled
def message_documents(
    corpus: Corpus, topics: Array, prior: LogOddsPopulation, bound: int, full: bool, effort: Effort, state: Array,
    roots: Array,
) -> int:  # fmt: skip
    """q(η) of every document by messages; `state` holds mean, site, and the site's precision (or its diagonal)."""
    p = topics.shape[1] - 1
    curved = matrices(p)
    precision = np.zeros((p, p))
    repairs = 0
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, site = workspace(document), state[i, :p], state[i, p : 2 * p]
        load_square(state[i, 2 * p :], full, precision)
        own_prior = prior_of(prior, i)
        repairs += message_steps(
            bound, document, own_prior, full, effort, mean, roots[i], site, precision, work, curved
        )  # fmt: skip
        store_square(precision, full, state[i, 2 * p :])
    return repairs
