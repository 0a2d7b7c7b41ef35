"""Covariates of documents, such as their author's party or their date: what a fit fixes of them, and their effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from sksvi._typing.arrays import DataFrame
from sksvi.estimators.categories import CategoricalColumns, by_type, plain
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.summaries import columns_of_draws
from sksvi.estimators.tables import Levels, codes_of, column_of, framed
from sksvi.estimators.validation import check_table
from sksvi.models.data import Table
from sksvi.models.topics.documents import DocumentCounts
from sksvi.partitions.summary import DataSummary
from sksvi.topics._encoding import Vocabulary

Array = np.ndarray

#: Pairs of opposite draws of log odds that expected proportions are averages over.
NODES = 128
#: What an error advises where a column holds what is no number.
REMEDY = "give numbers, text or categories"


def covariate_frame(covariates: Any, n: int) -> DataFrame:
    """Covariates as a frame with a row per document.

    Raises
    ------
    ValueError
        Another number of rows, names that are not distinct strings, or a missing value.
    """
    import pandas as pd

    given = framed(covariates)
    frame = given.to_frame() if isinstance(given, pd.Series) else pd.DataFrame(given)
    if not hasattr(given, "iloc"):
        frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    if len(frame) != n:
        raise ValueError(f"covariates has {len(frame)} rows and X has {n} documents: give one row per document.")
    names = list(frame.columns)
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"covariates has the columns {names}: they must be one or more, with names that differ.")
    for name in names:
        if (gaps := frame[name].isna().to_numpy()).any():
            raise ValueError(
                f"covariates: column {name!r} is missing in {int(gaps.sum())} rows, first in row {int(gaps.argmax())}: "
                "fill it in, or leave these documents out."
            )
    return frame


@dataclass(frozen=True)
class Covariates:
    """Columns that topic proportions depend on, categorical ones as indicators of all levels but the first.

    Parameters
    ----------
    columns : list of str
    categories : CategoricalColumns or None
    centre, scale : ndarray of shape (D,)
        Mean and standard deviation of each number or indicator, which the prior of its effects is relative to.
    """

    LAYOUT = "columns items c; columns[*] text; categories? CategoricalColumns; centre (d) f; scale (d) f >0"

    columns: list[str]
    categories: CategoricalColumns | None
    centre: Array
    scale: Array

    @classmethod
    def of(cls, frame: DataFrame) -> Covariates:
        """What these rows fix.

        Raises
        ------
        ValueError
            A column, or a level, that does not vary.
        """
        columns, at = list(frame.columns), by_type(frame)
        levels = [Levels.of_column(plain(column_of(frame, j)), f"column {columns[j]!r} of covariates") for j in at]
        categories = None
        if at:
            categories = CategoricalColumns(len(columns), at, [one.names for one in levels], [False] * len(at), True)
        found = cls(columns, categories, np.zeros(0), np.ones(0))
        numbers = found.numbers(frame)
        still = np.flatnonzero(np.ptp(numbers, axis=0) == 0) if len(numbers) else np.arange(numbers.shape[1])
        if len(still) or not numbers.shape[1]:
            name = found.names[still[0]] if len(still) else columns[0]
            raise ValueError(
                f"covariates: {name!r} has the same value in all documents, so that it has no effect to be found: "
                "leave the column or the level out."
            )
        return replace(found, centre=numbers.mean(0), scale=numbers.std(0))

    @property
    def names(self) -> list[str]:
        """Names of the effects: a column of numbers, or a column and a level."""
        return list(self.columns) if self.categories is None else self.categories.names(self.columns)

    def differences(self, column: str) -> tuple[list[str], Array]:
        """All pairs of levels of a categorical column, and their effects' combinations of coefficients (pairs, D).

        Raises
        ------
        ValueError
            Where the fit has no such categorical column.
        """
        categories = self.categories
        at: dict[str, Any] = {}
        if categories is not None:
            at = dict(zip([self.columns[j] for j in categories.columns], categories.labels, strict=True))
        if column not in at:
            raise ValueError(f"contrast={column!r} is no categorical column of the fit, which has {list(at)}.")
        names, labels = self.names, at[column]
        of = np.array([[float(name == f"{column}_{level}") for name in names] for level in labels])
        pairs = [(a, b) for b in range(len(labels)) for a in range(b + 1, len(labels))]
        return [f"{column}: {labels[a]} - {labels[b]}" for a, b in pairs], np.array([of[a] - of[b] for a, b in pairs])

    def numbers(self, frame: DataFrame) -> Array:
        """Numbers and indicators (n, D) of the rows."""
        options: dict[str, Any] = {"dtype": np.float64, "ensure_min_samples": 0, "name": "covariates"}
        if self.categories is None:
            return np.asarray(check_table(frame, REMEDY, **options))
        for j, levels in zip(self.categories.columns, self.categories.levels, strict=True):
            column = plain(column_of(frame, j))
            if (new := codes_of(column, levels)[0] < 0).any():
                raise ValueError(
                    f"covariates: column {self.columns[j]!r} has {column[new].iloc[0]!r} in row {int(new.argmax())}; "
                    f"the fit knows {levels.tolist()}."
                )
        found = self.categories.applied(frame, REMEDY)
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, float)

    def design(self, covariates: Any, n: int) -> Array:
        """Standardised columns (n, D) of documents; without covariates all zeros, which is the mean.

        Raises
        ------
        ValueError
            Naming the column that is missing, or not known.
        """
        if covariates is None:
            return np.zeros((n, len(self.centre)))
        frame = covariate_frame(covariates, n)
        lacking = [name for name in self.columns if name not in frame.columns]
        others = [name for name in frame.columns if name not in self.columns]
        if lacking or others:
            raise ValueError(
                f"covariates has the columns {list(frame.columns)}, and the fit had {self.columns}: give these."
            )
        return (self.numbers(frame[self.columns]) - self.centre) / self.scale


@dataclass(frozen=True)
class GivenDocuments(Table):
    """Counts of documents as they were read, and their covariates as a frame, or None."""

    covariates: Any = None


@dataclass(frozen=True)
class StructuralVocabulary(Vocabulary):
    """Words of documents, and the covariates that their topics depend on.

    Parameters
    ----------
    n_words, words
        As of `Vocabulary`.
    covariates : Covariates or None
    """

    LAYOUT = Vocabulary.LAYOUT + "; covariates? Covariates"

    covariates: Covariates | None = None

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Counts of documents, with their covariates.

        Raises
        ------
        ValueError
            Covariates where the fit before had none, or none where it had some.
        """
        rows = super().read(estimator, given, fixed, part)
        if fixed is not None and (fixed.covariates is None) != (given.y is None):
            before, now = ("without", "has") if fixed.covariates is None else ("with", "has no")
            raise ValueError(
                f"{type(estimator).__name__} was fitted {before} covariates and goes on with documents, and this call "
                f"{now} covariates: fit anew with warm_start=False; partial_fit takes none."
            )
        frame = None if given.y is None else covariate_frame(given.y, len(rows))
        return GivenDocuments(rows.X, rows.y, covariates=frame)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Any) -> dict[str, Any]:
        """Number of documents without words, and what these covariates fix."""
        beside = {} if rows.covariates is None else {"covariates": Covariates.of(rows.covariates)}
        return {**super().own_summary(estimator, rows), **beside}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The words of the documents, and their covariates."""
        return replace(super().fit(estimator, summary), covariates=summary.own.get("covariates"))

    def encode(self, estimator: Any, rows: Any, part: Part) -> Table:
        """Counts beside the design of their covariates."""
        if self.covariates is None:
            return Table(rows.X, rows.y)
        return Table(DocumentCounts.of(rows.X, self.covariates.design(rows.covariates, len(rows))), rows.y)


# ---- effects
def centred(log_odds: Array) -> Array:
    """Log odds (..., K - 1) against the last topic as log proportions less their mean over topics (..., K)."""
    full = np.concatenate([log_odds, np.zeros((*log_odds.shape[:-1], 1))], axis=-1)
    return np.asarray(full - full.mean(-1, keepdims=True))


def mean_proportions(draws: dict[str, Array], design: Array) -> Array:
    """E softmax(η, 0) of documents with this design (n, D) at each draw of the regression, (R, n, K)."""
    z = np.random.default_rng(0).standard_normal((NODES, draws["location"].shape[1]))
    z = np.concatenate([z, -z])
    means = draws["location"][:, None] + design @ draws["slopes"]
    noise = z @ np.linalg.inv(np.linalg.cholesky(draws["precision"]))
    full = np.stack(
        [
            softmax(np.pad(mean[:, None] + own, ((0, 0), (0, 0), (0, 1))), -1).mean(1)
            for mean, own in zip(means, noise, strict=True)
        ]
    )
    return np.asarray(full)


def effect_table(effects: Array, topics: Any, names: list[str], tail: float) -> DataFrame:
    """Mean, std and interval of draws of effects (R, D, K), by topic and covariate."""
    import pandas as pd

    index = pd.MultiIndex.from_product([topics, names], names=["topic", "covariate"])
    return pd.DataFrame(columns_of_draws(np.swapaxes(effects, 1, 2).reshape(len(effects), -1), tail), index=index)
