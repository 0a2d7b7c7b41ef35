"""Bayesian estimators with scikit-learn's interface, fitted by stochastic variational inference.

Public names are imported on first use, so that ``import sksvi`` costs little more than scikit-learn itself.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0.dev0"

# name -> module that defines it
_ATTRIBUTES = {
    "BayesianGLMClassifier": "sksvi.linear_model",
    "BayesianGLMRegressor": "sksvi.linear_model",
    "BernoulliMixture": "sksvi.mixture",
    "BetaProcessFA": "sksvi.decomposition",
    "CategoricalMixture": "sksvi.mixture",
    "DynamicGLM": "sksvi.time_series",
    "GMEClassifier": "sksvi.mixed_effects",
    "GMERegressor": "sksvi.mixed_effects",
    "GammaFactorModel": "sksvi.decomposition",
    "GammaPoissonFactorization": "sksvi.decomposition",
    "GammaProcessNMF": "sksvi.decomposition",
    "GPClassifier": "sksvi.gaussian_process",
    "GeneralizedPMF": "sksvi.decomposition",
    "SparseGPClassifier": "sksvi.gaussian_process",
    "SparseGPRegressor": "sksvi.gaussian_process",
    "CorrelatedTopicModel": "sksvi.topics",
    "StructuredLDA": "sksvi.topics",
    "CoefficientDisplay": "sksvi.displays",
    "DictionaryDisplay": "sksvi.displays",
    "BeforeAfterDisplay": "sksvi.displays",
    "GroupEffectsDisplay": "sksvi.displays",
    "LowerBoundDisplay": "sksvi.displays",
    "PartialEffectDisplay": "sksvi.displays",
    "TimeSeriesDisplay": "sksvi.displays",
    "TopicGraphDisplay": "sksvi.displays",
    "TopicWordsDisplay": "sksvi.displays",
    "load": "sksvi.persistence",
    "log_predictive_density": "sksvi.predictive",
    "predict_interval": "sksvi.predictive",
    "predict_quantiles": "sksvi.predictive",
    "predict_std": "sksvi.predictive",
    "sample_y": "sksvi.predictive",
    "save": "sksvi.predictive",
    "show_versions": "sksvi._versions",
    "summary": "sksvi.predictive",
}

_SUBMODULES = (
    "algorithms",
    "callbacks",
    "datasets",
    "decomposition",
    "displays",
    "expectations",
    "families",
    "gaussian_process",
    "images",
    "inspection",
    "likelihoods",
    "linear_model",
    "mixed_effects",
    "mixture",
    "network",
    "persistence",
    "predictive",
    "schedules",
    "testing",
    "time_series",
    "topics",
)

__all__ = ["__version__", *_ATTRIBUTES, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _ATTRIBUTES:
        value = getattr(importlib.import_module(_ATTRIBUTES[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"sksvi.{name}")
    else:
        raise AttributeError(f"module 'sksvi' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(set(globals()) | set(__all__))
