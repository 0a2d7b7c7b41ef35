"""Posteriors without some of the rows, from the messages of one fit: cavities, and a second look where others move.

Without its message a row leaves the Gaussian of its latent behind in closed form (Opper and Winther 2000; Vehtari,
Mononen, Tolvanen, Sivula and Winther 2016). The other rows' messages are those of the fit, which is exact where they
do not depend on q, as under Gaussian noise. Where a row moves the others, their messages are found anew, all left-out
folds side by side.
"""

from __future__ import annotations

import numpy as np

from sksvi.estimators.sites import SiteFit, SiteNode
from sksvi.inspection._second_look import FEW, ROUNDS, Folds, SecondLook, Without, affordable

Array = np.ndarray

#: Share of the likelihood's width by which other latents may move without a second look.
MOVED = 0.2
#: Numbers of the halves of all rows at most.
HALVES = 2**26
#: Share of the largest information on a direction of the likelihood's parameters that is none.
DETERMINED = 1e-6


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
        self.fold = folds.of_rows
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
        if n * k * mode.half(np.arange(1)).shape[2] > HALVES:
            self.k_hat[moving] = np.nan  # nothing tells how good they are
            return
        H = mode.half(np.arange(n))
        most, some = affordable(H)
        parts = np.split(moving, [most, most + some])
        for part, rounds in zip(parts, (ROUNDS, FEW), strict=False):
            if len(part):
                look = SecondLook(self.fit, self.folds, part, H)
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
