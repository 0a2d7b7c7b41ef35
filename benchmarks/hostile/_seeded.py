"""Plugin of pytest: only tests that take the global seed."""

from __future__ import annotations

from typing import Any


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out what no seed changes."""
    seeded = [item for item in items if "global_random_seed" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(seeded)])
    items[:] = seeded
