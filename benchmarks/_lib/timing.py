"""Seconds, memory and fresh processes to measure them in."""

from __future__ import annotations

import cProfile
import importlib.util
import json
import os
import pstats
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._lib import HERE


class Clock:
    """Adds up seconds and CPU seconds (of all threads) of what runs inside ``with``."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0

    def __enter__(self) -> Clock:
        self.began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self.began[0]
        self.cpu += time.process_time() - self.began[1]

    @property
    def spent(self) -> dict[str, float]:
        return {"seconds": self.seconds, "CPU seconds": self.cpu}


def shares(job: Callable[[], Any], parts: Mapping[str, tuple[str, str]]) -> dict[str, float]:
    """Share of a job under a profiler that each part takes with all it calls; parts: end of a file and a function."""
    profile = cProfile.Profile()
    profile.runcall(job)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    whole = sum(own for _, _, own, _, _ in stats.values())
    found = {
        part: sum(value[3] for (path, _, name), value in stats.items() if path.endswith(file) and name == function)
        for part, (file, function) in parts.items()
    }
    return {f"share of {part}": spent / whole for part, spent in found.items()}


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """TimeoutError once what runs inside has taken so many CPU seconds; a call into compiled code is finished first."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError(f"over {seconds:g} CPU seconds")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def interleave(
    jobs: Mapping[str, Callable[[], Any]], repeats: int = 5, warm_up: bool = True, each_twice: bool = False
) -> dict[str, list[float]]:
    """Seconds of each job, ``repeats`` times in turn (a slow spell hits all), after one round that is not measured.

    ``each_twice``: every time once before that does not count, where a machine takes back memory that lay idle during
    the other jobs.
    """
    if warm_up:
        for job in jobs.values():
            job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            if each_twice:
                job()
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
