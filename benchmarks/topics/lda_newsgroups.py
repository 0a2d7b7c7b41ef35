"""20 newsgroups, 100 topics: perplexity of held-out words against the words seen, by algorithm."""

from __future__ import annotations

import math
from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import corpus, path, small, split

ALGORITHMS = ("map", "svi", "ssvi-a", "ssvi")
TOPICS, LOOKS = 100, (1, 2, 3, 5, 10)
NOTES = [
    "exp(-score) by completion on the held-out documents; priors and all else at the defaults (local_step "
    "'mean-field'). Every algorithm but map begins with one pass of it."
]


def main(quick: bool = False) -> None:
    from sksvi import StructuredLDA

    found = split(corpus("newsgroups20")["X"], 1)
    found = small(found) if quick else found
    words, rows = float(found.train.sum()), list[dict[str, Any]]()
    for algorithm in ALGORITHMS:
        fixed: Any = {"random_state": 0, "uncertainty": "variational"}
        model = StructuredLDA(5 if quick else TOPICS, algorithm=algorithm, local_step="mean-field", **fixed)
        for look in path(model, found, LOOKS[:2] if quick else LOOKS):
            spent = {"CPU seconds": look["CPU seconds"], "perplexity": math.exp(-look["log p per word"])}
            rows.append({"algorithm": algorithm, "words seen": look["passes"] * words, **spent})
            progress(rows[-1])
        report("topics/lda_newsgroups", "20 newsgroups, 100 topics", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
