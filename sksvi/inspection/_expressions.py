"""Linear questions as text: names of effects, numbers, + - * /, brackets, and one comparison; nothing is evaluated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import NoReturn

#: (name, level) of an effect; level None: a name alone.
Name = tuple[str, str | None]

#: Letters that a question has at most, and how deep brackets may stand in brackets.
LONGEST, DEEPEST = 10_000, 50
TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<quoted>`[^`]*`|"[^"]*"|'[^']*')
    |(?P<name>[^\W\d][\w.]*)
    |(?P<power>\*\*|\^)
    |(?P<compare><=|>=|==|!=|<|>|=)
    |(?P<mark>[-+*/()\[\]]))""",
    re.VERBOSE,
)
LEVEL = re.compile(r"\s*(`[^`]*`|\"[^\"]*\"|'[^']*'|[^\[\]]+?)\s*\]")


@dataclass(frozen=True)
class LinearFunction:
    """A linear function of effects: weights by name, and a constant."""

    weights: dict[Name, float]
    constant: float

    def plus(self, other: LinearFunction, sign: float = 1.0) -> LinearFunction:
        """The sum with `sign` times another."""
        names = [*self.weights, *(name for name in other.weights if name not in self.weights)]
        weights = {name: self.weights.get(name, 0.0) + sign * other.weights.get(name, 0.0) for name in names}
        return LinearFunction(weights, self.constant + sign * other.constant)

    def times(self, factor: float) -> LinearFunction:
        """A multiple."""
        return LinearFunction({name: factor * weight for name, weight in self.weights.items()}, factor * self.constant)


@dataclass(frozen=True)
class Comparison:
    """Whether a linear function is positive (``sign=1``), negative (-1), or how large (0: an equation, or no claim)."""

    text: str
    function: LinearFunction
    sign: int


def parsed(text: str) -> Comparison:
    """The comparison that a text makes, both sides on the left.

    Raises
    ------
    ValueError
        Text that is no linear comparison, with where and why.

    Examples
    --------
    >>> from sksvi.inspection._expressions import parsed
    >>> found = parsed("x1 - 2*x2 > 3")
    >>> found.function.weights, found.function.constant, found.sign
    ({('x1', None): 1.0, ('x2', None): -2.0}, -3.0, 1)
    """
    if not isinstance(text, str):
        raise ValueError(f"a hypothesis is text, such as 'x1 - 2*x2 > 0'; found {text!r}.")
    if len(text) > LONGEST:
        raise ValueError(f"a hypothesis has {LONGEST:,} letters at most; found {len(text):,}.")
    reader = _Reader(text)
    left, sign = reader.sum(), 0
    if reader.kind == "compare":
        compare = reader.take()
        if compare == "!=":
            reader.refuse("'!=' is certain of a continuous posterior; ask '=' for the interval")
        sign = {">": 1, "<": -1}.get(compare[0], 0)
        left = left.plus(reader.sum(), -1.0)
    if reader.kind == "compare":
        reader.refuse("there is a second comparison; give each as a hypothesis of its own")
    if reader.kind:
        reader.refuse("an operator is missing; names with blanks go in `quotes`")
    if not any(left.weights.values()):
        reader.refuse("no effect is left in it")
    if not all(map(isfinite, [*left.weights.values(), left.constant])):
        reader.refuse("its numbers are too large")
    return Comparison(text.strip(), left, sign)


class _Reader:
    """Reads a text from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.kind, self.token, self.start = "", "", 0
        self._next()

    def _next(self) -> None:
        rest = self.text[self.at :]
        if not rest.strip():
            self.kind, self.token, self.start = "", "", len(self.text)
            return
        match = TOKEN.match(self.text, self.at)
        self.start = self.at + len(rest) - len(rest.lstrip())
        if match is None:
            self.refuse(f"{self.text[self.start]!r} has no meaning there")
        self.kind, self.token, self.at = str(match.lastgroup), match[match.lastgroup or 0], match.end()

    def refuse(self, why: str) -> NoReturn:
        """Say why the text is no linear question, and where."""
        raise ValueError(
            f"hypothesis {self.text!r} is not linear, or not complete: {why} (at letter {self.start + 1})."
        )

    def take(self) -> str:
        """The token, and on to the next one."""
        token = self.token
        self._next()
        return token

    def sum(self) -> LinearFunction:
        """Terms added or taken away."""
        found = self.product()
        while self.token in ("+", "-") and self.kind == "mark":
            sign = 1.0 if self.take() == "+" else -1.0
            found = found.plus(self.product(), sign)
        return found

    def product(self) -> LinearFunction:
        """Factors, all but one of which are numbers."""
        found = self.factor()
        while self.token in ("*", "/") and self.kind == "mark":
            divides = self.take() == "/"
            other = self.factor()
            if divides and other.weights:
                self.refuse("it divides by an effect")
            if divides and other.constant == 0.0:
                self.refuse("it divides by 0")
            if found.weights and other.weights:
                self.refuse("it multiplies effects by each other")
            if divides:
                found = found.times(1.0 / other.constant)
            else:
                found = found.times(other.constant) if found.weights else other.times(found.constant)
        if self.kind == "power":
            self.refuse("it takes a power")
        return found

    def factor(self) -> LinearFunction:
        """A number, an effect, or what stands in brackets, with signs ahead."""
        sign = 1.0
        while self.token in ("+", "-") and self.kind == "mark":
            sign = -sign if self.take() == "-" else sign
        if self.kind == "number":
            return LinearFunction({}, sign * float(self.take()))
        if self.token == "(":
            return self._bracket().times(sign)
        if self.kind not in ("name", "quoted"):
            self.refuse("a number or an effect is missing")
        return LinearFunction({self._name(): sign}, 0.0)

    def _bracket(self) -> LinearFunction:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"brackets are more than {DEEPEST} deep")
        self.take()
        found = self.sum()
        if self.token != ")":
            self.refuse("a bracket is not closed")
        self.depth -= 1
        self.take()
        return found

    def _name(self) -> Name:
        quoted = self.kind == "quoted"
        name = self.token[1:-1] if quoted else self.token
        if self.text[self.at :].lstrip().startswith("["):
            self.take()
            match = LEVEL.match(self.text, self.at)
            if match is None:
                self.refuse("a level in [...] is missing")
            self.at = match.end()
            self._next()
            level = match[1]
            return name, level[1:-1] if level[0] in "`\"'" and level[-1] == level[0] and len(level) > 1 else level
        self.take()
        if self.token == "(" and not quoted:
            self.refuse(f"{name}(...) is a function")
        return name, None
