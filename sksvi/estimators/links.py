"""From an estimator's HTML representation to its page in the reference."""

from __future__ import annotations

import os

#: Where the documentation is served; none is published yet, so that representations have no link unless the variable
#: SKSVI_DOCUMENTATION says where, with a slash at its end.
DOCUMENTATION = ""
VARIABLE = "SKSVI_DOCUMENTATION"
PAGE = "reference/generated/sksvi.{estimator_name}.html"


def reference_page() -> str:
    """Template of the address of an estimator's page, for scikit-learn's representation; empty: there is none."""
    site = os.environ.get(VARIABLE, DOCUMENTATION)
    return site + PAGE if site else ""
