"""Exponential families of the posterior blocks."""

from sksvi.families.base import Draw, Family, Message, NotPositiveDefinite
from sksvi.families.dirichlet import Beta, Dirichlet, Simplex
from sksvi.families.gamma import Gamma
from sksvi.families.gaussian.dense import DiagonalGaussian, Gaussian
from sksvi.families.gaussian.normal import InUnits, StandardGaussian
from sksvi.families.gaussian.plates import GaussianPlates
from sksvi.families.gaussian.views import ClassGaussian, Marginal, ProjectedGaussian
from sksvi.families.point import Free, Point
from sksvi.families.population import Population, RegressedPopulation
from sksvi.families.rayleigh import Rayleigh

__all__ = [
    "Beta",
    "ClassGaussian",
    "DiagonalGaussian",
    "Dirichlet",
    "Draw",
    "Family",
    "Free",
    "Gamma",
    "Gaussian",
    "GaussianPlates",
    "InUnits",
    "Marginal",
    "Message",
    "NotPositiveDefinite",
    "Point",
    "Population",
    "ProjectedGaussian",
    "Rayleigh",
    "RegressedPopulation",
    "Simplex",
    "StandardGaussian",
]
