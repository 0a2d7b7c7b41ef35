"""Algorithms: which step each kind of block takes, and how fast."""

from sksvi.algorithms.specs import (
    ALGORITHMS,
    CVI,
    MAP,
    MCSSVI,
    SDSVI,
    SSVI,
    SSVIA,
    STRUCTURED,
    SVI,
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
    "MAP",
    "MCSSVI",
    "SDSVI",
    "SSVI",
    "SSVIA",
    "STRUCTURED",
    "SVI",
    "VARIATIONAL",
    "Algorithm",
    "FixedPoint",
    "Gibbs",
    "HybridMCSSVI",
    "resolve",
]
