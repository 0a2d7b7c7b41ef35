"""Figure 7 of Sheth & Khardon: bound and test NLL against seconds on NIPS papers, K = 50, all documents per step.

The three bounds and s-dsvi with diagonal covariances, and what a full covariance adds; topics are points (theirs) with
the same start for all. "stochastic, default" is our default.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, report
from benchmarks.topics._data import compiled, draw_paths, nips, path

BATCH: dict[str, Any] = {"batch_size": None, "topics": "point"}
METHODS: dict[str, dict[str, Any]] = {
    "optimal": BATCH | {"bound": "optimal"},
    "mean field": BATCH | {"bound": "mean-field"},
    "simple": BATCH | {"bound": "simple"},
    "s-dsvi": BATCH | {"bound": "optimal", "algorithm": "s-dsvi"},
    "h-mc-ssvi": BATCH | {"bound": "optimal", "algorithm": "h-mc-ssvi"},
    "optimal, full covariance": BATCH | {"bound": "optimal", "covariance": "full"},
    "stochastic, default": {},
}
#: Passes at which a fit is scored, and the CPU seconds after which it goes no further.
PASSES, LIMIT = (1, 2, 4, 8, 16, 32, 64), 30.0


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel

    found = nips(quick)
    K = 5 if quick else 50
    rows: list[dict[str, Any]] = []
    for name, parameters in METHODS.items():
        compiled(K, found.train, **parameters)
        model = CorrelatedTopicModel(K, random_state=0, uncertainty="variational", **parameters)
        for row in path(model, found, PASSES[:2] if quick else PASSES, LIMIT):
            row["test NLL"] = -row.pop("log p per word")
            rows.append({"method": name, **row})
        report("topics/figure7", "CTM on NIPS papers: bounds and algorithms (Figure 7)", rows, NOTES, quick)
    if not quick:
        draw_paths("figure7", rows, METHODS)


NOTES = [
    "Bound and test NLL in nats per word. CPU seconds of the fits, compilation and scoring apart, one thread; a "
    f"method ends after {LIMIT:g} s. The bound of topics that are points includes their log prior, that of "
    "Dirichlet topics (the last method) their divergence from it, estimated from the steps of the pass: the two do not "
    "compare."
]


if __name__ == "__main__":
    main(arguments(__doc__))
