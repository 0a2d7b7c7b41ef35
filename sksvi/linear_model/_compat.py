"""Fits that an earlier version saved, as they are held today."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.posterior import Posterior
from sksvi.families import InUnits
from sksvi.linear_model._columns import ColumnScaling


def in_units(own: dict[str, Any]) -> None:
    """A fit from before columns had units of their own, by its attributes: it is one in the units of the data."""
    blocks, intercept = dict(own.get("posterior_", {})), bool(own["fit_intercept"])
    if "_columns" in own or "weights" not in blocks:
        return
    d = blocks["weights"].mean.shape[-1] - intercept
    for name, extra in {"weights": int(intercept), "groups": 0}.items():
        if name in blocks:
            size = blocks[name].mean.shape[-1] - extra
            blocks[name] = InUnits(blocks[name], np.zeros(size), np.ones(size))
    own["_columns"] = ColumnScaling(np.zeros(d), np.ones(d), np.zeros(d, bool), False)
    own["_intercept_prior"], own["_spreads"] = (0.0, float(own["intercept_precision"])), None
    own["_slope_scales"] = [np.ones(1 + len(names)) for names, _ in own.get("_slopes", [])]
    own.setdefault("_unit", 1.0)
    own["posterior_"] = Posterior(blocks)
