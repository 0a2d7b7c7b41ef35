"""Mutation testing: small changes to the code of families, steps, likelihoods, quadrature and persistence, by chance.

    python -m pip install cosmic-ray
    SKSVI_MUTANTS=100 python -m benchmarks hostile.mutants      # of each group

Every mutant (an operator, a number, a comparison, a keyword, a branch changed in one place; drawn evenly over all of
its group's) is met by its group's own tests, a minute or so; the rest of the suite may kill what they let pass. A
mutant whose syntax tree differs in annotations and docstrings alone is no mutant and is drawn again. Survivors are
listed with their change.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._lib import HERE
from benchmarks._lib.tables import arguments, progress, report

#: Run by its own name only: a thousand runs of tests.
STORED = True
ROOT = HERE.parent
#: What is mutated, and the tests that should notice first.
GROUPS = {
    "families": (
        ["sksvi/families"],
        ["tests/families", "tests/contracts/test_families.py", "tests/contracts/test_properties.py"],
    ),
    "steps": (
        ["sksvi/algorithms", "sksvi/schedules.py"],
        ["tests/algorithms", "tests/contracts/test_algorithms_x_models.py", "tests/contracts/test_exact.py"],
    ),
    "likelihoods": (
        ["sksvi/likelihoods"],
        ["tests/likelihoods", "tests/contracts/test_likelihoods.py", "tests/contracts/test_properties.py"],
    ),
    "quadrature": (
        ["sksvi/integrals", "sksvi/expectations"],
        ["tests/expectations", "tests/contracts/test_likelihoods.py", "tests/predictive"],
    ),
    "persistence": (["sksvi/persistence"], ["tests/persistence"]),
}
#: Mutants per group, and the same when quick.
MUTANTS, FEW = int(os.environ.get("SKSVI_MUTANTS", "100")), 2
#: Not among them: removed decorators (properties, which everything notices, and compilers, which nothing should), and
#: operators that no number knows, which raise wherever they stand and would flatter the count.
ARITHMETIC = r"ReplaceBinaryOperator_(Add|Sub|Mul|Div|Pow|FloorDiv|Mod)_(Add|Sub|Mul|Div)"
ORDER = r"ReplaceComparisonOperator_(Lt|LtE|Gt|GtE|Eq|NotEq)_(Lt|LtE|Gt|GtE|Eq|NotEq)"
IDENTITY = r"ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)"
UNARY = r"ReplaceUnaryOperator_(USub_UAdd|Delete_USub|Delete_Not)"
WORDS = r"ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot"
LOOPS = r"ReplaceBreakWithContinue|ReplaceContinueWithBreak|ZeroIterationForLoop|NumberReplacer"
TAKEN = re.compile("|".join([ARITHMETIC, ORDER, IDENTITY, UNARY, WORDS, LOOPS]))
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", "-m", "not exhaustive")
#: Seconds after which tests count as failed: a loop without end is noticed by whoever runs it.
LIMIT = 900


class Mutant(NamedTuple):
    """One change: where, by what, and the text of the file with it."""

    path: str
    operator: str
    text: str


def places(folders: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Every (file, operator, occurrence) there is."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    names = [name for name in cosmic_ray.plugins.operator_names() if TAKEN.fullmatch(name.removeprefix("core/"))]
    operators = {name: cosmic_ray.plugins.get_operator(name) for name in names}
    for folder in folders:
        found = ROOT / folder
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            nodes = list(ast_nodes(get_ast(path.read_text())))
            for name, operator in operators.items():
                count = sum(1 for node in nodes for _ in operator().mutation_positions(node))
                yield from ((str(path.relative_to(ROOT)), name, occurrence) for occurrence in range(count))


def meaning(text: str) -> str:
    """The syntax tree without annotations and docstrings."""

    class Bare(ast.NodeTransformer):
        def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
            node.annotation = ast.Constant(None)
            return self.generic_visit(node)

        def visit_arg(self, node: ast.arg) -> Any:
            node.annotation = None
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
            node.returns = None
            return self.generic_visit(node)

        def visit_Expr(self, node: ast.Expr) -> Any:
            return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    return ast.dump(Bare().visit(ast.parse(text)))


def mutants(folders: Sequence[str], n: int, rng: np.random.Generator) -> Iterator[Mutant]:
    """Some n of all, by chance."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    every = list(places(folders))
    for k in rng.permutation(len(every)):
        path, name, occurrence = every[k]
        before = (ROOT / path).read_text()
        text = mutate_code(before, cosmic_ray.plugins.get_operator(name)(), occurrence)
        if text is None or meaning(text) == meaning(before):
            continue
        yield Mutant(path, name.removeprefix("core/"), text)
        n -= 1
        if n == 0:
            return


def survives(tree: Path, tests: Sequence[str], limit: float) -> bool:
    """Whether these tests pass in a copy of the project."""
    environment = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
    environment.setdefault("SKSVI_DATA", str(ROOT.parent / "shared" / "data"))
    try:
        ended = subprocess.run([*PYTEST, *tests], cwd=tree, env=environment, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False
    if ended.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest did not run: {ended.stdout.decode()[-2000:]} {ended.stderr.decode()[-2000:]}")
    return ended.returncode == 0


def change(mutant: Mutant) -> str:
    """The lines that a mutant changes."""
    before = (ROOT / mutant.path).read_text().splitlines()
    lines = difflib.unified_diff(before, mutant.text.splitlines(), n=0, lineterm="")
    return " ".join(line[0] + line[1:].strip() for line in list(lines)[2:] if line[0] in "+-")


def main(quick: bool = False) -> None:
    rng = np.random.default_rng(0)
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignore = shutil.ignore_patterns(".*", "__pycache__", "_build")
        shutil.copytree(ROOT, tree, ignore=ignore)
        for name, (folders, tests) in GROUPS.items():
            if not survives(tree, tests, LIMIT):
                raise RuntimeError(f"the tests of {name} fail without any mutant")
            counts = {"mutants": 0, "killed": 0, "survived": 0}
            for mutant in mutants(folders, FEW if quick else MUTANTS, rng):
                counts["mutants"] += 1
                (tree / mutant.path).write_text(mutant.text)
                if survives(tree, tests, LIMIT):
                    counts["survived"] += 1
                    notes.append(f"{mutant.path}, {mutant.operator}: `{change(mutant)}`")
                else:
                    counts["killed"] += 1
                (tree / mutant.path).write_text((ROOT / mutant.path).read_text())
                progress({"group": name, **counts})
            rows.append({"group": name, **counts, "survived (%)": 100.0 * counts["survived"] / counts["mutants"]})
    report("hostile/mutants", "Mutants and the tests that met them", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
