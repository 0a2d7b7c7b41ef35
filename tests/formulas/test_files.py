"""Models from formulas in files: the same bits, without the rows of the fit, and no code of whoever wrote one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

import sksvi
from sksvi import BayesianGLMRegressor
from sksvi.formulas import FormulaModel, FormulaTransformer
from sksvi.persistence import writer

pytest.importorskip("formulaic")

ROAD = {"u": ["v"], "v": ["u", "w"], "w": ["v"]}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 90
    found = pd.DataFrame({"x": rng.standard_normal(n), "age": rng.uniform(20.0, 60.0, n), "n": rng.integers(1, 9, n)})
    found["z"], found["g"], found["area"] = (rng.choice(list(letters), n) for letters in ("abc", "pqrst", "uvw"))
    return found.assign(**{"a b": rng.random(n), "y": found["x"] + rng.standard_normal(n)})


@pytest.fixture(scope="module")
def fitted(data):
    """A model with parts of every kind."""
    formula = (
        "log(n) ~ x*z + poly(x, 2) + C(z, contr.sum):age + bs(age, df=5) + center(log(`a b` + 1)) + np.sqrt(n) + C(n) "
        "+ s(age, by=z, k=5) + ti(age, x, k=4) + gp(`a b`, length_scale=0.3) + mrf(area) + (x || g) + offset(log(n))"
    )
    model = sksvi.from_formula(formula, data, maps={"area": ROAD}, hyperparameters="point", max_iter=5)
    with pytest.warns():  # that a few passes are not enough
        return model.fit(data)


def test_a_file_predicts_the_same_bits(data, fitted, tmp_path):
    fitted.save(tmp_path / "model.sksvi", training_rows=False)
    loaded = sksvi.load(tmp_path / "model.sksvi", FormulaModel)
    new = data[::-1][:40].assign(g="new", n=data["n"])
    pd.testing.assert_frame_equal(loaded[0].transform(new), fitted[0].transform(new))
    np.testing.assert_array_equal(loaded.predict_latent(new), fitted.predict_latent(new))
    np.testing.assert_array_equal(loaded.predict_interval(new), fitted.predict_interval(new))
    pd.testing.assert_frame_equal(loaded.summary(), fitted.summary())
    with pytest.raises(ValueError, match="column 'z' has level 'q', which no row of the fit had"):
        loaded.predict(new.assign(z="q"))


def test_files_of_unfitted_models_and_searches(data, tmp_path):
    formula = "y ~ x + s(age, k=5)"
    sksvi.save(sksvi.from_formula(formula, data), tmp_path / "model.sksvi")
    loaded, model = sksvi.load(tmp_path / "model.sksvi").fit(data), sksvi.from_formula(formula, data).fit(data)
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    stream = sksvi.from_formula("y ~ x + z", data).partial_fit(data[:60])
    stream.save(tmp_path / "stream.sksvi")
    again = sksvi.load(tmp_path / "stream.sksvi").partial_fit(data[60:])
    np.testing.assert_array_equal(again.predict(data), stream.partial_fit(data[60:]).predict(data))
    search = GridSearchCV(sksvi.from_formula("y ~ x + z", data), {"model__max_iter": [50]}, cv=2).fit(data, data["y"])
    sksvi.save(search, tmp_path / "search.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "search.sksvi").predict(data), search.predict(data))


#: Formula, and what of it files do not hold.
CODE = {
    "y ~ x.clip(0, 1)": "x.clip",
    "y ~ {__import__('os').getcwd()}": "__import__",
    "y ~ np.load('x')": "np.load",
    "y ~ s(x.abs())": "x.abs",
    "x.abs() ~ z": "x.abs",
    "cbind(x.abs(), y) ~ z": "x.abs",
    "y ~ x + offset(x.abs())": "x.abs",
    "y ~ x + (1 + I(x.abs()) | g)": "x.abs",
    "y ~ {[i for i in x]}": "for i in x",
    "y ~ {(lambda: x)()}": "lambda",
    "y ~ {x[0]}": r"x\[0\]",
    "y ~ {f'{x}'}": "f'{x}'",
    "y ~ I(x, _state=y)": "_state",
    "y ~ I(10**10**10 * x)": r"10 \*\* 10",
    "y ~ I('x' * 10**9)": "'x' ",
    "y ~ bs(x, df=10**9)": "bs",
    "y ~ hashed(z, levels=1000000000)": "hashed",
    "y ~ np.add(x, x, out=y)": "np.add",
    "y)} + {open('x') ~ x": "cannot be read|more than one|not understood",
}


@pytest.mark.parametrize("formula", CODE)
def test_a_formula_that_is_code_is_in_no_file(formula, tmp_path, monkeypatch):
    """Neither written nor read, fitted or not."""
    model = FormulaModel([("design", FormulaTransformer(formula)), ("model", BayesianGLMRegressor())])
    with pytest.raises(TypeError, match=f"Cannot save FormulaModel.*{CODE[formula]}"):
        model.save(tmp_path / "model.sksvi")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(writer, "check", lambda value, layout: None)
    model.save(tmp_path / "model.sksvi")
    with pytest.raises(ValueError, match=f"cannot be loaded: .*{CODE[formula]}"):
        sksvi.load(tmp_path / "model.sksvi")


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        (["1", "{__import__('os').getcwd()}"], "__import__"),
        (["(x + z)**9"], "more than one term"),
        (["1", 7], "is a int, not a text"),
    ],
)
def test_terms_of_a_file_are_checked_beside_its_formula(data, terms, error, tmp_path):
    model = sksvi.from_formula("y ~ x", data).fit(data)
    model[0].fixed_.terms[:] = terms
    model.save(tmp_path / "model.sksvi")
    with pytest.raises(ValueError, match=error):
        sksvi.load(tmp_path / "model.sksvi")


def test_a_pipeline_with_other_steps_is_in_no_file(data, tmp_path):
    model = sksvi.from_formula("y ~ x", data).fit(data)
    other = FormulaModel([("design", model[0]), ("model", model[0])])
    with pytest.raises(TypeError, match="is a FormulaTransformer, not a BayesianGLM"):
        other.save(tmp_path / "model.sksvi")
    with pytest.raises(TypeError, match="memory is None"):
        model.set_params(memory=str(tmp_path)).save(tmp_path / "model.sksvi")
