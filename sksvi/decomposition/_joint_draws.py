"""Draws of both sides of a factorization together: what a product of two factorized posteriors leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.families import GaussianPlates
from sksvi.families.gaussian.plates import packed
from sksvi.models.chains import ChainLength
from sksvi.models.factorization.chain_loops import squared_spreads

Array = np.ndarray

#: What the parameter `uncertainty` may be.
UNCERTAINTY = ("corrected", "variational")
#: Sweeps before draws are stored, most draws, and fewest, where more would take more than so many bytes and than q.
BURN_IN, MOST, LEAST, BYTES = 60, 100, 25, 2**27


def chain_length(numbers: int, q_bytes: float) -> ChainLength:
    """Sweeps of a chain whose draws have so many numbers, beside a q of `q_bytes`."""
    return ChainLength(BURN_IN, int(np.clip(max(BYTES, q_bytes) // (4 * numbers), LEAST, MOST)))


@dataclass(frozen=True)
class JointDraws:
    """Draws of users and items from the posterior of both and their hyperparameters, about the means of q.

    users (n_users, S, F), items (n_items, S, F): single precision, in the coordinates of q.
    """

    LAYOUT = "users (n,S,F) x; items (m,S,F) x"

    users: Array
    items: Array

    @property
    def n_draws(self) -> int:
        """Number of draws, S."""
        return self.users.shape[1]

    def of(self, side: str) -> Array:
        """The draws of one side, (P, S, F)."""
        return self.users if side == "users" else self.items

    def about(self, side: str, block: GaussianPlates, plates: Any = slice(None)) -> GaussianPlates:
        """Some plates of a side's block with the second moments of their draws about its means.

        The block itself counts as one draw more: the moments of few draws of many coordinates are singular.
        """
        own = block[plates]
        gaps = self.of(side)[plates] - own.mean[:, None]
        squares = packed(np.swapaxes(gaps, 1, 2) @ gaps, True)
        return GaussianPlates(own.mean, (squares + own.values) / (self.n_draws + 1), None, True)

    def latent_variance(self, of_user: Array, of_item: Array, mean: Array, shared: int) -> Array:
        """Mean square of f less `mean`, without its constant, of pairs of positions; the first coordinates are shared.

        Other coordinates are added.
        """
        out = np.empty(len(mean))
        squared_spreads(self.users, self.items, of_user, of_item, mean, shared, out)
        return out
