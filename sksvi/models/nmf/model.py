"""Gamma process NMF (doc/nmf.md): y_nf ~ Poisson(Σ_k θ_k W_fk H_nk), components and their weights global, H local.

W_fk ~ Gamma(a, a), H_nk ~ Gamma(b, b), θ_k ~ Gamma(α/K, αc). Blocks ``components`` (K, F) and ``weights`` (K,). A row
is left as N_n (K,), its expected counts from each component: q(H_nk) = Gamma(b + N_nk, b + θ_k Σ_f W_fk), the sum over
seen cells. Globals that are expectations make coordinate ascent on the bound; where they are draws, H is drawn too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi.families import Gamma
from sksvi.models.base import Blocks, Gradient
from sksvi.models.data import Table
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.nmf.rows import VISIT, CountChunk, CountRows, FactorView, RowTerms
from sksvi.models.traits import StepTraits
from sksvi.schedules import RobbinsMonro

Array = np.ndarray

#: Rates of noisy steps when none is given: on batches of rows, and on all of them.
STEP_RATE, WHOLE_RATE = RobbinsMonro(delay=2.0, kappa=0.5), RobbinsMonro(scale=40.0, delay=0.0, kappa=0.75)
#: Components that a start among rows begins with, for one that is wanted (three: of 50 bases at a mean count of 2,
#: 0.8 ± 0.7 more are found after draws in nine fits, 1.3 fewer without draws in three).
SURPLUS = 2.0


class GammaProcess(CountRows):
    """Model of counts by components whose weights are a truncated gamma process.

    Parameters
    ----------
    n_components, n_features : int
    component_shape, activation_shape, concentration : float
        a, b and α.
    mean : float
        1/c, the mean of a cell a priori.
    start : ndarray of shape (K, F), optional
        First means of the components.
    """

    traits = replace(CountRows.traits, steps=StepTraits(STEP_RATE, WHOLE_RATE))
    #: Rows that the first components' shapes are worth.
    certainty = 100.0

    def __init__(
        self,
        n_components: int,
        n_features: int,
        *,
        component_shape: float = 0.25,
        activation_shape: float = 0.2,
        concentration: float = 1.0,
        mean: float = 1.0,
        start: Array | None = None,
    ) -> None:
        self.shape, self.mean, self.start = (n_components, n_features), mean, start
        self.component_shape, self.activation_shape = component_shape, activation_shape
        self.concentration, self.visit, self.surplus = concentration, VISIT, SURPLUS

    def prior_rate(self, view: FactorView) -> float:
        """b: activations have mean 1."""
        return self.activation_shape

    def row_rates(self, q: Blocks, cells: CountMatrix) -> float:
        """b: activations have mean 1."""
        return self.activation_shape

    def drawn_scales(self, point: Any, counted: Array, covered: Array, rates: Any, rng: np.random.Generator) -> Any:
        """The point with weights drawn given all else."""
        prior = self._prior["weights"]
        return replace(point, weights=rng.standard_gamma(prior.shape + counted) / (prior.rate + covered))

    # ---- blocks
    def begin(self, data: Table, rng: Any, threads: int = 1) -> Blocks:
        """Components at their start, equal weights."""
        (K, F), a, s = self.shape, self.component_shape, self.certainty
        assert self.start is not None  # only predictions have none
        return {
            "components": Gamma(a + s * self.start, np.full((K, F), a + s)),
            "weights": Gamma(np.full(K, s), np.full(K, s * K / self.mean)),
        }

    def prior(self, q: Blocks) -> Blocks:
        """Gamma of each number; it depends on none."""
        return self._prior

    @cached_property
    def _prior(self) -> Blocks:
        (K, F), a, alpha = self.shape, self.component_shape, self.concentration
        return {
            "components": Gamma(np.full((K, F), a), np.full((K, F), a)),
            "weights": Gamma(np.full(K, alpha / K), np.full(K, alpha / self.mean)),
        }

    def in_turn(self, name: str, gradient: Gradient, before: Blocks, q: Blocks) -> Gradient:
        """Weights step at the components that have just moved: one after the other no step lowers the bound."""
        if name != "weights":
            return gradient
        slope = gradient["components"][0][..., 1]
        largest = np.abs(slope).max(1, keepdims=True)  # 0 where a weight was drawn as 0: cells then count alike
        slope = np.where(largest > 0, slope / np.where(largest > 0, largest, 1.0), 1.0)
        then, now = ((blocks["components"].mean * slope).sum(1) for blocks in (before, q))
        (own,) = gradient["weights"]
        return {**gradient, "weights": (np.stack([own[:, 0], own[:, 1] * now / then], -1),)}

    def explained(self, q: Blocks) -> Array:
        """Profiles, as often as their weights counted."""
        profiles = q["components"].mean
        return np.asarray(profiles * (q["weights"].shape / profiles.sum(1))[:, None])

    def view(self, q: Blocks, rng: np.random.Generator | None) -> FactorView:
        """Globals as rows see them: expectations, or a draw."""
        W, weights = q["components"], q["weights"]
        if rng is None:
            logs = W.mean_log + weights.mean_log[:, None]
            return FactorView(W.mean.T, weights.mean, logs.T)
        own, theta = W.drawn(rng), weights.drawn(rng)
        logs = own.source - np.log(W.rate) + (theta.source - np.log(weights.rate))[:, None]
        return FactorView(own.value.T, theta.value, logs.T, True, {"components": own, "weights": theta})

    def pull_back(self, terms: RowTerms, batch: CountChunk) -> Gradient:
        """Gradients in E log and E of components (K, F, 2) and weights (K, 2)."""
        view, exposure = terms.view, terms.exposure
        covered = view.sums * exposure if exposure.ndim == 1 else (view.components * exposure).sum(0)
        weights = np.stack([terms.counts.sum(0), -covered], -1)
        return {"components": (terms.counts, -view.weights * exposure), "weights": (weights,)}

    def completed(self, gradient: Gradient, q: Blocks) -> Gradient:
        """Sums of counts and exposures side by side: once, as they are as large as the components."""
        counts, exposed = gradient["components"]
        components = np.empty((*self.shape, 2))
        components[..., 0], components[..., 1] = counts.T, np.broadcast_to(exposed, counts.shape).T
        return {**gradient, "components": (components,)}
