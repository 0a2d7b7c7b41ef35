"""Texts and wide tables of three to twenty classes: the classifier beside scikit-learn's, as ``glm.text`` of two."""

from __future__ import annotations

from benchmarks._lib.tables import arguments
from benchmarks.glm._text_judge import judged
from benchmarks.glm._text_sets import all_sets

#: Of a quick run.
QUICK = "tumours of 5 tissues"


def main(quick: bool = False) -> int:
    """Demands that are not met."""
    sets = [data for data in all_sets() if data.several and (not quick or data.name == QUICK)]
    return judged("text_classes", "Many classes", sets, quick)


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
