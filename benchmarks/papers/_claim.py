"""What a claim is, and how its verdict is read off stored tables."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks._lib import HERE
from benchmarks._lib.tables import RESULTS

HOLDS, IN_PART, NOT, NOT_RUN = "holds", "in part", "does not hold", "not run"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a claim and the figures that it rests on."""

    verdict: str
    figures: str


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, where it stands there, and the command whose stored table judges it."""

    where: str
    text: str
    command: str
    judge: Callable[[], Outcome]


class Claims(list[Claim]):
    """Claims of one paper in its order; a function is added by decorating it."""

    def add(self, where: str, text: str, command: str) -> Callable[[Callable[[], Outcome]], Callable[[], Outcome]]:
        def added(judge: Callable[[], Outcome]) -> Callable[[], Outcome]:
            self.append(Claim(where, text, command, judge))
            return judge

        return added

    def tested(self, where: str, text: str, test: str) -> None:
        """Add a claim that a test of the suite judges, named as ``tests/file.py::function``."""
        self.append(Claim(where, text, test, lambda: Outcome(HOLDS, summary_of(test))))

    def not_run(self, where: str, text: str, why: str) -> None:
        """Add a claim that nothing here judges, with the reason."""
        self.append(Claim(where, text, "", lambda: Outcome(NOT_RUN, why)))


class Rows(list[dict[str, Any]]):
    """Rows of a stored table."""

    def where(self, **equal: Any) -> Rows:
        """Rows with these values; underscores in a name stand for blanks. Empty selections are errors."""
        found = Rows(
            row for row in self if all(row.get(name.replace("_", " ")) == value for name, value in equal.items())
        )
        if not found:
            raise LookupError(f"no stored row has {equal}")
        return found

    def value(self, column: str, **equal: Any) -> float:
        """The column's value in the only row that has these values."""
        (row,) = self.where(**equal) if equal else self
        return float(row[column])

    def end(self, column: str, **equal: Any) -> float:
        """The column's value in the row of most passes."""
        return float(max(self.where(**equal), key=lambda row: row["passes"])[column])

    def values(self, column: str) -> list[Any]:
        """Distinct values of a column in their order."""
        return list(dict.fromkeys(row[column] for row in self))


def stored(name: str) -> Rows:
    """Rows of ``results/<name>.json``."""
    return Rows(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"])


def judged(holds: Sequence[bool], figures: str) -> Outcome:
    """The verdict on a claim of several cases, which says in how many it holds."""
    count = sum(map(bool, holds))
    if len(holds) > 1:
        figures = f"{count} of {len(holds)}: {figures}"
    return Outcome(HOLDS if count == len(holds) else IN_PART if count else NOT, figures)


def summary_of(test: str) -> str:
    """First line of a test's docstring, or its name in words; LookupError where there is no such test."""
    path, name = test.split("::")
    for node in ast.walk(ast.parse((HERE.parent / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or name.removeprefix("test_").replace("_", " ")).splitlines()[0]
    raise LookupError(f"no test {test}")
