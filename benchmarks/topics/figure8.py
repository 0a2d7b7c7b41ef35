"""Figure 8 of Sheth & Khardon: test NLL on NIPS papers against the number of topics, optimal bound and mean field."""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.topics._data import compiled, completion, nips, whole_fit

TOPICS = (10, 25, 50, 100, 150)
BOUNDS = ("optimal", "mean-field")
#: Passes of a fit, the same for all, so that the table ends.
PASSES = 10


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel

    found = nips(quick)
    rows: list[dict[str, Any]] = []
    for K in (3, 5) if quick else TOPICS:
        for bound in BOUNDS:
            compiled(K, found.train, bound=bound)
            options: Any = {"random_state": 0, "uncertainty": "variational"}
            model = CorrelatedTopicModel(K, bound=bound, max_iter=2 if quick else PASSES, **options)
            row = whole_fit(model, found.train)
            rows.append({"K": K, "bound": bound, **row, "test NLL": -completion(model, found)})
            progress(rows[-1])
        report("topics/figure8", "CTM on NIPS papers: number of topics (Figure 8)", rows, NOTES, quick)
    if not quick:
        draw(rows)


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for bound in BOUNDS:
        mine = [row for row in rows if row["bound"] == bound]
        ax.plot([row["K"] for row in mine], [row["test NLL"] for row in mine], marker="o", label=bound)
    ax.set(xlabel="topics", ylabel="test NLL per word")
    ax.legend()
    store_figure("topics/figure8", figure)


NOTES = [
    f"Default settings, {PASSES} passes; nats per held-out word, lower is better. One thread; CPU seconds compare."
]


if __name__ == "__main__":
    main(arguments(__doc__))
