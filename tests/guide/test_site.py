"""What the documentation is built from besides its pages (doc/_site.py)."""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The module, building below a folder of the test's own."""
    spec = importlib.util.spec_from_file_location("_site", ROOT / "doc" / "_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path)
    return module


@pytest.mark.exhaustive
def test_inventories_name_what_exists(parts):
    """Every name of every inventory is an object of the installed package."""
    for project, (site, path) in parts.inventories().items():
        head, _, rest = Path(path).read_bytes().partition(b"using zlib.\n")
        lines = zlib.decompress(rest).decode().splitlines()
        assert head.startswith(b"# Sphinx inventory version 2") and site.startswith("https://") and lines
        for line in lines:
            name, _, _, page, _ = line.split()
            module, _, attribute = name.rpartition(".")
            assert page.endswith(f"{name}.html#{name}") and name.startswith(project)
            assert hasattr(importlib.import_module(module), attribute), name


def test_gallery_is_forgotten_when_the_code_changes(parts, tmp_path, monkeypatch):
    gallery, package = tmp_path / "gallery", tmp_path / "package"
    package.mkdir()
    (package / "code.py").write_text("1")
    monkeypatch.setattr(parts, "PACKAGE", package)
    parts.forget_old_gallery(gallery)
    (gallery / "plot_a.rst").write_text("drawn")
    parts.forget_old_gallery(gallery)
    assert (gallery / "plot_a.rst").exists()
    (package / "code.py").write_text("2")
    parts.forget_old_gallery(gallery)
    assert not (gallery / "plot_a.rst").exists()
