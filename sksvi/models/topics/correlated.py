"""The correlated topic model (doc/topics.md): topics and the population of proportions are global, documents local.

η_d ~ N(μ + Bᵀz_d, Σ) over K - 1 log odds against the last topic, z_d the covariates of a document, θ_d =
softmax(η_d, 0), words of document d ~ θ_dᵀβ. A document's q(η_d) = N(m_d, S_d) is fitted inside `terms` by compiled
loops (`LOCAL_STEPS`); what it says about the topics is expected counts, about (μ, B, Σ) sums of moments.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.families import Dirichlet, Population, RegressedPopulation, Simplex
from sksvi.models.base import Local
from sksvi.models.data import Table
from sksvi.models.topics.documents import TopicLogs, design_of
from sksvi.models.topics.lda import document_chunks
from sksvi.models.topics.loops import records
from sksvi.models.topics.loops.records import Effort, Rates
from sksvi.models.topics.scores import shares_of_topics
from sksvi.models.traits import BoundTraits, StepTraits, Traits, Warmup
from sksvi.schedules import AdaGrad, RobbinsMonro

Array = np.ndarray

BOUNDS = {"optimal": 0, "simple": 1, "mean-field": 2}
#: Rates of stochastic steps when none is given (chosen on topic_split(seed=1) of the NIPS papers).
STEP_RATE = RobbinsMonro(delay=3.0, kappa=0.5)
#: Local steps by rule; a fit compiles its own only.
LOCAL_STEPS = {
    "natural": "newton_documents",
    "hybrid": "hybrid_documents",
    "standard": "standard_documents",
    "messages": "message_documents",
}
#: Sets of nodes that documents share in turn, and nodes of a set: pairs of opposite points with unit second moments.
NODE_SETS, NODES = 256, 4
#: Nodes where a document's posterior is asked for: transform and scores.
EXACT_NODES = 32
#: Nodes that judge a fit at its end: its own few were fitted to, and overstate the bound.
JUDGING_NODES = 64
#: Steps that give the nodes of one log odds the moments of a normal distribution, and the longest.
MATCHING_STEPS, LONGEST_MATCHING = 50, 0.1
#: Seed of the nodes that are the same in every fit.
NODE_SEED = 20261121
#: Numbers of a chunk's covariances at most.
CHUNK_NUMBERS = 2**24
#: Rounds (mean, then covariance), Newton steps and gain (nats) that ends them, for documents that are visited again.
VISIT = Effort(2, 6, 0.01)
#: The same in fits of all documents at once, whose bounds are compared: Newton steps, and other rules.
BATCH_VISIT, BATCH_STEPS = Effort(1, 6, 1e-3), Effort(3, 20, 1e-4, judged=True)
#: The same for the documents of a chunk.
PORTION_VISIT = Effort(2, 20, 1e-2)
#: The same for a document's posterior as such.
SETTLE = Effort(3, 50, 1e-5)
#: Documents of a block whose posteriors are asked for.
POSTERIOR_CHUNK = 64
#: Documents whose covariances are in memory while bounds are compared.
JUDGED_TOGETHER = 1024
#: AdaGrad's steps of a visit.
GRADIENT_STEPS = 10
#: Passes over mini-batches in which documents see E β and not exp(E log β), which would starve the rare words of topics
#: that have not formed yet. Chosen on topic_split(seed=1) of the NIPS papers.
FORMING_PASSES = 12
#: Standard deviation of the log odds at the start, and of those of a document for s-dsvi.
FIRST_SPREAD, FIRST_ROOT = 1.0, 0.5


@dataclass
class CorrelatedView:
    """What documents see of the globals: topics word by word (V, K), the factor per word taken out, N(μ + Bᵀz, Σ).

    ``bounded`` is what their terms of the bound are taken at where that is not what their q(η) is fitted to, ``place``
    where a word is.
    """

    topics: Array
    offset: Array
    population: Population
    bounded: CorrelatedView | None = None
    place: Array = field(default_factory=lambda: np.empty(0, np.int32))

    def prior(self, design: Array) -> records.LogOddsPopulation:
        """Distribution of the log odds of documents with these covariates (n, D)."""
        found = self.population
        location = found.location + design @ found.slopes
        return records.LogOddsPopulation(location, np.ascontiguousarray(found.precision), found.log_det())


@dataclass
class CorrelatedTerms:
    """Per document its term of the bound (nats) and its local state; sums of expected counts and of moments."""

    value: Array
    local: Array
    counts: Array
    moments: Array
    repairs: int = 0
    proportions: Array = field(default_factory=lambda: np.empty((0, 0)))
    deviations: Array = field(default_factory=lambda: np.empty((0, 0)))
    roots: Array = field(default_factory=lambda: np.empty((0, 0, 0)))


@dataclass
class CorrelatedDocuments:
    """Rows of a block as CSR parts, their covariates (n, D), the nodes that each uses, where local variables start."""

    indptr: Array
    indices: Array
    data: Array
    design: Array
    first_node: Array
    start: Array

    def __len__(self) -> int:
        return len(self.indptr) - 1


def paired_nodes(sets: int, size: int, width: int, rng: Any) -> Array:
    """(sets, size, width) standard normal nodes in opposite pairs, each coordinate with second moment 1."""
    half = rng.standard_normal((sets, max(size // 2, 1), width))
    half /= np.sqrt(np.square(half).mean(1, keepdims=True))
    return np.concatenate([half, -half], axis=1)


def judging_nodes(width: int) -> Array:
    """(1, S, width) nodes of equal weight that no document is fitted to; of one log odds they are a rule.

    The rule is exact for polynomials of degree 9: quantiles, moved by the least that gives them a normal's moments.
    """
    from scipy.special import factorial2, ndtri

    if width != 1:
        return paired_nodes(1, JUDGING_NODES, width, np.random.default_rng(NODE_SEED + 1))
    orders = np.array([[2], [4], [6], [8]])
    half, moments = -ndtri((np.arange(JUDGING_NODES) + 0.5) / (2 * JUDGING_NODES)), factorial2(orders[:, 0] - 1)
    for _ in range(MATCHING_STEPS):
        slopes = orders * half ** (orders - 1) / (len(half) * moments[:, None])
        step = np.linalg.lstsq(slopes, 1.0 - (half**orders).mean(1) / moments, rcond=None)[0]
        half = half + step * min(1.0, LONGEST_MATCHING / max(np.abs(step).max(), LONGEST_MATCHING))
    return np.concatenate([half, -half])[None, :, None]


class CorrelatedTopics(Local):
    """Model of counts by topics whose log odds are Gaussian.

    Parameters
    ----------
    n_topics, n_words : int
    bound : {"optimal", "simple", "mean-field"}
    topics : {"dirichlet", "point", "sampled", "adagrad"}
    word_prior : ndarray of shape (K, V)
        Prior concentrations of the topics; for points the exponent e of the prior Dir(1 + e).
    pseudo_documents : float
        Weight of the prior of (μ, Σ): documents of mean 0 and covariance I.
    full : bool
        Whether the covariance of q(η_d) is full.
    rule : {"natural", "hybrid", "standard", "messages"}
        Steps of q(η_d) in a fit.
    adagrad : AdaGrad, default=None
        Of the rules "hybrid" and "standard": a third of its rate is that of documents' means, a thirtieth that of their
        Cholesky factors. None: ``AdaGrad()``.
    start : ndarray of shape (K, V)
        First expected counts of the topics.
    n_covariates : int
        D; their slopes have a prior that is worth one document, none without pseudo-documents.
    """

    def __init__(
        self,
        n_topics: int,
        n_words: int,
        *,
        bound: str = "optimal",
        topics: str = "dirichlet",
        word_prior: Array,
        pseudo_documents: float,
        full: bool,
        rule: str = "natural",
        adagrad: AdaGrad | None = None,
        start: Array | None = None,
        n_covariates: int = 0,
    ) -> None:
        self.n_topics, self.n_words, self.bound, self.topics = n_topics, n_words, bound, topics
        self.word_prior, self.pseudo_documents, self.full, self.rule = word_prior, pseudo_documents, full, rule
        self.start, self.n_covariates = start, n_covariates
        self.nodes = paired_nodes(NODE_SETS, NODES, n_topics - 1, np.random.default_rng(NODE_SEED))
        self.visit, self.rates = VISIT, Rates.of(AdaGrad() if adagrad is None else adagrad)
        #: Nodes that documents' terms of the bound are taken at, where these are not those that they are fitted to.
        self.judges: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Topics and words."""
        return self.n_topics, self.n_words

    # ---- blocks
    def _topics(self, values: Array) -> Any:
        """The topics' block with these concentrations or counts."""
        if self.topics in ("point", "adagrad"):
            return Simplex(values, by_gradient=self.topics == "adagrad")
        return Dirichlet(values)

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """Dirichlet of each topic, and the pseudo-documents."""
        return self._prior

    @cached_property
    def _prior(self) -> dict[str, Any]:
        n = self.pseudo_documents
        return {"topics": self._topics(self.word_prior), "population": self._centred_population(n, min(n, 1.0), 1.0)}

    def _centred_population(self, n: float, of_slopes: float, variance: float) -> Population:
        """n members of mean 0, whatever their covariates, which inform slopes as `of_slopes` members do."""
        width, D = self.n_topics - 1, self.n_covariates
        if not D:
            return Population.of(n, np.zeros(width), variance * np.eye(width))
        return RegressedPopulation(np.diag([n, *[of_slopes] * D, *[n * variance] * width]), D)

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """The topics at their start, log odds around 0."""
        n = float(len(data))
        first = self._centred_population(n, n, FIRST_SPREAD**2)
        return {"topics": self._topics(self.word_prior + self.start), "population": first}

    def local_begin(self, data: Table) -> Array:
        """Documents at equal proportions, AdaGrad's sums empty."""
        return self._fresh(len(data))

    def _fresh(self, n: int) -> Array:
        width = self.n_topics - 1
        square = width**2 if self.full else width
        more = {"natural": width, "hybrid": width + square, "standard": width + 2 * square, "messages": width + square}
        state = np.zeros((n, width + more[self.rule]))
        if self.rule == "standard":
            root = FIRST_ROOT * np.eye(width)
            state[:, 2 * width : 2 * width + square] = root.ravel() if self.full else root.diagonal()
        return state

    @property
    def globals(self) -> str:  # type: ignore[override]
        """How documents see the topics: a draw with its gradient where topics are sampled, else expectations."""
        return "corrected" if self.topics == "sampled" else "expected"

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Topics that are Dirichlet have a warm-up at E β: expectations of logarithms would starve rare words."""
        return Traits(
            bound=BoundTraits(slack=1e-6),  # covariances of documents settle round by round
            warmup=Warmup(FORMING_PASSES if self.topics == "dirichlet" else 0),
            steps=StepTraits(STEP_RATE),
            remedy="Raise topic_word_prior or covariance_prior.",
            # The steps of q(η_d), and its covariance's form.
            local_rule=f"{self.rule}, {'full' if self.full else 'diag'}",
        )

    # ---- rows
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """Equal shares of the documents; a chunk's statistics are as large as the topics, so there are few."""
        return document_chunks(rows, data, self.shape, CHUNK_NUMBERS // self.n_topics**2)

    def batch(self, data: Table, rows: Array, start: Array | None = None) -> CorrelatedDocuments:
        """CSR parts of the rows, and where their log odds start."""
        part = data.X[rows]
        start = self._fresh(len(rows)) if start is None else start
        counts = np.ascontiguousarray(part.data, np.float64)
        nodes = (data.first + np.asarray(rows)) % len(self.nodes)
        return CorrelatedDocuments(part.indptr, part.indices, counts, design_of(part), nodes, start)

    def view(self, q: dict[str, Any], rng: Any) -> TopicLogs:
        """E log β, log β, or the logarithm of a draw."""
        return TopicLogs.drawn(q["topics"], q["population"], rng)

    def narrowed(self, view: TopicLogs, data: Table, rows: Any) -> Any:
        """Topics as documents see them, of the words that they have."""
        return view.narrowed(self, data.X, rows)

    def view_of(self, logs: Array, population: Any) -> CorrelatedView:
        if self.bound == "simple":
            topics, offset = np.ascontiguousarray(logs.T), np.zeros(logs.shape[1])
        else:
            offset = logs.max(0)
            offset[~np.isfinite(offset)] = 0.0
            topics = np.ascontiguousarray(np.exp(logs - offset).T)
        return CorrelatedView(topics, offset, population)

    def terms(self, view: CorrelatedView, batch: CorrelatedDocuments, expect: Any, rng: Any) -> CorrelatedTerms:
        """Local posteriors of the documents, continued from where they started, and their sums for the gradient."""
        nodes, first, batch = self.nodes, batch.first_node, replace(batch, indices=view.place[batch.indices])
        if not expect.exact:
            nodes = rng.standard_normal((len(batch), expect.n, self.n_topics - 1))
            first = np.arange(len(batch))
        effort = self.visit._replace(rates=self.rates)
        if self.rule in ("hybrid", "standard"):
            effort = effort._replace(steps=GRADIENT_STEPS)
        return self.settled(view, batch, nodes, first, self.rule, effort, True, False)

    def settled(
        self,
        view: CorrelatedView,
        batch: CorrelatedDocuments,
        nodes: Array,
        first: Array,
        rule: str,
        effort: Effort,
        sums: bool,
        posterior: bool,
        roots: bool = False,
    ) -> CorrelatedTerms:
        """Run the compiled local step of the documents; the last three arguments choose what is computed beside it."""
        from sksvi.models.topics.loops import correlated as loops
        from sksvi.models.topics.loops.bound import sum_documents

        local_step = getattr(loops, LOCAL_STEPS[rule])
        n, K = len(batch), self.n_topics
        counts = np.zeros((len(view.topics), K) if sums else (0, 0))
        moments = np.zeros((K, K) if sums else (0, 0))
        shape = (n, K) if posterior else (0, 0)
        found = records.Sums(np.zeros(n), np.zeros(shape), np.zeros(shape), counts, moments)
        local, factors = np.array(batch.start, float), np.zeros((n, K - 1, K - 1))
        corpus = records.Corpus(batch.indptr, batch.indices, batch.data, nodes, first)
        prior = view.prior(batch.design)
        bound = BOUNDS[self.bound]
        repairs = local_step(corpus, view.topics, prior, bound, self.full, effort, local, factors)
        bound_view = view.bounded or view
        if self.judges is not None:
            corpus = corpus._replace(nodes=self.judges, node_set=np.zeros(n, int))
        bounded = bound_view.topics if bound_view is not view else np.empty((0, K))
        sum_documents(corpus, view.topics, bounded, bound_view.offset, prior, bound, self.full, local, factors, found)
        factors = factors if roots else np.empty((0, 0, 0))
        deviations = np.sqrt(np.maximum(found.squares - np.square(found.proportions), 0.0))
        moments = with_covariates(moments, batch.design, local[:, : K - 1]) if sums else moments
        return CorrelatedTerms(
            found.values, local, counts, moments, int(repairs), found.proportions, deviations, factors
        )

    def documents(
        self, q: Any, X: Any, threads: int, roots: bool = False, n: int = EXACT_NODES, effort: Effort = SETTLE
    ) -> CorrelatedTerms:
        """Posteriors of documents at given globals, from equal proportions to tolerance, on n nodes common to all."""
        view = self.view(q, None).narrowed(self, X)[0]
        nodes = paired_nodes(1, n, self.n_topics - 1, np.random.default_rng(NODE_SEED))
        data = Table(X, np.zeros(X.shape[0]))

        def one(part: slice) -> CorrelatedTerms:
            rows = np.arange(part.start, part.stop)
            batch = self.batch(data, rows, np.zeros((len(rows), 2 * (self.n_topics - 1))))
            batch.indices = view.place[batch.indices]
            return self.settled(view, batch, nodes, np.zeros(len(rows), int), "natural", effort, False, True, roots)

        found = list(parallel.in_order(one, parallel.slices(X.shape[0], POSTERIOR_CHUNK), threads))
        names = ("value", "local", "proportions", "deviations", "roots")
        value, local, mean, std, root = (np.concatenate([getattr(f, name) for f in found]) for name in names)
        none = np.empty((0, 0))
        return CorrelatedTerms(value, local, none, none, proportions=mean, deviations=std, roots=root)

    def terms_by_bound(self, q: dict[str, Any], X: Any, threads: int) -> dict[str, Array]:
        """Term of each document under every bound, each at its own q(η), (n,), nats.

        They are taken at nodes that no q(η) was fitted to. q(η) of the optimal bound is the best of its own and those
        of the others, at which its term is never below theirs.
        """
        judges = judging_nodes(self.n_topics - 1)
        models = {name: self.replaced(bound=name, judges=judges) for name in BOUNDS}
        values = {name: np.empty(X.shape[0]) for name in BOUNDS}
        for part in parallel.slices(X.shape[0], JUDGED_TOGETHER):
            rows = X[part]
            found = {name: model.documents(q, rows, threads, roots=True) for name, model in models.items()}
            at = [models["optimal"].terms_at(q, rows, own.local, own.roots) for own in found.values()]
            for name, own in found.items():
                values[name][part] = own.value if name != "optimal" else np.max(at, axis=0)
        return values

    def terms_at(self, q: dict[str, Any], X: Any, local: Array, roots: Array) -> Array:
        """Term of each document at a q(η) of mean `local` (n, >=K-1) and root `roots`, (n,), nats, at the judges."""
        from sksvi.models.topics.loops import records
        from sksvi.models.topics.loops.bound import sum_documents

        assert self.judges is not None
        view, n, none = self.view(q, None).narrowed(self, X)[0], X.shape[0], np.empty((0, 0))
        nodes = np.zeros(n, int)
        words, counts = view.place[X.indices], np.ascontiguousarray(X.data, np.float64)
        corpus = records.Corpus(X.indptr, words, counts, self.judges, nodes)
        prior = view.prior(design_of(X))
        found = records.Sums(np.zeros(n), none, none, none, none)
        none = np.empty((0, self.n_topics))
        sum_documents(corpus, view.topics, none, view.offset, prior, BOUNDS[self.bound], self.full, local, roots, found)
        return found.values

    def grown(self, q: dict[str, Any], data: Table) -> dict[str, Any]:
        """The topics with new words at their prior."""
        new = self.n_words - q["topics"].mean.shape[1]
        if not new:
            return q
        values = np.concatenate([q["topics"].natural(None)[0], self.word_prior[:, -new:]], axis=1)
        return {**q, "topics": self._topics(values)}

    def prevalence(self, q: dict[str, Any]) -> Array:
        """Share (K,) of the expected counts that each topic has; 0 below one word, NaN where none are counted."""
        if self.topics == "adagrad" or (self.topics == "point" and self.rule == "standard"):
            return np.full(self.n_topics, np.nan)
        return shares_of_topics((q["topics"].theta - self._prior["topics"].theta).sum(1))

    def pull_back(self, terms: CorrelatedTerms, batch: CorrelatedDocuments) -> dict[str, Any]:
        """Expected counts (K, W) and sums of moments."""
        return {"topics": (terms.counts.T,), "population": (terms.moments,)}


def with_covariates(moments: Array, design: Array, means: Array) -> Array:
    """Sums of moments of (1, z, η) from those of (1, η), covariates (n, D) and means of η (n, P)."""
    if not design.shape[1]:
        return moments
    ahead = np.column_stack([np.ones(len(design)), design])
    return np.block([[ahead.T @ ahead, ahead.T @ means], [means.T @ ahead, moments[1:, 1:]]])
