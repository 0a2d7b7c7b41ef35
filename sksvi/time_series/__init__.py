"""Time series: state-space models with any scalar likelihood."""

from sksvi.time_series._dynamic import DynamicGLM
from sksvi.time_series._filter_steps import Observed, OnlineFilter
from sksvi.time_series._panel import SeriesPanel

__all__ = ["DynamicGLM", "Observed", "OnlineFilter", "SeriesPanel"]
