"""Algorithms: which step each kind of block takes, and how fast."""

from sksvi.algorithms.rows import (
    ALGORITHMS,
    CVI,
    MCSSVI,
    SDSVI,
    VARIATIONAL,
    Algorithm,
    FixedPoint,
    Gibbs,
    HybridMCSSVI,
    resolve,
)

__all__ = [
    "ALGORITHMS",
    "CVI",
    "MCSSVI",
    "SDSVI",
    "VARIATIONAL",
    "Algorithm",
    "FixedPoint",
    "Gibbs",
    "HybridMCSSVI",
    "resolve",
]
