"""Compiled algebra of topic models' local steps: small symmetric matrices, and documents with their counts of topics.

Documents are rows of a CSR matrix; ``topics`` (V, K) what they see of the topics, up to a factor per word, which
cancels in responsibilities; ``alpha`` (K,) the prior of proportions; ``counts_of_topics`` (n, K) the expected number
of words that each document has from each topic: where it starts, and where it ended.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.families.implicit_loops import digamma

# ---- small symmetric matrices of local Gaussians
Array = np.ndarray

compiled = njit()

#: First share by which a Hessian that is not positive definite moves to its convex part.
BLEND = 0.05
#: A pivot below this share of its diagonal entry counts as not positive.
PIVOT = 1e-12


#: Of loops that add and store nothing: with stores, bits would depend on where arrays lie.
adding = njit(fastmath={"reassoc", "contract"})


@adding
def product(a: Array, b: Array, n: int) -> float:
    """Σ a b of the first n numbers: NumPy's compiles for five times as long."""
    value = 0.0
    for i in range(n):
        value += a[i] * b[i]
    return value


@compiled
def cholesky(a: Array, factor: Array) -> bool:
    """Upper factor U of a symmetric matrix, a = UᵀU, and Uᵀ below its diagonal; False, and neither, without one."""
    for i in range(len(a)):
        row = factor[i]
        for j in range(i + 1):
            value = a[i, j] - product(row, factor[j], j)
            if j < i:
                row[j] = factor[j, i] = value / factor[j, j]
        if not value > PIVOT * abs(a[i, i]):
            return False
        row[i] = np.sqrt(value)
    return True


@compiled
def solve(factor: Array, x: Array) -> None:
    """x <- (UᵀU)⁻¹ x; both triangles of the factor serve, each row by row."""
    n = len(x)
    for i in range(n):
        x[i] /= factor[i, i]
        row, value = factor[i], x[i]
        for k in range(i + 1, n):
            x[k] -= row[k] * value
    for i in range(n - 1, -1, -1):
        x[i] /= factor[i, i]
        row, value = factor[i], x[i]
        for k in range(i):
            x[k] -= row[k] * value


@compiled
def total(a: Array, b: Array, share: float, c: Array, out: Array) -> None:
    """out = a + (1 - share) b + share c."""
    for i in range(len(out)):
        for j in range(len(out)):
            out[i, j] = a[i, j] + (1.0 - share) * b[i, j] + share * c[i, j]


@compiled
def newton_factor(precision: Array, negative: Array, safe: Array, summed: Array, factor: Array) -> None:
    """Factor of Σ⁻¹ + negative, moved towards its convex part until it has one."""
    share = 0.0
    total(precision, negative, share, safe, summed)
    while not cholesky(summed, factor) and share < 1.0:
        share = min(1.0, max(BLEND, 2.0 * share))
        total(precision, negative, share, safe, summed)


@compiled
def project(negative: Array, full: bool, factor: Array) -> int:
    """Π₊ in place: negative eigenvalues (diagonal q: entries) become zero; returns whether there were any."""
    n = len(negative)
    if not full:
        found = 0
        for k in range(n):
            if negative[k, k] < 0.0:
                negative[k, k] = 0.0
                found = 1
        return found
    if n == 0 or cholesky(negative, factor):
        return 0
    values, vectors = np.linalg.eigh(negative)
    if values[0] >= -PIVOT * values[-1]:
        return 0
    scaled = vectors.copy()
    for j in range(n):
        for i in range(n):
            scaled[i, j] *= max(values[j], 0.0)
    np.dot(scaled, vectors.T, negative)
    return 1


@compiled
def inverse_root(precision: Array, negative: Array, full: bool, factor: Array, root: Array) -> None:
    """C of S⁻¹ = Σ⁻¹ + negative, which is positive semi-definite: lower triangular, S = CᵀC."""
    n = len(precision)
    if not full:
        for i in range(n):
            for j in range(n):
                root[i, j] = 0.0
            root[i, i] = 1.0 / np.sqrt(precision[i, i] + negative[i, i])
        return
    for i in range(n):
        for j in range(n):
            root[i, j] = precision[i, j] + negative[i, j]
    cholesky(root, factor)
    for i in range(n):
        row = root[i]
        for j in range(n):
            row[j] = 0.0
        for k in range(i):
            scale, above = factor[k, i] / factor[i, i], root[k]
            for j in range(k + 1):
                row[j] -= scale * above[j]
        row[i] = 1.0 / factor[i, i]


@compiled
def load_square(stored: Array, full: bool, matrix: Array) -> None:
    """A matrix from what a document's state holds of it: all of it, or its diagonal."""
    p = len(matrix)
    for j in range(p):
        for k in range(p):
            matrix[j, k] = stored[j * p + k] if full else (stored[j] if j == k else 0.0)


@compiled
def store_square(matrix: Array, full: bool, stored: Array) -> None:
    """The inverse of `load_square`."""
    p = len(matrix)
    for j in range(p):
        for k in range(p):
            if full:
                stored[j * p + k] = matrix[j, k]
            elif j == k:
                stored[j] = matrix[j, j]


# ---- what local steps of latent Dirichlet allocation share: documents, counts of topics, bounds
#: What every loop over these documents takes, for `sksvi._runtime.compiled.entry`.
LDA_DOCUMENTS = (
    "topics (V, K) f",
    "alpha (K) f",
    "counts_of_topics (n, K) f",
    "indptr (n+1) i cuts e",
    "words (e) i < V",
    "counts (e) f",
)


@adding
def sum_of(values: Array) -> float:
    """Sum of an array (n,): numba compiles that of NumPy for five times as long."""
    value = 0.0
    for i in range(len(values)):
        value += values[i]
    return value


@compiled
def smallest(topics: Array) -> float:
    """The least number that responsibilities use in the type of `topics`: smaller ones are replaced by it."""
    return 1e-30 if topics.itemsize == 4 else 1e-290


@compiled
def gathered(topics: Array, words: Array) -> Array:
    """The rows (W, K) of a document's words."""
    own = np.empty((len(words), topics.shape[1]), topics.dtype)
    for w in range(len(words)):
        for k in range(topics.shape[1]):  # assigning rows compiles for two seconds more
            own[w, k] = topics[words[w], k]
    return own


@compiled
def scaled_proportions(alpha: Array, counts: Array, least: float, out: Array) -> float:
    """exp(E log θ) of Dir(α + counts) over its largest, at `least`, into `out`; the logarithm of that factor."""
    total, largest = 0.0, -np.inf
    for k in range(len(alpha)):
        total += alpha[k] + counts[k]
        largest = max(largest, alpha[k] + counts[k])
    top = digamma(largest)
    for k in range(len(alpha)):
        out[k] = max(np.exp(digamma(alpha[k] + counts[k]) - top), least)
    return top - digamma(total)


@compiled
def log_gamma(x: float) -> float:
    """log Γ(x), x > 0: recurrence to 7, then Stirling's series; NaN below."""
    if x < 0.0:
        return np.nan
    shift = 1.0
    for _ in range(7):
        if not x < 7.0:
            break
        shift *= x
        x += 1.0
    y = 1.0 / (x * x)
    tail = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y * (1.0 / 1188))))) / x
    return (x - 0.5) * np.log(x) - x + 0.9189385332046727 + tail - np.log(shift)


@compiled
def divergence(alpha: Array, counts: Array, elog: Array) -> float:
    """KL(Dir(α + counts) ‖ Dir(α)), nats; E log θ goes into `elog` (K,)."""
    prior, total = 0.0, 0.0
    for k in range(len(alpha)):
        prior += alpha[k]
        total += alpha[k] + counts[k]
    common = digamma(total)
    value = log_gamma(total) - log_gamma(prior)
    for k in range(len(alpha)):
        a = alpha[k] + counts[k]
        elog[k] = digamma(a) - common
        value += log_gamma(alpha[k]) - log_gamma(a) + counts[k] * elog[k]
    return value


@entry(*LDA_DOCUMENTS, "offset (V) f", "values (n) f", "elog (n, K) f")
@compiled
def document_bounds(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    offset: Array,
    alpha: Array,
    counts_of_topics: Array,
    values: Array,
    elog: Array,
) -> None:
    """Each document's part of the bound at q(θ) = Dir(α + counts), responsibilities at their best; E log θ."""
    proportions, least = np.empty(topics.shape[1], topics.dtype), smallest(topics)
    for i in range(len(values)):
        own = gathered(topics, words[indptr[i] : indptr[i + 1]])
        value = -divergence(alpha, counts_of_topics[i], elog[i])
        shift = scaled_proportions(alpha, counts_of_topics[i], least, proportions)
        total = np.empty(len(own), topics.dtype)
        np.dot(own, proportions, total)
        for w in range(len(own)):
            at = indptr[i] + w
            value += counts[at] * (np.log(total[w]) + shift + offset[words[at]])
        values[i] = value
