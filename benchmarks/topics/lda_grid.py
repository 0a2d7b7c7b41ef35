"""The structured SVI paper's comparison: how documents see the topics x how they are explained, on three corpora.

Scores after passes over the documents (its Figure 2), the bound (its Figure 3) and hyperparameters (its Figure 6). A
run takes half an hour and goes on with the fits that are not in the stored tables (delete them to begin anew).
"""

from __future__ import annotations

import functools
from typing import Any

from benchmarks._lib.cells import Row, by_cells
from benchmarks._lib.tables import arguments, store_figure
from benchmarks.topics._data import Split, completion, corpus, path, small, split

ALGORITHMS, LOCAL_STEPS = ("map", "svi", "ssvi-a", "ssvi"), ("mean-field", "cvb0", "gibbs")
LOOKS, PASSES = (1, 2, 3, 5, 10), 10
#: Corpora, and topics.
CORPORA = {"NIPS": ("nips_uci_min21", 50), "AP": ("ap_blei", 50), "20 newsgroups": ("newsgroups20", 50)}
#: The paper's priors, at which the algorithms differ most.
PAPER = {"doc_topic_prior": 0.1, "topic_word_prior": 0.01}
#: Grid of the prior of words and of topics, the others at their defaults.
WORD_PRIORS, TOPIC_PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0), (0.02, 0.1, 0.5)
COLUMNS = ("corpus", "local step", "algorithm", "passes", "seconds", "CPU seconds", "log p per word", "bound per word")
TITLE = "Four ways of seeing topics, three of explaining documents"
NOTES = [
    "Every algorithm but map begins with one pass of it. Scores by CVB0 at the mean of the topics; the bound is that "
    "of mean field at q(topics), whatever the algorithm climbs, documents by the local step of the fit; it is taken "
    "where a fit ends (10 passes), after the path. Priors 0.1 of topics and 0.01 of words, which is not the default."
]


def fits(quick: bool) -> list[Row]:
    """Rows per corpus, local step, algorithm and look."""
    from sksvi import StructuredLDA

    def run(cell: Row) -> list[Row]:
        file, K = CORPORA[cell["corpus"]]
        found = parted(file, quick)
        options = {"algorithm": cell["algorithm"], "local_step": cell["local step"], "random_state": 0, **PAPER}
        model = StructuredLDA(5 if quick else K, uncertainty="variational", **options)
        looks = path(model, found, LOOKS[:2] if quick else LOOKS)
        for look in looks:
            look["bound per word"] = None
        looks[-1]["bound per word"] = float(model.lower_bound_ / found.train.sum())
        return looks

    names = list(CORPORA)[: 1 if quick else None]
    cells = [
        {"corpus": name, "local step": step, "algorithm": algorithm}
        for name in names
        for step in LOCAL_STEPS
        for algorithm in ALGORITHMS
    ]
    return by_cells("topics/lda_grid", TITLE, cells, run, NOTES, quick, COLUMNS)


def priors(quick: bool) -> list[Row]:
    """A row per algorithm and pair of priors, mean-field documents."""
    from sksvi import StructuredLDA

    def run(cell: Row) -> list[Row]:
        found = parted(CORPORA["NIPS"][0], quick)
        options = {"topic_word_prior": cell["eta"], "doc_topic_prior": cell["alpha"], "random_state": 0}
        options["uncertainty"] = "variational"
        model = StructuredLDA(5 if quick else 50, algorithm=cell["algorithm"], max_iter=PASSES, tol=0.0, **options)
        return [{"log p per word": completion(fitted(model, found.train), found)}]

    notes = [f"NIPS, K = 50, {PASSES} passes, mean field."]
    cells = [
        {"algorithm": algorithm, "eta": eta, "alpha": alpha}
        for algorithm in ALGORITHMS
        for eta in (WORD_PRIORS[:2] if quick else WORD_PRIORS)
        for alpha in (TOPIC_PRIORS[:1] if quick else TOPIC_PRIORS)
    ]
    title = "Scores by prior of words (eta) and of topics (alpha)"
    return by_cells("topics/lda_grid_priors", title, cells, run, notes, quick)


@functools.lru_cache(maxsize=1)
def parted(file: str, quick: bool) -> Split:
    """A corpus in four fifths to fit and a fifth to test."""
    found = split(corpus(file)["X"], 1)
    return small(found) if quick else found


def fitted(model: Any, X: Any) -> Any:
    """The model after a fit that may not converge."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def drawn(rows: list[dict[str, Any]], grid: list[dict[str, Any]]) -> Any:
    """Scores by pass, a panel per corpus and local step, and by prior."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["corpus"] for row in rows))
    figure, axes = plt.subplots(
        len(names) + 1, 3, figsize=(11, 3.1 * (len(names) + 1)), layout="constrained", squeeze=False
    )
    for i, name in enumerate(names):
        for ax, step in zip(axes[i], LOCAL_STEPS, strict=True):
            for algorithm in ALGORITHMS:
                own = [r for r in rows if (r["corpus"], r["local step"], r["algorithm"]) == (name, step, algorithm)]
                ax.plot([r["passes"] for r in own], [r["log p per word"] for r in own], marker="o", label=algorithm)
            ax.set(xscale="log", title=f"{name}, {step}", xlabel="passes", ylabel="log p per held-out word (nats)")
    for ax, alpha in zip(axes[-1], TOPIC_PRIORS, strict=True):
        for algorithm in ALGORITHMS:
            own = [r for r in grid if (r["algorithm"], r["alpha"]) == (algorithm, alpha)]
            ax.plot([r["eta"] for r in own], [r["log p per word"] for r in own], marker="o", label=algorithm)
        ax.set(xscale="log", title=f"NIPS, α = {alpha}", xlabel="η", ylabel="log p per held-out word (nats)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def main(quick: bool = False) -> None:
    rows, grid = fits(quick), priors(quick)
    if not quick:
        store_figure("topics/lda_grid", drawn(rows, grid))


if __name__ == "__main__":
    main(arguments(__doc__))
