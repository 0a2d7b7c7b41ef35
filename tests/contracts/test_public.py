"""What users import: every public name exists, is documented, and importing the package stays light."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpydoc.validate import validate
from sklearn.utils import Bunch

import sksvi
from sksvi.datasets import make_glm

ROOT = Path(__file__).resolve().parents[2]
ESTIMATORS = ["BayesianGLMClassifier", "BayesianGLMRegressor"]
#: Every page with code that a reader would paste.
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "doc").glob("*.md"))]
    if "```python" in page.read_text(encoding="utf-8")
]
#: Pages of long fits.
LONG_PAGES = ["doc/mixed_effects.md"]
#: First hours of the rentals that the demo is run on: as many as the week that it draws needs.
HOURS = 5000
HEAVY = ["pandas", "numba", "matplotlib", "rich", "arviz", "pytest"]

# Codes of numpydoc.validate that mark a docstring as wrong rather than short.
CODES = {
    "GL03",  # double blank lines
    "GL05",  # tabs
    "GL06",  # unknown section
    "GL07",  # sections in the wrong order
    "GL08",  # no docstring
    "GL10",  # wrong directives
    "SS01",  # no summary
    "SS04",  # summary with leading spaces
    "PR01",  # parameters not documented
    "PR02",  # unknown parameters documented
    "PR03",  # wrong order of parameters
    "PR04",  # parameter without type
    "PR10",  # no space before the colon
}
METHOD_CODES = CODES - {"GL08", "PR01", "PR03", "PR04"}


def public_objects():
    """(qualified name, object) of everything public that this package defines."""
    found = {f"sksvi.{name}": getattr(sksvi, name) for name in sksvi._ATTRIBUTES}
    for module_name in sksvi._SUBMODULES:
        module = getattr(sksvi, module_name)
        names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        for name in names:
            value = getattr(module, name)
            defined_here = getattr(value, "__module__", "").startswith(module.__name__)
            if defined_here and (inspect.isclass(value) or inspect.isfunction(value)):
                found.setdefault(f"{module.__name__}.{name}", value)
    return found


def complaints(name, codes):
    return [f"{name}: {code} {text}" for code, text in validate(name)["errors"] if code in codes]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


@pytest.mark.parametrize("name", sksvi.__all__)
def test_public_name_exists(name):
    assert getattr(sksvi, name) is not None
    assert name in dir(sksvi)


@pytest.mark.parametrize("module", sksvi._SUBMODULES)
def test_what_a_module_promises_exists(module):
    loaded = importlib.import_module(f"sksvi.{module}")
    assert loaded.__doc__
    for name in getattr(loaded, "__all__", []):
        assert hasattr(loaded, name), f"sksvi.{module}.__all__ has {name!r}, which is not there"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sksvi.nothing  # noqa: B018


@pytest.mark.costly
def test_public_docstrings_are_numpydoc():
    wrong = [line for name in public_objects() for line in complaints(name, CODES)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.costly
def test_public_methods_are_documented():
    wrong = []
    for name, value in public_objects().items():
        if not inspect.isclass(value):
            continue
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if method.startswith("_") or not function.__module__.startswith("sksvi"):
                continue
            if function.__doc__:
                wrong += complaints(f"{name}.{method}", METHOD_CODES)
            elif not inspect.getdoc(function):  # an override may inherit its documentation
                wrong.append(f"{name}.{method}: no docstring")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_show_an_example(name):
    assert ">>>" in inspect.getdoc(getattr(sksvi, name))


def test_import_is_light():
    """Nothing heavy is imported, neither by the package nor by its estimators, unless scikit-learn did so already."""
    code = "import sys, {}; print(*(name for name in {} if name in sys.modules))"
    assert run(code.format("sksvi", HEAVY)).split() == []
    if heavy := set(run(code.format("sksvi.linear_model", HEAVY)).split()):
        assert heavy <= set(run(code.format("sklearn.linear_model, sklearn.base", HEAVY)).split())


def test_import_costs_little_more_than_scikit_learn():
    """At most 1.3 times the time of `import sklearn.linear_model`; the best of up to three: the machine may be busy."""
    clock = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    best = {"sksvi": np.inf, "sklearn.linear_model": np.inf}
    for _ in range(3):
        best = {name: min(seconds, float(run(clock.format(name)))) for name, seconds in best.items()}
        if best["sksvi"] <= 1.3 * best["sklearn.linear_model"]:
            break
    assert best["sksvi"] <= 1.3 * best["sklearn.linear_model"]


def test_version_is_in_one_place():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", sksvi.__version__)
    assert f'version = "{sksvi.__version__}"' not in (ROOT / "pyproject.toml").read_text()


def blocks_of(text):
    """The python blocks of a page, without what it is indented by."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def bound_by(block):
    """Names that a block imports, defines or assigns."""
    found = set()
    for line in ast.parse(block).body:
        if isinstance(line, ast.Import | ast.ImportFrom):
            found |= {(name.asname or name.name).partition(".")[0] for name in line.names}
        elif isinstance(line, ast.FunctionDef | ast.ClassDef):
            found.add(line.name)
        elif isinstance(line, ast.Assign):
            found |= {name.id for target in line.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def assumed_by(page, tmp_path):
    """What a page takes for granted."""
    if page == "doc/streaming.md":  # a file of rows, data of the same columns, a saved model
        X, y = make_glm(400, 3, random_state=0)
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where(y == 1, "yes", "no"))
        frame.to_csv(tmp_path / "rows.csv", index=False)
        return {"X": frame[["a", "b", "c"]], "y": frame["label"], "path": "model.sksvi"}
    if page == "doc/files.md":  # a fit
        return {"sksvi": sksvi, "model": sksvi.BayesianGLMClassifier().fit(*make_glm(50, 3, random_state=0))}
    return {}


def run_page(page, tmp_path, monkeypatch):
    """Run the python blocks of a page in turn, as a reader would paste them: how many, and what they define."""
    blocks = blocks_of((ROOT / page).read_text(encoding="utf-8"))
    names = {"__name__": page, **assumed_by(page, tmp_path)}
    monkeypatch.chdir(tmp_path)
    ran, defined = 0, set()
    for block in blocks:
        exec(compile(block, f"<{page}>", "exec"), names)
        missing = bound_by(block) - names.keys()
        assert not missing, f"{page}: a block ran and left {missing} undefined"
        ran, defined = ran + 1, defined | bound_by(block)
    return ran, defined


def assert_ran(page, ran, defined):
    """Every block that the page opens was one that ran, and they left something behind."""
    opened = (ROOT / page).read_text(encoding="utf-8").count("```python")
    assert ran == opened > 0, f"{page}: {ran} of {opened} blocks ran"
    assert defined, f"{page}: its code defines nothing"


def test_blocks_of_a_page_are_found_and_read():
    text = "a\n```python\nimport os.path as p\nx, y = 1, 2\n```\n\n  ```python\n  def f(): ...\n  ```\n```text\nz\n```"
    blocks = blocks_of(text)
    assert blocks == ["import os.path as p\nx, y = 1, 2\n", "def f(): ...\n"]
    assert [bound_by(block) for block in blocks] == [{"p", "x", "y"}, {"f"}]
    assert set(LONG_PAGES) < set(PAGES)


@pytest.mark.costly
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.exhaustive] * (page in LONG_PAGES)) for page in PAGES]
)
@pytest.mark.filterwarnings("ignore:The inplace keyword in")  # of Dask's own reading of Parquet, under pandas 3.1
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # Poisson fits beside those that let it
def test_code_of_the_pages_runs(page, tmp_path, monkeypatch):
    assert_ran(page, *run_page(page, tmp_path, monkeypatch))


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", LONG_PAGES)
def test_code_of_long_pages_runs_with_few_passes(page, tmp_path, monkeypatch):
    estimators = [value for name in sksvi.__all__ if hasattr(value := getattr(sksvi, name), "fit")]
    for estimator in estimators:
        monkeypatch.setitem(estimator.__init__.__kwdefaults__, "max_iter", 4)
    assert_ran(page, *run_page(page, tmp_path, monkeypatch))


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # its rentals do, as its tables show
def test_demo_prints_its_tables_and_writes_its_figures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from examples import demo

    monkeypatch.setattr(demo, "N_SPLITS", 1)
    bikes = demo.load_bike_sharing()
    few = Bunch(data=bikes.data[:HOURS], target=bikes.target[:HOURS], categorical_features=bikes.categorical_features)
    monkeypatch.setattr(demo, "load_bike_sharing", lambda: few)
    monkeypatch.setattr(sys, "argv", ["demo", "--output", str(tmp_path / "figures")])
    demo.main()
    printed = capsys.readouterr().out
    for name in (*demo.ALGORITHMS, "negative-binomial", "PoissonRegressor", "LogisticRegression"):
        assert name in printed
    assert "Not converged" not in printed
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "coefficients.png",
        "intervals.png",
        "lower_bound.png",
    ]
