"""Records that the compiled loops of the correlated topic model hand on; K topics, P = K - 1 log odds, S nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sksvi.schedules import AdaGrad

Array = np.ndarray

#: AdaGrad's rate over that of a document's mean (log odds) and that of its C, which are 1 and 0.1 at the default of 3.
MEAN_PART, ROOT_PART = 3.0, 30.0
#: What every loop over documents takes, for `sksvi._runtime.compiled.entry`.
DOCUMENTS = (
    "prior.location (n, P) f",
    "topics (V, P+1) f",
    "topics (V, K) f",
    "roots (n, P, P) f",
    "corpus.indptr (n+1) i cuts e",
    "corpus.words (e) i < V",
    "corpus.counts (e) f",
    "prior.precision (P, P) f",
    "corpus.nodes (N, _, P) f",
    "corpus.node_set (n) i < N",
)


class LogOddsPopulation(NamedTuple):
    """N(μ, Σ) of the log odds.

    ``location`` (P,): μ; of a block of documents (n, P), a mean for each. ``precision`` (P, P): Σ⁻¹. ``log_det``:
    log |Σ|.
    """

    location: Array
    precision: Array
    log_det: float


class Corpus(NamedTuple):
    """Counts of a block of n documents in CSR, and the nodes of their expectations.

    ``indptr`` (n + 1,), ``words`` and ``counts`` (entries,): document i has the entries indptr[i] .. indptr[i + 1].
    ``nodes`` (sets, S, P): standard normal. ``node_set`` (n,): the set that a document uses.
    """

    indptr: Array
    words: Array
    counts: Array
    nodes: Array
    node_set: Array


class Document(NamedTuple):
    """A document of W distinct words.

    ``words`` (W,): columns of the vocabulary. ``topics`` (W, K): what the topics say about them, which is
    exp(E log β) up to a factor per word, which cancels in responsibilities; for the simple bound E log β itself.
    ``counts`` (W,). ``nodes`` (S, P).
    """

    words: Array
    topics: Array
    counts: Array
    nodes: Array


class Work(NamedTuple):
    """What `bound.look` leaves behind at a document's q(η).

    ``theta`` (S, K): proportions at the nodes. ``ratio`` (W, S): counts over θᵀβ. ``counted`` (S, K): expected counts
    of the topics. The same at the mean of q(η) alone, which the mean field needs: (1, K), (W, 1), (1, K). ``table``
    (W, K): to be overwritten.
    """

    theta: Array
    ratio: Array
    counted: Array
    theta_at_mean: Array
    ratio_at_mean: Array
    counted_at_mean: Array
    table: Array


class Curvature(NamedTuple):
    """Matrices (P, P) around minus the Hessian of a document's term.

    ``negative``: minus the Hessian. ``safe``: a convex part of it. ``summed``: with Σ⁻¹. ``factor``: a Cholesky factor.
    """

    negative: Array
    safe: Array
    summed: Array
    factor: Array


class Rates(NamedTuple):
    """AdaGrad's rates within documents: of the ``mean``, of the Cholesky factor C (``root``), and its ``epsilon``."""

    mean: float
    root: float
    epsilon: float

    @staticmethod
    def of(adagrad: AdaGrad) -> Rates:
        """The share that documents have in the rate of an algorithm."""
        return Rates(float(adagrad.rate) / MEAN_PART, float(adagrad.rate) / ROOT_PART, float(adagrad.epsilon))


class Effort(NamedTuple):
    """How long a visit of a document is, and its steps.

    ``rounds`` of mean and covariance, ``steps`` of the mean in each, gain ``tol`` (nats) that ends a round, and all;
    ``rates`` of steps by AdaGrad; ``judged``: whether these may not lower a document's term.
    """

    rounds: int
    steps: int
    tol: float
    rates: Rates = Rates.of(AdaGrad())
    judged: bool = False


class Sums(NamedTuple):
    """Sums and results over documents; arrays without rows are not filled.

    ``values`` (n,): their terms of the bound, nats. ``proportions``, ``squares`` (n, K): E θ, E θ². ``words`` (V, K):
    expected counts. ``moments`` (K, K): Σ E (1, η)(1, η)ᵀ.
    """

    values: Array
    proportions: Array
    squares: Array
    words: Array
    moments: Array
