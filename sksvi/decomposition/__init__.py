"""Factor models: of rows, of counts, of ratings."""

from __future__ import annotations

from sksvi.decomposition._beta_process import BetaProcessFA
from sksvi.decomposition._folded import FoldedPairs, FoldedUsers
from sksvi.decomposition._gamma_factor import GammaFactorModel
from sksvi.decomposition._gamma_poisson import GammaPoissonFactorization
from sksvi.decomposition._gamma_process import GammaProcessNMF
from sksvi.decomposition._pmf import GeneralizedPMF

__all__ = [
    "BetaProcessFA",
    "FoldedPairs",
    "FoldedUsers",
    "GammaFactorModel",
    "GammaPoissonFactorization",
    "GammaProcessNMF",
    "GeneralizedPMF",
]
