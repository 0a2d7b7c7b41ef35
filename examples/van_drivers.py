"""Van drivers killed per month, the seat-belt law, and a fan of forecasts. `python -m examples.van_drivers`.

Great Britain 1969-1984 (Harvey and Durbin 1986); drivers and front passengers had to wear belts from February 1983.
A level that walks at random, a season of twelve months and the law under a Poisson likelihood: by how much the law
lowered the number, and with what interval. Then the same model knows the first years alone and says what the next three
will bring. Draws the series with its parts, and the fan of forecasts with what came, into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sksvi import DynamicGLM
from sksvi.displays import TimeSeriesDisplay

KILLED = """
12 6 12 8 10 13 11 6 10 16 13 14 14 6 8 11 7 13 13 11 11 14 16 14 17 16 15 13 13 15 12 6 9 13 14 15 14 3 12 13
12 8 8 15 8 5 17 14 13 5 8 5 12 11 13 15 11 11 10 13 8 6 8 14 12 14 13 9 4 13 6 15 12 16 7 12 10 9 9 6 7 13 14
13 14 11 11 10 4 8 9 10 10 5 13 12 10 9 7 5 10 5 6 8 6 12 15 7 14 4 10 8 7 11 3 5 11 10 10 7 10 11 9 7 8 13 8
5 8 7 12 10 7 4 10 4 8 8 7 10 8 14 8 9 8 6 7 6 5 4 5 10 7 10 12 7 4 5 6 4 4 8 8 3 7 12 2 7 8 3 2 6 3 7 6 8 8 4
3 5 5 3 4 3 6 6 7 5 7 7 4 7
"""
#: Months that the forecasts are for, and the last one that they know.
AHEAD, KNOWN = 36, "1979-12"


def series() -> tuple[pd.DataFrame, pd.Series]:
    """The law as a column, and the counts, by month."""
    months = pd.period_range("1969-01", "1984-12", freq="M")
    law = pd.DataFrame({"law": (months >= pd.Period("1983-02", "M")).astype(float)}, index=months)
    return law, pd.Series(np.array(KILLED.split(), float), months, name="van drivers killed")


def model() -> DynamicGLM:
    """A level that walks, and a season that stays as it is."""
    return DynamicGLM(seasonal=12, seasonal_variance=0.0)


def of_the_law(X: pd.DataFrame, y: pd.Series) -> DynamicGLM:
    """What the law did: prints it; the fit."""
    fit = model().fit(X, y)
    effect = fit.summary(0.9).loc["coefficient law"]
    fewer, least, most = 100 * (1 - np.exp(effect[["mean", "upper", "lower"]].to_numpy(float)))
    print(f"level: a step has a standard deviation of {fit.level_variance_**0.5:.4f} in the log")
    print(
        f"law: {effect['mean']:.3f} ± {effect['std']:.3f} in the log: {fewer:.0f} % fewer ({least:.0f} to {most:.0f} %)"
    )
    months = int(X["law"].sum())
    without = fit.predict_latent()[0][-months:] - effect["mean"]
    print(f"that is {np.exp(without).sum() - fit.predict()[-months:].sum():.0f} lives in {months} months")
    evidence = fit.log_evidence(500, random_state=0)
    print(f"bound {fit.lower_bound_:.2f} nats, evidence {evidence.value:.2f} ± {evidence.std_error:.2f}\n")
    return fit


def of_years_ahead(y: pd.Series) -> tuple[DynamicGLM, pd.Series]:
    """Forecasts from the first years: prints how many months they held; the fit, and what came."""
    fit = model().fit(None, y[:KNOWN])
    came = y[KNOWN:].iloc[1 : 1 + AHEAD]
    for coverage in (0.5, 0.9):
        table = fit.forecast(AHEAD, coverage=coverage)
        inside = np.mean((table["lower"] <= came) & (came <= table["upper"]))
        print(f"{100 * coverage:.0f} % intervals held {100 * inside:.0f} % of the {AHEAD} months after {KNOWN}")
    return fit, came


def draw(fit: DynamicGLM, early: DynamicGLM, came: pd.Series, folder: Path) -> None:
    """Write both figures."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    n = fit.components_.columns.get_level_values(0).nunique()
    figure, axes = plt.subplots(
        1 + n, 1, figsize=(8, 9), height_ratios=[2.2, *[1] * n], sharex=True, layout="constrained"
    )
    TimeSeriesDisplay.from_estimator(fit, ax=axes[0])
    TimeSeriesDisplay.from_estimator(fit, kind="components", ax=axes[1:])
    axes[0].set_ylabel("van drivers killed")
    axes[0].legend(framealpha=0.8, edgecolor="none", fontsize="small", loc="upper right")
    for ax in axes:
        ax.axvline(np.datetime64("1983-02-01"), color="C3", linewidth=1, linestyle="--")
    figure.savefig(folder / "van_drivers.png", dpi=110)
    plt.close(figure)

    display = TimeSeriesDisplay.from_estimator(early, steps=AHEAD, last=84)
    display.ax_.plot(came.index.to_timestamp(), came, "x", color="C3", markersize=5, label="what came")
    display.ax_.set_ylabel("van drivers killed")
    display.ax_.legend(framealpha=0.8, edgecolor="none", fontsize="small", ncols=2)
    display.figure_.savefig(folder / "forecast_fan.png", dpi=110)
    plt.close(display.figure_)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description="Van drivers, the seat-belt law, and a fan of forecasts.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder of the figures")
    folder = parser.parse_args(arguments).output
    X, y = series()
    fit = of_the_law(X, y)
    early, came = of_years_ahead(y)
    draw(fit, early, came, folder)
    print(f"\nwrote {folder / 'van_drivers.png'} and {folder / 'forecast_fan.png'}")


if __name__ == "__main__":
    main()
