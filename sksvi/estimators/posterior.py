"""The posterior as users see it: blocks by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Posterior(Mapping[str, Any]):
    """Read-only blocks of q by name, as items and as attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.estimators.posterior import Posterior
    >>> from sksvi.families import DiagonalGaussian
    >>> posterior = Posterior({"weights": DiagonalGaussian(np.zeros(2), np.ones(2))})
    >>> list(posterior), posterior.weights.std
    (['weights'], array([1., 1.]))
    """

    LAYOUT = "_blocks dict"

    def __init__(self, blocks: dict[str, Any]) -> None:
        self._blocks = dict(blocks)

    def __getitem__(self, name: str) -> Any:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._blocks[name]
        except KeyError:
            raise AttributeError(f"the posterior has blocks {list(self._blocks)}, not {name!r}") from None

    def __repr__(self) -> str:
        return f"Posterior({', '.join(self._blocks)})"
