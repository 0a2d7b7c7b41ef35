"""Every test that takes the global seed, for many values of it: failures are listed.

    SKSVI_SEEDS=100 python -m benchmarks hostile.seeds
    SKSVI_JOBS=1 SKSVI_SEEDS=21 python -m benchmarks hostile.seeds  # seeds to 20, in one process

A statistical test allows four of its standard errors, so that one failure in some 16,000 is chance. Seeds are 0, 1, ...
and take minutes each: what was run before stays in the stored table, and a run goes on with the seeds that are not in
it (delete the table to begin anew). Tests that failed are run again first, with their seeds: those that fail no longer,
because they or the product were mended, are counted in the column "mended".
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks._lib import HERE
from benchmarks._lib.tables import RESULTS, arguments, progress, report

#: Run by its own name only: hours.
STORED = True
SEEDS, FEW = int(os.environ.get("SKSVI_SEEDS", "100")), 1
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-n",
    os.environ.get("SKSVI_JOBS", "auto"),
    "-p",
    "no:cacheprovider",
    "-p",
    "benchmarks.hostile._seeded",
)
QUICK = ("-m", "not exhaustive")


def failures(seed: int, tests: Sequence[str]) -> tuple[int, list[str]]:
    """How many tests ran with a seed, and those that failed."""
    environment = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment |= {"SKSVI_TESTS_GLOBAL_RANDOM_SEED": str(seed), "MPLBACKEND": "Agg"}
    ended = subprocess.run([*PYTEST, *QUICK, *tests], cwd=HERE.parent, env=environment, capture_output=True, text=True)
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", ended.stdout.splitlines()[-1])}
    if not counts:
        raise RuntimeError(f"pytest did not run: {ended.stdout[-2000:]} {ended.stderr[-2000:]}")
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.stdout, re.MULTILINE)
    return counts.get("passed", 0) + len(failed), failed


def functions(failed: str) -> set[str]:
    """Test functions of a row's failures, whatever their parameters."""
    return set(re.findall(r"((?:benchmarks/)?tests/[\w/]+\.py::\w+)", failed))


def again(row: dict[str, Any]) -> dict[str, Any]:
    """A row once its failures were run again; a function that is there no longer is as mended as one that passes."""
    there = []
    for name in sorted(functions(row["failed"])):
        path, function = name.split("::")
        if (HERE.parent / path).exists() and f"def {function}(" in (HERE.parent / path).read_text():
            there.append(name)
    left = failures(row["seed"], there)[1] if there else []
    row = row | {"mended": row["failures"] - min(row["failures"], len(left)), "failed": ", ".join(left)}
    progress(row)
    return row


def stored() -> list[dict[str, Any]]:
    """Rows of earlier runs."""
    path = RESULTS / "hostile" / "seeds.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if row["seed"] != "all"]


def main(quick: bool = False) -> int:
    tests = ("tests/families",) if quick else ()
    rows = [] if quick else [again(row) if row["failed"] else row for row in stored()]
    if not quick:
        told(rows, quick)
    for seed in range(FEW if quick else SEEDS):
        if any(row["seed"] == seed for row in rows):
            continue
        n, failed = failures(seed, tests)
        rows.append({"seed": seed, "tests": n, "failures": len(failed), "mended": 0, "failed": ", ".join(failed)})
        progress(rows[-1])
        told(sorted(rows, key=lambda row: row["seed"]), quick)
    return sum(len(functions(row["failed"])) for row in rows)


def told(rows: list[dict[str, Any]], quick: bool) -> None:
    """The table so far, and how often each test function fails still."""
    found = Counter(name for row in rows for name in functions(row["failed"]))
    sums = {what: sum(row.get(what, 0) for row in rows) for what in ("tests", "failures", "mended")}
    total = {"seed": "all", **sums, "failed": ""}
    notes = [f"{name}: {times} of {len(rows)} seeds" for name, times in found.most_common()]
    report("hostile/seeds", "Seeds of the tests", [*rows, total], notes, quick)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
