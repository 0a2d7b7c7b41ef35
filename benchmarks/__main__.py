"""``make bench`` (``python -m benchmarks [--quick] [--list] [name ...]``): every table, or those named.

A name is a module (``gp.housing``) or a folder (``gp``). A module with ``main(quick)`` is a benchmark, and has failed
where that returns how many of its rows fall short; one that says ``STORED = True`` holds long runs, of other packages
mostly, whose results are stored: only its own name runs it.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
import traceback
from types import ModuleType

import benchmarks


def discovered() -> dict[str, ModuleType]:
    """Benchmarks by name (``gp.housing``): the package's modules with a ``main``, helpers (``_``) and tests left out.

    What concerns the whole package comes first: it has most of the timings, and the machine is quiet at the start.
    The papers come last: their claims are judged by the tables of the others.
    """
    found = {}
    for info in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        name = info.name.removeprefix("benchmarks.")
        if name.split(".")[0] == "tests" or any(part.startswith("_") for part in name.split(".")):
            continue
        module = importlib.import_module(info.name)
        if hasattr(module, "main"):
            found[name] = module
    return dict(
        sorted(found.items(), key=lambda item: (item[0].startswith("papers."), not item[0].startswith("product.")))
    )


def stored(module: ModuleType) -> bool:
    return bool(getattr(module, "STORED", False))


def named(names: list[str], found: dict[str, ModuleType]) -> list[str]:
    """Benchmarks that are named or in a folder that is; without names all of them."""
    return [name for name in found if not names or {name, name.split(".")[0]} & set(names)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small versions, printed and not stored")
    parser.add_argument("--list", action="store_true", help="print what there is and run nothing")
    parser.add_argument("names", nargs="*", metavar="name", help="modules and folders; default: all but stored runs")
    options = parser.parse_args()
    found = discovered()
    unknown = sorted(set(options.names) - set(found) - {name.split(".")[0] for name in found})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; --list prints what there is")
    names = named(options.names, found)
    if options.list:
        for name in names:
            print(f"{name}{' (stored)' * stored(found[name])}: {(found[name].__doc__ or '').splitlines()[0]}")
        return 0
    failed = []
    for name in names:
        if stored(found[name]) and name not in options.names:
            continue
        start = time.perf_counter()
        try:
            if found[name].main(options.quick):
                failed.append(name)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"\n[{name}: {time.perf_counter() - start:.0f} s]\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
