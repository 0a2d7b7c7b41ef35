"""Gaussian processes: sparse ones for many rows and any likelihood, a full one for labels."""

from __future__ import annotations

from sksvi.gaussian_process._full import GPClassifier
from sksvi.gaussian_process._sparse import SparseGPClassifier, SparseGPRegressor

__all__ = ["GPClassifier", "SparseGPClassifier", "SparseGPRegressor"]
