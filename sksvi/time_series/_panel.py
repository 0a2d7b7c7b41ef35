"""Several series in one long table: whose each row is, a fit for each, and their answers put together again."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._runtime import parallel
from sksvi._runtime.kinds import WHOLE
from sksvi._runtime.warned import warn_user
from sksvi._typing.arrays import DataFrame
from sksvi.callbacks import KeepInterrupted
from sksvi.estimators.checks import check_row_values, check_seed
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.offsets import remember_exposure, with_exposure
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.base import Table
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.panel import JointPanel
from sksvi.partitions.lazy import at_hand
from sksvi.time_series._index import own_index, regular
from sksvi.time_series._rows import check_series, observed, shown

Array = np.ndarray

#: Arguments with one entry per row, by which a call is divided among series.
ROWS = ("X", "y", "sample_weight", "offset")
#: Methods whose answer has an entry per row, and those whose answer is a table in time.
ALIGNED = ("predict", "predict_latent", "predict_quantiles", "predict_interval", "sample_y", "log_predictive_density")
TABLES = ("forecast", "forecast_latent", "simulate", "filter", "residuals", "summary")
PROPERTIES = ("components_", "states_")
FITS = ("fit", "partial_fit")
#: What has a meaning for one series alone.
SINGLE = {"_latent": "latent", "log_evidence": "log_evidence", "_joint": "check_posterior", "online": "online"}


class Panel:
    """Fits to several series, and what they say together; mixed into `DynamicGLM`."""

    groups: Any
    share_variances: bool
    n_jobs: Any
    random_state: Any
    _labels: list[Any]
    _members: list[Any]
    _rows: list[Array]

    @property
    def series_(self) -> dict[Any, Self]:
        """A fitted `DynamicGLM` for each series of a fit with `groups`."""
        if "_members" not in vars(self):
            raise AttributeError("series_ is there after a fit with groups")
        return dict(zip(self._labels, self._members, strict=True))

    def __getattr__(self, name: str) -> Any:
        """AttributeError of a missing attribute; after a fit to several series it says that each has its own."""
        if "_members" in vars(self) and (name == "_times" or (name.endswith("_") and not name.startswith("_"))):
            raise AttributeError(
                f"{name.strip('_')!r} is each series' own, and this fit has groups: ask one of series_."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- texts about all series
    @property
    def _score_name(self) -> str:
        one = vars(self).get("_members", [super()])[0]
        return str(one._score_name)

    def _data_header(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = super()._data_header()  # type: ignore[misc]
        if "_members" in vars(self):
            return [*lines, ("series", f"{len(self._members):,}")]
        return [*lines, *self._level_lines()]  # type: ignore[attr-defined]

    # ---- rows of a long table
    def _divided(self: Any, X: Any, y: Any, fits: bool) -> tuple[Array, _TableRows, _TableRows]:
        """Label of each row, X without it, and y; of a fit X is None where it has no other column."""
        name, table = self.groups, X if X is not None else y
        found = getattr(X, "columns", None)
        index = own_index(table)
        if found is not None and name in list(found):
            labels, X = X[name], X.drop(columns=[name])
        elif index is not None and isinstance(name, str) and name in index.names:
            labels, index = index.get_level_values(name), index.droplevel(name)
            X, y = (part if own_index(part) is None else part.droplevel(name) for part in (X, y))
        elif found is None and X is not None and isinstance(name, Integral):
            whole = np.asarray(X)
            if whole.ndim != 2 or not -whole.shape[1] <= name < whole.shape[1]:
                raise ValueError(f"groups={name!r} is no column of X of shape {whole.shape}.")
            labels, X = whole[:, name], np.delete(whole, name, axis=1)
        else:
            has = "X is None" if X is None else f"X has {'no names' if found is None else list(found)}"
            raise ValueError(
                f"groups={name!r} is neither a column of X nor a level of an index: {has}. Name the column, or the "
                "level of the index, that says which series a row is of."
            )
        labels = _plain_labels(labels, name)
        if y is not None and len(y) != len(labels):
            raise ValueError(f"X and y differ in length: {len(labels)} and {len(y)} rows.")
        counting = _counts(own_index(X), labels), _counts(own_index(y), labels)
        if y is not None and own_index(y) is None and own_index(X) is not None and not counting[0]:
            y = _indexed(y, X.index)
        if X is not None and not X.shape[1] and fits:
            X = None
        return labels, _TableRows(X, counting[0]), _TableRows(y, counting[1])

    def _of_each(
        self: Any, arguments: dict[str, Any], fitted: bool, fits: bool
    ) -> dict[Any, tuple[Array, dict[str, Any]]]:
        """Rows and arguments of a call for each series, by its label."""
        given = {name: arguments[name] for name in ROWS if name in arguments}
        X, y = given.get("X"), given.get("y")
        if X is None and y is None:
            for name in ("sample_weight", "offset"):
                _one_for_all(given.get(name), name)
            return {label: (rows, {}) for label, rows in zip(self._labels, self._rows, strict=True)}
        warn_all(other_order(X=X, y=y, sample_weight=given.get("sample_weight"), offset=given.get("offset")))
        labels, X, y = self._divided(X, y, fits)
        names = _sorted(labels)
        if fitted:
            strange = [label for label in names if label not in self._labels]
            if strange:
                raise ValueError(
                    f"the series {strange[:5]} of {self.groups!r} were not fitted, which are {self._labels[:10]}: "
                    "leave their rows out, or fit anew with them."
                )
        per_row = {
            name: check_row_values(given[name], len(labels), name)
            for name in ("sample_weight", "offset")
            if given.get(name) is not None
        }
        parts = {}
        for label in names:
            rows = np.flatnonzero(labels == label)
            own: dict[str, Any] = {}
            for name, part in (("X", X), ("y", y)):
                if name in given:
                    own[name] = part.of(rows)
            for name in ("sample_weight", "offset"):
                if name in per_row:
                    own[name] = per_row[name][rows]
            parts[label] = rows, own
        return parts

    # ---- fitting
    def _fit_panel(self: Any, arguments: dict[str, Any]) -> Any:
        self._validate_params()
        if self.warm_start and hasattr(self, "state_"):
            self._check_choices()
        callbacks = getattr(self, "_skl_callbacks", ())
        if not all(isinstance(callback, KeepInterrupted) for callback in callbacks):
            raise ValueError(
                "callbacks are told of one series: fit the series one by one, or with no callback but KeepInterrupted."
            )
        with self._all_or_nothing(), parallel.working():
            # Shared variances are found anew; a warm start would begin at the last ones.
            again = self.warm_start and not self.share_variances and "_members" in vars(self)
            before = self.series_ if again else {}
            for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
                del vars(self)[name]
            parts = self._of_each(arguments, False, True)
            _step_of_others([own for _, own in parts.values()])
            seeds = _seeds(self.random_state, len(parts))
            plain = {"groups": None, "share_variances": False, "n_jobs": 1, "verbose": 0}
            members = [copy.deepcopy(before[label]) if label in before else clone(self) for label in parts]
            for member, seed in zip(members, seeds, strict=True):
                member.set_params(**{**self.get_params(deep=False), **plain, "random_state": seed})
                member.set_callbacks(*callbacks)
            calls = [own for _, own in parts.values()]
            if self.share_variances:
                shared = self._shared_by(list(parts), members, calls)
                for member in members:
                    member._shared = shared
            self._members = self._each(list(parts), members, lambda member, own: member.fit(**own), calls)
            self._labels, self._rows = list(parts), [rows for rows, _ in parts.values()]
            self._set_totals(arguments.get("X"))
        return self

    def _partial_fit_panel(self: Any, arguments: dict[str, Any]) -> Any:
        if hasattr(self, "state_"):
            self._check_choices()
        if "_members" not in vars(self):
            return self._fit_panel(arguments)
        with self._all_or_nothing(), parallel.working():
            parts = self._of_each(arguments, True, True)
            n, at = sum(map(len, self._rows)), {label: i for i, label in enumerate(self._labels)}
            members, rows = list(self._members), list(self._rows)
            own = [copy.copy(members[at[label]]) for label in parts]
            calls = [given for _, given in parts.values()]
            own = self._each(list(parts), own, lambda member, given: member.partial_fit(**given), calls)
            for (label, (new, _)), member in zip(parts.items(), own, strict=True):
                members[at[label]], rows[at[label]] = member, np.concatenate([rows[at[label]], n + new])
            self._members, self._rows = members, rows
            self._set_totals(None)
        return self

    def _leave_series(self: Any, name: str) -> None:
        """Forget a fit to several series where one series is fitted; an error where that one would go on from it."""
        if "_members" not in vars(self):
            return
        if name == "partial_fit" or self.warm_start:
            raise ValueError(
                "groups=None, and this is a fit to several series: set groups as it was, or go on with one of series_."
            )
        for attribute in ("_members", "_labels", "_rows", "groups_"):
            del vars(self)[attribute]

    def _smooth_panel(self: Any) -> Any:
        check_is_fitted(self)
        members = [copy.copy(member) for member in self._members]
        self._members = self._each(self._labels, members, lambda member, _: member.smooth(), [{}] * len(members))
        self._set_totals(None)
        return self

    def _each(self: Any, labels: list[Any], members: list[Any], call: Callable[[Any, Any], Any], own: list[Any]) -> Any:
        """The call for each series, in threads; errors and warnings name the series."""
        here = threading.local()

        def one(job: tuple[Any, Any, Any]) -> Any:
            here.label, member, given = job
            try:
                return call(member, given)
            except ValueError as error:
                raise ValueError(f"series {here.label!r} of {self.groups!r}: {error}") from error

        jobs = list(zip(labels, members, own, strict=True))
        with _collected_warnings(here, self.groups, labels):
            return list(parallel.in_order(one, jobs, parallel.n_threads(self.n_jobs)))

    def _set_totals(self: Any, X: Any) -> None:
        """Set the fitted attributes that are counted or summed over all series."""
        members = self._members
        if X is not None:
            self.n_features_in_ = int(np.shape(X)[1])
            if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
                self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        elif "n_features_in_" not in vars(self):
            self.n_features_in_ = 0
        self.groups_ = np.array(self._labels, dtype=object) if _mixed(self._labels) else np.array(self._labels)
        self.lower_bound_ = float(sum(member.lower_bound_ for member in members))
        self.n_iter_ = max(member.n_iter_ for member in members)
        self.n_steps_ = sum(member.n_steps_ for member in members)
        self.n_samples_seen_ = float(sum(member.n_samples_seen_ for member in members))
        self.converged_ = all(member.converged_ for member in members)

    def _shared_by(self: Any, labels: list[Any], members: list[Any], calls: list[Any]) -> dict[str, Any]:
        """Parameters and likelihood that the sum of all bounds likes best."""
        base = likelihoods.resolve(self._likelihood_given)
        if base.traits.ordered:
            raise ValueError(
                "share_variances=True, and the levels of an ordinal target are each series' own: leave it out."
            )
        copies = [copy.copy(member) for member in members]
        tables = self._each(labels, copies, _encoded, calls)
        # One period for all: its search begins where all of them show it.
        periods = self._first_periods(
            shown(member.likelihood_, table) for member, table in zip(copies, tables, strict=True)
        )
        build = lambda member, table: member._build_model(table, periods)[0].dynamics  # noqa: E731
        dynamics, units = self._each(labels, copies, build, tables), [member._encoding.unit for member in copies]
        whole = _concatenated(tables)
        rows = slice(None) if whole.weight is None else whole.weight > 0
        at = whole.y if whole.offset is None or base.traits.discrete else whole.y - whole.offset
        likelihood = base.start(at[rows], None if whole.weight is None else whole.weight[rows])
        unit = float(np.exp(np.mean(np.log(units))))
        together = JointPanel(dynamics, [len(table) for table in tables])
        problem = self._problem(DynamicModel(likelihood, together, whole.X, whole.weight, unit=unit), whole)  # type: ignore[arg-type]
        state = plan.run(problem, first_state(problem, 0), self._most_passes(), self.tol)
        return {"theta": state.q["dynamics"].value, "likelihood": problem.model.current_likelihood(state.q)}


def _encoded(member: Any, own: dict[str, Any]) -> Table:
    """A series' rows in its own units."""
    given = GivenRows(own.get("X"), own["y"], own.get("sample_weight"), own.get("offset"))
    data: Table = member._encoded(given, True, Part())
    return data


def _concatenated(tables: list[Table]) -> Table:
    """Rows one series after the other."""

    def column(name: str, usual: float) -> Array | None:
        if all(getattr(table, name) is None for table in tables):
            return None
        columns = [(getattr(table, name), len(table)) for table in tables]
        return np.concatenate([np.full(n, usual) if value is None else value for value, n in columns])

    X, y = (np.concatenate([getattr(table, name) for table in tables]) for name in ("X", "y"))
    return Table(X, y, column("weight", 1.0), column("offset", 0.0))


# ---- labels and times
def _plain_labels(labels: Any, name: Any) -> Array:
    """Labels as an array; an error where one is missing."""
    import pandas as pd

    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(f"groups={name!r} is missing in row {int(np.argmax(missing))}: every row needs its series.")
    return np.asarray(labels, dtype=object)


def _sorted(labels: Array) -> list[Any]:
    """Distinct labels in order; as they come where they have none."""
    found = dict.fromkeys(label.item() if isinstance(label, np.generic) else label for label in labels)
    try:
        return sorted(found)
    except TypeError:
        return list(found)


def _mixed(labels: list[Any]) -> bool:
    return len({type(label) for label in labels}) > 1 or not isinstance(labels[0], int | float | bool | str)


def _indexed(y: Any, index: Any) -> Any:
    """y on the times of X."""
    import pandas as pd

    if index is None or len(index) != len(y):
        return y
    return pd.DataFrame(y, index=index) if np.ndim(y) > 1 else pd.Series(y, index=index)


def _counts(index: Any, labels: Array) -> bool:
    """Whether an index counts the rows of a table and holds no times: whole numbers, each once, over several series."""
    whole = index is not None and index.nlevels == 1 and index.dtype.kind in WHOLE and index.is_unique
    return bool(whole and len(set(labels.tolist())) > 1)


def _step_of_others(calls: list[dict[str, Any]]) -> None:
    """Series of one date take the step between dates that all others have, where these have one."""
    import pandas as pd

    indexed = [
        (call, name, own_index(call[name])) for call in calls for name in ("X", "y") if call.get(name) is not None
    ]
    dated = [each for each in indexed if isinstance(each[2], pd.DatetimeIndex)]
    alone = [each for each in dated if len(each[2]) == 1 and each[2].freq is None]
    if not alone:
        return
    even = [regular(index) for _, _, index in dated if len(index) > 1]
    steps = {None if index is None else index.freq for index in even}
    step = steps.pop() if len(steps) == 1 else None
    for call, name, index in alone:
        if step is not None and step.is_on_offset(index[0]):
            call[name] = call[name].set_axis(pd.DatetimeIndex(index, freq=step))


class _TableRows(NamedTuple):
    """A table, of which rows are taken; `counting`: its index holds no times."""

    table: Any
    counting: bool

    def of(self, rows: Array) -> Any:
        """Some of them."""
        if not hasattr(self.table, "iloc"):
            return None if self.table is None else np.asarray(self.table)[rows]
        part = self.table.iloc[rows]
        return part.reset_index(drop=True) if self.counting else part


def _seeds(random_state: Any, n: int) -> list[Any]:
    """A seed for each series."""
    if random_state is None:
        return [None] * n
    return [int(seed) for seed in check_seed(random_state).randint(np.iinfo(np.int32).max, size=n)]


# ---- warnings
@contextmanager
def _collected_warnings(here: Any, name: Any, order: list[Any]) -> Iterator[None]:
    """Warnings of several series as one each, which says of how many and of which."""
    collected: dict[tuple[type[Warning], str], list[Any]] = {}

    def note(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        collected.setdefault((category, str(message)), []).append(getattr(here, "label", None))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield
    for (category, text), found in collected.items():
        labels = [label for label in order if label in found]  # threads tell in any order
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        warn_user(f"{len(labels)} series of {name!r} ({shown}): {text}", category)


# ---- methods
def by_series(cls: Any) -> Any:
    """Class decorator: with `groups`, methods ask each series and put the answers together."""
    for name in ("fit", "partial_fit", "smooth", "score", *ALIGNED, *TABLES, *SINGLE):
        setattr(cls, name, at_hand(_dispatched(getattr(cls, name), name)))
    for name in PROPERTIES:
        setattr(cls, name, _of_all(getattr(cls, name), name))
    return cls


def _dispatched(method: Any, name: str) -> Any:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.groups is None:
            if name in FITS:
                self._leave_series(name)
            return method(self, *args, **kwargs)
        if name in SINGLE:
            raise ValueError(f"{SINGLE[name]} is of one series, and this fit has groups: ask one of series_.")
        given = signature.bind(self, *args, **kwargs).arguments
        given.pop("self")
        exposure, X, y = given.pop("exposure", None), given.get("X"), given.get("y")
        if exposure is not None:
            if X is None and y is None:
                _one_for_all(exposure, "exposure")
            given["offset"] = with_exposure(self, given.get("offset"), exposure, X, y=y)
        if name in FITS:
            getattr(self, f"_{name}_panel")(given)
            for each in self._members:
                remember_exposure(each, exposure, streams=name == "partial_fit")
            return self
        if name == "score":
            return _scored(self, given)
        return self._smooth_panel() if name == "smooth" else _answered(self, name, given)

    if method.__doc__:  # rows in time are never sparse, as those of other regressors may be
        called.__doc__ = method.__doc__.replace("{array-like, sparse matrix}", "array-like")
    return called


def _one_for_all(value: Any, name: str) -> None:
    """An error for an entry per row where a call has no rows."""
    if value is not None and np.ndim(value):
        raise ValueError(f"{name} has an entry per row, and without X there are no rows: give X with them.")


def _answered(self: Any, name: str, given: dict[str, Any]) -> Any:
    """The answers of all series to one call."""
    check_is_fitted(self)
    parts, series = self._of_each(given, True, name == "log_predictive_density"), self.series_
    calls = [{**{key: value for key, value in given.items() if key not in ROWS}, **own} for _, own in parts.values()]
    if given.get("random_state") is not None:
        for call, seed in zip(calls, _seeds(given["random_state"], len(calls)), strict=True):
            call["random_state"] = seed
    members = [series[label] for label in parts]
    found = self._each(list(parts), members, lambda member, call: getattr(member, name)(**call), calls)
    if name in TABLES:
        return _stacked(self, list(parts), found)
    return _aligned([rows for rows, _ in parts.values()], found)


def _scored(self: Any, given: dict[str, Any]) -> float:
    """The score of the rows of all series that count: what they lose, and what one mean for all of them would."""
    check_is_fitted(self)
    parts, series = self._of_each(given, True, False), self.series_
    calls = {label: own for label, (_, own) in parts.items() if _counting(series[label], own)}
    if not calls:
        raise ValueError("y has no observed value with a positive sample_weight: there is nothing to compare with.")
    labels, members = list(calls), [series[label] for label in calls]
    if members[0]._named_levels and any(list(one.levels_) != list(members[0].levels_) for one in members):
        raise ValueError("names of levels are each series' own, and here they differ: ask one of series_.")
    ready = self._each(labels, members, lambda member, own: member._to_score(**own), list(calls.values()))
    sums = self._each(labels, members, lambda member, rows: member._losses(*rows), ready)

    def null_loss(mean: float) -> float:
        each = lambda member, rows: member._null_loss(mean, rows[1], None, rows[2], None)  # noqa: E731
        return float(sum(self._each(labels, members, each, ready)))

    return float(members[0]._saved([sum(each) for each in zip(*sums, strict=True)], null_loss))


def _counting(member: Any, own: dict[str, Any]) -> bool:
    """Whether any row of a series counts in a score: y is there, and has weight."""
    traits, weight = member.likelihood_.traits, own.get("sample_weight")
    there = np.True_ if traits.ordered else observed(check_series(member, own["y"], traits.paired))
    return bool(np.any(there if weight is None else there & (weight > 0)))


def _stacked(self: Any, labels: list[Any], tables: list[Any]) -> Any:
    """Tables one below the other, the series first in their index."""
    import pandas as pd

    name = self.groups if isinstance(self.groups, str) else "group"
    return pd.concat(tables, keys=labels, names=[name, *tables[0].index.names])


def _aligned(rows: list[Array], found: list[Any]) -> Any:
    """Answers in the order of the rows that were asked about."""
    if isinstance(found[0], tuple):
        return tuple(_aligned(rows, [each[i] for each in found]) for i in range(len(found[0])))
    n = sum(map(len, rows))
    out = np.empty((n, *found[0].shape[1:]), np.result_type(*found))
    for at, part in zip(rows, found, strict=True):
        out[at] = part
    return out


def _of_all(single: property, name: str) -> property:
    def get(self: Any) -> DataFrame:
        if self.groups is None:
            return single.fget(self)  # type: ignore[misc]
        if "_members" not in vars(self):
            raise AttributeError(f"{name} is there after fit")
        return _stacked(self, self._labels, [getattr(member, name) for member in self._members])

    return property(get, doc=single.__doc__)
