"""Checks of what is predicted from and of what is asked for."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

Array = np.ndarray

#: Standard deviations from either end of any link, with digits to spare.
LINKED = 1e12


def check_latents(mean: Array, variance: Array, dtype: Any, link: bool) -> None:
    """An error for the first row whose latent lies where nothing can be predicted from it.

    Parameters
    ----------
    mean : ndarray of shape (n, ...)
    variance : ndarray of the same shape, or (n, K, K)
        Of f.
    dtype : dtype
        Of what is predicted.
    link : bool
        Whether f lies behind a link, whose ends are long reached at `LINKED`.

    Raises
    ------
    ValueError
        Naming the row.
    """
    most = 0.1 * float(np.finfo(dtype).max) ** 0.5
    most = min(most, LINKED) if link else most
    good = (np.abs(mean) <= most).reshape(len(mean), -1).all(axis=1)
    good &= (np.abs(variance) <= most**2).reshape(len(mean), -1).all(axis=1)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"the latent f of row {row} has mean {np.ravel(mean[row])[0]:.3g} and variance "
            f"{np.ravel(variance[row])[0]:.3g}, of which nothing can be predicted: X (or offset) of that row lies far "
            "outside the data of the fit."
        )


# ---- coverage of an interval, as users give it
def tail_of(coverage: Any) -> float:
    """Probability below an equal-tailed interval of that coverage.

    Raises
    ------
    ValueError
        If coverage is no number strictly between 0 and 1.
    """
    if not isinstance(coverage, Real) or not 0 < coverage < 1:  # type: ignore[operator]  # Real has no order in typeshed
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}.")
    tail = 0.5 - 0.5 * float(coverage)
    if 1.0 - tail == 1.0:
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}, which leaves nothing.")
    return tail
