"""Conditional distributions of the correlated topic model, for the chain of its joint posterior.

A document's state is η, moved on ellipses of its own q(η), these, and its covariates. The population is normal-inverse-
Wishart, Γ matrix-normal given Σ, with the pseudo-documents' weight and such a mean of Σ given η as the fit's own step
has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.families import Dirichlet, Population, RegressedPopulation
from sksvi.models.base import Blocks
from sksvi.models.chains import ChainLength, walk
from sksvi.models.topics.chain import BURN_IN, CHAIN, ChainDocuments, Round, TopicChain, TopicDraws
from sksvi.models.topics.correlated import PORTION_VISIT, CorrelatedTopics
from sksvi.models.topics.documents import design_of
from sksvi.models.topics.lda import LatentDirichlet
from sksvi.models.topics.lda_chain import LDASampler, as_points, symmetric_given

Array = np.ndarray

#: Nodes that q(η) is fitted to where its ellipses alone are wanted: with more chains mix no faster.
ELLIPSE_NODES = 16
#: Moves of a document in a round of the chain, and the standard deviations of q(η) that they are made on, times this.
MOVES, WIDENED = 1, 1.3
#: Where the symmetric α of the chain before starts, and what is added to a document's words for their logarithms.
FIRST_ALPHA, HALF = 0.3, 0.5
#: Draws of the regression on covariates, most rounds for each (they mix slowly where documents are short), and cells
#: times topics that all rounds visit, beyond which each draw has fewer.
REGRESSIONS, ROUNDS_EACH, VISITED = 256, 4, 2**31
#: Documents whose q(η) a thread finds at a time.
TOGETHER = 256


@dataclass
class OddsView:
    """Topics word by word (V, K), and N(μ + Bᵀz, Σ) by its precision."""

    topics: Array
    location: Array
    slopes: Array
    precision: Array


class CorrelatedSampler:
    """Documents, population and topics of the correlated topic model, each given the rest.

    Parameters
    ----------
    model : CorrelatedTopics
    eta : float, optional
        Where the concentration of topics' prior begins, the same for all words, which so has a posterior; None: it is
        the model's.
    """

    repeats = 1

    def __init__(self, model: CorrelatedTopics, eta: float | None = None) -> None:
        self.model, self.eta = model, eta

    def begin(self, topics: Array, prior: dict[str, Array], X: Any, threads: int) -> Array:
        """Mean, mean and widened standard deviation of each document's q(η), and covariates."""
        return self.ellipses(points(topics, prior), X, threads)

    def at_mean(self, draws: TopicDraws) -> Blocks:
        """Topics, μ and Σ⁻¹ as points at the means of draws."""
        return points(draws.mean_topics, draws.mean_prior)

    def ellipses(self, q: Any, X: Any, threads: int) -> Array:
        """States of documents at the mean of q(η), given q of the topics and the population."""
        width = self.model.n_topics - 1

        def one(part: slice) -> Array:
            found = self.model.documents(q, X[part], 1, True, ELLIPSE_NODES, PORTION_VISIT)
            mean, spread = found.local[:, :width], WIDENED * np.sqrt(np.square(found.roots).sum(1))
            return np.column_stack([mean, mean, spread, design_of(X[part])])

        return np.concatenate(list(parallel.in_order(one, parallel.slices(X.shape[0], TOGETHER), threads)))

    def settled(self, q: Any, corpus: ChainDocuments) -> Round:
        """Where the chain begins: where one of latent Dirichlet allocation, which mixes faster, has settled."""
        alpha = np.full(self.model.n_topics, FIRST_ALPHA)
        dirichlet = LatentDirichlet(*self.model.shape, alpha=alpha, eta=self.model.word_prior)
        at = LDASampler(dirichlet, "symmetric").settled({"topics": q["topics"]}, corpus)
        logs = np.log(at.states + HALF)
        population = self.given(logs[:, :-1] - logs[:, -1:], design_of(corpus.X))
        around = {"topics": Dirichlet(self.model.word_prior + at.counts), "population": population}
        prior = named_parts(population.location, population.slopes, population.precision)
        prior |= {} if self.eta is None else {"eta": np.array([self.eta])}
        return Round(at.topics, prior, self.ellipses(around, corpus.X, corpus.threads), at.counts)

    def drawn(self, q: Any, corpus: ChainDocuments) -> TopicDraws:
        """Draws of the joint posterior along a chain, once it has settled."""
        at = TopicChain(self, corpus, self.settled(q, corpus)).settled(BURN_IN, 2)
        found = TopicChain(self, corpus, at).drawn(3)
        if not self.model.n_covariates:
            return found
        return replace(found, regression=regressions(TopicChain(self, corpus, at)))

    def view(self, topics: Array, prior: dict[str, Array]) -> OddsView:
        """Topics and population as documents see them."""
        shown = np.ascontiguousarray(np.maximum(topics.T, np.finfo(np.float32).tiny))
        slopes = prior.get("slopes", np.zeros((0, len(prior["location"]))))
        return OddsView(shown, prior["location"], slopes, np.ascontiguousarray(prior["precision"]))

    def sweep(self, view: OddsView, X: Any, state: Array, key: int, streams: Array, counts: Array) -> None:
        """Move η, and draw the topics of words, in place."""
        from sksvi.models.topics.loops.draws import move_documents

        words = np.ascontiguousarray(X.data, np.float64)
        location = view.location + state[:, 3 * len(view.location) :] @ view.slopes
        move_documents(
            X.indptr, X.indices, words, view.topics, location, view.precision, MOVES, key, streams, state, counts
        )  # fmt: skip

    def word_prior(self, prior: dict[str, Array]) -> Array:
        """Concentrations of the topics' prior."""
        return prior.get("eta", self.model.word_prior)

    def given(self, eta: Array, design: Array) -> Population:
        """The population's block given all η and covariates."""
        ahead, own = np.column_stack([np.ones(len(eta)), design, eta]), self.model.prior({})["population"]
        return own.of_theta(own.theta + ahead.T @ ahead)

    def prior_given(
        self, states: Array, prior: dict[str, Array], counts: Array, rng: np.random.Generator
    ) -> dict[str, Array]:
        """μ, B and Σ⁻¹ given all η, and the concentration of topics' prior given their words."""
        width = self.model.n_topics - 1
        found = drawn_population(self.given(states[:, :width], states[:, 3 * width :]), rng)
        if "eta" in prior:
            found["eta"] = np.array([symmetric_given(counts, float(prior["eta"][0]), rng)])
        return found

    def proportions(self, view: OddsView, state: Array, key: int) -> Array:
        """θ of the states."""
        full = np.column_stack([state[:, : self.model.n_topics - 1], np.zeros(len(state))])
        theta = np.exp(full - full.max(1, keepdims=True))
        return np.asarray(theta / theta.sum(1, keepdims=True))[None]


def named_parts(location: Array, slopes: Array, precision: Array) -> dict[str, Array]:
    """The prior of proportions by name; slopes where there are covariates."""
    beside = {"slopes": slopes} if len(slopes) else {}
    return {"location": location, **beside, "precision": precision}


def points(topics: Array, prior: dict[str, Array]) -> Blocks:
    """Blocks of topics and a population that have hardly any spread."""
    scale = np.linalg.inv(prior["precision"])
    if "slopes" in prior:
        population: Population = RegressedPopulation.around(np.vstack([prior["location"], prior["slopes"]]), scale)
    else:
        population = Population.of(1.0, prior["location"], scale)
    return {"topics": as_points(topics), "population": population}


def regressions(chain: TopicChain) -> dict[str, Array]:
    """Draws of μ, B and Σ⁻¹ from many rounds: they are few numbers, and effects need more draws than topics do."""
    found: list[dict[str, Array]] = []
    cost = REGRESSIONS * chain.corpus.X.nnz * len(chain.first.topics)
    length = ChainLength(0, REGRESSIONS, int(np.clip(VISITED // max(cost, 1), 1, ROUNDS_EACH)))
    walk(chain, length, parallel.stream(chain.corpus.seed, CHAIN, 4), lambda _, at: found.append(at.prior))
    return {name: np.stack([own[name] for own in found]) for name in found[0]}


def drawn_population(given: Population, rng: Any) -> dict[str, Array]:
    """μ, B and Σ⁻¹ under a normal-Wishart of these sums."""
    width = len(given.location)
    freedom = given.size + width + 1.0  # under which Σ has the mean that the fit's own step gives it
    precision = wishart(freedom, given.root / np.sqrt(given.size), rng)
    root = np.linalg.cholesky(precision).T
    if not isinstance(given, RegressedPopulation):
        noise = np.linalg.solve(root, rng.standard_normal(width))
        return {"location": given.location + noise / np.sqrt(given.size), "precision": precision}
    noise = np.linalg.solve(root, rng.standard_normal((width, len(given.gram)))).T
    coefficients = given.coefficients + np.linalg.solve(np.linalg.cholesky(given.gram).T, noise)
    return named_parts(coefficients[0], coefficients[1:], precision)


def wishart(freedom: float, root: Array, rng: Any) -> Array:
    """A Wishart matrix of mean `freedom` rootᵀroot, by Bartlett's decomposition; root is lower triangular."""
    p = len(root)
    lower = np.tril(rng.standard_normal((p, p)), -1)
    lower[np.diag_indices(p)] = np.sqrt(rng.chisquare(freedom - np.arange(p)))
    half = root.T @ lower
    return np.asarray(half @ half.T)
