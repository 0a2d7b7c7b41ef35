"""Where networks end: node by node and in parallel, at three rates, from three starts, against L-BFGS.

And what Algorithm 2 does as it is printed, without judging its steps.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from support.networks import EXAMPLES, Bound, bound_after_plain_steps, counts

TITLE = "Networks against L-BFGS"
NOTES = [
    "Three starts each, the second and third far from the data. Gap: what L-BFGS on the same bound finds at best, less "
    "where the fit ended, nats, the worst of the starts; falls: the largest fall of the bound between two passes. "
    "Plain: the same steps unjudged, 200 passes; its gap is inf where a step has left the domain of a family, or "
    "its bound at the end is beneath -1e10 or no number. CPU seconds of one thread, of a fit."
]


def rows_of(name: str, make: Any, quick: bool) -> list[dict[str, Any]]:
    """A row per order and rate."""
    from sksvi.network import Network

    nodes, factors, data, starts, _ = make()
    bound = Bound(nodes, factors, data)
    whole = [{**bound.priors, **start} for start in starts]
    best = max(bound.maximum(start) for start in whole)
    rows = []
    for order in ("in turn", "parallel"):
        for rate in (1.0,) if quick else (1.0, 0.5, 0.1):
            started = process_time()
            options = {"order": order, "rate": rate, "max_iter": 5000}
            fits = [Network(nodes, factors).fit(data, start=start, **options) for start in starts]
            seconds = (process_time() - started) / len(starts)
            plain = [bound_after_plain_steps(bound, start, rate, order, 20 if quick else 200) for start in whole]
            gaps = [best - each if each > -1e10 else np.inf for each in plain]
            made = {
                "network": name,
                "order": order,
                "rate": rate,
                "passes": max(fit.n_iter_ for fit in fits),
                "CPU seconds": seconds,
                "gap": max(best - fit.lower_bound_ for fit in fits),
                "falls": max(0.0, -min(np.diff(fit.lower_bounds_).min() for fit in fits)),
                "plain: gap": max(gaps),
            }
            rows.append(made)
            progress(made)
    return rows


def main(quick: bool = False) -> int:
    """How many rows fall short: 1e-4 nats from L-BFGS."""
    from sksvi.network import Network

    Network(*EXAMPLES["groups"]()[:2]).fit(EXAMPLES["groups"]()[2], max_iter=2, tol=0.0)  # compiles
    cases = {**EXAMPLES, "counts near 150": lambda: counts(level=5.0)}
    rows = [row for name, make in cases.items() for row in rows_of(name, make, quick)]
    report("network/ends", TITLE, rows, NOTES, quick)
    return sum(row["gap"] > 1e-4 or row["falls"] > 1e-6 for row in rows)


if __name__ == "__main__":
    main(arguments(__doc__))
