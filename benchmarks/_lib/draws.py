"""Moments of the draws of long runs, as the reference runs store them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array


def moments(draws: Array) -> dict[str, Array]:
    """Mean, sd and their Monte Carlo standard errors by effective sample size; draws (chains, draws, coefficients)."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    squares = (draws - mean) ** 2
    ess, ess_squares = effective_sample_size(draws), effective_sample_size(squares)
    return {
        "mean": mean,
        "sd": sd,
        "mean_error": sd / np.sqrt(ess),
        "sd_error": squares.std(axis=(0, 1)) / np.sqrt(ess_squares) / (2 * sd),
        "ess": ess,
        "r_hat": split_gelman_rubin(draws),
    }


QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)


def summary(draws: Array) -> dict[str, Array]:
    """Moments with their Monte Carlo errors, and quantiles, of draws (chains, draws, coordinates)."""
    return {**moments(draws), "quantiles": np.quantile(draws, QUANTILES, axis=(0, 1)).T}


def rounded(value: Any) -> Any:
    """For the file: lists and plain numbers, seven digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | np.ndarray):
        return [rounded(item) for item in np.asarray(value).tolist()]
    return float(f"{value:.7g}") if isinstance(value, float | np.floating) else value
