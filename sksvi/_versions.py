"""Report of the machine and of the installed packages, for reports of bugs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

#: What the package cannot do without, and what its extras add, as in pyproject.toml.
REQUIRED = ("numpy", "scipy", "scikit-learn", "pandas", "numba", "threadpoolctl")
OPTIONAL = ("matplotlib", "rich", "arviz", "dask", "distributed", "pyarrow", "formulaic")
#: What sets how many threads run; shown where it is set.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMBA_CACHE_DIR",
    "NUMBA_BOUNDSCHECK",
)


def show_versions() -> None:
    """Print what a report of a bug should say: system, Python, packages and threads.

    Nothing is printed that names a user but the path of the interpreter. Packages that are not installed are shown as
    ``None``. Libraries of linear algebra are those that NumPy and SciPy have loaded, asked through threadpoolctl.

    Returns
    -------
    None
        The text goes to standard output.

    See Also
    --------
    sklearn.show_versions : The same of scikit-learn and what it depends on.

    Examples
    --------
    >>> import sksvi
    >>> sksvi.show_versions()
    System
    ------
    python        : ...
    Packages
    --------
    sksvi         : ...
    """
    print("\n".join(_lines()))


def _lines() -> list[str]:
    """The report, line by line."""
    import numba
    import scipy.linalg  # noqa: F401  (threadpoolctl sees what is loaded)

    import sksvi

    system = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
        "processors": os.cpu_count(),
    }
    packages = {"sksvi": sksvi.__version__, **{name: _installed(name) for name in (*REQUIRED, *OPTIONAL)}}
    threads = {
        # numba sets these as it is imported
        "numba threads": numba.config.NUMBA_NUM_THREADS,  # type: ignore[attr-defined]
        "numba layer": numba.config.THREADING_LAYER,  # type: ignore[attr-defined]
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    return [
        *_part("System", system.items()),
        *_part("Packages", packages.items()),
        *_part("Threads", threads.items()),
        *_part("Linear algebra", _libraries()),
    ]


def _part(title: str, items: Iterable[tuple[str, object]]) -> list[str]:
    """A heading and a line per item."""
    return [title, "-" * len(title), *(f"{name:<14}: {value}" for name, value in items), ""]


def _installed(name: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _libraries() -> list[tuple[str, object]]:
    """Name, and version and threads, of each loaded library with threads of its own."""
    from threadpoolctl import threadpool_info

    return [
        (found["internal_api"], f"{found['version']}, {found['num_threads']} threads, {found['filepath']}")
        for found in threadpool_info()
    ]
