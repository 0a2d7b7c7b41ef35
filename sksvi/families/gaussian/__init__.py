"""Gaussian blocks, by how their precision is held."""

from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.dense import DiagonalGaussian, Gaussian, gaussian
from sksvi.families.gaussian.normal import StandardGaussian
from sksvi.families.gaussian.views import ProjectedGaussian

__all__ = ["DiagonalGaussian", "Gaussian", "NotPositiveDefinite", "ProjectedGaussian", "StandardGaussian", "gaussian"]
