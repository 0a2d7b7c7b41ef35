"""What a topic model of documents with covariates has: effects on topics, and methods that take covariates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self, cast, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._typing.arrays import DataFrame, MatrixLike, Names, PerRow
from sksvi.models.topics.documents import DocumentCounts
from sksvi.partitions.collections import is_collection
from sksvi.predictive.plain import tail_of
from sksvi.topics._base import TopicModel
from sksvi.topics._covariates import StructuralVocabulary, centred, effect_table, mean_proportions
from sksvi.topics._encoding import named

Array = np.ndarray


class TopicModelWithCovariates(TopicModel):
    """A topic model whose proportions may depend on covariates of documents."""

    _encoding_class = StructuralVocabulary

    def fit(
        self, X: MatrixLike, y: object = None, feature_names: Names | None = None, covariates: MatrixLike | None = None
    ) -> Self:
        """Fit to documents, and to what their topics depend on.

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
        covariates : DataFrame, Series or array-like of shape (n, C), default=None
            Columns that the expected log odds of a document's topics are linear in: numbers, or text and categories,
            of which each level but the first has an effect. The effects of a column, standardised, have a prior that
            is worth one document (with ``covariance_prior=0`` none). For rows in memory, at least two topics, and
            algorithms other than "s-dsvi".

        Returns
        -------
        CorrelatedTopicModel
            The estimator itself.

        Raises
        ------
        ValueError
            Covariates that are missing, do not vary, or are not one row per document; or where they are not supported.
        """
        if covariates is None:
            return super().fit(X, y, feature_names)
        self._check_call()
        self._check_structural(X)
        return self._fit(named(X, feature_names), covariates, None, None)

    def _check_structural(self, X: Any) -> None:
        """Raise where proportions cannot depend on covariates."""
        why = ""
        if isinstance(X, Iterator) or is_collection(X):
            why = "X is read in parts: give all documents at once"
        elif self.n_components < 2:
            why = "n_components=1 leaves no proportions to explain: take two topics at least"
        elif algorithms.resolve(self.algorithm).spec.local == "standard":
            why = 'algorithm="s-dsvi" moves μ and Σ by gradients: choose "mc-ssvi"'
        if why:
            raise ValueError(f"covariates are given, and {why}.")

    def fit_transform(
        self, X: MatrixLike, y: object = None, feature_names: Names | None = None, covariates: MatrixLike | None = None
    ) -> Array:
        """Fit to documents, and their proportions.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        y : None
            Ignored.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.
        covariates : DataFrame, Series or array-like of shape (n, C), default=None
            As of `fit`.

        Returns
        -------
        proportions : ndarray of shape (n, K)
            Rows sum to 1.
        """
        fitted = self.fit(X, feature_names=feature_names, covariates=covariates)
        return fitted.transform(X, feature_names=feature_names, covariates=covariates)

    @property
    def _n_covariates(self) -> int:
        fixed = getattr(getattr(self, "_encoding", None), "covariates", None)  # a model of no rows has none
        return 0 if fixed is None else len(fixed.centre)

    @property
    def effects_(self) -> DataFrame:
        """Effects of covariates on log proportions, with 90 % intervals; see `effects`."""
        check_is_fitted(self)
        if self._encoding.covariates is None or self._draws is None:
            raise AttributeError("effects_ is there after a fit with covariates and uncertainty='corrected'")
        return self.effects()

    def effects(self, coverage: float = 0.9, contrast: str | None = None) -> DataFrame:
        """Effects of covariates on log proportions, with intervals that carry the uncertainty of documents and topics.

        A row has what one unit of a covariate, or a level in the place of the first one, adds to the expected log
        proportion of a topic, less the mean over topics, so that no choice of a reference topic changes it. From 256
        draws of the chain that ends the fit, in which every document's log odds move.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        contrast : str, default=None
            A categorical column: differences between all pairs of its levels, in the place of those from the first.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, by topic and covariate.

        Raises
        ------
        ValueError
            Without covariates, without draws, or where `contrast` is no categorical column.
        """
        check_is_fitted(self)
        tail, fixed = tail_of(coverage), self._encoding.covariates
        if fixed is None or self._draws is None or self._draws.regression is None:
            raise ValueError(
                "effects of covariates have draws after fit(X, covariates=...) with uncertainty='corrected' and topics "
                "that are no points."
            )
        effects, names = centred(self._draws.regression["slopes"] / fixed.scale[:, None]), fixed.names
        if contrast is not None:
            names, weights = fixed.differences(contrast)
            effects = np.einsum("cd,rdk->rck", weights, effects)
        return effect_table(effects, self.get_feature_names_out(), names, tail)

    def expected_proportions(self, covariates: MatrixLike, coverage: float = 0.9) -> DataFrame:
        """Expected topic proportions of documents with these covariates, with intervals.

        E softmax(η, 0) under N(μ + Bᵀz, Σ), at each of 256 draws of μ, B and Σ.

        Parameters
        ----------
        covariates : DataFrame, Series or array-like of shape (n, C)
            As of `fit`: a row for each question.
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, by topic and row of `covariates`.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, fixed = tail_of(coverage), self._encoding.covariates
        if fixed is None or self._draws is None or self._draws.regression is None:
            raise ValueError("expected_proportions needs fit(X, covariates=...) with uncertainty='corrected'.")
        frame: Any = pd.DataFrame(cast(Any, covariates))
        draws = mean_proportions(self._draws.regression, fixed.design(covariates, len(frame)))
        found = effect_table(draws, self.get_feature_names_out(), list(frame.index), tail)
        return found.rename_axis(["topic", "row"])

    def _counts(self, X: Any) -> Any:
        if isinstance(X, DocumentCounts):  # read already
            return X
        counts, fixed = super()._counts(X), self._encoding.covariates
        return counts if fixed is None else DocumentCounts.of(counts, fixed.design(None, counts.shape[0]))

    def _halves(self, counts: Any) -> tuple[Any, Any]:
        """Halves of each document's words, the first beside its covariates."""
        observed, held_out = super()._halves(counts)
        design = getattr(counts, "design", None)
        return observed if design is None else DocumentCounts.of(observed, design), held_out

    def _beside(self, X: Any, feature_names: Any, covariates: Any) -> Any:
        """Documents with their covariates."""
        check_is_fitted(self)
        X = named(X, feature_names)
        if covariates is None:
            return X
        fixed = self._encoding.covariates
        if fixed is None:
            raise ValueError("covariates are given, and the fit had none: leave them out, or fit with covariates.")
        counts = self._counts(X)
        return DocumentCounts.of(counts, fixed.design(covariates, counts.shape[0]))

    @overload
    def transform(
        self,
        X: MatrixLike,
        return_std: Literal[False] = ...,
        feature_names: Names | None = ...,
        covariates: MatrixLike | None = ...,
    ) -> np.ndarray: ...

    @overload
    def transform(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        feature_names: Names | None = ...,
        covariates: MatrixLike | None = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def transform(
        self,
        X: MatrixLike,
        return_std: bool = ...,
        feature_names: Names | None = ...,
        covariates: MatrixLike | None = ...,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def transform(
        self,
        X: MatrixLike,
        return_std: bool = False,
        feature_names: Names | None = None,
        covariates: MatrixLike | None = None,
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
        covariates : DataFrame, Series or array-like of shape (n, C), default=None
            As of `fit`, columns by name. None: all at their mean.

        Returns
        -------
        proportions : ndarray of shape (n, K)
            Rows sum to 1.
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        return super().transform(self._beside(X, feature_names, covariates), return_std)

    def proportion_interval(
        self,
        X: MatrixLike,
        coverage: float = 0.9,
        feature_names: Names | None = None,
        covariates: MatrixLike | None = None,
    ) -> Array:
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
        covariates : DataFrame, Series or array-like of shape (n, C), default=None
            As of `fit`. None: all at their mean.

        Returns
        -------
        interval : ndarray of shape (n, K, 2)
            Lower and upper ends.
        """
        return super().proportion_interval(self._beside(X, feature_names, covariates), coverage)

    def score(
        self,
        X: MatrixLike,
        y: PerRow | None = None,
        feature_names: Names | None = None,
        covariates: MatrixLike | None = None,
    ) -> float:
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
        covariates : DataFrame, Series or array-like of shape (n, C), default=None
            As of `fit`. None: all at their mean.

        Returns
        -------
        score : float
            Nats per word; higher is better.
        """
        if covariates is None:
            return super().score(X, y, feature_names)
        return super().score(self._beside(X, feature_names, covariates))
