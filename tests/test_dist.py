"""What `make dist` tries and looks for, without building: its lists are complete, its eyes are open."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import sksvi

CI = Path(__file__).resolve().parents[1] / ".ci"
PACKAGE = {"sksvi/__init__.py", "sksvi/py.typed"}
WHEEL = {*PACKAGE, "sksvi-1.dist-info/METADATA", "sksvi-1.dist-info/licenses/LICENSE"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_estimator_is_tried():
    smoke = script("smoke")
    assert smoke.public() == {*smoke.ESTIMATORS, *smoke.OTHERS}
    assert {name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")} - set(smoke.OTHERS) == set(
        smoke.ESTIMATORS
    )


def test_an_estimator_is_fitted_asked_saved_and_asked_again(tmp_path):
    script("smoke").tried("BayesianGLMRegressor", tmp_path)
    assert (tmp_path / "BayesianGLMRegressor.sksvi").is_file()


def test_what_a_wheel_must_not_hold_is_found():
    wrong_in_wheel = script("check_dist").wrong_in_wheel
    assert wrong_in_wheel(WHEEL, PACKAGE) == []
    for extra in ("tests/test_dist.py", "benchmarks/__main__.py", "sksvi/own.txt"):
        assert wrong_in_wheel({*WHEEL, extra}, PACKAGE) == [f"in the wheel and not of the package: {extra}"]
    for cache in ("sksvi/__pycache__/a.pyc", "sksvi/loops.nbi", "sksvi/loops.nbc"):
        assert f"a cache: {cache}" in wrong_in_wheel({*WHEEL, cache}, PACKAGE)
    assert wrong_in_wheel(WHEEL - {"sksvi/py.typed"}, PACKAGE) == ["not in the wheel: sksvi/py.typed"]
    assert wrong_in_wheel({name for name in WHEEL if "LICENSE" not in name}, PACKAGE) == ["not in the wheel: LICENSE"]


def test_what_an_sdist_lacks_is_found():
    check = script("check_dist")
    repository = {*PACKAGE, "README.md", "tests/test_dist.py", "benchmarks/__main__.py"}
    whole = {*repository, *check.ADDED, "sksvi.egg-info/SOURCES.txt"}
    assert check.wrong_in_sdist(whole, repository) == []
    for name in sorted(repository):
        assert check.wrong_in_sdist(whole - {name}, repository) == [f"not in the sdist: {name}"]
    assert check.wrong_in_sdist({*whole, "own.txt"}, repository) == ["in the sdist and not of the repository: own.txt"]
