"""The table of the README is that of the stored runs of ``product.beside``."""

from __future__ import annotations

from benchmarks._lib import HERE
from benchmarks.product import beside


def test_the_table_of_the_readme_is_that_of_the_stored_runs():
    text = (HERE.parent / "README.md").read_text()
    assert beside.readme(text) == text
