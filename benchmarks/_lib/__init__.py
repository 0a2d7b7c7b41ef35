"""Shared by the benchmarks of every family."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

#: The folder ``benchmarks``.
HERE = Path(__file__).resolve().parents[1]
