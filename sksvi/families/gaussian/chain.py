"""A Gaussian over latents of points in time, whose prior is a chain of states, held as one message per latent.

f_t = h_tᵀx_t with x_{t+1} = A x_t + noise, so that the states' joint precision is block-tridiagonal: what a dense prior
covariance would say of f takes O(T) operations. The dual form, as `dual.SiteGaussian`; messages may
have negative precisions (Student-t) as long as the states' joint precision stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from sksvi._runtime import memory
from sksvi._typing.arrays import RandomState
from sksvi.families.base import Draw, Message, MessageGaussian, NotPositiveDefinite
from sksvi.families.gaussian import chain_loops as loops
from sksvi.families.gaussian.chain_regression import FEWEST, fixed_states, swept_by_regression
from sksvi.families.gaussian.structures import DENSE, Structure

Array = np.ndarray

#: A divergence below this, which has none below 0, is rounding's, nats.
LOST = -1.0


def writeable(array: Array) -> Array:
    """The array, or a copy of one that is read-only (mapped from a file), for which loops would be compiled anew."""
    return array if array.flags.writeable else array.copy()


@dataclass(eq=False)  # never written to; a search makes many, and frozen ones take several times as long to make
class Chain:
    """A Gaussian state-space prior of f_t.

    X (T, E): rows of h_t on the last E states. h (S,): h_t on the first S. rows, starts, columns, values: the rows of A
    that are not of an identity, as in CSR. noise (n,): variances of the noise, n = S + E. mean (n,), cov (n, n): of the
    first states. damped (k,): columns of A of which the slope of the evidence is wanted.
    """

    LAYOUT = """
        noise (n) f >=0; X (_,E) f
        h (S) f where n == S + E
        rows (m) i <n distinct; starts (m+1) i cuts e; values (e) f; columns (e) i <n; mean (n) f
        cov (n,n) f diag>=0; damped (_) i <n
    """

    X: Array
    h: Array
    rows: Array
    starts: Array
    columns: Array
    values: Array
    noise: Array
    mean: Array
    cov: Array
    damped: Array

    def __len__(self) -> int:
        return len(self.X)

    def equals(self, other: Chain) -> bool:
        """Whether all of it is the same."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return all(np.array_equal(a, b) for a, b in pairs)

    @property
    def is_level(self) -> bool:
        """Whether f is the only state and walks at random."""
        return len(self.h) == 1 and not self.X.shape[1] and not len(self.rows) and bool(self.h[0] == 1.0)

    @property
    def moves(self) -> tuple[Array, ...]:
        """What the loops take of it before the first states."""
        parts = self.X, self.h, self.rows, self.starts, self.columns, self.values, self.noise
        return tuple(map(writeable, parts))

    def sweep(self, linear: Array, weights: Array) -> Swept:
        """Filter and smoother under these messages."""
        if len(self.noise) >= FEWEST and np.sum(fixed := fixed_states(self)) >= FEWEST:
            return Swept(**swept_by_regression(self, fixed, writeable(linear), writeable(weights)))
        return swept(self, linear, weights)

    def transition(self) -> Array:
        """A, (n, n)."""
        A = np.eye(len(self.noise))
        A[self.rows] = 0.0
        for i, row in enumerate(self.rows):
            at = slice(self.starts[i], self.starts[i + 1])
            A[row, self.columns[at]] = self.values[at]
        return A

    def dense(self) -> tuple[Array, Array]:
        """Mean and covariance of f, (T,) and (T, T): of a few hundred points."""
        T, A = len(self), self.transition()
        H = np.column_stack([np.broadcast_to(self.h, (T, len(self.h))), self.X])
        mean, cov, a, P = np.empty(T), np.empty((T, T)), self.mean, self.cov
        for t in range(T):
            mean[t], ahead = H[t] @ a, P @ H[t]
            for u in range(t, T):
                cov[t, u] = cov[u, t] = H[u] @ ahead
                ahead = A @ ahead
            a, P = A @ a, A @ P @ A.T + np.diag(self.noise)
        return mean, cov


class Swept(NamedTuple):
    """What one sweep of filter and smoother says of a block.

    mean, variance (T,): of f. log_det: log |prior precision⁻¹ precision|, kl from the prior, log_z: evidence of the
    messages, nats. last, last_cov: states after the last message. score (n,): Σ_t (r² - diag N). first, information:
    r and N before the first message. pull (n, k): slope of log Z in the damped columns of A.
    """

    mean: Array
    variance: Array
    log_det: float
    kl: float
    log_z: float
    last: Array
    last_cov: Array
    score: Array
    first: Array
    information: Array
    pull: Array


def swept(chain: Chain, linear: Array, weights: Array) -> Swept:
    """Filter and smoother.

    Raises
    ------
    NotPositiveDefinite
        Where the joint precision of the states is not.
    """
    n, mean, variance = len(chain.noise), np.empty(len(linear)), np.empty(len(linear))
    linear, weights = writeable(linear), writeable(weights)
    if chain.is_level:
        out = np.empty(5)
        start = float(chain.noise[0]), float(chain.mean[0]), float(chain.cov[0, 0])
        failed, log_det, kl, log_z = loops.smooth_level(*start, linear, weights, mean, variance, out)
        last, last_cov, score, first, information = out[:1], out[1:2, None], out[2:3], out[3:4], out[4:5, None]
        pull = np.zeros((1, 0))
    else:
        last, last_cov = chain.mean.copy(), chain.cov.copy()
        score, first, information = np.empty(n), np.empty(n), np.empty((n, n))
        pull = np.empty((n, len(chain.damped)))
        before, after = (linear, weights, writeable(chain.damped)), (mean, variance, score, first, information, pull)
        failed, log_det, kl, log_z = loops.smooth(*chain.moves, last, last_cov, *before, *after)
    if failed >= 0:
        raise NotPositiveDefinite(f"the messages leave no positive precision at point {failed} in time", failed)
    if kl < LOST:
        raise NotPositiveDefinite("messages are so large that their divergence from the prior is lost in rounding")
    return Swept(mean, variance, log_det, kl, log_z, last, last_cov, score, first, information, pull)


@lru_cache(maxsize=16)
def _nothing(n: int) -> Array:
    """n zeros that take no memory, read-only."""
    return np.broadcast_to(0.0, n)


class ChainGaussian(MessageGaussian):
    """q of f_1..f_T: a chain prior times exp(λ_t f_t - ½ W_t f_t²).

    Parameters
    ----------
    chain : Chain
    linear, weights : ndarray of shape (T,), default=None
        λ and W; None: zeros, the prior.

    Raises
    ------
    NotPositiveDefinite
        By whatever asks for moments, where the joint precision is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.chain import Chain, ChainGaussian
    >>> none, ints = np.zeros(0), np.zeros(0, np.int64)
    >>> walk = Chain(np.zeros((3, 0)), np.ones(1), ints, np.zeros(1, np.int64), ints, none, np.ones(1), np.zeros(1),
    ...              np.ones((1, 1)), ints)
    >>> ChainGaussian(walk).variance
    array([1., 2., 3.])
    """

    LAYOUT = "chain Chain; chain.X (T,_) f; linear (T) f; weights (T) f"

    structure: Structure = DENSE

    def __init__(self, chain: Chain, linear: Array | None = None, weights: Array | None = None) -> None:
        self.chain = chain
        #: Whether this is known to be the prior.
        self.bare_prior = linear is None and weights is None
        # A prior is made at every look, and hardly ever swept.
        self.linear = _nothing(len(chain)) if linear is None else linear
        self.weights = _nothing(len(chain)) if weights is None else weights

    @cached_property
    def swept(self) -> Swept:
        """What one sweep over the chain computes: moments and normaliser, held until `release`."""
        return self.chain.sweep(self.linear, self.weights)

    @property
    def _messages(self) -> tuple[Array, Array]:
        """λ and W as loops take them."""
        return writeable(self.linear), writeable(self.weights)

    def prepare(self) -> None:
        """Sweep now."""
        _ = self.swept

    def release(self) -> None:
        """Let go of the sweep."""
        vars(self).pop("swept", None)

    def forgotten(self) -> ChainGaussian:
        """The block with the same messages but without its moments, which need not be held until a fit ends."""
        return self.under(self.chain)

    # ---- moments
    @property
    def mean(self) -> Array:
        """Means of f, (T,)."""
        return self.swept.mean

    @property
    def variance(self) -> Array:
        """Variances of f, (T,)."""
        return self.swept.variance

    @property
    def cov(self) -> Array:
        """Covariance of f, (T, T): O(T³), of a few thousand points."""
        K = self.chain.dense()[1]
        found = np.linalg.solve(np.eye(len(K)) + K * self.weights, K)
        return 0.5 * (found + found.T)

    @property
    def dual(self) -> Array:
        """λ - W m."""
        return self.linear - self.weights * self.mean

    # ---- algebra of a step
    def natural(self, about: Any = None) -> tuple[Any, Any]:
        """Natural parameters of the messages in coordinates centred at the mean of `about`; numbers where all are 0."""
        return (0.0, 0.0) if self.bare_prior else (self.linear - self.weights * about.mean, self.weights)

    def replace(self, natural: Any) -> ChainGaussian:
        """The block with these messages, centred at this one's mean.

        Raises
        ------
        NotPositiveDefinite
            Where their precision is not, or messages are beyond all numbers.
        """
        linear, weights = natural
        with np.errstate(over="ignore", invalid="ignore"):
            linear = linear + weights * self.mean
        if not np.all(np.isfinite(linear)):
            raise NotPositiveDefinite("a step leads to messages beyond all numbers")
        new = ChainGaussian(self.chain, linear, weights)
        new.prepare()
        return new

    def blended(self, other: ChainGaussian, weight: float) -> ChainGaussian:
        """(1 - weight) of this block's messages plus weight of the other's."""
        pairs = (self.linear, other.linear), (self.weights, other.weights)
        return ChainGaussian(self.chain, *((1 - weight) * a + weight * b for a, b in pairs))

    def kl(self, prior: ChainGaussian) -> float:
        """KL(q ‖ prior), nats, for blocks of one chain: the prior itself or another step of the same fit."""
        if prior.bare_prior:
            return self.swept.kl
        mine, its = ((*q._messages, q.mean) for q in (self, prior))
        return 0.5 * (loops.distance(*mine, self.variance, *its) + self.swept.log_det - prior.swept.log_det)

    # ---- messages
    def over(self, prior: ChainGaussian) -> Message:
        """What the data said, about zero."""
        return Message((self.linear - prior.linear, self.weights - prior.weights))

    def times(self, message: Message) -> ChainGaussian:
        """This prior times messages about its latents."""
        linear, weights = message.added()
        return ChainGaussian(self.chain, self.linear + linear, self.weights + weights)

    def under(self, chain: Chain) -> ChainGaussian:
        """The block of these messages under another prior `chain`; that prior itself where there are no messages."""
        return ChainGaussian(chain) if self.bare_prior else ChainGaussian(chain, self.linear, self.weights)

    def log_evidence(self) -> float:
        """log ∫ p(f) exp(λᵀf - ½ fᵀWf) df, nats: what the messages say of the prior."""
        return self.swept.log_z

    # ---- states
    def combined(
        self, parts: Array, by: Array | None = None, design: Array | None = None, back: bool = True
    ) -> tuple[Array, Array]:
        """Mean and variance, (T, K), of combinations of the states: `parts` (K, n), `by` (K,) times rows of `design`.

        back: given all messages; else given those before each point.
        """
        chain = self.chain
        K, n = parts.shape
        what = f"the moments of {K} combinations of {n} states at {len(chain)} points in time"
        memory.need(8.0 * len(chain) * (K * (n * back + 2) + n), what, "take fewer points, or shorter seasons")
        by = np.zeros(len(parts)) if by is None else by
        design = chain.X if design is None else design
        mean, variance = np.empty((len(chain), len(parts))), np.empty((len(chain), len(parts)))
        a, P = chain.mean.copy(), chain.cov.copy()
        failed = loops.combine(*chain.moves, a, P, *self._messages, writeable(design), parts, by, mean, variance, back)
        self._possible(failed)
        return mean, np.maximum(variance, 0.0)

    def ahead(self) -> tuple[Array, Array]:
        """Mean and variance of each f given the messages before it, (T,)."""
        chain = self.chain
        if not chain.is_level:
            share = np.concatenate([chain.h, np.zeros(chain.X.shape[1])])[None]
            mean, variance = self.combined(share, np.ones(1), back=False)
            return mean[:, 0], variance[:, 0]
        mean, variance = np.empty(len(chain)), np.empty(len(chain))
        start = float(chain.noise[0]), float(chain.mean[0]), float(chain.cov[0, 0])
        self._possible(loops.filter_level(*start, *self._messages, mean, variance))
        return mean, variance

    @staticmethod
    def _possible(failed: int) -> None:
        if failed >= 0:
            raise NotPositiveDefinite(f"the messages leave no positive precision at point {failed} in time", failed)

    # ---- draws
    def prior_draws(self, n: int, rng: np.random.Generator) -> Array:
        """Draws (n, T) of f from the chain alone."""
        chain = self.chain
        x = chain.mean + rng.standard_normal((n, len(chain.noise))) @ _root(chain.cov).T
        A, spread, S = chain.transition(), np.sqrt(chain.noise), len(chain.h)
        moving = np.flatnonzero(spread)
        f = np.empty((n, len(chain)))
        for t in range(len(chain)):
            f[:, t] = x[:, :S] @ chain.h + x[:, S:] @ chain.X[t]
            if t < len(chain) - 1:
                x = x @ A.T
                x[:, moving] += rng.standard_normal((n, len(moving))) * spread[moving]
        return f

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, T) of f: draws from the chain, corrected by what the messages say of them."""
        from sklearn.utils import check_random_state

        return self._draws(n, check_random_state(random_state))

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw of f."""
        return Draw(self._draws(1, rng)[0])

    def _draws(self, n: int, rng: np.random.Generator) -> Array:
        centred, weights = replace(self.chain, mean=np.zeros_like(self.chain.mean)), np.maximum(self.weights, 0.0)
        prior = ChainGaussian(centred).prior_draws(n, rng)
        noise = np.sqrt(weights) * rng.standard_normal(prior.shape)
        linear_terms = (-weights * f - e for f, e in zip(prior, noise, strict=True))
        draws = self.mean + np.array(
            [f + ChainGaussian(centred, linear, weights).mean for f, linear in zip(prior, linear_terms, strict=True)]
        )
        spread = self._spread(centred, weights)
        return draws if spread is None else draws + rng.standard_normal((n, spread.shape[1])) @ spread.T

    def _spread(self, centred: Chain, weights: Array) -> Array | None:
        """V (T, k) with V Vᵀ what the k messages of negative precision add to the covariance that the others leave.

        Woodbury: (S⁻¹ - U|W|Uᵀ)⁻¹ = S + S U (|W|⁻¹ - UᵀSU)⁻¹ UᵀS, U their columns of the identity.
        """
        negative = np.flatnonzero(self.weights < 0)
        if not len(negative):
            return None
        others = np.array([ChainGaussian(centred, unit, weights).mean for unit in np.eye(len(weights))[negative]]).T
        inner = np.diag(-1.0 / self.weights[negative]) - others[negative]
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        if not values[0] > 0:
            raise NotPositiveDefinite("the messages leave no positive precision")
        return others @ (vectors / np.sqrt(values))


def _root(cov: Array) -> Array:
    """R with R Rᵀ = cov, which may be singular."""
    values, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(values, 0.0))
