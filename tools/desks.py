"""Draws the pictures of the guide's days at the desk, by the pages' own code: ``python -m tools.desks``."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt

from tests.guide.test_pages import GUIDE, read, run


def draw(page: Path) -> None:
    """Run a page, and write its figures under the names that the page gives them, in their order."""
    run(page.name, read(page.relative_to(GUIDE).as_posix()))
    names = re.findall(r"{figure} \.\./\.\./(_static/\S+)", page.read_text(encoding="utf-8"))
    for name, number in zip(names, plt.get_fignums(), strict=True):
        plt.figure(number).savefig(GUIDE.parent / name, dpi=150)
    plt.close("all")


if __name__ == "__main__":
    for each in sorted((GUIDE / "desks").glob("*.md")):
        draw(each)
