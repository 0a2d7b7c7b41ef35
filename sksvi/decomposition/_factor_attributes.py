"""Public results of a fitted factorization: factors, biases, their posterior, a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.summaries import concatenated, effect_table, learned_rows
from sksvi.estimators.summary_text import counted
from sksvi.families import DiagonalGaussian, GaussianPlates
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.gaussian import FactorModel
from sksvi.models.factorization.side_prior import SidePrior

Array = np.ndarray


class FactorAttributes:
    """Needs the state of a fit, the ids of both sides, `_prior(side, ids)` and `_new_model(priors)`."""

    state_: Any
    likelihood_: Any
    n_samples_seen_: float
    users_: Array
    items_: Array
    _offset: float
    _choices: dict[str, Any]
    _prior: Any
    _new_model: Any

    @property
    def _k(self) -> int:
        """Factors of the fit."""
        return int(self._record.choices["n_components"])

    @property
    def _model(self) -> FactorModel:
        """The fitted model without the plates' features: for predictions."""
        return self._new_model({side: SidePrior(None, np.zeros(0, bool), True) for side in SIDES})

    @property
    def _blocks(self) -> dict[str, Any]:
        """q as the fit left it, of those that have an id."""
        q = self.state_.q
        return {**q, "users": q["users"][: len(self.users_)], "items": q["items"][: len(self.items_)]}

    @property
    def posterior_(self) -> Posterior:
        """Blocks of q: users, items and, with ``biases=True``, biases."""
        if not hasattr(self, "state_"):
            raise AttributeError("posterior_ is there after fit")
        blocks = {side: self._blocks[side].leading(self._k) for side in SIDES}
        if self._record.choices["biases"]:
            blocks["biases"] = self._bias_block(self._blocks, self._k)
        return Posterior(blocks)

    def _bias_block(self, q: dict[str, Any], k: int) -> DiagonalGaussian:
        """Global bias, users' and items' as one vector; an item's is less the global one."""
        prior = self._prior("items", self.items_)
        constant = q["items_mean"].value[0, k] if prior.design is not None else 0.0
        spread = prior.coefficients(q, "items").variance[k, 0] if prior.design is not None else np.finfo(float).tiny
        mean = [[self._offset + constant], q["users"].mean[:, k], q["items"].mean[:, k] - constant]
        variance = [[spread], q["users"].variance[:, k], q["items"].variance[:, k]]
        return DiagonalGaussian(np.concatenate(mean), 1.0 / np.concatenate(variance))

    @property
    def user_factors_(self) -> Array:
        """Posterior means, (n_users, K)."""
        return self._of("users").mean

    @property
    def item_factors_(self) -> Array:
        """Posterior means, (n_items, K)."""
        return self._of("items").mean

    @property
    def user_covariance_(self) -> Array:
        """Posterior covariances, or variances where diagonal."""
        return self._spread("users")

    @property
    def item_covariance_(self) -> Array:
        """Posterior covariances, or variances where diagonal."""
        return self._spread("items")

    @property
    def global_bias_(self) -> float:
        """Posterior mean of the global bias."""
        return float(self._of("biases").mean[0])

    @property
    def user_biases_(self) -> Array:
        """Posterior means, (n_users,)."""
        return self._of("biases").mean[1 : 1 + len(self.users_)]

    @property
    def item_biases_(self) -> Array:
        """Posterior means, (n_items,)."""
        return self._of("biases").mean[1 + len(self.users_) :]

    def _of(self, name: str) -> Any:
        if not hasattr(self, "state_") or (name == "biases" and not self._record.choices["biases"]):
            raise AttributeError(f"{type(self).__name__} has no {name} to show: it is not fitted, or has none.")
        return self._bias_block(self._blocks, self._k) if name == "biases" else self._blocks[name].leading(self._k)

    def _spread(self, side: str) -> Array:
        block: GaussianPlates = self._of(side)
        return block.cov if block.full else block.values

    @property
    def _n_features_out(self) -> int:
        return self._k

    def _data_header(self) -> list[tuple[str, str]]:
        sides = [(side, f"{len(ids):,}") for side, ids in (("users", self.users_), ("items", self.items_))]
        return [("ratings", counted(self.n_samples_seen_)), *sides, ("factors", str(self._k))]

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the biases, then the learned parameters of the likelihood.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction (the posterior probability of the mean's sign); rows by kind
            (global, user, item) and id. Without biases, the factors. The last rows, of an empty kind, are the
            likelihood's: ``std(residual)``, ``dispersion``, ``scale``, ``df`` or ``cut_points[k]`` where they were
            learned, points with the spread that the data's curvature leaves them, factors as fitted.
        """
        import pandas as pd

        check_is_fitted(self)
        if self._record.choices["biases"]:
            block = self.posterior_["biases"]
            kinds = ["global"] + ["user"] * len(self.users_) + ["item"] * len(self.items_)
            index = pd.MultiIndex.from_arrays([kinds, ["", *self.users_, *self.items_]], names=["kind", "id"])
            mean, std = block.mean, block.std
        else:
            k = self._k
            kinds = ["user"] * len(self.users_) * k + ["item"] * len(self.items_) * k
            ids = [*np.repeat(self.users_, k), *np.repeat(self.items_, k)]
            factors = list(range(k)) * (len(self.users_) + len(self.items_))
            index = pd.MultiIndex.from_arrays([kinds, ids, factors], names=["kind", "id", "factor"])
            mean = np.concatenate([self.posterior_[side].mean.ravel() for side in SIDES])
            std = np.concatenate([self.posterior_[side].std.ravel() for side in SIDES])
        learned = learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)
        return concatenated([effect_table(mean, std, coverage, index), learned])
