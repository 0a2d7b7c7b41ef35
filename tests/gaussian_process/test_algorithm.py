"""Which algorithm fits a sparse GP is told where it is another one than was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import SparseGPRegressor
from sksvi.algorithms import CVI, MCSSVI
from sksvi.schedules import RobbinsMonro

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
OPTIONS = {"n_inducing": 5, "max_iter": 2, "batch_size": 20, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    X = np.linspace(-2.0, 2.0, 60)[:, None]
    return X, np.sin(2.0 * X[:, 0])


def test_messages_that_would_go_stale_are_told(rows):
    with pytest.warns(UserWarning, match="goes stale"):
        model = SparseGPRegressor(algorithm=CVI(RobbinsMonro(kappa=0.7)), **OPTIONS).fit(*rows)
    assert isinstance(model.algorithm_, MCSSVI)
    assert model.algorithm_.schedule.kappa == 0.7


def test_what_was_asked_for_is_kept_where_it_can_be(rows):
    fixed = {"optimize_hyperparameters": False, "optimize_inducing": False}
    assert isinstance(SparseGPRegressor(algorithm=CVI(), **fixed, **OPTIONS).fit(*rows).algorithm_, CVI)
    assert isinstance(SparseGPRegressor(algorithm=CVI(), **{**OPTIONS, "batch_size": None}).fit(*rows).algorithm_, CVI)
    assert isinstance(SparseGPRegressor(**OPTIONS).fit(*rows).algorithm_, MCSSVI)
