"""Data sets that come with the package."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from sklearn.utils import Bunch

from sksvi._typing.arrays import DataFrame, Series

if TYPE_CHECKING:
    import numpy as np

#: X and y.
Rows: TypeAlias = "tuple[DataFrame, Series] | tuple[np.ndarray, np.ndarray]"

MONTHS: tuple[str, ...] = ("January", "February", "March", "April", "May", "June", "July")
MONTHS += ("August", "September", "October", "November", "December")
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
BIKE_LEVELS: dict[str, tuple[Any, ...]] = {
    "month": MONTHS,
    "weekday": WEEKDAYS,
    "hour": tuple(range(24)),
    "holiday": ("no", "yes"),
    "weather": ("clear", "mist", "light rain or snow", "heavy rain or snow"),
}
EPILEPSY_LEVELS: dict[str, tuple[Any, ...]] = {"treatment": ("placebo", "progabide"), "subject": tuple(range(1, 60))}
OCCUPATIONS = (
    "armed forces", "clerical", "craft and repair", "farming and fishing", "handlers and cleaners",
    "machine operators", "managers", "other services", "private households", "professionals",
    "protective services", "sales", "technical support", "transport",
)  # fmt: skip
CENSUS_LEVELS: dict[str, tuple[Any, ...]] = {
    "sex": ("man", "woman"),
    "age": ("17-24", "25-34", "35-44", "45-54", "55-64", "65+"),
    "education": ("no high school", "high school", "some college", "bachelor", "graduate"),
    "occupation": OCCUPATIONS,
}
INAUGURAL_LEVELS: dict[str, tuple[Any, ...]] = {"party": ("Democratic", "Republican")}


def _load_frame(name: str, target: str, levels: dict, return_X_y: bool, as_frame: bool) -> Any:
    """Read a data set of the package into scikit-learn's Bunch, or into X and y."""
    import pandas as pd

    package = resources.files("sksvi.datasets")
    with (package / "data" / f"{name}.csv.gz").open("rb") as stream:
        frame = pd.read_csv(stream, compression="gzip")
    for column, values in levels.items():
        frame[column] = pd.Categorical(frame[column], categories=list(values))
    data: Any = frame.drop(columns=target)
    y: Any = frame[target]
    feature_names = list(data.columns)
    if not as_frame:
        data, y = data.to_numpy(dtype=object), y.to_numpy()
    if return_X_y:
        return data, y
    return Bunch(
        data=data,
        target=y,
        frame=frame if as_frame else None,
        feature_names=feature_names,
        categorical_features=[column for column in levels if column != target],
        target_names=[target],
        DESCR=(package / "descr" / f"{name}.md").read_text(encoding="utf-8"),
        filename=f"data/{name}.csv.gz",
    )


@overload
def load_bike_sharing(*, return_X_y: Literal[False] = ..., as_frame: bool = ...) -> Bunch: ...


@overload
def load_bike_sharing(*, return_X_y: Literal[True], as_frame: Literal[True] = ...) -> tuple[DataFrame, Series]: ...


@overload
def load_bike_sharing(*, return_X_y: Literal[True], as_frame: Literal[False]) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def load_bike_sharing(*, return_X_y: bool, as_frame: bool = ...) -> Bunch | Rows: ...


def load_bike_sharing(*, return_X_y: bool = False, as_frame: bool = True) -> Bunch | Rows:
    """Bikes rented in Washington D.C. in every hour of 2011 and 2012: counts with categorical columns.

    ==================   ==============
    Samples total                 17379
    Features                          9
    Categorical                       5
    Target               counts, 1 - 977
    ==================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Give the data as a pandas DataFrame with categorical columns and the target as a Series. If False, they are
        NumPy arrays, the data of dtype object because five columns are labels.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (17379, 9), ``target`` (17379,), ``frame`` (data and target; None unless
        ``as_frame``), ``feature_names``, ``categorical_features``, ``target_names``, ``DESCR`` (columns, units,
        changes to the source, licence) and ``filename`` (inside the package).
    (data, target) : tuple, if ``return_X_y``
        As above.

    Notes
    -----
    Source: UCI Machine Learning Repository, "Bike Sharing", https://doi.org/10.24432/C5W894 (CC BY 4.0), of
    Fanaee-T and Gama (2014), Progress in Artificial Intelligence 2, 113-127.

    Examples
    --------
    >>> from sksvi.datasets import load_bike_sharing
    >>> X, y = load_bike_sharing(return_X_y=True)
    >>> X.shape, int(y.max())
    ((17379, 9), 977)
    >>> X["weather"].cat.categories.tolist()
    ['clear', 'mist', 'light rain or snow', 'heavy rain or snow']
    """
    return _load_frame("bike_sharing", "rentals", BIKE_LEVELS, return_X_y, as_frame)


@overload
def load_epilepsy(*, return_X_y: Literal[False] = ..., as_frame: bool = ...) -> Bunch: ...


@overload
def load_epilepsy(*, return_X_y: Literal[True], as_frame: Literal[True] = ...) -> tuple[DataFrame, Series]: ...


@overload
def load_epilepsy(*, return_X_y: Literal[True], as_frame: Literal[False]) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def load_epilepsy(*, return_X_y: bool, as_frame: bool = ...) -> Bunch | Rows: ...


def load_epilepsy(*, return_X_y: bool = False, as_frame: bool = True) -> Bunch | Rows:
    """Epileptic seizures of 59 patients in four periods of two weeks: counts in groups.

    ==================   ==============
    Samples total                   236
    Features                          5
    Categorical                       2
    Target               counts, 0 - 102
    ==================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Give the data as a pandas DataFrame with categorical columns and the target as a Series. If False, they are
        NumPy arrays, the data of dtype object because one column is labels.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (236, 5), ``target`` (236,), ``frame`` (data and target; None unless
        ``as_frame``), ``feature_names``, ``categorical_features``, ``target_names``, ``DESCR`` (columns, changes to
        the source) and ``filename`` (inside the package).
    (data, target) : tuple, if ``return_X_y``
        As above.

    Notes
    -----
    Source: Thall and Vail (1990), Biometrics 46, 657-671; read from ``epil`` of the R package MASS of Venables and
    Ripley. The four rows of a patient are alike: models treat ``subject`` as a group.

    Examples
    --------
    >>> from sksvi.datasets import load_epilepsy
    >>> X, y = load_epilepsy(return_X_y=True)
    >>> X.shape, int(y.max())
    ((236, 5), 102)
    >>> X["treatment"].cat.categories.tolist()
    ['placebo', 'progabide']
    """
    return _load_frame("epilepsy", "seizures", EPILEPSY_LEVELS, return_X_y, as_frame)


@overload
def load_census_income(*, return_X_y: Literal[False] = ..., as_frame: bool = ...) -> Bunch: ...


@overload
def load_census_income(*, return_X_y: Literal[True], as_frame: Literal[True] = ...) -> tuple[DataFrame, Series]: ...


@overload
def load_census_income(*, return_X_y: Literal[True], as_frame: Literal[False]) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def load_census_income(*, return_X_y: bool, as_frame: bool = ...) -> Bunch | Rows: ...


def load_census_income(*, return_X_y: bool = False, as_frame: bool = True) -> Bunch | Rows:
    """Persons of the census of 1994 by sex, age, education and occupation, and how many earn above 50,000 dollars.

    ==================   ==============
    Samples total                   669
    Features                          5
    Categorical                       4
    Target                  0 - persons
    ==================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Give the data as a pandas DataFrame and the target as a Series, with categorical columns. If False, they
        are NumPy arrays, the data of dtype object because columns are words.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (669, 5), ``target``, ``frame`` (data and target; None unless ``as_frame``),
        ``feature_names``, ``categorical_features``, ``target_names``, ``DESCR`` (columns, changes to the source,
        licence) and ``filename`` (inside the package).
    (data, target) : tuple, if ``return_X_y``
        As above.

    Notes
    -----
    Source: UCI Machine Learning Repository, "Adult", https://doi.org/10.24432/C5XW20 (CC BY 4.0), of Becker and Kohavi
    (1996). ``persons`` is the size of a row's cell, of which the target counts a part.

    Examples
    --------
    >>> from sksvi.datasets import load_census_income
    >>> X, y = load_census_income(return_X_y=True)
    >>> int(X["persons"].sum()), int(y.sum())
    (30162, 7508)
    >>> X["education"].cat.categories.tolist()
    ['no high school', 'high school', 'some college', 'bachelor', 'graduate']
    """
    return _load_frame("census_income", "above_50k", CENSUS_LEVELS, return_X_y, as_frame)


@overload
def load_inaugural(*, return_X_y: Literal[False] = ..., as_frame: bool = ...) -> Bunch: ...


@overload
def load_inaugural(*, return_X_y: Literal[True], as_frame: Literal[True] = ...) -> tuple[DataFrame, Series]: ...


@overload
def load_inaugural(*, return_X_y: Literal[True], as_frame: Literal[False]) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def load_inaugural(*, return_X_y: bool, as_frame: bool = ...) -> Bunch | Rows: ...


def load_inaugural(*, return_X_y: bool = False, as_frame: bool = True) -> Bunch | Rows:
    """Paragraphs of the inaugural addresses of presidents of the United States, 1861 to 2005: texts with columns.

    ==================   ==============
    Samples total                  1175
    Features                          3
    Categorical                       0
    Target                    2 parties
    ==================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Give the data as a pandas DataFrame and the target as a Series, with categories. If False, they
        are NumPy arrays, the data of dtype object because columns are words.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (1175, 3), ``target``, ``frame`` (data and target; None unless ``as_frame``),
        ``feature_names``, ``categorical_features``, ``target_names``, ``DESCR`` (columns, changes to the source,
        licence) and ``filename`` (inside the package).
    (data, target) : tuple, if ``return_X_y``
        As above.

    Notes
    -----
    Source: the C-Span Inaugural Address Corpus of NLTK, compiled by Kathleen Ahrens; the texts are in the public
    domain. Paragraphs of one address are alike: split them by ``year``, not by row.

    Examples
    --------
    >>> from sksvi.datasets import load_inaugural
    >>> X, y = load_inaugural(return_X_y=True)
    >>> X["year"].nunique(), y.cat.categories.tolist()
    (37, ['Democratic', 'Republican'])
    >>> X["text"][X["year"] == 1933].str.contains("fear itself").sum()
    np.int64(1)
    """
    return _load_frame("inaugural", "party", INAUGURAL_LEVELS, return_X_y, as_frame)
