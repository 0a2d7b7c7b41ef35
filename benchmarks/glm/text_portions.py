"""Texts in portions: the log loss of a stream by ``partial_fit`` beside one fit to all rows, and SGDClassifier's.

Training rows are shuffled and given in chunks of one size; columns are made of all of them, so that every method has
the same. How streams treat their first rows and what these leave was chosen on scipy/sklearn, pandas/xarray,
newsgroups 3/4, rec (7 to 10) and all, and 17 packages, with other splits.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.glm._text_methods import columns_of, losses
from benchmarks.glm._text_sets import PAIRS, SEVERAL, TextSet, counts, docstrings, newsgroups, reuters, unchanged, words

#: Splits of each set.
SPLITS = 1
#: Sets, and the rows of a chunk.
SETS: list[tuple[TextSet, int]] = [
    *((TextSet("/".join(pair), "text", partial(docstrings, *pair), words, 0.5), 20) for pair in PAIRS[:3]),
    (TextSet("newsgroups 9/10, 400", "text", partial(newsgroups, 9, 10), counts, 400), 20),
    (TextSet("newsgroups 12/13, 1,500", "text", partial(newsgroups, 12, 13), counts, 1500), 50),
    (TextSet("Reuters 2,000", "text", reuters, unchanged, 2000), 100),
    (TextSet("newsgroups comp, 3,000", "text, classes", partial(newsgroups, 1, 2, 3, 4, 5), counts, 3000), 100),
    *((TextSet(name, "text, classes", partial(docstrings, *own), words, 0.7), 100) for name, own in SEVERAL.items()),
    (TextSet("newsgroups all, 10,000", "text, classes", newsgroups, counts, 10_000, splits=1), 500),
]


def split_row(A: Any, y: Any, B: Any, labels: Any, chunk: int, seed: int) -> dict[str, float]:
    """Losses and CPU seconds of one split."""
    from sklearn.linear_model import SGDClassifier

    from sksvi import BayesianGLMClassifier

    order, classes = np.random.default_rng(seed).permutation(len(y)), np.unique(y)
    A, y, at = A[order], y[order], columns_of(classes, labels)
    clocks = {name: Clock() for name in ("fit", "stream")}
    one, stream = (BayesianGLMClassifier(covariance="low-rank") for _ in range(2))
    sgd = SGDClassifier(loss="log_loss", random_state=0)
    with clocks["fit"]:
        one.fit(A, y)
    for start in range(0, len(y), chunk):
        rows = slice(start, start + chunk)
        with clocks["stream"]:
            stream.partial_fit(A[rows], y[rows], classes=classes)
        sgd.partial_fit(A[rows], y[rows], classes=classes)
    models = {"one fit": one, "stream": stream, "SGDClassifier": sgd}
    found = {name: float(losses(model.predict_proba(B), at).mean()) for name, model in models.items()}
    return found | {f"CPU seconds, {name}": clock.cpu for name, clock in clocks.items()} | {"loo_": stream.loo_}


def set_row(data: TextSet, chunk: int, splits: int | None) -> dict[str, Any]:
    """Means over the splits of a set."""
    found, size = [], (0, 0, 0)
    for seed, (A, y, B, labels) in enumerate(data.drawn(splits)):
        size = (*A.shape, len(np.unique(y)))
        found.append(split_row(A, y, B, labels, chunk, seed))
    start = {"data": data.name, **dict(zip(("rows", "columns", "classes"), size, strict=True)), "chunk": chunk}
    means = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
    gaps = [row["stream"] - row["one fit"] for row in found]
    error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else None
    return {**start, "splits": len(found), **means, "se of stream less one fit": error}


def main(quick: bool = False) -> int:
    """1 where a stream has a larger log loss than SGDClassifier."""
    warnings.simplefilter("ignore")
    rows, skipped = [], []
    for data, chunk in SETS[:1] if quick else SETS:
        try:
            rows.append(set_row(data, chunk, SPLITS))
        except FileNotFoundError as error:
            skipped.append(f"{data.name} is left out: {error}.")
            continue
        progress(rows[-1])
    notes = ["Log loss of test rows, nats, means over splits; loo_ is what the stream says of itself.", *skipped]
    report("glm/text_portions", "Texts in portions", rows, notes, quick)
    return int(any(row["stream"] > row["SGDClassifier"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
