"""StructuredLDA on the NIPS papers: the default on three splits, and scikit-learn's LDA and NMF and tomotopy beside it.

Scores are those of document completion (`benchmarks.topics._data`), CPU seconds those of one fit without its looks.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import installed
from benchmarks.topics._data import completion, corpus, path, small, split, unigram, whole_fit
from benchmarks.topics._peers import KLNMF, Tomotopy, lda

#: Seeds of the splits; rows of peers are of the first.
SEEDS, LOOKS = (0, 1, 2), (1, 2, 5, 10, 20)
TOMOTOPY_SWEEPS = 350
NOTES = [
    "K = 50, 1,200 NIPS papers to fit and 300 to test, one thread. StructuredLDA with no other parameter than "
    "n_components and the passes; float32: the same on counts of 32 bits. LDA (scikit-learn): default priors, 50 "
    "passes. NMF: Kullback-Leibler loss, at most 200 iterations, nndsvda start, rows scaled to distributions. "
    f"tomotopy: LDA, {TOMOTOPY_SWEEPS} sweeps, its own defaults and inference. CPU seconds compare."
]


def peers(K: int, quick: bool) -> dict[str, Any]:
    """What users would call instead."""
    found = {
        "LDA (scikit-learn, batch)": lda(K, 3 if quick else 50),
        "KL-NMF (scikit-learn)": KLNMF(K, 10 if quick else 200),
    }
    if installed("tomotopy"):
        found["LDA (tomotopy)"] = Tomotopy(K, 10 if quick else TOMOTOPY_SWEEPS, "LDAModel")
    return found


def main(quick: bool = False) -> None:
    from sksvi import StructuredLDA

    K, rows = 5 if quick else 50, []
    X = corpus("nips_uci_min21")["X"]
    for seed in SEEDS[:1] if quick else SEEDS:
        found = small(split(X, seed)) if quick else split(X, seed)
        rows.append({"split": seed, "method": "unigram", "log p per word": unigram(found)})
        for dtype in ("float64", "float32"):
            StructuredLDA(3, max_iter=1).fit(found.train[:30].astype(dtype)).transform(found.train[:3])  # compiles
            model = StructuredLDA(K, random_state=seed, n_jobs=1, uncertainty="variational")
            looks = path(model, wide(found, dtype), LOOKS[:2] if quick else LOOKS)
            rows += [{"split": seed, "method": f"StructuredLDA, {dtype}", **look} for look in looks]
        if seed == SEEDS[0]:
            for name, peer in peers(K, quick).items():
                spent = whole_fit(peer, found.train)
                rows.append({"split": seed, "method": name, **spent, "log p per word": completion(peer, found)})
                progress(rows[-1])
        report("topics/lda", "Document completion on NIPS papers: independent topics", table(rows), NOTES, quick)


def wide(found: Any, dtype: str) -> Any:
    """The split with training counts of another type."""
    return type(found)(found.train.astype(dtype), found.observed, found.held, found.columns)


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same columns."""
    names = ("split", "method", "passes", "seconds", "CPU seconds", "bound per word", "log p per word")
    return [{name: row.get(name) for name in names} for row in rows]


if __name__ == "__main__":
    main(arguments(__doc__))
