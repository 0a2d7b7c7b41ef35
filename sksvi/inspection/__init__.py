"""What a fitted model says of its columns, on the scale of y, and how far its posterior is to be trusted."""

from sksvi.inspection._bounds import BoundReport, bound_report
from sksvi.inspection._certificate import FixedPointCertificate, fixed_point_certificate
from sksvi.inspection._compare import compare
from sksvi.inspection._contrasts import Contrasts, contrasts
from sksvi.inspection._diagnose import Diagnosis, diagnose
from sksvi.inspection._effects import marginal_effects
from sksvi.inspection._future import leave_future_out
from sksvi.inspection._hypothesis import Hypothesis, hypothesis
from sksvi.inspection._kfold import kfold
from sksvi.inspection._loo import ElpdResult, loo
from sksvi.inspection._n_components import n_components_curve
from sksvi.inspection._partial import partial_effect
from sksvi.inspection._posterior import PosteriorCheck, check_posterior
from sksvi.inspection._power import power_scale
from sksvi.inspection._simulation import RankResult, sbc

__all__ = [
    "BoundReport",
    "Contrasts",
    "Diagnosis",
    "ElpdResult",
    "FixedPointCertificate",
    "Hypothesis",
    "PosteriorCheck",
    "RankResult",
    "bound_report",
    "check_posterior",
    "compare",
    "contrasts",
    "diagnose",
    "fixed_point_certificate",
    "hypothesis",
    "kfold",
    "leave_future_out",
    "loo",
    "marginal_effects",
    "n_components_curve",
    "partial_effect",
    "power_scale",
    "sbc",
]
