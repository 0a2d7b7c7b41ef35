"""Weights and probabilities of a mixture by draws of their joint posterior, in a chain that begins at q."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment

from sksvi._runtime import parallel
from sksvi.estimators.posterior import DrawnBlock, Posterior
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.chains import ChainLength, effective_draws, walk
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.mixture.sampler import MixtureDraw, MixtureSampler, given_counts

Array = np.ndarray

#: Draws at most and at least, and most looks at a cell and numbers of all draws, which leave fewer where data are many.
MOST, LEAST, LOOKS, NUMBERS = 240, 48, 2**25, 2**22
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

    def drawn(self, point: MixtureDraw, rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Array]]:
        """Weights and probabilities given the labels, and their means; components that are left out have no weight."""
        rest, order = self.whole.n_components - self.n, self.order(point)
        rows = np.append(point.rows[order], np.zeros(rest))
        counts = np.pad(point.counts[:, order], ((0, 0), (0, rest)))
        given = given_counts(self.whole, rows, counts, point.log_prior)
        seed = np.random.RandomState(rng.integers(2**31))
        found = {name: given[name].sample(1, seed)[0].astype(np.float32) for name in self.whole.names}
        weights = given["weights"][: self.n].sample(1, seed)[0]
        blocks = {name: given[name] for name in ("weights", *self.whole.names)}
        means = {name: (block.theta / block.total).astype(np.float32) for name, block in blocks.items()}
        return {**found, "weights": np.append(weights, np.zeros(rest)).astype(np.float32)}, means

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
    chain, found = UsedComponents(problem, q, n_used), list[tuple[dict[str, Array], dict[str, Array]]]()
    numbers = sum(np.size(block.mean) for block in q.values())
    n = int(np.clip(min(LOOKS // chain.looks, NUMBERS // numbers), LEAST, MOST))
    rng = parallel.stream(state.seed, CHAIN, 0)

    def store(_: int, point: MixtureDraw) -> None:
        found.append(chain.drawn(point, rng))

    point, thin = walk(chain, ChainLength(n // 4, n), rng, store), 1
    while 2 * thin * n <= SWEEPS and effective_draws(np.stack([draw["weights"] for draw, _ in found])) < ENOUGH:
        thin *= 2  # weights move slowly where rows are many and components overlap
        found[:] = found[1::2]
        point = walk(chain, ChainLength(0, n - len(found), thin), rng, store, point)
    means = {name: np.mean([about[name] for _, about in found], axis=0, dtype=float) for name in found[0][1]}
    if problem.algorithm.spec.sampler:  # q is about the mean of a chain already, of more sweeps
        means = {name: q[name].theta / q[name].total for name in means}
    order = np.lexsort((-means["weights"], np.arange(len(means["weights"])) >= n_used))
    drawn = {name: DrawnBlock(np.stack([draw[name][order] for draw, _ in found])) for name in means}
    about = {name: q[name].of_theta((mean * q[name].total)[order]) for name, mean in means.items()}
    return Posterior(drawn), Posterior(about)
