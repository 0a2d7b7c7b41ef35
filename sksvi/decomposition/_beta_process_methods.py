"""Methods of a fitted beta process factor analysis: codes, missing entries and densities of rows, tables of factors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast, overload

import numpy as np
from scipy.special import expit, gammaincinv, logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._names import feature_names
from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, RandomState, Series
from sksvi.decomposition._beta_process_encoding import ROWS, BetaProcessEncoding
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_count, check_flag, check_seed
from sksvi.estimators.completion import checked_factors, checked_held_out, filled_in, halved_entries
from sksvi.estimators.draws import PosteriorDraws, Variable
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.estimators.posterior import DrawnBlock, Posterior
from sksvi.estimators.summaries import columns_of_draws
from sksvi.models.beta_process.model import BetaProcess, LocalTerms, split
from sksvi.models.beta_process.sampler import Globals, at_values, draw, expected
from sksvi.models.data import Table
from sksvi.partitions.lazy import added
from sksvi.predictive.plain import tail_of
from sksvi.predictive.quantiles import beta_quantiles

Array = np.ndarray

#: Draws of the globals that densities and standard deviations average over, and of z for each of them in densities: the
#: log of a mean over few draws is too low, the more so the wider the posterior.
GLOBAL_DRAWS, DENSITY_SAMPLES = 10, 20


@dataclass(frozen=True)
class FactorRecord:
    """Which factors of the model the results have.

    Parameters
    ----------
    order : ndarray of shape (n_used,)
        Positions of those in the results, the most used first.
    draws : dict or None
        Factors, probabilities and precisions by name, of the full sampler or a chain that began at q.
    sampled : bool
        Whether means are of the draws too: those of the full sampler, which has no q of its own.
    """

    LAYOUT = """
        order (m) i >=0 distinct where m > 0; sampled flag
        draws? where it.keys() >= {'features', 'logit', 'noise', 'weight'}
        draws.features? (n,k,_) f; draws.logit? (n,k) f; draws.noise? (n,_) f >0; draws.weight? (n) f >0
    """

    order: Array
    draws: dict[str, Any] | None = None
    sampled: bool = False


class BetaProcessMethods(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseSVI):
    """Methods of a fitted beta process factor analysis."""

    LAYOUT = f"""{BaseSVI.LAYOUT}
        _record.choices.n_components count k; mean_ (d) f; scale_ number >0
        _encoding.mean (d); _encoding.noise_size count m >=1
        state_.q.features.mean (k|d,k|d) where it.size == k * d
        state_.q.probabilities where np.size(it.mean) == k
        state_.q.weight_precision where np.size(it.mean) == 1
        state_.q.noise_precision where np.size(it.mean) == m
        _factors.order (n) i <k; components_ (n,d) x; feature_probability_ (n) f >=0
        state_.locals.values? (_,k) f; noise_precision_ (d) f >0 or number >0
        posterior_._blocks.features.mean (n,d); posterior_._blocks.probabilities.mean (n)
        posterior_._blocks.noise_precision.mean (m); posterior_._blocks.weight_precision.mean (_) where it.size == 1
        _factors.draws.features? (_,k,d) f; _factors.draws.noise? (_,m) f
    """

    components_: Array
    feature_probability_: Array
    mean_: Array
    scale_: float
    noise_precision_: float | Array
    local_step: str
    n_burn_in: int
    n_local_samples: int
    n_jobs: int | None
    _encoding: BetaProcessEncoding
    _factors: FactorRecord

    def _model(self, n_components: int) -> BetaProcess:
        """The model with so many components."""
        raise AttributeError(f"{type(self).__name__} has no model")

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return BetaProcessEncoding.read(self, GivenRows(X), self._encoding, WHOLE).X

    @property
    def _own(self) -> dict[str, Any]:
        """Blocks of q, of the factors in the results."""
        q, order = self.state_.shown, self._factors.order
        return {**q, "probabilities": q["probabilities"][order], "features": q["features"][order]}

    @property
    def _drawn(self) -> dict[str, Any]:
        """Blocks of the factors in the results, by draws."""
        draws, order = cast(dict[str, Any], self._factors.draws), self._factors.order
        found = {"probabilities": expit(draws["logit"][:, order]), "features": draws["features"][:, order]}
        found |= {"weight_precision": draws["weight"][:, None], "noise_precision": draws["noise"]}
        return {name: DrawnBlock(values) for name, values in found.items()}

    def _variational(self) -> Self:
        """A copy whose posterior is q, without draws."""
        found = copy.copy(self)
        found._factors, found.posterior_ = replace(self._factors, draws=None), Posterior(self._own)
        return found

    def _reads_draws(self, n_draws: int) -> bool:
        """Whether so many draws of the globals are draws of a chain; 0: expectations."""
        return self._factors.sampled or (n_draws > 0 and self._factors.draws is not None)

    def _views(self, n_draws: int) -> list[Globals]:
        """Globals to average over: draws of a chain, else of q, or with 0 its expectations."""
        size, q = len(self.mean_), self._own if self._factors.draws else dict(self.posterior_)
        draws = self._factors.draws
        if draws is not None and self._reads_draws(n_draws):
            chosen = np.unique(np.linspace(0, len(draws["weight"]) - 1, n_draws or GLOBAL_DRAWS).round().astype(int))
            phi, logit = draws["features"][:, self._factors.order], draws["logit"][:, self._factors.order]
            return [at_values(phi[i], logit[i], draws["noise"][i], float(draws["weight"][i]), size) for i in chosen]
        if not n_draws:
            return [expected(q, size)]
        rng = np.random.default_rng(0)
        return [draw(q, rng, size) for _ in range(n_draws)]

    def _local(self, X: Array, n_draws: int, reduce: Any, key: int = 0, min_samples: int = 0) -> Iterator[Any]:
        """reduce(view, terms of the rows' draws, rows) for every view and block of rows, blocks in order."""
        local_step = "gibbs" if self._reads_draws(n_draws) else self.local_step
        model = self._model(len(self.components_))
        model = model.with_local(local_step, self.n_burn_in, max(min_samples, self.n_local_samples))
        views = self._views(n_draws)
        data = Table(X, np.broadcast_to(0.0, (len(X),)))

        def one(rows: slice) -> Any:
            return [reduce(view, local_draws(model, view, data, rows, key, bool(n_draws), m / len(views)), rows)
                    for m, view in enumerate(views)]  # fmt: skip

        with parallel.working():
            for view in views:
                _ = view.columns, view.spread_columns, view.gram
            yield from parallel.in_order(one, model.chunks(slice(0, len(X)), data), parallel.n_threads(self.n_jobs))

    def transform(self, X: MatrixLike) -> Array:
        """E[z∘w] of every row given its observed entries: how much of each factor it uses.

        Parameters
        ----------
        X : array-like of shape (n, D)
            NaN where an entry is missing.

        Returns
        -------
        ndarray of shape (n, K)
        """
        X = self._rows(X)
        parts = self._local(self._encoding.scaled(self, X), 0, lambda view, terms, rows: terms.omega.mean(0))
        return np.concatenate([np.mean(part, 0) for part in parts]).astype(X.dtype, copy=False)

    def transform_draws(self, X: MatrixLike, n_draws: int = 10, random_state: RandomState = None) -> Array:
        """Posterior draws of z∘w, one for each of `n_draws` draws of the factors.

        Parameters
        ----------
        X : array-like of shape (n, D)
        n_draws : int, default=10
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_draws, n, K)
            Of a Dask collection a lazy one, in chunks of its rows.
        """
        X = self._rows(X)
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * len(X) * len(self.components_))
        key = int(check_seed(random_state).randint(1, np.iinfo(np.int32).max))
        parts = self._local(self._encoding.scaled(self, X), n_draws, lambda view, terms, rows: terms.omega[-1], key)
        return np.concatenate([np.stack(part) for part in parts], axis=1).astype(X.dtype, copy=False)

    def inverse_transform(self, X: MatrixLike) -> Array:
        """Rows in units of the data from how much they use of each factor.

        Parameters
        ----------
        X : array-like of shape (n, K)

        Returns
        -------
        ndarray of shape (n, D)
        """
        check_is_fitted(self)
        factors = checked_factors(X, len(self.components_), "factors")
        return (factors @ self.components_ + self.mean_).astype(factors.dtype, copy=False)

    @overload
    def impute(self, X: MatrixLike, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def impute(self, X: MatrixLike, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def impute(self, X: MatrixLike, return_std: bool = ...) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def impute(self, X: MatrixLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Fill in missing entries by their posterior mean; observed entries stay as they are.

        Parameters
        ----------
        X : array-like of shape (n, D)
        return_std : bool, default=False
            Whether to return the standard deviation of each missing entry too, noise included; 0 where observed.

        Returns
        -------
        ndarray of shape (n, D), or two of them
        """
        rows = self._rows(X)
        if not check_flag(return_std, "return_std"):
            return filled_in(rows, self._moments(rows, False))
        mean, variance = self._moments(rows, True)
        return filled_in(rows, mean, np.sqrt(variance + 1.0 / self.noise_precision_))

    @overload
    def reconstruct(
        self, X: MatrixLike, return_std: Literal[False] = ..., *, n_draws: int | None = ...
    ) -> np.ndarray: ...

    @overload
    def reconstruct(
        self, X: MatrixLike, return_std: Literal[True], *, n_draws: int | None = ...
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def reconstruct(
        self, X: MatrixLike, return_std: bool = ..., *, n_draws: int | None = ...
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def reconstruct(
        self, X: MatrixLike, return_std: bool = False, *, n_draws: int | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior mean of (z∘w)Φ for every entry, observed or not: rows without their noise.

        Parameters
        ----------
        X : array-like of shape (n, D)
            NaN where an entry is missing.
        return_std : bool, default=False
            Whether to return its standard deviation, without noise.
        n_draws : int or None, default=None
            Draws of the factors to average over. None: ten with `return_std`, else their posterior mean alone.

        Returns
        -------
        ndarray of shape (n, D), or two of them
        """
        if n_draws is not None:
            n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * self.posterior_["features"].mean.size)
        found = self._moments(self._rows(X), check_flag(return_std, "return_std"), n_draws)
        return (found[0], np.sqrt(found[1]).astype(found[0].dtype)) if return_std else found

    def _moments(self, X: Array, with_variance: bool, n_draws: int | None = None) -> Any:
        """Posterior mean of every entry of checked rows, with its variance if wanted: see ``reconstruct``."""
        X, dtype = self._encoding.scaled(self, X), X.dtype
        n_draws = n_draws or (GLOBAL_DRAWS if with_variance else 0)  # of the globals; 0: expectations
        parts = self._local(X, n_draws, lambda view, terms, rows: entry_moments(view, terms, X[rows]))
        # In single precision squares of small numbers are none.
        mean, variance, done = np.empty(X.shape, dtype), np.empty(X.shape if with_variance else 0), 0
        for part in parts:  # block by block: arrays of all rows would each take a way to memory and back
            first, second = np.mean(part, axis=0)
            rows = slice(done, done := done + len(first))
            mean[rows] = self.mean_ + self.scale_ * first
            if with_variance:  # the square of a mean of few draws is too large by the variance of that mean
                between = sum(np.square(moments[0] - first) for moments in part) / max(len(part) * (len(part) - 1), 1)
                variance[rows] = self.scale_**2 * np.maximum(second - np.square(first) + between, 0.0)
        return (mean, variance) if with_variance else mean

    def log_predictive_density(self, X: MatrixLike, held_out: ArrayLike) -> Array:
        """Log density of entries that X lacks, given those that it has, per row.

        The log of the average over draws of factors, precisions and z of the joint density of the row's held-out
        entries, w integrated out (equation 12 of Shah, Knowles and Ghahramani, with its log). There are 200 draws or
        more; fewer would make it too low where the posterior is wide.

        Parameters
        ----------
        X : array-like of shape (n, D)
            What is known, NaN elsewhere.
        held_out : array-like of shape (n, D)
            What is asked for, NaN elsewhere.

        Returns
        -------
        ndarray of shape (n,)
            Nats; 0 for a row of which nothing is asked.
        """
        rows = self._rows(X)
        wanted = checked_held_out(held_out, rows.shape, any_unit=True, **ROWS)
        return self._log_density(rows, wanted.astype(np.float64))

    def _log_density(self, X: Array, held_out: Array) -> Array:
        """Log density of the held-out entries of checked rows, (n,): see ``log_predictive_density``."""
        X, target = self._encoding.scaled(self, X), split(self._encoding.scaled(self, held_out))

        def densities(view: Globals, terms: LocalTerms, rows: Any) -> Array:
            return log_density(view, terms, X[rows], (target[0][rows], target[1][rows]))

        parts = self._local(X, GLOBAL_DRAWS, densities, min_samples=DENSITY_SAMPLES)
        logs = (np.concatenate(part) for part in parts)
        out = np.concatenate([logsumexp(drawn, axis=0) - np.log(len(drawn)) for drawn in logs])
        return out - target[1].sum(1) * np.log(self.scale_)

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log density, nats per entry, of half of each row's observed entries given the other half.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        total, n = added(self, "_scored", X)
        if not n:
            raise ValueError("score needs at least one observed entry.")
        return float(total / n)

    def _scored(self, X: Any) -> tuple[float, int]:
        """Sum of the log densities of the held-out half of the observed entries, nats, and how many these are."""
        given, held_out = halved_entries(self._rows(X))
        return self._log_density(given, held_out).sum(), int(np.sum(~np.isnan(held_out)))

    # ---- factors
    def effective_components(
        self, coverage: float = 0.9, n_samples: int = 1000, random_state: RandomState = 0
    ) -> Series:
        """Posterior of the effective number of factors: exp of the entropy of their shares in all uses.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        n_samples : int, default=1000
            Draws of the probabilities.
        random_state : int, RandomState or None, default=0

        Returns
        -------
        Series
            mean, std, lower, upper.
        """
        import pandas as pd

        check_is_fitted(self)
        tail = tail_of(coverage)
        probabilities, rng = self.posterior_["probabilities"], check_seed(random_state)
        n_samples = check_count(n_samples, "n_samples", bytes_each=8.0 * len(probabilities.mean))
        draws = effective_number(probabilities.sample(n_samples, rng))
        lower, upper = np.quantile(draws, [tail, 1.0 - tail])
        return pd.Series({"mean": draws.mean(), "std": draws.std(), "lower": lower, "upper": upper})

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of every factor's probability of use, and of the precisions in units of X.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per factor, then the precisions of weights and noise.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, units = tail_of(coverage), {"weight_precision": 1.0, "noise_precision": self.scale_**-2.0}
        ends, use = (tail, 1.0 - tail), self.posterior_["probabilities"]
        names = list(self.get_feature_names_out())
        for name in units:
            size = len(self.posterior_[name].mean)
            names += [name] if size == 1 else [f"{name}[{d}]" for d in range(size)]
        if self._factors.draws is not None and not self._factors.sampled:
            drawn = [use.draws, *(unit * self.posterior_[name].draws for name, unit in units.items())]
            return pd.DataFrame(columns_of_draws(np.hstack(drawn), tail), index=pd.Index(names, name="factor"))
        rows = [np.stack([use.mean, use.std, *(beta_quantiles(use.a, use.b, end) for end in ends)], 1)]
        for name, unit in units.items():
            q = self.posterior_[name]
            quantiles = [gammaincinv(q.shape, end) / q.rate for end in ends]
            rows.append(unit * np.stack([q.mean, q.std, *quantiles], 1))
        index = pd.Index(names, name="factor")
        return pd.DataFrame(np.concatenate(rows), index=index, columns=["mean", "std", "lower", "upper"])

    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        factors = {"factor": self.get_feature_names_out()}
        return {"probabilities": factors, "features": factors | {"feature": feature_names(self)}}

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        # One seed: blocks that were drawn are of the same draws.
        draws, unit = super()._posterior_draws(n, rng.randint(np.iinfo(np.int32).max)), self.scale_
        for name, power in (("features", 1.0), ("noise_precision", -2.0)):
            values, axes = draws.variables[name]
            draws.variables[name] = Variable(unit**power * values, axes)
        return draws

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def local_draws(
    model: BetaProcess, view: Globals, data: Table, rows: slice, key: int, random: bool, rotation: float = 0.0
) -> LocalTerms:
    """Terms of the rows under their local posterior: omega are draws, or with random=False E z w if in closed form.

    Every row draws from the same stream, so that results depend on nothing but the row. Views rotate its uniform
    numbers by equal parts of 1 (Cranley and Patterson 1976): of few views, too, a share as its odds say uses a factor.
    """
    batch = model.batch(data, rows)
    batch.streams, batch.rotation = np.zeros_like(batch.streams), rotation
    terms = model.terms(view, batch, None, np.random.default_rng(key))
    if random and terms.law is not None:
        theta, u, inverse = terms.law
        rng = np.random.default_rng([key, 1, int(2**32 * rotation)])
        shape = (model.n_local_samples, 1, theta.shape[1])
        used = rng.random(shape) < theta
        terms.omega = np.where(used, u + np.sqrt(inverse) * rng.standard_normal(shape), 0.0)
    return terms


def entry_moments(view: Globals, terms: LocalTerms, X: Array) -> Array:
    """Mean and second moment of every entry, noise apart, averaged over the draws of z, (2, n, D)."""
    if terms.law is not None:
        fits = terms.omega @ view.features
        loose = terms.omega**2 @ view.spread if len(view.spread) else 0.0
        return np.stack([fits.mean(0), (np.square(fits) + loose).mean(0)])
    from sksvi.models.beta_process.loops.predictive import given_use

    (y, observed), root, out = split(X), np.sqrt(view.noise), np.zeros((2, *X.shape))
    given_use(terms.omega, y * root, observed, view.scaled, view.scaled_spread, view.precision, out[0], out[1])
    out[0] /= root
    out[1] /= view.noise
    return out


def log_density(view: Globals, terms: LocalTerms, X: Array, held_out: tuple[Array, Array]) -> Array:
    """Log density of each row's held-out entries (values, mask) given its observed ones and each draw of z, (S, n)."""
    from sksvi.models.beta_process.loops.predictive import held_out_density

    (y, observed), (target, wanted), root = split(X), held_out, np.sqrt(view.noise)
    law, out = np.empty((0, 0, 0)) if terms.law is None else terms.law[1:], np.empty(terms.omega.shape[:2])
    held_out_density(terms.omega, y * root, observed, target * root, wanted, view.scaled, view.precision, law, out)
    return out + 0.5 * (wanted @ view.log_noise)


def effective_number(shares: Array) -> Array:
    """exp of the entropy of shares that need not sum to 1, along the last axis."""
    p = shares / shares.sum(-1, keepdims=True)
    return np.exp(-np.sum(p * np.log(np.maximum(p, np.finfo(float).tiny)), -1))
