"""Posteriors without some of the rows where these move the messages of others: messages found anew, and how good."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sksvi.estimators.sites import SiteFit, SiteNode
from sksvi.integrals.pareto import smoothed

Array = np.ndarray

#: Numbers of a table of products of rows, and multiplications of a round of second looks, at most.
TABLE, WORK = 2**22, 4e6
#: Latents whose messages are found anew until they settle, and for few rounds, at most; as how many of them a row of
#: several latents counts.
SETTLING, CHECKED, SEVERAL = 2**16, 2**14, 40.0
#: Rounds of a second look at most, and where rows are many; the change of a left-out latent that ends them, in its
#: standard deviations; and how much shorter a step becomes that is longer than the one before.
ROUNDS, FEW, SETTLED, SLOWER = 8, 2, 0.04, 0.5
#: Standard deviations at which weights along a latent are looked at, and points that they are interpolated to.
ALONG, DRAWS = np.array([-3.0, -1.5, 0.0, 1.5, 3.0]), 1000
#: Standard deviation of log weights below which they are level: nothing hangs on their tail, and means are off by less.
LEVEL = 0.3
#: Relative differences that are rounding: a latent that the direction fixes has no variance left.
ROUNDING = 1e-9
#: Numbers of latents of rows under folds that are held together.
NUMBERS = 2**21


@dataclass
class Folds:
    """Sets of rows that are left out together.

    Parameters
    ----------
    rows : list of ndarray
        Of each fold.
    copies : list of ndarray
        How many copies of these rows are left out.
    """

    rows: list[Array]
    copies: list[Array]

    @property
    def single(self) -> bool:
        """Whether every fold is one row."""
        return all(len(part) == 1 for part in self.rows)

    @property
    def of_each_row(self) -> Array:
        """Fold of each left-out row, those of one fold after those of another."""
        return np.repeat(np.arange(self.size), [len(part) for part in self.rows])

    @property
    def size(self) -> int:
        """Number of folds."""
        return len(self.rows)


@dataclass
class Without:
    """Latents of left-out rows under a node, the rows of one fold after those of another.

    mean (m, K), cov (m, K, K): given all other folds. log_density (F,): of the rows of each fold, given the others.
    """

    mean: Array
    cov: Array
    log_density: Array


def affordable(H: Array) -> tuple[int, int]:
    """How many folds can have looks until they settle, and how many more a few rounds; H (n, K, r) of all rows."""
    n, k, r = H.shape
    each, rows = float(n * k * k * r * r), float(n) if k == 1 else SEVERAL * n
    settling = min(WORK / each, SETTLING / rows) if each <= TABLE else 0.0
    return int(settling), int(max(1.0, min(CHECKED / rows, 10.0 * WORK / each)))


class SecondLook:
    """All rows given that some are left out, for several folds at once: with the messages of the fit, or new ones.

    Parameters
    ----------
    fit : SiteFit
    folds : Folds
    which : ndarray
        Those that are looked at.
    H : ndarray of shape (n, K, r)
        Halves of all rows at the mode.
    """

    def __init__(self, fit: SiteFit, folds: Folds, which: Array, H: Array) -> None:
        self.fit, self.folds, self.which = fit, folds, which
        self.left = np.tile(fit.weight, (len(which), 1))
        for place, f in enumerate(which):
            self.left[place, folds.rows[f]] -= folds.copies[f]
        #: Messages of one copy, (F, n, K) and (F, n, K, K).
        self.linear = np.tile(fit.mode.linear, (len(which), 1, 1))
        self.precision = np.tile(fit.mode.precision, (len(which), 1, 1, 1))
        self.H, self.products = H, products(H)
        self.mean, self.cov, self.standard = self._latents(fit.mode, H, self.products)
        #: By how much the left-out latents moved in the last two rounds, in their standard deviations.
        self.change = np.full(len(which), np.inf)

    def _latents(self, node: SiteNode, H: Array, table: Array | None) -> tuple[Array, Array, Array]:
        """Means (F, n, K) and covariances (F, n, K, K) of all rows; covariances (F, r, r) where q is standard."""
        fit, count, (n, k, r) = self.fit, len(self.which), H.shape
        bend = node.precision + node.share * (self.precision - fit.mode.precision)
        bend = self.left[..., None, None] * bend - fit.weight[:, None, None] * node.precision
        slope = node.linear + node.share * (self.linear - fit.mode.linear)
        slope = self.left[..., None] * slope - fit.weight[:, None] * node.linear
        slope -= np.einsum("fnkl,nl->fnk", bend, node.mean)
        standard = self._standard(bend, H, table)
        if not node.likelihood.traits.log_concave:  # messages may be negative
            standard[np.linalg.eigvalsh(standard).min(axis=1) <= 0] = np.nan
        flat = H.reshape(n * k, r)
        mean = node.mean + ((standard @ (slope.reshape(count, -1) @ flat)[..., None])[..., 0] @ flat.T).reshape(
            -1, n, k
        )
        if table is not None:
            return mean, (standard.reshape(count, -1) @ table.T).reshape(-1, n, k, k), standard
        cov = np.stack([np.einsum("nkr,nlr->nkl", (flat @ own).reshape(n, k, r), H) for own in standard])
        return mean, cov, standard

    def _standard(self, bend: Array, H: Array, table: Array | None) -> Array:
        """(I + Σ H_jᵀ bend_j H_j)⁻¹ of every fold."""
        count, (n, k, r) = len(bend), H.shape
        if table is not None:
            return np.linalg.inv(np.eye(r) + (bend.reshape(count, -1) @ table).reshape(count, r, r))
        flat = H.reshape(n * k, r)
        return np.stack([np.linalg.inv(np.eye(r) + flat.T @ (one @ H).reshape(n * k, r)) for one in bend])

    def settle(self, rounds: int) -> None:
        """Rounds of messages at the mode of the hyperparameters; a fold that moves farther than before takes less."""
        fit, folds = self.fit, self.folds
        at = np.repeat(np.arange(len(self.which)), [len(folds.rows[f]) for f in self.which])
        own = np.concatenate([folds.rows[f] for f in self.which])
        rate, last = np.ones(len(self.which)), np.full(len(self.which), np.inf)
        for number in range(rounds):
            before = self.mean, self.cov, self.standard, self.linear, self.precision
            self._renew(rate)
            self.mean, self.cov, self.standard = self._latents(fit.mode, self.H, self.products)
            smallest = np.diagonal(self.cov, axis1=2, axis2=3).min(axis=(1, 2))
            lost = ~(np.isfinite(self.mean).all(axis=(1, 2)) & (smallest > 0))
            for now, old in zip((self.mean, self.cov, self.standard, self.linear, self.precision), before, strict=True):
                now[lost] = old[lost]
            spread = np.sqrt(np.trace(self.cov[at, own], axis1=1, axis2=2))
            change = np.zeros(len(self.which))
            np.maximum.at(change, at, np.linalg.norm(self.mean[at, own] - before[0][at, own], axis=1) / spread)
            self.change = np.where(lost, np.inf, change) if number == 0 else np.maximum(change, last)
            if np.all(self.change < SETTLED * rate):
                break
            # The first round moves covariances more than means.
            rate = np.where(lost | (number > 1) & (change > last), SLOWER * rate, rate)
            last = np.where(lost, np.inf, change)

    def _renew(self, rate: Array) -> None:
        """Messages at the latents, a share of the way (F,) from those before."""
        fit, (_, n, k) = self.fit, self.mean.shape
        good = np.isfinite(self.cov).all(axis=(1, 2, 3))
        flat, cov = self.mean[good].reshape(-1, k), self.cov[good].reshape(-1, k, k)
        with np.errstate(over="ignore", invalid="ignore"):
            _, alpha, gamma = fit.terms(np.tile(np.arange(n), len(flat) // n), flat, cov, fit.mode)
            linear = alpha - 2.0 * np.einsum("nkl,nl->nk", gamma, flat)
            share, rest = rate[good, None, None], 1.0 - rate[good, None, None]
            self.linear, self.precision = self.linear.copy(), self.precision.copy()
            self.linear[good] = rest * self.linear[good] + share * linear.reshape(-1, n, k)
            share, rest = share[..., None], rest[..., None]
            self.precision[good] = rest * self.precision[good] - 2.0 * share * gamma.reshape(-1, n, k, k)

    def replaces(self, node: SiteNode, found: Without) -> None:
        """Write the latents of the left-out rows of these folds under a node."""
        if node is self.fit.mode:
            mean, cov = self.mean, self.cov
        else:
            H = node.half(np.arange(len(node.mean)))
            mean, cov, _ = self._latents(node, H, products(H))
        for place, f in enumerate(self.which):
            rows, at = self.folds.rows[f], self.folds.of_each_row == f
            found.mean[at], found.cov[at] = mean[place, rows], cov[place, rows]

    # ---- how good that is
    def tails(self) -> Array:
        """k-hat of each fold: weights of its posterior to the exact one, along the direction in which it pushes."""
        size = len(ALONG) * self.left.shape[1] * self.linear.shape[2] ** 2
        parts = [slice(at, at + max(1, NUMBERS // size)) for at in range(0, len(self.which), max(1, NUMBERS // size))]
        along = np.concatenate([tails_along(self._along(part)) for part in parts])
        return np.maximum(along, tails_along(self.change[:, None] * ALONG))

    def _along(self, part: slice) -> Array:
        """Log weights of folds at `ALONG` of their direction, (F, len(ALONG)), E over what the direction leaves."""
        fit, mode, folds = self.fit, self.fit.mode, self.folds
        mean, cov = self.mean[part], self.cov[part]
        count, n, k = mean.shape
        own = np.concatenate([folds.rows[f] for f in self.which[part]])
        at = np.repeat(np.arange(count), [len(folds.rows[f]) for f in self.which[part]])
        copies = np.concatenate([folds.copies[f] for f in self.which[part]])
        slope = fit.terms(own, mean[at, own], cov[at, own], mode)[1] * copies[:, None]
        push = np.zeros((count, self.H.shape[2]))
        np.add.at(push, at, np.einsum("mkr,mk->mr", self.H[own], slope))
        direction = np.einsum("frs,fs->fr", self.standard[part], push)
        size = np.sqrt(np.maximum(np.sum(push * direction, axis=1), np.finfo(float).tiny))
        a = (direction @ self.H.reshape(n * k, -1).T).reshape(count, n, k) / size[:, None, None]
        m = mean[None] + ALONG[:, None, None, None] * a
        V = np.broadcast_to(cov - (1.0 - ROUNDING) * a[..., :, None] * a[..., None, :], (len(ALONG), *cov.shape))
        rows = np.tile(np.arange(n), len(ALONG) * count)
        value = fit.terms(rows, m.reshape(-1, k), V.reshape(-1, k, k), mode)[0].reshape(m.shape[:3])
        second = V + m[..., :, None] * m[..., None, :]
        G, b = self.precision[part], self.linear[part]
        site = np.einsum("fnk,gfnk->gfn", b, m) - 0.5 * np.einsum("fnkl,gfnkl->gfn", G, second)
        return np.einsum("gfn,fn->fg", value - site, self.left[part])


def products(H: Array) -> Array | None:
    """Products (n K K, r r) of halves (n, K, r); None where they are too many."""
    n, k, r = H.shape
    if n * k * k * r * r > TABLE:
        return None
    return np.asarray((H[:, :, None, :, None] * H[:, None, :, None, :]).reshape(n * k * k, r * r))


def tails_along(values: Array) -> Array:
    """k-hat of weights whose logarithms are these at `ALONG` of a standard normal variable, (F, ...); -inf where level.

    Parameters
    ----------
    values : ndarray of shape (F, len(ALONG))
    """
    from scipy.special import ndtri

    z = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    coefficients = np.linalg.solve(np.vander(ALONG, increasing=True), (values - values[:, [len(ALONG) // 2]]).T)
    logs = (np.vander(z, len(ALONG), increasing=True) @ coefficients).T
    out = np.full(len(values), np.inf)
    good = np.isfinite(logs).all(axis=1)
    level = logs.std(axis=1) < LEVEL
    out[good & level] = -np.inf
    for f in np.flatnonzero(good & ~level):
        out[f] = smoothed(logs[f])[1]
    return out
