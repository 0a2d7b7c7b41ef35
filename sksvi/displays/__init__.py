"""Plots of fitted estimators, after scikit-learn's Display convention: data in the object, drawing in ``plot``.

matplotlib is imported when something is drawn, not before.
"""

from sksvi._names import feature_names
from sksvi.displays.bands import PredictionBandDisplay
from sksvi.displays.bound import LowerBoundDisplay
from sksvi.displays.calibration import IntervalCoverageDisplay
from sksvi.displays.classes import ClassProfileDisplay
from sksvi.displays.coefficients import CoefficientDisplay
from sksvi.displays.contrasts import ContrastDisplay
from sksvi.displays.factors import FactorDisplay
from sksvi.displays.groups import GroupEffectsDisplay
from sksvi.displays.images import BeforeAfterDisplay, DictionaryDisplay
from sksvi.displays.leave_one_out import LooDisplay
from sksvi.displays.n_components import NComponentsDisplay
from sksvi.displays.partial import PartialEffectDisplay
from sksvi.displays.pit import PITDisplay
from sksvi.displays.predictive_check import PosteriorPredictiveDisplay
from sksvi.displays.ranks import RankDisplay
from sksvi.displays.series import TimeSeriesDisplay
from sksvi.displays.topic_words import TopicWordsDisplay
from sksvi.displays.topics import TopicGraphDisplay

__all__ = [
    "BeforeAfterDisplay",
    "ClassProfileDisplay",
    "CoefficientDisplay",
    "ContrastDisplay",
    "DictionaryDisplay",
    "FactorDisplay",
    "GroupEffectsDisplay",
    "IntervalCoverageDisplay",
    "LooDisplay",
    "LowerBoundDisplay",
    "NComponentsDisplay",
    "PITDisplay",
    "PartialEffectDisplay",
    "PosteriorPredictiveDisplay",
    "PredictionBandDisplay",
    "RankDisplay",
    "TimeSeriesDisplay",
    "TopicGraphDisplay",
    "TopicWordsDisplay",
    "feature_names",
]
