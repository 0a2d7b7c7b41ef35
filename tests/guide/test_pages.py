"""The guide's code runs as a reader would paste it, and prints what the page says that it prints."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import textwrap
from pathlib import Path

import pytest

from tests.contracts.test_public import bound_by

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "doc" / "guide"
#: Pages whose fits take seconds.
LONG_PAGES = {"tasks.md", "workflow.md", "howto/unseen_groups.md", "desks/text_analyst.md"}
PAGES = [page.relative_to(GUIDE).as_posix() for page in sorted(GUIDE.rglob("*.md"))]
#: Other packages that pages compare with, where they may be absent. Blocks that need one run in a test of their own.
PEERS = {"statsmodels", "mapie"}
#: Packages of an extra that a whole page needs.
NEEDS = {"howto/big_data.md": "dask.dataframe"}
FENCE = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def blocks_of(text: str) -> list[tuple[str, str | None]]:
    """(code, what it prints, if the page says so in a block of text right after it) of every Python block."""
    found = list(FENCE.finditer(text))
    blocks = []
    for number, match in enumerate(found):
        if match[2] != "python":
            continue
        after = found[number + 1] if number + 1 < len(found) else None
        said = after and after[2] == "text" and not text[match.end() : after.start()].strip()
        blocks.append((textwrap.dedent(match[3]), textwrap.dedent(after[3]) if said else None))
    return blocks


def peers_of(block: str) -> set[str]:
    """Other packages that a block imports."""
    found: set[str] = set()
    for line in ast.walk(ast.parse(block)):
        if isinstance(line, ast.Import):
            found |= {name.name.partition(".")[0] for name in line.names}
        elif isinstance(line, ast.ImportFrom):
            found.add((line.module or "").partition(".")[0])
    return found & PEERS


def used_by(block: str) -> set[str]:
    return {name.id for name in ast.walk(ast.parse(block)) if isinstance(name, ast.Name)}


def with_peers(blocks: list[str]) -> list[set[str]]:
    """Per block the peers that it needs: those it imports, and those behind names that it uses."""
    owners: dict[str, set[str]] = {}
    needs = []
    for block in blocks:
        own = peers_of(block).union(*(owners.get(name, set()) for name in used_by(block)))
        owners |= {name: own for name in bound_by(block)}
        needs.append(own)
    return needs


def run(page: str, blocks: list[tuple[str, str | None]]) -> int:
    """Run blocks in turn; how many printed what the page says."""
    names = {"__name__": page}
    compared = 0
    for number, (code, said) in enumerate(blocks, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"<{page}, block {number}>", "exec"), names)
        if said is not None:
            lines = [line.rstrip() for line in printed.getvalue().strip().splitlines()]
            assert lines == [line.rstrip() for line in said.strip().splitlines()], "\n".join([page, *lines])
            compared += 1
    return compared


def read(page: str) -> list[tuple[str, str | None]]:
    return blocks_of((GUIDE / page).read_text(encoding="utf-8"))


#: Pages that fit a Poisson or a Gaussian to the epilepsy trial say that it warns.
VARIES_MORE = pytest.mark.filterwarnings(
    "ignore:y varies .* times as much as:UserWarning", "ignore:noise is larger where column"
)
NEEDED = {page: with_peers([code for code, _ in read(page)]) for page in PAGES}


@pytest.mark.costly
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.exhaustive] * (page in LONG_PAGES))
        for page in PAGES
        if not all(NEEDED[page])
    ],
)
@pytest.mark.filterwarnings("ignore:The inplace keyword in")  # of Dask's own reading of Parquet, under pandas 3.1
@VARIES_MORE
def test_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    monkeypatch.chdir(tmp_path)
    ours = [block for block, peers in zip(read(page), NEEDED[page], strict=True) if not peers]
    assert ours, "a page without code of ours"
    assert run(page, ours) == sum(said is not None for _, said in ours)


@pytest.mark.parametrize("page", [page for page in PAGES if any(NEEDED[page])])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the other package
@VARIES_MORE
def test_code_of_a_page_agrees_with_other_packages(page, tmp_path, monkeypatch):
    for peer in set().union(*NEEDED[page]):
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"{peer} is not installed (extra bench)")
    monkeypatch.chdir(tmp_path)
    blocks = read(page)
    assert run(page, blocks) == sum(said is not None for _, said in blocks)


def test_blocks_are_found_with_what_they_print():
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n  ```python\n  x = 2\n  ```\nwords\n```text\nno\n```"
    assert blocks_of(text) == [("print(1)\n", "1\n"), ("x = 2\n", None)]
    with pytest.raises(AssertionError):
        run("page", [("print(1)\n", "2\n")])
    assert with_peers(["import statsmodels.api as sm\ny = 1", "x = 1", "z = x + y"]) == [
        {"statsmodels"},
        set(),
        {"statsmodels"},
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("coming_from/")])
def test_pages_for_newcomers_say_what_did_not_run(page):
    """Code of a package that does not run here is shown as text, in a block that the page marks so."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    own = {"gpflow", "tensorflow", "implicit", "lme4", "glmer", "mgcv", "gam", "lifelines", "survreg", "brms", "brm"}
    assert not [code for code, _ in read(page) if own & {name.lower() for name in used_by(code)}]
    if re.search(r"^( *)```(r|text)$\n(library|from lifelines|import gpflow|import implicit)", text, re.MULTILINE):
        assert "not run here" in text
