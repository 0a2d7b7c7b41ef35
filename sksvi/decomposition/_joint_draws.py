"""Draws of both sides of a factorization together: what a product of two factorized posteriors leaves out."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from sksvi.decomposition._ids import id_columns, positions
from sksvi.estimators.checks import n_rows
from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable, constant, placeholder
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.families import GaussianPlates
from sksvi.families.gaussian.plates import packed
from sksvi.models.chains import ChainLength
from sksvi.models.factorization.chain import FactorChain
from sksvi.models.factorization.chain_loops import squared_spreads
from sksvi.models.factorization.columns import SIDES

Array = np.ndarray

#: Sweeps before draws are stored, most draws, and fewest, where more would take more than so many bytes and than q.
BURN_IN, MOST, LEAST, BYTES = 40, 80, 25, 2**27
#: Fewest sweeps before draws are stored; draws of items that rows of a table are asked at.
FIRST, FEW = 15, 27
#: Counts times components: that all sweeps may visit whatever the fit took (a second or less); of a sweep, beyond which
#: a chain is as long as a fit pays for or not walked; and sweeps that take as long as a pass of a fit.
LITTLE, MUCH, PER_PASS = 2e7, 5e7, 1.2


def chain_length(numbers: int, q_bytes: float) -> ChainLength | None:
    """Sweeps of a chain whose draws have so many numbers, beside a q of `q_bytes`; None: they would take too much."""
    if 4 * numbers * LEAST > max(8 * BYTES, q_bytes):
        return None
    return ChainLength(BURN_IN, int(np.clip(max(BYTES, q_bytes) // (4 * numbers), LEAST, MOST)))


def draws_bytes(numbers: float, q_bytes: float) -> float:
    """Bytes of the draws of a chain of this length."""
    length = chain_length(int(numbers), q_bytes)
    return 0.0 if length is None else 4.0 * length.draws * numbers


def affordable(length: ChainLength | None, work: float, passes: int) -> ChainLength | None:
    """The length whose sweeps cost about what the fit did, or little; None: that of the shortest would be much.

    work : counts times components that a sweep visits; passes : those of the fit.
    """
    if length is None:
        return None
    share = min(1.0, max(LITTLE / work, PER_PASS * passes) / length.sweeps)
    draws, least = int(share * length.draws), min(LEAST, length.draws)
    if draws >= least:
        return ChainLength(max(FIRST, int(share * length.burn_in)), draws)
    return ChainLength(FIRST, least) if work < MUCH else None


def about(draws: Array, mean: Array) -> Array:
    """Mean square (P, F) of draws (P, S, F) about `mean` (P, F), one by one: all at once take twice their room."""
    total = np.zeros(mean.shape)
    for draw in np.moveaxis(draws, 1, 0):
        total += np.square(draw - mean)
    return total / draws.shape[1]


@dataclass(frozen=True)
class JointDraws:
    """Draws of users and items from the posterior of both and their hyperparameters, in the coordinates of q.

    A standard deviation of S draws is known to about one part in sqrt(2 S). Of a table whose rows are asked for anew no
    row is a user, and columns are items.

    Parameters
    ----------
    users : ndarray of shape (n_users, S, F)
        Single precision; (0, S, F) of a table.
    items : ndarray of shape (n_items, S, F)
    weights : ndarray of shape (S, F) or (0, 0)
        Of components that have them.
    k_hats : dict
        By side, of shape (n_users,) and (n_items,): tail index 1 - 1/λ of importance ratios from q to a Gaussian whose
        variances are on average λ times those of q, as those of the draws about its means are; 0 where λ < 1. Above
        0.7 weights would not bring q to the posterior.
    """

    LAYOUT = "users (n,S,F) x; items (m,S,F) x; weights (S,F) x or (0,0) x; k_hats dict"

    users: Array
    items: Array
    weights: Array = field(default_factory=lambda: np.ones((0, 0), np.float32))
    k_hats: dict[str, Array] = field(default_factory=dict)

    def beside(self, sides: dict[str, tuple[Array, Array]]) -> JointDraws:
        """Draws with the tail indices beside means and variances (P, K) of q, by side."""
        ratios = {
            side: np.mean(about(self.of(side)[..., : mean.shape[1]], mean) / variance, axis=1)
            for side, (mean, variance) in sides.items()
        }
        return replace(self, k_hats={side: np.maximum(0.0, 1.0 - 1.0 / ratio) for side, ratio in ratios.items()})

    @property
    def n_draws(self) -> int:
        """Number of draws, S."""
        return self.items.shape[1]

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

    def pair_variance(self, users: Array, of_user: Array, of_item: Array, mean: Array, shared: int) -> Array:
        """Mean square of f about `mean` (n,) of pairs: products of the first `shared` coordinates, sums of the others.

        users (P, S, F): draws of those that `of_user` (n,) numbers; `of_item` (n,) numbers items of the fit.
        """
        out = np.empty(len(mean))
        squared_spreads(users, self.items, of_user, of_item, mean, shared, out)
        return out

    def summed(self, mean: Array) -> Array:
        """Mean square of the sums of each component's items about `mean`, (K,)."""
        return np.mean(np.square(self.items.sum(0, dtype=float) - mean), axis=0)

    @property
    def few_items(self) -> Array:
        """Some of the draws of items, for rows whose own are found for each of them."""
        return np.ascontiguousarray(self.items[:, :: -(-self.n_draws // FEW)])


def cell_variance(items: Array, means: Array, variances: Array | None, mean: Array) -> Array:
    """Mean square of Σ_k H_k W_k about `mean` (n, F), of all columns, from draws (F, S, K) of these.

    means, variances (n, S, K): of rows' own numbers at each draw; None: 0.
    """
    total = np.zeros(mean.shape)
    for s in range(items.shape[1]):
        bases = items[:, s].T
        total += np.square(means[:, s] @ bases - mean)
        if variances is not None:
            total += variances[:, s] @ np.square(bases)
    return total / items.shape[1]


# ---- from the prior of the chain: half-Cauchy deviations of factors
def prior_draws(estimator: Any, X: Any, n: int, rng: Any) -> tuple[Any, PosteriorDraws]:
    """An estimator with what X fixes, or its fit, and draws of both sides and of f at the pairs of X.

    Raises
    ------
    ValueError
        Where variances of factors, or parameters of the likelihood, have no prior; for ids that a fit has not.
    """
    fitted = hasattr(estimator, "state_")
    twin = copy.copy(estimator) if fitted else clone(estimator)
    if not fitted:
        twin._encoded(GivenRows(X, placeholder(twin, n_rows(X)), None, None), True, WHOLE)
    _check_proper(twin)
    ids = twin.users_, twin.items_
    priors = {side: twin._prior(side, own) for side, own in zip(SIDES, ids, strict=True)}
    model = twin._new_model(priors)
    places = [positions(own, column) for own, column in zip(ids, id_columns(twin, X, False), strict=True)]
    if min(own.min(initial=0) for own in places) < 0:
        raise ValueError(f"X has users or items that this {type(twin).__name__} has not: draw for those of the fit.")
    scales = FactorChain(model, None, {}, False).prior_scales  # type: ignore[arg-type]
    sides, nodes = {side: list[Array]() for side in SIDES}, []
    for s in range(n):
        for side, own in zip(SIDES, ids, strict=True):
            sides[side].append(_drawn_side(priors[side], scales, len(own), rng))
        users, items = (sides[side][s][place] for side, place in zip(SIDES, places, strict=True))
        f = model.offset + np.sum(users * items, axis=1)
        nodes.append(NodeDraws(np.array([s]), twin.likelihood_, constant(f[:, None])))
    axes = {side: {side[:-1]: own, "component": np.arange(model.n_components)} for side, own in zip(SIDES, ids)}
    found = {side: Variable(np.array(sides[side]), axes[side]) for side in SIDES}
    return twin, PosteriorDraws(n, found, nodes)


def _check_proper(estimator: Any) -> None:
    name, likelihood = type(estimator).__name__, estimator.likelihood_
    if estimator.biases:
        raise ValueError(
            f"biases=True of this {name} has a mean of the items' biases whose prior is a hundred times as wide as "
            "they are, which says nothing of ratings: set biases=False."
        )
    if estimator.uncertainty != "corrected" or estimator.covariance != "full":
        raise ValueError(
            f"uncertainty={estimator.uncertainty!r} with covariance={estimator.covariance!r} of this {name} learns the "
            "variances of factors without a prior: set uncertainty='corrected' and covariance='full'."
        )
    if likelihood.learned:
        raise ValueError(
            f"likelihood={estimator.likelihood!r} of this {name} learns {', '.join(likelihood.learned)} without a "
            f"prior: give numbers, as in {type(likelihood).__name__}({likelihood.learned[0]}=...)."
        )


def _drawn_side(prior: Any, scales: Array, n: int, rng: Any) -> Array:
    """Columns (n, F) of one side: deviations, coefficients of their mean, then columns about it."""
    deviation = np.sqrt(scales) * np.abs(rng.standard_cauchy(len(scales)))
    if not prior.by_coordinate:
        deviation[:] = deviation[0]
    columns = deviation * rng.standard_normal((n, len(scales)))
    if prior.design is None:
        return columns
    coefficients = deviation * rng.standard_normal((prior.n_columns, len(scales))) / np.sqrt(prior.delta)[:, None]
    return np.asarray(columns + prior.design @ np.where(prior.applies, coefficients, 0.0))
