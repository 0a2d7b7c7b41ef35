"""Tables of long runs by cells: what is stored is not run again, so that a run that was cut off goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks._lib.tables import RESULTS, progress, report

Row = dict[str, Any]

#: What `SKSVI_CELLS="Mixed;Series"` names to be run again, by how names begin; none: all is.
AGAIN = tuple(filter(None, os.environ.get("SKSVI_CELLS", "").split(";")))


def stored_rows(name: str) -> list[Row]:
    """Rows of ``results/<name>.json``; none where it is not there."""
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def same(row: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    """Whether a row is one of the cell's."""
    return all(row.get(key) == value for key, value in cell.items())


def by_cells(
    name: str,
    title: str,
    cells: Sequence[Row],
    run: Callable[[Row], Iterable[Row]],
    notes: Sequence[str],
    quick: bool = False,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """Rows of every cell in the order of the cells; the table is stored after each cell that was run.

    A cell is the values that tell it from the others, such as data and method; ``run`` gives its further columns, in
    one row or several. A cell that ``results/<name>.json`` has is not run again: without the file all are. Stored rows
    of no cell stay, at the end. A quick run takes the cells that it is given and neither reads nor writes the file.
    """
    rows = [] if quick else stored_rows(name)
    for cell in cells:
        if any(same(row, cell) for row in rows):
            continue
        for found in run(cell):
            rows.append({**cell, **found})
            progress(rows[-1])
        listed = [row for one in cells for row in rows if same(row, one)]
        rows = listed + [row for row in rows if row not in listed]
        names = columns or list(dict.fromkeys(key for row in rows for key in row))
        report(name, title, [{key: row.get(key) for key in names} for row in rows], notes, quick)
    return rows
