"""Checks, by estimator, that fitted attributes have the sizes of the data and agree with each other."""

from __future__ import annotations

from collections.abc import Callable

from sksvi.persistence.fitted.factors import (
    check_beta_process,
    check_factorization,
    check_gamma_factors,
    check_gamma_poisson,
    check_gamma_process,
    check_poisson_pairs,
)
from sksvi.persistence.fitted.gp import check_full_gp, check_sparse_gp
from sksvi.persistence.fitted.linear import check_linear, check_mixed
from sksvi.persistence.fitted.mixture import check_mixture
from sksvi.persistence.fitted.series import check_dynamic, check_panel
from sksvi.persistence.fitted.shared import check_fit
from sksvi.persistence.fitted.topics import check_lda, check_topics
from sksvi.persistence.validator import Validator

__all__ = ["ESTIMATORS", "check_fit", "check_panel"]

#: Key of the table -> what to ask of a fitted estimator of that class.
ESTIMATORS: dict[str, Callable[[Validator], None]] = {
    "BayesianGLMClassifier": check_linear,
    "BayesianGLMRegressor": check_linear,
    "GMEClassifier": check_mixed,
    "GMERegressor": check_mixed,
    "SparseGPClassifier": check_sparse_gp,
    "SparseGPRegressor": check_sparse_gp,
    "GPClassifier": check_full_gp,
    "DynamicGLM": check_dynamic,
    "GeneralizedPMF": check_factorization,
    "CorrelatedTopicModel": check_topics,
    "StructuredLDA": check_lda,
    "BetaProcessFA": check_beta_process,
    "GammaFactorModel": check_gamma_factors,
    "GammaPoissonFactorization": check_gamma_poisson,
    "GammaProcessNMF": check_gamma_process,
    "PoissonFactorization": check_poisson_pairs,
    "BernoulliMixture": check_mixture,
    "CategoricalMixture": check_mixture,
}
