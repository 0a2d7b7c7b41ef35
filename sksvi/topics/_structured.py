"""Latent Dirichlet allocation by structured stochastic variational inference, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.callbacks import FitMonitor
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.completion import halved
from sksvi.estimators.refit import COMPONENTS, STREAMED, UNCHECKED, auto_or_number, stays
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families import Dirichlet, Point
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.start import first_state
from sksvi.inference.state import Locals, RemoteLocals, State
from sksvi.models.base import Blocks
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.data import Table
from sksvi.models.gamma_factor.density import Scatter, scatter_of
from sksvi.models.topics.anchors import even_counts, first_counts
from sksvi.models.topics.lda import LOCAL_STEPS, PORTION, LatentDirichlet, dirichlet_marginal
from sksvi.models.topics.lda_chain import MEDIAN, WIDTH, LDASampler
from sksvi.models.topics.scores import log_dirichlet_ratios
from sksvi.topics._base import BATCHES, TopicModel, correlations
from sksvi.topics._encoding import TypedVocabulary, n_fractions, warn_of_fractions

Array = np.ndarray

#: Prior concentrations of a topic in a document and of a word in a topic, where none is given.
TOPIC_PRIOR, WORD_PRIOR = 0.1, 0.1
#: Documents and passes that two starts are compared by, and of how many documents one is held out.
TRIAL_DOCUMENTS, TRIAL_PASSES, TRIAL_SHARE = 1000, 2, 5
#: Standard errors apart of predictions that tell starts apart.
SIGNIFICANT = 2.0
ALGORITHMS = {"map", "svi", "ssvi-a", "ssvi", "mc-ssvi", "cvi", "h-mc-ssvi", "s-dsvi"}


def _centred_logs(alpha: Array, counts: Array) -> Array:
    """Log proportions (n, K) of documents, about their means."""
    logs = np.log(alpha + counts)
    return logs - logs.mean(1, keepdims=True)


def _scatter_of_logs(alpha: Array, data: Table, counts: Array) -> Scatter:
    return scatter_of(_centred_logs(alpha, counts), True, 1)


@with_own_methods
class StructuredLDA(TopicModel):
    """Latent Dirichlet allocation: every document mixes topics, every topic is a distribution of words.

    Proportions θ ~ Dir(α), topics β ~ Dir(η), words of a document ~ θᵀβ. Topics are learned by stochastic variational
    inference (Hoffman et al. 2013), structured where the algorithm says so: a document's local posterior then depends
    on a draw of the topics (Hoffman and Blei 2015).

    Parameters
    ----------
    n_components : int, default=20
        Number of topics K.
    local_step : {"mean-field", "cvb0", "gibbs"}, default="mean-field"
        How a document is explained by the topics: coordinate ascent on q(θ) and on the topic of each word; the
        collapsed fixed point CVB0; collapsed Gibbs sampling, which rounds fractions of counts at random, and says so,
        and draws 200 words of a cell or more together, given a draw of θ.
    doc_topic_prior : float, array-like of shape (K,), "auto" or "symmetric", default=None
        α. "auto" learns a number per topic, "symmetric" one for all. None: 0.1.
    topic_word_prior : float or "auto", default=None
        η; "auto" learns it. None: 0.1, which the draws of ``uncertainty="corrected"`` begin at: they have a posterior
        of η, lognormal about 0.1 before data, unless there are `prior_words`.
    prior_words : mapping of int to list of words, or to mapping of word to count, default=None
        Seed words per topic, as names of columns or as column indices; each gains prior counts (50 in a list).
    algorithm : {"map", "svi", "ssvi-a", "ssvi", "mc-ssvi", "cvi", "h-mc-ssvi", "s-dsvi"} or Algorithm, default="map"
        How documents see the topics in a step: "map" their mean E β; "svi" (or "cvi") expectations, exp(E log β);
        "ssvi-a" (or "mc-ssvi") a draw; "ssvi" a draw that the gradient follows, which climbs the structured bound and
        smooths topics more. "map" predicts best. Others begin with one pass of it.
    expectation : str or Expectation, default="auto"
        Every expectation of this model has a closed form: all values do the same.
    uncertainty : {"corrected", "variational"}, default="corrected"
        What proportions and topics spread by. "corrected": `fit` ends with a Markov chain of the joint posterior that
        begins at q: topics of words, topics, and α where it is learned or not given (then one number for all topics,
        of median 0.1). Proportions are a mixture over its draws, their means CVB0 at the means of topics and α, at
        which attributes and scores are too. "variational": all of it is that of q. So it is after `partial_fit`, for
        Dask collections, and with a single topic.
    batch_size : int, "auto" or None, default="auto"
        Documents per step; "auto": all up to 200, else a twelfth, at least 50 and at most 1024.
    max_iter : int, default=50
        Passes over the documents, at most.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops: between two passes where a step takes all documents. A
        mini-batch fit evaluates its bound 4, 6, 9, 14, 21, ... passes after the forming one, and stops where it gained
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
        Seed of the order of documents, of draws, and of the first topics: nearly even, or from anchor words where two
        passes over at most 1,000 documents predict better from there.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (K, V)
        Posterior mean of each topic's word probabilities; rows sum to 1.
    topic_prevalence_ : ndarray of shape (K,)
        Expected share of the words that each topic has; 0 marks a topic that less than one word supports.
    topic_correlation_ : ndarray of shape (K, K)
        Correlations of the centred log proportions of the documents of the last ``fit``.
    doc_topic_prior_ : ndarray of shape (K,)
        α, as given or learned: with draws their mean.
    topic_word_prior_ : float
        η, as given or learned: with draws their mean.
    posterior_ : mapping
        ``posterior_["topics"]``: ``mean``, ``std``, ``sample``.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_`, topics by expectations and documents by `local_step`; and per pass,
        nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray

    Notes
    -----
    Counts may be fractional: they weigh words. X of 32-bit floats makes compiled local steps 32-bit, which are faster.
    ``transform`` and ``score`` use CVB0 at the mean of the topics, whatever the fit did: mean-field proportions predict
    worse.

    References
    ----------
    M. Hoffman and D. Blei, Structured stochastic variational inference, AISTATS 2015.

    Examples
    --------
    >>> from sksvi import StructuredLDA
    >>> from sksvi.datasets import make_ctm
    >>> X = make_ctm(60, 40, n_components=3, random_state=0).data
    >>> model = StructuredLDA(3, random_state=0).fit(X)
    >>> model.transform(X).shape, model.components_.shape
    ((60, 3), (3, 40))
    """

    LAYOUT = (
        TopicModel.LAYOUT
        + """
        state_.q.topics Dirichlet; state_.q.alpha.value? (1|k) f; state_.q.eta.value? (1) f
        doc_topic_prior_ (k) f >=0; topic_word_prior_ number >0
        state_.locals.values? (_,k) f >=0; _of_documents? (k,k) f
    """
    )

    doc_topic_prior_: np.ndarray
    topic_word_prior_: float

    _batch_rule = replace(BATCHES, share=12)
    _numbers_of_word = 26.0
    _portion_visit = PORTION
    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in TopicModel._parameter_constraints.items() if name != "covariance"},
        "algorithm": [StrOptions(ALGORITHMS), algorithms.Algorithm],
        "n_components": BaseSVI._parameter_constraints["max_iter"],
        "local_step": [StrOptions(set(LOCAL_STEPS))],
        "doc_topic_prior": [
            StrOptions({"auto", "symmetric"}), Interval(Real, 0, None, closed="neither"), "array-like", None,
        ],
        "topic_word_prior": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), None],
        "prior_words": [Mapping, None],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }  # fmt: skip
    _encoding_class = TypedVocabulary
    _encoding: TypedVocabulary
    _changes = {
        **STREAMED,
        "n_components": COMPONENTS,
        "local_step": UNCHECKED,
        "doc_topic_prior": stays("q has a number per topic, one, or none", lambda model, name: model._learns_alpha()),
        "topic_word_prior": stays("q has it, or the model a number", auto_or_number),
        "prior_words": UNCHECKED,
        "uncertainty": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        local_step: str = "mean-field",
        doc_topic_prior: float | str | ArrayLike | None = None,
        topic_word_prior: float | str | None = None,
        prior_words: Mapping[int, Sequence[str] | Mapping[str, float]] | None = None,
        algorithm: AlgorithmLike = "map",
        expectation: ExpectationLike = "auto",
        uncertainty: str = "corrected",
        batch_size: int | str | None = "auto",
        max_iter: int = 50,
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
        self.local_step = local_step
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.prior_words = prior_words
        self.algorithm = algorithm
        self.expectation = expectation
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

    # ---- fitting
    def _check_call(self) -> None:
        super()._check_call()
        self._topic_prior()
        if self.prior_words and isinstance(self.topic_word_prior, str):
            raise ValueError(
                'topic_word_prior="auto" learns one number for all words and prior_words raises some: give '
                "topic_word_prior a number, or leave prior_words out."
            )

    def _learns_alpha(self) -> str:
        """How α is learned: "auto" or "symmetric"; "" where it is given."""
        return self.doc_topic_prior if isinstance(self.doc_topic_prior, str) else ""

    def _topic_prior(self) -> Array:
        """α, or where its learning starts, (K,)."""
        given = self.doc_topic_prior
        value = np.asarray(TOPIC_PRIOR if given is None or isinstance(given, str) else given, float)
        if value.shape not in ((), (self.n_components,)) or not np.all((value > 0) & np.isfinite(value)):
            raise ValueError(
                f"doc_topic_prior must be a positive number or {self.n_components} of them, one per topic; found "
                f"{given!r}."
            )
        return np.array(np.broadcast_to(value, (self.n_components,)))

    def _word_prior(self) -> Array:
        given = self.topic_word_prior
        return self._seeded(WORD_PRIOR if given is None or isinstance(given, str) else float(given))

    def _model(self, n_words: int) -> LatentDirichlet:
        return LatentDirichlet(
            int(self.n_components),
            n_words,
            alpha=self._topic_prior(),
            eta=self._word_prior(),
            learns_alpha=self._learns_alpha(),
            learns_eta=isinstance(self.topic_word_prior, str),
            local_step=self.local_step,
            dtype=self._encoding.dtype,
        )

    @property
    def _improper(self) -> str:
        for name in ("doc_topic_prior", "topic_word_prior"):
            if isinstance(getattr(self, name), str) and self.uncertainty == "variational":
                return (
                    f"{name}={getattr(self, name)!r} is learned by the bound, without a prior: give a number, or set "
                    "uncertainty='corrected'"
                )
        return ""

    def _drawn_hyper(self, model: LatentDirichlet, rng: Any) -> dict[str, Any]:
        """Concentrations that the chain of the joint posterior draws, from its log-normal prior."""
        sizes = {"eta": 1} if model.learns_eta else {}
        if self.uncertainty == "corrected" and (self.doc_topic_prior is None or self._learns_alpha()):
            sizes["alpha"] = model.n_topics if self._learns_alpha() == "auto" else 1
        return {name: Point(np.log(MEDIAN) + WIDTH * rng.standard_normal(size)) for name, size in sizes.items()}

    def _drawn_proportions(self, model: LatentDirichlet, q: Blocks, drawn: dict[str, Array], n: int, rng: Any) -> Array:
        """θ ~ Dir(α)."""
        return np.asarray(Dirichlet(np.broadcast_to(model.alpha_of(q), (n, model.n_topics))).sample(1, rng)[0])

    def _after_passes(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """The state of the passes, once the covariance of partitioned documents' log proportions is found."""
        self.__dict__.pop("_of_documents", None)
        if not problem.data.at_hand:  # what is kept of documents does not outlive the fit
            assert isinstance(state.locals, RemoteLocals)
            logs = partial(_scatter_of_logs, np.array(cast(LatentDirichlet, problem.model).alpha_of(state.q)))
            found = problem.data.reduced(logs, Scatter.merged, state.locals.apart)
            if found.freedom:
                self._of_documents = found.products / found.freedom
        return state

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        return problem.model.replaced(start=self._start(problem, seed))

    def _start(self, problem: Problem, seed: int) -> Array:
        """First expected counts: nearly even, or from anchor words, whichever predicts better after a few passes.

        Topics that share few words have anchors, and are found from them at once; others are better found from even.
        Where the documents that are held out are too few to tell, the bound does: all others are in it.
        """
        data, model = problem.data, cast(LatentDirichlet, problem.model)
        anchored = first_counts(data, model.eta, seed, problem.threads)
        rng = np.random.default_rng([seed, 5])
        rows = parallel.few(len(data), TRIAL_DOCUMENTS, rng)
        observed, held_out = halved(data.take(np.sort(rows[::TRIAL_SHARE])).X)
        rows = np.sort(np.delete(rows, np.s_[::TRIAL_SHARE]))
        if self.prior_words or self.n_components == 1 or not len(rows) or not held_out.nnz:
            return anchored
        trial = plan.changed(problem, data=data.take(rows), total=None)
        starts, scores, bounds = (even_counts(data, self.n_components, rng), anchored), [], []
        for start in starts:
            started = replace(trial, model=model.replaced(start=start))
            found = plan.run(trial, first_state(started, seed), TRIAL_PASSES, 0.0)
            scores.append(model.with_local("cvb0").completions(found.q, observed, held_out, problem.threads))
            bounds.append(found.bound)
        gain = scores[1] - scores[0]
        significant = abs(gain.sum()) > SIGNIFICANT * np.linalg.norm(gain)
        return starts[int(gain.sum() > 0.0 if significant else bounds[1] > bounds[0])]

    # ---- what a fit leaves behind
    def _set_means(self, model: Any, q: Blocks) -> None:
        super()._set_means(model, q)
        self.doc_topic_prior_ = np.array(model.alpha_of(q))
        self.topic_word_prior_ = float(model.prior(q)["topics"].concentration.min())

    @property
    def topic_correlation_(self) -> Array:
        """Correlations (K, K) of the centred log proportions of the documents of the last `fit`.

        The model has topics independent a priori; these are of its documents, and none are left of a stream.
        """
        check_is_fitted(self)
        cov = self._spread_of_documents
        if cov is None:
            raise AttributeError("topic_correlation_ is there after a fit of several documents, and not of a stream")
        return correlations(cov)

    def _without_rows(self) -> Any:
        """The estimator without its documents, their covariance of log proportions in their place."""
        bare = super()._without_rows()
        if hasattr(self, "state_"):
            bare._of_documents = self._spread_of_documents
        return bare

    @property
    def _spread_of_documents(self) -> Array | None:
        """Covariance of the centred log proportions of the documents of the last fit."""
        found = self.state_.locals
        if self._record.streams:
            return None
        if isinstance(found, Locals) and len(found) > 1:
            alpha = cast(LatentDirichlet, self._fitted_model).alpha_of(self._globals)
            return np.atleast_2d(np.cov(_centred_logs(alpha, found.values).T))
        return self._of_documents

    #: Covariance of the centred log proportions of the documents of a fit that keeps nothing of these.
    _of_documents: Array | None = None

    # ---- documents
    def _sampler(self, model: LatentDirichlet) -> LDASampler | None:
        """α and η that nobody gave have a posterior, of one number each."""
        learned = self._learns_alpha() or ("symmetric" if self.doc_topic_prior is None else "")
        return None if model.n_topics == 1 else LDASampler(model, learned, self._first_eta(WORD_PRIOR))

    def _proportions(self, q: Blocks, X: Any) -> Array:
        model = cast(LatentDirichlet, self._fitted_model)
        found = self._documents(model.with_local("cvb0"), X, q)
        return dirichlet_marginal(model.alpha_of(q), found.local, found.squares)[0]

    def _own_moments(self, q: Blocks, X: Any) -> tuple[Array, Array]:
        """Mean and standard deviation (n, K) by Gibbs sampling: a Dirichlet about CVB0's mean would be too narrow.

        Of documents of very many words it is not, and there it stands.
        """
        model, short = cast(LatentDirichlet, self._fitted_model), self._sampled(X)
        alpha = model.alpha_of(q)
        out = np.empty((2, X.shape[0], len(alpha)))
        for rows, step in ((short, "gibbs"), (~short, "cvb0")):
            if rows.any():
                found = self._documents(model.with_local(step), X[rows], q)
                out[:, rows] = dirichlet_marginal(alpha, found.local, found.squares)
        return out[0], out[1]

    def _sampled(self, X: Any) -> Array:
        rows = super()._sampled(X)
        warn_of_fractions(n_fractions(X[rows]), "the sampler of deviations and intervals")
        return rows

    def _log_ratios(self, X: Any, n_draws: int) -> Iterator[Array]:
        model = cast(LatentDirichlet, self._fitted_model)
        step = "mean-field" if model.local_step == "gibbs" else model.local_step
        q = self._seen_globals
        local = self._documents(model.with_local(step), X, q).local
        return log_dirichlet_ratios(X, q["topics"].mean, model.alpha_of(q), local, n_draws)
