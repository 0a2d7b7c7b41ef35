"""What the documentation is built from besides its pages: MathJax, inventories of other sites, and a fresh gallery.

Everything is found on this machine, so that a build needs no network once the extra ``docs`` is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
import zlib
from itertools import takewhile
from pathlib import Path

DOC = Path(__file__).resolve().parent
BUILD = DOC / "_build"
PACKAGE = DOC.parent / "sksvi"

#: What pages need of MathJax 3.2.2 (Apache License 2.0), from the package sphinx-mathjax-offline of PyPI.
MATHJAX = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")

#: Objects of other projects that our pages name: address of the site, address of an object's page, names by role.
OTHERS = {
    "numpy": (
        "https://numpy.org/doc/stable/",
        "reference/generated/{name}.html#{name}",
        {"class": ["numpy.ndarray"], "function": ["numpy.log", "numpy.exp", "numpy.array"]},
    ),
    "pandas": (
        "https://pandas.pydata.org/docs/",
        "reference/api/{name}.html#{name}",
        {
            "class": ["pandas.DataFrame", "pandas.Series", "pandas.Categorical", "pandas.DatetimeIndex"],
            "function": ["pandas.read_csv", "pandas.date_range"],
        },
    ),
    "sklearn": ("https://scikit-learn.org/stable/", "modules/generated/{name}.html#{name}", {}),
}


def of_scikit_learn() -> dict[str, list[str]]:
    """Public estimators, displays and functions of the scikit-learn that is installed, by role."""
    from sklearn.utils.discovery import all_displays, all_estimators, all_functions

    def public(found: list[tuple[str, object]]) -> list[str]:
        """Names by the module that they are imported from; private ones are left out."""
        names = []
        for name, value in found:
            module = ".".join(takewhile(lambda part: not part.startswith("_"), value.__module__.split(".")))
            if getattr(sys.modules[module], name, None) is value:
                names.append(f"{module}.{name}")
        return names

    classes = public([*all_estimators(), *all_displays()])
    return {"class": [*classes, "sklearn.utils.Bunch"], "function": public(all_functions())}


def inventories() -> dict[str, tuple[str, str]]:
    """Write an inventory for every other site; intersphinx's mapping to them.

    They are no copies of what those sites serve, which a build without network cannot fetch: they are written here,
    from names that exist in the installed packages, and from the addresses that those sites give to such names.
    """
    folder = BUILD / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, (site, page, names) in OTHERS.items():
        lines = [
            f"{name} py:{role} 1 {page.format(name=name)} -"
            for role, own in (names or of_scikit_learn()).items()
            for name in sorted(set(own))
        ]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        path = folder / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress(("\n".join(lines) + "\n").encode()))
        mapping[project] = (site, str(path))
    return mapping


def mathjax() -> str:
    """Copy what pages need of MathJax; the folder to serve."""
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the documentation needs the package sphinx-mathjax-offline: pip install '.[docs]'")
    source = Path(found.submodule_search_locations[0]) / "static" / "mathjax"
    served = BUILD / "served"
    for name in MATHJAX:
        target = served / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source / name, target)
    return str(served)


def code_hash() -> str:
    """A hash of all code that the gallery's figures depend on."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        found.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def forget_old_gallery(gallery: Path = DOC / "auto_examples") -> None:
    """Remove the gallery if the package has changed since: sphinx-gallery itself looks at the examples alone."""
    seen, now = gallery / "code.sha256", code_hash()
    if gallery.is_dir() and (not seen.is_file() or seen.read_text() != now):
        shutil.rmtree(gallery)
    gallery.mkdir(parents=True, exist_ok=True)
    seen.write_text(now)
