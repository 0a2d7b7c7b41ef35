"""Types that a user's editor can use: a script as users write it is without a complaint, and a wrong one is not."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sksvi
from tests.typing import user_script

ROOT = Path(__file__).resolve().parents[2]
#: A line that is wrong, and what mypy says of it.
MISTAKES = {
    'sksvi.BayesianGLMRegressor(likelihod="gaussian")': 'Unexpected keyword argument "likelihod"',
    "sksvi.predict_interval(sksvi.BayesianGLMRegressor())": 'Missing positional argument "X"',
    "sksvi.load()": 'overload variants of "load" require at least one argument',
    'mean: str = sksvi.load("a", sksvi.BayesianGLMRegressor).predict([[1.0]])': "Incompatible types in assignment",
    'lines: str = sksvi.load("a").summary()': "Incompatible types in assignment",
    'linear: sksvi.BayesianGLMRegressor = sksvi.load("a")': "Incompatible types in assignment",
    "sksvi.datasets.load_nothing()": 'has no attribute "load_nothing"',
    "from sksvi import NothingRegressor": 'has no attribute "NothingRegressor"',
    "sksvi.BayesianGLMRegressor(likelihood=3)": 'has incompatible type "int"; expected "str | Likelihood"',
    'sksvi.BayesianGLMRegressor().predict_interval([[1.0]], coverage="0.9")': 'type "str"; expected "float"',
    "words: str = sksvi.BayesianGLMRegressor().predict([[1.0]])": "Incompatible types in assignment",
    "bound: str = sksvi.BayesianGLMRegressor().lower_bound_": "Incompatible types in assignment",
    "table: str = sksvi.StructuredLDA().summary()": "Incompatible types in assignment",
    "pair: str = sksvi.SparseGPRegressor().predict([[1.0]], return_std=True)": "Incompatible types in assignment",
}


def complaints(path, tmp_path):
    """What mypy says to a user who has the package installed, strict, with no settings of ours."""
    pytest.importorskip("mypy", reason="mypy is not installed: it comes with the extra dev")
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--no-pretty", f"--cache-dir={tmp_path}"]
    command = [sys.executable, "-m", "mypy", *options, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert not found.stderr.strip(), found.stderr
    return found.stdout.splitlines()


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_script_runs(tmp_path, capsys):
    user_script.main(tmp_path)
    assert (tmp_path / "model.sksvi").exists()  # what it asserts besides stands in the script


@pytest.mark.exhaustive  # half a minute: everything that the package imports is read
def test_mypy_has_no_complaint_about_the_script_and_some_about_mistakes(tmp_path):
    assert complaints(ROOT / "tests/typing/user_script.py", tmp_path) == [
        "Success: no issues found in 1 source file",
    ]
    wrong = tmp_path / "wrong.py"
    wrong.write_text("\n".join(["import sksvi", *MISTAKES]), encoding="utf-8")
    said = [line for line in complaints(wrong, tmp_path) if ": error:" in line]
    assert len(said) == len(MISTAKES)
    for line, (number, expected) in zip(said, enumerate(MISTAKES.values(), start=2)):
        assert f"wrong.py:{number}: " in line and expected in line


def test_the_mark_that_there_are_types_is_shipped():
    assert (Path(sksvi.__file__).parent / "py.typed").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "py.typed" in settings["package-data"]["sksvi"]


def test_type_checkers_see_what_is_imported_on_first_use():
    """The names under TYPE_CHECKING are those of the table, from the same modules."""
    tree = ast.parse(Path(sksvi.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {name.asname: line.module for line in block.body for name in line.names if name.asname == name.name}
    assert seen == {**sksvi._ATTRIBUTES, **dict.fromkeys(sksvi._SUBMODULES, "sksvi")}
