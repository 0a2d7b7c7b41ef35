"""Memory before work: what is too large is refused before it is allocated, with what it needs and what to change."""

from __future__ import annotations

import os
from pathlib import Path

#: Bytes that nobody is asked about.
SMALL = 2**26


def available() -> float:
    """Bytes that a process can still get: of the machine and, where one is set, of its control group."""
    return min(_of_machine(), _of_group())


def need(size: float, what: str, remedy: str) -> None:
    """An error where an array of `size` bytes will not fit.

    Parameters
    ----------
    size : float
        Bytes.
    what : str
        What needs them, with its dimensions.
    remedy : str
        Which parameter to change, as an order.

    Raises
    ------
    ValueError
    """
    if size <= SMALL:
        return
    there = available()
    if size > there:
        raise ValueError(
            f"{what} needs {size / 2**30:.3g} GiB of memory, and {there / 2**30:.3g} GiB are available: {remedy}."
        )


def _of_machine() -> float:
    """Linux counts what caches would give back; elsewhere free pages; where nothing is known, no limit."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return float("inf")


def _of_group() -> float:
    """What a control group, as containers have one, leaves of its limit; its page cache counts as free."""
    for folder, most, used, cache in (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit, current = (float((Path(folder) / name).read_text()) for name in (most, used))
            lines = (Path(folder) / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such group, or "max"
            continue
        free = sum(float(line.split()[1]) for line in lines if line.startswith(f"{cache} "))
        return max(0.0, limit - current + free)
    return float("inf")
