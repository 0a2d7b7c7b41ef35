"""Fixtures for every test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

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


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test opened: matplotlib warns from the 21st on."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
