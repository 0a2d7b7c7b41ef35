"""What topic models say of their words: the first ones of each topic, coherence, and how sure topics are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame, MatrixLike, Names, Series
from sksvi.estimators.checks import check_choice, check_count
from sksvi.estimators.first_rows import FirstRows
from sksvi.topics._encoding import named
from sksvi.topics._words import MEASURES, ORDERS, overlaps, pointwise_information

Array = np.ndarray


class WordMethods(FirstRows):
    """Methods of topic models about words."""

    def _words(self, feature_names: Any = None) -> Array:
        feature_names = getattr(self, "feature_names_in_", None) if feature_names is None else feature_names
        if feature_names is None:
            return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        names = np.asarray(feature_names, dtype=object)
        if names.shape != (self.n_features_in_,):
            hint = "" if names.ndim else f" Is {feature_names!r} a number of words? Then say n={feature_names!r}."
            raise ValueError(f"feature_names has shape {names.shape}, expected {(self.n_features_in_,)}.{hint}")
        return names

    def _top(self, n: int, by: str = "probability") -> tuple[Array, Array]:
        """Topics that words support, and the columns (topics, n) of the first words of each."""
        prevalence = self.topic_prevalence_
        topics = np.flatnonzero(prevalence != 0)
        scores = ORDERS[check_choice(by, "by", tuple(ORDERS))](self.components_, prevalence)[topics]
        return topics, np.argsort(-scores, axis=1, kind="stable")[:, :n]

    def top_words(self, feature_names: Names | None = None, n: int = 10, by: str = "probability") -> DataFrame:
        """The first words of each topic.

        Parameters
        ----------
        feature_names : array-like of shape (V,), default=None
            Words, for example ``vectorizer.get_feature_names_out()``; None: the names of X's columns.
        n : int, default=10
        by : {"probability", "frex", "relevance"}, default="probability"
            Order of words within a topic: by their probability; by the harmonic mean of the ranks of their probability
            and of the share of it that is this topic's (Bischof and Airoldi 2012, weight 0.5); or by
            0.6 log β + 0.4 log(β/p), p a word's probability over all topics (Sievert and Shirley 2014).

        Returns
        -------
        words : DataFrame
            A row per topic that words support.
        """
        import pandas as pd

        check_is_fitted(self)
        names, (topics, order) = self._words(feature_names), self._top(check_count(n, "n"), by)
        return pd.DataFrame(names[order], index=pd.Index(self.get_feature_names_out()[topics], name="topic"))

    def coherence(
        self, X: MatrixLike, measure: str = "npmi", n: int = 10, feature_names: Names | None = None
    ) -> Series:
        """How often the most probable words of each topic stand together in documents.

        Words that no document has together count -1, and so do words that X lacks. A window is a document, as counts
        have no order: C_v of running text takes windows of 110 words.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts, best of other documents than those of the fit.
        measure : {"npmi", "c_v"}, default="npmi"
            Normalised pointwise mutual information log(p(v,w)/p(v)p(w)) / -log p(v,w), mean over pairs of words, in
            [-1, 1] (Lau, Newman and Baldwin 2014); or mean cosine of each word's row of these numbers with the sum
            over words (Röder, Both and Hinneburg 2015).
        n : int, default=10
            Words of each topic, at least 2.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        Series
            By topic; those that no word supports are left out.
        """
        import pandas as pd

        check_is_fitted(self)
        score, n = MEASURES[check_choice(measure, "measure", tuple(MEASURES))], check_count(n, "n", 2)
        occurs = self._counts(named(X, feature_names)).astype(bool).astype(float).tocsc()
        topics, order = self._top(n)
        found = [score(pointwise_information(occurs, words)) for words in order]
        return pd.Series(found, pd.Index(self.get_feature_names_out()[topics], name="topic"), name=measure)

    def stability(self, X: MatrixLike, n_seeds: int = 5, **fit_params: Any) -> DataFrame:
        """How much of each topic fits from other seeds find again.

        Topics are matched one to one (Hungarian algorithm, least sum of distances); two share the probability
        Σ_w min(β_w, β'_w). A topic that refits do not have, below a half, is one of several ways to divide the words.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts, those of the fit.
        n_seeds : int, default=5
            Fits anew.
        **fit_params
            Of `fit`, such as ``feature_names``.

        Returns
        -------
        DataFrame
            Mean and least share over the fits, by topic.
        """
        import pandas as pd

        check_is_fitted(self)
        rng = np.random.default_rng([check_count(n_seeds, "n_seeds"), 11])
        seeds = rng.choice(2**31, n_seeds, replace=False)
        fits = [clone(self).set_params(random_state=int(seed), warm_start=False) for seed in seeds]
        shares = np.array([overlaps(self.components_, fit.fit(X, **fit_params).components_) for fit in fits])
        index = pd.Index(self.get_feature_names_out(), name="topic")
        return pd.DataFrame({"mean": shares.mean(0), "least": shares.min(0)}, index=index)

    def _size_criteria(self, X: Any, folds: list[tuple[Array, Array]]) -> dict[str, Any]:
        """What speaks for this number of topics: the score of the documents of each fold, and coherence in them."""
        scores, coherence = [], []
        for rows, left in folds:
            model = clone(self).set_params(warm_start=False).fit(_safe_indexing(X, rows))
            scores.append(model.score(_safe_indexing(X, left)))
            coherence.append(model.coherence(_safe_indexing(X, left)).mean())
        return {"score": np.array(scores), "coherence": float(np.mean(coherence))}

    def to_pyldavis(self, X: MatrixLike, feature_names: Names | None = None) -> dict[str, Any]:
        """What ``pyLDAvis.prepare`` takes, as a dict of its arguments.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts, those of the fit.
        feature_names : array-like of shape (V,), default=None
            Words of X's columns, where X has no column names.

        Returns
        -------
        dict
            ``topic_term_dists`` (K, V), ``doc_topic_dists`` (n, K), ``doc_lengths`` (n,), ``vocab`` (V words),
            ``term_frequency`` (V,).
        """
        check_is_fitted(self)
        counts = self._counts(named(X, feature_names))
        return {
            "topic_term_dists": self.components_,
            "doc_topic_dists": self._proportions(self._seen_globals, counts),
            "doc_lengths": np.asarray(counts.sum(1)).ravel(),
            "vocab": list(self._words()),
            "term_frequency": np.asarray(counts.sum(0)).ravel(),
        }
