"""Shared by every benchmark: data loaders (one per format), measures, timing, tables on disk."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LN2 = float(np.log(2.0))


# ---------------------------------------------------------------- data


def data_folder() -> Path:
    """Folder of the public data sets: the environment's SKSVI_DATA, else ``../shared/data`` beside the repository."""
    folder = Path(os.environ.get("SKSVI_DATA", HERE.parent.parent / "shared" / "data"))
    if not folder.is_dir():
        raise FileNotFoundError(f"no data at {folder}; set SKSVI_DATA to the folder that holds tabular/")
    return folder


def load_libsvm(name: str, n_features: int) -> tuple[Any, Array]:
    """CSR matrix and labels of ``tabular/<name>.libsvm.bz2``."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_folder() / "tabular" / f"{name}.libsvm.bz2"), n_features=n_features)
    return X, y


def load_npz(name: str) -> dict[str, Array]:
    """All arrays of ``tabular/<name>.npz``."""
    with np.load(data_folder() / "tabular" / f"{name}.npz") as archive:
        return dict(archive)


def load_csv(name: str, target: str, drop: Sequence[str] = ()) -> tuple[Any, Array]:
    """DataFrame and target of ``tabular/<name>.csv.xz``."""
    import pandas as pd

    frame = pd.read_csv(data_folder() / "tabular" / f"{name}.csv.xz")
    y = frame[target].to_numpy()
    return frame.drop(columns=[target, *drop]), y


def standardised(X: Any) -> Array:
    """Columns at mean 0 and sd 1, constant columns dropped."""
    X = np.asarray(X, dtype=float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def covtype() -> tuple[Array, Array]:
    """The covtype subset as its LIBSVM binary task: columns in [0, 1], cover type 2 against the rest (X, 0/1)."""
    arrays = load_npz("covtype_subset92962")
    X = arrays["X"].astype(float)
    X -= X.min(axis=0)
    span = X.max(axis=0)
    return X / np.where(span > 0, span, 1.0), (arrays["y"] == 2).astype(int)


# ---------------------------------------------------------------- measures


def log_loss(y: Array, p: Array) -> float:
    """Mean of -log p(y) in nats; ``p`` is the probability of y = 1."""
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def calibration_error(y: Array, p: Array, n_bins: int = 10) -> float:
    """Expected calibration error: mean over rows of |observed share - mean probability| of the row's (equal) bin."""
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    gaps = [abs(y[bins == b].mean() - p[bins == b].mean()) * np.sum(bins == b) for b in np.unique(bins)]
    return float(np.sum(gaps) / len(y))


# ---------------------------------------------------------------- timing


def interleave(jobs: Mapping[str, Callable[[], Any]], repeats: int = 5, warm_up: bool = True) -> dict[str, list[float]]:
    """Seconds of each job, ``repeats`` times in turn (a slow spell hits all), after one round that is not measured."""
    if warm_up:
        for job in jobs.values():
            job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def peak_memory() -> float:
    """Largest resident size of this process so far, MiB (VmHWM: unlike ru_maxrss it starts anew at exec)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024.0
    raise OSError("no VmHWM in /proc/self/status")


def reset_peak() -> None:
    """Start the measurement of :func:`peak_memory` anew."""
    Path("/proc/self/clear_refs").write_text("5")


def fresh_process(code: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run ``code`` in a new interpreter at the repository root; its last printed line is JSON and is returned."""
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=HERE.parent
    )
    if done.returncode:
        raise RuntimeError(f"the measured process ended with {done.returncode}:\n{done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


# ---------------------------------------------------------------- tables


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
    """Print a table and store it as ``results/<name>.json`` and ``.md``; a quick run is printed and not stored."""
    text = f"## {title}\n\n{table(rows)}\n" + "".join(f"\n{note}\n" for note in notes)
    print(text, flush=True)
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    content = {
        "title": title,
        "machine": machine(),
        "notes": list(notes),
        "rows": [{key: _finite(value) for key, value in row.items()} for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1, default=_plain) + "\n")
    (RESULTS / f"{name}.md").write_text(text)


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
