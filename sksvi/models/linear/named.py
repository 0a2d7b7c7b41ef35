"""Priors of coefficients that the user gives one by one, beside the learned prior of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class NamedPriors:
    """Prior means and precisions of the coefficients, in the coordinates of a fit.

    Parameters
    ----------
    mean : ndarray of shape (D,)
        0 where the prior is learned or flat.
    precision : ndarray of shape (D,)
        Has no meaning where the prior is learned.
    learned, flat : ndarray of bool, shape (D,)
        Which share the learned precision, and which have a flat prior.
    """

    LAYOUT = "mean (d) f; precision (d) f >0; learned (d) b; flat (d) b"

    mean: Array
    precision: Array
    learned: Array
    flat: Array
