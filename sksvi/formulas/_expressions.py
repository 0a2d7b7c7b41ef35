"""Values of a formula's expressions and its fixed columns, for the rows of a frame.

formulaic evaluates expressions as Python. Files hold formulas whose expressions are arithmetic of columns and calls of
the functions listed here, so that reading one and predicting by it runs no code of its author's.
"""

from __future__ import annotations

import ast
import copy
import difflib
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sksvi.estimators.checks import LEAST_SPREAD
from sksvi.formulas._terms import formulaic, plain, quoted, tokens_of

INTERCEPT = "Intercept"
#: Functions of formulaic in expressions that files may hold, and the contrasts that C() takes.
FUNCTIONS = set("log log10 log2 exp exp10 exp2 abs I bs cc cr cs center scale standardize poly lag hashed C Q".split())
CONTRASTS = set("Treatment Poly Sum Helmert Diff treatment poly sum helmert diff SAS".split())
#: Functions and numbers of NumPy beside its ufuncs.
OF_NUMPY = {"where", "clip", "round", "isin", "pi", "e", "inf", "nan"}
#: Largest whole number among the options of a function: knots, degrees, levels.
MOST = 10_000
#: Standard deviations from 0 beyond which a column makes its products and powers nearly multiples of other columns.
FAR = 5.0


@dataclass(frozen=True)
class FixedColumns:
    """The columns of fixed effects, and what was found for them in the rows of the fit.

    Parameters
    ----------
    terms : list of str
        Terms that are added, each written out.
    variables : list of str
        Columns of the frame that they are of.
    names : list of str
        Columns that they make, the intercept among them.
    states : dict
        Of each call of a function that learns from rows (knots, centres), by its text.
    levels : dict
        Of each factor, by its text, the levels; None: it is a number.
    """

    LAYOUT = """
        terms list; variables list; names list; states dict; levels dict
        terms[*] text; variables[*] text; names[*] text; states[*] dict; levels[*]? list; written
    """

    terms: list[str]
    variables: list[str]
    names: list[str]
    states: dict[str, Any]
    levels: dict[str, list[Any] | None]

    @classmethod
    def fit(cls, text: str, data: Any) -> Self:
        """The columns of a formula without a response, for the rows of a frame."""
        with in_words(text):
            formula = formulaic().Formula(text)
        spec = matrix_of(formula, data, text).model_spec
        numerical = formulaic().parser.types.Factor.Kind.NUMERICAL
        levels = {
            name: None if kind is numerical else list(state.get("categories", []))
            for name, (kind, state) in spec.encoder_state.items()
        }
        variables = sorted(variables_of(text, data))
        return cls(
            [_written(term) for term in formula], variables, list(spec.column_names), spec.transform_state, levels
        )

    def matrix(self, data: Any) -> Any:
        """The columns of rows (n, m), as a frame."""
        kinds = formulaic().parser.types.Factor.Kind
        states = {
            name: (kinds.NUMERICAL, {}) if own is None else (kinds.CATEGORICAL, {"categories": own} if own else {})
            for name, own in self.levels.items()
        }
        spec = formulaic().ModelSpec(
            formulaic().Formula(self.terms), transform_state=copy.deepcopy(self.states), encoder_state=states
        )
        return matrix_of(spec, data, " + ".join(self.terms))[self.names]

    def far_from_zero(self, data: Any) -> Iterator[tuple[str, str, float]]:
        """Products and powers, a number in each that is far from 0 in these rows, and by how many deviations."""
        for term in formulaic().Formula(self.terms):
            numbers = [_marked(factor) for factor in term.factors if self.levels.get(factor.expr, ()) is None]
            powers = [f"`{name}`" for name in self.variables if re.search(rf"\b{re.escape(name)}`?\s*\*\*", str(term))]
            for name in numbers if len(term.factors) > 1 else powers:
                values = np.asarray(matrix_of(formulaic().Formula(f"0 + {name}"), data, name), float)
                off = np.min(np.abs(values.mean(axis=0)) / np.maximum(values.std(axis=0), LEAST_SPREAD))
                if off > FAR and len(np.unique(values)) > 2:
                    yield str(term), re.sub(r"^`(\w+)`$", r"\1", name.strip("{}")), float(off)

    @property
    def written(self) -> list[str]:
        """The terms; ValueError unless each is a product of columns and expressions that files may hold."""
        for term in self.terms:
            tokens = tokens_of(term)
            if any(token.kind.name in ("CONTEXT", "OPERATOR") and str(token) != ":" for token in tokens):
                raise ValueError(f"{term!r} is more than one term")
            check_calls(tokens)
        return self.terms


def _written(term: Any) -> str:
    """A term as formulaic reads it again."""
    return ":".join(map(_marked, term.factors))


def _marked(factor: Any) -> str:
    """A factor of a term as formulaic reads it again."""
    marks = {"lookup": "`{}`", "python": "{{{}}}", "literal": "{}"}
    return marks[factor.eval_method.value].format(factor.expr)


# ---- names and values
def check_columns(text: str, names: Iterable[str], data: Any, missing: bool = False) -> None:
    """ValueError for a name that is no column, and, unless `missing` ones are allowed, for values that are missing."""
    for name in sorted(names):
        if name not in data.columns:
            if f"{name}(" in text.replace(" ", ""):
                raise ValueError(f"term {name}(...) of the formula is not understood: there is no such function.")
            close = difflib.get_close_matches(name, [str(column) for column in data.columns], 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"{name!r} of the formula is no column of data{hint}, which has {list(data.columns)}.")
        if not missing and data[name].isna().any():
            row = int(np.argmax(data[name].isna()))
            raise ValueError(
                f"column {name!r} of data has no value in row {row}: fill it in, or leave out the rows that lack it "
                f"(data.dropna(subset=[{name!r}]))."
            )


def variables_of(text: str, data: Any) -> set[str]:
    """Names in a formula or expression that stand for columns: with a dot, a column's name or an attribute of one."""
    whole = text.strip("{`} ")
    if whole in data.columns:
        return {whole}
    with in_words(text):
        terms = list(formulaic().Formula(plain(text)))
    names = [name for term in terms for factor in term.factors for name in factor.required_variables]
    found = {quoted(str(name)).strip("`"): quoted(str(name.root)).strip("`") for name in names}
    return {name if name in data.columns else root for name, root in found.items()}


def matrix_of(formula: Any, data: Any, text: str) -> Any:
    """The matrix of a formula, or of one that was fitted, without what it may have to say about levels."""
    with in_words(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return formula.get_model_matrix(data, context={}, na_action="raise", output="pandas")


def evaluated(text: str, data: Any) -> Any:
    """A column by name, or the values of an expression, as a Series with the index of the frame."""
    import pandas as pd

    name = text.strip("` ")
    if name in data.columns:
        return data[name]
    check_columns(text, variables_of(f"{{{text}}}", data), data, missing=True)
    with in_words(text):
        found = formulaic().Formula(_as_number(text)).get_model_matrix(data, context={}, na_action="ignore")
    return pd.Series(np.asarray(found)[:, 0], index=data.index, name=text)


def _as_number(text: str) -> str:
    """A formula of an expression; of truth values it has numbers, which formulaic would take for categories."""
    return f"0 + {{1 * ({text})}}"


@contextmanager
def in_words(text: str) -> Iterator[None]:
    """Context in which what formulaic cannot read or compute is a ValueError that names the text."""
    try:
        yield
    except formulaic().errors.FormulaicError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{text.lstrip('+ ')!r} of the formula is not understood: {first}") from error


def arguments_of(text: str) -> tuple[str, list[str]]:
    """Name of a call and texts of its arguments; no name where the text is none."""
    try:
        call = ast.parse(plain(text), mode="eval").body
    except SyntaxError:
        return "", []
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return "", []
    return call.func.id, [
        quoted(ast.unparse(one)) for one in (*call.args, *(keyword.value for keyword in call.keywords))
    ]


# ---- expressions that files may hold
def check_value(text: str) -> None:
    """ValueError unless `evaluated` computes no more of this text than files may hold."""
    tokens = tokens_of(_as_number(text))
    if [token.kind.name for token in tokens] != ["VALUE", "OPERATOR", "PYTHON"]:
        raise ValueError(f"{text!r} is more than one expression")
    check_calls(tokens)


def check_calls(tokens: list[Any]) -> None:
    """ValueError for an expression among the tokens of a formula that is more than files may hold."""
    from formulaic.utils.code import sanitize_variable_names

    for text in (str(token) for token in tokens if token.kind.name == "PYTHON"):
        try:
            node = ast.parse(sanitize_variable_names(text, {}, {}), mode="eval").body
        except (SyntaxError, IndexError, RecursionError) as error:
            raise ValueError(f"{text!r} cannot be read") from error
        odd = next((part for part in ast.walk(node) if not _is_arithmetic(part)), None)
        if odd is not None:
            raise ValueError(
                f"{text!r} has {ast.unparse(odd)!r}, which is neither arithmetic of columns nor a function that files "
                "know: compute it as a column first"
            )


def _is_arithmetic(node: ast.AST) -> bool:
    """Whether a node of an expression, without those in it, is one that files may hold."""
    if isinstance(node, ast.Call):
        return _is_call(node)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and _is_listed(node.value.id, node.attr)
    if isinstance(node, ast.Name):
        return not node.id.startswith("__")
    if isinstance(node, ast.BinOp):
        sides = node.left, node.right
        repeated = any(isinstance(one, ast.List | ast.Tuple) or type(getattr(one, "value", 0)) is str for one in sides)
        huge = isinstance(node.op, ast.Pow | ast.LShift) and not any(
            isinstance(one, ast.Name) for one in ast.walk(node)
        )
        return not (repeated or huge)
    plain = ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Constant, ast.List, ast.Tuple, ast.keyword
    return isinstance(node, (*plain, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context))


def _is_listed(module: str, name: str) -> bool:
    """Whether a function of NumPy or a contrast is one that files know."""
    of_numpy = module == "np" and (name in OF_NUMPY or isinstance(getattr(np, name, None), np.ufunc))
    return of_numpy or (module == "contr" and name in CONTRASTS)


def _is_call(node: ast.Call) -> bool:
    """Whether a function is called that files know, with options that are written out and of moderate size."""
    options = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "np":
        return not node.keywords
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if name not in FUNCTIONS | CONTRASTS or any((keyword.arg or "_").startswith("_") for keyword in node.keywords):
        return False
    parts = [part for option in options for part in ast.walk(option)]
    computed = ast.BinOp, ast.Compare, ast.BoolOp, ast.Starred
    numbers = [part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is int]
    return not any(isinstance(part, computed) for part in parts) and all(abs(number) <= MOST for number in numbers)
