"""What one row says of its linear predictor, and the scales of what is simulated."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr

#: Cut points of an ordinal target, dispersion of a negative binomial, degrees of freedom and scale of a Student-t.
CUT_POINTS = (-1.0, 0.5, 2.0)
DISPERSION = 0.5
T_DF, T_SCALE = 4.0, 0.7


def information(likelihood: str, f: float) -> float:
    """Fisher information of a row about f; of a softmax with three equal classes about one contrast."""
    if likelihood == "gaussian":
        return 1.0
    if likelihood == "student-t":
        return (T_DF + 1) / (T_DF + 3) / T_SCALE**2
    if likelihood == "logit":
        return float(expit(f) * expit(-f))
    if likelihood == "probit":
        return float(np.exp(-f * f) / (2 * np.pi) / (ndtr(f) * ndtr(-f)))
    if likelihood == "poisson":
        return float(np.exp(f))
    if likelihood == "negative-binomial":
        return float(np.exp(f) / (1 + DISPERSION * np.exp(f)))
    if likelihood == "ordinal":
        cumulative = np.concatenate([[0.0], expit(np.array(CUT_POINTS) - f), [1.0]])
        slopes = -np.diff(cumulative * (1 - cumulative))
        return float(np.sum(slopes**2 / np.diff(cumulative)))
    if likelihood == "softmax":
        return 1 / 6
    raise ValueError(f"no simulation of likelihood {likelihood!r}")
