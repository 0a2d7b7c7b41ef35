"""Kills, interrupts and threads: random moments of fits of every estimator and algorithm, and what stands then."""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._lib.tables import arguments, progress, report
from support.concurrency import blas_threads, concurrent_tasks, run_in_fork, run_in_threads
from support.interruptions import interrupt_and_repeat, kill_and_resume
from support.small_fits import (
    FitCase,
    fit_bytes,
    fit_cases,
    ignore_convergence_warnings,
    make_data,
    make_estimator,
)

#: Moments of each kind, and their smaller number.
KILLS, INTERRUPTS, RUNS = 200, 100, 50
FEW = {"kills": 8, "interrupts": 8, "runs": 4}
WAYS = ("fresh", "resumed", "warm", "streamed")
#: Times that another moment is drawn where the fit had ended, or had not begun to be saved.
TRIES = 20
#: Threads side by side, and those that BLAS is given.
THREADS, BLAS = 4, 2


def kills(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Kill and resume."""
    every, rng = fit_cases(), np.random.default_rng([seed, 0])
    done = bad = 0
    for i in range(n):
        case, difference = every[i % len(every)], ""
        for _ in range(TRIES):
            difference = kill_and_resume(case, seed, rng, folder / "fit.sksvi")
            if difference != "no file":
                break
        print_difference(case, difference)
        done, bad = done + (difference != "no file"), bad + (bool(difference) and difference != "no file")
    return {"what": "kills, resumed from a checkpoint", "moments": done, "other than promised": bad}


def interrupts(n: int, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Ctrl-C, and the same call again."""
    rng, rows = np.random.default_rng([seed, 1]), []
    for number, how in enumerate(WAYS):
        every = [case for case in fit_cases() if how != "streamed" or streams(case)]
        done = bad = 0
        for i in range(n // len(WAYS)):
            case, difference = every[(i * len(WAYS) + number) % len(every)], ""
            for _ in range(TRIES):
                difference = interrupt_and_repeat(case, how, seed + i, rng, folder / "fit.sksvi")
                if difference != "too late":
                    break
            print_difference(case, difference)
            done, bad = done + (difference != "too late"), bad + (bool(difference) and difference != "too late")
        rows.append({"what": f"Ctrl-C in a {how} fit", "moments": done, "other than promised": bad})
    return rows


def streams(case: FitCase) -> bool:
    """Whether it takes chunks."""
    return hasattr(make_estimator(case), "partial_fit") and case.options.get("algorithm") not in ("fp", "gibbs")


def print_difference(case: FitCase, difference: str) -> None:
    """Print a case whose result differs."""
    if difference:
        print(f"  {case}: {difference}", flush=True)


def threads(n: int, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Four threads of fits, predictions, loads and chunks; then one of them in a forked process."""
    rng, every = np.random.default_rng([seed, 2]), fit_cases()
    bad = limits = forked = 0
    with threadpool_limits(BLAS, user_api="blas"):
        for i in range(n):
            chosen = [every[int(j)] for j in rng.choice(len(every), THREADS, replace=False)]
            work = []
            for case in chosen:
                tasks = concurrent_tasks(case, seed + i, folder)
                work.append(tasks[str(rng.choice(sorted(tasks)))])
            with ignore_convergence_warnings():
                alone = [one() for one in work]
            before = blas_threads()
            for case, one, expected in zip(chosen, run_in_threads(work), alone, strict=True):
                bad += one != expected
                print_difference(
                    case, "" if one == expected else f"side by side: {one if isinstance(one, Exception) else 'bits'}"
                )
            limits += blas_threads() != before
            forked += run_in_fork(work[0]) != alone[0]
    return [
        {"what": "runs of four threads: other bits or errors", "moments": n, "other than promised": bad},
        {"what": "BLAS threads after them, as before", "moments": n, "other than promised": limits},
        {"what": "the same in a forked process", "moments": n, "other than promised": forked},
    ]


def bytes_of_fit(case: FitCase, seed: int) -> bytes:
    """Bytes of a fit, in whatever process it runs."""
    X, y = make_data(case.name, seed)
    with ignore_convergence_warnings():
        return fit_bytes(make_estimator(case, 8).fit(X, y), X)


def spawned(seed: int, every: list[FitCase]) -> dict[str, Any]:
    """Fits in a spawned process."""
    with get_context("spawn").Pool(1) as pool:
        there = pool.starmap(bytes_of_fit, [(case, seed) for case in every])
    bad = sum(a != bytes_of_fit(case, seed) for a, case in zip(there, every, strict=True))
    return {"what": "fits in a spawned process", "moments": len(every), "other than promised": bad}


def main(quick: bool = False) -> int:
    n = FEW if quick else {"kills": KILLS, "interrupts": INTERRUPTS, "runs": RUNS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [kills(n["kills"], folder, 0)]
        progress(rows[-1])
        rows += interrupts(n["interrupts"], folder, 0)
        progress(rows[-1])
        rows += threads(n["runs"], folder, 0)
    rows.append(spawned(0, fit_cases()[:: 10 if quick else 1]))
    notes = [
        "Sixty rows, thirty passes; moments are uniform over the time of the call. Promised: a resumed fit has the "
        "bits of one that was not killed; an interrupt leaves every attribute as it was, and the next call the bits "
        "of one that was not interrupted; threads and processes have the bits of one fit after the other.",
        "A kill before the first checkpoint, and an interrupt after the end of the call, are drawn anew.",
    ]
    report("hostile/kills", "Kills, interrupts and threads", rows, notes, quick)
    return sum(row["other than promised"] for row in rows)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
