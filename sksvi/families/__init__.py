"""Exponential families of the posterior blocks."""

from sksvi.families.gaussian import DiagonalGaussian, Gaussian, NotPositiveDefinite, ProjectedGaussian, StandardGaussian
from sksvi.families.plates import ClassGaussian
from sksvi.families.point import Point

__all__ = [
    "ClassGaussian",
    "DiagonalGaussian",
    "Gaussian",
    "NotPositiveDefinite",
    "Point",
    "ProjectedGaussian",
    "StandardGaussian",
]
