"""Products of matrices without Python's lock, so that other threads run.

Threads work on chunks of rows side by side only while none of them holds Python's lock. `numpy.dot` lets go of it for
every product; ``@`` keeps it where what comes out is small (fewer than 500 numbers), as a Gram matrix of few columns
is, and SciPy's wrappers of BLAS always do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray


@lru_cache(4)
def _routine(name: str, number: Any) -> Any:
    """A triangular routine of BLAS, from where SciPy offers it to Cython."""
    from scipy.linalg import cython_blas

    capsules: Mapping[str, object] = cython_blas.__pyx_capi__
    capsule = capsules[name]
    signature, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    size = ctypes.POINTER(ctypes.c_int)
    kinds = [ctypes.c_char_p] * 4 + [size, size, ctypes.POINTER(number), ctypes.c_void_p, size, ctypes.c_void_p, size]
    return ctypes.CFUNCTYPE(None, *kinds)(pointer(capsule, signature(capsule)))


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
    return _by_triangle("trmm", A, root)


def over_triangle(A: Array, factor: Array) -> Array:
    """A L⁻ᵀ for the lower triangle L of `factor`.

    Parameters
    ----------
    A : ndarray of shape (n, P), of floats or doubles
    factor : ndarray of shape (P, P)

    Returns
    -------
    ndarray of shape (n, P)
    """
    return _by_triangle("trsm", A, factor)


def _by_triangle(name: str, A: Array, triangle: Array) -> Array:
    out = np.array(A, order="C")
    triangle = np.ascontiguousarray(triangle, A.dtype)
    n, size = out.shape
    if n and size:
        kind, number = ("s", ctypes.c_float) if A.dtype == np.float32 else ("d", ctypes.c_double)
        width, rows, one = ctypes.c_int(size), ctypes.c_int(n), number(1.0)
        # In the order of Fortran these are the transposed triangle, an upper one, and Aᵀ.
        given = width, rows, one, triangle.ctypes.data, width, out.ctypes.data, width
        _routine(kind + name, number)(b"L", b"U", b"T", b"N", *given)
    return out
