"""Small real data sets (``load_*``) and simulators (``make_*``), in scikit-learn's conventions."""

from __future__ import annotations

from sksvi.datasets._load import load_bike_sharing, load_epilepsy
from sksvi.datasets._make import make_glm, make_gme, make_wide_logistic

__all__ = ["load_bike_sharing", "load_epilepsy", "make_glm", "make_gme", "make_wide_logistic"]
