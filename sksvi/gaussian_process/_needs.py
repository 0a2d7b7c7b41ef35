"""Most memory that a fit of a process takes, with its search for a kernel (`python -m benchmarks hostile.memory`)."""

from __future__ import annotations

from sksvi._runtime import parallel
from sksvi.models.gp.inducing import LEAST_ROWS, ROWS_PER_CENTRE
from sksvi.models.gp.sparse import KEPT_NUMBERS

#: Matrices of the inducing values' covariance; of each latent's alone where q's is diagonal.
COVARIANCES, OF_LATENTS = 24.0, 12.0
#: Arrays of rows by inducing points: three places of the search with k_w and h each, and one of the gradient; of a
#: chunk of them where rows are too many to be kept; distances of k-means.
ROWS, CHUNKS, DISTANCES = 7.0, 6.0, 2.0
#: Where hyperparameters are integrated: matrices of the inducing values that nodes hold besides, fewer where points and
#: q's covariance leave little to fit at each, and arrays of rows by inducing points in place of those of the search.
OF_NODES, OF_CLOSED_NODES, NODE_ROWS = 16.0, 9.0, 5.0
#: The share of these in a fit that searches for nothing.
ALONE = 0.5
#: Vectors of the rows.
VECTORS = 20.0
#: Matrices between all rows under the optimal bound.
BETWEEN_ROWS = 5.0
#: Matrices between all rows of the process without inducing points.
OF_ALL_ROWS = 10.0


def numbers_held(
    n: int, m: int, latents: int, *, full: bool, kmeans: bool, optimal: bool, learns: bool, nodes: bool, closed: bool
) -> float:
    """Numbers that a fit of n rows with m inducing points holds at once."""
    if optimal:
        return OF_LATENTS * m**2 + BETWEEN_ROWS * float(n) ** 2
    settled = COVARIANCES * float(latents * m) ** 2 if full else OF_LATENTS * latents * float(m) ** 2
    chunk = CHUNKS * min(n, parallel.chunk_rows(m, False)) * m
    rows = ROWS * n * m if n * m <= KEPT_NUMBERS else chunk
    searched = VECTORS * n + (settled + rows) * (1.0 if learns else ALONE)
    at_start = DISTANCES * min(n, max(LEAST_ROWS, ROWS_PER_CENTRE * m)) * m if kmeans else 0.0
    of_nodes = (OF_CLOSED_NODES if closed and full else OF_NODES) * float(m) ** 2
    spread = settled + of_nodes + (NODE_ROWS / ROWS) * rows if nodes else 0.0
    return max(searched, at_start, spread)
