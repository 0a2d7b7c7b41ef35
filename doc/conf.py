"""Sphinx configuration; `make docs` builds with warnings as errors and needs no network."""

from __future__ import annotations

import re

import sksvi

project = "sksvi"
author = "sksvi developers"
copyright = "2026, sksvi developers"
version = release = sksvi.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    "members": True,
    # Members of scikit-learn's base classes are documented there.
    "inherited-members": "BaseEstimator,ClassifierMixin,RegressorMixin,object,dict,tuple",
}
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "sksvi"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}


def skip_generated(app, what, name, obj, skip, options):
    """Leave out the set_*_request methods that scikit-learn generates: its own pages document them."""
    return True if re.fullmatch(r"set_\w+_request|set_output|get_metadata_routing", name) else None


def keep_bars(app, what, name, obj, options, lines):
    """Vertical bars in docstrings are determinants, absolute values and conditions, not reST substitutions."""
    for number, line in enumerate(lines):
        if "``" not in line and not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(?<![\\`])\|(?=\S)", r"\|", line)


def setup(app):
    app.connect("autodoc-skip-member", skip_generated)
    app.connect("autodoc-process-docstring", keep_bars)
