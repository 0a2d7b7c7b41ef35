"""What the page "How far to trust it" shows, from the stored tables alone: before and after, table and picture."""

from __future__ import annotations

import json
from typing import Any

from benchmarks._lib.tables import RESULTS


def stored(name: str) -> list[dict[str, Any]]:
    """Rows of a stored table; none where there is no such table."""
    path = RESULTS / "truth" / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def main() -> None:
    pass
