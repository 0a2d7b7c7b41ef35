"""Fixtures for every test."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from pathlib import Path

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
#: Of a test of more cases than this the short part runs one in so many, drawn by their names; the exhaustive part the
#: others.
MANY, ONE_IN = 5, 3
ROOT = Path(__file__).resolve().parents[1]
SEED_VARIABLE = "SKSVI_TESTS_GLOBAL_RANDOM_SEED"


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave many cases of one test to the exhaustive part, and skip what scikit-learn 1.6 does not do."""
    of_one_test = defaultdict(list)
    for item in items:
        if item.get_closest_marker("exhaustive") is None:
            of_one_test[item.nodeid.split("[")[0]].append(item)
    for cases in of_one_test.values():
        if len(cases) > MANY:
            cases.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
            for item in cases[-(-len(cases) // ONE_IN) :]:
                item.add_marker(pytest.mark.exhaustive)
    _skip_what_old_versions_lack(items)


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
