"""Kinds of dtypes by name: ``dtype.kind in NUMBERS``, of NumPy's and of those that pandas adds."""

from __future__ import annotations

#: Whole numbers; numbers; numbers and truth values.
WHOLE, REAL, NUMBERS = "iu", "iuf", "biuf"
#: What arrays in a file are of: no objects, no records.
FILED = NUMBERS + "cUSMm"
