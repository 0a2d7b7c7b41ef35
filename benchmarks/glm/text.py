"""Texts and wide tables of two classes: the classifier beside scikit-learn's on sets that it was not tuned on.

Columns by TF-IDF (sublinear, words of three training documents and more) or standardised, random splits, a size of
its own per set. Log loss in nats, expected calibration error of the likeliest label (ten bins), CPU seconds of ``fit``
on one thread. Every demand on the first of ours is a row of the last table, and one that is not met fails the command.
More classes are in ``glm.text_classes``, many documents in ``glm.text_large``.
"""

from __future__ import annotations

from benchmarks._lib.tables import arguments
from benchmarks.glm._text_judge import judged
from benchmarks.glm._text_sets import all_sets

#: Of a quick run.
QUICK = ("sphinx/docutils", "factors, 100 x 2,000")


def main(quick: bool = False) -> int:
    """Demands that are not met."""
    sets = [data for data in all_sets() if not data.several and (not quick or data.name in QUICK)]
    return judged("text", "Texts and wide tables", sets, quick)


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
