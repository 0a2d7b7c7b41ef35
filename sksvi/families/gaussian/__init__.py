"""Gaussian blocks, by how their precision is held."""

from sksvi.families.gaussian.dense import (
    DiagonalGaussian,
    Gaussian,
    NotPositiveDefinite,
    ProjectedGaussian,
    StandardGaussian,
)

__all__ = ["DiagonalGaussian", "Gaussian", "NotPositiveDefinite", "ProjectedGaussian", "StandardGaussian"]
