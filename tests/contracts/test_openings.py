"""The page of what users ask for tells the truth: 38 lines, and every test that it names exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "doc" / "openings.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if re.match(r"\| *\d+ *\|", line)
]


@functools.cache
def named_in(path):
    """Names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_there_are_38_in_order():
    assert [int(row[0]) for row in ROWS] == list(range(1, 39))
    assert all(len(row) == 5 and all(row) for row in ROWS)
    for number, _, where, *_ in ROWS:
        assert re.search(r"[\w-]+#\d+", where), f"line {number} names no public issue"


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_test_that_it_names_exists(row):
    named = re.findall(r"`((?:benchmarks/)?tests/[\w/]+\.py)::(test_\w+)`", row[4])
    assert named and len(named) == row[4].count("`") // 2, f"not of the form `path::name`: {row[4]}"
    for path, name in named:
        assert name in named_in(path), f"{path} has no {name}"
