"""Later points: appended to a fitted series with its variances fixed, and smoothed again on request."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._runtime import parallel
from sksvi._runtime.memory import extended
from sksvi._runtime.user import warn_user
from sksvi.estimators.encoding import CHUNK, GivenRows
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.fitting import check_finished
from sksvi.estimators.offsets import remember_offset
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.inference import engine, plan
from sksvi.inference.records import replace
from sksvi.inference.start import continued, first_state
from sksvi.inference.state import StepInfo, recorded, thinned, with_own_lists
from sksvi.models.data import Table
from sksvi.models.time_series.model import DynamicModel
from sksvi.time_series._diagnostics import Diagnostics
from sksvi.time_series._encoding import SeriesEncoding
from sksvi.time_series._filter import FilterResult, FilterStep, Steps, filter_step, states, value_of
from sksvi.time_series._filter_steps import Fitted, OnlineFilter
from sksvi.time_series._index import (
    appended,
    counts_rows,
    extended_record,
    follows,
    index_record,
    later,
    own_index,
    positions,
    regular,
)
from sksvi.time_series._rows import TOO_FAR

Array = np.ndarray

#: Number of points below which they say little about variances.
FEW = 20


class Online(Diagnostics):
    """`partial_fit` and `smooth` of a `DynamicGLM`."""

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        if not hasattr(self, "state_"):
            self.fit(X, y, sample_weight, offset)
            n_observed = int(np.sum(self._series.observed))
            if n_observed < FEW and np.size(self.state_.q["dynamics"].value):
                warn_user(
                    f"partial_fit began with {n_observed} points: variances were learned from these alone, and stay as "
                    "later points come. Begin with more, give the variances that you know as numbers, or fit anew "
                    "later (warm_start=True)."
                )
            return self
        started = perf_counter()
        with self._all_or_nothing(), parallel.working():
            self._validate_params()
            check_finished(self)
            self._check_choices()
            rows = SeriesEncoding.read(self, GivenRows(X, y, sample_weight, offset), self._encoding, CHUNK)
            times = self._following(rows.index, own_index(X) is not None or own_index(y) is not None)
            remember_offset(self, offset, before=self._record.had_offset)
            data = self._following_rows(rows, 0)
            model, found = self._filter_rows(data)
            self._append_points(data, model, found, times, started)
        warn_all(other_order(X=X, y=y, sample_weight=sample_weight, offset=offset))
        return self

    def _following(self, index: Any, own: bool) -> dict[str, Any]:
        """The times of the series with these points, which must follow its last one.

        Raises
        ------
        ValueError
            Points that the series has, that lie before its end, or that leave a gap.
        """
        if not own or counts_rows(index) or follows(self._series.times, index):
            return extended_record(self._series.times, len(index))
        before = self.index_
        late = later(index, before)
        if not np.all(late):
            raise ValueError(
                f"the time {index[int(np.argmin(late))]!r} does not follow {before[-1]!r}, the last point of the "
                "series: partial_fit appends in time. Leave out rows that it has, or fit anew."
            )
        if regular(before) is None:
            return index_record(appended(before, index, len(index)))
        at = positions(before, index) - len(before)
        if not np.array_equal(at, np.arange(len(at))):
            gap = int(np.argmax(at != np.arange(len(at))))
            raise ValueError(
                f"the time {index[gap]!r} leaves a gap after {(before[-1] if gap == 0 else index[gap - 1])!r}: give "
                "every point between a row, with y=NaN, for example by y.asfreq(...)."
            )
        return index_record(appended(before, index, len(index)))

    def _following_rows(self, rows: Any, after: int) -> Table:
        """Rows so many points after the last one, encoded."""
        data, fit = self._encoding.encode(self, rows, CHUNK), self._series
        return replace(data, X=fit.rows_at(data.X, len(fit.series) + after + np.arange(len(data))))

    def _filter_rows(self, data: Table) -> tuple[DynamicModel, FilterStep]:
        """The model of points that follow, and their messages."""
        fit, model = self._series, self._series.model_after(data)
        if len(data) == 1:
            steps = Steps(self.likelihood_, self._rule(), self.tol, self._most_passes())
            here = states(fit.block.chain, fit.last, fit.last_cov)
            message = steps(*here.ahead(data.X), *value_of(data))
            here.update(message)
            return model, filter_step([message], here)
        problem = plan.problem(model, data, algorithms.resolve(self.algorithm), self._rule(), threads=1)
        try:
            state = plan.run(problem, first_state(problem, self.state_.seed), self._most_passes(), self.tol)
        except ValueError as error:
            if isinstance(error.__cause__, NotPositiveDefinite):
                raise ValueError(TOO_FAR) from error
            raise
        own = state.q["latents"]
        how = FilterResult(state.bound, state.passes, state.steps, state.converged)
        return model, FilterStep(own.linear, own.weights, own.swept.last, own.swept.last_cov, [how])

    def _append_points(
        self, data: Table, model: DynamicModel, filtered: FilterStep, times: dict[str, Any], started: float
    ) -> None:
        """Append filtered points to the series, and expose the fit with them."""
        was, before = with_own_lists(self.state_), self._series.block
        whole = replace(before.chain, X=extended(before.chain.X, data.X))
        block = ChainGaussian(
            whole, extended(before.linear, filtered.linear), extended(before.weights, filtered.weights)
        )
        state = replace(was, q={**was.q, "latents": block})
        began, share = (was.history[-1]["seconds"] if was.history else 0.0), data.total_weight / len(filtered.how)
        for one in filtered.how:
            state.bound, state.rows = state.bound + one.bound, state.rows + share
            state.passes, state.steps = state.passes + one.looks, state.steps + one.steps
            seconds = began + perf_counter() - started
            state = thinned(recorded(state, StepInfo(state.bound, True, 1.0, 0), seconds))
        state.converged = filtered.how[-1].settled
        series, ends = self._series.series.appended(data), {"last": filtered.last, "last_cov": filtered.last_cov}
        self._series = self._series.changed(series=series, block=block, times=times, **ends)
        one_more = len(state.bounds) == len(self.lower_bounds_) + 1  # else the older ones were thinned
        bounds = extended(self.lower_bounds_, np.array([state.bound])) if one_more else None
        self._finish(model, state, self.n_samples_seen_ + data.total_weight, bounds)

    def online(self: Fitted) -> OnlineFilter[Fitted]:
        """A filter that takes the points that follow one by one, in a fifth of the time of `partial_fit` or less.

        Returns
        -------
        OnlineFilter

        Examples
        --------
        >>> import numpy as np
        >>> from sksvi import DynamicGLM
        >>> y = np.random.default_rng(0).poisson(5.0, 60)
        >>> model = DynamicGLM(level_variance=0.01).fit(None, y[:50])
        >>> stream = model.online()
        >>> observed = [stream.observe(value) for value in y[50:]]
        >>> len(stream.update().index_)
        60
        """
        check_is_fitted(self)
        return OnlineFilter(self)

    def smooth(self) -> Self:
        """Sweep over the whole series again: messages of earlier points learn what later ones said; variances stay.

        Returns
        -------
        DynamicGLM
            Itself.
        """
        check_is_fitted(self)
        self._series.check_whole("smooth")
        with self._all_or_nothing(), parallel.working():
            problem = self._problem(self._model_of(self._series.series), self._series.series)
            problem = engine.with_fixed_hyper(problem)
            state = continued(problem, with_own_lists(self.state_))
            state = plan.run(problem, state, state.passes + self._most_passes(), self.tol)
            self._series = self._series.changed(node_messages=None)  # those of the sweep know all points
            self._finish(problem.model, state, self.n_samples_seen_)
        return self
