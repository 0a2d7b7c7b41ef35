"""Latent Dirichlet allocation (doc/lda.md): topics are global, proportions of documents local.

θ_d ~ Dir(α), words of document d ~ θ_dᵀβ, β_k ~ Dir(η). A document is left as N_d (K,), its expected number of words
from each topic, by one of `LOCAL_STEPS`: q(θ_d) = Dir(α + N_d) by mean field, or N_d with θ_d integrated out. How
documents see the topics is the algorithm's: by expectations, at their mean, or by a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, polygamma

from sksvi._runtime import parallel
from sksvi.algorithms.rules import ClosedForm, Newton, Rule
from sksvi.families import Dirichlet, Point
from sksvi.families.point import ascent
from sksvi.models.base import Blocks, Gradient, Local
from sksvi.models.data import Table
from sksvi.models.topics.documents import TopicLogs
from sksvi.models.topics.scores import shares_of_topics, word_scores
from sksvi.models.traits import BoundTraits, StepTraits, Traits, Warmup
from sksvi.schedules import RobbinsMonro

Array = np.ndarray

LOCAL_STEPS = ("mean-field", "cvb0", "gibbs")
#: Rates of steps when none is given, several in a pass (chosen on splits 3 and 4 of the NIPS papers; with (t + 5)^-0.5
#: the expectations of "svi" climb lower, by 0.01 a word, and predict better, by 0.01 to 0.02), and one (split 1).
STEP_RATE, WHOLE_RATE = RobbinsMonro(delay=1.0, kappa=0.4), RobbinsMonro(delay=1.0, kappa=0.5)
#: Passes in which the others see the topics at their mean: from a random start expectations find poor topics.
FORMING_PASSES = 1
#: Documents of a chunk at least, their words times topics where that allows, and most chunks of a segment likewise.
CHUNK_DOCUMENTS, CHUNK_WORK, CHUNKS = 16, 2**17, 32
#: Words of a chunk's documents as a share of all words: its sums should cost less than its visits.
OF_WORDS = 0.25


def document_chunks(rows: Any, data: Table, shape: tuple[int, int], most: float = np.inf) -> list[Any]:
    """Equal shares of documents, at most `most` each: a chunk's sums are as large as the topics, so there are few."""
    index = np.arange(len(data))[rows] if isinstance(rows, slice) else rows
    (K, V), words = shape, max(data.X.nnz, 1) / max(len(data), 1)
    least, n, chunks = max(CHUNK_DOCUMENTS, OF_WORDS * V / words, CHUNK_WORK / K / words), len(index), 1
    # A power of two: two threads, or four, have as many each.
    while n > chunks * max(most, CHUNK_DOCUMENTS) or (chunks < CHUNKS and n >= 2 * chunks * least):
        chunks *= 2
    return [index[part] for part in parallel.slices(n, max(1, -(-n // chunks)))]


@dataclass(frozen=True)
class DocumentVisit:
    """How long a visit of a document is.

    sweeps, tol: of coordinate ascent; it ends where a sweep moved less than `tol` of the document's words. burn_in,
    averaged_sweeps: Gibbs sweeps that are discarded, and averaged; more where these draw less than `draws` words.
    """

    sweeps: int
    tol: float
    burn_in: int
    averaged_sweeps: int
    draws: int = 0


#: Documents that are visited again, those that are seen once, and those whose posterior is asked for.
VISIT, PORTION = DocumentVisit(60, 2e-3, 2, 3), DocumentVisit(60, 2e-3, 5, 5)
SETTLE = DocumentVisit(200, 1e-4, 20, 40, 5000)


@dataclass
class LDAView:
    """Topics as documents see them: word by word (V, K), the logarithm of the factor per word taken out, and α.

    ``bounded`` is what their terms of the bound are taken at where that is another view, ``place`` where a word is.
    """

    topics: Array
    offset: Array
    alpha: Array
    bounded: LDAView | None = None
    place: Array = field(default_factory=lambda: np.empty(0, np.int32))

    @cached_property
    def rest(self) -> Array:
        """Σ_k α_k b_kw of every word, (V,)."""
        return np.asarray(self.topics @ self.alpha.astype(self.topics.dtype), float)


@dataclass
class LDADocuments:
    """Rows of a chunk as CSR parts, a number per row that names its random numbers, and where N starts."""

    indptr: Array
    words: Array
    counts: Array
    streams: Array
    start: Array

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass
class LDATerms:
    """Per document its term of the bound (nats), N, and E log θ under Dir(α + N); the sum of expected counts (V, K).

    own_elog (n|0, K): E log θ of a local step that has N random, where α is learned. squares (n|0, K): E N² of draws,
    where asked for.
    """

    value: Array
    local: Array
    elog: Array
    own_elog: Array
    counts: Array
    squares: Array
    view: LDAView
    repairs: ClassVar[int] = 0


class LatentDirichlet(Local):
    """Model of counts by topics whose proportions are Dirichlet.

    Parameters
    ----------
    n_topics, n_words : int
    alpha : ndarray of shape (K,)
        Prior of proportions, or where its learning starts.
    eta : ndarray of shape (K, V)
        Prior of topics; its mean is where the learning of one number starts.
    learns_alpha : {"", "auto", "symmetric"}
        Whether α is learned: a number per topic, or one.
    learns_eta : bool
    local_step : {"mean-field", "cvb0", "gibbs"}
    start : ndarray of shape (K, V), optional
        First expected counts of the topics.
    dtype : type
        Of what documents see of the topics.
    """

    globals = None
    global_modes = ("expected", "sampled", "corrected", "mean")
    traits = Traits(
        bound=BoundTraits(at_expectations=True, slack=1e-6),  # documents settle visit by visit
        # Topics that documents have not taken up yet would lose their α, and with it every document, for good.
        warmup=Warmup(FORMING_PASSES, FORMING_PASSES, frozenset({"alpha"})),
        steps=StepTraits(STEP_RATE, WHOLE_RATE),
        remedy="Raise topic_word_prior.",
        local_rule="counts of topics",  # which every local step leaves, and starts from
    )

    def __init__(
        self,
        n_topics: int,
        n_words: int,
        *,
        alpha: Array,
        eta: Array,
        learns_alpha: str = "",
        learns_eta: bool = False,
        local_step: str = "mean-field",
        start: Array | None = None,
        dtype: Any = np.float64,
    ) -> None:
        self.n_topics, self.n_words, self.local_step, self.start = n_topics, n_words, local_step, start
        self.alpha, self.eta, self.learns_alpha, self.learns_eta = alpha, eta, learns_alpha, learns_eta
        self.dtype, self.visit = np.dtype(dtype), VISIT
        # Gibbs draws the topics of words.
        bound = replace(type(self).traits.bound, noisy=local_step == "gibbs")
        self.traits = replace(type(self).traits, bound=bound)

    @property
    def shape(self) -> tuple[int, int]:
        """Topics and words."""
        return self.n_topics, self.n_words

    # ---- blocks
    def begin(self, data: Table, rng: Any, threads: int = 1) -> Blocks:
        """The topics at their start, hyperparameters at the values that were given."""
        q: Blocks = {"topics": Dirichlet(self.eta + self.start)}
        if self.learns_alpha:
            q["alpha"] = Point(np.log(self.alpha[:1] if self.learns_alpha == "symmetric" else self.alpha))
        if self.learns_eta:
            q["eta"] = Point(np.log(self.eta.mean(keepdims=True)[0]))
        return q

    def prior(self, q: Blocks) -> Blocks:
        """Dirichlet of each topic."""
        if "eta" not in q:
            return self._prior
        return {"topics": Dirichlet(np.full(self.shape, np.exp(q["eta"].value[0])))}

    @cached_property
    def _prior(self) -> Blocks:
        return {"topics": Dirichlet(self.eta)}

    @property
    def hyper(self) -> dict[str, Rule]:
        """The rules by which α is learned from the documents, and η from the topics."""
        rules: dict[str, Rule] = {"alpha": Newton()} if self.learns_alpha else {}
        return {**rules, "eta": ClosedForm(self._eta_step)} if self.learns_eta else rules

    def _eta_step(self, q: Blocks) -> tuple[Array, float]:
        """Newton step of log η and the gain that it promises: no data needed."""
        (K, V), eta = self.shape, float(np.exp(q["eta"].value[0]))
        slope = K * V * (digamma(V * eta) - digamma(eta)) + float(q["topics"].moments.sum())
        bend = K * V * (V * polygamma(1, V * eta) - polygamma(1, eta))
        g = np.array([eta * slope])
        step = ascent(g, np.array([[eta**2 * bend + eta * slope]]))
        return step, 0.5 * float(np.abs(step @ g))

    def alpha_of(self, q: Blocks) -> Array:
        """α, (K,)."""
        return np.broadcast_to(np.exp(q["alpha"].value), (self.n_topics,)) if "alpha" in q else self.alpha

    def local_begin(self, data: Table) -> Array:
        """Documents without expected counts."""
        return np.zeros((len(data), self.n_topics))

    # ---- rows
    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Equal shares of the documents; a chunk's statistics are as large as the topics, so there are few."""
        return document_chunks(rows, data, self.shape)

    def batch(self, data: Table, rows: Array, start: Array | None = None) -> LDADocuments:
        """CSR parts of the rows, and where N starts."""
        part = data.X[rows]
        start = np.zeros((len(rows), self.n_topics)) if start is None else start
        counts = np.ascontiguousarray(part.data, np.float64)
        return LDADocuments(part.indptr, part.indices, counts, data.first + np.asarray(rows, np.int64), start)

    def view(self, q: Blocks, rng: Any) -> TopicLogs:
        """E log β, or log β of a draw."""
        return TopicLogs.drawn(q["topics"], self.alpha_of(q), rng)

    def narrowed(self, view: TopicLogs, data: Table, rows: Any) -> Any:
        """Topics as documents see them, of the words that they have."""
        return view.narrowed(self, data.X, rows)

    def view_of(self, logs: Array, alpha: Array) -> LDAView:
        offset = logs.max(0)
        return replace(self.view_at(np.exp(logs - offset), alpha), offset=offset)

    def view_at(self, topics: Array, alpha: Array) -> LDAView:
        """Topics (K, V) as documents see them, up to a factor per word that is taken out already."""
        least = 1e-30 if self.dtype.itemsize == 4 else 1e-290
        shown = np.maximum(topics.T, least).astype(self.dtype, order="C")
        return LDAView(shown, np.zeros(len(shown)), np.array(alpha, float))

    def terms(self, view: LDAView, batch: LDADocuments, expect: Any, rng: Any) -> LDATerms:
        """Local posteriors of the documents, continued from where they started, and their sums for the gradient."""
        batch = replace(batch, words=view.place[batch.words])
        return self.settled(view, batch, self.visit, int(rng.integers(2**62)) if self.traits.bound.noisy else 0)

    def settled(
        self,
        view: LDAView,
        batch: LDADocuments,
        effort: DocumentVisit,
        key: int,
        sums: bool = True,
        squares: bool = False,
    ) -> LDATerms:
        """Run the compiled local step of the documents, and find each one's term of the bound at the end."""
        from sksvi.models.topics.loops.algebra import document_bounds

        n, K, bound_view = len(batch), self.n_topics, view.bounded or view
        local, counts = np.array(batch.start, float), np.zeros((len(view.topics) if sums else 0, K))
        second = np.zeros((n if squares else 0, K))
        own = np.zeros((n if self.learns_alpha and self.local_step != "mean-field" else 0, K))
        terms = LDATerms(np.empty(n), local, np.empty((n, K)), own, counts, second, bound_view)
        local_step(self.local_step)(view, batch, effort, key, terms)
        document_bounds(
            batch.indptr,
            batch.words,
            batch.counts,
            bound_view.topics,
            bound_view.offset,
            bound_view.alpha,
            local,
            terms.value,
            terms.elog,
        )
        return terms

    def pull_back(self, terms: LDATerms, batch: LDADocuments) -> Gradient:
        """Expected counts (K, W); gradient and Hessian in log α."""
        found: Gradient = {"topics": (terms.counts.T,)}
        if self.learns_alpha:
            elog = terms.own_elog if len(terms.own_elog) else terms.elog
            found["alpha"] = self._alpha_slope(terms.view.alpha, elog.sum(0), len(batch))
        return found

    def _alpha_slope(self, alpha: Array, elog: Array, n: int) -> tuple[Array, Array]:
        slope = alpha * (n * (digamma(alpha.sum()) - digamma(alpha)) + elog)
        bend = np.diag(slope - n * np.square(alpha) * polygamma(1, alpha))
        bend += n * polygamma(1, alpha.sum()) * np.outer(alpha, alpha)
        if self.learns_alpha == "symmetric":
            return np.array([slope.sum()]), np.array([[bend.sum()]])
        return slope, bend

    # ---- results of a fit
    def prevalence(self, q: Blocks) -> Array:
        """Share (K,) of the expected counts that each topic has; 0 below one word."""
        return shares_of_topics((q["topics"].concentration - self.prior(q)["topics"].concentration).sum(1))

    def documents(self, q: Blocks, X: Any, threads: int, effort: DocumentVisit = SETTLE, key: int = 0) -> LDATerms:
        """N of documents at the mean of the topics, each by itself: the same whatever the others are."""
        view = self.view_of(np.log(q["topics"].mean), self.alpha_of(q))
        data, draws = Table(X, np.zeros(X.shape[0])), self.traits.bound.noisy

        def one(part: slice) -> LDATerms:
            batch = self.batch(data, np.arange(part.start, part.stop))
            batch.streams = np.zeros(len(batch), np.int64)
            return self.settled(view, batch, effort, key, sums=False, squares=draws)

        found = list(parallel.in_order(one, parallel.slices(X.shape[0], 64), threads))
        names = ("value", "local", "elog", "own_elog", "squares")
        value, local, elog, own_elog, squares = (np.concatenate([getattr(f, name) for f in found]) for name in names)
        return LDATerms(value, local, elog, own_elog, np.empty((0, 0)), squares, view)

    def with_local(self, local_step: str) -> LatentDirichlet:
        """The model with another local step."""
        traits = replace(self.traits, bound=replace(self.traits.bound, noisy=local_step == "gibbs"))
        return self.replaced(local_step=local_step, traits=traits)

    def completions(self, q: Blocks, observed: Any, held_out: Any, threads: int) -> Array:
        """Log probability of the `held_out` words of each document given the `observed` ones, nats (n,)."""
        found = self.documents(q, observed, threads)
        theta = dirichlet_marginal(self.alpha_of(q), found.local, found.squares)[0]
        return word_scores(theta, q["topics"].mean, held_out)

    def grown(self, q: Blocks, data: Table) -> Blocks:
        """The topics with new words at their prior."""
        block = q["topics"]
        new = self.n_words - block.concentration.shape[1]
        if not new:
            return q
        prior = self.prior(q)["topics"].concentration
        return {**q, "topics": Dirichlet(np.concatenate([block.concentration, prior[:, -new:]], axis=1))}


def local_step(name: str) -> Callable[..., None]:
    """A compiled local step by its name: it updates N of `terms`, and adds to the arrays there that are not empty."""
    if name == "gibbs":
        from sksvi.models.topics.loops.gibbs import gibbs_documents

        def drawn(view: LDAView, b: LDADocuments, effort: DocumentVisit, key: int, terms: LDATerms) -> None:
            gibbs_documents(
                b.indptr, b.words, b.counts, view.topics, view.rest, view.alpha, effort.burn_in, effort.averaged_sweeps,
                effort.draws, key, b.streams, terms.local, terms.squares, terms.own_elog, terms.counts,
            )  # fmt: skip

        return drawn
    from sksvi.models.topics.loops.visits import visited_documents

    def ascended(view: LDAView, b: LDADocuments, effort: DocumentVisit, key: int, terms: LDATerms) -> None:
        its, integrated = b.counts.astype(view.topics.dtype), name == "cvb0"
        visited_documents(
            b.indptr, b.words, its, view.topics, view.alpha, integrated, effort.sweeps, effort.tol,
            terms.local, terms.own_elog, terms.counts,
        )  # fmt: skip

    return ascended


def dirichlet_marginal(alpha: Array, counts: Array, squares: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (n, K) of proportions: Dir(α + N), N random where `squares` has E N²."""
    total = (alpha + counts).sum(1, keepdims=True)
    mean = (alpha + counts) / total
    variance = mean * (1.0 - mean) / (total + 1.0)
    if len(squares):  # the law of total variance: E[θ | N] has the spread of N, Var[θ | N] loses it
        spread = np.maximum(squares - np.square(counts), 0.0) / np.square(total)
        variance = variance + spread * (1.0 - 1.0 / (total + 1.0))
    return mean, np.sqrt(variance)
