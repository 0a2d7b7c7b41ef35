"""Predictive distributions of y given the posterior of the latents, through scikit-learn's wrappers too."""

from sksvi.predictive.mixture import MixturePredictive
from sksvi.predictive.noisy import NoisyPredictive
from sksvi.predictive.plain import Predictive
from sksvi.predictive.wrappers import (
    log_predictive_density,
    predict_interval,
    predict_quantiles,
    predict_std,
    sample_y,
    save,
    summary,
    summary_text,
    unwrapped,
)

__all__ = [
    "MixturePredictive",
    "NoisyPredictive",
    "Predictive",
    "log_predictive_density",
    "predict_interval",
    "predict_quantiles",
    "predict_std",
    "sample_y",
    "save",
    "summary",
    "summary_text",
    "unwrapped",
]
