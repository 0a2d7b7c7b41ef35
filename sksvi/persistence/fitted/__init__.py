"""Checks, by estimator, that fitted attributes have the sizes of the data and agree with each other."""

from __future__ import annotations

from collections.abc import Callable

from sksvi.persistence.fitted.linear import check_linear, check_mixed
from sksvi.persistence.validator import Validator

__all__ = ["ESTIMATORS"]

#: Key of the table -> what to ask of a fitted estimator of that class, beside its layout.
ESTIMATORS: dict[str, Callable[[Validator], None]] = {
    "BayesianGLMClassifier": check_linear,
    "BayesianGLMRegressor": check_linear,
    "GMEClassifier": check_mixed,
    "GMERegressor": check_mixed,
}
