"""A fitted series without its rows: what is known of the last state, from which it goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import RandomState
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.time_series._index import short_record


class WithoutRows:
    """Files of a `DynamicGLM` without its rows, and what a fit of such a file no longer says."""

    #: How many of the first points are known by their times alone.
    _left_out = 0

    def _without_rows(self: Any) -> Any:
        bare = super()._without_rows()  # type: ignore[misc]
        if "_members" in vars(self):
            bare._members = [member._without_rows() for member in self._members]
            bare._rows = [np.zeros(0, np.int64)] * len(bare._members)
        elif hasattr(self, "state_"):
            if bare._nodes is not None:
                views = self._views
                bare._node_ends = np.array([v.last for v in views]), np.array([v.last_cov for v in views])
                bare._node_messages = None if self._node_messages is None else self._node_messages[:, :, :0]
            chain, none, index = self._after(self._block.chain.X[:0]), np.zeros(0), bare.index_
            block = ChainGaussian(chain, none, none)
            bare._set_times(short_record(index))
            bare._left_out, bare._series = len(index), self._series.take(slice(0, 0))
            bare.state_ = replace(bare.state_, q={**bare.state_.q, "latents": block})
            bare._leave_mixture()
        return bare

    def to_arviz(self: Any, n_samples: int = 1000, random_state: RandomState = None) -> Any:
        """Posterior draws of f at the points whose rows are held, as ArviZ's InferenceData (extra ``arviz``).

        Parameters
        ----------
        n_samples : int, default=1000
        random_state : int, RandomState or None
        """
        check_is_fitted(self)
        self._stored_index("to_arviz")
        return super().to_arviz(n_samples, random_state)  # type: ignore[misc]

    def _stored_index(self: Any, what: str) -> Any:
        """Times of the points whose rows are held.

        Raises
        ------
        ValueError
            Where there is none.
        """
        if self._left_out and not len(self._series):
            raise ValueError(
                f"{what} is about fitted points, and this fit is of a file that was saved with training_rows=False, "
                "which has none of them: ask forecast, or for times that follow, or save with training rows."
            )
        return self.index_[self._left_out :] if self._left_out else self.index_

    def _check_whole(self: Any, what: str) -> None:
        """An error where rows were left out of the series."""
        if self._left_out:
            raise ValueError(
                f"{what} needs the whole series, and this fit is of a file that was saved with training_rows=False: "
                "save with training rows."
            )

    def _check_places(self: Any, at: Any, times: Any) -> None:
        """An error for times whose rows were left out, and for rows that do not say whether they are these."""
        if not self._left_out:
            return
        if times is None:
            raise ValueError(
                "rows without times are fitted points or those that follow, which this fit cannot tell, since its file "
                "was saved with training_rows=False: give the rows that follow their index, or ask forecast."
            )
        if np.any(at < 0):
            raise ValueError(
                f"time {times[int(np.argmin(at))]!r} is a fitted point, and this fit is of a file that was saved with "
                f"training_rows=False: ask for times after {self.index_[self._left_out - 1]!r}, or save with training "
                "rows."
            )
