"""Exponential families of the posterior blocks."""

from sksvi.families.beta import Beta
from sksvi.families.dirichlet import Dirichlet, Simplex
from sksvi.families.free import Free
from sksvi.families.gamma import Gamma
from sksvi.families.gaussian.dense import (
    DiagonalGaussian,
    Gaussian,
    NotPositiveDefinite,
    ProjectedGaussian,
    StandardGaussian,
)
from sksvi.families.gaussian.marginal import Marginal
from sksvi.families.gaussian.plates import GaussianPlates
from sksvi.families.gaussian.views import ClassGaussian
from sksvi.families.point import Point
from sksvi.families.population import Population
from sksvi.families.rayleigh import Rayleigh

__all__ = [
    "Beta",
    "ClassGaussian",
    "DiagonalGaussian",
    "Dirichlet",
    "Free",
    "Gamma",
    "Gaussian",
    "GaussianPlates",
    "Marginal",
    "NotPositiveDefinite",
    "Point",
    "Population",
    "ProjectedGaussian",
    "Rayleigh",
    "Simplex",
    "StandardGaussian",
]
