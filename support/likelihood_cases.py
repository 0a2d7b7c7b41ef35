"""Likelihoods to simulate from."""

from __future__ import annotations

from sksvi.likelihoods import (
    Bernoulli,
    Beta,
    BetaBinomial,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    HurdleNegativeBinomial,
    HurdlePoisson,
    InverseGaussian,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

#: A likelihood with every parameter a number, to simulate from.
TRUTH = {
    "logit": Bernoulli(),
    "probit": Bernoulli(link="probit"),
    "binomial": Binomial(),
    "poisson": Poisson(),
    "poisson-softplus": Poisson(rate="softplus"),
    "negative-binomial": NegativeBinomial(dispersion=0.4),
    "gaussian": Gaussian(variance=0.5),
    "student-t": StudentT(scale=0.6, df=4.0),
    "ordinal": Ordinal(cut_points=[-1.0, 0.5, 1.5], slope=1.0),
    "softmax": Softmax(n_classes=3),
    "gamma": Gamma(dispersion=0.4),
    "inverse-gaussian": InverseGaussian(dispersion=0.3),
    "tweedie": Tweedie(power=1.5, dispersion=0.8),
    "log-normal": LogNormal(scale=0.6),
    "weibull": Weibull(scale=0.7),
    "exponential": Exponential(),
    "log-logistic": LogLogistic(scale=0.4),
    "beta": Beta(precision=6.0),
    "beta-binomial": BetaBinomial(precision=4.0),
    "zero-inflated-poisson": ZeroInflatedPoisson(zero_probability=0.3),
    "zero-inflated-negative-binomial": ZeroInflatedNegativeBinomial(zero_probability=0.2, dispersion=0.4),
    "hurdle-poisson": HurdlePoisson(zero_probability=0.3),
    "hurdle-negative-binomial": HurdleNegativeBinomial(zero_probability=0.2, dispersion=0.4),
}
