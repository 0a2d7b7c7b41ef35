"""What topic models share: counts in, proportions out, completion scores, tables of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self, overload

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, Names, PerRow
from sksvi.estimators.base import BatchRule
from sksvi.estimators.checks import check_count, check_flag
from sksvi.estimators.completion import halved
from sksvi.estimators.draws import PosteriorDraws, Variable
from sksvi.estimators.encoding import GivenRows, check_variational
from sksvi.estimators.posterior import DrawnBlock, Posterior
from sksvi.inference.problem import Problem
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State
from sksvi.integrals.pareto import LEAST_DRAWS
from sksvi.likelihoods.traits import LARGEST_COUNT
from sksvi.models.base import Blocks
from sksvi.models.data import Table
from sksvi.models.topics.chain import TopicDraws, n_stored
from sksvi.models.topics.scores import shares_of_topics, word_scores
from sksvi.partitions.lazy import added
from sksvi.predictive.plain import tail_of
from sksvi.predictive.quantiles import beta_quantiles
from sksvi.topics import _joint
from sksvi.topics._encoding import Vocabulary, named
from sksvi.topics._word_methods import WordMethods

Array = np.ndarray

#: Documents of a step.
BATCHES = BatchRule(whole=200, smallest=50, largest=1024, share=24)
#: Documents that are enough for a stream to begin from.
ENOUGH_DOCUMENTS = 200
#: Words of a document beyond which its proportions are not sampled.
LONG = 1e5
#: Prior counts that a seed word gains in its topic when no number is given.
SEED_COUNT = 50.0


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WordMethods):
    """Counts of words by document; a subclass gives a document's proportions and the topics."""

    LAYOUT = (
        WordMethods.LAYOUT
        + """
        _record.choices.n_components count k; components_ (k,d) f >=0
        state_.q.topics Family; state_.q.topics.mean (k,d); posterior_._blocks.topics.mean (k,d)
        _draws? TopicDraws; _draws.topics? (_,k,d) x
        _first_rows? Table; _first_rows.X? csr_matrix where it.shape[1] <= d
    """
    )

    posterior_: Posterior
    components_: Array
    n_components: int
    n_jobs: int | None
    prior_words: Any
    topic_word_prior: Any
    uncertainty: str
    _encoding_class = Vocabulary
    _encoding: Vocabulary
    _batch_rule = BATCHES

    #: Numbers that a fit holds for each topic of a word; those of a document have a property.
    _numbers_of_word: float
    #: How long a step of `partial_fit` visits a document.
    _portion_visit: Any

    @property
    def _numbers_of_document(self) -> float:
        return 3.0

    #: Draws of the joint posterior; None: intervals are those of q.
    _draws: TopicDraws | None = None

    @property
    def _globals(self) -> Blocks:
        """Fitted topics, and what is learned besides."""
        return self.state_.shown

    @property
    def _seen_globals(self) -> Blocks:
        """Topics, and what is learned besides, as documents see them: where there are draws, at their mean."""
        return self._globals if self._draws is None else self._sampler(self._fitted_model).at_mean(self._draws)

    def _sampler(self, model: Any) -> Any:
        """The conditional distributions of a model for the chain of its joint posterior; None: it needs none."""
        raise AttributeError(f"{type(self).__name__} has no chain")

    def _proportions(self, q: Blocks, X: Any) -> Array:
        """Mean (n, K) of each document's proportions given the topics."""
        raise AttributeError(f"{type(self).__name__} has no proportions")

    def _own_moments(self, q: Blocks, X: Any) -> tuple[Array, Array]:
        """Mean and standard deviation (n, K) of each document's proportions given the topics."""
        raise AttributeError(f"{type(self).__name__} has no proportions")

    # ---- fitting
    def fit(self, X: MatrixLike, y: object = None, feature_names: Names | None = None) -> Self:
        """Fit to documents.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V), or iterator of such chunks
            Counts of words. An iterator is read once: every chunk is a ``partial_fit``, so that a corpus need not fit
            into memory.
        y : None
            Ignored.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names: ``vectorizer.get_feature_names_out()``. Later calls find
            words by name.

        Returns
        -------
        TopicModel
            The estimator itself.
        """
        self._check_call()
        if isinstance(X, Iterator):
            return self._fit_chunks(X, feature_names)
        return self._fit(named(X, feature_names), None, None, None)

    def _fit_chunks(self, chunks: Iterator[Any], feature_names: Any) -> Self:
        with self._all_or_nothing():
            if not self.warm_start and hasattr(self, "state_"):
                del self.state_
            n_chunks = 0
            for chunk in chunks:
                self.partial_fit(chunk, feature_names=feature_names)
                n_chunks += 1
            if not n_chunks:
                raise ValueError("X is an iterator without chunks: at least one is needed.")
        return self

    def partial_fit(self, X: MatrixLike, y: object = None, feature_names: Names | None = None) -> Self:
        """Go on with a chunk of documents.

        The first 200 documents of a stream (16 MB; none where earlier chunks fade) are kept, and fitted together
        whenever they have doubled; then each chunk is steps. A stream may so begin with one document, or empty ones.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts. Columns with names are aligned with the known words, in any order; words that are not there have
            no counts, and new ones join the vocabulary, at the prior. Without names a wider X than before brings new
            words in its last columns.
        y : None
            Ignored.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        TopicModel
            The estimator itself.
        """
        self._check_call()
        return self._partial_fit(named(X, feature_names), None, None, None)

    #: A warm fit goes on from the topics that it has, however many documents are new.
    _outgrown_at = np.inf
    #: Documents of a stream that are kept, and fitted together: topics that began among a few do not part later.
    _enough_rows = ENOUGH_DOCUMENTS

    def _rows_so_far(self, data: Table, first: bool, fade: float) -> Table | None:
        if fade < 1.0:  # documents have no weights
            self._first_rows = None
        stored = self._first_rows
        if not first and stored is not None and stored.X.shape[1] < data.X.shape[1]:  # new words, in the last columns
            wide = sp.csr_matrix((stored.X.data, stored.X.indices, stored.X.indptr), (len(stored), data.X.shape[1]))
            self._first_rows = replace(stored, X=wide)
        return super()._rows_so_far(data, first, fade)

    def _check_call(self) -> None:
        """An error for parameters that no fit can use."""
        self._validate_params()

    def _word_prior(self) -> Array:
        """Prior concentrations (K, V), raised for seed words."""
        raise AttributeError(f"{type(self).__name__} has no prior of words")

    def _first_eta(self, usual: float) -> float | None:
        """Where the concentration of words begins in the chain, which so has a posterior; None: it was given."""
        given = self.topic_word_prior is not None or self.prior_words is not None
        return None if given else usual

    def _seeded(self, value: float) -> Array:
        """Prior concentrations (K, V) at a value, raised for seed words."""
        prior = np.full((self.n_components, self.n_features_in_), value)
        names = {name: j for j, name in enumerate(getattr(self, "feature_names_in_", []))}
        for topic, words in (self.prior_words or {}).items():
            # Integral has no order in typeshed
            if not (isinstance(topic, Integral) and 0 <= topic < self.n_components):  # type: ignore[operator]
                raise ValueError(f"prior_words has topic {topic!r}: topics are 0 to {self.n_components - 1}.")
            counts = words if isinstance(words, Mapping) else dict.fromkeys(words, SEED_COUNT)
            for word, count in counts.items():
                column = word if isinstance(word, Integral) else names.get(word)
                if column is None or not 0 <= column < self.n_features_in_:  # type: ignore[operator]
                    raise ValueError(f"prior_words of topic {topic} has {word!r}, which is no column of X.")
                if not count >= 0:
                    raise ValueError(
                        f"prior_words of topic {topic} gives {word!r} the count {count!r}: it must be >= 0."
                    )
                prior[topic, column] += count
        return prior

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        return self._model(data.X.shape[1]), data

    def _model(self, n_words: int) -> Any:
        raise AttributeError(f"{type(self).__name__} has no model")

    def _streaming_model(self, data: Table, first: bool) -> Any:
        return self._model(data.X.shape[1]).replaced(visit=self._portion_visit)

    def _check_memory(self, data: Table) -> None:
        K, (n, words) = float(self.n_components), data.X.shape
        numbers = K * (self._numbers_of_word * words + self._numbers_of_document * (n if data.at_hand else 0))
        remedy = "lower n_components, or leave rare words out"
        if self.uncertainty == "corrected" and data.at_hand:
            numbers += 0.5 * n_stored(K * words) * K * words  # draws of topics, in single precision
        memory.need(8.0 * numbers, f"n_components={self.n_components} for {words} words", remedy)

    # ---- what a fit leaves behind
    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        sampler = self._sampler(problem.model)
        if self.uncertainty == "corrected" and problem.data.at_hand and sampler is not None:
            self._draws = _joint.joint_draws(sampler, problem, state)
            self.posterior_ = Posterior({"topics": DrawnBlock(self._draws.topics, self._draws.means)})
            self._set_means(problem.model, self._seen_globals)
        return super()._refine(problem, state, budget)

    def _expose(self, model: Any, state: State) -> None:
        self._draws = None
        self.posterior_ = Posterior({"topics": state.q["topics"]})
        self._set_means(model, state.q)

    def _set_means(self, model: Any, q: Blocks) -> None:
        """Attributes that are means of the globals: of q, or of draws."""
        self.components_ = self.posterior_["topics"].mean

    @property
    def _fitted_model(self) -> Any:
        return self._model(self.components_.shape[1])

    @property
    def topic_prevalence_(self) -> Array:
        """Expected share (K,) of the words that each topic has; 0: less than one word supports it."""
        check_is_fitted(self)
        if self._draws is not None and self._draws.words is not None:
            return shares_of_topics(self._draws.words)
        return np.asarray(self._fitted_model.prevalence(self._globals))

    # ---- rows
    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        check_variational(self)
        return super()._in_partitions(given, fixed)

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        if self.n_components > 1 and np.count_nonzero(self._fitted_model.prevalence(state.shown)) == 1:
            yield (
                f"one of {self.n_components} topics has all the words: these documents tell no two apart, or are no "
                "counts (TF-IDF makes fractions of a word of each). Give counts, for example by CountVectorizer, or "
                "longer or more documents."
            )

    def _documents(self, model: Any, X: Any, q: Blocks | None = None, **options: Any) -> Any:
        """Local posteriors of documents given the globals, if none are given those of the fit.

        They are the same for a document whatever the others are.
        """
        with parallel.working():
            return model.documents(self._globals if q is None else q, X, parallel.n_threads(self.n_jobs), **options)

    def _sampled(self, X: Any) -> Array:
        """Which documents are sampled, (n,): those of very many words have proportions without a spread to speak of."""
        return np.asarray(X.sum(1), float).ravel() <= LONG

    def _counts(self, X: Any) -> Any:
        """X as a CSR matrix of counts, a column per word of the fit."""
        return self._encoding.counts(self, X, self._encoding)

    # ---- results
    def fit_transform(self, X: MatrixLike, y: object = None, feature_names: Names | None = None) -> np.ndarray:
        """Fit to documents, and their proportions.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        y : None
            Ignored.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        proportions : ndarray of shape (n, K)
            Rows sum to 1.
        """
        return self.fit(X, feature_names=feature_names).transform(X, feature_names=feature_names)

    @overload
    def transform(
        self, X: MatrixLike, return_std: Literal[False] = ..., feature_names: Names | None = ...
    ) -> np.ndarray: ...

    @overload
    def transform(
        self, X: MatrixLike, return_std: Literal[True], feature_names: Names | None = ...
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def transform(
        self, X: MatrixLike, return_std: bool = ..., feature_names: Names | None = ...
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def transform(
        self, X: MatrixLike, return_std: bool = False, feature_names: Names | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior mean of each document's topic proportions.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names; known words are found by name, others are ignored
            with a warning.

        Returns
        -------
        proportions : ndarray of shape (n, K)
            Rows sum to 1.
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        check_is_fitted(self)
        return_std, counts = check_flag(return_std, "return_std"), self._counts(named(X, feature_names))
        return self._shown(counts) if return_std else self._proportions(self._seen_globals, counts)

    def _shown(self, X: Any) -> tuple[Array, Array]:
        """Means and standard deviations (n, K) of proportions."""
        return self._proportions(self._seen_globals, X), self._deviations(X)

    def _deviations(self, X: Any) -> Array:
        """Standard deviations (n, K) of proportions."""
        if self._draws is None:
            return self._own_moments(self._globals, X)[1]
        rows, draws = self._sampled(X), self._draws
        out = np.empty((X.shape[0], len(self.components_)))
        with parallel.working():
            threads = parallel.n_threads(self.n_jobs)
            out[rows] = _joint.moments(self._sampler(self._fitted_model), draws, X[rows], threads)[1]
        out[~rows] = self._own_moments(self._seen_globals, X[~rows])[1] if not rows.all() else 0.0
        return out

    def proportion_interval(self, X: MatrixLike, coverage: float = 0.9, feature_names: Names | None = None) -> Array:
        """Equal-tailed intervals of each document's topic proportions.

        With ``uncertainty="corrected"`` quantiles of draws of the proportions given each of the draws of topics and
        prior. Otherwise those of the Beta distribution with the mean and the standard deviation that a document has
        given the mean of the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        coverage : float, default=0.9
            Probability that the interval holds.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        interval : ndarray of shape (n, K, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        tail, counts = tail_of(coverage), self._counts(named(X, feature_names))
        if self._draws is None:
            return _joint.beta_intervals(*self._own_moments(self._globals, counts), tail)
        rows, out = self._sampled(counts), np.empty((counts.shape[0], len(self.components_), 2))
        with parallel.working():
            sampler, threads = self._sampler(self._fitted_model), parallel.n_threads(self.n_jobs)
            out[rows] = _joint.intervals(sampler, self._draws, counts[rows], threads, tail)
        if not rows.all():
            out[~rows] = _joint.beta_intervals(*self._own_moments(self._seen_globals, counts[~rows]), tail)
        return out

    def proportion_k_hat(self, X: MatrixLike, n_draws: int = 400, feature_names: Names | None = None) -> Array:
        """How good the variational posterior of each document's proportions is, the topics given: Pareto's k-hat.

        Proportions are drawn from the document's q, and weighed by the words and the prior given the mean of the
        topics. Above 0.7 q is too far from the posterior for its intervals: those of ``uncertainty="corrected"`` do
        without it (Vehtari, Simpson, Gelman, Yao and Gabry 2024).

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        n_draws : int, default=400
            Draws of each document, at least 25; the same random numbers serve all.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        k_hat : ndarray of shape (n,)
            -inf where all weights are the same, as of a document without words.

        Raises
        ------
        ValueError
            Where `n_draws` is below 25.
        """
        check_is_fitted(self)
        n_draws, counts = check_count(n_draws, "n_draws", LEAST_DRAWS), self._counts(named(X, feature_names))
        return _joint.k_hats(self._log_ratios(counts, n_draws))

    def _log_ratios(self, X: Any, n_draws: int) -> Iterator[Array]:
        """Log importance ratios of draws of proportions from q, document by document."""
        raise AttributeError(f"{type(self).__name__} has no importance ratios")

    def log_predictive_density(self, X: MatrixLike, held_out: ArrayLike, feature_names: Names | None = None) -> Array:
        """Log probability of held-out words given the other words of each document.

        Σ_w c_w log Σ_k E[θ_k] E[β_kw] with the proportions' posterior given X: words are scored one by one, each
        integrated over both posteriors.

        Parameters
        ----------
        X, held_out : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts that are known, and counts to score.
        feature_names : array-like of shape (V,), default=None
            Words of the columns of both, where they have no column names.

        Returns
        -------
        density : ndarray of shape (n,)
            In nats; 0 where nothing is held out.
        """
        check_is_fitted(self)
        counts, held_out_counts = (self._counts(named(part, feature_names)) for part in (X, held_out))
        if counts.shape[0] != held_out_counts.shape[0]:
            raise ValueError(
                f"X has {counts.shape[0]} documents and held_out {held_out_counts.shape[0]}: they must be the same "
                "ones."
            )
        return self._word_scores(counts, held_out_counts)

    def _word_scores(self, X: Any, held_out: Any) -> Array:
        q = self._seen_globals
        return word_scores(self._proportions(q, X), q["topics"].mean, held_out)

    def score(self, X: MatrixLike, y: PerRow | None = None, feature_names: Names | None = None) -> float:
        """Held-out log likelihood per word by document completion.

        A fixed half of each document's distinct words gives the posterior of its proportions; the score is the mean log
        probability of the words of the other half.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        y : ignored
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names. Words that the model does not know are not scored.

        Returns
        -------
        score : float
            Nats per word; higher is better.
        """
        check_is_fitted(self)
        total, words = added(self, "_scored", X, feature_names)
        if not words:
            raise ValueError("X has no words to score: every document is empty.")
        return float(total / words)

    def _halves(self, counts: Any) -> tuple[Any, Any]:
        """The words of each document that say what its topics are, and those that are scored."""
        return halved(counts)

    def _scored(self, X: Any, feature_names: Any) -> tuple[float, float]:
        """Sum of the log probabilities of held-out words, and how many they are."""
        observed, held_out = self._halves(self._counts(named(X, feature_names)))
        return self._word_scores(observed, held_out).sum(), held_out.sum()

    def perplexity(self, X: MatrixLike, feature_names: Names | None = None) -> float:
        """exp(-score): the number of equally likely words that held-out words are as hard to guess as.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        perplexity : float
        """
        return float(np.exp(-self.score(X, feature_names=feature_names)))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    # ---- the prior
    def _drawn_proportions(self, model: Any, q: Blocks, drawn: dict[str, Array], n: int, rng: Any) -> Array:
        """Proportions (n, K) of documents."""
        raise AttributeError(f"{type(self).__name__} draws no proportions")

    def _row_draws(self, model: Any, q: Blocks, drawn: dict[str, Array], data: Table, rng: Any) -> Array:
        """Counts of documents that are as long as those of X."""
        words = self._drawn_proportions(model, q, drawn, len(data), rng) @ drawn["topics"]
        lengths = np.asarray(data.X.sum(1)).ravel()
        if (longest := lengths.max(initial=0)) > LARGEST_COUNT:
            found = f"row {lengths.argmax()} of X has {longest:.5g}"
            raise ValueError(f"{found} words; draws are of whole words, at most {LARGEST_COUNT:.5g} a document.")
        lengths = np.rint(lengths).astype(int)
        each = zip(lengths, words / words.sum(1, keepdims=True), strict=True)
        return np.array([rng.multinomial(length, row) for length, row in each], float)

    def _axes_of_model(self, model: Any) -> dict[str, dict[str, Any]]:
        topics = [f"topic{k}" for k in range(model.n_topics)]
        return {"topics": {"topic": topics, "word": self._words()}}

    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return {"topics": {"topic": self.get_feature_names_out(), "word": self._words()}}

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        """Draws of topics and, where there are some of both together, of the prior of proportions."""
        found = super()._posterior_draws(n, seed := rng.randint(np.iinfo(np.int32).max))
        if self._draws is not None:
            for name, values in self._draws.prior.items():
                axes = {f"{name}_{i}": np.arange(size) for i, size in enumerate(values.shape[1:])}
                found.variables[name] = Variable(DrawnBlock(values).sample(n, seed), axes)
        return found

    def summary(self, coverage: float = 0.9, n: int = 10) -> DataFrame:
        """Posterior of the probabilities of each topic's most probable words.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        n : int, default=10
            Words per topic.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, by topic and word; topics that no word supports are left out.
        """
        import pandas as pd

        check_is_fitted(self)
        block, tail = self.posterior_["topics"], tail_of(coverage)
        topics, order = self._top(check_count(n, "n"))
        mean, std = (np.take_along_axis(part[topics], order, 1).ravel() for part in (block.mean, block.std))
        table = {"mean": mean, "std": std, "lower": mean, "upper": mean}
        if self._draws is not None:
            ends = zip(("lower", "upper"), block.quantiles([tail, 1 - tail]), strict=True)
            table |= {name: np.take_along_axis(end[topics], order, 1).ravel() for name, end in ends}
        elif np.any(std > 0):  # points have no spread
            own = np.take_along_axis(block.concentration[topics], order, 1)
            shapes = own.ravel(), np.maximum(block.total[topics] - own, np.finfo(float).tiny).ravel()
            table |= {"lower": beta_quantiles(*shapes, tail), "upper": beta_quantiles(*shapes, 1 - tail)}
        names, words = self.get_feature_names_out()[topics], self._words()[order]
        pairs = [(topic, word) for topic, row in zip(names, words, strict=True) for word in row]
        return pd.DataFrame(table, index=pd.MultiIndex.from_tuples(pairs, names=["topic", "word"]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def correlations(cov: Array) -> Array:
    """Correlations (K, K) of variables with a covariance; 0 where one does not vary."""
    sd = np.sqrt(np.maximum(np.diagonal(cov), 0.0))
    out = cov / np.where(sd > 0, sd, 1.0)[:, None] / np.where(sd > 0, sd, 1.0)
    np.fill_diagonal(out, 1.0)
    return np.asarray(out)
