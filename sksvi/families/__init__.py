"""Exponential families of the posterior blocks."""

from sksvi.families.free import Free
from sksvi.families.gaussian import DiagonalGaussian, Gaussian, NotPositiveDefinite, ProjectedGaussian, StandardGaussian
from sksvi.families.marginal import Marginal
from sksvi.families.plates import ClassGaussian
from sksvi.families.point import Point
from sksvi.families.rayleigh import Rayleigh

__all__ = [
    "ClassGaussian",
    "DiagonalGaussian",
    "Free",
    "Gaussian",
    "Marginal",
    "NotPositiveDefinite",
    "Point",
    "ProjectedGaussian",
    "Rayleigh",
    "StandardGaussian",
]
