"""Linear questions to the posterior: how probable, how large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.inspection._answers import LinearMixture, ResponseDraws, intervals_table
from sksvi.inspection._changed_rows import ChangedRowMeans, frame_of, with_column
from sksvi.inspection._contrasts import checked_draws
from sksvi.inspection._effects import differences
from sksvi.inspection._expressions import Comparison, Name, parsed
from sksvi.inspection._grid import levels_of
from sksvi.predictive.wrappers import with_names

Array = np.ndarray


@dataclass(frozen=True)
class Hypothesis:
    """Linear questions and what the posterior says of each.

    Parameters
    ----------
    table : DataFrame
        A row per hypothesis (and class): mean, std, lower, upper of the left side less the right one,
        simultaneous_lower and simultaneous_upper, probability that it holds and evidence_ratio, its odds; NaN for an
        equation.
    scale : {"link", "response"}
        Of the effects.
    effects : {"own", "joint"}
        Whether they are under a weak prior of their own.
    coverage : float
        Of the intervals.
    """

    table: DataFrame
    scale: str
    effects: str
    coverage: float

    def _only(self, name: str) -> float:
        if len(self.table) > 1:
            raise AttributeError(f"there are {len(self.table)} hypotheses: see the column {name!r} of table.")
        return float(self.table[name].iloc[0])

    @property
    def estimate(self) -> float:
        """Posterior mean of the left side less the right one."""
        return self._only("mean")

    @property
    def interval(self) -> tuple[float, float]:
        """Equal-tailed interval."""
        return self._only("lower"), self._only("upper")

    @property
    def probability(self) -> float:
        """Posterior probability that it holds."""
        return self._only("probability")

    @property
    def evidence_ratio(self) -> float:
        """Posterior odds that it holds."""
        return self._only("evidence_ratio")

    def __str__(self) -> str:
        prior = "under a weak prior of their own" if self.effects == "own" else "under the joint posterior"
        text = self.table.to_string(float_format=lambda value: f"{value:.4g}", na_rep="")
        return f"Left side less right side on the {self.scale} scale, {prior}; {100 * self.coverage:g} %\n{text}"

    __repr__ = __str__


def hypothesis(
    model: BaseEstimator,
    hypotheses: str | Sequence[str],
    *,
    X: MatrixLike | None = None,
    scale: str = "link",
    reference: object = None,
    effects: str | None = None,
    coverage: float = 0.9,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> Hypothesis:
    """Probability, size and interval of linear combinations of effects, such as ``"x1 - 2*x2 > 0"``.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects, or a Pipeline or search around one, whose effects are then named as
        `sksvi.summary` names them.
    hypotheses : str or sequence of str
        Names of effects as `summary` shows them, or ``plan[T]`` for a level of a categorical column, which stands for
        its difference from the first level; names with blanks or signs in `` ` ``, ``'`` or ``"``. Numbers, + - * / and
        brackets; then > or < and another side, or = for the interval alone.
    X : {DataFrame, array-like} of shape (n, D), default=None
        Rows over which effects on the response scale are averaged, which need it.
    scale : {"link", "response"}, default="link"
        Effects on the latent f, or on the mean of y: slopes and differences as of `marginal_effects`.
    reference : label, default=None
        For more than two classes, on the link scale: the class that others are compared with, as in `summary`.
    effects : {"own", "joint"}, default=None
        "own": the effects of all hypotheses are a set under weak priors of its own. None: as in `summary`.
    coverage : float, default=0.9
        Of the equal-tailed intervals, one by one and of all hypotheses of a class together.
    offset, exposure : array-like of shape (n,), default=None
        On the response scale, as in `marginal_effects`.
    n_draws : int, default=2000
        Of the response scale, at least 2.
    random_state : int, RandomState or None, default=0
        Of these draws.

    Returns
    -------
    Hypothesis

    Raises
    ------
    TypeError
        Of a model without coefficients.
    ValueError
        What is not linear, and why; an effect that is not there; an intercept on the response scale.

    See Also
    --------
    contrasts : All differences between levels of a column.

    Notes
    -----
    An equation has posterior probability 0 under a density: it has an interval and no probability. A probability is
    that of one question; of several nothing is corrected but simultaneous_lower and simultaneous_upper, as those of
    `contrasts`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import hypothesis
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["x1", "x2"])
    >>> model = BayesianGLMRegressor().fit(X, 4 * X["x1"] + X["x2"] + rng.normal(size=100))
    >>> found = hypothesis(model, "x1 - 2*x2 > 0")
    >>> print(f"{found.estimate:.0f} {found.probability:.2f}")
    2 1.00
    """
    n_draws = checked_draws(n_draws, coverage, scale, effects)
    given = [hypotheses] if isinstance(hypotheses, str) else list(hypotheses)
    statements = [parsed(text) for text in given]
    if not statements:
        raise ValueError("hypotheses is empty: give at least one.")
    answers = ChangedRowMeans(model, n_draws, drawn_seed(random_state), offset, exposure)
    if not hasattr(answers.inner, "_linear_effects"):
        raise TypeError(
            f"{type(answers.inner).__name__} has no coefficients to combine: hypotheses are of linear models."
        )
    found: Any = (
        _linear(model, statements, effects, reference)
        if scale == "link"
        else _response(answers, X, statements, effects)
    )
    index = pd.Index([one.text for one in statements], name="hypothesis")
    table = intervals_table(found, 1, coverage, index).drop(columns="direction")
    table = table.assign(**_probabilities(found, statements))
    return Hypothesis(table, scale, "own" if found.own else "joint", coverage)


def _probabilities(found: Any, statements: list[Comparison]) -> dict[str, Array]:
    """Probability that each statement holds, class by class, and its odds; NaN of equations."""
    sign = np.tile([float(one.sign) for one in statements], len(found.classes))
    positive = np.concatenate([found.positive(c) for c in range(len(found.classes))])
    probability = np.select([sign > 0, sign < 0], [positive, 1.0 - positive], np.nan)
    with np.errstate(divide="ignore"):
        return {"probability": probability, "evidence_ratio": probability / (1.0 - probability)}


def _linear(model: Any, statements: list[Comparison], effects: str | None, reference: Any) -> LinearMixture:
    """Combinations of coefficients."""
    ask, names = with_names(model)._linear_effects, _names(statements)
    rows = _weights(statements, names) @ ask.named_rows(names)
    for one, row in zip(statements, rows, strict=True):
        if not row.any():
            raise ValueError(f"hypothesis {one.text!r} compares a first level with itself: no effect is left in it.")
    return LinearMixture(ask.combinations(rows, effects, reference)).plus(_constants(statements))


def _response(answers: ChangedRowMeans, X: Any, statements: list[Comparison], effects: str | None) -> ResponseDraws:
    """Combinations of average slopes and differences of the mean of y, draw by draw."""
    if X is None:
        raise ValueError("X is needed: effects on the response scale are averages over rows; give those of the fit.")
    (table, named), names = frame_of(X), _names(statements)
    pairs = [_changed(answers, table, named, *name) for name in names]
    effect = answers.effect_of_all([(low, high) for low, high, _ in pairs], effects)
    group = (np.zeros(len(table), int), 1, None, effect)
    found = [
        np.subtract(*(answers.averages(end, *group)[0] for end in (high, low))) / unit for low, high, unit in pairs
    ]
    draws = np.einsum("rn,nsc->scr", _weights(statements, names), np.array(found))
    return ResponseDraws(draws, list(answers.names), effect is not None).plus(_constants(statements))


def _changed(answers: ChangedRowMeans, table: Any, named: bool, name: str, level: str | None) -> tuple[Any, Any, float]:
    """Rows at either end of an effect, and how far the column moves."""
    columns = {str(column): column for column in table.columns}
    if level is None and name not in columns:
        split = [(own, name[len(own) + 1 :]) for own in columns if name.startswith(f"{own}_")]
        name, level = split[0] if split else (name, level)
    if name not in columns:
        raise ValueError(f"{name!r} is no column of X, whose columns are {list(columns)[:20]}.")
    feature = columns[name]
    parts = list(differences(answers, table, feature, named))
    if level is not None:
        first = levels_of(table[feature])[0]
        parts = [part for part in parts if part[0] == f"{level} - {first}"]
    if len(parts) != 1:
        there = [str(value) for value in levels_of(table[feature])[1:]]
        raise ValueError(f"column {name!r} has the effects {[f'{name}[{value}]' for value in there[:20]]}: name one.")
    _, low, high, unit = parts[0]
    return with_column(table, feature, low, named), with_column(table, feature, high, named), unit


def _names(statements: list[Comparison]) -> list[Name]:
    """Effects of all, each once."""
    return list(dict.fromkeys(name for one in statements for name in one.function.weights))


def _weights(statements: list[Comparison], names: list[Name]) -> Array:
    """(hypotheses, names)."""
    return np.array([[one.function.weights.get(name, 0.0) for name in names] for one in statements])


def _constants(statements: list[Comparison]) -> Array:
    return np.array([one.function.constant for one in statements])
