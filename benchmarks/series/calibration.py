"""Do forecasts of simulated series hold what they promise, and are variances what they were?"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

LENGTH, STEPS = 200, 12


class Truth(NamedTuple):
    """What series are drawn from: a level that starts at `start` and moves by `variance` a step."""

    likelihood: str
    start: float
    variance: float
    dispersion: float | None = None


SETS = {
    "Poisson, mean 7": Truth("poisson", 2.0, 0.02),
    "Poisson, mean 1": Truth("poisson", 0.0, 0.02),
    "negative binomial, mean 7, dispersion 0.2": Truth("negative-binomial", 2.0, 0.02, 0.2),
    "Bernoulli": Truth("logit", 0.0, 0.1),
}
TITLE = f"Forecasts of simulated series of {LENGTH} points, {STEPS} steps ahead"
NOTES = [
    "A level that walks at random from a known value; variance and dispersion learned from each series, "
    "at their best values (`truth.defaults` averages over them). Shares of "
    f"series whose observation {STEPS} steps ahead, and whose latent there, lie in central intervals: counts by "
    "randomised ranks u = P(Y < y) + v P(Y = y), v uniform (an interval of whole counts holds more than it promises, "
    "`interval`), of 0 and 1 as well. p: Kolmogorov-Smirnov test that the ranks are uniform. The last columns: "
    "learned over true variance (and dispersion), the median of the series and the share of those below 1 %.",
    "Standard errors: 0.013 (90 %) and 0.022 (50 %) at 500 series.",
]


def drawn(truth: Truth, seed: int) -> tuple[Array, Array]:
    """Observations and latents, those ahead included."""
    rng = np.random.default_rng([seed, 17])
    n = LENGTH + STEPS
    f = truth.start + np.cumsum(np.sqrt(truth.variance) * rng.standard_normal(n))
    if truth.likelihood == "logit":
        return (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(float), f
    rate = np.exp(f)
    if truth.dispersion is not None:
        rate *= rng.gamma(1.0 / truth.dispersion, truth.dispersion, n)
    return rng.poisson(rate).astype(float), f


def forecast(truth: Truth, seed: int) -> dict[str, float]:
    """Ranks of what came, whether the interval of counts held it, and what was learned."""
    from scipy.stats import norm

    from sksvi import DynamicGLM
    from sksvi.predictive import Predictive

    y, f = drawn(truth, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DynamicGLM(likelihood=truth.likelihood, level="walk", hyperparameters="point").fit(None, y[:LENGTH])
    latent, last = model.forecast_latent(STEPS).iloc[-1], y[-1:]
    here = Predictive(model.likelihood_, latent[["mean"]].to_numpy(), latent[["std"]].to_numpy() ** 2)
    below = here.cdf(last - 1.0)[0] if last[0] > 0 else 0.0
    v = np.random.default_rng([seed, 18]).random()
    low, high = here.interval(0.9)[0]
    return {
        "rank": float(below + v * (here.cdf(last)[0] - below)),
        "latent rank": float(norm.cdf((f[-1] - latent["mean"]) / latent["std"])),
        "interval": float(low <= last[0] <= high),
        "variance": model.level_variance_ / truth.variance,
        "dispersion": np.nan if truth.dispersion is None else model.noise_ / truth.dispersion,
    }


def central(ranks: Array, coverage: float) -> float:
    """Share of ranks inside."""
    return float(np.mean(np.abs(ranks - 0.5) <= 0.5 * coverage))


def main(quick: bool = False) -> None:
    from scipy.stats import kstest

    rows: list[dict[str, Any]] = []
    for name, truth in SETS.items():
        found = [forecast(truth, seed) for seed in range(60 if quick else 500)]
        column = {key: np.array([one[key] for one in found]) for key in found[0]}
        rows.append(
            {
                "series": name,
                "90 %": central(column["rank"], 0.9),
                "50 %": central(column["rank"], 0.5),
                "interval": float(column["interval"].mean()),
                "latent 90 %": central(column["latent rank"], 0.9),
                "latent 50 %": central(column["latent rank"], 0.5),
                "p": float(kstest(column["rank"], "uniform").pvalue),
                "latent p": float(kstest(column["latent rank"], "uniform").pvalue),
                "variance": float(np.median(column["variance"])),
                "below 1 %": float(np.mean(column["variance"] < 0.01)),
                "dispersion": None if truth.dispersion is None else float(np.median(column["dispersion"])),
            }
        )
        progress(rows[-1])
    report("series/calibration", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
