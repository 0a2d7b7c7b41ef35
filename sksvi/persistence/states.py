"""Whether what a file holds fits together: each array's shape, dtype and range against the others.

Compiled loops and BLAS trust shapes, and a checksum says only that a file is as somebody wrote it. Each class of the
table that holds arrays has its question here; those of estimators are in :mod:`sksvi.persistence.fitted`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from sksvi.persistence.validator import Validator

Array = np.ndarray


# ---- families
def _gaussian(look: Validator) -> None:
    shape = look.at("mean").array().shape
    look.require(len(shape) >= 1, "has a mean without coordinates")
    precision = look.at("precision")
    _positive_diagonal(precision, precision.array((*shape, shape[-1])))
    look.unless_none("_root", lambda root: _positive_diagonal(root, root.array((*shape, shape[-1]))))


def _diagonal(look: Validator) -> None:
    shape = look.at("mean").array().shape
    look.require(len(shape) >= 1, "has a mean without coordinates")
    look.at("precision").array(shape, above=0.0)
    look.unless_none("_root", lambda root: root.array(shape, above=0.0))


def _positive_diagonal(look: Validator, matrix: Array) -> None:
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    look.require(np.all(diagonal > 0), "has an entry on its diagonal that is not positive")


def _standard(look: Validator) -> None:
    shape, root = look.at("mean").array().shape, look.at("root")
    look.require(len(shape) >= 1, "has a mean without coordinates")
    value = root.array()
    if value.ndim == len(shape):
        root.array(shape, above=0.0)
    else:
        _positive_diagonal(root, root.array((*shape, shape[-1])))


def _arrow_matrix(look: Validator) -> None:
    n, r, _ = look.at("diag").array((None, None, None)).shape
    look.at("diag").array((n, r, r))
    others = len(look.at("corner").array((None, None)))
    look.at("corner").array((others, others))
    look.at("border").array((others, n * r))
    look.require(look.at("start").count() <= others, "has a start beyond its border")


def _arrow_gaussian(look: Validator) -> None:
    matrix = look.at("precision")
    look.at("mean").array((_arrow_size(matrix),))
    look.require(np.all(matrix.value.diagonal() > 0), "has a precision that is not positive")


def _arrow_size(look: Validator) -> int:
    from sksvi.families.gaussian.arrow_matrix import ArrowMatrix

    matrix = look.a(ArrowMatrix).value
    return len(matrix.corner) + matrix.diag.shape[0] * matrix.diag.shape[1]


def _in_units(look: Validator) -> None:
    (d,) = look.at("scale").array((None,), above=0.0).shape
    look.at("centre").array((d,))
    inner = look.at("inner")
    look.require(width(inner) in (d, d + 1), f"has {d} columns for a block of {width(inner)} coordinates")


def _marginal(look: Validator) -> None:
    look.at("index").array((None,), "i", least=0, below=width(look.at("joint")))


def _class_gaussian(look: Validator) -> None:
    classes = look.at("n_classes").count(1)
    look.require(width(look.at("joint")) % classes == 0, f"has {classes} classes, which do not share its coordinates")
    look.require(look.value.joint.mean.ndim == 1, "has plates within its classes")


def _projected(look: Validator) -> None:
    (d,) = look.at("scale").array((None,), above=0.0).shape
    rank = look.at("basis").array((d, None)).shape[1]
    inner = look.at("inner")
    look.require(width(inner) in (rank, rank + 1), f"has a basis of {rank} for a block of {width(inner)} coordinates")
    look.at("off_std").number(least=0.0)


def _chosen_rows(look: Validator) -> None:
    look.at("rows").array((None,), "i", least=0, below=width(look.at("block")))


def _sites_gaussian(look: Validator) -> None:
    n = look.at("prior_cov").array((None, None)).shape[0]
    diagonal = np.diagonal(look.at("prior_cov").array((n, n)))
    look.at("prior_cov").require(np.all(diagonal >= 0), "has a variance below 0")
    look.at("dual").array((n,))
    look.at("weights").array((n,), least=0.0)


def _chain(look: Validator) -> None:
    n = len(look.at("noise").array((None,), least=0.0))
    T, E = look.at("X").array((None, None)).shape
    S = len(look.at("h").array((None,)))
    look.require(n == S + E, f"has {n} states for {S} shares and {E} columns of {T} points")
    rows, starts = look.at("rows"), look.at("starts")
    m = len(rows.array((None,), "i", least=0, below=n))
    rows.require(len(set(rows.value.tolist())) == m, "names a state twice")
    cuts = starts.array((m + 1,), "i", least=0)
    entries = len(look.at("values").array((None,)))
    look.at("columns").array((entries,), "i", least=0, below=n)
    starts.require(cuts[0] == 0 and cuts[-1] == entries and np.all(np.diff(cuts) >= 0), "does not divide the values")
    look.at("mean").array((n,))
    cov = look.at("cov")
    cov.require(np.all(np.diagonal(cov.array((n, n))) >= 0), "has a variance below 0")
    look.at("damped").array((None,), "i", least=0, below=n)


def _chain_gaussian(look: Validator) -> None:
    from sksvi.families.gaussian.chain import Chain

    T = len(look.at("chain").a(Chain).value)
    look.at("linear").array((T,))
    look.at("weights").array((T,))


def _plates(look: Validator) -> None:
    n, size = look.at("mean").array((None, None)).shape
    full = look.at("full").flag()
    values = look.at("values").array((n, size * (size + 1) // 2 if full else size))
    ends = np.cumsum(np.arange(1, size + 1)) - 1 if full else np.arange(size)
    look.at("values").require(np.all(values[:, ends] > 0), "has a variance that is not positive")
    look.unless_none("_log_det", lambda logs: logs.array((n,)))


def _point(look: Validator) -> None:
    value = look.at("value").array()
    look.unless_none("centre", lambda centre: centre.array(value.shape))
    look.unless_none("information", lambda matrix: matrix.array((value.size, value.size)))


def _pair(first: str, second: str, look: Validator) -> None:
    look.at(second).array(look.at(first).array(above=0.0).shape, above=0.0)


def _rayleigh(look: Validator) -> None:
    look.at("scale").number(above=0.0)


def _dirichlet(look: Validator) -> None:
    look.require(look.at("concentration").array(above=0.0).ndim >= 1, "has no coordinates")


def _simplex(look: Validator) -> None:
    look.require(look.at("counts").array(least=0.0).ndim >= 1, "has no coordinates")
    look.unless_none("by_gradient", lambda flag: flag.flag())


def _population(look: Validator) -> None:
    n = len(look.at("sums").array((None, None)))
    sums = look.at("sums").array((n, n))
    look.require(n >= 1 and sums[0, 0] > 0, "has sums of no members")
    look.unless_none("_root", lambda root: _positive_diagonal(root, root.array((n - 1, n - 1))))


# ---- what an engine remembers
def _message(look: Validator) -> None:
    parts = look.at("parts").a(tuple).items()
    look.require(parts, "says nothing")
    for part in parts:
        if isinstance(part.value, np.ndarray):
            part.array()


def _packed_message(look: Validator) -> None:
    linear, precision = look.at("parts").sequence(2)
    n, size = linear.array((None, None)).shape
    precision.array((n, size * (size + 1) // 2 if look.at("full").flag() else size))


def _adagrad(look: Validator) -> None:
    shape = look.at("mean").array(least=0.0).shape
    root = look.at("root").array(least=0.0)
    look.require(root.shape in (shape, (*shape, shape[-1])), f"has sums of shapes {shape} and {root.shape}")
    look.at("unit").array(root.shape)
    look.at("reach").number(above=0.0)


def _flat_memory(look: Validator) -> None:
    look.at("total").array(least=0.0)
    look.at("unit").number(above=0.0)


def _plate_memory(look: Validator) -> None:
    (n,) = look.at("clock").array((None,), "i", least=0).shape
    look.at("seen").array((n,), least=0.0)
    for rows in arrays_of(look.at("rule")):
        look.require(rows.value.shape[:1] == (n,), f"has {n} plates, and a rule's memory of other ones")


def _sites(look: Validator) -> None:
    (n,) = look.at("start").array((None,), least=0.0).shape
    linear, quadratic = look.at("linear").array(), look.at("quadratic").array()
    look.require(linear.shape[:1] == quadratic.shape[:1] == (n,), f"has {n} rows, and sites of other ones")
    per_row = linear.shape[1:]
    right = quadratic.shape[1:] in (per_row, per_row * 2) and len(per_row) <= 1
    look.require(right, f"has sites of shapes {linear.shape} and {quadratic.shape}")
    look.require(len(look.at("total").sequence()) == len(look.at("first").sequence()), "has sums of two kinds")


def _locals(look: Validator) -> None:
    look.require(look.at("values").array().ndim >= 1, "has no rows")
    look.at("repairs").count()


def _table(look: Validator) -> None:
    n = _rows(look.at("X"))
    y = look.at("y").a(np.ndarray)
    target = y.array(kind="x" if y.value.dtype.kind == "f" else "i")
    look.require(target.shape[:1] == (n,), f"has {n} rows of X and a y of shape {target.shape}")
    look.unless_none("weight", lambda weight: weight.array((n,), least=0.0))
    look.unless_none("offset", lambda offset: offset.array((n,)))


def _rows(look: Validator) -> int:
    """Number of rows of a design."""
    from sksvi.models.mixed.levels import GroupedDesign
    from sksvi.models.mixture.cells import MixtureRows as ValueCells
    from sksvi.models.nmf.cells import CountMatrix as CountCells

    if isinstance(look.value, np.ndarray):
        return int(look.array((None, None), "x").shape[0])
    return int(look.a(sp.csr_matrix, GroupedDesign, ValueCells, CountCells).value.shape[0])


def _value_cells(look: Validator) -> None:
    n = _rows(look.at("ones"))
    look.unless_none("missing", lambda missing: missing.require(_rows(missing) == n, f"has other rows than {n}"))


def _count_cells(look: Validator) -> None:
    counts = look.at("counts").a(sp.csr_matrix).value
    look.at("counts").require(np.all(counts.data >= 0) and np.all(np.isfinite(counts.data)), "has what is no count")
    look.unless_none("seen", lambda seen: seen.require(np.shape(seen.value) == counts.shape, "is of other cells"))


def _scatter(look: Validator) -> None:
    (d,) = look.at("mean").array((None,)).shape
    products = look.at("products").array((d, d))
    look.at("products").require(np.all(np.diagonal(products) >= 0), "has a variance below 0")
    look.at("n").number(above=0.0)
    look.at("centred").flag()


def _terms(look: Validator) -> None:
    (n,) = look.at("value").array((None,)).shape
    alpha, gamma = look.at("alpha").array(), look.at("gamma").array()
    each = alpha.shape[1:]
    look.require(alpha.shape[:1] == gamma.shape[:1] == (n,), f"has {n} values and derivatives of other rows")
    right = len(each) <= 1 and gamma.shape[1:] in (each, each * 2)
    look.require(right, f"has derivatives of shapes {alpha.shape} and {gamma.shape}")
    look.at("linear").array(alpha.shape)
    for point in look.at("points").mapping():
        first, second = point.sequence(2)
        size = first.array((n, None)).shape[1]
        second.array((n, size, size))
    for slope in look.at("scalars").mapping():
        slope.array((n,))
    look.unless_none("variance", lambda variance: variance.array(gamma.shape))


def _sample(look: Validator) -> None:
    (n,) = look.at("priority").array((None,), least=0.0).shape
    for name in ("importance", "share"):
        look.at(name).array((n,), least=0.0)
    look.at("dropped").number(least=0.0)
    data, sites = look.at("data"), look.at("sites")
    right = len(data.value.y) == n == len(sites.value.value)
    look.require(right, f"has {n} priorities, {len(data.value.y)} rows and {len(sites.value.value)} sites")


def _past(look: Validator) -> None:
    look.at("constant").number()
    for name in ("weight", "waiting"):
        look.at(name).number(least=0.0)


def _design(look: Validator) -> None:
    codes = look.at("codes")
    n, factors = codes.array((None, None), "i").shape
    codes.require(codes.value.dtype == np.int32, f"has dtype {codes.value.dtype}, not int32")
    look.require(_rows(look.at("X")) == n, "has columns of other rows than its codes")
    for f, levels in enumerate(look.at("levels").sequence(factors)):
        highest = int(codes.value[:, f].max(initial=-1))
        look.require(highest < levels.count(), f"has the code {highest} in factor {f} of {levels.value} levels")
    for values in look.at("values").sequence(factors):
        if values.value is not None:
            values.array((n, None))
    look.unless_none("arrow", lambda arrow: arrow.require(arrow.count() < factors, "is no factor"))


def _columns(look: Validator) -> None:
    (d,) = look.at("scale").array((None,), above=0.0).shape
    look.at("centre").array((d,))
    look.at("varies").array((d,), "b")
    look.at("scaled").flag()
    stats = look.at("known")
    stats.require(stats.value is None or len(stats.value.low) == d, "knows the spreads of other columns")


def _known(look: Validator) -> None:
    (d,) = look.at("low").array((None,), "x").shape
    for name in ("high", "centre", "mean"):
        look.at(name).array((d,), "x")
    look.at("square").array((d,), "x", least=0.0)
    look.at("two").array((d,), "b")
    look.at("weight").number(least=0.0)
    look.at("eps").number(least=0.0)


def _categories(look: Validator) -> None:
    columns = [column.count() for column in look.at("columns").sequence()]
    right = bool(columns) and columns == sorted(set(columns)) and columns[-1] < look.at("n_columns").count(1)
    look.at("columns").require(right, "names no columns of the table")
    look.at("reference").flag()
    pairs = look.at("levels").sequence(len(columns)), look.at("missing").sequence(len(columns))
    for levels, missing in zip(*pairs, strict=True):
        shape = np.shape(levels.a(np.ndarray).value)
        levels.require(len(shape) == 1, f"has shape {shape}, not (any,)")
        levels.require(len(set(levels.value.tolist())) == shape[0], "has a level twice")
        levels.require(shape[0] + missing.flag() > 0, "has no level")


def _node_blocks(look: Validator) -> None:
    shape = look.at("block").value.mean.shape
    look.at("prior_mean").array(shape)
    look.at("precision").array(shape, above=0.0)
    k = len(look.at("precisions").array((None, *shape), above=0.0))
    look.at("information").array((k,), above=0.0)
    look.at("weights").array((k,), above=0.0)


def _node_mixture(look: Validator) -> None:
    k = len(look.at("node_blocks").at("weights").array())
    look.unless_none("prior_std", lambda std: std.array((k,), above=0.0))


def _log_scales(look: Validator) -> None:
    n, size = look.at("nodes").array((None, None)).shape
    look.at("weights").array((n,), least=0.0)
    if isinstance(getattr(look.value, "within", 0.0), np.ndarray):
        look.at("within").array((size,), least=0.0)


def _nodes(look: Validator) -> None:
    n, size = look.at("values").array((None, None)).shape
    look.require(n > 0, "has no node")
    if look.has("within"):
        look.at("within").array((size,), least=0.0)
    weights = look.at("weights")
    weights.require(abs(weights.array((n,), above=0.0).sum() - 1.0) < 1e-6, "does not sum to 1")


def _features(look: Validator) -> None:
    n, p = look.at("values").array((None, None)).shape
    look.at("scale").array((p,), above=0.0)
    look.at("mean").array((p,))
    for name, length in (("ids", n), ("columns", p)):
        look.at(name).a(np.ndarray).require(look.at(name).value.shape == (length,), f"has not the length {length}")


def _draw(look: Validator) -> None:
    k, _ = look.at("features").array((None, None)).shape
    look.at("logit").array((k,))
    look.at("noise").array((None,), above=0.0)
    look.at("weight").number(above=0.0)
    omega = look.at("omega").array((None, None))
    look.require(omega.size == 0 or omega.shape[1] == k, f"has {omega.shape[1]} weights for {k} features")


def _mixture_draw(look: Validator) -> None:
    (k,) = look.at("rows").array((None,), least=0.0).shape
    look.at("counts").array((None, k), least=0.0)
    look.at("labels").array((None,), "i", least=0, below=k)


def _ordinal(look: Validator) -> None:
    look.unless_none("cut_points", _increasing)


def _increasing(look: Validator) -> None:
    if isinstance(look.value, np.ndarray):
        look.require(np.all(np.diff(look.array((None,))) > 0), "does not increase")


def _kernel(look: Validator) -> None:
    for part in arrays_of(look):
        bounds = part.where.endswith("_bounds")
        part.array((None, 2) if bounds else (None,), above=None if bounds else 0.0)


#: Key of the table -> what to ask of an object of that class, whose own parts have been asked already.
PARTS: dict[str, Callable[[Validator], None]] = {
    "Gaussian": _gaussian,
    "DiagonalGaussian": _diagonal,
    "StandardGaussian": _standard,
    "ArrowMatrix": _arrow_matrix,
    "ArrowGaussian": _arrow_gaussian,
    "InUnits": _in_units,
    "Marginal": _marginal,
    "ClassGaussian": _class_gaussian,
    "ProjectedGaussian": _projected,
    "ChosenRows": _chosen_rows,
    "SiteGaussian": _sites_gaussian,
    "Chain": _chain,
    "ChainGaussian": _chain_gaussian,
    "GaussianPlates": _plates,
    "Point": _point,
    "Beta": partial(_pair, "a", "b"),
    "Gamma": partial(_pair, "shape", "rate"),
    "Rayleigh": _rayleigh,
    "Dirichlet": _dirichlet,
    "Simplex": _simplex,
    "Population": _population,
    "Message": _message,
    "PlateMessages": _packed_message,
    "AdaGradMemory": _adagrad,
    "FlatMemory": _flat_memory,
    "PlateMemory": _plate_memory,
    "Sites": _sites,
    "Locals": _locals,
    "Scatter": _scatter,
    "Table": _table,
    "ValueCells": _value_cells,
    "CountCells": _count_cells,
    "LinearTerms": _terms,
    "Sample": _sample,
    "StreamState": _past,
    "GroupedDesign": _design,
    "ColumnScaling": _columns,
    "ColumnStats": _known,
    "CategoricalColumns": _categories,
    "NodeBlocks": _node_blocks,
    "NodeMixture": _node_mixture,
    "Nodes": _nodes,
    "LogScales": _log_scales,
    "IdFeatures": _features,
    "GibbsDraw": _draw,
    "MixtureDraw": _mixture_draw,
    "Ordinal": _ordinal,
    "kernel.RBF": _kernel,
    "kernel.Matern": _kernel,
    "kernel.RationalQuadratic": _kernel,
    "kernel.ExpSineSquared": _kernel,
}


def width(look: Validator) -> int:
    """Number of coordinates of a block that has been checked."""
    from sksvi.families.base import Family

    return int(look.a(Family).value.mean.shape[-1])


def arrays_of(look: Validator) -> list[Validator]:
    """Attributes of an object that are arrays."""
    return [
        look.at(name) for name, value in getattr(look.value, "__dict__", {}).items() if isinstance(value, np.ndarray)
    ]


def check_parts(look: Validator, key_of: Callable[[type], str | None]) -> None:
    """Check every object within a value, the innermost first; numbers of arrays must be finite wherever they are.

    Parameters
    ----------
    look : Look
    key_of : callable
        Class to its key in the table.
    """
    _descend(look, key_of, set())


def _descend(look: Validator, key_of: Callable[[type], str | None], visited: set[int]) -> None:
    value = look.value
    if isinstance(value, np.ndarray):
        look.require(value.dtype.kind != "c", "is complex")
        look.require(value.dtype.kind != "f" or np.isfinite(value).all(), "is not finite")
        return
    if value is None or isinstance(value, (str, int, float, np.generic, np.dtype)) or id(value) in visited:
        return
    visited.add(id(value))
    key = None
    if isinstance(value, (list, tuple, dict)):
        inner = look.items()
    elif sp.issparse(value):
        inner = [look.at("data")]
    else:
        key = key_of(type(value))
        # Sets and tables of pandas are no arrays of a fit.
        inner = [] if key is None else [look.at(name) for name in vars(value)]
    for part in inner:
        _descend(part, key_of, visited)
    if key in PARTS:
        PARTS[key](look)
