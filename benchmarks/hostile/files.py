"""Hostile and damaged files, loaded and then used: none crashes, none is another model, none takes memory or time.

Saved models of every estimator are flipped, cut and spliced byte by byte; their manifests are rewritten and their
arrays resized, retyped and filled with nonsense behind right checksums, and small files made that would be large. Each
file is loaded in a process of its own
limits; what loads is used through every method that predicts.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from support import file_mutations, saved_models

STORED = True
FILES, QUICK = 5000, 300
KINDS = ("flips", "cut", "insertion", "manifest", "arrays", "bombs")
#: Files of which one is a bomb: each takes as long as a hundred others.
BOMBS = 25
CRAFTED = {
    "manifest": file_mutations.mutate_manifest,
    "arrays": file_mutations.mutate_array,
    "bombs": file_mutations.decompression_bomb,
}
#: Bytes beside eight times the file, seconds beside one for each MB, and the address space that a process may take.
FREE_BYTES, FREE_SECONDS, LIMIT = 64 * 2**20, 1.0, 6 * 2**30
#: Bytes of a file from which on its memory is traced as well; files that wait for a process.
LARGE, WAITING = 100_000, 8


def damaged(kind: str, data: bytes, path: Path, rng: np.random.Generator) -> bytes:
    """A file of this kind."""
    if kind in CRAFTED:
        return CRAFTED[kind](file_mutations.read_members(path), rng)[1]
    change_bytes = {
        "flips": file_mutations.replace_bytes,
        "cut": file_mutations.remove_bytes,
        "insertion": file_mutations.insert_bytes,
    }
    return change_bytes[kind](data, rng)[1]


def _peak(before: float | None = None) -> float:
    """Bytes of memory at the highest point since the last call with None."""
    status = Path("/proc/self/clear_refs")
    if before is None and status.exists():
        status.write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines() if status.exists() else []
    peak = next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if peak is None else peak


def warmed(limit: int) -> None:
    """A process with everything imported and compiled, and little address space beyond it."""
    import sksvi

    sys.setrecursionlimit(1000)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:  # what a first load imports is not the file's
        saved_models.fit_model("glm").save(f"{folder}/glm")
        sksvi.load(f"{folder}/glm")
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def tried(name: str, path: str, expected: list[tuple[Any, ...]], sums: list[Array]) -> dict[str, Any]:
    """What became of one file: outcome, seconds and bytes of the load, the error of its use."""
    import sksvi

    size, before, started = os.path.getsize(path), _peak(), time.process_time()
    outcome, error, model = "loaded", "", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = sksvi.load(path)
        except ValueError as refusal:
            outcome, error = "refused", str(refusal)
        except Exception as other:
            outcome, error = "mishandled", repr(other)
        seconds, taken = time.process_time() - started, _peak(before) - before
        if model is not None:
            try:
                answers = saved_models.model_answers(name, model)
            except Exception as other:
                outcome, error = "no use", repr(other)
            else:
                same = [(a.shape, a.dtype.kind) for a in answers] == [tuple(one) for one in expected]
                outcome = "same kind" if same else "another kind"
                if same and all(_equal(a, b) for a, b in zip(answers, sums, strict=True)):
                    outcome = "same model"
    if size > LARGE:
        taken = max(taken, traced(path))
    long, large = seconds > FREE_SECONDS + size / 2**20, taken > FREE_BYTES + 8 * size
    return {"outcome": outcome, "error": error, "seconds": seconds, "bytes": taken, "long": long, "large": large}


def _equal(a: Array, b: Array) -> bool:
    """Whether two answers are one; what no number stands for, such as an unknown spread, is as it was."""
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def traced(path: str) -> float:
    """Most bytes that a load holds at a time: memory that an earlier one left is used again, and no new one is seen."""
    import sksvi

    tracemalloc.start()
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sksvi.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def models(folder: Path) -> dict[str, tuple[Path, list[Any], list[Array]]]:
    """Every saved model with its answers; those of mixed types are compared as text."""
    out = {}
    for name in saved_models.NAMES:
        model, path = saved_models.fit_model(name), folder / f"{name}.sksvi"
        model.save(path)
        answers = saved_models.model_answers(name, model)
        out[name] = path, [(a.shape, a.dtype.kind) for a in answers], answers
    return out


def kind_of(number: int) -> str:
    """Kinds in turn."""
    return KINDS[-1] if number % BOMBS == BOMBS - 1 else KINDS[number % (len(KINDS) - 1)]


def attacked(n: int, seed: int, pool: Any, folder: Path) -> list[dict[str, Any]]:
    """n files, kinds and models in turn; `pool` runs them, or None: here."""
    saved, rng, rows, waiting = models(folder), np.random.default_rng(seed), [], deque[Any]()
    for number in range(n):
        name, kind = saved_models.NAMES[int(rng.integers(len(saved_models.NAMES)))], kind_of(number)
        path, expected, answers = saved[name]
        hostile = folder / f"{number}.hostile"
        hostile.write_bytes(damaged(kind, path.read_bytes(), path, rng))
        job = (name, str(hostile), expected, answers)
        waiting.append((kind, name, hostile, tried(*job) if pool is None else pool.submit(tried, *job)))
        if len(waiting) == WAITING:
            rows.append(finished(*waiting.popleft()))
    return rows + [finished(*one) for one in waiting]


def finished(kind: str, name: str, path: Path, outcome: Any) -> dict[str, Any]:
    """A row, and the file is gone."""
    try:
        found = outcome if isinstance(outcome, dict) else outcome.result()
    except BrokenProcessPool:  # the process that had this or another file is gone
        found = {"outcome": "crash", "error": "", "seconds": 0.0, "bytes": 0.0, "long": False, "large": False}
    path.unlink()
    return {"kind": kind, "model": name, **found}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per kind of file."""
    out = []
    for kind in (*KINDS, "all"):
        of = [row for row in rows if kind in (row["kind"], "all")]
        count = {name: sum(row["outcome"] == name for row in of) for name in OUTCOMES}
        out.append(
            {
                "files": kind,
                "number": len(of),
                **count,
                "longest load, CPU s": max((row["seconds"] for row in of), default=0.0),
                "most memory, MB": max((row["bytes"] for row in of), default=0.0) / 2**20,
                "too long": sum(row["long"] for row in of),
                "too large": sum(row["large"] for row in of),
            }
        )
    return out


OUTCOMES = ("refused", "same model", "same kind", "another kind", "no use", "mishandled", "crash")
NOTES = (
    "Refused: a ValueError. Same model: the answers of the file before it was changed, to the bit. Same kind: other "
    "numbers of the same shapes, as any file may hold. No use: loaded, and an exception of Python when it was used.",
    "Bombs: small files that would be large or slow, if every node and reference were followed.",
    "Damage (flips, cut, insertion) may be refused or harmless: another model counts as mishandled, as do crashes, "
    "loads of more than 1 s + 1 s per MB or 64 MB + 8 times the file, and errors of load other than ValueError.",
)


def short(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Files that were mishandled."""
    damage = ("flips", "cut", "insertion")
    return [
        row
        for row in rows
        if row["outcome"] in ("mishandled", "crash")
        or row["long"]
        or row["large"]
        or (row["kind"] in damage and row["outcome"] not in ("refused", "same model"))
        or (row["kind"] == "arrays" and row["outcome"] in ("another kind", "no use"))
    ]


def main(quick: bool) -> int:
    n = QUICK if quick else FILES
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(os.cpu_count(), initializer=warmed, initargs=(LIMIT,)) as pool:
            rows = attacked(n, 0, pool, Path(folder))
    mishandled = short(rows)
    for row in mishandled[:20]:
        progress({name: row[name] for name in ("kind", "model", "outcome", "error", "seconds", "bytes")})
    report("hostile/files", f"{n} hostile files, then used", summary(rows), NOTES, quick)
    return len(mishandled)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
