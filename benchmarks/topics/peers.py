"""Other packages on the NIPS papers: scikit-learn's LDA and NMF, tomotopy's CTM; stored, rerun only when named.

tomotopy (``pip install tomotopy``) takes part at the smallest K where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import installed
from benchmarks.topics._data import completion, nips, whole_fit
from benchmarks.topics._peers import KLNMF, TOMOTOPY_ITERATIONS, Tomotopy, lda

#: A long run: done anew only when it is named.
STORED = True


def peers(quick: bool) -> dict[str, tuple[Callable[[int], Any], bool]]:
    """Each model for a number of topics, and whether at the smallest one alone."""
    found: dict[str, tuple[Callable[[int], Any], bool]] = {
        "LDA (scikit-learn, batch)": (lambda K: lda(K, 3 if quick else 50), False),
        "KL-NMF (scikit-learn)": (lambda K: KLNMF(K, 10 if quick else 200), False),
    }
    if installed("tomotopy"):
        found["CTM (tomotopy)"] = (lambda K: Tomotopy(K, 10 if quick else TOMOTOPY_ITERATIONS), True)
    return found


def main(quick: bool = False) -> None:
    found = nips(quick)
    sizes = (5,) if quick else (50, 100, 150)
    rows: list[dict[str, Any]] = []
    for name, (made, once) in peers(quick).items():
        for K in sizes[:1] if once else sizes:
            peer = made(K)
            rows.append({"K": K, "method": name, **whole_fit(peer, found.train)})
            rows[-1]["log p per word"] = completion(peer, found)
            progress(rows[-1])
            report("topics/peers", "Document completion on NIPS papers: other packages", rows, NOTES, quick)


NOTES = [
    "The documents and the measure of the table above. LDA: 50 passes, default priors. NMF: Kullback-Leibler loss, at "
    f"most 200 iterations, nndsvda start, rows scaled to distributions. tomotopy: {TOMOTOPY_ITERATIONS} iterations, "
    "its own defaults and its own inference of the test documents. CPU seconds compare."
]


if __name__ == "__main__":
    main(arguments(__doc__))
