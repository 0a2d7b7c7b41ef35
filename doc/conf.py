"""Sphinx configuration; `make docs` builds with warnings as errors and needs no network."""

from __future__ import annotations

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
    "exclude-members": ",".join(
        ["set_output", "get_metadata_routing"]
        + [f"set_{method}_request" for method in ("fit", "partial_fit", "predict", "predict_proba", "score")]
    ),
}
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "sksvi"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
