"""Other packages on the NIPS papers: scikit-learn's LDA and NMF, tomotopy's CTM; stored, rerun only when named.

tomotopy (``pip install tomotopy``) takes part at the smallest K where it is installed.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import arguments, progress, report
from benchmarks.gaussian_processes import installed
from benchmarks.topics import KLNMF, TOMOTOPY_ITERATIONS, Tomotopy, completion, lda, nips, whole_fit


def peers(n_components: int, quick: bool, smallest: bool) -> dict[str, Any]:
    """The models by name."""
    found = {
        "LDA (scikit-learn, batch)": lda(n_components, 3 if quick else 50),
        "KL-NMF (scikit-learn)": KLNMF(n_components, 10 if quick else 200),
    }
    if smallest and installed("tomotopy"):
        found["CTM (tomotopy)"] = Tomotopy(n_components, 10 if quick else TOMOTOPY_ITERATIONS)
    return found


def main(quick: bool = False) -> None:
    found = nips(quick)
    sizes = (5,) if quick else (50, 100, 150)
    rows: list[dict[str, Any]] = []
    for K in sizes:
        for name, peer in peers(K, quick, sizes[0] == K).items():
            rows.append({"K": K, "method": name, **whole_fit(peer, found.train)})
            rows[-1]["log p per word"] = completion(peer, found)
            progress(rows[-1])
            report("ctm_peers", "Document completion on NIPS papers: other packages", rows, NOTES, quick)


NOTES = [
    "The documents and the measure of the table above. LDA: 50 passes, default priors. NMF: Kullback-Leibler loss, at "
    f"most 200 iterations, nndsvda start, rows scaled to distributions. tomotopy: {TOMOTOPY_ITERATIONS} iterations, "
    "its own defaults and its own inference of the test documents. CPU seconds compare."
]


if __name__ == "__main__":
    main(arguments(__doc__))
