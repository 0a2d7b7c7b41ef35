"""What the page of calibration (doc/trust.md) shows: the first grid beside the present one, from stored tables alone.

Nothing is measured here: `truth.defaults` and `truth.real` do, and the tables named `defaults_before_...` and
`real_before_...` are those of the code before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import HERE
from benchmarks._lib.cells import stored_rows
from benchmarks._lib.tables import arguments, report

#: Where nine of ten intervals hold is between these two.
BAND = (0.85, 0.94)
#: What a column of the picture gathers, by kind of effect and beginning of a quantity.
PANELS = {
    "no effect": ("null",),
    "moderate effect": ("moderate", "within"),
    "strong effect": ("strong", "between", "coefficient"),
    "f": ("f,", "level"),
    "y": ("y,",),
    "sd between levels": ("sd",),
}
DRAWN = [name for name in PANELS if name != "sd between levels"]
PICTURE = HERE.parent / "doc" / "_static" / "trust.png"


def panel(quantity: str) -> str:
    """The column of the picture that a quantity is in."""
    return next(name for name, begins in PANELS.items() if quantity.startswith(begins))


def below(row: dict[str, Any]) -> bool:
    """Whether a cell's cover is below the band by more than two standard errors."""
    return bool(row["covered"] + 2 * (row["error"] or 0.0) < BAND[0])


def both(what: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of a table of the grid, before anything was mended and now."""
    return stored_rows(f"truth/defaults_before_{what}"), stored_rows(f"truth/defaults_{what}")


def gathered(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows of cells by family and panel."""
    out: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["covered"] is not None:
            out.setdefault((row["family"], panel(row["quantity"])), []).append(row)
    return out


def paired(make: Callable[[list[dict[str, Any]]], dict[str, Any]], was: Any, now: Any) -> dict[str, Any]:
    """Columns of ``make`` for both, named before and now in turn."""
    first, second = make(was) if was else {}, make(now)
    return {
        f"{name}, {when}": found.get(name) for name in second for when, found in (("before", first), ("now", second))
    }


def shares(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and lowest cover of cells, and how many are below the band."""
    values = [row["covered"] for row in rows]
    return {"mean": round(float(np.mean(values)), 2), "lowest": round(min(values), 2), "below": sum(map(below, rows))}


def covers() -> list[dict[str, Any]]:
    """A row for each family and panel."""
    was, now = (gathered(rows) for rows in both("covered"))
    order = list(dict.fromkeys(family for family, _ in now))
    return [
        {"model": family, "intervals of": what, "cells": len(now[family, what])}
        | paired(shares, was.get((family, what)), now[family, what])
        for family in order
        for what in PANELS
        if (family, what) in now
    ]


def gaps(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and worst difference of cells to the peer."""
    values = [row["ours - peer"] for row in rows]
    return {"mean": round(float(np.mean(values)), 3), "worst": round(min(values), 3)}


def densities() -> list[dict[str, Any]]:
    """A row for each family and peer, of the new rows that a peer can score."""
    out = []
    was, now = both("density")
    known = [row for row in now if row["ours - peer"] is not None]
    for key in dict.fromkeys((row["family"], row["peer"]) for row in known):
        kept = [[row for row in rows if (row["family"], row["peer"]) == key] for rows in (was, known)]
        kept[0] = [row for row in kept[0] if row["ours - peer"] is not None]
        out.append({"model": key[0], "peer": key[1], "cells": len(kept[1])} | paired(gaps, *kept))
    return out


def numbers() -> list[dict[str, Any]]:
    """A row for each other number."""
    was, now = both("numbers")
    first = {(row["cell"], row["number"]): row for row in was}
    out = []
    for row in now:
        old = first.get((row["cell"], row["number"]), {})
        named = {"cell": row["cell"], "number": row["number"], "data sets": row["data sets"]}
        ends = {
            f"{name}, {when}": found.get(name)
            for name in ("mean", "median")
            for when, found in (("before", old), ("now", row))
        }
        out.append({**named, **{name: None if value is None else round(value, 3) for name, value in ends.items()}})
    return out


def real() -> list[dict[str, Any]]:
    """A row for each kind of target, size and peer of the real sets."""
    was = {(row["kind"], row["n"], row["peer"]): row for row in stored_rows("truth/real_before_summary")}
    out = []
    for row in stored_rows("truth/real_summary"):
        old = was.get((row["kind"], row["n"], row["peer"]), {})
        named = {name: row[name] for name in ("kind", "n", "peer", "sets")}
        ends = {
            f"{name}, {when}": found.get(name)
            for name in ("median", "worst", "sets behind")
            for when, found in (("before", old), ("now", row))
        }
        out.append({**named, **{name: None if value is None else round(value, 3) for name, value in ends.items()}})
    return out


def draw() -> None:
    """A dot for each cell: hollow before, filled now; a row for each family, a panel for each kind of interval."""
    import matplotlib.pyplot as plt

    was, now = (gathered(rows) for rows in both("covered"))
    families = list(dict.fromkeys(family for family, _ in now))[::-1]
    figure, axes = plt.subplots(1, len(DRAWN), figsize=(14, 0.42 * len(families) + 1.4), sharey=True, sharex=True)
    for what, axis in zip(DRAWN, axes):
        axis.axvspan(*BAND, color="#cfe8cf", zorder=0)
        axis.axvline(0.9, color="#5a9a5a", linewidth=0.8, zorder=1)
        for at, family in enumerate(families):
            for found, shift, look in ((was, 0.17, HOLLOW), (now, -0.17, FILLED)):
                values = [row["covered"] for row in found.get((family, what), [])]
                axis.plot(values, np.full(len(values), at + shift), "o", markersize=5, **look)
        axis.set_title(what, fontsize=11)
        axis.grid(axis="y", color="#eeeeee")
        axis.set_axisbelow(True)
    axes[0].set_yticks(range(len(families)), families)
    axes[0].set_xlim(-0.03, 1.03)
    axes[0].set_ylim(-0.6, len(families) - 0.4)
    axes[0].set_xticks([0, 0.25, 0.5, 0.75, 0.9], ["0", "", "0.5", "", "0.9"])
    handles = [plt.Line2D([], [], marker="o", linestyle="", **look) for look in (HOLLOW, FILLED)]
    figure.supxlabel(
        "share of truths inside 90 % intervals; a dot is a kind of data, the band 0.85 to 0.94", fontsize=10
    )
    figure.legend(handles, ["before", "now"], loc="lower right", ncol=2, frameon=False, fontsize=10)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


HOLLOW = {"markerfacecolor": "none", "markeredgecolor": "#b5651d", "alpha": 0.8}
FILLED = {"markerfacecolor": "#1f5fa8", "markeredgecolor": "none", "alpha": 0.75}


def main(quick: bool = False) -> None:
    notes = [
        "Cells: kinds of data. Below: cells whose cover is under 0.85 by more than two standard errors. Columns within "
        "groups count as moderate effects, treatments given by group and coefficients of series as strong ones."
    ]
    report("truth/trust", "What 90 % intervals cover with nothing set", covers(), notes, quick)
    report("truth/trust_density", "Log density of new rows less the peer's, nats a row", densities(), (), quick)
    report("truth/trust_numbers", "Other numbers with nothing set", numbers(), (), quick)
    report(
        "truth/trust_real", "Log density of held-out rows of real sets less the peer's, nats a row", real(), (), quick
    )
    if not quick:
        draw()


if __name__ == "__main__":
    main(arguments(__doc__))
