"""A corpus larger than memory: 300,000 generated documents streamed from disk, one `partial_fit` per chunk.

The paper's Wikipedia experiment in kind: perplexity per held-out word against the words seen, by algorithm, and the
largest memory of the process. Documents are those of `make_lda`, written once as compressed chunks.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock, fresh_process

ALGORITHMS = ("map", "svi", "ssvi-a", "ssvi")
#: Documents, words of the vocabulary, topics, documents of a chunk, and mean words of a document.
SIZES = {"documents": 300_000, "words": 5000, "topics": 100, "chunk": 1000, "length": 100}
FEW = {"documents": 3000, "words": 300, "topics": 10, "chunk": 500, "length": 60}
FIT = """
import json
from benchmarks.topics.lda_stream import streamed
print(json.dumps({{"rows": streamed({folder!r}, {algorithm!r}, {topics})}}))
"""


def written(folder: Path, sizes: dict[str, int]) -> None:
    """Chunks of documents, and the last one as the test set."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(sizes["words"], 0.02), sizes["topics"])
    for number in range(sizes["documents"] // sizes["chunk"] + 1):
        sp.save_npz(folder / f"{number:05d}.npz", documents(rng, topics, sizes))


def documents(rng: Any, topics: Array, sizes: dict[str, int]) -> Any:
    """A chunk of documents, words drawn one by one: topics' tables are searched, not the whole vocabulary's."""
    K, V = topics.shape
    n = sizes["chunk"]
    lengths = 1 + rng.poisson(sizes["length"], n)
    row = np.repeat(np.arange(n), lengths)
    theta = np.cumsum(rng.dirichlet(np.full(K, 0.05), n), 1)
    z = np.minimum((rng.random(len(row))[:, None] > theta[row]).sum(1), K - 1)
    tables, word = np.cumsum(topics, 1), np.empty(len(row), int)
    for k in range(K):
        own = z == k
        word[own] = np.minimum(np.searchsorted(tables[k], rng.random(own.sum())), V - 1)
    return sp.csr_matrix((np.ones(len(row), np.float32), (row, word)), shape=(n, V))


def streamed(folder: str, algorithm: str, n_topics: int) -> list[dict[str, Any]]:
    """Rows of one stream; the vocabulary, the held-out documents and one chunk are all that is in memory."""
    from benchmarks._lib.timing import peak_memory
    from sksvi import StructuredLDA

    *chunks, test = sorted(Path(folder).glob("*.npz"))
    held_out, model, clock, seen, rows = sp.load_npz(test), StructuredLDA(
        n_topics, algorithm=algorithm, total_samples=len(chunks) * 1000, random_state=0
    ), Clock(), 0.0, []  # fmt: skip
    looks = {round(x) for x in np.geomspace(1, len(chunks), 12)}
    for number, chunk in enumerate(chunks, 1):
        X = sp.load_npz(chunk)
        seen += float(X.sum())
        with clock:
            model.partial_fit(X)
        if number in looks:
            row = {"documents": number * X.shape[0], "words": seen, **clock.spent}
            rows.append({**row, "perplexity": model.perplexity(held_out), "peak MiB": peak_memory()})
    return rows


def main(quick: bool = False) -> None:
    sizes, rows = FEW if quick else SIZES, []
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), sizes)
        for algorithm in ALGORITHMS:
            code = FIT.format(folder=folder, algorithm=algorithm, topics=sizes["topics"])
            for row in fresh_process(code, {"OMP_NUM_THREADS": "1"})["rows"]:
                rows.append({"algorithm": algorithm, **row})
                progress(rows[-1])
            notes = [
                f"{sizes['documents']:,} documents of about {sizes['length']} words over {sizes['words']:,}, K = "
                f"{sizes['topics']}, chunks of {sizes['chunk']:,} read from disk, each seen once; perplexity per word "
                f"of {sizes['chunk']:,} documents that were not seen (`score`). peak: resident memory of the process, "
                "Python and libraries included."
            ]
            report("topics/lda_stream", "300,000 documents streamed", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
