"""A fit in a page of text: what it is, how it ended, and its table rounded by how uncertain the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._names import apart
from sksvi.estimators.summaries import COLUMNS, RATIOS

Array = np.ndarray

#: Rows that are printed at most, those of them that are the table's last, and the longest label.
MOST_ROWS, LAST_ROWS, LONGEST = 40, 10, 40
#: Significant digits of a standard deviation, and of a number that has none.
DIGITS, OF_POINTS = 2, 3
#: Decimals beyond those of the middle row, and digits of the largest number, that a column has at most: rows that ask
#: for more have numbers of their own. Numbers from which on exponents are shown.
BEYOND, WIDE, LARGE = 2, 8, 1e8
#: Standard deviations in a 90 % interval, whose length stands for the spread of a ratio.
LENGTH = 3.3
#: Relative distance from a whole number that sums of weights have by rounding.
ROUNDING = 1e-9
POINT = "-"


class Page(str):
    """Text that a prompt or a notebook shows as it is printed, line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


def summary_text(estimator: Any, coverage: float, rows: dict[str, Any], options: dict[str, Any]) -> str:
    """Text of a fit: a header about the data and the fit, and its table.

    Parameters
    ----------
    estimator : fitted estimator
    coverage : float
    rows : dict
        Arguments of `score`; X and y None: the score of the fit, where it has one.
    options : dict
        Of `summary`.
    """
    table = estimator.summary(coverage=coverage, **options)
    header = [*estimator._data_header(), *fit_header(estimator)]
    name, score = estimator._score_name, estimator._record.score
    if rows["X"] is not None or rows["y"] is not None:
        X, y, *_ = rows.values()
        beside = {key: value for key, value in rows.items() if key not in ("X", "y") and value is not None}
        header.append((name, f"{estimator.score(X, y, **beside):.4f}"))
    elif score is not None:
        value, n = score
        header.append(
            (name, f"{value:.4f}" + ("" if n < estimator._most_scored else f" (of {counted(n)} of the rows)"))
        )
    header.append(("intervals", f"{100 * coverage:g} %"))
    return page(type(estimator).__name__, [*header, *estimator._table_header(**options)], table)


def fit_header(estimator: Any) -> list[tuple[str, str]]:
    """Names and values of header lines about a fit."""
    likelihood = getattr(estimator, "likelihood_", None)
    lines = [] if likelihood is None else [("likelihood", likelihood_text(likelihood))]
    if hasattr(estimator, "lower_bound_"):
        lines.append(("lower bound", f"{estimator.lower_bound_:,.2f} nats"))
    else:
        lines.append(("leave-one-out", f"{estimator.loo_:.4f} nats a row"))
        lines.append(("temperature", f"{estimator.temperature_:.3g}"))
    state = getattr(estimator, "state_", None)
    if state is not None and state.counted:
        converged = "in the last chunk" if estimator.converged_ else "not in the last chunk"
        return [*lines, ("chunks", counted(estimator.n_iter_)), ("converged", converged)]
    return [*lines, ("passes", counted(estimator.n_iter_)), ("converged", _end_text(estimator, state))]


def _end_text(estimator: Any, state: Any) -> str:
    """Whether a fit converged, and if not, what ended it."""
    if estimator.converged_:
        return "yes"
    if state is not None and not state.finished:
        return "no, cut off: a checkpoint, from which fit goes on with warm_start=True"
    if estimator.n_iter_ >= estimator._most_passes():
        return f"no, ended by the most passes ({estimator._most_passes():,})"
    return "no, stopped before"


# ---- lines
def page(title: str, header: list[tuple[str, str]], table: Any) -> Page:
    """Text of a title, header lines (names and values) and a table, one below the other."""
    width = max(len(name) for name, _ in header)
    lines = [f"{name:<{width}}  {value}" for name, value in header]
    return Page("\n".join([title, *lines, "", *lines_of(table)]))


def counted(value: float) -> str:
    """Text of a count or a sum of weights, which may differ from a whole number by rounding."""
    whole = abs(value - round(value)) <= ROUNDING * max(1.0, abs(value))
    return f"{value:,.0f}" if whole else f"{value:,.1f}"


def likelihood_text(likelihood: Any) -> str:
    """Name and parameters of a likelihood as text, numbers rounded."""
    parameters = likelihood.get_params(deep=False).items()
    return f"{type(likelihood).__name__}({', '.join(_argument(*pair) for pair in parameters)})"


def _argument(name: str, value: Any) -> str:
    if hasattr(value, "get_params"):
        return likelihood_text(value)
    if isinstance(value, float):
        return f"{name}={value:.4g}"
    if np.ndim(value):
        return f"{name}=[{', '.join(f'{number:.4g}' for number in np.ravel(value))}]"
    return f"{name}={value!r}"


def lines_of(table: Any) -> list[str]:
    """The rows of a table of `summary`, its columns aligned."""
    n = len(table)
    selected = np.arange(n) if n <= MOST_ROWS else np.r_[: MOST_ROWS - LAST_ROWS, n - LAST_ROWS : n]
    shown = table.iloc[selected]
    labels = [shown.index.get_level_values(level) for level in range(shown.index.nlevels)]
    names = ["" if name is None else str(name) for name in shown.index.names]
    left = [_aligned(name, apart(column, LONGEST, whole=True), "<") for name, column in zip(names, labels, strict=True)]
    cells = _numbers(shown)
    right = [_aligned(str(name), cells[name], ">") for name in shown]
    lines = ["  ".join(row).rstrip() for row in zip(*left, *right, strict=True)]
    if len(selected) < n:
        lines.insert(1 + MOST_ROWS - LAST_ROWS, f"… {n - len(selected):,} more: summary()")
    return lines


def _aligned(name: str, cells: list[str], side: str) -> list[str]:
    width = max(map(len, [name, *cells]))
    return [f"{cell:{side}{width}}" for cell in [name, *cells]]


# ---- rounding
def _numbers(table: Any) -> dict[str, list[str]]:
    """Cells as text, by column."""
    cells = {name: [_plain(value) for value in table[name]] for name in table}
    own = [name for name in COLUMNS if name in table]
    cells |= rounded(table[own].to_numpy(float), table["std"].to_numpy(float), own)
    ratios = [f"exp({name})" for name in RATIOS if f"exp({name})" in table]
    if ratios:
        values = table[ratios].to_numpy(float)
        with np.errstate(invalid="ignore"):  # infinite ends
            cells |= rounded(values, (values[:, 2] - values[:, 1]) / LENGTH, ratios)
    if "direction" in table:
        cells["direction"] = [POINT if np.isnan(p) else f"{p:.3f}" for p in table["direction"]]
    return cells


def _plain(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def rounded(values: Array, std: Array, names: list[str]) -> dict[str, list[str]]:
    """Numbers (n, columns) as text, all with the same decimals, which follow from the standard deviations of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.estimators.summary_text import rounded
    >>> numbers = np.array([[51234.5, 310.2], [3.0, 12.3], [0.0001234, 0.00001]])
    >>> rounded(numbers, numbers[:, 1], ["mean", "std"])
    {'mean': ['51234', '3', '0.000123'], 'std': ['310', '12', '1e-05']}
    """
    need = _needed(values, std)
    finite = need[~np.isnan(need)]
    largest = np.max(np.abs(values), initial=1.0, where=np.abs(values) < LARGE)
    most = min(np.median(finite) + BEYOND, WIDE - 1.0 - np.floor(np.log10(largest))) if len(finite) else 0.0
    fine = need > most
    decimals = int(np.max(need, initial=0.0, where=need <= most))
    return {
        name: [_cell(value, decimals, alone) for value, alone in zip(column, fine, strict=True)]
        for name, column in zip(names, values.T, strict=True)
    }


def _needed(values: Array, std: Array) -> Array:
    """Decimals that a row needs by its standard deviation, or by its first number where it has none; NaN: none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        of_std = DIGITS - 1 - np.floor(np.log10(std))
        of_value = OF_POINTS - 1 - np.floor(np.log10(np.abs(values[:, 0])))
    need = np.where(np.isfinite(of_std), of_std, of_value)
    return np.where(np.isfinite(need), np.maximum(need, 0.0), np.nan)


def _cell(value: float, decimals: int, alone: bool) -> str:
    if np.isnan(value):
        return POINT
    if alone or abs(value) >= LARGE:
        return f"{value:.3g}"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text
