"""Exponential families of the posterior blocks."""

from sksvi.families.free import Free
from sksvi.families.gaussian import DiagonalGaussian, Gaussian, NotPositiveDefinite, ProjectedGaussian, StandardGaussian
from sksvi.families.plates import ClassGaussian
from sksvi.families.point import Point
from sksvi.families.rayleigh import Rayleigh

__all__ = [
    "ClassGaussian",
    "DiagonalGaussian",
    "Free",
    "Gaussian",
    "NotPositiveDefinite",
    "Point",
    "ProjectedGaussian",
    "Rayleigh",
    "StandardGaussian",
]
