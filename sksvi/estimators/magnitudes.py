"""Limits on magnitudes at the door: beyond them squares and their sums are no numbers, and a fit would be lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.likelihoods.traits import LARGEST, LARGEST_COUNT, SMALLEST_COUNT

Array = np.ndarray

#: Of what is divided by its own unit first, whose square is shown.
LARGEST_UNIT = 1e150
#: A column that spreads over less is taken as constant: variances of its coefficient would be no numbers.
LEAST_SPREAD = 1e-152
#: Of single precision.
LARGEST_SINGLE = 1e18
#: Latents behind a link, whose ends are long reached there.
LARGEST_LATENT = 1e6


def check_magnitudes(values: Any, name: str, columns: Any = None, unit: str = "", largest: float = LARGEST) -> None:
    """An error that names the column and row of the first number beyond `largest`; NaN passes.

    Parameters
    ----------
    values : ndarray or CSR matrix, one or two dimensions
    name : str
        What users call it.
    columns : sequence, optional
        Names of the columns.
    unit : str, optional
        What the numbers are in.
    largest : float, optional
        Of double precision.

    Raises
    ------
    ValueError
    """
    numbers = values.data if hasattr(values, "tocsr") else values
    if numbers.dtype.kind != "f" or numbers.dtype.itemsize < 4 or not np.size(numbers):  # others are all within
        return
    if numbers.dtype.itemsize == 4:
        largest = min(largest, LARGEST_SINGLE)
    if not max(np.fmax.reduce(numbers, axis=None), -np.fmin.reduce(numbers, axis=None)) > largest:
        return
    if hasattr(values, "tocsr"):
        values = values.tocoo()
        at = int(np.argmax(np.abs(values.data) > largest))
        place: tuple[Any, ...] = (values.row[at], values.col[at])
        value = values.data[at]
    else:
        place = np.unravel_index(int(np.argmax(np.abs(values) > largest)), values.shape)
        value = values[place]
    where = name
    if len(place) == 2:
        where = f"column {int(place[1]) if columns is None else columns[place[1]]!r} of {name}"
    raise ValueError(
        f"{where}, row {place[0]}: {value:g}{unit} is beyond ±{largest:g}, where squares are hardly numbers: give "
        f"{name} in another unit, or leave the row out."
    )


def check_weights(weights: Array, name: str) -> None:
    """An error for positive weights of which a sum has no digits left of the others.

    Raises
    ------
    ValueError
    """
    beyond = (weights > LARGEST_COUNT) | ((weights > 0) & (weights < SMALLEST_COUNT))
    if np.any(beyond):
        row = int(np.argmax(beyond))
        raise ValueError(
            f"{name} must be 0 or lie between {SMALLEST_COUNT:g} and {LARGEST_COUNT:g}; found {weights[row]:g} in row "
            f"{row}: divide {name} by its mean."
        )
