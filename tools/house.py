"""The size and the seams of the package in numbers, each with a limit that a change may not exceed.

    python tools/house.py            # print every number beside its limit; exits with 1 if one is above

A number above its limit is a reason to look for the simpler way first. Who raises a limit says why in the commit; who
gets below one lowers it.
"""

from __future__ import annotations

import ast
import inspect
import io
import itertools
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sksvi"
STORED = ROOT / "tests" / "persistence" / "golden"

#: Most that there may be of each.
LIMITS = {
    "files": 454,
    "lines of code": 61_860,
    "functions of more than 40 lines": 26,
    "names that inference reads off a model": 27,
    "names of Likelihood": 54,
    "writes to a model from outside": 0,
    "definitions of template methods": 12,
    "class names that stand for several classes": 10,
    "modules in import circles, type checking included": 0,
    "names in words that say nothing": 2,
    "names with words that none has": 0,
    "docstrings that cannot stand alone": 0,
    "our classes in an estimator's MRO": 6,
    "private attributes of a fitted estimator": 4,
    "files that a fit of a GLM enters": 74,
    "changes of file among a GLM's own classes": 21,
}

#: Names that no statistician and no contributor to scikit-learn would look for.
VAGUE = {
    "said", "told", "known", "kept", "held", "seen", "heard", "past", "met", "sure", "far", "near", "looked", "joined",
    "parted", "asked", "reached", "came", "begun",
}  # fmt: skip
#: Words that no name has, alone or among others.
NEVER = re.compile(r"(^|_)(said|told|past|kept|strangers|findings|of_rows)(_|$)", re.IGNORECASE)
#: First words of a docstring that go on from another one.
LEANING = re.compile(r"(Of|Those|That|These|The same|What is|Whose)\b")
#: Methods that an estimator overrides to steer the training of its base.
TEMPLATE = {"_batch_size", "_continued", "_new_state", "_problem", "_run"}
#: Expressions that are a model.
MODELS = {"model", "problem.model", "self.model"}
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


def docstring(node: ast.AST) -> ast.Constant | None:
    """The node of a docstring."""
    if isinstance(node, Documented) and node.body and isinstance(node.body[0], ast.Expr):
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value
    return None


def docstring_lines(node: ast.AST) -> set[int]:
    """Line numbers of a node's docstring."""
    text = docstring(node)
    return set() if text is None else set(range(text.lineno, (text.end_lineno or text.lineno) + 1))


def code_lines(source: str, tree: ast.Module) -> int:
    """Number of lines that hold code: no docstring, no comment, not blank."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        lines -= docstring_lines(node)
    return len(lines)


def length(function: Function) -> int:
    """Lines of a function without its docstring."""
    return (function.end_lineno or function.lineno) - function.lineno + 1 - len(docstring_lines(function))


def names(node: ast.AST) -> Iterator[str]:
    """Names that a node gives to a function, its parameters, or a variable."""
    if isinstance(node, Function):
        yield node.name
        arguments = node.args
        yield from (one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def imports(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """Modules of the package that a module imports, for type checkers too, but for imports inside functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from {inner if inner in modules else node.module} & modules
        elif not isinstance(node, Function | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def in_circles(edges: dict[str, set[str]]) -> int:
    """Number of modules that import themselves by way of others."""
    reachable: dict[str, set[str]] = {}
    for start in edges:
        found, waiting = set[str](), [*edges[start]]
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting.extend(edges[module])
        reachable[start] = found
    return sum(module in found for module, found in reachable.items())


def names_of(path: Path, name: str) -> set[str]:
    """Names that the body of a class defines: attributes, properties and methods, dunders left out."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (body,) = (node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        found |= {node.name} if isinstance(node, Function) else set()
    return {one for one in found if not one.startswith("__")}


def counted() -> dict[str, int]:
    """Every number that the syntax trees give."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    count: Counter[str] = Counter(files=len(sources))
    classes, asked, edges = defaultdict(set), set(), {}
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in trees}
    for module, path in modules.items():
        edges[module] = set(imports(trees[path], set(modules))) - {module}
        count["lines of code"] += code_lines(sources[path], trees[path])
        for node in ast.walk(trees[path]):
            text = docstring(node)
            count["docstrings that cannot stand alone"] += bool(text and LEANING.match(str(text.value).strip()))
            count["names in words that say nothing"] += sum(name in VAGUE for name in names(node))
            count["names with words that none has"] += sum(bool(NEVER.search(name)) for name in names(node))
            if isinstance(node, Function):
                count["functions of more than 40 lines"] += length(node) > 40
            elif isinstance(node, ast.ClassDef):
                classes[node.name].add(path)
                own = (part.name for part in node.body if isinstance(part, Function))
                count["definitions of template methods"] += sum(name in TEMPLATE for name in own)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in MODELS:
                if "inference" in path.parts and not node.attr.startswith("__"):
                    asked.add(node.attr)
                outside = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self.model"
                count["writes to a model from outside"] += outside
    count["class names that stand for several classes"] = sum(len(paths) > 1 for paths in classes.values())
    count["names of Likelihood"] = len(names_of(PACKAGE / "likelihoods" / "base.py", "Likelihood"))
    count["names that inference reads off a model"] = len(asked)
    count["modules in import circles, type checking included"] = in_circles(edges)
    return dict(count)


def measured() -> dict[str, int]:
    """Every number that classes and stored fits, one or more of each estimator, give."""
    from sklearn.base import BaseEstimator

    import sksvi

    public = [getattr(sksvi, name) for name in sksvi.__all__]
    estimators = [one for one in public if inspect.isclass(one) and issubclass(one, BaseEstimator)]
    depth = max(sum(base.__module__.startswith("sksvi") for base in one.__mro__) for one in estimators)
    fits = [sksvi.load(path) for path in sorted(STORED.rglob("*.sksvi"))]
    private = max(sum(name.startswith("_") for name in vars(fit)) for fit in fits)
    return {"our classes in an estimator's MRO": depth, "private attributes of a fitted estimator": private}


def walked() -> dict[str, int]:
    """Files that a second fit of a GLM enters, and changes of file among the methods of its own classes."""
    import numpy as np

    import sksvi

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y, model = rng.poisson(np.exp(0.3 * X[:, 0])), sksvi.BayesianGLMRegressor(likelihood="poisson")
    model.fit(X, y)
    own = {inspect.getfile(base) for base in type(model).__mro__ if base.__module__.startswith("sksvi")}
    files: set[str] = set()
    among: list[str] = []

    def enter(frame: Any, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and str(PACKAGE) in path:
            files.add(path)
            if path in own and isinstance(frame.f_locals.get("self"), type(model)):
                among.append(path)

    sys.setprofile(enter)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in itertools.pairwise(among))
    return {"files that a fit of a GLM enters": len(files), "changes of file among a GLM's own classes": changes}


def main() -> int:
    """Print every number beside its limit."""
    sys.path.insert(0, str(ROOT))
    numbers = {**counted(), **measured(), **walked()}
    above = [name for name, limit in LIMITS.items() if numbers[name] > limit]
    for name, limit in LIMITS.items():
        print(f"{name:52} {numbers[name]:7,} of {limit:7,}{'  ABOVE ITS LIMIT' if name in above else ''}")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
