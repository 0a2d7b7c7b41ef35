"""Factor models: sparse factors of rows with missing entries."""

from __future__ import annotations

from sksvi.decomposition._beta_process import BetaProcessFA
from sksvi.decomposition._folded import FoldedPairs, FoldedUsers
from sksvi.decomposition._pmf import GeneralizedPMF

__all__ = ["BetaProcessFA", "FoldedPairs", "FoldedUsers", "GeneralizedPMF"]
