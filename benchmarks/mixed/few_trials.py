"""What noise per row does to counts and rates that vary as their likelihood lets them, and to such as vary more.

Simulated sets: one column, eight groups of standard deviation 0.5, and noise of a variance that is zero in most. Each
is fitted with nothing set, with the paper's Rayleigh(5) as prior of the noise's variance, and without noise; 400 new
rows of the same groups judge it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

SETS, N_NEW = 40, 400
FITS: dict[str, dict[str, Any]] = {"default": {}, "Rayleigh(5)": {"noise_prior_scale": 5.0}, "none": {"noise": False}}
#: Trials of a row, 0: counts about exp(1); rows; variance of the noise; slope.
CASES = [(2, 100, 0.0, 0.8), (0, 40, 0.0, 0.4), (8, 60, 1.0, 0.8)]


def drawn(seed: int, trials: int, rows: int, noise: float, slope: float) -> tuple[Any, Array]:
    """Columns and y of the rows of a fit and of new ones."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    n = rows + N_NEW
    x, group = rng.standard_normal(n), rng.integers(0, 8, n)
    f = (0.0 if trials else 1.0) + slope * x + rng.normal(0.0, 0.5, 8)[group] + np.sqrt(noise) * rng.standard_normal(n)
    X = pd.DataFrame({"x": x, "group": group.astype(str)})
    if not trials:
        return X, rng.poisson(np.exp(f))
    successes = rng.binomial(trials, 1.0 / (1.0 + np.exp(-f)))
    return X, np.column_stack([successes, trials - successes])


def judged(seed: int, options: dict[str, Any], case: tuple[int, int, float, float]) -> list[float]:
    """Slope and whether its interval holds the truth; noise with its interval; new rows."""
    from sksvi import GMERegressor

    trials, rows, _, slope = case
    X, y = drawn(seed, *case)
    model = GMERegressor(likelihood="binomial" if trials else "poisson", groups="group", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that y varies more than the likelihood lets it, without noise
        table = model.fit(X[:rows], y[:rows]).summary()
    own = table.loc["x"]
    noise = table.loc["noise variance", ["mean", "lower", "upper"]] if model.noise_scale_ else np.zeros(3)
    low, high = model.predict_interval(X[rows:], **({"trials": np.full(N_NEW, trials)} if trials else {})).T
    new = y[rows:, 0] if trials else y[rows:]
    inside, density = (low <= new) & (new <= high), model.log_predictive_density(X[rows:], y[rows:]).mean()
    return [own["mean"], own["lower"] <= slope <= own["upper"], *noise, inside.mean(), (high - low).mean(), density]


def main(quick: bool = False) -> None:
    lines = []
    for case in CASES:
        for name, options in FITS.items():
            found = np.array([judged(seed, options, case) for seed in range(3 if quick else SETS)], float)
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
            trials, rows, noise, slope = case
            lines.append(
                {
                    "data": f"{trials} trials" if trials else "counts",
                    "rows": rows,
                    "true noise": noise,
                    "true slope": slope,
                    "prior of noise": name,
                    "slope": f"{mean[0]:.3f} ± {error[0]:.3f}",
                    "slope held": f"{mean[1]:.2f}",
                    "noise variance": f"{mean[2]:.2f} ({mean[3]:.2f} to {mean[4]:.2f})" if mean[2] else "",
                    "new y held": f"{mean[5]:.3f}",
                    "width": f"{mean[6]:.2f}",
                    "log density of new y": f"{mean[7]:.3f} ± {error[7]:.3f}",
                }
            )
            progress(lines[-1])
    notes = [f"Means over {SETS} sets, ± their standard errors; intervals are of 90 %; densities in nats a row."]
    report("mixed/few_trials", "Noise per row where there is none, and where there is", lines, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
