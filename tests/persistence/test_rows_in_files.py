"""What of the training rows a file holds: of most estimators nothing but the extremes of a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BernoulliMixture,
    BetaProcessFA,
    CategoricalMixture,
    DynamicGLM,
    GammaFactorModel,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEW, MANY = 40, 160
SHORT = {"max_iter": 3, "random_state": 0}
POINTS = {"n_inducing": 5, **SHORT}
TWO = {"n_components": 2, **SHORT}
#: Estimator and what it is fitted to, of rows X and targets y.
KEEP_NONE = [
    (BayesianGLMRegressor(**SHORT), lambda X, y: (X, y)),
    (BayesianGLMClassifier(**SHORT), lambda X, y: (X, y > 0)),
    (GMERegressor(groups=["g"], **SHORT), lambda X, y: (grouped(X), y)),
    (GMEClassifier(groups=["g"], **SHORT), lambda X, y: (grouped(X), y > 0)),
    (SparseGPRegressor(**POINTS), lambda X, y: (X, y)),
    (SparseGPClassifier(**POINTS), lambda X, y: (X, y > 0)),
    (BetaProcessFA(**TWO), lambda X, y: (X,)),
    (GammaFactorModel(noise_variance="per-feature", **TWO), lambda X, y: (X,)),
    (BernoulliMixture(**TWO), lambda X, y: ((X > 0).astype(float),)),
    (CategoricalMixture(**TWO), lambda X, y: (pd.DataFrame(np.digitize(X, [-0.5, 0.5])),)),
]


def grouped(X):
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(g=np.arange(len(X)) % 5)


def saved(model, arguments, n, path, seed):
    """The file of a fit to n rows, and these rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = X @ [1.0, 0.5, -1.0] + 0.3 * rng.standard_normal(n)
    model.fit(*arguments(X, y)).save(path)
    return path.read_bytes(), X, y


def held(file, values):
    """Which of some numbers the file holds, as bits or as text."""
    return [value for value in np.ravel(values) if value.tobytes() in file or repr(float(value)).encode() in file]


@pytest.mark.parametrize("model, arguments", KEEP_NONE, ids=[type(model).__name__ for model, _ in KEEP_NONE])
def test_a_file_holds_no_row_and_does_not_grow_with_them(model, arguments, tmp_path, global_random_seed):
    small, *_ = saved(model, arguments, FEW, tmp_path / "few", global_random_seed)
    file, X, y = saved(model, arguments, MANY, tmp_path / "many", global_random_seed)
    assert len(file) < len(small) + 8 * (MANY - FEW)  # less than one number a row
    extremes = {*X.min(axis=0), *X.max(axis=0)}
    assert set(held(file, X)) <= extremes
    assert held(file, y) == []


def test_rows_that_are_the_model_are_held(tmp_path, global_random_seed):
    """The other way round, so that the test above would see a row."""
    file, X, _ = saved(GPClassifier(**SHORT), lambda X, y: (X, y > 0), FEW, tmp_path / "a", global_random_seed)
    assert len(held(file, X)) == X.size
    file, X, y = saved(
        DynamicGLM(likelihood="gaussian", **SHORT), lambda X, y: (X, y), FEW, tmp_path / "b", global_random_seed
    )
    assert len(held(file, y)) == FEW
