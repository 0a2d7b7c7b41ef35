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
from sksvi.inspection._second_look import FEW, NUMBERS, ROUNDS, Folds, SecondLook, Without, affordable

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
        self.fold = folds.of_each_row
        self.copies = np.concatenate(folds.copies)
        #: Tail of the weights of each fold; NaN: not looked at.
        self.k_hat = np.full(folds.size, np.nan)
        self.looks: list[SecondLook] = []
        #: Moves of the likelihood's learned parameters (F, P), and of left-out latents with their projection (m, K).
        self.theta = np.zeros((folds.size, 0))
        self.along = np.zeros((len(self.rows), 1))
        if fit.learned is not None:
            self.theta, self.along = moved_parameters(fit, self)

    # ---- without a second look
    def first(self, node: SiteNode) -> Without:
        """Cavities, with the other rows' messages as they are."""
        if self.folds.single:
            taken = self._taken(node, self.rows, self.copies)
            means, covs = without(node.mean[self.rows], node.cov[self.rows], *taken)
            return Without(means, covs, np.full(len(means), np.nan))
        mean, cov, value = zip(*(self._first_of(node, f) for f in range(self.folds.size)), strict=True)
        return Without(np.concatenate(mean), np.concatenate(cov), np.array(value))

    def _taken(self, node: SiteNode, rows: Array, copies: Array) -> tuple[Array, Array]:
        """Linear and quadratic part of what the messages of rows have in a node."""
        return copies[:, None] * node.linear[rows], copies[:, None, None] * node.precision[rows]

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
        self.k_hat[:] = -np.inf
        if mode.likelihood.noise_variance is not None:
            return
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
    n, k = mode.mean.shape
    size = max(1, NUMBERS // (k * mode.half(np.arange(1)).shape[2]))
    parts = [np.arange(n)[start : start + size] for start in range(0, n, size)]
    pulled = fit.weight[:, None, None] * learned.cross
    total = -sum(np.einsum("nkr,nkp->rp", mode.half(part), pulled[part]) for part in parts)
    step = _ParameterStep(fit, np.concatenate([mode.half(part) @ total for part in parts]), total.T @ total)
    if folds.single:
        return step(out.rows[:, None], out.copies[:, None], mode.cov[out.rows])
    found = []
    for rows, copies in zip(folds.rows, folds.copies, strict=True):
        own = mode.half(rows).reshape(len(rows) * k, -1)
        found.append(step(rows[None], copies[None], (own @ own.T)[None]))
    return np.concatenate([theta for theta, _ in found]), np.concatenate([along for _, along in found])


@dataclass
class _ParameterStep:
    """Newton's step of the likelihood's parameters without folds of the same number of rows, side by side.

    Parameters
    ----------
    fit : SiteFit
    across : ndarray of shape (n, K, P)
        Covariance of the latents with the gradient in the parameters.
    explained : ndarray of shape (P, P)
        Part of the parameters' information that the weights' uncertainty takes.
    """

    fit: SiteFit
    across: Array
    explained: Array

    def __call__(self, rows: Array, copies: Array, S: Array) -> tuple[Array, Array]:
        """Steps (F, P) and moves of the latents (F m, K), for rows (F, m) with the covariance S (F, m K, m K)."""
        learned, mode, (count, m) = self.fit.learned, self.fit.mode, rows.shape
        assert learned is not None
        k, size = mode.mean.shape[1], len(self.explained)
        bend = np.zeros((count, m, k, m, k))
        bend[:, np.arange(m), :, np.arange(m)] = np.swapaxes(copies[..., None, None] * mode.precision[rows], 0, 1)
        G = bend.reshape(count, m * k, m * k)
        residual = mode.linear[rows] - np.einsum("fmkl,fml->fmk", mode.precision[rows], mode.mean[rows])
        slope = (copies[..., None] * residual).reshape(count, m * k, 1)
        cross = (copies[..., None, None] * learned.cross[rows]).reshape(count, m * k, size)
        own = self.across[rows].reshape(count, m * k, size)
        lifted = own + S @ cross  # the latents' covariance with what is left of the gradient
        taken = np.linalg.inv(np.eye(m * k) - G @ S)
        turned = taken @ (G @ lifted)
        transposed = np.swapaxes(cross, 1, 2)
        left = learned.curvature + np.einsum("fm,fmpq->fpq", copies, learned.bend[rows]) - self.explained
        left = left - np.swapaxes(own, 1, 2) @ cross - transposed @ lifted - np.swapaxes(lifted, 1, 2) @ turned
        pull = np.einsum("fm,fmp->fp", copies, learned.slope[rows])
        pull = pull - (np.swapaxes(lifted, 1, 2) @ (taken @ slope))[..., 0]
        theta = -(np.linalg.pinv(left, rcond=DETERMINED) @ pull[..., None])[..., 0]
        along = -((lifted + S @ turned) @ (theta @ learned.projection.T)[..., None])[..., 0]
        return theta, along.reshape(count * m, k)
