"""Plots of fitted estimators, after scikit-learn's Display convention: data in the object, drawing in ``plot``.

matplotlib is imported when something is drawn, not before.
"""

from sksvi.displays._common import feature_names
from sksvi.displays.bound import LowerBoundDisplay
from sksvi.displays.coefficients import CoefficientDisplay
from sksvi.displays.groups import GroupEffectsDisplay
from sksvi.displays.images import BeforeAfterDisplay, DictionaryDisplay
from sksvi.displays.partial import PartialEffectDisplay
from sksvi.displays.series import TimeSeriesDisplay
from sksvi.displays.topics import TopicGraphDisplay, TopicWordsDisplay

__all__ = [
    "BeforeAfterDisplay",
    "CoefficientDisplay",
    "DictionaryDisplay",
    "GroupEffectsDisplay",
    "LowerBoundDisplay",
    "PartialEffectDisplay",
    "TimeSeriesDisplay",
    "TopicGraphDisplay",
    "TopicWordsDisplay",
    "feature_names",
]
