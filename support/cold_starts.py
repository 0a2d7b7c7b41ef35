"""Simulated counts of users and items whose factors follow their columns, some of both without counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

USERS, ITEMS, K = 300, 80, 3


class ColdStarts:
    """Counts whose factors depend on features, in any unit; the last third of the users, and 20 items, have none."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        kind, age = rng.integers(0, K, USERS), rng.normal(40.0, 12.0, USERS)
        genre = rng.integers(0, K, ITEMS)
        H = rng.gamma(1.0, 1.0, (USERS, K)) * np.exp(2.0 * np.eye(K)[kind] + 0.02 * (age - 40.0)[:, None])
        W = rng.gamma(1.0, 1.0, (ITEMS, K)) * np.exp(2.0 * np.eye(K)[genre])
        self.counts = rng.poisson(0.02 * H @ W.T)
        self.users = pd.get_dummies(pd.Series(kind, index=[f"u{i}" for i in range(USERS)]).astype(str)).astype(float)
        self.users["age"] = age
        self.items = pd.get_dummies(pd.Series(genre, index=[f"i{j}" for j in range(ITEMS)]).astype(str)).astype(float)
        self.noise = pd.DataFrame(rng.standard_normal((USERS, 4)), index=self.users.index).add_prefix("noise")
        user, item = np.nonzero(self.counts)
        pairs = pd.DataFrame({"user": self.users.index[user], "item": self.items.index[item]})
        warm, y = (user < 200) & (item < 60), self.counts[user, item]
        self.X, self.y = pairs[warm].reset_index(drop=True), y[warm]

    def pairs(self, users: Any, items: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """All pairs of some users and items, and their counts."""
        user, item = (part.ravel() for part in np.meshgrid(users, items, indexing="ij"))
        return pd.DataFrame({"user": self.users.index[user], "item": self.items.index[item]}), self.counts[user, item]
