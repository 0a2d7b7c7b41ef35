"""Rows of ``product.algorithms``: gradient algorithms beside natural steps, in every estimator that takes them."""

from __future__ import annotations

import pytest

from benchmarks.product._algorithm_cases import DATA, cases, estimators
from benchmarks.product.algorithms import compared


def test_every_estimator_that_takes_them_has_data():
    assert {cls.__name__ for cls in estimators()} == set(DATA)


@pytest.mark.parametrize("name", ["BayesianGLMClassifier", "SparseGPRegressor"])
def test_gradient_algorithms_end_where_natural_steps_do(name):
    """Bound and stop; times depend on the machine."""
    case = next(case for case in cases(120) if case.estimator.__name__ == name and "optimal" not in case.label)
    rows = compared(case, 1)
    assert [row["algorithm"] for row in rows] == ["h-mc-ssvi", "s-dsvi"]
    assert all(row["gap %"] <= 0.1 and row["stopped by itself"] for row in rows)
