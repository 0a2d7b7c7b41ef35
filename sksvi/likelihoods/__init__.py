"""Likelihoods p(y | f): log density, derivatives in f, moments, predictive integrals, learned scales."""

from __future__ import annotations

from sklearn.base import clone

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.censored import Censored
from sksvi.likelihoods.classes import Bernoulli, Multinomial, Softmax
from sksvi.likelihoods.continuous import Gaussian, StudentT
from sksvi.likelihoods.counts import NegativeBinomial, Poisson
from sksvi.likelihoods.fractions import Beta
from sksvi.likelihoods.ordinal import Ordinal
from sksvi.likelihoods.positive import Gamma, InverseGaussian
from sksvi.likelihoods.quantile import AsymmetricLaplace
from sksvi.likelihoods.times import Exponential, LogLogistic, LogNormal, Weibull
from sksvi.likelihoods.traits import LikelihoodTraits, Support
from sksvi.likelihoods.trials import BetaBinomial, Binomial
from sksvi.likelihoods.tweedie import Tweedie
from sksvi.likelihoods.zeros import (
    HurdleNegativeBinomial,
    HurdlePoisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

__all__ = [
    "AsymmetricLaplace",
    "Bernoulli",
    "Beta",
    "BetaBinomial",
    "Binomial",
    "Censored",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "InverseGaussian",
    "Likelihood",
    "LikelihoodTraits",
    "LogLogistic",
    "LogNormal",
    "Multinomial",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Softmax",
    "StudentT",
    "Support",
    "Tweedie",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "resolve",
]

_BY_NAME = {
    "logit": (Bernoulli, {}),
    "bernoulli": (Bernoulli, {}),
    "probit": (Bernoulli, {"link": "probit"}),
    "softmax": (Softmax, {}),
    "multinomial": (Multinomial, {}),
    "binomial": (Binomial, {}),
    "poisson": (Poisson, {}),
    "poisson-softplus": (Poisson, {"rate": "softplus"}),
    "negative-binomial": (NegativeBinomial, {}),
    "gaussian": (Gaussian, {}),
    "student-t": (StudentT, {}),
    "ordinal": (Ordinal, {}),
    "gamma": (Gamma, {}),
    "inverse-gaussian": (InverseGaussian, {}),
    "tweedie": (Tweedie, {}),
    "log-normal": (LogNormal, {}),
    "weibull": (Weibull, {}),
    "log-logistic": (LogLogistic, {}),
    "exponential": (Exponential, {}),
    "beta": (Beta, {}),
    "beta-binomial": (BetaBinomial, {}),
    "zero-inflated-poisson": (ZeroInflatedPoisson, {}),
    "zero-inflated-negative-binomial": (ZeroInflatedNegativeBinomial, {}),
    "hurdle-poisson": (HurdlePoisson, {}),
    "hurdle-negative-binomial": (HurdleNegativeBinomial, {}),
}

#: Every name that `resolve` knows, and those of a latent for each class.
NAMES = frozenset(_BY_NAME)
OF_CLASSES = frozenset({"softmax", "multinomial"})


def resolve(spec: str | Likelihood, n_classes: int | None = None) -> Likelihood:
    """Likelihood of that name, or a clone of the instance given.

    Parameters
    ----------
    spec : str or Likelihood
        "logit" (= "bernoulli"), "probit", "softmax", "multinomial", "binomial", "poisson", "poisson-softplus",
        "negative-binomial", "gaussian", "student-t", "ordinal", "gamma", "inverse-gaussian", "tweedie", "log-normal",
        "weibull", "log-logistic", "exponential", "beta", "beta-binomial", "zero-inflated-poisson",
        "zero-inflated-negative-binomial", "hurdle-poisson", "hurdle-negative-binomial", or an instance.
    n_classes : int, optional
        Number of classes, needed by "softmax" and "multinomial" only.

    Raises
    ------
    ValueError
        If `spec` is none of these.

    Examples
    --------
    >>> from sksvi.likelihoods import resolve
    >>> resolve("probit")
    Bernoulli(link='probit')
    """
    if isinstance(spec, Likelihood):
        return clone(spec)
    if not isinstance(spec, str) or spec not in _BY_NAME:
        names = ", ".join(repr(name) for name in _BY_NAME)
        raise ValueError(f"likelihood must be one of {names}, or an instance from sksvi.likelihoods; found {spec!r}.")
    cls, arguments = _BY_NAME[spec]
    if spec in OF_CLASSES:
        if n_classes is None:
            raise ValueError(f'likelihood="{spec}" needs the number of classes: use {cls.__name__}(n_classes=...).')
        return cls(n_classes=n_classes)
    return cls(**arguments)
