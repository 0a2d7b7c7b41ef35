"""Columns recommended to rows: items to users, from factors of counts."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame, MatrixLike
from sksvi.decomposition._gamma_predictions import GammaPredictions
from sksvi.decomposition._pairs import best
from sksvi.estimators.checks import check_count, check_flag
from sksvi.models.nmf.cells import cells


class ColumnRecommendations(GammaPredictions):
    """Rows of counts are users, columns items; what is absent is 0."""

    #: Column of `recommend` that holds the numbers of rows without an index.
    _row_numbers = "row"

    def recommend(self, X: MatrixLike, n: int = 10, exclude_seen: bool = True) -> DataFrame:
        """The columns with the largest expected counts for some rows: items for users.

        A row need not be one of the fit: its posterior is found from its own counts.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_rows, F)
            Counts of every column, 0 where there was none; NaN in a dense one where a cell is missing.
        n : int, default=10
            Columns per row, fewer where fewer are left.
        exclude_seen : bool, default=True
            Whether to leave out the columns that a row has counts of.

        Returns
        -------
        DataFrame
            row (its index in a DataFrame, else its number), column (its name, else its number), rank, and mean and std
            of its count, Poisson noise included. Of a Dask collection a lazy one, a partition for each of X.
        """
        import pandas as pd

        check_is_fitted(self)
        n, exclude_seen = check_count(n, "n"), check_flag(exclude_seen, "exclude_seen")
        index = getattr(X, "index", None)
        index = None if callable(index) else index  # a list has a method of that name
        X = self._rows(X)
        names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
        found, labels = cells(X), np.arange(X.shape[0]) if index is None else np.asarray(index)
        tables = []
        for rows, mean, variance in self._moments_of(found):
            score = np.where(found.counts[rows].toarray() > 0, -np.inf, mean) if exclude_seen else mean
            of, column, rank = best(score, n)
            own, std = mean[of, column], np.sqrt(mean[of, column] + variance[of, column])
            parts = {"row": labels[rows][of], "column": names[column], "rank": rank, "mean": own, "std": std}
            tables.append(pd.DataFrame(parts))
        return pd.concat(tables, ignore_index=True)
