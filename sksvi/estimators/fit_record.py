"""What an estimator remembers of its last fit besides the posterior and the encoding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FitRecord:
    """How the last fit, or a stream, came about; a fit replaces it as a whole.

    choices : values of parameters that a continued fit may not change (`sksvi.estimators.refit`).
    began_among : weight of the rows that the last start was made among; 0: not known.
    one_sided : whether every target lay at one end of what it may be: it says nothing of columns, nor of their scales.
    had_offset, had_exposure : whether rows had an offset, and whether it was given as an exposure.
    streams : whether the call under way, or the last one, is one of a stream.
    score : `score` of rows of the last fit, and how many these were.
    """

    LAYOUT = "choices dict; began_among number >=0; one_sided flag; had_offset flag; had_exposure flag"

    choices: dict[str, Any] = field(default_factory=dict)
    began_among: float = 0.0
    one_sided: bool = False
    had_offset: bool = False
    had_exposure: bool = False
    streams: bool = False
    score: tuple[float, int] | None = None


#: The record of an estimator before any fit.
NO_FIT = FitRecord()
