"""The HTML representation of an estimator links to its page in the reference, where a site is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

import sksvi

ROOT = Path(__file__).resolve().parents[2]
LISTED = re.search(r"Estimators\n-+\n(.*?)\n\w+\n-+\n", (ROOT / "doc/reference/index.rst").read_text(), re.DOTALL)[1]
#: Public classes that are fitted, as objects of scikit-learn.
ESTIMATORS = [name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_link_leads_to_a_page_of_the_reference(name, monkeypatch):
    monkeypatch.setenv("SKSVI_DOCUMENTATION", "https://docs.invalid/")
    link = getattr(sksvi, name)()._get_doc_link()
    assert link == f"https://docs.invalid/reference/generated/sksvi.{name}.html"
    assert re.search(rf"^   {name}$", LISTED, re.MULTILINE), f"{name} has no page: doc/reference/index.rst lacks it"
    assert f'href="{link}"' in estimator_html_repr(make_pipeline(getattr(sksvi, name)()))


def test_no_site_no_link(monkeypatch):
    monkeypatch.delenv("SKSVI_DOCUMENTATION", raising=False)
    assert sksvi.GPClassifier()._get_doc_link() == ""
    assert "reference/generated" not in estimator_html_repr(sksvi.GPClassifier())


def test_a_class_of_a_user_has_no_page_of_ours(monkeypatch):
    monkeypatch.setenv("SKSVI_DOCUMENTATION", "https://docs.invalid/")

    class Own(sksvi.GPClassifier):
        pass

    assert Own()._get_doc_link() == ""
