"""Conditional distributions of latent Dirichlet allocation, for the chain of its joint posterior.

A document's state is N (K,), its words from each topic. It is moved by a draw θ ~ Dir(α + N), topics of all words given
θ, and a sweep over the words with θ integrated out. α and η are moved by slices of their log density given N.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from sksvi.families import Dirichlet, Point
from sksvi.models.base import Blocks
from sksvi.models.chains import sliced
from sksvi.models.topics.chain import ChainDocuments, Round, TopicChain, TopicDraws, matched
from sksvi.models.topics.lda import LatentDirichlet, LDAView

Array = np.ndarray

#: Median of α where nothing is given, of η where it is learned, and the standard deviation of their logarithms.
MEDIAN, WIDTH = 0.1, 2.0
#: Sweeps over the words of a document, θ integrated out, after topics of words are drawn given θ.
SWEEPS = 2
#: Topics up to which they are all visited for a word, one by one.
FEW = 32


class LDASampler:
    """Documents, α, η and topics of latent Dirichlet allocation, each given the rest.

    Parameters
    ----------
    model : LatentDirichlet
    alpha : {"auto", "symmetric", ""}
        Whether α has a posterior: a number per topic, one, or none.
    eta : float, optional
        Where η begins, which so has a posterior though q has no block of it.
    """

    repeats = 8

    def __init__(self, model: LatentDirichlet, alpha: str, eta: float | None = None) -> None:
        self.model, self.alpha, self.eta = model, alpha, eta

    def first_prior(self, q: Any) -> dict[str, Array]:
        """α as q has it, and η where it has a posterior."""
        first = {"alpha": np.array(self.model.alpha_of(q), float)}
        eta = np.exp(q["eta"].value) if "eta" in q else self.eta
        return first if eta is None else {**first, "eta": np.atleast_1d(eta)}

    def begin(self, topics: Array, prior: dict[str, Array], X: Any, threads: int) -> Array:
        """Expected N of documents."""
        q: Blocks = {"topics": as_points(topics), "alpha": Point(np.log(prior["alpha"]))}
        return self.model.with_local("cvb0").documents(q, X, threads).local

    def at_mean(self, draws: TopicDraws) -> Blocks:
        """Topics, and α and η where they were drawn, as points at the means of draws."""
        prior = {name: Point(np.log(mean)) for name, mean in draws.mean_prior.items() if name == "eta" or self.alpha}
        return {"topics": as_points(draws.mean_topics), **prior}

    def settled(self, q: Any, corpus: ChainDocuments) -> Round:
        """The chain after the rounds that are left out, its topics in the order of those of q."""
        topics, prior = q["topics"].mean, self.first_prior(q)
        states = self.begin(topics, prior, corpus.X, corpus.threads)
        chain = TopicChain(self, corpus, Round(topics, prior, states, np.zeros_like(topics)))
        at = chain.settled(corpus.burn_in, 0)
        own = matched(at.topics, topics)
        prior = {**at.prior, "alpha": at.prior["alpha"][own]}
        return Round(at.topics[own], prior, at.states[:, own], at.counts[own])

    def drawn(self, q: Any, corpus: ChainDocuments) -> TopicDraws:
        """Draws of the joint posterior along a chain, once it has settled."""
        return TopicChain(self, corpus, self.settled(q, corpus)).drawn(1)

    def view(self, topics: Array, prior: dict[str, Array]) -> LDAView:
        """Topics as documents see them."""
        return self.model.view_at(topics, prior["alpha"])

    def sweep(self, view: LDAView, X: Any, state: Array, key: int, streams: Array, counts: Array) -> None:
        """Draw θ, then the topics of words, in place."""
        from sksvi.models.topics.loops.cells import TOGETHER
        from sksvi.models.topics.loops.draws import few_topics, gamma_numbers
        from sksvi.models.topics.loops.gibbs import gibbs_documents

        none = np.empty((0, state.shape[1]))
        shares = np.empty_like(state)
        gamma_numbers(view.alpha, state, key, streams, shares)
        state[:] = shares - view.alpha  # a document's words begin at α + N, which so is θ up to its sum
        words = np.ascontiguousarray(X.data, np.float64)
        documents = X.indptr, X.indices, words, view.topics
        if state.shape[1] <= FEW and words.max(initial=0.0) < TOGETHER:
            few_topics(*documents, view.alpha, key, streams, state, counts)
            return
        gibbs_documents(
            *documents, view.rest, view.alpha, SWEEPS - 1, 1, 0, key, streams, state, none, none, counts
        )  # fmt: skip

    def word_prior(self, prior: dict[str, Array]) -> Array:
        """Concentrations of the topics' prior."""
        return prior.get("eta", self.model.eta)

    def prior_given(
        self, states: Array, prior: dict[str, Array], counts: Array, rng: np.random.Generator
    ) -> dict[str, Array]:
        """α given the documents, and η given the words of topics."""
        found = dict(prior)
        if self.alpha == "symmetric":
            found["alpha"] = np.full(len(prior["alpha"]), symmetric_given(states, prior["alpha"][0], rng))
        elif self.alpha:
            found["alpha"] = each_given(states, prior["alpha"], rng)
        if "eta" in prior:
            found["eta"] = np.array([symmetric_given(counts, float(prior["eta"][0]), rng)])
        return found

    def proportions(self, view: LDAView, state: Array, key: int) -> Array:
        """Draws of θ ~ Dir(α + N)."""
        from sksvi.models.topics.loops.draws import gamma_numbers

        out = np.empty((self.repeats, *state.shape))
        for again in range(self.repeats):
            gamma_numbers(view.alpha, state, key + 1 + again, np.zeros(len(state), np.int64), out[again])
        return np.asarray(out / out.sum(2, keepdims=True))


#: Counts of a topic that is a point, but for rounding, and of its words of probability 0.
CERTAIN, NONE = 1e9, 1e-9


def as_points(topics: Array) -> Dirichlet:
    """Topics (K, V) as a block that has hardly any spread."""
    return Dirichlet(CERTAIN * topics + NONE)


def _of_counts(counts: Array) -> tuple[Array, Array]:
    """Which whole numbers above 0 there are, and how often: those of 0 have no share in a density."""
    counts = counts.ravel("K")  # as they lie
    return np.unique(np.rint(counts[counts > 0.5]), return_counts=True)


def _rising(a: float, counts: tuple[Array, Array]) -> float:
    """Σ log Γ(a + N)/Γ(a)."""
    values, times = counts
    return float(times @ (gammaln(a + values) - gammaln(a)))


def _log_prior(x: float) -> float:
    return float(-0.5 * np.square((x - np.log(MEDIAN)) / WIDTH))


def symmetric_given(counts: Array, value: float, rng: np.random.Generator) -> float:
    """The concentration of rows of counts (n, K), the same for all columns: a move of its chain."""
    K, own, rows = counts.shape[1], _of_counts(counts), _of_counts(counts.sum(1))

    def density(x: float) -> float:
        return _rising(np.exp(x), own) - _rising(K * np.exp(x), rows) + _log_prior(x)

    return float(np.exp(sliced(density, float(np.log(value)), rng)))


def each_given(counts: Array, values: Array, rng: np.random.Generator) -> Array:
    """The concentrations of rows of counts (n, K), one for each column: a move of each."""
    found, rows = np.array(values, float), _of_counts(counts.sum(1))
    for k in range(len(found)):
        own, others = _of_counts(counts[:, k]), found.sum() - found[k]

        def density(x: float, own: Any = own, others: float = others) -> float:
            return _rising(np.exp(x), own) - _rising(others + np.exp(x), rows) + _log_prior(x)

        found[k] = np.exp(sliced(density, float(np.log(found[k])), rng))
    return found
