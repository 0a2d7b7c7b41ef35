"""A filter of single points: what `partial_fit` of a row does, without updating the estimator each time."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.encoding import CHUNK, GivenRows
from sksvi.estimators.fitting import check_finished
from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.published import building
from sksvi.likelihoods.traits import LARGEST_TARGET, SMALLEST_COUNT
from sksvi.models.data import Table
from sksvi.time_series._diagnostics import Diagnostics
from sksvi.time_series._filter import PointMessage, Steps, filter_step, states, value_of
from sksvi.time_series._index import extended_record

Array = np.ndarray


class Observed(NamedTuple):
    """Prediction of a point from those before it, and the bound on its log density.

    Parameters
    ----------
    mean, variance : float
        Of f, its offset included, given the points before.
    bound : float
        On its log p(y | y before), nats; 0 of a missing value.
    """

    mean: float
    variance: float
    bound: float


Fitted = TypeVar("Fitted", bound=Diagnostics)


class OnlineFilter(Generic[Fitted]):
    """Points that follow a fitted series one by one; the estimator stays as it is until `update`.

    Made by `DynamicGLM.online`. It stands at the mode of what was learned, not over its posterior. Each point has the
    message that `partial_fit` of its row finds, to the same bits.
    Points are held until `update`: call it now and then in a stream without an end.

    Parameters
    ----------
    model : DynamicGLM
        Fitted, to one series.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import DynamicGLM
    >>> y = np.random.default_rng(0).poisson(5.0, 60)
    >>> stream = DynamicGLM(level_variance=0.01).fit(None, y[:50]).online()
    >>> bool(stream.observe(7).variance > 0)
    True
    """

    def __init__(self, model: Fitted) -> None:
        model._validate_params()
        check_finished(model)
        model._check_choices()
        self._model = model
        self._state, self._likelihood = model.state_, model.likelihood_
        self._states = states(model._series.block.chain, model._series.last, model._series.last_cov)
        self._steps = Steps(self._likelihood, model._rule(), model.tol, model._most_passes())
        own = self._likelihood
        by_clock = model._encoding.clock is not None
        self._numbers = not (own.traits.ordered or own.traits.paired or model.n_features_in_ or by_clock)
        self._support = own.support
        self._mean, self._no_columns = float(model.mean_), np.zeros((1, 0))
        #: Rows as they came, numbers alone where there is nothing beside them.
        self._rows: list[Table | float] = []
        self._messages: list[PointMessage] = []
        self._had_offset = False

    def observe(
        self,
        y: float | PerRow,
        X: MatrixLike | None = None,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
    ) -> Observed:
        """Filter the next point.

        Parameters
        ----------
        y : float; binomial a pair
            NaN where nothing was observed.
        X : array-like of shape (1, D), default=None
            Its row of columns, where the fit had any.
        sample_weight, offset : float, default=None

        Returns
        -------
        Observed
            Named tuple of ``mean`` and ``variance`` of f before y was seen, and the ``bound`` on log p(y | y before).

        Raises
        ------
        ValueError
            As `DynamicGLM.partial_fit`.
        """
        alone = self._numbers and X is None and sample_weight is None and offset is None
        number = self._number(y) if alone else None
        if number is None:
            row = self._read(y, X, sample_weight, offset)
            columns, observation = row.X, value_of(row)
        else:
            columns, observation = self._no_columns, (number, 1.0, self._mean)
        mean, variance = self._states.ahead(columns)
        message = self._steps(mean, variance, *observation)
        self._states.update(message)
        self._rows.append(row if number is None else number)
        self._messages.append(message)
        return Observed(mean + observation[2], variance, message.bound)

    def _number(self, y: Any) -> float | None:
        """One number that the likelihood takes; None of all else, of which its own checks are to say what it is."""
        y = int(y) if isinstance(y, np.integer) else y
        if not isinstance(y, float | int) or not abs(y) <= LARGEST_TARGET:
            return None
        value, support = float(y), self._support
        good = support.low <= value <= support.high and (value == 0.0 or abs(value) >= SMALLEST_COUNT)
        return value if good and not (support.integer and value % 1.0) else None

    def _row(self, row: Table | float) -> Table:
        """A row as a table; a number alone has no columns and no weight."""
        if isinstance(row, Table):
            return row
        offset = np.full(1, self._mean) if self._mean else None
        return Table(self._no_columns, np.array([float(row)]), None, offset)

    def _read(self, y: Any, X: Any, sample_weight: Any, offset: Any) -> Table:
        """A row as `partial_fit` reads it."""
        self._had_offset = self._had_offset or (offset is not None and bool(np.any(offset)))
        encoding = self._model._encoding
        rows = encoding.read(self._model, GivenRows(X, [y], sample_weight, offset), encoding, CHUNK)
        return self._model._following_rows(rows, len(self._rows))

    def update(self) -> Fitted:
        """The estimator with the points that came, as `partial_fit` of one row after the other leaves it.

        Returns
        -------
        DynamicGLM
            The one that this filter came from.

        Raises
        ------
        ValueError
            Where it was fitted anew, or has taken other points, since.
        """
        model = self._model
        if model.state_ is not self._state:
            raise ValueError(
                f"this {type(model).__name__} has been fitted, or has taken other points, since online() was called: "
                "ask it for another filter."
            )
        if not self._rows:
            return model
        started = perf_counter()
        with building(model) as new, new._all_or_nothing(), parallel.working():
            data = self._row(self._rows[0])
            for row in self._rows[1:]:
                data = data.appended(self._row(row))
            remember_offset(new, float(self._had_offset), before=new._record.had_offset)
            new._append_points(
                data,
                new._series.model_after(data),
                filter_step(self._messages, self._states),
                extended_record(new._series.times, len(self._rows)),
                started,
            )
        self._state, self._rows, self._messages = model.state_, [], []
        return model
