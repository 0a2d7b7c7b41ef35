"""Ways into a fit: what is fixed by the data at hand, and what an earlier call has fixed."""

from __future__ import annotations

from typing import NamedTuple

#: What begins among rows is begun anew where there are so many times as many: components that started among few are
#: alike, or those of few rows, and more rows do not part them or make new ones.
ANEW = 2.0


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
#: A partition that is asked what it has, before all of them fix anything.
GLANCE = Stage(True, True, share=True)
