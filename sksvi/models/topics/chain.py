"""Markov chains of a topic model's joint posterior that begin at q: documents, topics and their priors in turn.

q has each document independent of the topics, and proportions independent of the words' topics, so that it is too
narrow. A chain that begins there has both again: topics are drawn given the topics of words, what their priors learn
given the documents, and these given all of it (Griffiths and Steyvers 2004, with topics drawn and not integrated out,
so that documents move side by side). Proportions are then a mixture over the draws of topics and priors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from sksvi._runtime import parallel
from sksvi.models.chains import ChainLength, walk

Array = np.ndarray
Prior = dict[str, Array]

#: Draws that are stored, and fewest where those of all topics would be more numbers than so many.
STORED, FEWEST, MOST_NUMBERS = 32, 16, 2**22
#: Rounds that are left out, and of which one is stored: of documents of fewer words than `SHORT` in the mean, whose
#: topics mix slowest and whose rounds cost least, and of others.
SHORT_BURN_IN, BURN_IN, SHORT_THIN, THIN, SHORT = 96, 16, 2, 1, 20.0
#: Documents whose proportions are drawn together, and rounds of theirs that are left out.
TOGETHER, SETTLING = 64, 6
#: Draws of a document's proportions at least.
PROPORTIONS = 256
#: Tells the random numbers of a chain from those of a fit's passes.
CHAIN = 2**40


@dataclass(frozen=True)
class TopicDraws:
    """Draws of a joint posterior, each of topics and of the prior of proportions.

    Parameters
    ----------
    topics : ndarray of shape (S, K, V)
        32-bit floats.
    prior : dict of str to ndarray
        What proportions' prior has, each (S, ...).
    words : ndarray of shape (K,), default=None
        Mean number of words that each topic has; None: of a file that is older, as below.
    means : ndarray of shape (K, V), default=None
        Mean of the topics given the topics of words of each draw, which differ less from draw to draw than topics do.
    regression : dict of str to ndarray, default=None
        The same as `prior`, each (R, ...) from more rounds, where proportions depend on covariates.
    """

    LAYOUT = """
        topics (S,k,v) x >=0; prior dict; prior[*] (S,…) f; words? (k) f; means? (k,v) f
        regression? dict; regression[*]? (R,…) f
    """

    topics: Array
    prior: Prior
    words: Array | None = None
    means: Array | None = None
    regression: Prior | None = None

    def __len__(self) -> int:
        return len(self.topics)

    def prior_at(self, s: int) -> Prior:
        """The prior of draw s."""
        return {name: values[s] for name, values in self.prior.items()}

    @cached_property
    def mean_topics(self) -> Array:
        """Means (K, V) of the topics."""
        return np.asarray(self.topics.mean(0, dtype=float)) if self.means is None else self.means

    @property
    def mean_prior(self) -> Prior:
        """Means of what the prior has."""
        return {name: values.mean(0) for name, values in self.prior.items()}


class DocumentSampler(Protocol):
    """Conditional distributions of a topic model, for its chain.

    ``repeats`` : draws of proportions at each state of a document.
    """

    repeats: int

    def begin(self, topics: Array, prior: Prior, X: Any, threads: int) -> Array:
        """States (n, w) of documents at topics (K, V) and a prior."""
        ...

    def view(self, topics: Array, prior: Prior) -> Any:
        """Topics and prior as documents see them."""
        ...

    def sweep(self, view: Any, X: Any, state: Array, key: int, streams: Array, counts: Array) -> None:
        """Move the states of documents, in place; the words of each topic are added to counts (V, K) where it has rows.

        ``streams`` : a number per document that names its random numbers.
        """
        ...

    def word_prior(self, prior: Prior) -> Array:
        """Concentrations of the topics' Dirichlet prior, (1,) or (K, V)."""
        ...

    def prior_given(self, states: Array, prior: Prior, counts: Array, rng: np.random.Generator) -> Prior:
        """The prior given the documents, and what topics' prior learns."""
        ...

    def proportions(self, view: Any, state: Array, key: int) -> Array:
        """Draws (repeats, n, K) of proportions given the states."""
        ...


class Round(NamedTuple):
    """Where a chain is: topics (K, V), prior, states (n, w) of documents, words (K, V) of the topics."""

    topics: Array
    prior: Prior
    states: Array
    counts: Array


class ChainDocuments:
    """Documents of a chain in chunks, each with its words and its part of the matrix.

    Parameters
    ----------
    X : CSR matrix of shape (n, V)
    rows : list of ndarray
    seed, threads : int

    ``burn_in`` , ``thin`` : rounds that are left out, and of which one is stored.
    """

    def __init__(self, X: Any, rows: list[Array], seed: int, threads: int) -> None:
        self.X, self.seed, self.threads = X, seed, threads
        parts = ((part, X[part]) for part in rows)
        self.parts = [(part, words := np.unique(own.indices), own[:, words]) for part, own in parts]
        short = X.sum() < SHORT * X.shape[0]
        self.burn_in, self.thin = (SHORT_BURN_IN, SHORT_THIN) if short else (BURN_IN, THIN)


@dataclass(frozen=True)
class TopicChain:
    """Rounds of conditional draws from a point on: documents, then their prior, then topics."""

    sampler: DocumentSampler
    corpus: ChainDocuments
    first: Round

    def begin(self, rng: np.random.Generator) -> Round:
        """The point where the chain begins."""
        return self.first

    def sweep(self, point: Round, rng: np.random.Generator, number: int) -> Round:
        """The point after a round; every document has random numbers of its own."""
        sampler, states, adding = self.sampler, point.states.copy(), Lock()
        # Word by word: what a chunk takes of its words, and adds to them, lies in one piece.
        key, topics = int(rng.integers(2**62)), np.ascontiguousarray(point.topics.T)
        by_word = np.zeros(topics.shape)

        def one(item: tuple[Array, Array, Any]) -> None:
            rows, words, part = item
            state, own = states[rows], np.zeros((len(words), topics.shape[1]))
            sampler.sweep(sampler.view(topics[words].T, point.prior), part, state, key, rows, own)
            states[rows] = state
            with adding:  # whole numbers: in any order they have the same sum
                by_word[words] += own

        list(parallel.in_order(one, self.corpus.parts, self.corpus.threads))
        prior = sampler.prior_given(states, point.prior, by_word.T, rng)
        topics = drawn_topics(by_word, sampler.word_prior(prior), int(rng.integers(2**62)), self.corpus.threads)
        return Round(topics.T, prior, states, by_word.T)

    def settled(self, n: int, phase: int) -> Round:
        """The point after n rounds; phase: a number that no other part of the chain has."""
        rng = parallel.stream(self.corpus.seed, CHAIN, phase)
        return walk(self, ChainLength(n, 0), rng, lambda number, at: None)

    def drawn(self, phase: int) -> TopicDraws:
        """Evenly spaced rounds, fewer of many topics and words."""
        n = n_stored(self.first.topics.size)
        shape, words, priors = self.first.topics.shape, [], []
        topics, means = np.empty((n, *shape), np.float32), np.zeros(shape)

        def store(number: int, point: Round) -> None:
            nonlocal means
            topics[number] = point.topics
            words.append(point.counts.sum(1))
            concentration = point.counts + self.sampler.word_prior(point.prior)
            means += concentration / (n * concentration.sum(1, keepdims=True))
            priors.append(point.prior)

        length = ChainLength(0, n, self.corpus.thin * STORED // n)
        walk(self, length, parallel.stream(self.corpus.seed, CHAIN, phase), store)
        prior = {name: np.stack([own[name] for own in priors]) for name in priors[0]}
        return TopicDraws(topics, prior, np.mean(words, 0), means)


def drawn_topics(by_word: Array, prior: Array, key: int, threads: int) -> Array:
    """Topics (V, K) given the topics of words, Dirichlet; every block of words has random numbers of its own."""
    drawn, own = np.empty(by_word.shape), np.broadcast_to(prior, by_word.T.shape).T

    def one(part: slice) -> Array:
        parallel.stream(key, CHAIN, part.start).standard_gamma(by_word[part] + own[part], out=drawn[part])
        return np.asarray(drawn[part].sum(0))

    drawn /= parallel.summed(one, parallel.slices(len(drawn), parallel.chunk_rows(by_word.shape[1], False)), threads)
    return drawn


def n_stored(numbers: float) -> int:
    """How many draws are stored of topics of so many numbers."""
    return int(np.clip(MOST_NUMBERS // numbers, FEWEST, STORED))


def _key(seed: int, number: int) -> int:
    return int(parallel.stream(seed, number, 1).integers(2**62))


def matched(topics: Array, others: Array) -> Array:
    """Which of the topics is each of the others, (K,): the assignment of the least distance in sum."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    off = cdist(np.ascontiguousarray(others), np.ascontiguousarray(topics), "cityblock")
    return np.asarray(linear_sum_assignment(off)[1])


def drawn_proportions(
    sampler: DocumentSampler, draws: TopicDraws, X: Any, threads: int
) -> Iterator[tuple[slice, Array]]:
    """Documents in blocks, and draws (T, n, K) of their proportions: the same whatever the other documents are."""
    states = sampler.begin(draws.mean_topics, draws.mean_prior, X, threads)
    words = np.unique(X.indices)
    X, topics = X[:, words], draws.topics[:, :, words]
    each = -(-PROPORTIONS // (len(draws) * sampler.repeats))
    views = [sampler.view(topics[s].astype(float), draws.prior_at(s)) for s in range(len(draws))]

    def one(part: slice) -> Array:
        rows, state, none = X[part], states[part], np.empty((0, topics.shape[1]))
        streams, found = np.zeros(len(state), np.int64), []
        for number in range(SETTLING):
            sampler.sweep(views[number % len(views)], rows, state, _key(0, number), streams, none)
        for s, view in enumerate(views):
            for again in range(each):
                key = _key(1 + again, s)
                sampler.sweep(view, rows, state, key, streams, none)
                found.append(sampler.proportions(view, state, key))
        return np.concatenate(found)

    parts = parallel.slices(X.shape[0], TOGETHER)
    yield from zip(parts, parallel.in_order(one, parts, threads), strict=True)
