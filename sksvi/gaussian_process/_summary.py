"""The table of a fitted sparse process: hyperparameters, f at the inducing points, what the likelihood learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame
from sksvi.estimators.checks import interval_table
from sksvi.estimators.summaries import concatenated, learned_rows
from sksvi.predictive.coverage import tail_of


class ProcessSummary:
    """Mixin with the summary table of a fitted sparse process."""

    kernel_: Any
    likelihood_: Any
    mean_: float
    posterior_: Any
    state_: Any
    _kernel_table: Callable[[float], Any]
    _with_spread: Callable[[Any, float], Any]

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Hyperparameters, the posterior of f at every inducing point, and learned parameters of the likelihood.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper. A kernel's numbers with one per column have its name where X had names, as
            in ``length_scale(price)``. They are point estimates, whose uncertainty is not known: their std, lower and
            upper are NaN. So are those of the likelihood (``noise_variance``, and ``std(residual)``, ``dispersion``,
            ``scale``, ``df``, ``cut_points[k]`` in the last rows), whose spread is what the curvature of the data
            leaves them, kernel and f as fitted; NaN where they were fixed or the fit keeps none.
        """

        check_is_fitted(self)
        tail_of(coverage)
        inducing, learned = self.posterior_["inducing"], self.state_.q.get("likelihood")
        latents = interval_table(inducing.mean + self.mean_, inducing.std, coverage, self._places())
        tables = [latents, self._with_spread(learned_rows(self.likelihood_, learned, coverage), coverage)]
        if self.likelihood_.scales.noise is not None:
            noise = learned_rows(self.likelihood_, learned, coverage, _noise)
            tables.insert(0, self._with_spread(noise, coverage))
        return concatenated([self._kernel_table(coverage).rename_axis("quantity"), *tables])

    def _places(self) -> Any:
        """Index of a summary's rows of f at the inducing points."""
        import pandas as pd

        shape = self.posterior_["inducing"].mean.shape
        return pd.Index([f"f{of or ''}(inducing_points_[{j}])" for *of, j in np.ndindex(shape)])


def _noise(likelihood: Any) -> dict[str, float]:
    """The noise variance of a process, under the name that users know."""
    return {"noise_variance": likelihood.scales.noise}
