"""The table of a fitted gamma factor model: loadings, by linear response with their covariances, and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincinv
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import memory, parallel
from sksvi._runtime.warned import warn_user
from sksvi._typing.arrays import DataFrame
from sksvi.estimators.summaries import concatenated, point_rows
from sksvi.families import Gamma
from sksvi.models.gamma_factor.model import GammaFactors
from sksvi.models.gamma_factor.response import Response, respond
from sksvi.predictive.coverage import tail_of

Array = np.ndarray

#: Least learned noise variance, as a share of its columns' variance.
NOISE_FLOOR = 1e-4
#: Most loadings whose linear response is a matter of a few seconds.
FEW_LOADINGS = 1000


class GammaFactorSummary:
    """Needs what a fit leaves behind."""

    posterior_: Any
    noise_variance_: Array
    scale_: Array
    state_: Any
    n_features_in_: int
    get_feature_names_out: Any
    _loadings_prior: Array
    _fitted_to: Any

    def summary(self, coverage: float = 0.9, linear_response: bool | str = "auto") -> DataFrame:
        """Posterior of the loadings, and the learned noise.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        linear_response : bool or "auto", default="auto"
            Whether std and interval of a loading hold what it shares and trades with the others and with learned noise:
            from how the bound curves in all of them at once, time in proportion to the square of their number and, of
            many, the cube; and, by draws, how far factors may turn into each other, which the data do not tell. False:
            those of `posterior_`, each given all others: too narrow. "auto": for up to
            1,000 loadings; of more a warning says that their intervals are too narrow.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per component and column of X. Learned noise follows under an empty
            component, as ``std(residual)`` or per column as ``std(residual, name)``: points with the spread that the
            data's curvature leaves them, without linear response with loadings as fitted.

        Raises
        ------
        TypeError
            For another `linear_response`.
        ValueError
            For a coverage outside (0, 1), and where memory does not hold the linear response.

        Warns
        -----
        UserWarning
            For more than 1,000 loadings with ``linear_response="auto"``.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, q = tail_of(coverage), self.posterior_["loadings"]
        found = self._response() if self._responds(linear_response) else None
        own = q if found is None else found.loadings
        std, lower, upper = own.std, *(gammaincinv(own.shape, end) / own.rate for end in (tail, 1.0 - tail))
        if found is not None and found.turned is not None:
            among = found.turned[:, found.turning]
            std[found.turning] = among.std(0)
            lower[found.turning], upper[found.turning] = np.quantile(among, (tail, 1.0 - tail), axis=0)
        names = getattr(self, "feature_names_in_", None)
        names = [f"x{d}" for d in range(self.n_features_in_)] if names is None else list(names)
        index = pd.MultiIndex.from_product([self.get_feature_names_out(), names], names=["component", "feature"])
        columns = {"mean": q.mean, "std": std, "lower": lower, "upper": upper}
        table = pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)
        learned = self.state_.q.get("noise")
        if learned is None:
            return table
        labels = ["std(residual)"] if len(learned.value) == 1 else [f"std(residual, {name})" for name in names]

        def noise(log_noise: Array) -> dict[str, float]:
            std = np.sqrt(NOISE_FLOOR + np.exp(log_noise)) * self.scale_[: len(labels)]
            return dict(zip(labels, std.tolist(), strict=True))

        curvature = learned.information if found is None else found.noise_information
        return concatenated([table, point_rows(noise(learned.value), noise, learned.value, curvature, coverage)])

    def _responds(self, wanted: bool | str) -> bool:
        """Whether intervals are those of linear response."""
        if isinstance(wanted, bool | np.bool_):
            return bool(wanted)
        if not isinstance(wanted, str) or wanted != "auto":
            raise TypeError(f'linear_response must be True, False or "auto"; found {wanted!r}.')
        number = self.posterior_["loadings"].shape.size
        if number > FEW_LOADINGS:
            warn_user(
                f"intervals of {number} loadings are each given all others, and so too narrow: linear_response=True "
                "takes them all at once, which costs seconds to minutes; linear_response=False says this no more."
            )
        return number <= FEW_LOADINGS

    def _response(self) -> Response:
        """Linear response, in the units of X."""
        q, learned = self.posterior_["loadings"], self.state_.q.get("noise")
        shape, noise = q.shape.shape, self.noise_variance_ / self.scale_**2
        size = 2.0 * q.shape.size + shape[1]
        memory.need(48.0 * size**2, f"linear response of {q.shape.size} loadings", "set linear_response=False")
        model = GammaFactors(
            *shape,
            prior_shape=float(self._loadings_prior[0]),
            prior_rate=float(self._loadings_prior[1]),
            noise=noise if learned is None else None,
            noise_size=1 if learned is None else len(learned.value),
            noise_floor=np.full(shape[1], 0.0 if learned is None else NOISE_FLOOR),
            seed=self.state_.seed,
        )
        blocks = {"loadings": Gamma(q.shape, q.rate * self.scale_)}
        blocks |= {} if learned is None else {"noise": learned}
        with parallel.working():
            found = respond(model, blocks, self._fitted_to.divided(self.scale_))
        own, draws = found.loadings, found.turned
        draws = None if draws is None else draws * self.scale_
        return found._replace(loadings=Gamma(own.shape, own.rate / self.scale_), turned=draws)
