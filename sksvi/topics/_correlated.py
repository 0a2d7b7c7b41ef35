"""The correlated topic model as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from scipy.special import softmax
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms, expectations
from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, Names, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.callbacks import FitMonitor
from sksvi.estimators.checks import check_count, check_seed
from sksvi.estimators.posterior import RowBounds, divergence_at
from sksvi.estimators.refit import COMPONENTS, STREAMED, UNCHECKED, stays
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.inference.engine import exact_bound
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.state import State
from sksvi.models.base import Blocks
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.data import Table
from sksvi.models.topics.anchors import first_counts
from sksvi.models.topics.correlated import BATCH_STEPS, BATCH_VISIT, PORTION_VISIT, CorrelatedTopics, judging_nodes
from sksvi.models.topics.correlated_chain import CorrelatedSampler, drawn_population
from sksvi.models.topics.scores import log_odds_ratios
from sksvi.topics._base import BATCHES, correlations
from sksvi.topics._encoding import named
from sksvi.topics._with_covariates import TopicModelWithCovariates

Array = np.ndarray

#: Prior concentration of a word in a topic, and of the exponent e of topics that are points.
WORD_PRIOR, POINT_PRIOR = 0.2, 0.1
#: Documents that the prior of (μ, Σ) is worth when none is given.
PSEUDO_DOCUMENTS = 10.0
#: Documents of a step of gradients: on all documents these creep, and of few they take a part too.
GRADIENT_BATCHES = replace(BATCHES, whole=32, smallest=32)


@with_own_methods
class CorrelatedTopicModel(TopicModelWithCovariates):
    """Correlated topic model: topics whose proportions go together, or against each other, or with covariates.

    Each document has log odds η ~ N(μ, Σ) of its topics (N(μ + Bᵀz, Σ) where `fit` is given covariates z: a structural
    topic model of prevalence), proportions θ = softmax(η, 0), and words drawn from the
    mixture θᵀβ of the topics' word distributions. Topics, μ and Σ are learned by stochastic variational inference with
    a Gaussian q(η) per document (Sheth and Khardon, Monte Carlo structured SVI); Σ says which topics occur together.

    Parameters
    ----------
    n_components : int, default=20
        Number of topics K.
    bound : {"auto", "optimal", "simple", "mean-field"}, default="auto"
        Which bound q maximises. "optimal" sums over the topic of each word; "mean-field" has a distribution of its own
        for each word; "simple" averages log probabilities over topics. "auto": "optimal", with ``algorithm="cvi"``
        "mean-field".
    topics : {"dirichlet", "point", "sampled", "adagrad"}, default="dirichlet"
        The posterior of topics and how it is learned: Dirichlet by expected counts; points by expected counts;
        Dirichlet with one draw of the topics per step (a tighter bound, noisier steps); points by AdaGrad on logistic
        coordinates.
    topic_word_prior : float, default=None
        Prior concentration η of each word in each topic; for points the exponent e of the prior Dir(1 + e), which may
        be 0. None: 0.2, for points 0.1; the draws of ``uncertainty="corrected"`` begin at 0.2 and have a posterior of
        η, lognormal about 0.1 before data, unless there are `prior_words`.
    covariance_prior : float, default=None
        Weight of the prior of (μ, Σ) in documents: as if so many documents of mean 0 and covariance I had been seen. 0
        is maximum likelihood, which small corpora can let collapse. None: 10.
    prior_words : mapping of int to list of words, or to mapping of word to count, default=None
        Seed words per topic, as names of columns or as column indices; each gains prior counts (50 in a list).
    algorithm : {"mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"} or Algorithm, default="mc-ssvi"
        Steps of q(η) and of the globals; see :mod:`sksvi.algorithms`. "cvi" passes messages within each document:
        with the mean-field bound words answer in closed form and the softmax term has a site that natural steps move
        (of rate 1, halved while the document's bound falls); with other bounds the whole term has one. Sites are kept
        from visit to visit, K - 1 squared numbers a document where the covariance is full.
        ``HybridMCSSVI(adagrad=...)`` and ``SDSVI(adagrad=...)`` set the steps within documents too: a mean's at a third
        of the rate, in log odds, and SDSVI's of a Cholesky factor at a thirtieth.
    expectation : {"auto", "quadrature", "monte-carlo"} or Expectation, default="auto"
        How expectations over η are taken. "auto" and "quadrature": a few fixed nodes in opposite pairs, different ones
        from document to document; "monte-carlo": fresh draws in every step.
    covariance : {"full", "diag"}, default="diag"
        Of the Gaussian q(η) of a document; Σ is full in both cases.
    uncertainty : {"corrected", "variational"}, default="corrected"
        What proportions and topics spread by. "corrected": `fit` ends with a Markov chain of the joint posterior that
        begins at q: topics of words, topics, log odds, μ and Σ. Proportions are a mixture over its draws, their means
        those of q(η) at the means of topics, μ and Σ⁻¹, as scores are; attributes are means. "variational": it is
        all that of q. So it is after `partial_fit`, for Dask collections, topics that are points, and with one topic.
    batch_size : int, "auto" or None, default="auto"
        Documents per step; "auto": all up to 200, else a twenty-fourth, at least 50 and at most 1024. Mini-batch fits
        form their topics first: in the first 12 passes documents' responsibilities use E β and not exp(E log β), at
        which ``lower_bounds_`` are evaluated all the same.
    max_iter : int, default=150
        Passes over the documents, at most.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops: between two passes where a step takes all documents. A
        mini-batch fit evaluates its bound 4, 6, 9, 14, 21, ... passes after the forming ones, and stops where it gained
        less than 10 ``tol`` twice.
    total_samples : float or None, default=None
        Documents of the population, for ``partial_fit``; None: those seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one.
    random_state : int, RandomState or None, default=None
        Seed of the order of documents and of the random tenth of the first topics (the rest: anchor words).
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (K, V)
        Posterior mean of each topic's word probabilities; rows sum to 1.
    topic_covariance_ : ndarray of shape (K - 1, K - 1)
        Σ of the log odds against the last topic.
    topic_correlation_ : ndarray of shape (K, K)
        Correlations of the centred log proportions, which do not depend on the reference topic.
    topic_log_odds_ : ndarray of shape (K - 1,)
        μ, with covariates at their mean.
    effects_ : DataFrame
        Where `fit` had covariates: what a unit of each adds to the log proportion of each topic, less the mean over
        topics; mean, std, lower and upper (90 %), by topic and covariate. See `effects`.
    topic_prevalence_ : ndarray of shape (K,)
        Expected share of the words that each topic has; 0 marks a topic that less than one word supports: its row of
        ``components_`` is about the prior's, and tables and displays leave it out. NaN for points that move by
        gradients, which count no words.
    posterior_ : mapping
        ``posterior_["topics"]``: ``mean``, ``std``, ``sample``.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_`, and per pass, nats. Documents are fitted to few nodes, where the
        bounds of passes are a little too high; nodes of its own judge `lower_bound_`.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray

    Notes
    -----
    Counts may be fractional: they weigh words. A document without words has the prior's proportions.

    References
    ----------
    D. Blei and J. Lafferty, A correlated topic model of Science, Annals of Applied Statistics 2007. M. Roberts,
    B. Stewart and E. Airoldi, A model of text for experimentation in the social sciences, JASA 2016.

    Examples
    --------
    >>> from sksvi import CorrelatedTopicModel
    >>> from sksvi.datasets import make_ctm
    >>> X = make_ctm(60, 40, n_components=3, random_state=0).data
    >>> model = CorrelatedTopicModel(3, max_iter=10, tol=1e-2, random_state=0).fit(X)
    >>> model.transform(X).shape, model.topic_correlation_.shape
    ((60, 3), (3, 3))
    """

    LAYOUT = (
        TopicModelWithCovariates.LAYOUT
        + """
        state_.q.population.sums (>=k,>=k) f; topic_log_odds_ (w) f where w == k - 1; topic_covariance_ (w,w) f
        _draws.prior.location? (_,w) f; _draws.prior.precision? (_,w,w) f; _draws.prior.slopes? (_,c,w) f
        _draws.regression.location? (_,w) f; _draws.regression.precision? (_,w,w) f; _draws.regression.slopes? (_,c,w) f
        state_.locals.values? (_,2*w|3*w|4*w|2*w+w^|2*w+2*w^) f
    """
    )

    topic_covariance_: np.ndarray
    topic_log_odds_: np.ndarray

    _numbers_of_word = 14.0
    _portion_visit = PORTION_VISIT

    _gradient_batch_rule = GRADIENT_BATCHES
    _parameter_constraints: dict[str, list[Any]] = {
        **TopicModelWithCovariates._parameter_constraints,
        "algorithm": [StrOptions({"mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"}), algorithms.Algorithm],
        "expectation": [StrOptions({"auto", "quadrature", "monte-carlo"}), expectations.Expectation],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "bound": [StrOptions({"auto", "optimal", "simple", "mean-field"})],
        "topics": [StrOptions({"dirichlet", "point", "sampled", "adagrad"})],
        "topic_word_prior": [Interval(Real, 0, None, closed="left"), None],
        "covariance_prior": [Interval(Real, 0, None, closed="left"), None],
        "prior_words": [Mapping, None],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **STREAMED,
        "n_components": COMPONENTS,
        "bound": UNCHECKED,
        "topics": stays("q(topics) is of the family that it says"),
        "topic_word_prior": UNCHECKED,
        "covariance_prior": UNCHECKED,
        "prior_words": UNCHECKED,
        "covariance": UNCHECKED,
        "uncertainty": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        bound: str = "auto",
        topics: str = "dirichlet",
        topic_word_prior: float | None = None,
        covariance_prior: float | None = None,
        prior_words: Mapping[int, Sequence[str] | Mapping[str, float]] | None = None,
        algorithm: AlgorithmLike = "mc-ssvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "diag",
        uncertainty: str = "corrected",
        batch_size: int | str | None = "auto",
        max_iter: int = 150,
        tol: float = 1e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.bound = bound
        self.topics = topics
        self.topic_word_prior = topic_word_prior
        self.covariance_prior = covariance_prior
        self.prior_words = prior_words
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.uncertainty = uncertainty
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- the prior
    @property
    def _improper(self) -> str:
        if self.topics in ("point", "adagrad"):
            return f"topics={self.topics!r} are points: set topics='dirichlet'"
        if self.covariance_prior == 0:
            return "covariance_prior=0 leaves mean and covariance of log odds without a prior: give a number above 0"
        return ""

    def _drawn_blocks(self, prior: dict[str, Any], rng: Any) -> dict[str, Array]:
        """Topics, and μ and Σ⁻¹ as the chain of the joint posterior has them: normal-Wishart."""
        topics = super()._drawn_blocks({"topics": prior["topics"]}, rng)
        return {**topics, **drawn_population(prior["population"], rng)}

    def _drawn_proportions(self, model: Any, q: Blocks, drawn: dict[str, Array], n: int, rng: Any) -> Array:
        """θ = softmax(η, 0) of log odds η ~ N(μ, Σ)."""
        root = np.linalg.cholesky(drawn["precision"])
        odds = drawn["location"] + np.linalg.solve(root.T, rng.standard_normal((len(root), n))).T
        return np.asarray(softmax(np.column_stack([odds, np.zeros(n)]), axis=1))

    # ---- fitting
    def _check_call(self) -> None:
        expectation = self.expectation
        if isinstance(expectation, expectations.GaussHermite) or (
            isinstance(expectation, str) and expectation == "gauss-hermite"
        ):
            raise ValueError(
                'expectation="gauss-hermite" integrates over one variable and a document has K - 1 log odds: use '
                '"auto", "quadrature" or "monte-carlo".'
            )
        super()._check_call()

    def _word_prior(self) -> Array:
        """Prior concentrations (K, V), raised for seed words."""
        points = self.topics in ("point", "adagrad")
        prior = self.topic_word_prior
        value = prior if prior is not None else POINT_PRIOR if points else WORD_PRIOR
        if value == 0 and not points:
            raise ValueError(f"topic_word_prior=0 with topics={self.topics!r}: a Dirichlet prior must be positive.")
        return self._seeded(float(value))

    def _model(self, n_words: int) -> CorrelatedTopics:
        algorithm = algorithms.resolve(self.algorithm)
        return CorrelatedTopics(
            int(self.n_components),
            n_words,
            bound=self._bound(algorithm),
            topics=self.topics,
            word_prior=self._word_prior(),
            pseudo_documents=PSEUDO_DOCUMENTS if self.covariance_prior is None else float(self.covariance_prior),
            full=self.covariance == "full",
            rule=algorithm.spec.local,
            adagrad=algorithm.adagrad,
            n_covariates=self._n_covariates,
        )

    def _bound(self, algorithm: Any) -> str:
        if self.bound != "auto":
            return self.bound
        return "mean-field" if algorithm.spec.messages else "optimal"

    @property
    def _numbers_of_document(self) -> float:
        return float(self.n_components) if self.covariance == "full" else 3.0

    def _model_for_steps(self, problem: Problem) -> Any:
        model = cast(CorrelatedTopics, problem.model)
        if not problem.deterministic or model.visit is PORTION_VISIT:
            return model
        return model.replaced(visit=BATCH_VISIT if model.rule == "natural" else BATCH_STEPS)

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        model = cast(CorrelatedTopics, problem.model)
        return model.replaced(start=first_counts(problem.data, model.word_prior, seed, problem.threads))

    def _after_passes(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """The state with its bound at nodes that no document was fitted to."""
        judging = cast(CorrelatedTopics, problem.model).replaced(judges=judging_nodes(int(self.n_components) - 1))
        return replace(state, bound=exact_bound(replace(problem, model=judging), state)) if state.finished else state

    # ---- what a fit leaves behind
    def _set_means(self, model: Any, q: Blocks) -> None:
        super()._set_means(model, q)
        population = q["population"]
        self.topic_log_odds_, self.topic_covariance_ = population.location, population.scale
        if self._draws is not None:
            self.topic_covariance_ = np.linalg.inv(self._draws.prior["precision"]).mean(0)

    @property
    def topic_correlation_(self) -> Array:
        """Correlations (K, K) of the centred log proportions; 0 where a topic's log proportion does not vary."""
        check_is_fitted(self)
        k = len(self.topic_covariance_) + 1
        cov = np.zeros((k, k))
        cov[:-1, :-1] = self.topic_covariance_
        centred = np.eye(k) - 1.0 / k
        return correlations(centred @ cov @ centred)

    # ---- documents
    def _sampler(self, model: CorrelatedTopics) -> CorrelatedSampler | None:
        """Topics that are points have no posterior; a prior of theirs that nobody gave has one."""
        if model.n_topics == 1 or model.topics not in ("dirichlet", "sampled"):
            return None
        return CorrelatedSampler(model, self._first_eta(WORD_PRIOR))

    def _proportions(self, q: Blocks, X: Any) -> Array:
        proportions: Array = self._documents(self._fitted_model, X, q).proportions
        return proportions

    def _own_moments(self, q: Blocks, X: Any) -> tuple[Array, Array]:
        found = self._documents(self._fitted_model, X, q)
        return found.proportions, found.deviations

    def _log_ratios(self, X: Any, n_draws: int) -> Iterator[Array]:
        q = self._seen_globals
        found = self._documents(self._fitted_model, X, q, roots=True)
        z = np.random.default_rng(0).standard_normal((n_draws, len(self.components_) - 1))
        return log_odds_ratios(X, q["topics"].mean, q["population"], found, lambda: z, 0.0)

    def _shown(self, X: Any) -> tuple[Array, Array]:
        return self._own_moments(self._globals, X) if self._draws is None else super()._shown(X)

    def _row_bounds(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> RowBounds:
        """Terms of documents under every bound at the fitted topics."""
        check_is_fitted(self)
        given = {"sample_weight": sample_weight, "offset": offset}
        if beside := [name for name, values in given.items() if values is not None]:
            raise ValueError(f"{beside[0]} is given, and documents have none: leave it out.")
        X, model = self._counts(X), cast(CorrelatedTopics, self._fitted_model)
        values = model.terms_by_bound(self._globals, X, parallel.n_threads(self.n_jobs))
        problem = self._problem(model, Table(X, np.zeros(X.shape[0])))
        return RowBounds(
            fitted=model.bound,
            values=values,
            gaps=(("optimal", "mean-field"), ("optimal", "simple")),
            divergence=divergence_at(problem, self._globals),
            weight=np.ones(X.shape[0]),
        )

    def importance_score(
        self,
        X: MatrixLike,
        n_samples: int = 1000,
        random_state: RandomState = 0,
        feature_names: Names | None = None,
        inflation: float = 0.1,
    ) -> tuple[Array, Array]:
        """Log likelihood of whole documents by importance sampling from their posteriors, widened.

        log p(w) ≈ log mean of p(w | η) N(η | μ, Σ) / N(η | m, S + c I), c the inflation, with the posterior mean of
        the topics (Sheth and Khardon 2016, (105)); it comes from below where the effective sample size is small.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        n_samples : int, default=1000
            Samples of each document.
        random_state : int, RandomState or None, default=0
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.
        inflation : float, default=0.1
            Added to the variances of a document's posterior, at least 0: without it the weights are unbounded.
            Infinite: samples are drawn from the prior N(μ, Σ) and weigh the same but for the words.

        Returns
        -------
        log_likelihood : ndarray of shape (n,)
            In nats, without the multinomial coefficient.
        effective_samples : ndarray of shape (n,)
            Samples that the weights are worth.

        Raises
        ------
        ValueError
            Where `inflation` is negative or no number, or `n_samples` no count.
        """
        from sksvi.models.topics.scores import importance_sampling

        check_is_fitted(self)
        if not inflation >= 0.0:
            raise ValueError(
                f"inflation must be a number of at least 0, got {inflation!r}; np.inf draws from the prior."
            )
        X = self._counts(named(X, feature_names))
        q, rng = self._seen_globals, check_seed(random_state)
        found = self._documents(self._fitted_model, X, q, roots=True)
        n_samples = check_count(n_samples, "n_samples", bytes_each=8.0 * len(self.components_))
        return importance_sampling(X, q["topics"].mean, q["population"], found, n_samples, rng, inflation)
