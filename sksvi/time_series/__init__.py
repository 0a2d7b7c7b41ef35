"""Time series: state-space models with any scalar likelihood."""

from sksvi.time_series._dynamic import DynamicGLM
from sksvi.time_series._one_by_one import Observed, OnlineFilter

__all__ = ["DynamicGLM", "Observed", "OnlineFilter"]
