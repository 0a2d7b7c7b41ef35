"""Warnings about the noise after a fit of the gamma factor model: a wrong scale, or a variance at its lower limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray

#: A fixed noise variance is far off below and above these shares of the columns' mean variance.
TOO_SMALL, TOO_LARGE = 1e-4, 2.0


def common_noise_warnings(model: Any) -> Iterator[str]:
    """Warnings about one noise variance for all columns: a wrong unit, else a fit worse than independent columns."""
    variance, informed = model._fitted_to.variances, model._fitted_to.informed
    given = model.noise_variance
    if not isinstance(given, str):
        mean = float(variance[informed].mean()) if informed.any() else float(given)
        if not TOO_SMALL <= given / mean <= TOO_LARGE:
            yield (
                f"noise_variance={given:g} is absolute, as is the prior of the loadings, and the "
                f"columns of X have a mean variance of {mean:g}: standardise them, or learn the noise with "
                'noise_variance="per-feature", which needs no unit.'
            )
            return
    own, alone = densities(model)
    if own < alone:
        yield (
            f"the fit explains its own rows worse than columns that are independent would: {own:.4g} nats a row for "
            f"{alone:.4g}. A noise variance of {float(model.noise_variance_[0]):.3g} in every column is not what "
            f"{model.n_components} factors leave of variances of {variance[informed].min():.3g} to "
            f'{variance[informed].max():.3g}: set noise_variance="per-feature".'
        )


def densities(model: Any) -> tuple[float, float]:
    """Mean log density of the rows of a fit at its covariance, and under independent columns: from the scatter alone.

    Columns that are constant are left out of both. What learning a variance per column gains by chance is taken off.
    """
    data = model._fitted_to
    informed = data.informed
    size = int(informed.sum())
    at = np.ix_(informed, informed)
    covariance = model.get_covariance()[at] * model._widened
    log_det = float(np.linalg.slogdet(covariance)[1])
    square = float(np.trace(np.linalg.solve(covariance, data.products[at]))) / data.n
    constant = size * np.log(2.0 * np.pi)
    alone = constant + float(np.log(data.variances[informed]).sum()) + size
    return -0.5 * (constant + log_det + square), -0.5 * alone - size / data.freedom


def least_noise_warnings(model: Any, floor: float) -> Iterator[str]:
    """Warning about learned noise variances at their lower limit, a share `floor` of the column's variance."""
    names = np.asarray(getattr(model, "feature_names_in_", np.arange(model.n_features_in_)))
    ended = model._fitted_to.informed & (model.noise_variance_ < 2.0 * floor * model.scale_**2)
    if ended.any():
        what = ", ".join(repr(name) for name in names[ended][:5].tolist())
        yield (
            f"the learned noise variance has run to its least value ({floor:g} of the variance) in "
            f"{int(ended.sum())} columns ({what}): factors explain them altogether. Lower n_components, drop "
            "columns that others determine, or give noise_variance as a number."
        )
