"""Every benchmark is found by its name, and every stored result has its benchmark."""

from __future__ import annotations

import inspect

from benchmarks import __main__ as bench
from benchmarks._lib import HERE


def test_every_benchmark_is_found_and_every_result_has_its_benchmark():
    """Results lie where their module does: results/gp/housing.md, and further tables as housing_<what>.md."""
    folder, found = HERE, bench.discovered()
    modules = [p.relative_to(folder).with_suffix("") for p in sorted(folder.glob("*/[!_]*.py"))]
    assert {".".join(path.parts) for path in modules if path.parts[0] not in ("_lib", "tests")} == set(found)
    assert all("quick" in inspect.signature(module.main).parameters for module in found.values())
    written = set()
    for path in (folder / "results").rglob("*.*"):
        result = ".".join(path.relative_to(folder / "results").with_suffix("").parts)
        owners = {name for name in found if f"{result}_".startswith(f"{name}_")}
        assert owners, path
        written |= owners
    assert {name for name, module in found.items() if bench.stored(module)} <= written
