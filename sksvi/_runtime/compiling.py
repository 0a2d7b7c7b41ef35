"""How loops are compiled: kept on disk for the next process where numba finds a place, and without one where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from sksvi._runtime.warned import warn_user

_WARNED: list[str] = []


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a loop that numba compiles, without Python's lock.

    What is compiled is kept beside the source, in the user's cache folder, or in ``NUMBA_CACHE_DIR``. Where none of
    them can be written to, as in a container with read-only site-packages and no home, it is compiled anew in every
    process, which is warned of once.

    Parameters
    ----------
    **options
        As `numba.njit` takes them.

    Returns
    -------
    callable
    """

    def compiled(loop: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(loop)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            if not _WARNED:
                _WARNED.append(loop.__name__)
                warn_user(
                    "compiled loops cannot be kept on disk, because neither the folder of sksvi nor the user's cache "
                    "folder can be written to: each process compiles them anew, for seconds of each first fit. Set "
                    "NUMBA_CACHE_DIR to a folder that can be written to, or fill one when the image is made by "
                    "python -m sksvi.precompile."
                )
            return numba.njit(nogil=True, **options)(loop)

    return compiled
