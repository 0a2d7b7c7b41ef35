"""Small changes to source files, drawn by chance, each always the same for its seed."""

from __future__ import annotations

import ast
import difflib
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks._lib import HERE

ROOT = HERE.parent
#: Not among them: decorators (properties, which everything notices, and compilers, which nothing should), and operators
#: that no number knows, which raise wherever they stand and would flatter the count.
ARITHMETIC = r"ReplaceBinaryOperator_(Add|Sub|Mul|Div|Pow|FloorDiv|Mod)_(Add|Sub|Mul|Div)"
ORDER = r"ReplaceComparisonOperator_(Lt|LtE|Gt|GtE|Eq|NotEq)_(Lt|LtE|Gt|GtE|Eq|NotEq)"
IDENTITY = r"ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)"
UNARY = r"ReplaceUnaryOperator_(USub_UAdd|Delete_USub|Delete_Not)"
WORDS = r"ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot"
LOOPS = r"ReplaceBreakWithContinue|ReplaceContinueWithBreak|ZeroIterationForLoop|NumberReplacer"
TAKEN = re.compile("|".join([ARITHMETIC, ORDER, IDENTITY, UNARY, WORDS, LOOPS]))


class Mutant(NamedTuple):
    """One change: of which file, by what, the how manieth of its kind there, and the text of the file with it."""

    path: str
    operator: str
    place: int
    text: str

    @property
    def change(self) -> str:
        """The lines that it changes."""
        before = (ROOT / self.path).read_text().splitlines()
        lines = difflib.unified_diff(before, self.text.splitlines(), n=0, lineterm="")
        return " ".join(line[0] + line[1:].strip() for line in list(lines)[2:] if line[0] in "+-")


def drawn(folders: Sequence[str], seed: int) -> Iterator[Mutant]:
    """Every mutant, in an order by chance in which those of a file do not depend on the other files."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    def chance(place: tuple[str, str, int]) -> bytes:
        return hashlib.sha256(f"{seed} {place}".encode()).digest()

    for path, name, place in sorted(places(folders), key=chance):
        before = (ROOT / path).read_text()
        text = mutate_code(before, cosmic_ray.plugins.get_operator(f"core/{name}")(), place)
        if text is not None and meaning(text) != meaning(before):
            yield Mutant(path, name, place, text)


def places(folders: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Every (file, operator, occurrence) there is."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    names = [name.removeprefix("core/") for name in cosmic_ray.plugins.operator_names()]
    operators = {name: cosmic_ray.plugins.get_operator(f"core/{name}") for name in names if TAKEN.fullmatch(name)}
    for folder in folders:
        found = ROOT / folder
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            nodes = list(ast_nodes(get_ast(path.read_text())))
            for name, operator in operators.items():
                count = sum(1 for node in nodes for _ in operator().mutation_positions(node))
                yield from ((str(path.relative_to(ROOT)), name, occurrence) for occurrence in range(count))


class _Silent(ast.NodeTransformer):
    """Without docstrings."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)


class _Bare(_Silent):
    """Nor annotations and decorators: what they say is for compilers and caches."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns, node.decorator_list = None, []
        return self.generic_visit(node)


@functools.lru_cache(maxsize=64)
def meaning(text: str, decorators: bool = False) -> str:
    """The syntax tree without docstrings; without annotations and decorators, too, unless asked for."""
    return ast.dump((_Silent() if decorators else _Bare()).visit(ast.parse(text)))
