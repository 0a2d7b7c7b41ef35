"""Gamma-Poisson factorization as both of its estimators fit it: of tables of counts, and of pairs of ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.decomposition._gamma_base import GammaFit
from sksvi.decomposition._gamma_posterior import GammaPosterior
from sksvi.estimators.base import BatchRule
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.validation import StrOptions
from sksvi.families import Gamma, Point
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.base import Table
from sksvi.models.nmf.poisson import GammaPoisson

Array = np.ndarray


def unit_warnings(data: Any, texts: tuple[str, str, str]) -> Iterator[str]:
    """Warning about fractions in a unit in which a number that is not 0 says less than one count would.

    texts: what holds the numbers, what they are called, and the remedy.
    """
    total, n, fractions = data.reduced(_sums)
    mean = float(total / max(n, 1))
    if mean < 1.0 and fractions:
        name, numbers, remedy = texts
        yield (
            f"{name} has fractions, and its {numbers} that are not 0 have a mean of {mean:.3g}: as counts they say "
            f"little, and the priors draw the fit towards them. {remedy}"
        )


def _largest(data: Table) -> float:
    """The largest sum of a row's counts."""
    return float(np.max(np.asarray(data.X.counts.sum(1)), initial=0.0))


def in_order(q: Gamma, shape: float) -> tuple[Array, Array]:
    """Share of all counts that each component explains beyond a prior of this shape, and the order of the shares."""
    explained = np.maximum((q.shape - shape).sum(1), 0.0)
    total = explained.sum()
    shares = explained / total if total > 0 else np.zeros_like(explained)
    return shares, np.argsort(-shares, kind="stable")


def _sums(data: Table) -> tuple[float, int, int]:
    """Sum and number of the cells that are not 0, and how many of them are no counts."""
    counts = data.X.counts.data
    return counts.sum(), len(counts), int(np.sum(counts != np.floor(counts)))


class PoissonFit(GammaPosterior, GammaFit):
    """Components and activations under Gamma priors with learned rates."""

    n_components_: int
    activation_rate_: float
    component_rate_: float
    component_shape: Any
    activation_shape: Any
    _dtype: str

    _batch_rule = BatchRule(whole=20_000, smallest=100, largest=100)
    _parameter_constraints: dict[str, list[Any]] = {
        **GammaFit._parameter_constraints,
        "init": ["array-like", StrOptions({"groups", "rows", "random"})],
    }
    #: What holds the counts, what they are there, and what to do where they are fractions.
    _fractions = (
        "X",
        "cells",
        "Multiply X by what makes counts of it (255 for pixels in [0, 1]), or take the counts that it was made from "
        "(of words, in the place of tf-idf).",
    )

    def _fix_mean(self, mean: float) -> None:
        self._first_mean = mean / int(self.n_components)

    def _model(self, n_features: int) -> GammaPoisson:
        return self._made(GammaPoisson, n_features)

    def _made(self, kind: type[GammaPoisson], n_features: int) -> GammaPoisson:
        return kind(
            int(self.n_components),
            n_features,
            component_shape=float(self.component_shape),
            activation_shape=float(self.activation_shape),
            mean=self._first_mean,
        )

    def _problem(self, model: Any, data: Any) -> Problem:
        problem = super()._problem(model, data)
        if problem.full_batch:
            return problem
        return replace(problem, model=model.of_batches(data.reduced(_largest, max)))

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        yield from super()._fit_warnings(problem, state)
        yield from self._unit_warnings(problem.data)

    def _unit_warnings(self, data: Any) -> Iterator[str]:
        return unit_warnings(data, self._fractions)

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: State) -> None:
        q = state.q["components"]
        shares, order = in_order(q, float(self.component_shape))
        self.posterior_ = Posterior({"components": q[order]})
        self.components_ = self.posterior_["components"].mean.astype(self._dtype)
        self.component_shares_, self.n_components_ = shares[order], len(order)
        self.activation_rate_, self.component_rate_ = (
            float(np.exp(state.q[name].value[0])) for name in ("activation_rate", "component_rate")
        )

    @property
    def _seen_by_rows(self) -> dict[str, Any]:
        return {**self.posterior_, "activation_rate": Point(np.log([self.activation_rate_]))}

    @property
    def _summarised(self) -> Gamma:
        """The sum of each component's cells, by its first two moments."""
        q = self.posterior_["components"]
        mean, variance = q.mean.sum(1), q.variance.sum(1)
        return Gamma(np.square(mean) / variance, mean / variance)
