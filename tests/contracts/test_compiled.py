"""No compiled loop without a guard: whoever comes from Python enters through what checks shapes, types and indices."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import sksvi
from sksvi._runtime.compiled import DIAGONALS, MATRICES, entry
from sksvi.models.linear.sparse_loops import gram, spread

PACKAGE = Path(sksvi.__file__).parent


def compiles(function: ast.FunctionDef) -> bool:
    """Whether numba makes machine code of it."""
    words = [ast.dump(decorator) for decorator in function.decorator_list]
    return any("njit" in word or "'compiled'" in word for word in words)


def guarded(function: ast.FunctionDef) -> bool:
    first = function.decorator_list[0]
    return isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "entry"


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(("sksvi", *path.relative_to(PACKAGE).with_suffix("").parts))
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def compiled() -> dict[tuple[str, str], bool]:
    """(module, function): whether it is guarded, of every compiled function."""
    return {
        (name, node.name): guarded(node)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and compiles(node)
    }


def callers(name: str, tree: ast.Module) -> list[tuple[str, str]]:
    """Compiled functions that Python functions of a module import or name."""
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    known = imported | {node.name: (name, node.name) for node in tree.body if isinstance(node, ast.FunctionDef)}
    used = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiles(node)):
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in known:
                used.append(known[node.id])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                module, part = imported[node.value.id]
                used.append((f"{module}.{part}", node.attr))
    return used


@pytest.mark.costly
def test_compiled_functions_are_found():
    assert len(compiled()) >= 80
    assert sum(compiled().values()) >= 20


@pytest.mark.costly
def test_python_enters_through_guards_alone():
    used = {(name, loop) for name, tree in modules().items() for loop in callers(name, tree)}
    assert not {(name, loop) for name, loop in used if not compiled().get(loop, True)}


def reassociates(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Whether its sums may be formed in any order: by a decorator that says so, or the name of one."""
    named = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    own = [named.get(d.id, d) if isinstance(d, ast.Name) else d for d in function.decorator_list]
    return any(isinstance(d, ast.Call) and any(k.arg == "fastmath" for k in d.keywords) for d in own)


def adds_and_stores(loop: ast.For) -> bool:
    """Whether an innermost loop adds numbers (not counts of steps) to a scalar and stores into an array."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if any(isinstance(node, ast.For | ast.While) for node in inside):
        return False
    moved = [
        node.target for node in inside if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Constant)
    ]
    moved += [node.targets[0] for node in inside if isinstance(node, ast.Assign)]
    stores = any(isinstance(target, ast.Subscript) for target in moved)
    adds = [n for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
    return stores and any(not isinstance(node.value, ast.Constant) for node in adds)


@pytest.mark.costly
def test_no_reassociated_loop_adds_and_stores():
    """Vectorised in one of several ways by where its arrays lie, it gave other bits in threads than alone."""
    found, looked = set(), 0
    for name, tree in modules().items():
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and reassociates(n, tree)):
            looked += 1
            loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
            found |= {(name, function.name, loop.lineno) for loop in loops if adds_and_stores(loop)}
    assert looked >= 15
    assert not found


@pytest.mark.costly
def test_steps_that_are_chosen_by_name_are_guarded():
    from sksvi.models.topics.correlated import LOCAL_STEPS
    from sksvi.models.topics.loops import correlated

    for function in LOCAL_STEPS.values():
        assert compiled()["sksvi.models.topics.loops.correlated", function]
        assert hasattr(getattr(correlated, function), "compiled")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": np.array([0, 9], np.int32)}, "indices as indices below 3"),
        ({"indices": np.array([0, -1], np.int32)}, "indices as indices below 3"),
        ({"indptr": np.array([0, 2, 1], np.int32)}, "indptr as rising cuts|indptr"),
        ({"indptr": np.array([0, 1, 1, 2], np.int32)}, "indptr"),
        ({"values": np.ones(3)}, "values"),
        ({"values": np.ones(2, complex)}, "values .* complex"),
        ({"values": [1.0, 2.0]}, "values .* list"),
        ({"cov": np.eye(2)}, "indices as indices below 2"),
        ({"cov": np.ones((3, 2))}, "cov"),
        ({"out": np.zeros(1)}, "indptr"),
    ],
)
def test_a_guard_refuses_what_would_write_past_a_buffer(change, words):
    right = {
        "indptr": np.array([0, 1, 2], np.int32),
        "indices": np.array([0, 2], np.int32),
        "values": np.ones(2),
        "cov": np.eye(3),
        "intercept": False,
        "out": np.zeros(2),
    }
    spread(*right.values())
    np.testing.assert_array_equal(right["out"], [1.0, 1.0])
    with pytest.raises(ValueError, match=words):
        spread(*(right | change).values())


def toy(record, cuts, index, node, extra, packed, wide, full):
    """A loop's arguments of every kind."""


TOY = entry(
    *("record.x(n,F) f", "cuts(n+1) i cuts e", "index(e) i < F", "node(n) ? < F", "extra(n|0,F) f"),
    *("packed(n,F~) f", "wide(>=n,F^) f"),
)(SimpleNamespace(py_func=toy, standalone=toy))


def broken(value, rng):
    """The array with another shape, type or number in it; or as it is."""
    value = value.copy()
    kind = rng.integers(7)
    if kind == 0:
        return value[:-1]
    if kind == 1:
        return value[None]
    if kind == 2:
        return value.astype(rng.choice(["f8", "i4", "c16", "u1", "i8"]))
    if kind > 2 and value.size and value.dtype.kind == "i":
        value[rng.integers(len(value))] += rng.integers(-3, 4)
    return value


def test_the_written_check_says_what_the_rules_say(global_random_seed):
    """Whatever is wrong with some of the arguments."""
    rng, found = np.random.default_rng(global_random_seed), []
    guard = TOY.guard
    for _ in range(3000):
        full, n, F = bool(rng.integers(2)), 3, 4
        cuts = np.concatenate([[0], np.cumsum(rng.integers(0, 3, n))])
        size = {True: (F * (F + 1) // 2, F * F), False: (F, F)}[full]
        given = [np.ones((n, F)), cuts, rng.integers(0, F, cuts[-1]), rng.integers(-1, F, n)]
        given += [np.ones((rng.choice([0, n]), F)), np.ones((n, size[0])), np.ones((n + rng.integers(2), size[1]))]
        for at in rng.choice(7, rng.integers(3), replace=False):
            given[at] = broken(given[at], rng)
        arguments = (SimpleNamespace(x=given[0]), *given[1:], full)
        words = MATRICES if full else DIAGONALS
        try:
            guard.explain(arguments, dict(words))
            wanted = True
        except (ValueError, IndexError):
            wanted = False
        assert guard.holds(arguments, words["packed"], words["squared"]) == wanted, arguments
        found.append(wanted)
    assert 0.2 < np.mean(found) < 0.8


@pytest.mark.costly
def test_an_empty_block_is_no_mistake():
    X = sp.csr_matrix((0, 3))
    gram(X.indptr, X.indices, X.data, np.zeros(0), False, np.zeros((3, 3)))


def test_a_rule_that_cannot_be_read_is_an_error():
    with pytest.raises(ValueError, match="cannot be read"):
        entry("indices e i")(SimpleNamespace(py_func=gram.compiled.py_func, standalone=gram.compiled))


@pytest.mark.costly
def test_indices_that_are_checked_arrive_unsigned():
    def loop(starts, index, value):
        return starts.dtype, index.dtype, value.dtype

    guarded = entry("value (n) f", "starts (n+1) u cuts e", "index (e) u < n")(
        SimpleNamespace(py_func=loop, standalone=loop)
    )
    for width in (np.int32, np.int64):
        found = guarded(np.array([0, 1, 2], width), np.array([1, 0], width), np.ones(2))
        assert found == (np.dtype(f"u{width().itemsize}"),) * 2 + (np.dtype(float),)
    with pytest.raises(ValueError, match="index"):
        guarded(np.array([0, 1, 2]), np.array([1, -1]), np.ones(2))
    for rule in ("index (e) u", "index (e) u ? < n"):
        with pytest.raises(ValueError, match="negative"):
            entry("value (n) f", rule)(SimpleNamespace(py_func=loop, standalone=loop))


def test_no_compiled_function_calls_itself():
    """As a part of its callers it has no address of its own to call."""
    found = {
        (name, loop.name)
        for name, tree in modules().items()
        for loop in ast.walk(tree)
        if isinstance(loop, ast.FunctionDef) and compiles(loop)
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and node.id == loop.name
    }
    assert not found
