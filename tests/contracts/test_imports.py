"""Tests and benchmarks do not import each other: what both need is in `sksvi.testing`, or in `support`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imported_packages(text: str) -> set[str]:
    """Top-level packages that a module imports, inside functions too."""
    packages = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            packages.add((node.module or "").partition(".")[0])
    return packages


def importing(folder: str, package: str) -> Iterator[str]:
    """Files of a folder that import a package."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if package in text and package in imported_packages(text):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("tests", "benchmarks"),
        ("benchmarks", "tests"),
        ("support", "tests"),
        ("support", "benchmarks"),
        *(("sksvi", package) for package in ("tests", "benchmarks", "support")),
    ],
)
def test_a_folder_does_not_import_a_package(folder, package):
    assert not list(importing(folder, package))


def test_imports_are_found_wherever_they_are():
    assert imported_packages("import a.b, c\ndef f():\n    from d.e import g\nfrom . import h\n") == {"a", "c", "d"}
