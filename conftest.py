"""Fixtures of all tests and doctests, and the selection of exhaustive tests."""

from __future__ import annotations

import gc
import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sklearn
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

os.environ.setdefault("MPLBACKEND", "Agg")

#: Tests of searches over pipelines whose scores take metadata.
ROUTED = {
    "test_offset_and_weight_are_routed_through_a_pipeline",
    "test_functions_take_an_offset_through_wrappers[search]",
}
#: Of a test of more cases than this, and of a folder's tests that are marked as costly, the short part runs one case in
#: so many, drawn by their names.
MANY, ONE_IN = 3, 20
#: Of the cases that the short part leaves out, but for scikit-learn's checks, the exhaustive part runs one in so many
#: of each test, no fewer than two, the complete part the rest.
EXHAUSTIVE_ONE_IN, AT_LEAST = 8, 2
#: scikit-learn's checks of numbers, which an algorithm or a likelihood may fail where the class passes.
NUMERIC_CHECKS = {
    "check_classifiers_train",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_transformer_general",
}
ROOT = Path(__file__).resolve().parent
SEED_VARIABLE = "SKSVI_TESTS_GLOBAL_RANDOM_SEED"


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test opened: matplotlib warns from the 21st on."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def small_chunks_of_documents(monkeypatch):
    """Corpora of tests in several chunks, which threads share."""
    from sksvi.models.topics import lda

    for name, value in (("CHUNK_DOCUMENTS", 8), ("CHUNK_WORK", 0), ("OF_WORDS", 0)):
        monkeypatch.setattr(lda, name, value)


@pytest.fixture(scope="session")
def global_random_seed() -> int:
    """Seed of every statistical test: 42, or the integer in SKSVI_TESTS_GLOBAL_RANDOM_SEED."""
    text = os.environ.get(SEED_VARIABLE, "42")
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"{SEED_VARIABLE} must be an integer; found {text!r}") from None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the larger public data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SKSVI_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set SKSVI_DATA to a folder that has it")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looks for cycles among the items, which stay: a tenth of that time, and later of the tests'."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check a class's interface once, leave many cases of one test to the exhaustive and the complete part."""
    _interface_once(config, items)
    for cases in _by_test(items, exhaustive=False):
        if len(cases) > MANY or cases[0].get_closest_marker("costly"):
            for item in cases[-(-len(cases) // ONE_IN) :]:
                item.add_marker(pytest.mark.exhaustive)
    for cases in _by_test(items, exhaustive=True):
        if len(cases) > AT_LEAST and "check" not in cases[0].callspec.params:
            for item in cases[max(AT_LEAST, -(-len(cases) // EXHAUSTIVE_ONE_IN)) :]:
                item.add_marker(pytest.mark.complete)
    _skip_what_old_versions_lack(items)


def _by_test(items: list[pytest.Item], exhaustive: bool) -> list[list[pytest.Item]]:
    """Cases of each test that are, or are not, in the exhaustive part, in an order that their names give.

    The costly ones of a folder count as one test of the short part.
    """
    of_one_test = defaultdict(list)
    for item in items:
        if (item.get_closest_marker("exhaustive") is not None) == exhaustive:
            costly, name = not exhaustive and item.get_closest_marker("costly"), item.nodeid.split("::")[0]
            of_one_test[name.rsplit("/", 1)[0] if costly else item.nodeid.split("[")[0]].append(item)
    return [sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode())) for cases in of_one_test.values()]


def _interface_once(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a class's second and further instances keep scikit-learn's checks of numbers alone."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    repeated = []
    for item in items:
        parameters = getattr(item, "callspec", None) and item.callspec.params
        if not parameters or not {"estimator", "check"} <= set(parameters):
            continue
        name = _check_name(parameters["check"])
        key = type(parameters["estimator"]).__name__, name
        instance = item.nodeid.split("[")[0], id(parameters["estimator"])
        if first.setdefault(key, instance) != instance and name not in NUMERIC_CHECKS:
            repeated.append(item)
    if repeated:
        config.hook.pytest_deselected(items=repeated)
        left_out = set(map(id, repeated))
        items[:] = [item for item in items if id(item) not in left_out]


def _check_name(check: Any) -> str:
    while hasattr(check, "func"):
        check = check.func
    return check.__name__


def _skip_what_old_versions_lack(items: list[pytest.Item]) -> None:
    if parse_version(sklearn.__version__) >= parse_version("1.7"):
        return
    for item in items:
        estimator = getattr(item, "callspec", None) and item.callspec.params.get("estimator")
        tags = None if estimator is None else get_tags(estimator).classifier_tags
        if tags is not None and not tags.multi_class and "check_sample_weight_equivalence" in item.name:
            reason = "makes two classes of three by the first row, of rows in two orders: other labels for each fit"
            item.add_marker(pytest.mark.skip(reason=f"scikit-learn {sklearn.__version__} {reason}"))
        if item.name in ROUTED:
            reason = "routes no metadata to the score of a pipeline in a search"
            item.add_marker(pytest.mark.skip(reason=f"scikit-learn {sklearn.__version__} {reason}"))
