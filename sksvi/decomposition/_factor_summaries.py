"""Tables about the factors of a fitted beta process factor analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame, RandomState, Series
from sksvi.estimators.checks import check_count, check_seed
from sksvi.predictive.beta import beta_quantiles
from sksvi.predictive.coverage import tail_of

Array = np.ndarray


class FactorSummaries:
    """Needs what a fit leaves behind: `posterior_`, `scale_`, and the factors' names."""

    posterior_: Any
    scale_: float
    get_feature_names_out: Any

    def effective_components(
        self, coverage: float = 0.9, n_samples: int = 1000, random_state: RandomState = 0
    ) -> Series:
        """Posterior of the effective number of factors: exp of the entropy of their shares in all uses.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        n_samples : int, default=1000
            Draws of the probabilities.
        random_state : int, RandomState or None, default=0

        Returns
        -------
        Series
            mean, std, lower, upper.
        """
        import pandas as pd

        check_is_fitted(self)
        tail = tail_of(coverage)
        probabilities, rng = self.posterior_["probabilities"], check_seed(random_state)
        n_samples = check_count(n_samples, "n_samples", bytes_each=8.0 * len(probabilities.mean))
        draws = effective_number(probabilities.sample(n_samples, rng))
        lower, upper = np.quantile(draws, [tail, 1.0 - tail])
        return pd.Series({"mean": draws.mean(), "std": draws.std(), "lower": lower, "upper": upper})

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of every factor's probability of use, and of the precisions in units of X.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per factor, then the precisions of weights and noise.
        """
        import pandas as pd
        from scipy.special import gammaincinv

        check_is_fitted(self)
        tail = tail_of(coverage)
        ends = tail, 1.0 - tail
        use = self.posterior_["probabilities"]
        rows = [np.stack([use.mean, use.std, *(beta_quantiles(use.a, use.b, end) for end in ends)], 1)]
        names = list(self.get_feature_names_out())
        for name, unit in (("weight_precision", 1.0), ("noise_precision", self.scale_**-2.0)):
            q = self.posterior_[name]
            quantiles = [gammaincinv(q.shape, end) / q.rate for end in ends]
            rows.append(unit * np.stack([q.mean, q.std, *quantiles], 1))
            names += [name] if len(q.mean) == 1 else [f"{name}[{d}]" for d in range(len(q.mean))]
        index = pd.Index(names, name="factor")
        return pd.DataFrame(np.concatenate(rows), index=index, columns=["mean", "std", "lower", "upper"])


def effective_number(shares: Array) -> Array:
    """exp of the entropy of shares that need not sum to 1, along the last axis."""
    p = shares / shares.sum(-1, keepdims=True)
    return np.exp(-np.sum(p * np.log(np.maximum(p, np.finfo(float).tiny)), -1))
