"""Other packages' topic models, with ``fit``, ``transform`` and ``components_``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array

#: Iterations of tomotopy's sampler.
TOMOTOPY_ITERATIONS = 300


def lda(n_components: int, max_iter: int = 50) -> Any:
    """scikit-learn's LDA, batch, default priors."""
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(n_components, learning_method="batch", max_iter=max_iter, random_state=0)


class KLNMF:
    """scikit-learn's NMF with the Kullback-Leibler loss, its rows scaled to topics and proportions."""

    def __init__(self, n_components: int, max_iter: int = 200) -> None:
        from sklearn.decomposition import NMF

        self.nmf = NMF(
            n_components,
            init="nndsvda",
            solver="mu",
            beta_loss="kullback-leibler",
            max_iter=max_iter,
            random_state=0,
        )

    def fit(self, X: Any) -> KLNMF:
        self.nmf.fit(X)
        self.mass = self.nmf.components_.sum(1, keepdims=True)
        self.components_ = self.nmf.components_ / self.mass
        self.n_iter_ = self.nmf.n_iter_
        return self

    def transform(self, X: Any) -> Array:
        weight = self.nmf.transform(X) * self.mass.T
        return weight / weight.sum(1, keepdims=True)


class Tomotopy:
    """A model of tomotopy: words as tokens, inference with its own defaults; needs ``pip install tomotopy``."""

    def __init__(self, n_components: int, max_iter: int = TOMOTOPY_ITERATIONS, kind: str = "CTModel") -> None:
        self.n_components, self.max_iter, self.kind = n_components, max_iter, kind

    def fit(self, X: Any) -> Tomotopy:
        import tomotopy

        model = getattr(tomotopy, self.kind)(k=self.n_components, seed=1)
        for row in tokens(X):
            model.add_doc(row)
        model.train(self.max_iter, workers=1)
        self.model, self.n_iter_ = model, self.max_iter
        topics = np.array([model.get_topic_word_dist(k) for k in range(self.n_components)])
        self.components_ = np.zeros((self.n_components, X.shape[1]))
        self.components_[:, [int(word) for word in model.used_vocabs]] = topics
        return self

    def transform(self, X: Any) -> Array:
        documents = [self.model.make_doc(row) for row in tokens(X)]
        return np.array(self.model.infer(documents, workers=1)[0])


def tokens(X: Any) -> Iterator[list[str]]:
    """The column of each word of each row, as text."""
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield np.repeat(X.indices[a:b], X.data[a:b].astype(int)).astype(str).tolist()
