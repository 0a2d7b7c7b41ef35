"""Ways into a fit: what is fixed by the data at hand, and what an earlier call has fixed."""

from __future__ import annotations

from typing import NamedTuple


class Stage(NamedTuple):
    """How data come to an estimator.

    fresh: classes, levels, likelihood and the like are fixed by these data. portion: the data are a part of a stream.
    share: the data are a part of what has fixed all that data fix, scales included; fresh: of what will fix it.
    """

    fresh: bool
    portion: bool
    share: bool = False


#: `fit`, a warm start, the first `partial_fit`, and the others; a partition of the data of a fit.
FIT, MORE, FIRST_PORTION, PORTION = Stage(True, False), Stage(False, False), Stage(True, True), Stage(False, True)
PARTITION = Stage(False, True, share=True)
