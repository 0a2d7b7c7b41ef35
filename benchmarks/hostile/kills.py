"""Kills, interrupts and threads: random moments of fits of every estimator and algorithm, and what stands then."""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.hostile import _fits
from benchmarks.hostile._fits import Case

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
    every, rng = _fits.cases(), np.random.default_rng([seed, 0])
    done = bad = 0
    for i in range(n):
        case, said = every[i % len(every)], ""
        for _ in range(TRIES):
            said = _fits.killed_and_resumed(case, seed, rng, folder / "fit.sksvi")
            if said != "no file":
                break
        told(case, said)
        done, bad = done + (said != "no file"), bad + (bool(said) and said != "no file")
    return {"what": "kills, resumed from a checkpoint", "moments": done, "other than promised": bad}


def interrupts(n: int, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Ctrl-C, and the same call again."""
    rng, rows = np.random.default_rng([seed, 1]), []
    for number, how in enumerate(WAYS):
        every = [case for case in _fits.cases() if how != "streamed" or streams(case)]
        done = bad = 0
        for i in range(n // len(WAYS)):
            case, said = every[(i * len(WAYS) + number) % len(every)], ""
            for _ in range(TRIES):
                said = _fits.interrupted(case, how, seed + i, rng, folder / "fit.sksvi")
                if said != "too late":
                    break
            told(case, said)
            done, bad = done + (said != "too late"), bad + (bool(said) and said != "too late")
        rows.append({"what": f"Ctrl-C in a {how} fit", "moments": done, "other than promised": bad})
    return rows


def streams(case: Case) -> bool:
    """Whether it takes chunks."""
    return hasattr(_fits.made(case), "partial_fit") and case.options.get("algorithm") not in ("fp", "gibbs")


def told(case: Case, said: str) -> None:
    """What fell short."""
    if said:
        print(f"  {case}: {said}", flush=True)


def threads(n: int, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Four threads of fits, predictions, loads and chunks; then one of them in a forked process."""
    rng, every = np.random.default_rng([seed, 2]), _fits.cases()
    bad = limits = forked = 0
    with threadpool_limits(BLAS, user_api="blas"):
        for i in range(n):
            chosen = [every[int(j)] for j in rng.choice(len(every), THREADS, replace=False)]
            work = []
            for case in chosen:
                jobs = _fits.jobs(case, seed + i, folder)
                work.append(jobs[str(rng.choice(sorted(jobs)))])
            with _fits.quiet():
                alone = [one() for one in work]
            before = _fits.blas_threads()
            for case, one, expected in zip(chosen, _fits.side_by_side(work), alone, strict=True):
                bad += one != expected
                told(case, "" if one == expected else f"side by side: {one if isinstance(one, Exception) else 'bits'}")
            limits += _fits.blas_threads() != before
            forked += _fits.in_child(work[0]) != alone[0]
    return [
        {"what": "runs of four threads: other bits or errors", "moments": n, "other than promised": bad},
        {"what": "BLAS threads after them, as before", "moments": n, "other than promised": limits},
        {"what": "the same in a forked process", "moments": n, "other than promised": forked},
    ]


def fitted_there(case: Case, seed: int) -> bytes:
    """Bits of a fit, wherever it runs."""
    X, y = _fits.data_of(case.name, seed)
    with _fits.quiet():
        return _fits.bits(_fits.made(case, 8).fit(X, y), X)


def spawned(seed: int, every: list[Case]) -> dict[str, Any]:
    """Fits in a spawned process."""
    with get_context("spawn").Pool(1) as pool:
        there = pool.starmap(fitted_there, [(case, seed) for case in every])
    bad = sum(a != fitted_there(case, seed) for a, case in zip(there, every, strict=True))
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
    rows.append(spawned(0, _fits.cases()[:: 10 if quick else 1]))
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
