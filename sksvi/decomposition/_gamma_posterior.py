"""Posterior of fitted components of counts: activations of rows, and a table of the components."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincinv
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame
from sksvi.families import Gamma
from sksvi.models.nmf.cells import CountMatrix
from sksvi.predictive.coverage import tail_of

Array = np.ndarray


class GammaPosterior(ClassNamePrefixFeaturesOutMixin):
    """Needs `_model(n_features)` and what a fit leaves behind."""

    posterior_: Any
    components_: Array
    n_jobs: Any
    _model: Any

    # ---- what may differ
    @property
    def _seen_by_rows(self) -> dict[str, Any]:
        """The blocks that a row's posterior depends on."""
        return dict(self.posterior_)

    @property
    def _summarised(self) -> Gamma:
        """The block of `summary`, a number per component."""
        raise AttributeError(f"{type(self).__name__} does not say what its summary is of")

    # ---- rows
    def _activations(self, found: CountMatrix, start: Array | None = None) -> tuple[Array, Array]:
        """Shape and rate (n, K) of the posterior of activations, of rows that begin at `start` or with nothing."""
        model = self._model(found.shape[1]).of_components(len(self.components_))
        with parallel.working():
            threads = parallel.n_threads(self.n_jobs)
            return model.rows(self._seen_by_rows, found, threads, start)  # type: ignore[no-any-return]

    def _covariances(self, found: CountMatrix, shape: Array, rate: Array) -> Array:
        """Covariances (n, K, K) of the activations of rows, given the shape and rate of `_activations`."""
        model = self._model(found.shape[1]).of_components(len(self.components_))
        with parallel.working():
            threads = parallel.n_threads(self.n_jobs)
            return model.covariances(self._seen_by_rows, found, shape, rate, threads)  # type: ignore[no-any-return]

    # ---- tables
    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the components' weights, or of the sum of each component's cells where they have none.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per component.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, q = tail_of(coverage), self._summarised
        lower, upper = (gammaincinv(q.shape, end) / q.rate for end in (tail, 1.0 - tail))
        index = pd.Index(self.get_feature_names_out(), name="component")
        return pd.DataFrame({"mean": q.mean, "std": q.std, "lower": lower, "upper": upper}, index=index)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
