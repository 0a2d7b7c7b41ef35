"""Effects of areas that resemble their neighbours: eigenvectors of a map's Laplacian as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.estimators.tables import as_table, codes_of, column_of
from sksvi.estimators.validation import validate_data

Array = np.ndarray


def read_map(adjacency: Any, areas: Any) -> tuple[Array, sp.csr_array]:
    """Areas (n,) and weights (n, n) of their neighbours, checked."""
    matrix = not isinstance(adjacency, Mapping) and not hasattr(adjacency, "iloc")
    if matrix and areas is None:
        raise ValueError("adjacency is a matrix without names: give areas, the id of each of its rows.")
    if not matrix and areas is not None:
        raise ValueError(
            f"areas is for a matrix, and adjacency is a {type(adjacency).__name__}, which has them itself."
        )
    if isinstance(adjacency, Mapping):
        ids = distinct(list(adjacency), "adjacency")
        weights = weights_of_lists(adjacency, ids)
    elif hasattr(adjacency, "iloc"):
        ids, columns = distinct(adjacency.index, "adjacency"), distinct(adjacency.columns, "adjacency")
        order = columns.get_indexer(ids)
        if len(ids) != len(columns) or np.any(order < 0):
            odd = [*ids.difference(columns, sort=False), *columns.difference(ids, sort=False)][0]
            raise ValueError(f"adjacency: area {odd!r} is not in both its index and its columns.")
        weights = sp.csr_array(adjacency.to_numpy(dtype=float)[:, order])
    else:
        ids, weights = distinct(list(areas), "areas"), sp.csr_array(adjacency, dtype=float)
        if weights.shape != (len(ids), len(ids)):
            raise ValueError(f"adjacency has shape {weights.shape}, and areas names {len(ids)} rows and columns.")
    check_weights(weights, ids)
    return ids.to_numpy(), weights


def distinct(areas: Any, name: str) -> Any:
    """Ids as an Index of objects, none of them missing or given twice."""
    import pandas as pd

    ids = pd.Index(areas, dtype=object)
    if not len(ids) or ids.hasnans:
        raise ValueError(f"{name}: {'an area has no id' if len(ids) else 'there is no area'}.")
    if not ids.is_unique:
        raise ValueError(f"{name}: area {ids[ids.duplicated()][0]!r} is there twice.")
    return ids


def weights_of_lists(neighbours: Mapping[Any, Any], ids: Any) -> sp.csr_array:
    """Weights of 1 of the areas that are listed."""
    rows, columns = [], []
    for i, (area, listed) in enumerate(neighbours.items()):
        own = distinct(list(listed), f"adjacency, neighbours of {area!r}") if len(listed) else []
        codes = ids.get_indexer(own)
        if np.any(codes < 0):
            raise ValueError(f"adjacency: {own[int(np.argmin(codes))]!r}, a neighbour of {area!r}, is no area of it.")
        rows += [i] * len(codes)
        columns += list(codes)
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(ids), len(ids)))


def check_weights(weights: sp.csr_array, ids: Any) -> None:
    """Refuse weights that are not those of an undirected graph."""
    if not np.all(np.isfinite(weights.data) & (weights.data >= 0.0)):
        bad = weights.data[~(np.isfinite(weights.data) & (weights.data >= 0.0))][0]
        raise ValueError(f"adjacency: weights of neighbours are positive, of others 0; found {bad:g}.")
    loops = weights.diagonal() != 0.0
    if loops.any():
        raise ValueError(f"adjacency: area {ids[int(np.argmax(loops))]!r} is a neighbour of itself: leave that out.")
    one_way = (weights - weights.T).tocoo()
    if np.any(one_way.data):
        at = int(np.argmax(one_way.data != 0.0))
        i, j = one_way.row[at], one_way.col[at]
        raise ValueError(
            f"adjacency is not symmetric: {ids[j]!r} is a neighbour of {ids[i]!r} with weight {weights[i, j]:g}, and "
            f"{ids[i]!r} of {ids[j]!r} with {weights[j, i]:g}. Give both the same."
        )


def scaled_vectors(weights: Array) -> Array:
    """V / √(λ s) of a connected map (a, a), s such that the geometric mean of its rows' squared lengths is 1."""
    if len(weights) == 1:
        return np.ones((1, 1))
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=0)) - weights)
    vectors = vectors[:, 1:] / np.sqrt(values[1:])
    sizes = np.abs(vectors)
    # The first of the largest entries is positive; those of a symmetric map differ by rounding.
    first = np.argmax(sizes > (1.0 - 1e-6) * sizes.max(axis=0), axis=0)
    vectors *= np.sign(vectors[first, np.arange(len(first))])
    return vectors / np.exp(0.5 * np.mean(np.log(np.sum(np.square(vectors), axis=1))))


class Neighbours(TransformerMixin, BaseEstimator):
    """Effects of areas that resemble their neighbours, as columns for a linear model.

    With independent standard normal coefficients the sum of the columns is an intrinsic conditional autoregression
    (Besag, York and Mollié 1991): an effect u of each area with density ∝ exp(-s/2 Σ w_ij (u_i - u_j)²) over pairs of
    neighbours, which sums to zero. Columns are eigenvectors of the Laplacian of the map over the root of s times their
    eigenvalue, but for the constant one, and go from the smoothest to the roughest. s makes the geometric mean of the
    variances of u 1 (Sørbye and Rue 2014), so that scales of different maps compare.

    The lengths of the columns are the prior: do not standardise them, and learn their scale τ by
    ``prior_precision={"district_*": "auto"}``. That the areas resemble each other is an assumption, and effects
    v ~ N(0, σ²) of their own belong beside it: ``GMERegressor(groups=["district"])``. Together they are the model of
    Besag, York and Mollié, τ u + v. BYM2 (Riebler et al. 2016) is the same model in the coordinates √(τ² + σ²), the
    standard deviation of both together, and φ = τ² / (τ² + σ²), the share of the map; its priors are of these two,
    those here are of τ and σ.

    Parameters
    ----------
    adjacency : DataFrame, mapping, sparse matrix or array of shape (n_areas, n_areas)
        The map: a symmetric table of weights w (1: neighbours, 0: not) with areas as index and columns; a mapping of
        each area to the list of its neighbours; or a matrix, with `areas`. Areas without rows may be among them, and
        get predictions.

    areas : array-like of shape (n_areas,), default=None
        Ids of the rows of a matrix.

    n_components : int, default=None
        How many columns, the smoothest first; None: all, as many as areas less connected parts of several areas. Fewer
        are cheaper for maps of many areas, and leave out the prior variance of the others.

    Attributes
    ----------
    areas_ : ndarray of shape (n_areas,)
        Ids, in the order of the map.

    component_ : ndarray of shape (n_areas,)
        Number of the connected part that each area belongs to, from 0.

    basis_ : ndarray of shape (n_areas, n_columns)
        The columns of every area.

    n_features_in_ : int

    feature_names_in_ : ndarray of str
        Only where X had names.

    Notes
    -----
    Of a map in several parts each has columns of its own, which sum to zero in it, and its own s. An area without
    neighbours has a column of its own, u ~ N(0, 1), so that prior variances are alike on islands and elsewhere (both
    after Freni-Sterrantino et al. 2018). All parts share τ, and the intercept: where levels of parts of several areas
    may differ, as Freni-Sterrantino et al. let them, give the model the part as a categorical column too.

    Eigenvectors are those of dense matrices, part by part: time grows with the cube of the areas of a part.

    References
    ----------
    J. Besag, J. York and A. Mollié (1991). Bayesian image restoration, with two applications in spatial statistics.
    Annals of the Institute of Statistical Mathematics 43(1).

    A. Freni-Sterrantino, M. Ventrucci and H. Rue (2018). A note on intrinsic conditional autoregressive models for
    disconnected graphs. Spatial and Spatio-temporal Epidemiology 26.

    A. Riebler, S. H. Sørbye, D. Simpson and H. Rue (2016). An intuitive Bayesian spatial model for disease mapping that
    accounts for scaling. Statistical Methods in Medical Research 25(4).

    S. H. Sørbye and H. Rue (2014). Scaling intrinsic Gaussian Markov random field priors in spatial modelling. Spatial
    Statistics 8.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sksvi import GMERegressor
    >>> from sksvi.preprocessing import Neighbours
    >>> road = {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"]}
    >>> X = pd.DataFrame({"district": list("abcd") * 5})
    >>> Neighbours(road).set_output(transform="pandas").fit_transform(X).iloc[:4].round(2)
       district_1  district_2  district_3
    0        1.13        0.47       -0.19
    1        0.47       -0.47        0.47
    2       -0.47       -0.47       -0.47
    3       -1.13        0.47        0.19

    Beside effects of the districts' own, with people at risk as exposure:

    >>> y = np.random.default_rng(0).poisson(np.tile([30.0, 20.0, 15.0, 10.0], 5))
    >>> columns = make_column_transformer(
    ...     (Neighbours(road), ["district"]), ("passthrough", ["district"]), verbose_feature_names_out=False
    ... ).set_output(transform="pandas")
    >>> prior = {"district_*": "auto"}
    >>> effects = GMERegressor(likelihood="poisson", groups="district", noise=False, prior_precision=prior)
    >>> model = make_pipeline(columns, effects).fit(X, y, gmeregressor__exposure=np.full(20, 10.0))
    >>> bool(np.all(np.diff(model.predict(X.iloc[:4], exposure=10.0)) < 0.0))
    True
    """

    LAYOUT = "n_features_in_ count; areas_ labels a; component_ (a) i >=0; basis_ (a,_) f"
    _parameter_constraints: dict[str, list[Any]] = {
        "adjacency": [Mapping, "array-like", "sparse matrix"],
        "areas": ["array-like", None],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        adjacency: MatrixLike | Mapping[Any, Sequence[Any]],
        areas: ArrayLike | None = None,
        n_components: int | None = None,
    ) -> None:
        self.adjacency = adjacency
        self.areas = areas
        self.n_components = n_components

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: object = None) -> Self:
        """Find the columns of every area of the map.

        Parameters
        ----------
        X : array-like of shape (n, 1)
            An area of each row.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming areas of the map that are there twice, are no areas, are neighbours of themselves or one way alone;
            or a row of X without an area of the map.
        """
        areas, weights = read_map(self.adjacency, self.areas)
        self._codes(X, areas, True)
        _, component = connected_components(weights, directed=False)
        parts = [np.flatnonzero(component == k) for k in range(component.max() + 1)]
        vectors = [scaled_vectors(weights[own][:, own].toarray()) for own in parts]
        basis = block_diag(*vectors)[np.argsort(np.concatenate(parts))]
        if self.n_components is not None and self.n_components > basis.shape[1]:
            raise ValueError(f"n_components={self.n_components} is more than the {basis.shape[1]} columns of the map.")
        order = np.argsort(-np.sum(np.square(basis), axis=0), kind="stable")[: self.n_components]
        self.areas_, self.component_, self.basis_ = areas, component, basis[:, order]
        return self

    def transform(self, X: MatrixLike) -> Array:
        """The columns of each row's area.

        Parameters
        ----------
        X : array-like of shape (n, 1)

        Returns
        -------
        ndarray of shape (n, n_columns)
            A DataFrame after ``set_output(transform="pandas")``.

        Raises
        ------
        ValueError
            For a row without an area, or with one that is not on the map.
        """
        check_is_fitted(self)
        return self.basis_[self._codes(X, self.areas_, False)]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Names of the columns: ``district_1``, ``district_2``, …

        Parameters
        ----------
        input_features : array-like of str, optional
            Name of the column of X where it had none; else x0.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        name = _check_feature_names_in(self, input_features)[0]
        return np.array([f"{name}_{k}" for k in range(1, self.basis_.shape[1] + 1)], dtype=object)

    def _codes(self, X: Any, areas: Array, fresh: bool) -> Array:
        """Position on the map of the area of each row (n,)."""
        table = as_table(X)
        if table.shape[1] != 1:
            raise ValueError(
                f"X has {table.shape[1]} features, and Neighbours takes 1, the area of each row: name it in a "
                "ColumnTransformer."
            )
        validate_data(self, table, skip_check_array=True, reset=fresh)
        column = column_of(table, 0)
        codes, missing = codes_of(column, areas)
        name = _check_feature_names_in(self)[0]
        if missing.any():
            raise ValueError(f"column {name!r} of X: row {int(np.argmax(missing))} has no area. Leave it out.")
        if np.any(codes < 0):
            raise ValueError(
                f"column {name!r} of X: {column.iloc[int(np.argmin(codes))]!r} is not on the map, which has "
                f"{len(areas)} areas: {', '.join(map(repr, areas[:5]))}{', …' if len(areas) > 5 else ''}."
            )
        return codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        # scikit-learn's own checks bring real numbers, which are no areas.
        tags.input_tags.two_d_array = False
        return tags
