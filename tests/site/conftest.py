"""The built site, where SKSVI_SITE says: `make docs-check` builds it and sets the variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built HTML."""
    folder = os.environ.get("SKSVI_SITE")
    if not folder:
        pytest.skip("no built site: `make docs-check` builds one and says where in SKSVI_SITE")
    assert (Path(folder) / "index.html").is_file(), f"SKSVI_SITE is {folder}, which has no index.html"
    return Path(folder).resolve()
