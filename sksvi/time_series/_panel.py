"""Several series in one long table: whose each row is, a fit for each, and their answers put together again."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._runtime import parallel
from sksvi._typing.arrays import Columns, DataFrame, MatrixLike, PerRow
from sksvi.callbacks import KeepInterrupted
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.offsets import remember_exposure, with_exposure
from sksvi.estimators.validation import StrOptions
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.data import Table
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.panel import JointPanel
from sksvi.partitions.lazy import at_hand
from sksvi.time_series._diagnostics import Diagnostics
from sksvi.time_series._index import own_index
from sksvi.time_series._long_table import (
    TableRows,
    aligned,
    are_mixed,
    collected_warnings,
    counts_rows_of_all,
    in_order,
    on_index,
    one_for_all,
    plain_labels,
    seeds_of_each,
    step_of_others,
)
from sksvi.time_series._population import learned_population, new_series
from sksvi.time_series._rows import check_series, observed, shown, values_of

Array = np.ndarray
Class = TypeVar("Class")

#: Arguments with one entry per row, by which a call is divided among series.
ROWS = ("X", "y", "sample_weight", "offset")
#: Methods whose answer is a table in time; that of others has an entry per row.
TABLES = ("forecast", "forecast_latent", "simulate", "filter", "residuals", "summary")
#: Methods that several series answer as one does.
ANSWERS = (
    "predict", "predict_latent", "predict_quantiles", "predict_interval", "sample_y", "log_predictive_density", "score",
    *TABLES,
)  # fmt: skip
#: Fitted attributes that a fit to one series, and one to several, have alike.
TOTALS = (
    "groups_", "lower_bound_", "n_iter_", "n_steps_", "n_samples_seen_", "converged_", "n_features_in_",
    "feature_names_in_", "target_name_",
)  # fmt: skip


def answering(decorator: Callable[[Any], Any]) -> Callable[[type[Class]], type[Class]]:
    """Class decorator: the class has the methods of `ANSWERS` as a decorator makes them of those of one series."""

    def decorated(cls: type[Class]) -> type[Class]:
        for name in ANSWERS:
            setattr(cls, name, decorator(getattr(Diagnostics, name)))
        return cls

    return decorated


def of_each(method: Any) -> Any:
    """Method of a panel that asks each series and puts the answers together, made of that of one series."""
    name, signature = method.__name__, inspect.signature(method)

    @functools.wraps(method)
    def asked_of_each(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        given = self._arguments(signature.bind(self, *args, **kwargs).arguments)
        return self._scored(given) if name == "score" else self._answered(name, given)

    asked_of_each.__doc__ = dense(method.__doc__)
    return at_hand(asked_of_each)


def dense(text: str | None) -> str | None:
    """Text of a method of rows in time, which are never sparse, as those of other regressors may be."""
    return text and text.replace("{array-like, sparse matrix}", "array-like")


@answering(of_each)
class SeriesPanel(MetaEstimatorMixin, BaseEstimator):
    """Several series in one long table, a `DynamicGLM` for each.

    Rows come in any order of series, in time within each. Answers to rows are in their order; tables (`forecast`,
    `components_`, `summary`) have the series first in their index.

    Parameters
    ----------
    estimator : DynamicGLM
        What is fitted to each series; ``groups=None``. Its `random_state` gives each a seed of its own.
    groups : str or int
        Column of X, or level of its index or of that of y, that says which series a row is of.
    share_variances : bool or "partial", default=False
        As `DynamicGLM` has it.
    n_jobs : int, default=None
        Threads over series; no value changes a bit of the result.

    Attributes
    ----------
    series_ : dict
        A fitted `DynamicGLM` for each series.
    groups_ : ndarray
        Their names.
    components_, states_ : DataFrame
        Parts of f, and every state, at every point: mean and std given all data.
    lower_bound_ : float
        Sum of the bounds of all series, nats.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
        The most sweeps of a series; steps and weights of all; whether all converged.
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray
        Of X with the column that `groups` names.

    See Also
    --------
    DynamicGLM : One series; with `groups` it is a panel.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi.time_series import DynamicGLM, SeriesPanel
    >>> shop, y = np.repeat(["a", "b"], 40), np.random.default_rng(0).poisson(5.0, 80)
    >>> panel = SeriesPanel(DynamicGLM(level_variance=0.01), groups="shop").fit(pd.DataFrame({"shop": shop}), y)
    >>> panel.forecast(2).index.names, panel.forecast(2).shape
    (FrozenList(['shop', None]), (4, 5))
    """

    LAYOUT = """
        _members list where len(it) > 0; _members[*] DynamicGLM where it._panel is None; _members[*].state_ State
        _labels list where len(set(map(repr, it))) == len(it) == len(self._members)
        _rows list where len(it) == len(self._members); _rows[*] (_) i >=0
        _rows where [len(part) for part in it] == [len(m.posterior_['latents'].mean) for m in self._members]
        _rows where np.array_equal(np.sort(np.concatenate(it)), np.arange(sum(map(len, it))))
        _new? DynamicGLM where it._panel is None
        n_iter_ count; n_steps_ count; n_features_in_ count; converged_ flag; lower_bound_ number
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "estimator": [HasMethods(["fit", "forecast"])],
        "groups": [str, Integral],
        "share_variances": ["boolean", StrOptions({"partial"})],
        "n_jobs": [Integral, None],
    }
    estimator: Any
    _labels: list[Any]
    _members: list[Any]
    _rows: list[Array]
    #: A series without data, of which forecasts of one that was not fitted are made; None: there is none.
    _new: Any = None

    def __init__(
        self,
        estimator: BaseEstimator,
        groups: Columns,
        *,
        share_variances: bool | str = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.groups = groups
        self.share_variances = share_variances
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike | None,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> SeriesPanel:
        """Fit each series.

        Parameters
        ----------
        X : array-like of shape (n, D), or None
            Columns, that of `groups` among them; None where a level of the index of y is it.
        y : array-like of shape (n,), binomial (n, 2)
            NaN where nothing was observed.
        sample_weight, offset, exposure : array-like of shape (n,), default=None
            As `DynamicGLM.fit` has them.

        Returns
        -------
        SeriesPanel
            Itself.

        Raises
        ------
        ValueError
            A row without a series, and what `DynamicGLM.fit` raises, with the name of the series.
        """
        given = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        return self._fit(_without_none(given))

    def _fit(self, given: dict[str, Any]) -> SeriesPanel:
        exposure, arguments = given.get("exposure"), self._arguments(given)
        callbacks = getattr(self.estimator, "_skl_callbacks", ())
        if not all(isinstance(callback, KeepInterrupted) for callback in callbacks):
            raise ValueError(
                "callbacks are told of one series: fit the series one by one, or with no callback but KeepInterrupted."
            )
        with parallel.working():
            # Shared variances are found anew; a warm start would begin at the last ones.
            again = self.estimator.warm_start and not self.share_variances and "_members" in vars(self)
            before = self.series_ if again else {}
            parts = self._of_each(arguments, False, True)
            calls = [own for _, own in parts.values()]
            step_of_others(calls)
            members = self._members_of(list(parts), before, callbacks)
            if self.share_variances:
                for member, shared in zip(members, self._shared_by(list(parts), members, calls), strict=True):
                    member._shared = shared
            members = self._each(list(parts), members, lambda member, own: member.fit(**own), calls)
        for member in members:
            remember_exposure(member, exposure)
        self._labels, self._members, self._rows = list(parts), members, [rows for rows, _ in parts.values()]
        self._new = new_series(members) if self.share_variances == "partial" else None
        for name in ("n_features_in_", "feature_names_in_", "target_name_"):
            self.__dict__.pop(name, None)
        self._set_totals(arguments.get("X"))
        return self

    def _members_of(self, labels: list[Any], before: dict[Any, Any], callbacks: Any) -> list[Any]:
        """An estimator for each series: that of the last fit, or a new one."""
        single = {"groups": None, "share_variances": False, "n_jobs": 1, "verbose": 0}
        parameters = {**self.estimator.get_params(deep=False), **single}
        seeds, members = seeds_of_each(self.estimator.random_state, len(labels)), []
        for label, seed in zip(labels, seeds, strict=True):
            member = copy.deepcopy(before[label]) if label in before else clone(self.estimator)
            member.set_params(**{**parameters, "random_state": seed})
            member.set_callbacks(*callbacks)
            members.append(member)
        return members

    def partial_fit(
        self,
        X: MatrixLike | None,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> SeriesPanel:
        """Append points to series that were fitted; the first call is a `fit`.

        Parameters
        ----------
        X : array-like of shape (n, D), or None
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight, offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        SeriesPanel
            Itself.

        Raises
        ------
        ValueError
            A series that was not fitted (with ``share_variances="partial"`` it begins after the last time of all), and
            what `DynamicGLM.partial_fit` raises, with the name of the series.
        """
        given = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        if "_members" not in vars(self):
            self.fit(X, y, sample_weight, offset, exposure)
            return self
        arguments = self._arguments(_without_none(given))
        with parallel.working():
            parts = self._of_each(arguments, True, True)
            n, at = sum(map(len, self._rows)), {label: i for i, label in enumerate(self._labels)}
            others = [label for label in parts if label not in at]
            at |= {label: len(at) + i for i, label in enumerate(others)}
            members = [*self._members, *[self._new] * len(others)]
            rows = [*self._rows, *[np.zeros(0, np.int64)] * len(others)]
            own = [copy.copy(members[at[label]]) for label in parts]
            calls = [given for _, given in parts.values()]
            own = self._each(list(parts), own, lambda member, given: member.partial_fit(**given), calls)
        for (label, (new, _)), member in zip(parts.items(), own, strict=True):
            members[at[label]], rows[at[label]] = member, np.concatenate([rows[at[label]], n + new])
        for member in members:
            remember_exposure(member, exposure, streams=True)
        self._labels, self._members, self._rows = [*self._labels, *others], members, rows
        self._set_totals(None)
        return self

    def smooth(self) -> SeriesPanel:
        """Sweep over every series again, as `DynamicGLM.smooth` does over one.

        Returns
        -------
        SeriesPanel
            Itself.
        """
        check_is_fitted(self)
        members = [copy.copy(member) for member in self._members]
        self._members = self._each(self._labels, members, lambda member, _: member.smooth(), [{}] * len(members))
        self._set_totals(None)
        return self

    @property
    def series_(self) -> dict[Any, Any]:
        """A fitted `DynamicGLM` for each series."""
        if "_members" not in vars(self):
            raise AttributeError("series_ is there after fit")
        return dict(zip(self._labels, self._members, strict=True))

    @property
    def components_(self) -> DataFrame:
        """Level, trend, seasons, cycle and regression at every point of every series: (name, mean or std)."""
        return self._stacked([member.components_ for member in self.series_.values()])

    @property
    def states_(self) -> DataFrame:
        """Every state at every point of every series: (name, mean or std)."""
        return self._stacked([member.states_ for member in self.series_.values()])

    @property
    def population_(self) -> DataFrame:
        """Median of what series learn with ``share_variances="partial"``, and the ends of 90 % of them."""
        import pandas as pd

        if self.share_variances != "partial" or "_members" not in vars(self):
            raise AttributeError('population_ is there after a fit with share_variances="partial"')
        member = self._members[0]
        mean, sd = member._shared["population"]
        values = member._series.hyperparameter_columns(mean + sd * ndtri([[0.5], [0.05], [0.95]]))
        return pd.DataFrame.from_dict(values, orient="index", columns=["median", "lower", "upper"])

    @property
    def totals(self) -> dict[str, Any]:
        """Fitted attributes that are counted or summed over all series, by name."""
        return {name: value for name, value in vars(self).items() if name in TOTALS}

    def _without_rows(self) -> SeriesPanel:
        """The panel with fits without their points, for files without them."""
        bare = copy.copy(self)
        bare._members = [member._without_rows() for member in self._members]
        bare._rows = [np.zeros(0, np.int64)] * len(bare._members)
        return bare

    # ---- rows of a long table
    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a call, without the panel itself, an exposure as a part of the offset."""
        arguments = {name: value for name, value in given.items() if name != "self"}
        exposure, X, y = arguments.pop("exposure", None), arguments.get("X"), arguments.get("y")
        if exposure is not None:
            if X is None and y is None:
                one_for_all(exposure, "exposure")
            arguments["offset"] = with_exposure(self.estimator, arguments.get("offset"), exposure, X, y=y)
        return arguments

    def _divided(self, X: Any, y: Any, fits: bool) -> tuple[Array, TableRows, TableRows]:
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
            labels, X = whole[:, name], np.delete(whole, int(name), axis=1)
        else:
            has = "X is None" if X is None else f"X has {'no names' if found is None else list(found)}"
            raise ValueError(
                f"groups={name!r} is neither a column of X nor a level of an index: {has}. Name the column, or the "
                "level of the index, that says which series a row is of."
            )
        labels = plain_labels(labels, name)
        if y is not None and len(y) != len(labels):
            raise ValueError(f"X and y differ in length: {len(labels)} and {len(y)} rows.")
        counting = counts_rows_of_all(own_index(X), labels), counts_rows_of_all(own_index(y), labels)
        if y is not None and own_index(y) is None and own_index(X) is not None and not counting[0]:
            y = on_index(y, X.index)
        if X is not None and not X.shape[1] and fits:
            X = None
        return labels, TableRows(X, counting[0]), TableRows(y, counting[1])

    def _of_each(self, arguments: dict[str, Any], fitted: bool, fits: bool) -> dict[Any, tuple[Array, dict[str, Any]]]:
        """Rows and arguments of a call for each series, by its label."""
        given = {name: arguments[name] for name in ROWS if name in arguments}
        X, y = given.get("X"), given.get("y")
        if X is None and y is None:
            for name in ("sample_weight", "offset"):
                one_for_all(given.get(name), name)
            return {label: (rows, {}) for label, rows in zip(self._labels, self._rows, strict=True)}
        warn_all(other_order(X=X, y=y, sample_weight=given.get("sample_weight"), offset=given.get("offset")))
        labels, X, y = self._divided(X, y, fits)
        names = in_order(labels)
        if fitted and self._new is None:
            strange = [label for label in names if label not in self._labels]
            if strange:
                raise ValueError(
                    f"the series {strange[:5]} of {self.groups!r} were not fitted, which are {self._labels[:10]}: "
                    "leave their rows out, or fit anew with them."
                )
        per_row = {name: check_row_values(given.get(name), len(labels), name) for name in ("sample_weight", "offset")}
        parts = {}
        for label in names:
            rows = np.flatnonzero(labels == label)
            own = {name: part.of(rows) for name, part in (("X", X), ("y", y)) if name in given}
            own |= {name: value[rows] for name, value in per_row.items() if value is not None}
            parts[label] = rows, own
        return parts

    def _each(self, labels: list[Any], members: list[Any], call: Callable[[Any, Any], Any], own: list[Any]) -> Any:
        """The call for each series, in threads; errors and warnings name the series."""
        here = threading.local()

        def one(job: tuple[Any, Any, Any]) -> Any:
            here.label, member, given = job
            try:
                return call(member, given)
            except ValueError as error:
                raise ValueError(f"series {here.label!r} of {self.groups!r}: {error}") from error

        jobs = list(zip(labels, members, own, strict=True))
        with collected_warnings(here, self.groups, labels):
            return list(parallel.in_order(one, jobs, parallel.n_threads(self.n_jobs)))

    def _set_totals(self, X: Any) -> None:
        """Set the fitted attributes that are counted or summed over all series."""
        members = self._members
        if X is not None:
            self.n_features_in_ = int(np.shape(X)[1])
            if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
                self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        elif "n_features_in_" not in vars(self):
            self.n_features_in_ = 0
        if hasattr(members[0], "target_name_"):
            self.target_name_ = members[0].target_name_
        self.groups_ = np.array(self._labels, dtype=object) if are_mixed(self._labels) else np.array(self._labels)
        self.lower_bound_ = float(sum(member.lower_bound_ for member in members))
        self.n_iter_ = max(member.n_iter_ for member in members)
        self.n_steps_ = sum(member.n_steps_ for member in members)
        self.n_samples_seen_ = float(sum(member.n_samples_seen_ for member in members))
        self.converged_ = all(member.converged_ for member in members)

    def _shared_by(self, labels: list[Any], members: list[Any], calls: list[Any]) -> list[dict[str, Any]]:
        """Parameters and likelihood of each series: those that the sum of all bounds likes best, or of a population."""
        base = likelihoods.resolve(self.estimator._likelihood_given)
        if base.traits.ordered:
            raise ValueError(
                f"share_variances={self.share_variances!r}, and the levels of an ordinal target are each series' own: "
                "leave it out."
            )
        copies = [copy.copy(member) for member in members]
        tables = self._each(labels, copies, _encoded, calls)
        # One period for all: its search begins where all of them show it.
        periods = members[0]._first_periods(
            shown(member.likelihood_, table) for member, table in zip(copies, tables, strict=True)
        )
        build = lambda member, table: member._build_model(table, periods)[0].dynamics  # noqa: E731
        dynamics, units = self._each(labels, copies, build, tables), [member._encoding.unit for member in copies]
        whole = functools.reduce(Table.appended, tables)
        likelihood = base.start(*values_of(base, whole))
        unit = float(np.exp(np.mean(np.log(units))))
        if self.share_variances == "partial":
            return learned_population(
                likelihood, copies, tables, dynamics, functools.partial(self._each, labels, copies)
            )
        together = JointPanel(dynamics, [len(table) for table in tables])
        problem = members[0]._problem(DynamicModel(likelihood, together, whole.X, whole.weight, unit=unit), whole)  # type: ignore[arg-type]
        state = plan.run(problem, first_state(problem, 0), members[0]._most_passes(), members[0].tol)
        found = {"theta": state.q["dynamics"].value, "likelihood": problem.model.current_likelihood(state.q)}
        return [found] * len(members)

    def _answered(self, name: str, given: dict[str, Any]) -> Any:
        """The answers of all series to one call."""
        parts, series = self._of_each(given, True, name == "log_predictive_density"), self.series_
        rest = {key: value for key, value in given.items() if key not in ROWS}
        calls = [{**rest, **own} for _, own in parts.values()]
        if given.get("random_state") is not None:
            for call, seed in zip(calls, seeds_of_each(given["random_state"], len(calls)), strict=True):
                call["random_state"] = seed
        members = [series.get(label, self._new) for label in parts]
        found = self._each(list(parts), members, lambda member, call: getattr(member, name)(**call), calls)
        if name in TABLES:
            return self._stacked(found, list(parts))
        return aligned([rows for rows, _ in parts.values()], found)

    def _scored(self, given: dict[str, Any]) -> float:
        """The score of the rows of all series that count: what they lose, and what one mean for all of them would."""
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

    def _stacked(self, tables: list[Any], labels: list[Any] | None = None) -> DataFrame:
        """Tables one below the other, the series first in their index."""
        import pandas as pd

        name = self.groups if isinstance(self.groups, str) else "group"
        labels = self._labels if labels is None else labels
        return pd.concat(tables, keys=labels, names=[name, *tables[0].index.names])


def _encoded(member: Any, own: dict[str, Any]) -> Table:
    """A series' rows in its own units."""
    given = GivenRows(own.get("X"), own["y"], own.get("sample_weight"), own.get("offset"))
    data: Table = member._encoded(given, True, Part())
    return data


def _counting(member: Any, own: dict[str, Any]) -> bool:
    """Whether any row of a series counts in a score: y is there, and has weight."""
    traits, weight = member.likelihood_.traits, own.get("sample_weight")
    there = np.True_ if traits.ordered else observed(check_series(member, own["y"], traits.paired))
    return bool(np.any(there if weight is None else there & (weight > 0)))


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that were given; X and y always."""
    return {name: value for name, value in given.items() if value is not None or name in ("X", "y")}


# ---- a panel behind the door of one series
def with_groups(method: Any) -> Any:
    """Method of `DynamicGLM`: with `groups` that of the panel that was fitted."""
    name = method.__name__

    @functools.wraps(method)
    def answered(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.groups is None:
            return method(self, *args, **kwargs)
        check_is_fitted(self)
        return getattr(self._panel, name)(*args, **kwargs)

    answered.__doc__ = dense(method.__doc__)
    return at_hand(answered)


def of_one_series(method: Any, name: str = "") -> Any:
    """Method of `DynamicGLM` that has a meaning for one series alone."""
    name = name or method.__name__

    @functools.wraps(method)
    def answered(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.groups is not None:
            raise ValueError(f"{name} is of one series, and this fit has groups: ask one of series_.")
        return method(self, *args, **kwargs)

    return answered


def fit_with_groups(estimator: Any, name: str, *given: Any) -> Any:
    """`fit` or `partial_fit` of a `DynamicGLM` with `groups`, by a panel; the estimator with the panel's totals."""
    if hasattr(estimator, "state_") and (estimator.warm_start or name == "partial_fit"):
        estimator._check_choices()
    with estimator._all_or_nothing():
        panel = estimator._panel
        single = clone(estimator).set_params(groups=None, share_variances=False, n_jobs=1, verbose=0)
        single.set_callbacks(*getattr(estimator, "_skl_callbacks", ()))
        parameters = {"groups": estimator.groups, "share_variances": estimator.share_variances}
        new = SeriesPanel(single, **parameters, n_jobs=estimator.n_jobs)
        if panel is not None:
            fitted = {key: value for key, value in vars(panel).items() if key not in new.get_params(deep=False)}
            new.__dict__.update(fitted)
        getattr(new, name)(*given)
        forget(estimator)
        estimator._panel = new
        vars(estimator).update(new.totals)
    return estimator


def forget(estimator: Any) -> None:
    """Remove the fitted attributes of a `DynamicGLM`."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        del vars(estimator)[name]
    for name in ("_panel", "_series", "_encoding", "_record"):
        vars(estimator).pop(name, None)
