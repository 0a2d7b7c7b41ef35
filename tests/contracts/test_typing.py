"""Every public parameter and answer has a type that an editor can use: none is missing, none is Any.

Annotations are read from the source and never evaluated: they name types of packages that need not be installed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

import sksvi
from sksvi.integrals import quadrature

#: What takes or returns what no type can say, by name of the place, and why.
OF_ARVIZ = "InferenceData of ArviZ 0.x, DataTree of 1.x: of a package that need not be there"
OF_SKLEARN = "scikit-learn's callbacks are new in 1.9, and those of 1.6 stand in for them"
OF_MODEL = "what a model says its data are"
PRIVATE = "made by `fold_in` alone, of what that knows of the fit"
HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")
EXCEPTIONS = {
    "to_arviz -> return": OF_ARVIZ,
    **{f"_NullCallback.{hook} -> context": OF_SKLEARN for hook in HOOKS if hook != "setup"},
    **{f"{name}.setup -> context": OF_SKLEARN for name in ("Checkpoint", "KeepInterrupted")},
    "Checkpoint.on_fit_task_end -> context": OF_SKLEARN,
    "check_model -> data": OF_MODEL,
    "FoldedIds.__init__ -> fit": PRIVATE,
    "FoldedUsers.__init__ -> fit": PRIVATE,
    **dict.fromkeys(
        ("Algorithm.rule -> block", "_ByGradients.rule -> block"),
        "any family, which the base of all families does not know of rules",
    ),
}
#: The algebra of families: a block and blocks, messages and gradients of its own kind. The base says what there is;
#: each class narrows it, and mypy checks those bodies, strict. Typed as the base they would be refused everywhere.
OF_ITS_KIND = {
    "about", "across", "before", "block", "curvature", "gradient", "inner", "joint", "natural", "other", "own", "parts",
    "plates", "precision", "prior", "q", "rate", "root", "rows", "sites", "slope", "source", "weight",
    "return",
}  # fmt: skip


class Place(NamedTuple):
    """A parameter, or an answer, of what is public."""

    name: str
    module: str
    annotation: object


def functions_of(cls: type) -> Iterator[tuple[str, Any]]:
    """`__init__`, public methods and properties, with those of bases in this package, as they were written."""
    for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
        base = next(base for base in cls.__mro__ if name in vars(base))
        if not base.__module__.startswith("sksvi") or (name.startswith("_") and name != "__init__"):
            continue
        found = vars(base)[name]
        for inner in ("__func__", "fget", "fn"):  # a class method, a property, what is there for some likelihoods only
            found = getattr(found, inner, found)
        if inspect.isfunction(found):
            yield name, inspect.unwrap(found)


def own_names(module: types.ModuleType) -> list[str]:
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def public_functions() -> Iterator[Any]:
    """Each once."""
    modules = [sksvi, *(importlib.import_module(f"sksvi.{name}") for name in sksvi._SUBMODULES)]
    known = set()
    for module in modules:
        for name in own_names(module):
            value = getattr(module, name)
            parts = functions_of(value) if inspect.isclass(value) else [(name, value)]
            for _, function in parts:
                if inspect.isfunction(function) and function.__code__ not in known:
                    known.add(function.__code__)
                    yield function


def places_of(function: Any) -> Iterator[Place]:
    signature = inspect.signature(function)
    module = function.__module__
    for number, parameter in enumerate(signature.parameters.values()):
        itself = number == 0 and parameter.name in ("self", "cls")
        if not itself and parameter.kind is not parameter.VAR_KEYWORD:
            yield Place(f"{function.__qualname__} -> {parameter.name}", module, parameter.annotation)
    yield Place(f"{function.__qualname__} -> return", module, signature.return_annotation)


@cache
def says_nothing(annotation: object, module: str) -> bool:
    """Whether a type is missing, or leaves it open: Any, also by another name, save as what a mapping holds."""
    if annotation is inspect.Signature.empty:
        return True
    within = vars(importlib.import_module(module))

    def opens(node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("dict", "Mapping"):
            return False
        if isinstance(node, ast.Name):
            return node.id == "Any" or within.get(node.id) is Any
        return any(opens(child) for child in ast.iter_child_nodes(node))

    return opens(ast.parse(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)))


def matches(place: Place, exception: str) -> bool:
    """Also where a class has its own copy of a method."""
    return place.name == exception or place.name.endswith(f".{exception}")


def is_excepted(place: Place) -> bool:
    _, _, name = place.name.partition(" -> ")
    return any(matches(place, exception) for exception in EXCEPTIONS) or (
        place.module.startswith("sksvi.families.") and name in OF_ITS_KIND
    )


def test_public_signatures_have_types():
    places = [place for function in public_functions() for place in places_of(function)]
    assert len(places) > 1000
    left = [place for place in places if says_nothing(place.annotation, place.module)]
    assert not [f"{place.module}: {place.name}" for place in left if not is_excepted(place)]
    unused = [each for each in EXCEPTIONS if not any(matches(place, each) for place in left)]
    assert not unused


@pytest.mark.parametrize(
    ("annotation", "nothing"),
    [
        (inspect.Signature.empty, True),
        ("Any", True),
        ("Any | None", True),
        ("tuple[Any, ...]", True),
        ("Array", False),
        ("dict[str, Any]", False),
        ("int | None", False),
    ],
)
def test_what_a_type_leaves_open_is_seen(annotation, nothing):
    assert says_nothing(annotation, "sksvi.linear_model._base") is nothing


def test_another_name_of_any_is_seen():
    assert quadrature.Rows is Any
    assert says_nothing("Rows | None", quadrature.__name__)


def test_estimators_say_what_a_fit_leaves_behind():
    """So that editors know them before any fit: attributes of every estimator."""
    for name in sksvi._ATTRIBUTES:
        cls = getattr(sksvi, name)
        if hasattr(cls, "fit"):
            said = {
                key: kind
                for base in reversed(cls.__mro__)
                for key, kind in vars(base).get("__annotations__", {}).items()
            }
            assert said["lower_bound_"] == "float", name
            assert said["converged_"] == "bool", name
            assert said["lower_bounds_"].endswith(("Array", "ndarray")), name
