"""Time series: state-space models with any scalar likelihood."""

from sksvi.time_series._dynamic import DynamicGLM

__all__ = ["DynamicGLM"]
