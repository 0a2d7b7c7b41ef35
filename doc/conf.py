"""Sphinx configuration; `make docs` builds with warnings as errors and needs no network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import _site
from numpydoc.xref import DEFAULT_LINKS

import sksvi

# Estimators in the gallery link to the reference of this very site.
os.environ["SKSVI_DOCUMENTATION"] = "../"

project = "sksvi"
author = "sksvi developers"
copyright = "2026, sksvi developers"
version = release = sksvi.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb", "reference/backreferences"]
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
    "inherited-members": "BaseEstimator,ClassifierMixin,Pipeline,RegressorMixin,object,dict,tuple",
}
numpydoc_show_class_members = False
# Types of parameters link to the pages of other projects; only these names, the rest stay words.
DEFAULT_LINKS.clear()  # numpydoc's own, into sites that have no inventory here
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    "DataFrame": "pandas.DataFrame",
    "Series": "pandas.Series",
    "ndarray": "numpy.ndarray",
    "Bunch": "sklearn.utils.Bunch",
}
intersphinx_mapping = _site.inventories()
intersphinx_disabled_reftypes = []

# Served from the site itself; see _site.py.
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"processHtmlClass": "tex2jax_process|mathjax_process|math|output_area"}}

_site.forget_old_gallery()
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "doc_module": ("sksvi",),
    "backreferences_dir": "reference/backreferences",
    "reference_url": {"sksvi": None},
    "capture_repr": ("_repr_html_",),
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "show_memory": False,
    "parallel": 2,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static", _site.mathjax()]
html_css_files = ["guide.css"]
html_title = "sksvi"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "navigation_depth": 2,
}
html_sidebars = {"index": [], "benchmarks": [], "changelog": []}


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
