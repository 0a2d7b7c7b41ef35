"""One-dimensional Gaussian integrals E g(f), f ~ N(m, v), of functions with a known scale, many rows at once.

The rule is chosen by each row's own r = sd / width alone, so no row's bits depend on the others: few Gauss-Hermite
nodes for small r, the trapezoidal rule up to r = 16, beyond it Gauss-Legendre panels that shrink towards the places
where the function bends. Relative error below 1e-6, mostly 1e-7, at every r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
Rows = Any  # slice or index array
NodesOf = Callable[[Rows], tuple[Array, Array]]
Integrand = Callable[[Array, Rows], Sequence[Array]]

# largest r at which n Gauss-Hermite nodes keep the relative error of E l, E l' and E l'' below 1e-7 (tested)
HERMITE_LIMITS = ((4, 0.2), (5, 0.3), (6, 0.38), (7, 0.46), (8, 0.53), (10, 0.65), (12, 0.76), (16, 0.95), (20, 1.1))
HALF_RANGE = 6.5  # in sd: the mass beyond is 8e-11
_TRAPEZOID_EDGES = tuple(1.5 * 1.2**k for k in range(14))  # the last is 16.05
_PANEL_EDGES = tuple(_TRAPEZOID_EDGES[-1] * 2.0**k for k in range(1, 960))
_EDGES = np.array([limit for _, limit in HERMITE_LIMITS] + list(_TRAPEZOID_EDGES) + list(_PANEL_EDGES))
_N_CENTRED = len(HERMITE_LIMITS) + len(_TRAPEZOID_EDGES)
_PANEL_ORDER = 12
_CHUNK = 32768  # values per block: a few such arrays stay in the cache, and calls are long enough for two threads


@lru_cache(maxsize=64)
def hermite(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, summing to 1, of the n-point Gauss-Hermite rule for N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=64)
def trapezoid(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, summing to 1, of the trapezoidal rule for N(0, 1) on [-6.5, 6.5]."""
    half = int(np.ceil(HALF_RANGE / step))
    nodes = step * np.arange(-half, half + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def _rule(code: int) -> tuple[np.ndarray, np.ndarray]:
    if code < len(HERMITE_LIMITS):
        return hermite(HERMITE_LIMITS[code][0])
    return trapezoid(min(0.6, 0.95 / _TRAPEZOID_EDGES[code - len(HERMITE_LIMITS)]))


@lru_cache(maxsize=8)
def legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the n-point Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def standard_deviation(v: Array) -> Array:
    """Square root of the variances v, all of which must be finite and not negative."""
    # Of one variance, which a stream asks for at every look, NumPy takes longer to find the ends than the root.
    least, most = (v.item(),) * 2 if v.size == 1 else (v.min(), v.max()) if v.size else (0.0, 0.0)
    if not (least >= 0 and most < np.inf):
        row = int(np.argmin((v >= 0) & (v < np.inf)))
        raise ValueError(f"variances of f must be finite and >= 0; found {v.flat[row]} in row {row}.")
    return np.sqrt(v)


def expect(
    function: Integrand, m: Array, v: Array, width: Array = 1.0, centres: Callable[[], Array] | None = None
) -> list[np.ndarray]:
    """E of each array that `function` returns, under f ~ N(m, v) row by row.

    Parameters
    ----------
    function : callable
        ``function(f, rows)`` with f of shape (nodes, r) for the r rows ``rows`` (a slice or an index array) gives a
        sequence of arrays whose last two axes broadcast to (nodes, r).
    m, v : ndarray of shape (n,)
        Mean and variance of f.
    width : float or ndarray of shape (n,)
        A third of the distance of the function's nearest complex singularity.
    centres : callable, optional
        Gives the places where the function bends, (n,), (c, n) or (c, 1); called only if some sd / width > 16.
        Default: 0.

    Returns
    -------
    list of ndarray
        For each array of `function` its expectation, (..., n).
    """
    sd = standard_deviation(v)
    ratio = sd / width
    n = len(m)
    out: list[np.ndarray] = []
    if n == 0:
        return [np.zeros((*np.shape(part)[:-2], 0)) for part in function(np.zeros((1, 0)), slice(0, 0))]
    for code, rows in _groups(ratio):
        if code < _N_CENTRED:
            nodes_of, size = _centred(m, sd, code)
        else:
            nodes_of, size = _graded(m, sd, width, centres, code)
        _accumulate(function, nodes_of, size, rows, n, out)
    return out


def _centred(m: Array, sd: Array, code: int) -> tuple[NodesOf, int]:
    """Nodes that are the same for all rows in units of their sd."""
    nodes, weights = (part.astype(m.dtype, copy=False)[:, None] for part in _rule(code))
    return lambda at: (m[at] + sd[at] * nodes, weights), len(nodes)


def _graded(m: Array, sd: Array, width: Array, centres: Callable[[], Array] | None, code: int) -> tuple[NodesOf, int]:
    """Nodes of panels that depend on where the function bends."""
    n = len(m)
    spread = np.broadcast_to(width, n)
    bends = np.atleast_2d(np.zeros(n) if centres is None else centres()).astype(m.dtype, copy=False)
    bends = np.broadcast_to(bends, (len(bends), n))
    levels = panel_levels(_EDGES[code])
    size = _PANEL_ORDER * ((2 * levels + 1) * len(bends) + 10)
    return lambda at: panels(m[at], sd[at], spread[at], bends[:, at], levels), size


def expect_at(function: Integrand, m: Array, v: Array, nodes: Array, weights: Array) -> list[np.ndarray]:
    """E of each array that `function` returns with given standard nodes, (k,) or (k, n), and weights, (k,)."""
    sd = standard_deviation(v)
    nodes = nodes.astype(m.dtype, copy=False).reshape(len(nodes), -1)
    weights = weights.astype(m.dtype, copy=False)[:, None]
    own = nodes.shape[1] > 1
    out: list[np.ndarray] = []
    if len(m) == 0:
        return [np.zeros((*np.shape(part)[:-2], 0)) for part in function(np.zeros((1, 0)), slice(0, 0))]

    def nodes_of(at: Rows) -> tuple[Array, Array]:
        return m[at] + sd[at] * (nodes[:, at] if own else nodes), weights

    _accumulate(function, nodes_of, len(nodes), slice(0, len(m)), len(m), out)
    return out


def _groups(ratio: Array) -> list[tuple[int, Rows]]:
    """Rows that share a rule, as (code of the rule, slice or index array)."""
    low, high = np.searchsorted(_EDGES, [ratio.min(), ratio.max()])
    if low == high:
        return [(int(low), slice(0, len(ratio)))]
    # Edge by edge: a few comparisons of whole arrays cost a fraction of a search and a sort.
    codes = np.zeros(len(ratio), np.uint16)
    for edge in _EDGES[low:high]:
        codes += ratio > edge
    return [(int(low) + int(k), np.flatnonzero(codes == k)) for k in np.flatnonzero(np.bincount(codes))]


def _accumulate(function: Integrand, nodes_of: NodesOf, size: int, rows: Rows, n: int, out: list[np.ndarray]) -> None:
    """Integrate one group of rows in blocks that fit the cache, and write the results into `out`."""
    count = rows.stop if isinstance(rows, slice) else len(rows)
    block = max(2, _CHUNK // size)
    for start in range(0, count, block):
        stop = min(start + block, count)
        at: Rows = slice(start, stop) if isinstance(rows, slice) else rows[start:stop]
        if stop - start == 1:
            # einsum adds a single column in another order: two equal ones keep the bits
            at = np.full(2, start if isinstance(rows, slice) else rows[start])
        f, weights = nodes_of(at)
        f = np.ascontiguousarray(f)  # another memory order would be summed in another order
        values = function(f, at)
        if not out:
            out.extend(np.empty((*np.shape(part)[:-2], n), dtype=f.dtype) for part in values)
        for target, part in zip(out, values, strict=True):
            target[..., at] = weighted_sum(weights, part, f.shape)


def weighted_sum(weights: Array, values: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the nodes axis -2, in the order of the nodes for every row."""
    if values.shape[-2:] != shape:
        values = np.broadcast_to(values, (*np.shape(values)[:-2], *shape))
    if weights.shape[-1] == 1:
        return np.einsum("k,...kn->...n", weights[:, 0], values)
    return np.einsum("kn,...kn->...n", weights, values)


def panel_levels(ratio: float) -> int:
    """How many graded panel edges lie on each side of a bend until they are as long as the sd."""
    return int(np.ceil(np.log(max(ratio, 4.0) / 4.0) / np.log(2.5))) + 1


def panels(m: Array, sd: Array, width: Array, bends: Array, levels: int) -> tuple[Array, Array]:
    """Nodes f and weights, (nodes, rows), of Gauss-Legendre panels that are graded towards the bends (c, rows)."""
    edges = np.sort(panel_edges(m, sd, width, bends, levels), axis=0)
    lengths = np.diff(edges, axis=0)
    nodes, weights = legendre(_PANEL_ORDER)
    f = (edges[:-1, None] + lengths[:, None] * nodes[:, None]).reshape(-1, edges.shape[1])
    density = np.exp(-0.5 * ((f - m) / sd) ** 2)
    w = (lengths[:, None] * weights[:, None]).reshape(f.shape) * density
    total = np.einsum("k,kn->n", np.ones(len(w)), w)
    return f.astype(m.dtype, copy=False), (w / total).astype(m.dtype, copy=False)


def panel_edges(m: Array, sd: Array, width: Array, bends: Array, levels: int) -> Array:
    """Edges, (edges, rows), from the Gaussian's own scale and from the bends, within 6.5 sd of the mean."""
    own = m + sd * (1.3 * np.arange(-5, 6))[:, None]
    reach = 4.0 * 2.5 ** np.arange(levels)
    graded = np.concatenate([-reach[::-1], [0.0], reach])[:, None] * width
    around = (bends[:, None, :] + graded).reshape(-1, len(m))
    return np.concatenate([own, np.clip(around, own[0], own[-1])])
