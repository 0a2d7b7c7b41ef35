"""Rows of a frame as a formula sees them: columns for a linear or mixed model, its response, its offset."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from sksvi._names import own_name
from sksvi._typing.arrays import ArrayLike, DataFrame, PerRow, Series
from sksvi.estimators.tables import framed
from sksvi.formulas._expressions import (
    INTERCEPT,
    FixedColumns,
    arguments_of,
    check_calls,
    check_columns,
    check_value,
    evaluated,
    matrix_of,
    variables_of,
)
from sksvi.formulas._terms import (
    MAP,
    PAIR,
    PROCESS,
    SMOOTH,
    VALUED,
    FormulaTerms,
    GroupTerm,
    SmoothTerm,
    formulaic,
    terms_of,
    tokens_of,
)
from sksvi.preprocessing import HilbertGPTransformer, Neighbours, SmoothTransformer

Array = np.ndarray

#: What the arguments of Surv() are, by their number.
SURVIVAL = {2: ("time", "event"), 3: ("entry", "time", "event")}


class FormulaTransformer(TransformerMixin, BaseEstimator):
    """The columns that a formula makes of a frame.

    Those with coefficients come first, as formulaic makes them (treatment contrasts of categorical columns), then those
    of smooths, then those that group rows, as they are.

    Parameters
    ----------
    formula : str
    maps : dict, optional
        As in :func:`sksvi.formulas.from_formula`.

    Attributes
    ----------
    terms_ : FormulaTerms
        Parts of the formula.
    fixed_ : FixedColumns
        Columns that formulaic makes, with levels, knots and centres.
    effects_ : dict
        Grouping column, or columns as ``g1:g2``, to the effects of its levels: ``"Intercept"`` and columns of slopes.
    correlated_ : bool
        Whether effects of a level are correlated.
    feature_names_in_ : ndarray of str
    n_features_in_ : int

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi.formulas import FormulaTransformer
    >>> data = pd.DataFrame({"y": [1.0, 2.0, 3.0], "x": [0.0, 1.0, 5.0], "z": ["a", "b", "a"]})
    >>> FormulaTransformer("y ~ x * z").fit_transform(data)
         x  z[T.b]  x:z[T.b]
    0  0.0     0.0       0.0
    1  1.0     1.0       1.0
    2  5.0     0.0       0.0
    """

    PARAMETER_LAYOUT = "formula text; expressions FormulaTerms; maps? dict"
    LAYOUT = """
        fixed_ FixedColumns; smooths_ list; smooths_[*] SmoothTransformer/HilbertGPTransformer/Neighbours
        effects_ dict; effects_[*] list; effects_[*][*] text; correlated_ flag; _grouping dict; n_features_in_ count
        _grouping[*] text; feature_names_in_ labels n_features_in_
    """

    def __init__(self, formula: str, maps: Mapping[str, Any] | None = None) -> None:
        self.formula = formula
        self.maps = maps

    def fit(self, X: DataFrame, y: PerRow | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find levels, contrasts and bends of the rows.

        Parameters
        ----------
        X : DataFrame
        y : array-like, optional
            Of the rows, by which length scales of processes are learned.
        sample_weight : array-like of shape (n,), optional
            Of the rows, for smooths and processes.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without formulaic.
        ValueError
            Naming the term that is not understood, the column that X does not have, or values that are missing; a map
            that is not there, is in several parts, or has not the area of a row.
        """
        data, terms = frame_of(X), self._read()
        check_columns(terms.fixed, variables_of(terms.fixed, data), data)
        check_names(terms, data)
        self.fixed_ = FixedColumns.fit(terms.fixed, data)
        odd = set(self.maps or {}) - {term.variables[0].strip("`") for term in terms.smooths if term.kind == MAP}
        if odd:
            raise ValueError(f"maps has one of {min(odd, key=str)!r}, and formula {self.formula!r} no mrf() of it.")
        self.smooths_ = []
        for term in terms.smooths:
            smooth = self._transformer(term).set_output(transform="pandas")
            weight = {"sample_weight": sample_weight} if has_fit_parameter(smooth, "sample_weight") else {}
            self.smooths_.append(smooth.fit(self._smoothed(term, data), y, **weight))
            if term.kind == MAP:
                _check_connected(term, smooth)
        self.terms_, self.effects_, bars = terms, dict[str, list[str]](), set[bool]()
        taken = {*self._coefficients, *itertools.chain(*self._smooth_names)}
        self._grouping = {name: own_name(name, taken) for group in terms.groups for name in group.columns}
        for group in terms.groups:
            name = ":".join(self._grouping[column] for column in group.columns)
            before, own = self.effects_.get(name, []), self._effects(group, data)
            twice = [effect for effect in own if effect in before]
            if twice:
                raise ValueError(
                    f"term {group.text!r} of the formula: levels of {name!r} have {twice[0]} in another term too."
                )
            self.effects_[name] = before + own
            bars |= {group.correlated} if len(own) > 1 else set()
            bars |= {False} if before else set()
        if len(bars) > 1:
            raise ValueError(
                f"formula {self.formula!r} has effects of a level that are correlated, with |, and some that are not, "
                "with || or in a term of their own: one of them is for all groups."
            )
        self.correlated_ = True in bars
        self.feature_names_in_, self.n_features_in_ = np.asarray(data.columns, dtype=object), data.shape[1]
        return self

    def transform(self, X: DataFrame) -> DataFrame:
        """The columns of rows.

        Parameters
        ----------
        X : DataFrame
            With the columns that the formula names, but those of the response.

        Returns
        -------
        DataFrame
            With the index of X.

        Raises
        ------
        ValueError
            For a column that is missing or has missing values, and for a level of a categorical column that no row of
            the fit had. Grouping columns may have both.
        """
        import pandas as pd

        check_is_fitted(self)
        data = frame_of(X)
        check_columns(self.terms_.fixed, self.fixed_.variables, data)
        check_names(self.terms_, data)
        self._check_levels(data)
        parts = [self.fixed_.matrix(data)[self._coefficients].astype(float)]
        for smooth, term, names in zip(self.smooths_, self.terms_.smooths, self._smooth_names, strict=True):
            parts.append(smooth.transform(self._smoothed(term, data)).set_axis(names, axis=1))
        parts += [data[name].rename(own).to_frame() for name, own in self._grouping.items()]
        return pd.concat([pd.DataFrame(part).set_axis(data.index) for part in parts], axis=1)

    def response(self, X: DataFrame) -> DataFrame | Series:
        """What stands left of the ~, for the rows of a frame.

        Parameters
        ----------
        X : DataFrame

        Returns
        -------
        Series, or DataFrame
            Successes and failures of ``cbind(successes, failures)``, counts of each class of ``cbind(a, b, c)``; of
            ``Surv(time, event)`` and ``Surv(entry, time, event)`` columns of these names.

        Raises
        ------
        ValueError
            For a formula without a response, or a call that is none of these.
        """
        import pandas as pd

        text, data = self._read().response, frame_of(X)
        if text is None:
            raise ValueError(f"formula {self.formula!r} has no response: write it left of a ~, or give y.")
        name, arguments = arguments_of(text)
        if name not in ("cbind", "Surv"):
            return evaluated(text, data)
        if (name == "cbind" and len(arguments) < 2) or (name == "Surv" and len(arguments) not in SURVIVAL):
            raise ValueError(
                f"response {text!r} of the formula is not understood: give cbind(successes, failures), "
                "cbind(a, b, c) of counts by class, Surv(time, event) or Surv(entry, time, event)."
            )
        names = SURVIVAL[len(arguments)] if name == "Surv" else [argument.strip("`") for argument in arguments]
        columns = [evaluated(argument, data).to_numpy() for argument in arguments]
        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=data.index)

    def offset_of(self, X: DataFrame) -> Array | None:
        """Sum of the offsets of rows, (n,); None where the formula has none.

        Parameters
        ----------
        X : DataFrame
        """
        offsets, data = self._read().offsets, frame_of(X)
        return np.sum([evaluated(text, data).to_numpy(float) for text in offsets], axis=0) if offsets else None

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored: the formula has the names.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = [*self._coefficients, *itertools.chain(*self._smooth_names), *self._grouping.values()]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string, tags.no_validation = False, True, True
        return tags

    def _read(self) -> FormulaTerms:
        formulaic()
        return terms_of(self.formula)

    @cached_property
    def terms_(self) -> FormulaTerms:
        """Parts of the formula; those of the fit, but in what a file holds, which has the text."""
        return self._read()

    @property
    def expressions(self) -> FormulaTerms:
        """Parts of the formula; ValueError where an expression is more than files may hold."""
        terms = self._read()
        name, arguments = arguments_of(terms.response or "1")
        response = arguments if name in ("cbind", "Surv") else [terms.response or "1"]
        for text in (*response, *terms.offsets, *(of for smooth in terms.smooths for of in smooth.variables)):
            check_value(text)
        for text in (terms.fixed, *(group.effects for group in terms.groups)):
            check_calls(tokens_of(text))
        return terms

    @property
    def has_intercept(self) -> bool:
        """Whether f has an intercept."""
        return INTERCEPT in self.fixed_.names

    @property
    def smooth_keys(self) -> list[str]:
        """Patterns of the names of columns that share a precision: bends, one for each smooth and level, processes."""
        keys = []
        for term, names in zip(self.terms_.smooths, self._smooth_names, strict=True):
            ends = [name.removesuffix("_linear") + "_s*" for name in names if name.endswith("_linear")]
            keys += [f"{term.text}_*"] if term.kind in VALUED else ends
        return ["".join(f"[{letter}]" if letter in "[?" else letter for letter in key) for key in keys]

    @property
    def _smooth_names(self) -> list[list[str]]:
        """Names of the columns of each smooth."""
        found = []
        for term, smooth in zip(self.terms_.smooths, self.smooths_, strict=True):
            names = smooth.get_feature_names_out().tolist()
            if term.kind in VALUED:
                names = [f"{term.text}_{k}" for k in range(1, len(names) + 1)]
            elif term.kind == PAIR:
                names = [term.text + name.removeprefix(":".join(term.variables)) for name in names]
            found.append(names)
        return found

    @property
    def _coefficients(self) -> list[str]:
        """Columns that formulaic makes, but the intercept."""
        return [name for name in self.fixed_.names if name != INTERCEPT]

    def _transformer(self, term: SmoothTerm) -> Any:
        """What makes the columns of a smooth, process or map."""
        if term.kind == PROCESS:
            return HilbertGPTransformer(**term.options)
        if term.kind != MAP:
            return SmoothTransformer(by=term.by, interaction=term.kind == PAIR, **term.options)
        area, maps = term.variables[0].strip("`"), self.maps or {}
        if area not in maps:
            raise ValueError(
                f"term {term.text!r} of the formula: maps has no map of {area!r}: give the neighbours of each area, "
                f"maps={{{area!r}: neighbours}}, as Neighbours takes them."
            )
        return Neighbours(maps[area], **term.options)

    def _smoothed(self, term: Any, data: Any) -> Any:
        """What a smooth is of, under the name of its term, or a pair or process, and the levels that it is by."""
        import pandas as pd

        names = [term.text] if term.kind == SMOOTH else term.variables
        found = pd.DataFrame({name: evaluated(of, data) for name, of in zip(names, term.variables, strict=True)})
        return found if term.by is None else found.assign(**{term.by: data[term.by]})

    def _effects(self, group: GroupTerm, data: Any) -> list[str]:
        """Effects of a level: its intercept, and columns of slopes, which are among the fixed ones."""

        def parts(name: str) -> tuple[str, ...]:
            return tuple(sorted(name.split(":")))

        fixed, effects = {parts(name): name for name in self._coefficients}, []
        check_columns(group.text, variables_of(group.effects, data), data)
        for name in matrix_of(formulaic().Formula(group.effects), data, group.text).columns:
            if name != INTERCEPT and parts(name) not in fixed:
                raise ValueError(
                    f"term {group.text!r} of the formula: {name} varies between levels about an effect of all of them: "
                    "add it to the terms outside of brackets; of a categorical column with 0 + there and in the "
                    "bracket, or in neither."
                )
            effects.append(fixed.get(parts(name), INTERCEPT))
        return effects

    def _check_levels(self, data: Any) -> None:
        """ValueError for a level of a categorical column that the fit did not have."""
        for name, levels in self.fixed_.levels.items():
            if not levels or name not in data.columns:
                continue
            new = ~data[name].isin(levels) & data[name].notna()
            if new.any():
                raise ValueError(
                    f"column {name!r} has level {data[name][new].iloc[0]!r}, which no row of the fit had: it had "
                    f"{levels}. Declare levels by a categorical type before the fit, or write (1 | {name}), "
                    "whose new levels have an effect of their own."
                )


def _check_connected(term: SmoothTerm, smooth: Neighbours) -> None:
    """ValueError for a map in several parts, whose levels the term would not have."""
    part = smooth.component_
    if part.max() > 0:
        first, other = (smooth.areas_[int(np.argmax(part == k))] for k in (0, 1))
        raise ValueError(
            f"term {term.text!r} of the formula: the map is in {part.max() + 1} parts, areas like {first!r} and like "
            f"{other!r} without neighbours between them: join them by a weight, or use Neighbours in a pipeline, which "
            "says what it does then."
        )


def frame_of(X: Any) -> Any:
    """X as a pandas frame."""
    X = framed(X)
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        raise ValueError(f"data must be a DataFrame with the columns that the formula names; found {type(X).__name__}.")
    return X


def check_names(terms: FormulaTerms, data: Any) -> None:
    """ValueError for a name in a smooth or group that is no column, and for values of a smooth that are missing."""
    for term in terms.smooths:
        named = set().union(*(variables_of(f"{{{variable}}}", data) for variable in term.variables))
        check_columns(term.text, named | ({term.by} if term.by else set()), data)
    for group in terms.groups:
        check_columns(group.text, group.columns, data, missing=True)
