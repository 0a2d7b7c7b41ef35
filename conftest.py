"""What tests and the examples in docstrings share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test opened: matplotlib warns from the 21st on."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
