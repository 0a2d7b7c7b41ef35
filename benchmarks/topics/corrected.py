"""What raising costs: mean corrected counts of `algorithm="ssvi"`, as steps take them, over the counts themselves.

V n has the mean n over draws (Hoffman and Blei 2015, eq. 8); what falls below -0.9 of the prior's counts is raised to
that, so that steps stay in the domain. Counts stand in every fifth of 500 words, the others have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, report
from sksvi.families import Dirichlet


def excess(prior: float, count: float, draws: int) -> tuple[float, float]:
    """Mean of the corrected counts over the count, less one, and its standard error."""
    rng = np.random.default_rng(0)
    start, counts = Dirichlet(np.full((1, 500), prior)), np.zeros((1, 500))
    counts[:, ::5] = count
    q = Dirichlet(start.theta + counts)
    means = [
        start.in_domain(start, q.corrected(q.drawn(rng), (counts,)))[0][:, ::5].mean() / count for _ in range(draws)
    ]
    return float(np.mean(means) - 1.0), float(np.std(means, ddof=1) / np.sqrt(draws))


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for prior in (0.01, 0.1, 1.0):
        for count in (0.2, 1.0, 5.0, 25.0):
            share, error = excess(prior, count, 50 if quick else 5000)
            rows.append({"prior count": prior, "count": count, "excess": share, "se": error})
    report("topics/corrected", "Corrected counts that are raised: what they have too much, relative", rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
