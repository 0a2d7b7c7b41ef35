"""The architecture page tells the truth: its files exist, and its ways from `fit` to the update are those of a fit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sksvi
from sksvi import BayesianGLMRegressor, GeneralizedPMF

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PACKAGE = Path(sksvi.__file__).parent
PAGE = (PACKAGE.parent / "doc" / "architecture.md").read_text(encoding="utf-8")
#: (file, function) of every line of a way.
WAYS = [
    [tuple(line.split()[:2]) for line in text.strip().splitlines()]
    for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
]
COUNTS = {
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "twenty-one": 21,
}


def chains(function: str, fit) -> set[tuple[tuple[str, str], ...]]:
    """Who called `function` in a fit: (file, function) of our own, from the first call on."""
    found = set()

    def seen(frame, event, arg):
        if event != "call" or frame.f_code.co_qualname != function:
            return
        chain = []
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
                chain.append((Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_qualname))
            frame = frame.f_back
        found.add(tuple(reversed(chain)))

    sys.setprofile(seen)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return found


def linear():
    X = np.random.default_rng(0).standard_normal((30, 2))
    BayesianGLMRegressor(likelihood="poisson", algorithm="mc-ssvi", max_iter=2, n_jobs=1).fit(X, np.arange(30) % 3)


def plated():
    pairs = np.stack([np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)], 1)
    GeneralizedPMF(algorithm="mc-ssvi", n_components=2, max_iter=2, n_jobs=1).fit(pairs, np.arange(30) % 4 + 0.5)


def test_every_file_exists():
    names = set(re.findall(r"[\w/]+\.py\b", PAGE))
    assert len(names) > 40
    for name in names:
        inside = list(PACKAGE.rglob(name)) if "/" not in name else (PACKAGE / name).exists()
        assert inside or (PACKAGE.parent / name).exists(), name
    for folder in re.findall(r"`([\w/]+)/`", PAGE):
        assert (PACKAGE / folder).is_dir() or (PACKAGE.parent / folder).is_dir(), folder


@pytest.mark.parametrize("way, fit", [(0, linear), (2, plated)], ids=["linear", "plated"])
def test_the_way_to_the_update(way, fit):
    assert tuple(WAYS[way]) in chains("natural_step", fit)


def test_the_way_of_the_gradient():
    """The page leaves out how sums are formed."""
    found = {chain for chain in chains("pull_back", linear) if set(WAYS[1]) <= set(chain)}
    assert found
    for chain in found:
        places = [chain.index(place) for place in WAYS[1]]
        assert places == sorted(places)


def test_as_many_calls_and_files_as_it_says():
    said = re.findall(r"\*\*([\w-]+) calls through ([\w-]+) files\*\*", PAGE)
    for (calls, files), way in zip(said, (WAYS[0], WAYS[2]), strict=True):
        assert (COUNTS[calls], COUNTS[files]) == (len(way) - 1, len({file for file, _ in way}))
