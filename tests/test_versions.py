"""What a report of a bug says, and that what is said of the version is said in one place."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from threadpoolctl import threadpool_info

import sksvi
from sksvi import _versions

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras whose packages the library itself uses; the others are for those who work on it.
EXTRAS = ("plot", "progress", "arviz", "dask", "formula")


def names(requirements: list[str]) -> list[str]:
    return [re.match(r"[\w-]+", line)[0] for line in requirements]


def test_every_dependency_is_shown_with_its_version(capsys):
    sksvi.show_versions()
    shown = dict(re.findall(r"^(\S[^:\n]*?) *: (.*)$", capsys.readouterr().out, re.MULTILINE))
    assert shown["sksvi"] == sksvi.__version__
    for name in names(PROJECT["dependencies"]):
        assert shown[name] == version(name)
    optional = PROJECT["optional-dependencies"]
    for name in names([line for extra in EXTRAS for line in optional[extra]]):
        assert name in shown
    assert int(shown["numba threads"]) >= 1
    assert {library["internal_api"] for library in threadpool_info()} <= shown.keys()


def test_the_extras_are_all_that_the_library_uses():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert everything == f"sksvi[{','.join(EXTRAS)}]"


def test_a_package_that_is_not_installed_is_shown_as_none(monkeypatch, capsys):
    monkeypatch.setattr(_versions, "OPTIONAL", ("no-such-package",))
    sksvi.show_versions()
    assert re.search(r"^no-such-package *: None$", capsys.readouterr().out, re.MULTILINE)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == sksvi.__version__
    for key, stated in [("title", "name"), ("license", "license"), ("abstract", "description")]:
        assert citation[key] == PROJECT[stated]
    assert citation["authors"] == PROJECT["authors"]
    assert citation["message"]


@pytest.mark.parametrize("page", ["SECURITY.md", "doc/deprecation.md", "doc/security.md"])
def test_what_a_policy_points_to_exists(page):
    """Its links; and that a reader of the page of contributors finds it."""
    path = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)\)|\{include\} (\S+)", path.read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert (path.parent / "".join(link)).is_file(), f"{page} points to {link}, which is not there"
    assert page == "SECURITY.md" or f"]({page})" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
