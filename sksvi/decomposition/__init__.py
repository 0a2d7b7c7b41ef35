"""Factor models: of rows, of counts, of ratings."""

from sksvi.decomposition._beta_process import BetaProcessFA
from sksvi.decomposition._folded import FoldedCounts, FoldedUsers
from sksvi.decomposition._gamma_factor import GammaFactorModel
from sksvi.decomposition._gamma_poisson import GammaPoissonFactorization
from sksvi.decomposition._gamma_process import GammaProcessNMF
from sksvi.decomposition._pairs import FoldedPairs
from sksvi.decomposition._pmf import GeneralizedPMF
from sksvi.decomposition._poisson_pairs import PoissonFactorization

__all__ = [
    "BetaProcessFA",
    "FoldedCounts",
    "FoldedPairs",
    "FoldedUsers",
    "GammaFactorModel",
    "GammaPoissonFactorization",
    "GammaProcessNMF",
    "GeneralizedPMF",
    "PoissonFactorization",
]
