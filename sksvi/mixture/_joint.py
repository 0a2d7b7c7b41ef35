"""Weights and probabilities of a mixture by draws of their joint posterior, in a chain that begins at q."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment

from sksvi._runtime import parallel
from sksvi.estimators.posterior import DrawnBlock, Posterior
from sksvi.families import Dirichlet
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.chains import ChainLength, effective_draws, walk
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.mixture.sampler import MixtureDraw, MixtureSampler, given_counts

Array = np.ndarray

#: Draws at most and at least, and most looks at a cell and numbers of all draws, which leave fewer where data are many.
MOST, LEAST, LOOKS, NUMBERS = 240, 48, 2**25, 2**22
#: Numbers of the draws that are made at a time.
NUMBERS_AT_ONCE = 2**18
#: Looks of a sweep from which on rows are labelled side by side: two such sweeps go about as far as a collapsed one.
SHARED = 2**17
#: Independent draws that those of the weights are to be worth, and sweeps that all draws may take for it.
ENOUGH, SWEEPS = 16.0, 2**11
#: Largest sum of whole weights whose rows a chain takes as copies.
COPIES = 2**20
#: Tells the random numbers of a chain from those of a fit's passes.
CHAIN = 2**40


def copies(data: Any) -> Any:
    """Every row as often as its weight says; None where weights are no whole numbers or many, or rows elsewhere."""
    if not data.at_hand or data.weight is None:
        return data if data.at_hand else None
    if not (np.all(data.weight == np.rint(data.weight)) and 0.0 < data.weight.sum() <= COPIES):
        return None
    each = data.weight.astype(np.intp)
    return replace(data if np.all(each == 1) else data.take(np.repeat(np.arange(len(data)), each)), weight=None)


class UsedComponents:
    """The sampler over the components in use and one more, the others of q without rows.

    Parameters
    ----------
    problem : Problem
    q : dict of blocks
        Their components in the order of their rows.
    n_used : int
    """

    def __init__(self, problem: Problem, q: dict[str, Any], n_used: int) -> None:
        self.whole = cast(MixtureModel, problem.model)
        self.n = min(n_used + 1, self.whole.n_components)
        self.q = {name: block if name == "value_prior" else block[: self.n] for name, block in q.items()}
        model = MixtureModel(
            self.n,
            self.whole.layout.sizes,
            concentration=self.whole.share * self.n,
            value_prior=self.whole.value_prior,
            learns_prior=self.whole.learns_prior,
            binary=self.whole.binary,
        )
        data: Any = problem.data
        self.sampler, self.threads = MixtureSampler(model, data), problem.threads
        self.first = self.sampler.begin(self.q)
        #: Cells that a sweep looks at.
        self.looks = len(data) * self.n * max(len(model.layout.columns), 1)

    def begin(self, rng: np.random.Generator) -> MixtureDraw:
        """The most probable labels under q."""
        return self.first

    def sweep(self, point: MixtureDraw, rng: np.random.Generator, number: int) -> MixtureDraw:
        """The next labels."""
        if self.looks > SHARED:
            return self.sampler.side_by_side(point, rng, self.threads)
        return self.sampler.sweep(point, rng)[0]

    def ordered(self, point: MixtureDraw) -> MixtureDraw:
        """The draw with its components in the order of q, without labels."""
        order = self.order(point)
        return replace(point.globals, rows=point.rows[order], counts=point.counts[:, order])

    def weights(self, point: MixtureDraw, rng: np.random.Generator) -> Array:
        """Weights given the labels' counts; components that are left out have none."""
        drawn = Dirichlet(self.whole.share + point.rows).drawn(rng).value
        return np.append(drawn, np.zeros(self.whole.n_components - self.n)).astype(np.float32)

    def drawn(self, points: list[MixtureDraw], rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Array]]:
        """Probabilities given each draw of counts, (S, ...), and the sums of the means of all blocks."""
        rest = self.whole.n_components - self.n
        rows = np.pad(np.stack([point.rows for point in points]), ((0, 0), (0, rest)))
        counts = np.pad(np.stack([point.counts for point in points]), ((0, 0), (0, 0), (0, rest)))
        given = given_counts(self.whole, rows, counts, [point.log_prior for point in points])
        found = {name: given[name].drawn(rng).value.astype(np.float32) for name in self.whole.names}
        return found, {name: (block.theta / block.total).sum(0) for name, block in given.items()}

    def order(self, point: MixtureDraw) -> Array:
        """Components in the order of q: by how many rows they share with the first labels (Papastamoulis and Iliopoulos
        2010).

        A group that the one component more takes over row by row would change its name.
        """
        together = np.bincount(self.first.labels * self.n + point.labels, minlength=self.n**2)
        return linear_sum_assignment(together.reshape(self.n, self.n), maximize=True)[1]


def joint_posterior(problem: Problem, state: State, q: dict[str, Any], n_used: int) -> tuple[Posterior, Posterior]:
    """Draws of weights and probabilities, and q about the chain's means.

    Components in use come first, by their weights. The means are averages of those given the labels of each draw,
    which vary less than the draws do.

    Parameters
    ----------
    problem : Problem
        Of a fit to rows in memory, without weights.
    state : State
    q : dict of blocks
        In the order of the components' rows.
    n_used : int
    """
    chain, found = UsedComponents(problem, q, n_used), list[tuple[MixtureDraw, Array]]()
    numbers = sum(np.size(block.mean) for block in q.values())
    n = int(np.clip(min(LOOKS // chain.looks, NUMBERS // numbers), LEAST, MOST))
    rng = parallel.stream(state.seed, CHAIN, 0)

    def store(_: int, point: MixtureDraw) -> None:
        point = chain.ordered(point)
        found.append((point, chain.weights(point, rng)))

    point, thin = walk(chain, ChainLength(n // 4, n), rng, store), 1
    while 2 * thin * n <= SWEEPS and effective_draws(np.stack([weights for _, weights in found])) < ENOUGH:
        thin *= 2  # weights move slowly where rows are many and components overlap
        found[:] = found[1::2]
        point = walk(chain, ChainLength(0, n - len(found), thin), rng, store, point)
    # Some at a time: small tables' calls of NumPy take longer than their numbers, large ones' numbers fill the memory.
    some = max(1, NUMBERS_AT_ONCE // numbers)
    parts = [chain.drawn([point for point, _ in found[at : at + some]], rng) for at in range(0, n, some)]
    draws = {name: np.concatenate([drawn[name] for drawn, _ in parts]) for name in parts[0][0]}
    draws["weights"] = np.stack([weights for _, weights in found])
    means = {name: np.sum([total[name] for _, total in parts], axis=0) / n for name in draws}
    if problem.algorithm.spec.sampler:  # q is about the mean of a chain already, of more sweeps
        means = {name: q[name].theta / q[name].total for name in means}
    order = np.lexsort((-means["weights"], np.arange(len(means["weights"])) >= n_used))
    drawn = {name: DrawnBlock(draws[name][:, order]) for name in means}
    about = {name: q[name].of_theta((mean * q[name].total)[order]) for name, mean in means.items()}
    return Posterior(drawn), Posterior(about)
