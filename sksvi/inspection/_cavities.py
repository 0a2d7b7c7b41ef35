"""Posteriors without some of the rows, from the messages of one fit: cavities, and a second look where others move.

Without its message a row leaves the Gaussian of its latent behind in closed form (Opper and Winther 2000; Vehtari,
Mononen, Tolvanen, Sivula and Winther 2016). The other rows' messages are those of the fit, which is exact where they
do not depend on q, as under Gaussian noise. Where a row moves the others, their messages are found anew, all left-out
folds side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sksvi.estimators.sites import SiteFit, SiteNode
from sksvi.integrals.pareto import smoothed

Array = np.ndarray

#: Share of the likelihood's width by which other latents may move without a second look.
MOVED = 0.2
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
#: Share of the largest information on a direction of the likelihood's parameters that is none.
DETERMINED = 1e-6
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


class LeaveOut:
    """Latents of rows without their folds under every node.

    Parameters
    ----------
    fit : SiteFit
    folds : Folds
    """

    def __init__(self, fit: SiteFit, folds: Folds) -> None:
        self.fit, self.folds = fit, folds
        #: Rows that are left out, and the fold of each.
        self.rows = np.concatenate(folds.rows)
        self.fold = np.repeat(np.arange(folds.size), [len(part) for part in folds.rows])
        self.copies = np.concatenate(folds.copies)
        #: Tail of the weights of each fold; NaN: not looked at.
        self.k_hat = np.full(folds.size, np.nan)
        self.looks: list[SecondLook] = []
        #: Moves of the likelihood's parameters (F, P) where they are a point, and of left-out latents with them (m, K).
        self.theta = np.zeros((folds.size, 0))
        self.along = np.zeros((len(self.rows), 1))
        if fit.learned is not None:
            self.theta, self.along = moved_parameters(fit, self)

    # ---- without a second look
    def first(self, node: SiteNode) -> Without:
        """Cavities, with the other rows' messages as they are."""
        out = [self._first_of(node, f) for f in range(self.folds.size)] if not self.folds.single else None
        if out is None:
            return self._singles(node)
        mean, cov, value = zip(*out, strict=True)
        return Without(np.concatenate(mean), np.concatenate(cov), np.array(value))

    def _taken(self, node: SiteNode, rows: Array, copies: Array) -> tuple[Array, Array]:
        """Linear and quadratic part of what the messages of rows have in a node."""
        return copies[:, None] * node.linear[rows], copies[:, None, None] * node.precision[rows]

    def _singles(self, node: SiteNode) -> Without:
        linear, precision = self._taken(node, self.rows, self.copies)
        m, V = node.mean[self.rows], node.cov[self.rows]
        mean, cov = without(m, V, linear, precision)
        return Without(mean, cov, np.full(len(m), np.nan))

    def _first_of(self, node: SiteNode, f: int) -> tuple[Array, Array, float]:
        rows, k = self.folds.rows[f], node.mean.shape[1]
        linear, precision = self._taken(node, rows, self.folds.copies[f])
        H = node.half(rows).reshape(len(rows) * k, -1)
        S, G = H @ H.T, np.zeros((len(rows), k, len(rows), k))
        G[np.arange(len(rows)), :, np.arange(len(rows))] = precision
        flat = G.reshape(len(S), len(S))
        m = node.mean[rows].ravel()
        mean, cov = without(m[None], S[None], linear.ravel()[None], flat[None])
        slope = linear.ravel() - flat @ m
        sign, logdet = np.linalg.slogdet(np.eye(len(S)) - flat @ S)
        divergence = 0.5 * (-np.sum(flat * S) + slope @ cov[0] @ slope - (logdet if sign > 0 else np.nan))
        expected = self.fit.expected(node, rows)
        value = float(self.folds.copies[f] @ expected - divergence)
        blocks = cov[0].reshape(len(rows), k, len(rows), k)[np.arange(len(rows)), :, np.arange(len(rows))]
        return mean[0].reshape(len(rows), k), blocks, value

    # ---- with one
    def look(self) -> None:
        """Find messages of other rows anew for the folds that move them."""
        mode = self.fit.mode
        if mode.likelihood.noise_variance is not None:
            self.k_hat[:] = -np.inf
            return
        self.k_hat[:] = -np.inf
        moving = self._moving(mode)
        if not len(moving):
            return
        n, k = mode.mean.shape
        H = mode.half(np.arange(n))
        each = float(n * k * k * H.shape[2] ** 2)
        rows = float(n) if k == 1 else SEVERAL * n
        most = min(WORK / each, SETTLING / rows) if each <= TABLE else 0
        some = max(1, min(CHECKED / rows, 10.0 * WORK / each))
        parts = np.split(moving, [int(most), int(most) + int(some)])
        for part, rounds in zip(parts, (ROUNDS, FEW), strict=False):
            if len(part):
                look = SecondLook(self, part, H)
                look.settle(rounds)
                self.k_hat[part] = look.tails()
                self.looks.append(look)
        if len(parts[2]):  # they move others less than all of these do
            self.k_hat[parts[2]] = self.k_hat[parts[1][-1]]

    def _moving(self, node: SiteNode) -> Array:
        """Folds that move other latents, the widest first."""
        here, width = self.first(node), node.likelihood.width
        off = np.linalg.norm(here.mean - node.mean[self.rows], axis=1)
        own = np.trace(node.cov[self.rows], axis1=1, axis2=2)
        largest = float(np.trace(node.cov, axis1=1, axis2=2).max())
        move = off * np.sqrt(largest / np.maximum(own, np.finfo(float).tiny)) / (width if np.isfinite(width) else 1.0)
        move = np.where(np.isfinite(move), move, np.inf)
        of_fold = np.full(self.folds.size, 0.0)
        np.maximum.at(of_fold, self.fold, move)
        order = np.argsort(-of_fold, kind="stable")
        return order[of_fold[order] > MOVED]

    def under(self, node: SiteNode) -> Without:
        """Latents of left-out rows under a node."""
        found = self.first(node)
        for look in self.looks:
            look.replaces(node, found)
        found.mean = found.mean + self.along
        return found


def without(m: Array, V: Array, linear: Array, precision: Array) -> tuple[Array, Array]:
    """N(m, V) over exp(linearᵀf - ½ fᵀ precision f), of stacks; NaN where nothing normal is left."""
    k = m.shape[1]
    root = np.eye(k) - precision @ V
    if k == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            cov = np.where(root > 0, V / root, np.nan)
    else:
        values = np.linalg.eigvals(root).real.min(axis=1)
        root[~(values > 0)] = np.nan
        cov = np.full_like(V, np.nan)
        good = values > 0
        cov[good] = V[good] @ np.linalg.inv(root[good])
        cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
    return m - np.einsum("nkl,nl->nk", cov, linear - np.einsum("nkl,nl->nk", precision, m)), cov


def moved_parameters(fit: SiteFit, out: LeaveOut) -> tuple[Array, Array]:
    """A step of Newton's of the likelihood's parameters without each fold (F, P), and how latents follow it (m, K).

    The step is that of parameters and weights together (the infinitesimal jackknife of both: Giordano, Stephenson, Liu,
    Jordan and Broderick 2019), with the curvature that is left without the fold.
    """
    learned, mode, folds = fit.learned, fit.mode, out.folds
    assert learned is not None
    H = mode.half(np.arange(len(fit.y)))
    k, r = H.shape[1:]
    total = -np.einsum("nkr,nkp->rp", H, fit.weight[:, None, None] * learned.cross)
    residual = mode.linear - np.einsum("nkl,nl->nk", mode.precision, mode.mean)
    theta, along = np.empty((folds.size, len(learned.curvature))), np.empty((len(out.rows), k))
    for f, (rows, copies) in enumerate(zip(folds.rows, folds.copies, strict=True)):
        own, m = H[rows].reshape(-1, r), np.arange(len(rows))
        bend = np.zeros((len(rows), k, len(rows), k))
        bend[m, :, m] = copies[:, None, None] * mode.precision[rows]
        taken = np.linalg.inv(np.eye(len(own)) - bend.reshape(len(own), -1) @ (own @ own.T))
        slope = (copies[:, None] * residual[rows]).ravel()
        cross = (copies[:, None, None] * learned.cross[rows]).reshape(len(own), -1)
        across = total + own.T @ cross
        solved = across + own.T @ (taken @ (bend.reshape(len(own), -1) @ (own @ across)))
        left = learned.curvature + np.einsum("m,mpq->pq", copies, learned.bend[rows]) - across.T @ solved
        pull = copies @ learned.slope[rows] - across.T @ (own.T @ (taken @ slope))
        theta[f] = -np.linalg.lstsq(left, pull, rcond=DETERMINED)[0]
        along[out.fold == f] = -(own @ (solved @ theta[f])).reshape(-1, k)
    return theta, along


class SecondLook:
    """All rows given that some are left out, for several folds at once: with the messages of the fit, or new ones.

    Parameters
    ----------
    cavities : LeaveOut
    which : ndarray
        Folds.
    H : ndarray of shape (n, K, r)
        Halves of all rows at the mode.
    """

    def __init__(self, cavities: LeaveOut, which: Array, H: Array) -> None:
        self.cavities, self.which, fit = cavities, which, cavities.fit
        self.left = np.tile(fit.weight, (len(which), 1))
        for place, f in enumerate(which):
            self.left[place, cavities.folds.rows[f]] -= cavities.folds.copies[f]
        #: Messages of one copy, (F, n, K) and (F, n, K, K).
        self.linear = np.tile(fit.mode.linear, (len(which), 1, 1))
        self.precision = np.tile(fit.mode.precision, (len(which), 1, 1, 1))
        self.H, self.products = H, products(H)
        self.mean, self.cov, self.standard = self._latents(fit.mode, H, self.products)
        #: By how much the left-out latents moved in the last two rounds, in their standard deviations.
        self.change = np.full(len(which), np.inf)

    def _latents(self, node: SiteNode, H: Array, table: Array | None) -> tuple[Array, Array, Array]:
        """Means (F, n, K) and covariances (F, n, K, K) of all rows; covariances (F, r, r) where q is standard."""
        fit, count, (n, k, r) = self.cavities.fit, len(self.which), H.shape
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
        fit, folds = self.cavities.fit, self.cavities.folds
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
        fit, (_, n, k) = self.cavities.fit, self.mean.shape
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
        if node is self.cavities.fit.mode:
            mean, cov = self.mean, self.cov
        else:
            H = node.half(np.arange(len(node.mean)))
            mean, cov, _ = self._latents(node, H, products(H))
        for place, f in enumerate(self.which):
            rows, at = self.cavities.folds.rows[f], self.cavities.fold == f
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
        fit, mode, folds = self.cavities.fit, self.cavities.fit.mode, self.cavities.folds
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
