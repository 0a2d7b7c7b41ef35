"""Copies of records: dataclasses whose making runs no code of their own."""

from __future__ import annotations

from dataclasses import fields
from functools import cache, cached_property
from typing import Any, TypeVar

Record = TypeVar("Record")


def replace(record: Record, **changes: Any) -> Record:
    """`dataclasses.replace` of a record, in half of the time: a pass over few rows makes a dozen.

    Parameters
    ----------
    record : dataclass
        Without ``__post_init__`` and slots.
    **changes
        Fields and their new values.

    Raises
    ------
    TypeError
        For a name that is no field.

    Examples
    --------
    >>> from sksvi.inference.records import replace
    >>> from sksvi.inference.state import State
    >>> replace(State({}, seed=3), passes=2).passes
    2
    """
    kind: Any = type(record)
    field_names, cached_names = _parts(kind)
    if not changes.keys() <= field_names:
        raise TypeError(f"{kind.__name__} has no fields {sorted(changes.keys() - field_names)}")
    values = {**record.__dict__, **changes}
    for name in cached_names:
        values.pop(name, None)
    new = object.__new__(kind)
    object.__setattr__(new, "__dict__", values)
    return new


@cache
def _parts(kind: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """Names of its fields, and of what is found from them once and lies beside them."""
    found = tuple(name for name in dir(kind) if isinstance(getattr(kind, name, None), cached_property))
    return frozenset(field.name for field in fields(kind)), found
