"""Several series as one latent in time: chains that have nothing in common but their parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import Chain, Swept
from sksvi.models.time_series.components import Dynamics

Array = np.ndarray


class SweptAll(NamedTuple):
    """Results of one sweep of each chain: moments one after the other, sums over chains, and each chain's own."""

    mean: Array
    variance: Array
    log_det: float
    kl: float
    log_z: float
    parts: list[Swept]


class Chains:
    """Chains one after the other, each with its own points.

    Parameters
    ----------
    parts : list of Chain
    """

    def __init__(self, parts: list[Chain]) -> None:
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def rows(self) -> list[slice]:
        """Slice of the points of each chain."""
        return [slice(int(end) - len(part), int(end)) for end, part in zip(self.ends, self.parts, strict=True)]

    def sweep(self, linear: Array, weights: Array) -> SweptAll:
        """Filter and smoother of each chain."""
        swept = []
        for rows, part in zip(self.rows(), self.parts, strict=True):
            try:
                swept.append(part.sweep(linear[rows], weights[rows]))
            except NotPositiveDefinite as error:
                at = rows.start + (error.coordinate or 0)
                raise NotPositiveDefinite(f"the messages leave no positive precision at point {at}", at) from error
        mean, variance = (np.concatenate([getattr(one, name) for one in swept]) for name in ("mean", "variance"))
        log_det, kl, log_z = (float(sum(getattr(one, name) for one in swept)) for name in ("log_det", "kl", "log_z"))
        return SweptAll(mean, variance, log_det, kl, log_z, swept)


class JointPanel:
    """The states of several series that share their parameters.

    Parameters
    ----------
    parts : list of Dynamics
        With the same parameters; each has units and first states of its own.
    lengths : list of int
        Points of each.
    """

    def __init__(self, parts: list[Dynamics], lengths: list[int]) -> None:
        self.parts = parts
        ends = np.cumsum(lengths)
        self.rows = [slice(int(end) - n, int(end)) for end, n in zip(ends, lengths, strict=True)]

    @property
    def start(self) -> Array:
        """Parameters that a search begins with: the mean of where each series would begin."""
        return np.mean([part.start for part in self.parts], axis=0)

    @property
    def others(self) -> list[dict[int, float]]:
        """Alternative starts of a search: the means of those of each part."""
        alternatives = zip(*(part.others for part in self.parts), strict=True)
        return [{place: float(np.mean([one[place] for one in each])) for place in each[0]} for each in alternatives]

    @property
    def periods(self) -> list[int]:
        """Places of learned periods."""
        return self.parts[0].periods

    @property
    def box(self) -> list[tuple[float | None, float | None]]:
        """Lower and upper bound of each parameter: the widest of all parts."""
        # dynamics bound each of their parameters
        low = np.min([[low for low, _ in part.box] for part in self.parts], axis=0)  # type: ignore[arg-type]
        high = np.max([[high for _, high in part.box] for part in self.parts], axis=0)  # type: ignore[arg-type]
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def chain(self, theta: Array, X: Array) -> Chains:
        """The prior at these parameters of all rows."""
        return Chains([part.chain(theta, X[rows]) for part, rows in zip(self.parts, self.rows, strict=True)])

    def slope(self, theta: Array, chain: Chains, swept: SweptAll) -> Array:
        """Slope of the log evidence of the messages in the parameters."""
        each = zip(self.parts, chain.parts, swept.parts, strict=True)
        return np.sum([part.slope(theta, own, part_swept) for part, own, part_swept in each], axis=0)
