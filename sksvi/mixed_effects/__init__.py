"""Mixed-effects generalized linear models: noise per datum, effects per level of categorical columns."""

from __future__ import annotations

from sksvi.mixed_effects._classifier import GMEClassifier
from sksvi.mixed_effects._regressor import GMERegressor

__all__ = ["GMEClassifier", "GMERegressor"]
