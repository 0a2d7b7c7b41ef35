"""Simulation-based calibration: parameters from the prior, data from these, fits to the data, ranks of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.base import BaseEstimator, clone
from sklearn.utils.parallel import Parallel, delayed

from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_count, n_rows
from sksvi.estimators.draws import PosteriorDraws, Variable, drawn_targets, log_densities, shown_targets
from sksvi.inspection._bands import inside_probability, points_of

Array = np.ndarray
if TYPE_CHECKING:
    Simulator: TypeAlias = Callable[
        [np.random.RandomState], tuple[MatrixLike | None, PerRow | None, Mapping[str, ArrayLike | float]]
    ]
    Quantities: TypeAlias = Callable[
        [BaseEstimator, MatrixLike | None, int, np.random.RandomState], Mapping[str, np.ndarray]
    ]

#: Entries of a variable that have ranks: the first ones.
MOST_ENTRIES = 8
#: Relative difference of equal numbers.
SAME = 1e-9
#: What all quantities together are accused of wrongly, at most.
LEVEL = 0.05
#: Standard errors by which the mean or the spread of ranks differs where it is named.
CLEAR = 3.0
#: Name of the rank of the log likelihood of all rows.
LOG_LIKELIHOOD = "log likelihood"


@dataclass(frozen=True)
class RankResult:
    """Where true values lie among draws from the posterior of data that were simulated from them.

    Parameters
    ----------
    ranks : DataFrame
        Row per simulation, column per quantity: how many of the draws are below the true value, 0 to ``n_draws``.
    n_draws : int
    failures : list of str
        Errors of simulations without a fit, which have no row.
    """

    ranks: DataFrame = field(repr=False)
    n_draws: int
    failures: list[str] = field(default_factory=list, repr=False)

    @property
    def table(self) -> DataFrame:
        """A row per quantity.

        ``p_value``: of uniform ranks, by the largest deviation of their distribution function; ``covered``: share of
        true values inside the central 90 % of the draws; ``bias``: mean rank less one half, in standard errors, above 0
        where true values lie above the draws; ``spread``: that of squared distances from the middle, above 0 where the
        posterior is too narrow; ``verdict``: in words, with p-values as of all quantities together (Holm 1979).
        """
        rows = {name: self._row(self.ranks[name].to_numpy()) for name in self.ranks}
        table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")
        order = np.argsort(table["p_value"].to_numpy(), kind="stable")
        limits = LEVEL / np.arange(len(order), 0, -1)
        rejected = np.zeros(len(order), bool)
        rejected[order] = np.cumprod(table["p_value"].to_numpy()[order] < limits).astype(bool)
        table["verdict"] = [
            verdict(row["bias"], row["spread"]) if bad else "calibrated"
            for bad, (_, row) in zip(rejected, table.iterrows(), strict=True)
        ]
        return table

    def _row(self, ranks: Array) -> dict[str, float]:
        n, steps = len(ranks), self.n_draws + 1
        at = points_of(n, steps)
        counts = np.searchsorted(np.sort(ranks), at, side="left")
        expected = at / steps
        tail = 2.0 * np.minimum(binom.cdf(counts, n, expected), binom.sf(counts - 1, n, expected))
        least = float(np.min(tail))
        u = (ranks + 0.5) / steps
        return {
            "p_value": 1.0 - inside_probability(least, n, at, steps) if least < 1.0 else 1.0,
            "covered": float(np.mean(np.abs(u - 0.5) < 0.45)),
            "bias": float((u.mean() - 0.5) / np.sqrt(1.0 / 12.0 / n)),
            "spread": float((12.0 * np.mean(np.square(u - 0.5)) - 1.0) / np.sqrt(0.8 / n)),
        }

    @property
    def passed(self) -> bool:
        """Whether no quantity is accused."""
        return bool((self.table["verdict"] == "calibrated").all())

    def __str__(self) -> str:
        table = self.table
        bad = table[table["verdict"] != "calibrated"]
        start = f"Simulation-based calibration, {len(self.ranks)} simulations, {self.n_draws} draws each"
        start += f" ({len(self.failures)} without a fit): " if self.failures else ": "
        if not len(bad):
            return f"{start}ranks of all {len(table)} quantities are as uniform ones are; no posterior is accused."
        lines = [
            f"  {name}: {row['verdict']}; 90 % intervals hold {100 * row['covered']:.0f} %"
            for name, row in bad.iterrows()
        ]
        return "\n".join([f"{start}{len(bad)} of {len(table)} quantities are not calibrated.", *lines])


def verdict(bias: float, spread: float) -> str:
    """Words for ranks that are not uniform, from the standard errors of their mean and their spread."""
    words = []
    if abs(spread) > CLEAR:
        words.append("too narrow" if spread > 0 else "too wide")
    if abs(bias) > CLEAR:
        words.append(f"biased, draws too {'low' if bias > 0 else 'high'}")
    return " and ".join(words) or "of another shape"


def sbc(
    estimator: BaseEstimator,
    simulate: Simulator | None = None,
    n: int = 200,
    *,
    X: MatrixLike | None = None,
    n_draws: int = 99,
    quantities: Quantities | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> RankResult:
    """Simulation-based calibration of an estimator's posterior.

    Parameters are drawn from the prior, data from these, and the estimator is fitted to the data. Were its posterior
    that of the prior, the rank of each parameter among draws from it would be uniform (Talts, Betancourt, Simpson,
    Vehtari and Gelman 2018): ranks at both ends tell of one too narrow, in the middle of one too wide, at one end of
    bias.

    Parameters
    ----------
    estimator : estimator
        It need not be fitted; clones of it are.
    simulate : callable, default=None
        A RandomState to X, y and a dict of true values: names as in `to_arviz`'s posterior, arrays of the shape of one
        draw. None: parameters from the prior of the estimator (as in `sample_prior`), at the rows of X; of mixtures,
        whose components may be numbered otherwise, the log likelihood alone has a rank, and factors have none.
    n : int, default=200
        Simulations.
    X : {array-like, DataFrame} of shape (n_rows, D), default=None
        Rows of every simulation, without `simulate`.
    n_draws : int, default=99
        From each posterior.
    quantities : callable, default=None
        A fitted model, X, a number of draws and a RandomState to a dict of draws (n_draws, ...) under the names of
        `simulate`'s true values, for what is no variable of the posterior, or depends on how components are numbered.
        None: the variables of `to_arviz`'s posterior.
    n_jobs : int, default=None
        Processes. Ranks do not depend on it.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    RankResult
        Print it for a verdict in words; `table` has the numbers. `RankDisplay` draws it.

    Raises
    ------
    TypeError
        For an estimator without draws from its prior, without `simulate`.
    ValueError
        Without X and `simulate`; for a prior that is not proper; where no simulation has a fit.

    Notes
    -----
    Besides the parameters, the log likelihood of all rows has a rank: it moves with all that data speak of (Modrák,
    Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari 2023). Bands and p-values are of the empirical
    distribution function at all points together (Säilynoja, Bürkner and Vehtari 2022).

    Simulations that a fit refuses by the data alone (labels of one class) are left out, which leaves ranks uniform.
    Priors in units of the data are drawn in a unit of 1; a fit has the units of its own data. What that costs is on the
    page about calibration.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import sbc
    >>> from sksvi.likelihoods import Gaussian
    >>> model = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0), prior_precision=1.0, intercept_precision=1.0)
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> found = sbc(model, X=X, n=50, random_state=0)  # a conjugate posterior
    >>> found.passed, found.ranks.shape
    (True, (50, 4))
    """
    n, n_draws = check_count(n, "n"), check_count(n_draws, "n_draws")
    if simulate is None:
        if X is None:
            raise ValueError("X is missing: give the rows at which targets are simulated, or simulate.")
        if not hasattr(estimator, "_prior_draws"):
            raise TypeError(
                f"{type(estimator).__name__} has no draws from its prior: give simulate, a function of a RandomState "
                "to X, y and a dict of true values."
            )
        simulate = _Prior(estimator, X)
        simulate.check()
    seeds = np.random.SeedSequence(drawn_seed(random_state)).generate_state(n)
    one = delayed(_one)
    found = Parallel(n_jobs=n_jobs)(one(estimator, simulate, int(seed), n_draws, quantities) for seed in seeds)
    failures = [each for each in found if isinstance(each, str)]
    rows = [each for each in found if not isinstance(each, str)]
    if not rows:
        raise ValueError(f"none of {n} simulations has a fit; the first ended with: {failures[0]}")
    return RankResult(pd.DataFrame(rows).dropna(axis=1).astype(int), n_draws, failures)


@dataclass(frozen=True)
class _Prior:
    """Simulations from the prior of an estimator at some rows."""

    estimator: Any
    X: Any

    def check(self) -> None:
        """Raise where nothing can be drawn."""
        draws = self.estimator._prior_draws(self.X, 1, np.random.RandomState(0))[1]
        if draws.rows is not None and draws.log_density is None:
            raise TypeError(
                f"{type(self.estimator).__name__} has parameters that may be numbered otherwise, and no density of "
                "rows: give simulate, and quantities that do not depend on numbers."
            )

    def __call__(self, rng: np.random.RandomState) -> tuple[Any, Any, dict[str, Any]]:
        twin, draws = self.estimator._prior_draws(self.X, 1, rng)
        if draws.rows is not None:  # how components are numbered is free: what rows have in all is not
            assert draws.log_density is not None
            return draws.rows[0], None, {LOG_LIKELIHOOD: draws.log_density(draws.rows[0]).sum()}
        codes = drawn_targets(twin, draws, n_rows(self.X), rng)[0]
        y = shown_targets(twin, codes)
        paired = draws.nodes[0].likelihood.traits.paired
        codes = np.column_stack([codes, 1.0 - codes]) if paired else codes
        # Numbers and signs of components are free too.
        truths = {name: each.values[0] for name, each in draws.variables.items() if "component" not in each.axes}
        if "noise" not in draws.variables:  # the posterior's density has the noise of rows integrated out
            truths[LOG_LIKELIHOOD] = log_densities(twin, draws, None, codes, None).sum()
        return self.X, codes if paired else y, truths


def _one(estimator: Any, simulate: Any, seed: int, n_draws: int, quantities: Any) -> dict[str, float] | str:
    """Ranks of one simulation, or why there is no fit."""
    rng = np.random.RandomState(seed)
    X, y, truths = simulate(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hundreds of fits
        try:
            model = clone(estimator)
            if "random_state" in model.get_params():
                model.set_params(random_state=int(rng.randint(np.iinfo(np.int32).max)))
            model.fit(X, y)
            if quantities is None:
                draws = model._posterior_draws(n_draws, rng)
            else:
                own = quantities(model, X, n_draws, rng)
                draws = PosteriorDraws(n_draws, {name: Variable(np.asarray(part)) for name, part in own.items()})
        except (ValueError, ArithmeticError) as error:
            return f"{type(error).__name__}: {error}"
    return ranks_of(model, draws, X, y, truths, rng)


def ranks_of(
    model: Any, draws: PosteriorDraws, X: Any, y: Any, truths: Mapping[str, Any], rng: Any
) -> dict[str, float]:
    """Rank of every true value among draws, ties at random."""
    found: dict[str, float] = {}
    for name, truth in truths.items():
        if name == LOG_LIKELIHOOD:
            if draws.log_density is None:
                values = log_densities(model, draws, X, model._check_y(X, y), None).sum(1)
            else:
                values = draws.log_density(X).sum(1)
            found[name] = rank(float(truth), values, rng)
            continue
        if name not in draws.variables:
            continue
        values, axes = draws.variables[name]
        truth = np.asarray(truth, float)
        if truth.shape != values.shape[1:]:
            raise ValueError(
                f"{name!r} has the shape {truth.shape} in simulate, and {values.shape[1:]} in the posterior."
            )
        for place in list(np.ndindex(truth.shape))[:MOST_ENTRIES]:
            labels = [str(labels[i]) for labels, i in zip(axes.values(), place, strict=False)] or map(str, place)
            own = f"{name}[{', '.join(labels)}]" if place else name
            found[own] = rank(float(truth[place]), values[(slice(None), *place)], rng)
    return found


def rank(truth: float, values: Array, rng: Any) -> float:
    """How many values are below the truth; of those that equal it some, at random."""
    equal = np.abs(values - truth) <= SAME * np.abs(truth)  # what a prior fixes differs by rounding
    return float(np.sum((values < truth) & ~equal) + rng.randint(int(np.sum(equal)) + 1))
