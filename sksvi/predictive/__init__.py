"""What is predicted of y once the latents have a posterior, through scikit-learn's wrappers too."""

from sksvi.predictive.noisy import NoisyPredictive
from sksvi.predictive.plain import Predictive
from sksvi.predictive.wrappers import predict_interval, predict_std

__all__ = ["NoisyPredictive", "Predictive", "predict_interval", "predict_std"]
