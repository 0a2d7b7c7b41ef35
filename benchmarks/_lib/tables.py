"""Tables printed and stored, figures stored, and what they were measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib import HERE

#: As the folder of the benchmarks, a folder for each family.
RESULTS = HERE / "results"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import scipy
    import sklearn

    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", ""),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def cell(value: Any) -> str:
    """A value as the tables print it."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.4e}"
    return str(value)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as a Markdown table, columns padded so that it also reads in a terminal."""
    columns = list(columns or rows[0])
    body = [[cell(row.get(name)) for name in columns] for row in rows]
    width = [max(len(name), *(len(line[i]) for line in body)) for i, name in enumerate(columns)]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(text.ljust(n) for text, n in zip(cells, width, strict=True)) + " |"

    return "\n".join([line(columns), "|" + "|".join("-" * (n + 2) for n in width) + "|", *map(line, body)])


def progress(row: Mapping[str, Any]) -> None:
    """One line about a finished row."""
    print("  " + ", ".join(f"{name}: {cell(value)}" for name, value in row.items() if value is not None), flush=True)


def report(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = (), quick: bool = False
) -> None:
    """Print a table and store it as ``results/<name>.json`` and ``.md``; a quick run is printed and not stored.

    ``name`` is folder and module, ``"gp/housing"``, and for further tables of the module ``"gp/housing_<what>"``.
    """
    text = f"## {title}\n\n{table(rows)}\n" + "".join(f"\n{note}\n" for note in notes)
    print(text, flush=True)
    if quick:
        return
    (RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
    content = {
        "title": title,
        "machine": machine(),
        "notes": list(notes),
        "rows": [{key: _finite(value) for key, value in row.items()} for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1, default=_plain) + "\n")
    (RESULTS / f"{name}.md").write_text(text)


def store_figure(name: str, figure: Any) -> None:
    """Store a figure of matplotlib as ``results/<name>.png`` and close it."""
    import matplotlib.pyplot as plt

    (RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _finite(value: Any) -> Any:
    """None for what JSON has no number for."""
    return None if isinstance(value, float | np.floating) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot store {type(value)}")


def arguments(description: str | None) -> bool:
    """The one option of every script: --quick (small, printed only)."""
    import argparse

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small version, printed and not stored")
    return bool(parser.parse_args().quick)
