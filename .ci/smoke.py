"""Tries an installed sksvi: every public estimator fits, answers, is saved and loaded; the data that ship are there.

Run by ``make dist`` in the environment of a wheel, as ``python -I .ci/smoke.py`` from an empty folder; it needs nothing
of the repository and nothing but the package's own dependencies.
"""

from __future__ import annotations

import importlib.resources
import inspect
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sksvi

ROWS = 40
FEW = {"random_state": 0, "max_iter": 5}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 3))
LATENT = X @ [1.0, 0.5, -1.0] + 0.3 * RNG.standard_normal(ROWS)
COUNTS = RNG.poisson(np.exp(0.5 * LATENT))
LABELS = np.where(LATENT > 0, "yes", "no")
GROUPS = pd.DataFrame({"x": X[:, 0], "g": RNG.integers(0, 5, ROWS).astype(str)})
PAIRS = RNG.integers(0, 6, (ROWS, 2))
WORDS = RNG.integers(0, 4, (ROWS, 8))
BITS = (RNG.random((ROWS, 5)) < 0.5).astype(float)
ANSWERS = pd.DataFrame(RNG.integers(0, 3, (ROWS, 4)), columns=list("abcd"))

#: Class -> its parameters, what it is fitted to (X, or X and y), and the questions that it answers.
ESTIMATORS: dict[str, tuple[dict[str, Any], tuple[Any, ...], tuple[str, ...]]] = {
    "BayesianGLMClassifier": (FEW, (X, LABELS), ("predict", "predict_proba")),
    "BayesianGLMRegressor": ({"likelihood": "poisson", **FEW}, (X, COUNTS), ("predict", "predict_interval")),
    "BernoulliMixture": ({"n_components": 2, **FEW}, (BITS,), ("predict",)),
    "BetaProcessFA": ({"n_components": 2, **FEW}, (X,), ("transform",)),
    "CategoricalMixture": ({"n_components": 2, **FEW}, (ANSWERS,), ("predict",)),
    "CorrelatedTopicModel": ({"n_components": 2, **FEW}, (WORDS,), ("transform",)),
    "DynamicGLM": (FEW, (X, COUNTS), ("predict", "predict_interval")),
    "GMEClassifier": ({"groups": ["g"], **FEW}, (GROUPS, LABELS), ("predict", "predict_proba")),
    "GMERegressor": ({"groups": ["g"], **FEW}, (GROUPS, LATENT), ("predict", "predict_interval")),
    "GPClassifier": (FEW, (X, LABELS), ("predict", "predict_proba")),
    "GammaFactorModel": ({"n_components": 2, **FEW}, (X,), ("transform",)),
    "GammaPoissonFactorization": ({"n_components": 2, **FEW}, (WORDS,), ("transform",)),
    "GammaProcessNMF": ({"n_components": 2, **FEW}, (WORDS,), ("transform",)),
    "GeneralizedPMF": ({"n_components": 2, **FEW}, (PAIRS, LATENT), ("predict", "predict_interval")),
    "PoissonFactorization": ({"n_components": 2, **FEW}, (PAIRS, COUNTS), ("predict", "transform")),
    "SparseGPClassifier": ({"n_inducing": 6, **FEW}, (X, LABELS), ("predict", "predict_proba")),
    "SparseGPRegressor": ({"n_inducing": 6, **FEW}, (X, LATENT), ("predict", "predict_interval")),
    "StructuredLDA": ({"n_components": 2, **FEW}, (WORDS,), ("transform",)),
}


def network() -> None:
    """A rate of two counts, whose posterior is known: Gamma(9, 3). Networks have no files."""
    from sksvi.network import Gamma, Network, Poisson

    found = Network({"rate": Gamma(1.0, 1.0), "y": Poisson("rate")}).fit({"y": [3.0, 5.0]})
    np.testing.assert_allclose(found.posterior_["rate"].mean, 3.0)


def panel() -> None:
    """Two series in one table, each forecast as it is alone."""
    from sksvi.time_series import SeriesPanel

    y = np.random.default_rng(0).poisson(5.0, 80)
    shops = pd.DataFrame({"shop": np.repeat(["a", "b"], 40)})
    found = SeriesPanel(sksvi.DynamicGLM(level_variance=0.01), groups="shop").fit(shops, y).forecast(2)
    alone = sksvi.DynamicGLM(level_variance=0.01).fit(None, y[40:]).forecast(2)
    np.testing.assert_array_equal(found.loc["b"].to_numpy(), alone.to_numpy())


def smooth() -> None:
    """Columns of a smooth: a line and what bends, as many for new rows."""
    found = sksvi.preprocessing.SmoothTransformer(n_basis=6).fit(X)
    assert found.transform(X[:2]).shape == (2, len(found.get_feature_names_out()))


def process() -> None:
    """Columns of a Gaussian process, as many for new rows."""
    found = sksvi.preprocessing.HilbertGPTransformer(additive=True).fit(X)
    assert found.transform(X[:2]).shape == (2, len(found.get_feature_names_out()))


def areas() -> None:
    """Columns of two neighbours, which differ in sign."""
    found = sksvi.preprocessing.Neighbours({"a": ["b"], "b": ["a"]}).fit_transform([["a"], ["b"]])
    np.testing.assert_allclose(found, [[1.0], [-1.0]])


def formula() -> None:
    """A model from a formula, where formulaic is there; without it an error names the extra."""
    table = pd.DataFrame({"x": X[:, 0], "y": LATENT})
    try:
        found = sksvi.from_formula("y ~ x", table).fit(table)
    except ImportError as error:
        assert "sksvi[formula]" in str(error)
        return
    assert found.predict(table).shape == (ROWS,)


#: What is fitted and is no estimator of rows with a posterior.
OTHERS: dict[str, Callable[[], None]] = {
    "FormulaModel": formula,
    "FormulaTransformer": formula,
    "HilbertGPTransformer": process,
    "Neighbours": areas,
    "Network": network,
    "SeriesPanel": panel,
    "SmoothTransformer": smooth,
}


def public() -> set[str]:
    """Names of all public classes with `fit`, of the package and of the modules that it lists."""
    values = [getattr(sksvi, name) for name in sksvi.__all__]
    inside = [getattr(module, name) for module in values for name in getattr(module, "__all__", ())]
    return {value.__name__ for value in (*values, *inside) if inspect.isclass(value) and hasattr(value, "fit")}


def tried(name: str, folder: Path) -> None:
    """Fit, ask, save, load, ask again: the same answers, of the right number of rows, without a NaN."""
    parameters, data, questions = ESTIMATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few passes do not converge
        model = getattr(sksvi, name)(**parameters).fit(*data)
    sksvi.save(model, folder / f"{name}.sksvi")
    loaded = sksvi.load(folder / f"{name}.sksvi")
    assert type(loaded) is type(model)
    for question in questions:
        ask = getattr(sksvi, question) if question == "predict_interval" else None
        before, after = (
            np.asarray(ask(each, data[0]) if ask else getattr(each, question)(data[0])) for each in (model, loaded)
        )
        assert len(before) == ROWS
        assert before.dtype.kind not in "fc" or np.isfinite(before).all()
        np.testing.assert_array_equal(before, after, err_msg=f"{name}.{question} after save and load")
    assert len(loaded.summary()) > 0


def data_sets() -> None:
    """What ships beside the code: tables, their descriptions, the mark that the package has types."""
    shipped = [name for name in sksvi.datasets.__all__ if name.startswith("load_")]
    assert shipped
    for name in shipped:
        found = getattr(sksvi.datasets, name)()
        assert len(found.data) == len(found.target) > 0
        assert found.DESCR.strip()
    assert importlib.resources.files("sksvi").joinpath("py.typed").is_file()


def main() -> None:
    place = Path(sksvi.__file__).resolve()
    assert place.is_relative_to(Path(sys.prefix).resolve()), f"{place} is not of the environment {sys.prefix}"
    missing, unknown = public() - {*ESTIMATORS, *OTHERS}, {*ESTIMATORS, *OTHERS} - public()
    assert not missing, f"Public and in no list of {__file__}: {sorted(missing)}"
    assert not unknown, f"In a list of {__file__} and not public: {sorted(unknown)}"
    data_sets()
    with tempfile.TemporaryDirectory() as folder:
        for name in ESTIMATORS:
            tried(name, Path(folder))
    for other in OTHERS.values():
        other()
    sksvi.show_versions()
    print(f"{len(ESTIMATORS) + len(OTHERS)} estimators fit, answer, are saved and loaded as {place.parent} has them")


if __name__ == "__main__":
    main()
