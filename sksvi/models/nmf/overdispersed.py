"""Gamma-Poisson factorization of counts that vary more than Poisson ones: y = a sum of l jumps, l ~ Poisson(Σ_k W H).

Jumps have the logarithmic distribution, so that y is negative binomial, NB(r, p) with r = ν / L, ν = Σ_k W_fk H_nk,
p = 1 - e^{-L}, D = e^L its variance over its mean, and mean ν (D - 1) / L (Quenouille 1949). Zeros are those of the
Poisson l, in a closed sum as before. Given y and r, l is the number of tables of a Chinese restaurant (Zhou and Carin
2015), q(l) ∝ |s(y, l)| ρ^l with E l = ρ (ψ(y + ρ) - ψ(ρ)), best at ρ = exp(E log ν) / L summed over components; what
it adds to the bound of GammaPoisson at counts E l is

    log Γ(y + ρ) - log Γ(ρ) - E l log ρ - E l log L + y log p - log y!.

Block ``dispersion`` is log L; components and rates are of events l.

M. Quenouille, A relation between the logarithmic, Poisson, and negative binomial series, Biometrics 1949. M. Zhou and
L. Carin, Negative binomial process count and mixture modeling, IEEE TPAMI 2015.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammaln

from sksvi.algorithms.rules import Newton, Rule
from sksvi.families import Point
from sksvi.models.base import Blocks, Gradient
from sksvi.models.data import Table
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.rows import SETTLE, CountChunk, FactorView, RowTerms, RowVisit

Array = np.ndarray

#: Range of L, and the smallest ρ that a cell has.
LEAST, MOST, TINY = 1e-6, 30.0, 1e-290
#: Tables of which each is drawn by itself; later ones are points of a thinned process.
FIRST_TABLES = 8


class OverdispersedPoisson(GammaPoisson):
    """See the module; parameters are those of `GammaPoisson`, `mean` that of the counts."""

    # ---- blocks
    def begin(self, data: Table, rng: Any, threads: int = 1) -> Blocks:
        """As `GammaPoisson` of events, one for each count that is not 0."""
        counts = data.X.counts.data
        log_dispersion = log_dispersion_of(float(counts.mean()) if len(counts) else 1.0)
        events = self.replaced(mean=self.mean / jump(log_dispersion))
        return {**GammaPoisson.begin(events, data, rng), "dispersion": Point(np.log([log_dispersion]))}

    @property
    def hyper(self) -> dict[str, Rule]:
        """Rules for the learned rates and the dispersion."""
        return {**super().hyper, "dispersion": Newton()}

    def count_per_event(self, q: Blocks) -> float:
        """Mean of a jump."""
        return jump(float(np.exp(q["dispersion"].value[0])))

    # ---- rows
    def view(self, q: Blocks, rng: np.random.Generator | None) -> Any:
        """Components as rows see them, with L."""
        view = super().view(q, rng)
        view.log_dispersion = float(np.exp(q["dispersion"].value[0]))
        return view

    def settled(
        self, view: FactorView, batch: CountChunk, effort: RowVisit, rng: Any = None, sums: bool = True
    ) -> RowTerms:
        """The local step at q(l) of where the rows start."""
        cells = batch.cells
        log_dispersion = view.log_dispersion  # type: ignore[attr-defined]
        rho = self._shapes(view, cells, batch.start) / log_dispersion
        y = cells.counts.data
        events = rho * (digamma(y + rho) - digamma(rho))
        gain = gammaln(y + rho) - gammaln(rho) - events * np.log(rho * log_dispersion)
        gain += y * np.log(-np.expm1(-log_dispersion))
        c = cells.counts
        found = replace(cells, counts=sp.csr_matrix((events, c.indices, c.indptr), shape=c.shape))
        constant = batch.constant - np.bincount(row_of(c), gain, c.shape[0])
        return super().settled(view, CountChunk(found, constant, batch.start), effort, rng, sums)

    def _shapes(self, view: FactorView, cells: CountMatrix, start: Array) -> Array:
        """exp(E log ν) of every cell that is not 0, summed over components, (nnz,)."""
        shape = self.activation_shape + start + (0.0 if cells.before is None else cells.before)
        levels = np.exp(digamma(shape) - np.log(self._rates(view, cells, self.row_priors(view, cells)[1])))
        bases = np.exp(view.logs)[cells.counts.indices]
        return np.maximum(np.einsum("ek,ek->e", levels[row_of(cells.counts)], bases), TINY)

    def pull_back(self, terms: Any, batch: CountChunk) -> Gradient:
        """Gradients as of `GammaPoisson`, and slope and curvature in log L: E l (-log L) + y log(1 - e^{-L})."""
        L, total = terms.view.log_dispersion, float(batch.cells.counts.sum())
        odds = L / np.expm1(L)
        slope = total * odds - float(terms.counts.sum())
        curvature = total * odds * (1.0 - L - odds)
        return {**super().pull_back(terms, batch), "dispersion": (np.array([slope]), np.array([[curvature]]))}

    def rows(self, q: Blocks, found: CountMatrix, threads: int, start: Array | None = None) -> tuple[Array, Array]:
        """Shape and rate (n, K) of q(H) of each row by itself, where events and activations agree."""
        counted = np.zeros((found.shape[0], self.shape[0])) if start is None else np.array(start, float)
        shape, rate = (np.empty(counted.shape) for _ in range(2))
        left = np.arange(len(counted))
        for _ in range(SETTLE.sweeps):
            own = found[left]
            shape[left], rate[left] = super().rows(q, own, threads, counted[left])
            after = shape[left] - self.activation_shape - (0.0 if own.before is None else own.before)
            moved = np.abs(after - counted[left]).sum(1)
            counted[left] = after
            left = left[moved > SETTLE.tol * np.maximum(after.sum(1), 1.0)]
            if not len(left):
                break
        return shape, rate

    # ---- draws
    def drawn_events(self, c: Any, activations: Array, bases: Array, scales: Blocks, key: int) -> Array:
        """Events of every cell (nnz,) given its count and a draw of both factors."""
        mean = np.einsum("ek,ek->e", activations[row_of(c)], bases[c.indices])
        rho = np.maximum(mean, TINY) / np.exp(scales["dispersion"].value[0])
        return drawn_tables(c.data, rho, np.random.default_rng(key))

    def events(self, q: Blocks, c: Any, activations: Array) -> Array:
        """Expected events of every cell (nnz,) at activations (n, K) and mean components."""
        mean = np.einsum("ek,ek->e", activations[row_of(c)], q["components"].mean.T[c.indices])
        rho = np.maximum(mean, TINY) / np.exp(q["dispersion"].value[0])
        return np.asarray(rho * (digamma(c.data + rho) - digamma(rho)))


def row_of(c: Any) -> Array:
    """Row of every stored entry of a CSR matrix."""
    return np.repeat(np.arange(c.shape[0]), np.diff(c.indptr))


def jump(log_dispersion: float) -> float:
    """Mean of a jump, (D - 1) / log D."""
    return float(np.expm1(log_dispersion) / log_dispersion)


def log_dispersion_of(mean_jump: float) -> float:
    """L with that mean of a jump, in the range of L."""
    return LEAST if mean_jump <= jump(LEAST) else float(brentq(lambda L: np.log(jump(L) / mean_jump), LEAST, MOST))


def dispersion_gain(model: GammaPoisson, problem: Any, state: Any) -> tuple[float, float]:
    """`best_dispersion` at the state of a Poisson fit."""
    found, q = problem.data.X, state.shown
    shape, rate = model.rows(q, found, problem.threads, getattr(state.locals, "values", None))
    levels, bases, c = np.exp(digamma(shape) - np.log(rate)), np.exp(q["components"].mean_log).T, found.counts
    rates = np.einsum("ek,ek->e", levels[row_of(c)], bases[c.indices])
    total = float((shape / rate).sum(0) @ q["components"].mean.sum(1))
    return best_dispersion(c.data, np.maximum(rates, TINY), total)


def best_dispersion(y: Array, rate: Array, total: float) -> tuple[float, float]:
    """What a Poisson bound gains where counts may vary more, at the q of the Poisson fit, and the L where it does most.

    y, rate (nnz,): counts other than 0 and exp(E log λ) summed over components; total: E λ summed over all cells.
    """

    def loss(log_L: float) -> float:
        L = np.exp(log_L)
        rho = rate / np.expm1(L)
        own = gammaln(y + rho) - gammaln(rho) + y * (np.log(-np.expm1(-L)) - np.log(rate))
        return -float(own.sum() + (1.0 - 1.0 / jump(L)) * total)

    found = minimize_scalar(loss, bounds=(np.log(LEAST) / 2, np.log(MOST)), method="bounded")
    return -float(found.fun), float(np.exp(found.x))


def drawn_tables(y: Array, rho: Array, rng: np.random.Generator) -> Array:
    """Occupied tables of Chinese restaurants with y customers: a new one with probability ρ / (ρ + j) after j.

    After the first few, customers who open a table are the points of a Poisson process of intensity log(1 + ρ / ⌊x⌋)
    at x, at least one of them in [j, j + 1), thinned from one of intensity ρ / (x - 1).
    """
    y = np.floor(y) + (rng.random(len(y)) < y - np.floor(y))  # a fraction is rounded up as often as it says
    tables = np.minimum(y, 1.0)
    for j in range(1, FIRST_TABLES):
        tables += (j < y) & (rng.random(len(y)) < rho / (rho + j))
    x, left = np.full(len(y), float(FIRST_TABLES)), np.flatnonzero(y > FIRST_TABLES)
    while len(left):
        own = rho[left]
        with np.errstate(over="ignore"):
            s = 1.0 + (x[left] - 1.0) * np.exp(rng.standard_exponential(len(left)) / own)
        inside = s < y[left]
        left, s, own = left[inside], s[inside], own[inside]
        opens = rng.random(len(left)) * own < np.log1p(own / np.floor(s)) * (s - 1.0)
        tables[left] += opens
        x[left] = np.where(opens, np.floor(s) + 1.0, s)
    return tables
