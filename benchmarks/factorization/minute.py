"""MovieLens 1M, 80/20: the lowest RMSE from ratings alone within a CPU minute.

Candidates are fitted to 90 % of the training ratings and scored on the other 10 %; the best of those that leave room
for the rest of the ratings is fitted to all of them and scored on the test, which has no part in the choice. "counts":
how often each user and each film is rated among the ratings of the fit, as features. SMURFF's row is what
``factorization.peers`` stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, report
from benchmarks.factorization._data import Split, movielens, small, stored_peers
from benchmarks.factorization.movielens import fitted

#: CPU seconds that a fit may take, and the share of the training ratings that candidates are fitted to.
LIMIT, SHARE = 60.0, 0.9
COUNTS = {"features": "counts"}
CANDIDATES: list[tuple[str, str, dict[str, Any]]] = [
    ("gaussian", "K = 20", {}),
    ("gaussian", "K = 20, counts", COUNTS),
    ("ordinal", "K = 12, counts", {"n_components": 12, **COUNTS}),
    ("ordinal", "K = 16, counts", {"n_components": 16, **COUNTS}),
]
PEER = "SMURFF, K = 32"
COLUMNS = ("fitted to", "task", "model", "passes", "CPU seconds", "rmse", "mae")


def held_out(split: Split, seed: int = 1) -> Split:
    """90 % of the training ratings, and the rest of them in the place of the test."""
    pairs, y = split[:2]
    order = np.random.default_rng(seed).permutation(len(y))
    fit, rest = np.split(order, [int(SHARE * len(y))])
    return pairs[fit], y[fit], pairs[rest], y[rest]


def chosen(rows: list[dict[str, Any]]) -> int:
    """The candidate of the lowest RMSE among those that leave room for the rest of the ratings within the limit."""
    within = {number: row["rmse"] for number, row in enumerate(rows) if row["CPU seconds"] <= SHARE * LIMIT}
    if not within:
        raise ValueError(f"no candidate was fitted within {SHARE * LIMIT:g} CPU seconds.")
    return min(within, key=lambda number: within[number])


def main(quick: bool = False) -> None:
    split = small(movielens()) if quick else movielens()
    short = {"max_iter": 5} if quick else {}

    def row(number: int, part: Split, label: str) -> dict[str, Any]:
        task, name, settings = CANDIDATES[number]
        return {"fitted to": label, **fitted(task, name, {**settings, **short}, part)}

    rows = [row(number, held_out(split), "90 % of the training") for number in range(len(CANDIDATES))]
    best = chosen(rows)
    rows.append(row(best, split, "the training"))
    peers = [one for one in stored_peers() if one["peer"] == PEER]
    rows += [{**one, "fitted to": "the training", "model": PEER, "passes": one["iterations"]} for one in peers]
    notes = [
        "The first rows choose: their errors are those of a tenth of the training ratings, and what took more than "
        f"{SHARE * LIMIT:g} CPU seconds is left out. The last row of ours and the peer's are scored on the test. "
        "Counts: prior means are linear in the logarithm of how often a user and a film are rated in what was fitted; "
        "the peer was not given them."
    ]
    trimmed = [{key: one.get(key) for key in COLUMNS} for one in rows]
    report("factorization/minute", "MovieLens 1M from ratings alone within a CPU minute", trimmed, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
