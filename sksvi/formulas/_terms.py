"""Parts of a formula: the response, what formulaic makes columns of, smooths, effects of levels, offsets.

formulaic reads tokens and makes columns; of the two packages that know Wilkinson's notation it has stable releases (1.x
since 2024) and other packages of statistics stand on it. It has no terms of groups, so that `(x | g)` is split off
here; formulae, which has them, is at 0.9 and makes a design of its own of them, which the estimators do not need.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: Options of a smooth: what they are called in R, and parameters of `SmoothTransformer`.
SMOOTH_OPTIONS = {"k": "n_basis", "n_basis": "n_basis", "degree": "degree"}
#: Functions of a formula that are no columns of formulaic's.
SMOOTH, PAIR, SURFACE, PROCESS, MAP, OFFSET = "s", "ti", "te", "gp", "mrf", "offset"
ALONE = {SMOOTH, PAIR, SURFACE, PROCESS, MAP, OFFSET}
#: How many columns a term is of, least and most, and its options with the parameters that they are.
VALUED = {PROCESS: ((1, 3), {"kernel": "kernel", "length_scale": "length_scale"}), MAP: ((1, 1), {"k": "n_components"})}


@dataclass(frozen=True)
class SmoothTerm:
    """Smooth, interaction, process or map: text, s, ti, gp or mrf, its variables, a column of levels, options."""

    text: str
    kind: str
    variables: tuple[str, ...]
    by: str | None
    options: dict[str, Any]


@dataclass(frozen=True)
class GroupTerm:
    """Effects of levels: the text, terms with a slope, columns whose levels together group rows, ``|`` or ``||``."""

    text: str
    effects: str
    columns: tuple[str, ...]
    correlated: bool


@dataclass(frozen=True)
class FormulaTerms:
    """The parts of a formula."""

    response: str | None
    fixed: str
    smooths: tuple[SmoothTerm, ...]
    groups: tuple[GroupTerm, ...]
    offsets: tuple[str, ...]


def formulaic() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import formulaic
    except ImportError as error:
        raise ImportError("Formulas need formulaic. Install it with: pip install 'sksvi[formula]'") from error
    return formulaic


def terms_of(formula: str) -> FormulaTerms:
    """The parts of a formula.

    Raises
    ------
    ValueError
        Naming the term that is not understood.
    """
    if not isinstance(formula, str) or not formula.strip():
        raise ValueError(f"formula must be a string such as 'y ~ x + (1 | g)'; found {formula!r}.")
    response, tilde, right = formula.rpartition("~")
    if "~" in response:
        raise ValueError(f"formula {formula!r} has more than one ~.")
    if tilde and not right.strip():
        raise ValueError(f"formula {formula!r} has no term right of the ~: 1 is an intercept alone.")
    fixed, smooths, groups, offsets = [], list[SmoothTerm](), list[GroupTerm](), list[str]()
    for sign, text, tokens in split(right):
        if not text or text == ".":
            what = "a . for all columns: name them" if text else f"a {sign} without a term after it"
            raise ValueError(f"formula {formula!r} has {what}.")
        names = {_function(token) for token in tokens}
        bar = any(str(token) in ("|", "||") for token in tokens)
        if not bar and not names & ALONE:
            fixed.append(f"{sign} {text}")
        elif sign == "-" or (not bar and len(tokens) > 1):
            what = "a group" if bar else "s(), ti(), te(), gp(), mrf() or offset()"
            raise ValueError(f"term {text!r} of the formula: a term with {what} stands alone, after a +.")
        elif bar:
            groups += group_terms(text, tokens)
        elif names & {SMOOTH, PAIR, SURFACE}:
            smooths += smooth_terms(text)
        elif names & set(VALUED):
            smooths.append(valued_term(text))
        else:
            offsets.append(quoted(ast.unparse(_call(text, (1, 1), ()).args[0])))
    twice = [term.text for k, term in enumerate(smooths) if term.text in [one.text for one in smooths[:k]]]
    if twice:
        raise ValueError(f"formula {formula!r} has {twice[0]} twice.")
    return FormulaTerms(response.strip() or None, " ".join(fixed) or "1", tuple(smooths), tuple(groups), tuple(offsets))


def tokens_of(formula: str) -> list[Any]:
    """Tokens of a formula, as formulaic has them."""
    from formulaic.errors import FormulaSyntaxError
    from formulaic.parser.algos.tokenize import tokenize

    try:
        return list(tokenize(formula))
    except FormulaSyntaxError as error:
        raise ValueError(f"formula {formula!r} cannot be read: {str(error).splitlines()[0]}") from error


def _function(token: Any) -> str:
    """Name of the function that a token calls; empty where it is no call."""
    found = re.match(r"\s*(\w+)\s*\(", str(token))
    return found.group(1) if found and token.kind.name == "PYTHON" else ""


def split(formula: str) -> list[tuple[str, str, list[Any]]]:
    """Sign, text and tokens of each term of a sum."""
    parts: list[tuple[str, list[Any]]] = [("+", [])]
    depth = 0
    for token in tokens_of(formula):
        name, kind = str(token), token.kind.name
        depth += (name == "(") - (name == ")") if kind == "CONTEXT" else 0
        if depth == 0 and kind == "OPERATOR" and name in ("+", "-"):
            parts.append((name, []))
        else:
            parts[-1][1].append(token)
    if len(parts) > 1 and not parts[0][1]:  # a sign before the first term
        parts = parts[1:]
    return [(operator, _text(formula, own), own) for operator, own in parts]


def _text(formula: str, tokens: list[Any]) -> str:
    """What stands in the formula from the first token to the last."""
    if not tokens:
        return ""
    end = tokens[-1].source_end + 1
    return formula[tokens[0].source_start : end + (formula[end : end + 1] in ("`", "}"))].strip()


# ---- smooths and offsets
def plain(text: str) -> str:
    """A text whose names in backticks are names as Python has them."""
    return re.sub("`([^`]*)`", lambda found: f"quoted_{found[1].encode().hex()}_", text)


def quoted(text: str) -> str:
    """A text of `plain` with its backticks again."""
    return re.sub("quoted_([0-9a-f]*)_", lambda found: f"`{bytes.fromhex(found[1]).decode()}`", text)


def _call(text: str, numbers: tuple[int, int], options: Any) -> ast.Call:
    """A call of so many arguments, from least to most, with these keywords, as Python reads it."""
    try:
        call = ast.parse(plain(text), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"term {text!r} of the formula is not understood: {error.msg}.") from error
    if not isinstance(call, ast.Call):
        raise ValueError(f"term {text!r} of the formula is not understood: {text.partition('(')[0]}(...) stands alone.")
    least, most = numbers
    if not least <= len(call.args) <= most:
        raise ValueError(
            f"term {text!r} of the formula has {len(call.args)} arguments without a name, and takes "
            f"{least if least == most else f'{least} to {most}'}; surfaces are te(x, z) or gp(x, z)."
        )
    for keyword in call.keywords:
        if keyword.arg not in options:
            takes = f"it takes {', '.join(options)}" if options else "it takes none"
            takes += "; effects of areas of a map are mrf(area)" if keyword.arg == "bs" else ""
            raise ValueError(f"term {text!r} of the formula has {keyword.arg}=, which is not understood: {takes}.")
    return call


def smooth_terms(text: str) -> list[SmoothTerm]:
    """Terms of ``s(age)``, ``s(age, by=sex, k=12)`` or ``ti(age, dose)``; of ``te(age, dose)`` both smooths and ti."""
    kind = text.partition("(")[0].strip()
    call = _call(text, (1, 1) if kind == SMOOTH else (2, 2), ("by", *SMOOTH_OPTIONS))
    by, options = None, dict[str, int]()
    for keyword in call.keywords:
        if keyword.arg == "by":
            if not isinstance(keyword.value, ast.Name):
                raise ValueError(f"term {text!r} of the formula: by= names a categorical column.")
            by = quoted(ast.unparse(keyword.value)).strip("`")
        elif isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is int:
            options[SMOOTH_OPTIONS[str(keyword.arg)]] = keyword.value.value
        else:
            raise ValueError(f"term {text!r} of the formula: {keyword.arg}= must be a whole number.")
    variables = tuple(quoted(ast.unparse(one)) for one in call.args)
    if len(set(variables)) < len(variables):
        raise ValueError(f"term {text!r} of the formula: a surface is of two different columns.")
    kinds = {SMOOTH: [variables], PAIR: [variables], SURFACE: [*((one,) for one in variables), variables]}[kind]
    level = "" if by is None else f", by={by}"
    return [
        SmoothTerm(f"{name}({', '.join(of)}{level})", name, of, by, options)
        for of in kinds
        for name in [SMOOTH if len(of) == 1 else PAIR]
    ]


def valued_term(text: str) -> SmoothTerm:
    """A Gaussian process, ``gp(lon, lat, kernel="matern52", length_scale=0.5)``, or a map, ``mrf(district, k=30)``."""
    kind = text.partition("(")[0].strip()
    numbers, parameters = VALUED[kind]
    call = _call(text, numbers, parameters)
    try:
        options = {parameters[str(keyword.arg)]: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError as error:
        what = " and ".join(f"{name}=" for name in parameters)
        raise ValueError(f"term {text!r} of the formula: {what} must be a text, a number or a list.") from error
    variables = tuple(quoted(ast.unparse(one)) for one in call.args)
    return SmoothTerm(f"{kind}({', '.join(variables)})", kind, variables, None, options)


# ---- groups
def group_terms(text: str, tokens: list[Any]) -> Iterator[GroupTerm]:
    """The terms of ``(1 + x | g)``; of ``g1/g2`` those of g1 and of g1 and g2 together."""
    if str(tokens[0]) != "(" or str(tokens[-1]) != ")":
        raise ValueError(f"term {text!r} of the formula: effects of levels stand in brackets, as (1 + x | g).")
    inner = tokens[1:-1]
    at = [i for i, token in enumerate(inner) if str(token) in ("|", "||")]
    if len(at) != 1 or any(token.kind.name == "CONTEXT" for token in inner):
        raise ValueError(f"term {text!r} of the formula is not understood: it has one | or || and no other brackets.")
    left, right = inner[: at[0]], inner[at[0] + 1 :]
    names, between = [str(token) for token in right[::2]], {str(token) for token in right[1::2]}
    plain = [token.kind.name == "NAME" for token in right[::2]]
    if not left or not names or not all(plain) or len(right) % 2 == 0 or between not in (set(), {"/"}, {":"}):
        raise ValueError(
            f"term {text!r} of the formula is not understood: right of the bar stand names of columns, g, g1:g2 or "
            "g1/g2, and terms left of it."
        )
    shift = tokens[0].source_start
    effects = text[left[0].source_start - shift : inner[at[0]].source_start - shift].strip()
    together = [tuple(names)] if between != {"/"} else [tuple(names[: k + 1]) for k in range(len(names))]
    for columns in together:
        yield GroupTerm(text, effects, columns, str(inner[at[0]]) == "|")
