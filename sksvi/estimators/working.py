"""Working likelihoods, which are no model of y: at which scale one says how well what it estimates is known.

At the scale that is most likely under it, the posterior of a quantile would be too narrow. Pilot fits find the one
where the posterior is as wide as the estimate varies, and the fit takes it as given, so that what is learned besides,
standard deviations of groups, length scales or variances of states, is weighed against rows that say what they say.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksvi._runtime.user import warn_user
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.likelihoods import AsymmetricLaplace, Likelihood
from sksvi.partitions.collections import is_collection

#: Pilot fits at most, and the change of the scale, in logarithms, at which they end.
PILOTS, SETTLED = 5, 0.05
#: The change, in logarithms, of the last of them that is warned of.
UNSETTLED = 0.2


def check_working(estimator: Any, likelihood: Likelihood) -> Likelihood:
    """The likelihood; an error where it is one of a quantile and the estimator does not say how well this is known."""
    if not likelihood.traits.quantile:
        return likelihood
    given, name, kind = f"likelihood={estimator.likelihood!r}", type(estimator).__name__, quantile_errors(estimator)
    if not kind:
        full = getattr(estimator, "covariance", "full") in ("auto", "full")
        remedy = "use BayesianGLMRegressor or GMERegressor" if full else "leave covariance='full'"
        raise ValueError(
            f"{given} is a working likelihood, by which alone {name} would say too little of how well the quantile is "
            f"known: {remedy}."
        )
    if getattr(estimator, "noise", False) is True:
        raise ValueError(f"{given} with noise=True: f with noise is no quantile of y. Set noise=False.")
    if kind == "calibrated" and (likelihood.learned or likelihood._automatic()):
        raise ValueError(
            f"{given} needs the rows of its fit for its scale, one series or all rows at once: use fit, without "
            "share_variances, or give scale a number."
        )
    return likelihood


def check_densities(estimator: Any) -> None:
    """Raise where the likelihood is no model of y, so that log densities do not tell how good a fit is."""
    if estimator.likelihood_.traits.quantile:
        raise TypeError(
            f"likelihood={estimator.likelihood!r} is no model of y, so that its density says little: compare fits by "
            "cross_val_score with scikit-learn's mean_pinball_loss."
        )


def quantile_errors(estimator: Any) -> str:
    """How the estimator says how well a quantile is known: by a "corrected" covariance, a "calibrated" scale, or ""."""
    return str(getattr(estimator, "_quantile_errors", ""))


def calibrated(estimator: Any, given: GivenRows) -> Likelihood | None:
    """The likelihood of a quantile at the scale that pilot fits find; None where there is no scale to be found."""
    likelihood = getattr(estimator, "likelihood", None)
    if not isinstance(likelihood, Likelihood) or not likelihood.traits.quantile or not likelihood._automatic():
        return None
    if quantile_errors(estimator) != "calibrated":
        return None
    if is_collection(given.X):
        raise TypeError(f"likelihood={likelihood!r} needs pilot fits for its scale: give it X.compute().")
    pilot = clone(estimator).set_params(warm_start=False, verbose=0, hyperparameters="point")
    there = check_working(estimator, AsymmetricLaplace(likelihood.quantile, scale=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the fit itself say what there is to say
        data = pilot.set_params(likelihood=there)._encoded(given, True, WHOLE)  # which checks all that was given
        scale, y = likelihood.start(data.y, data.weight).scale, np.asarray(given.y, float).ravel()
        weight = np.isfinite(y) * (1.0 if given.sample_weight is None else np.asarray(given.sample_weight, float))
        y = np.where(weight > 0, y, 0.0)
        for _ in range(PILOTS):
            pilot.set_params(likelihood=AsymmetricLaplace(there.quantile, scale=scale))._fit(*given)
            f = pilot.predict_latent(pilot._with_times(given.X, given.y), given.offset)[0]
            before, scale = scale, there.calibrated_scale(y, f, weight)
            if abs(np.log(scale / before)) < SETTLED:
                break
    if abs(np.log(scale / before)) > UNSETTLED:
        warn_user(
            f"likelihood={likelihood!r}: {PILOTS} pilot fits have not settled on a scale ({before:.3g}, then "
            f"{scale:.3g}), and intervals follow it: give scale a number, or the model fewer parts.",
            ConvergenceWarning,
        )
    return AsymmetricLaplace(there.quantile, scale=scale)
