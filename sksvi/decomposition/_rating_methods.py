"""What a fitted factorization of ratings answers: factors and biases, users folded in, items to recommend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.algorithms import MCSSVI
from sksvi.decomposition._folded import FOLD_STEPS, FOLD_TOL, FoldedUsers
from sksvi.decomposition._ids import design_of, positions
from sksvi.decomposition._joint_draws import prior_draws
from sksvi.decomposition._pairs import QUANTILES, PairMethods, Request, Scored, crossed
from sksvi.decomposition._pmf_encoding import PairEncoding
from sksvi.estimators.checks import check_row_values, check_seed
from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable, likelihood_draws
from sksvi.estimators.encoding import CHUNK
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.regression import RegressionMethods
from sksvi.estimators.summaries import concatenated, effect_table, learned_rows
from sksvi.families import DiagonalGaussian, GaussianPlates
from sksvi.families.gaussian.plates import packed
from sksvi.inference import plan
from sksvi.inference.messages import BlockFactors
from sksvi.inference.passes import alternating
from sksvi.inference.state import State
from sksvi.likelihoods import Likelihood
from sksvi.models.factorization.chain import Conditionals
from sksvi.models.factorization.columns import SIDES, ColumnView, SideColumns
from sksvi.models.factorization.gaussian import MOST_COOLING, FactorModel
from sksvi.models.factorization.ratings import Entries, Ratings
from sksvi.models.factorization.side_prior import SidePrior
from sksvi.predictive import Predictive

Array = np.ndarray

#: Steps of a folded-in user at each draw of the items where one is not exact.
FOLD_MOVES = 3
#: Pairs that are ranked at a time.
RANKED = 2**18
#: Error about an attribute that is not there.
NOTHING_SHOWN = "{} has no {} to show: it is not fitted, or has none."


class RatingMethods(RegressionMethods, PairMethods):
    """Methods of a fitted factorization of ratings."""

    likelihood_: Likelihood
    prior_covariance: str
    max_iter: int
    state_: State
    _encoding: PairEncoding
    _at_hand: tuple[str, ...] = ("fold_in",)
    _header_names = ("ratings", "factors")

    @property
    def _k(self) -> int:
        return int(self._record.choices["n_components"])

    def _prior(self, side: str, ids: Any) -> SidePrior:
        """The prior of one side's plates with these ids."""
        features = self._encoding.features[side]
        biases = self._record.choices["biases"]
        constant = side == "items" and biases and not self.likelihood_.traits.ordered
        applies = np.full(self._k + biases, features is not None)
        applies[self._k :] |= constant
        return SidePrior(design_of(features, ids, constant), applies, self.prior_covariance == "diag")

    def _new_model(self, priors: dict[str, SidePrior], n_active: int | None = None) -> FactorModel:
        return FactorModel(
            self.likelihood_,
            n_components=self._k,
            biases=bool(self._record.choices["biases"]),
            full=self._record.choices["covariance"] == "full",
            priors=priors,
            offset=self._encoding.offset,
            unit=self._encoding.unit,
            zero_weight=self._record.choices.get("zero_weight") or 0.0,
            cooling=min(MOST_COOLING, self.max_iter // 2),  # a fit that is cut off has passes under its own noise
            n_active=n_active,
        )

    @property
    def _model(self) -> FactorModel:
        """The fitted model without the plates' features: for predictions."""
        return self._new_model({side: SidePrior(None, np.zeros(0, bool), True) for side in SIDES})

    @property
    def _blocks(self) -> dict[str, Any]:
        """q as the fit left it, of those that have an id."""
        q = self.state_.q
        return {**q, "users": q["users"][: len(self.users_)], "items": q["items"][: len(self.items_)]}

    @property
    def posterior_(self) -> Posterior:
        """Blocks of q: users, items and, with ``biases=True``, biases."""
        if not hasattr(self, "state_"):
            raise AttributeError("posterior_ is there after fit")
        shown = {**self._blocks, **{side: self._plates(side) for side in SIDES}}
        blocks = {side: shown[side].leading(self._k) for side in SIDES}
        if self._record.choices["biases"]:
            blocks["biases"] = self._bias_block(shown, self._k)
        return Posterior(blocks)

    def _plates(self, side: str, plates: Any = slice(None)) -> GaussianPlates:
        """Some columns of a side, their means those of q, their covariances those of the draws if there are any."""
        block = self._blocks[side]
        return block[plates].copy() if self.draws_ is None else self.draws_.about(side, block, plates)

    def _bias_block(self, q: dict[str, Any], k: int) -> DiagonalGaussian:
        """Global bias, users' and items' as one vector; an item's is less the global one."""
        prior = self._prior("items", self.items_)
        constant = q["items_mean"].value[0, k] if prior.design is not None else 0.0
        spread = prior.coefficients(q, "items").variance[k, 0] if prior.design is not None else np.finfo(float).tiny
        mean = [[self._encoding.offset + constant], q["users"].mean[:, k], q["items"].mean[:, k] - constant]
        variance = [[spread], q["users"].variance[:, k], q["items"].variance[:, k]]
        return DiagonalGaussian(np.concatenate(mean), 1.0 / np.concatenate(variance))

    @property
    def global_bias_(self) -> float:
        """Posterior mean of the global bias."""
        return float(self._fitted_biases.mean[0])

    @property
    def user_biases_(self) -> Array:
        """Posterior means, (n_users,)."""
        return self._fitted_biases.mean[1 : 1 + len(self.users_)]

    @property
    def item_biases_(self) -> Array:
        """Posterior means, (n_items,)."""
        return self._fitted_biases.mean[1 + len(self.users_) :]

    def _factors_of(self, side: str) -> GaussianPlates:
        if not hasattr(self, "state_"):
            raise AttributeError(NOTHING_SHOWN.format(type(self).__name__, side))
        return self._blocks[side].leading(self._k)

    @property
    def _fitted_biases(self) -> DiagonalGaussian:
        if not hasattr(self, "state_") or not self._record.choices["biases"]:
            raise AttributeError(NOTHING_SHOWN.format(type(self).__name__, "biases"))
        return self._bias_block(self._blocks, self._k)

    def _spread_of(self, side: str) -> Array:
        self._factors_of(side)
        block = self._plates(side).leading(self._k)
        return block.cov if block.full else block.values

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        k, names = self._k, {"users": self.users_, "items": self.items_}
        sides = self._drawn_sides(self._blocks, n, rng)
        components, offset = {"component": np.arange(k)}, self._encoding.offset
        found = {side: Variable(sides[side][..., :k], {side[:-1]: names[side]} | components) for side in SIDES}
        if self._record.choices["biases"]:
            found |= {f"{side[:-1]}_biases": Variable(sides[side][..., k], {side[:-1]: names[side]}) for side in SIDES}
        found |= likelihood_draws(self.likelihood_, self.state_.q.get("likelihood"), n, rng)

        def latents(X: Any, given: Any) -> tuple[Array, Array]:
            of_user, of_item = self._places_of(X)
            u, v = sides["users"][:, of_user], sides["items"][:, of_item]
            f = np.einsum("snk,snk->ns", u[..., :k], v[..., :k]) + u[..., k:].sum(-1).T + v[..., k:].sum(-1).T + offset
            return (f if given is None else f + np.reshape(given, (-1, 1))), np.zeros(len(f))

        return PosteriorDraws(n, found, [NodeDraws(np.arange(n), self.likelihood_, latents)])

    @property
    def _n_features_out(self) -> int:
        return self._k

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the biases, then the learned parameters of the likelihood.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction (the posterior probability of the mean's sign); rows by kind
            (global, user, item) and id. Without biases, the factors. The last rows, of an empty kind, are the
            likelihood's: ``std(residual)``, ``dispersion``, ``scale``, ``df`` or ``cut_points[k]`` where they were
            learned, points with the spread that the data's curvature leaves them, factors as fitted.
        """
        import pandas as pd

        check_is_fitted(self)
        if self._record.choices["biases"]:
            block = self.posterior_["biases"]
            kinds = ["global"] + ["user"] * len(self.users_) + ["item"] * len(self.items_)
            index = pd.MultiIndex.from_arrays([kinds, ["", *self.users_, *self.items_]], names=["kind", "id"])
            mean, std = block.mean, block.std
        else:
            k = self._k
            kinds = ["user"] * len(self.users_) * k + ["item"] * len(self.items_) * k
            ids = [*np.repeat(self.users_, k), *np.repeat(self.items_, k)]
            factors = list(range(k)) * (len(self.users_) + len(self.items_))
            index = pd.MultiIndex.from_arrays([kinds, ids, factors], names=["kind", "id", "factor"])
            mean = np.concatenate([self.posterior_[side].mean.ravel() for side in SIDES])
            std = np.concatenate([self.posterior_[side].std.ravel() for side in SIDES])
        learned = learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)
        return concatenated([effect_table(mean, std, coverage, index), learned])

    # ---- users that were not in the fit
    def fold_in(self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> FoldedUsers:
        """Posterior of the users of some ratings, given the items as they are; the estimator stays as it is.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            Pairs of user and item. A user that the fit knows starts from what it knows.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        FoldedUsers
            Of one user or many: `recommend`, `transform`, `predict`, `predict_interval` and every other method that
            predicts pairs take it.

        Raises
        ------
        ValueError, TypeError
            A missing user id; otherwise as `fit`. An item that is missing or was not seen is the prior's; `on_unseen`
            says whether of items that were not seen something is said.
        """
        import pandas as pd

        columns = self._to_fold(X)
        ratings, *_ = self._encoding.values(self, columns, y, self._encoding, CHUNK)
        weight = check_row_values(sample_weight, len(ratings), "sample_weight", weights=True)
        self._check_known("items", columns[1], f"items in column {columns[1].name!r} of X")
        codes, ids = pd.factorize(columns[0], use_na_sentinel=False)
        others, items = pd.factorize(columns[1], use_na_sentinel=False)
        if self._record.choices.get("zero_weight"):
            check_new(ids, positions(self.users_, pd.Series(ids, dtype=object)))
            # Every item of the fit has a zero.
            items = np.append(self.items_.astype(object), items[positions(self.items_, pd.Series(items)) < 0])
            others = positions(items, columns[1])
        names, rated_items = pd.Series(ids, dtype=object), pd.Series(items, dtype=object)
        model = self._model.for_users(self._prior("users", names))
        q = self._blocks | {"users": self._rows("users", names), "items": self._rows("items", rated_items)}
        prior_factors = BlockFactors({"users": q["users"].over(model.prior(q)["users"])})
        data = Ratings(codes, others, ratings, weight, len(ids), len(items))
        problem = plan.problem(model, data, MCSSVI(), threads=parallel.n_threads(self.n_jobs))
        state = State(q, 0)
        with parallel.working():
            for _ in range(FOLD_STEPS):
                block = alternating.half_sweep(problem, state, "users", prior_factors).block
                change = block.kl_by_plate(state.q["users"].natural_form()).max()
                state.q["users"] = block
                if change < FOLD_TOL:
                    break
        entries = data.sides["users"]
        where = positions(self.items_, rated_items)[entries.other]
        rated = entries.chosen(where >= 0).starts, where[where >= 0]
        draws = None if self.draws_ is None else self._folded_draws(model, state.q, entries, names, rated_items)
        return FoldedUsers(np.asarray(ids), state.q["users"], self._k, rated, self._mark, draws)

    def _folded_draws(self, model: FactorModel, q: dict[str, Any], entries: Entries, users: Any, items: Any) -> Array:
        """Draws (n, S, F) of users folded in, each given a draw of the items; users of the fit go on from their own."""
        assert self.draws_ is not None
        rng, n_draws, where = np.random.RandomState(0), self.draws_.n_draws, positions(self.users_, users)
        place = positions(self.items_, items)
        of_items, out = q["items"].sample(n_draws, rng), q["users"].sample(n_draws, rng)
        of_items[:, place >= 0] = np.swapaxes(self.draws_.items[place[place >= 0]], 0, 1)
        new, old, prior = np.flatnonzero(where < 0), np.flatnonzero(where >= 0), model.prior(q)["users"]
        out[:, old] = np.swapaxes(self.draws_.users[where[old]], 0, 1)
        mean = np.broadcast_to(prior.mean, (len(users), out.shape[2]))[new]
        precision = packed(np.linalg.inv(self._blocks["users"][where[old]].cov), True)
        of_new, of_old = entries.of(new), entries.of(old)
        steps = 1 if self.likelihood_.noise_variance is not None else FOLD_MOVES
        for s in range(n_draws):
            other = model.layouts["items"].embedded(of_items[s])
            given = Conditionals(model.layouts["users"], other, self.likelihood_, model.offset, mean, prior.precision)
            for _ in range(steps):
                noise, level = rng.standard_normal(mean.shape), np.log(rng.random_sample(len(new)))
                out[s, new] = given.moved(of_new, out[s, new], noise, level)
            out[s, old] = given.updated(of_old, out[s, old], precision, rng.standard_normal(len(of_old)))
        return np.ascontiguousarray(np.swapaxes(out, 0, 1), np.float32)

    @property
    def _mark(self) -> tuple[Any, ...]:
        """Numbers that identify this fit: those of every estimator of pairs, and the constant of f."""
        return (*super()._mark, getattr(self, "global_bias_", None))

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        return prior_draws(self, X, n, rng)

    # ---- plates of ids
    def _unseen(self, side: str, ids: Any) -> GaussianPlates:
        """Prior of ids without ratings given their features, the coefficients' spread included."""
        prior = self._prior(side, ids)
        precision = np.exp(self._blocks[f"{side}_precision"].value)
        mean = np.broadcast_to(prior.mean(self._blocks, side), (len(ids), len(precision)))
        block = GaussianPlates.constant(mean, 1.0 / precision, self._blocks[side].full)
        if prior.design is None:
            return block
        spread = self._prior(side, self._ids(side)).spread
        share = np.einsum("np,pq,nq->n", prior.design, spread, prior.design)
        variance = (1.0 + share[:, None] * prior.applies) / precision
        values = block.values.copy()
        rows, cols = np.tril_indices(len(precision)) if block.full else (np.arange(len(precision)),) * 2
        values[:, rows == cols] = variance
        return GaussianPlates(block.mean, values, None, block.full)

    def _rows(self, side: str, column: Any, folded: FoldedUsers | None = None, of_q: bool = False) -> GaussianPlates:
        """The plate of each id of a column: its posterior, or the prior where the fit did not see it.

        of_q : whether covariances are those of q at any rate.
        """
        if side == "users" and folded is not None:
            return folded._rows(column)
        where = positions(self._ids(side), column)
        place = np.maximum(where, 0)
        found = self._blocks[side][place].copy() if of_q else self._plates(side, place)
        new = np.flatnonzero(where < 0)
        if len(new):
            found.put(new, self._unseen(side, column.iloc[new]))
        return found

    def _latent(self, columns: Any, folded: FoldedUsers | None = None) -> tuple[Array, Array]:
        """Mean and variance of f for pairs of ids (two Series), of users of the fit or folded-in ones."""
        users = None if self.draws_ is None else self.draws_.users if folded is None else folded._draws
        m, v = self._independent(columns, folded, of_q=users is not None)
        if self.draws_ is None or users is None:
            return m, v
        ids = self.users_ if folded is None else folded.ids
        of_user, of_item = positions(ids, columns[0]), positions(self.items_, columns[1])
        both = (of_user >= 0) & (of_item >= 0)
        centre = m[both] - self._encoding.offset
        v[both] = self.draws_.pair_variance(users, of_user[both], of_item[both], centre, self._k)
        if not both.all():
            v[~both] = self._independent([column[~both] for column in columns], folded)[1]
        return m, v

    def _independent(self, columns: Any, folded: FoldedUsers | None, of_q: bool = False) -> tuple[Array, Array]:
        """Mean and variance of f where users and items are independent of each other."""
        import pandas as pd

        def coded(side: str, column: Any) -> tuple[Array, GaussianPlates]:
            codes, ids = pd.factorize(column, use_na_sentinel=False)
            return codes, self._rows(side, pd.Series(ids, dtype=object), folded, of_q)

        (of_user, users), (of_item, items) = (coded(*each) for each in zip(SIDES, columns, strict=True))
        n = len(of_user)
        m, v = np.empty(n), np.empty(n)
        order = np.argsort(of_user, kind="stable")
        entries = Entries.sorted_by(of_user, of_item, np.zeros(n), None, len(users))
        model = self._model
        view = ColumnView.of(model.layouts, "users", items, self.likelihood_, model.offset)

        def one(part: slice) -> tuple[Array, Array]:
            return SideColumns(view, entries.of(part), None, None).latents(users[part])

        with parallel.working():
            parts = list(parallel.in_order(one, view.chunks(entries), parallel.n_threads(self.n_jobs)))
        m[order], v[order] = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return m, v

    # ---- what to show next
    def recommend(
        self,
        users: ArrayLike | FoldedUsers,
        n: int = 10,
        exclude_seen: bool = True,
        strategy: str = "mean",
        random_state: RandomState = None,
        *,
        items: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> DataFrame:
        """The best items for some users.

        Parameters
        ----------
        users : array-like of shape (m,) or FoldedUsers
            Ids, of which one that the fit did not see gets what the prior says (`on_unseen` may object); or what
            `fold_in` returned. Of a Dask Series or array the answer is a lazy frame, a partition for each of its own.
        n : int, default=10
            Items per user, fewer where fewer are left.
        exclude_seen : bool, default=True
            Whether to leave out the items that a user has rated.
        strategy : {"mean", "lower", "ucb", "thompson"}, default="mean"
            Rank by the predictive mean of y; by the mean of y at the 5 % or the 95 % quantile of f, the lower and the
            upper end of its 90 % interval; or by that at one draw of users and items from q.
        random_state : int, RandomState or None, default=None
            Of the draw.
        items : array-like of shape (c,), default=None
            Ids of the items that may be recommended; None: all of the fit.
        exclude : array-like of shape (e,), default=None
            Ids of items that nobody is recommended, such as those that are sold out.

        Returns
        -------
        DataFrame
            user, item (named as the columns of X in `fit`, if it had names), rank, score, mean, std of y; where levels
            are names, of their positions 0, 1, ….

        Raises
        ------
        ValueError, TypeError
            No users, a table of them, another strategy, or an n that is no integer of at least 1; users folded into
            another fit; users that were not seen, with ``on_unseen="error"``; `items` or `exclude` with an id that the
            fit did not have; ``exclude_seen=True`` after a file without training rows.
        """
        request, rng = Request.of(n, exclude_seen, items, exclude, strategy), check_seed(random_state)

        def scorer(folded: Any) -> Callable[..., Scored]:
            ranked_by = self._ranked_by(strategy, folded, rng)

            def answer(some: Any, offered: Array) -> Scored:
                m, v = (
                    part.reshape(len(some), -1) for part in self._latent(crossed(some, self.items_[offered]), folded)
                )
                f, spread = ranked_by(some, offered, m, v)
                score = self._in_levels(Predictive(self.likelihood_, f.ravel(), spread.ravel()))[0].reshape(m.shape)

                def shown_at(of: Array, item: Array) -> dict[str, Array]:
                    mean, std = self._in_levels(Predictive(self.likelihood_, m[of, item], v[of, item]))
                    return {"score": score[of, item], "mean": mean, "std": std}

                return score, shown_at

            return answer

        return self._ranked(users, request, RANKED, scorer)

    def _ranked_by(self, strategy: str, folded: FoldedUsers | None, rng: Any) -> Callable[..., tuple[Array, Array]]:
        """Mean and variance of the f that items are ranked by, from users, items, and the mean and variance of f."""
        if strategy == "mean":
            return lambda users, offered, m, v: (m, v)
        # A draw, or a quantile, has no spread of its own.
        if strategy in QUANTILES:
            reach = ndtri(QUANTILES[strategy])
            return lambda users, offered, m, v: (m + reach * np.sqrt(v), np.zeros(v.shape))
        model, (drawn_items, drawn_users) = self._model, self._one_draw(folded, rng)
        items = model.layouts["items"].embedded(drawn_items)

        def drawn(users: Any, offered: Array, m: Array, v: Array) -> tuple[Array, Array]:
            columns = model.layouts["users"].embedded(drawn_users(users))
            return model.offset + columns @ items[offered].T, np.zeros(v.shape)

        return drawn

    def _in_levels(self, predictive: Predictive) -> tuple[Array, Array]:
        """Mean and standard deviation of y, or of the positions of its named levels."""
        if not self.likelihood_.traits.ordered:
            return predictive.mean(), predictive.std()
        p = predictive.probabilities()
        levels = np.arange(len(self.levels_)) if self._named_levels else self.levels_.astype(float)
        mean = p @ levels
        return mean, np.sqrt(np.maximum(p @ np.square(levels) - np.square(mean), 0.0))


def check_new(ids: Any, where: Array) -> None:
    """An error where a user to be folded in is of the fit, at `where`: the zeros would count twice."""
    old = np.flatnonzero(where >= 0)
    if len(old):
        raise ValueError(
            f"user {ids[old[0]]!r} is of the fit: with zero_weight only new users can be folded in, as those of the "
            "fit have their zeros already. Fit again with what they did since."
        )
