"""What draws of the joint posterior say of documents and topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.estimators.posterior import DrawnBlock
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.integrals.pareto import smoothed
from sksvi.models.topics.chain import ChainDocuments, DocumentSampler, TopicDraws, drawn_proportions
from sksvi.predictive.quantiles import beta_quantiles

Array = np.ndarray

#: Documents of a chunk of a chain at least, and chunks: their sums are as large as the topics.
CHUNK, CHUNKS = 256, 32


def joint_draws(sampler: Any, problem: Problem, state: State) -> TopicDraws:
    """Draws of the joint posterior by a chain that begins at the q of a fit, its documents at hand."""
    data: Any = problem.data
    parts = parallel.slices(len(data), max(CHUNK, -(-len(data) // CHUNKS)))
    rows = [np.arange(part.start, part.stop) for part in parts]
    drawn: TopicDraws = sampler.drawn(state.q, ChainDocuments(data.X, rows, state.seed, problem.threads))
    return drawn


def moments(sampler: DocumentSampler, draws: TopicDraws, X: Any, threads: int) -> tuple[Array, Array]:
    """Means and standard deviations (n, K) of proportions."""
    out = np.zeros((2, X.shape[0], draws.topics.shape[1]))
    for part, theta in drawn_proportions(sampler, draws, X, threads):
        out[:, part] = theta.mean(0), theta.std(0)
    return out[0], out[1]


def intervals(sampler: DocumentSampler, draws: TopicDraws, X: Any, threads: int, tail: float) -> Array:
    """Quantiles (n, K, 2) of proportions."""
    out = np.zeros((X.shape[0], draws.topics.shape[1], 2))
    for part, theta in drawn_proportions(sampler, draws, X, threads):
        out[part] = np.moveaxis(DrawnBlock(theta).quantiles([tail, 1.0 - tail]), 0, -1)
    return out


def beta_intervals(mean: Array, std: Array, tail: float) -> Array:
    """Quantiles (n, K, 2) of the Beta distributions of these means and standard deviations."""
    if mean.shape[1] == 1:
        return np.ones((*mean.shape, 2))
    wide = std > 0.0  # of all others the mean has every digit
    size = mean[wide] * (1.0 - mean[wide]) / std[wide] / std[wide] - 1.0
    out = np.stack([mean, mean], -1)
    for end, p in enumerate((tail, 1.0 - tail)):
        out[wide, end] = beta_quantiles(mean[wide] * size, (1.0 - mean[wide]) * size, p)
    return out


def k_hats(log_ratios: Iterator[Array]) -> Array:
    """k-hat (n,) of the log importance ratios (S,) of each document."""
    return np.array([smoothed(row)[1] for row in log_ratios])
