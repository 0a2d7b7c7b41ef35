"""Bayesian generalized linear models: which model, which likelihood, what is predicted."""

from __future__ import annotations

from sksvi.linear_model._classifier import BayesianGLMClassifier
from sksvi.linear_model._regressor import BayesianGLMRegressor

__all__ = ["BayesianGLMClassifier", "BayesianGLMRegressor"]
