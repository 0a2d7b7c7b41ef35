"""The generator that a user's `random_state` stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator that a user's `random_state` stands for; an error that names the parameter."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        found = f"found {random_state!r}"
        raise ValueError(f"random_state must be an integer, a RandomState or None; {found}.") from error
