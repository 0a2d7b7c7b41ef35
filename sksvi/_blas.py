"""Products of matrices that let other threads run.

Threads work on chunks of rows side by side only while none of them holds Python's lock. `numpy.dot` lets go of it for
every product; ``@`` keeps it where what comes out is small (fewer than 500 numbers), as a Gram matrix of few columns
is, and SciPy's wrappers of BLAS always do.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray


@lru_cache(2)
def _trmm(dtype: str) -> Any:
    """BLAS's triangular product for these numbers, from where SciPy offers it to Cython."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[f"{dtype}trmm"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    number = ctypes.c_float if dtype == "s" else ctypes.c_double
    size = ctypes.POINTER(ctypes.c_int)
    kinds = [ctypes.c_char_p] * 4 + [size, size, ctypes.POINTER(number), ctypes.c_void_p, size, ctypes.c_void_p, size]
    return ctypes.CFUNCTYPE(None, *kinds)(pointer(capsule, name(capsule))), number


def times_triangle(A: Array, root: Array) -> Array:
    """A Cᵀ for the lower triangle C of `root`: half the work of a product of full matrices.

    Parameters
    ----------
    A : ndarray of shape (n, P), of floats or doubles
    root : ndarray of shape (P, P)

    Returns
    -------
    ndarray of shape (n, P)
    """
    out = np.array(A, order="C")
    root = np.ascontiguousarray(root, A.dtype)
    n, size = out.shape
    if not n or not size:
        return out
    trmm, number = _trmm("s" if A.dtype == np.float32 else "d")
    width, rows, one = ctypes.c_int(size), ctypes.c_int(n), number(1.0)
    # In the order of Fortran these are Cᵀ, an upper triangle, and Aᵀ.
    trmm(b"L", b"U", b"T", b"N", width, rows, one, root.ctypes.data, width, out.ctypes.data, width)
    return out
