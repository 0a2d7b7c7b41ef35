"""A corpus that every installation has: docstrings of installed packages, in the order of their files."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import TypeVar

#: Files of a package that are read, spread over all, and docstrings that are taken from them, spread again.
FILES, TEXTS, SHORTEST = 80, 200, 150

Item = TypeVar("Item")


def folder(package: str) -> Path | None:
    """Folder of an installed package, of which nothing is executed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def spread(items: list[Item], n: int) -> list[Item]:
    """At most n of the items, at equal distances."""
    return [items[i * len(items) // n] for i in range(n)] if len(items) > n else items


def docstrings_of(path: Path) -> list[str]:
    """Docstrings of the functions and classes of a file; none of one that is not this Python's."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return [text for node in nodes if (text := ast.get_docstring(node)) and len(text) > SHORTEST]


@lru_cache(maxsize=64)
def texts(package: str, below: str = "", n: int = TEXTS) -> tuple[str, ...]:
    """Docstrings of a package, or of what lies below one of its folders, without the package's own name.

    Raises FileNotFoundError where the package is not installed.
    """
    root = folder(package)
    if root is None:
        raise FileNotFoundError(f"{package} is not installed")
    files = [path for path in sorted((root / below).rglob("*.py")) if "tests" not in path.parts]
    name = re.compile(rf"\b{package.strip('_')}\b", re.IGNORECASE)
    found = [name.sub("", text) for path in spread(files, FILES) for text in docstrings_of(path)]
    return tuple(spread(list(dict.fromkeys(found)), n))


def versions(packages: Iterable[str]) -> str:
    """The packages with their versions, for the notes of a table."""
    owners = packages_distributions()
    return ", ".join(f"{name} {version(owners[name][0])}" for name in sorted(packages) if name in owners)
