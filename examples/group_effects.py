"""Counts of 59 patients in four periods: what an effect per patient gains. `python -m examples.group_effects`.

The epilepsy trial of Thall and Vail (1990). Poisson and negative binomial GLMs without groups beside mixed-effects
models with an effect per patient, scored (1) on the last period of patients whose first three are known, and (2) on
patients of whom nothing is known. Prints a table and the standard deviation between patients; draws every patient's
effect, and the predictions for the last period, into `demo-output/group_effects.png`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from sksvi import GMERegressor
from sksvi.datasets import load_epilepsy

MODELS: dict[str, dict[str, Any]] = {
    "Poisson GLM": {"noise": False},
    "negative binomial GLM": {"likelihood": "negative-binomial", "noise": False},
    # New patients are what one of the comparisons is about.
    "(1 | subject)": {"groups": "subject", "on_unseen": "ignore", "noise": False},
    "(1 | subject) + noise per row": {"groups": "subject", "on_unseen": "ignore", "noise": True},
}
LEVELS = np.array([0.05, 0.5, 0.95])
N_FOLDS = 5


def design(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of Breslow and Clayton (1993), numbers centred, and the patient."""
    X = pd.DataFrame({"baseline": np.log(frame["baseline"] / 4), "age": np.log(frame["age"])})
    X -= X.mean()
    X["progabide"] = (frame["treatment"] == "progabide").astype(float)
    X["baseline:progabide"] = X["baseline"] * X["progabide"]
    X["subject"] = frame["subject"].astype(int)
    return X


def fitted(settings: dict[str, Any], X: pd.DataFrame, y: pd.Series) -> GMERegressor:
    """The model of one line of the table."""
    return GMERegressor(**{"likelihood": "poisson"} | settings).fit(columns(settings, X), y)


def columns(settings: dict[str, Any], X: pd.DataFrame) -> pd.DataFrame:
    """Without the patient where the model has no groups."""
    return X if "groups" in settings else X.drop(columns="subject")


def scores(settings: dict[str, Any], X: pd.DataFrame, y: pd.Series, splits: list[Any]) -> tuple[float, float]:
    """Log loss (nats per row) and coverage of 90 % intervals over all test rows."""
    loss, covered = [], []
    for train, test in splits:
        model = fitted(settings, X.iloc[train], y.iloc[train])
        rows, truth = columns(settings, X.iloc[test]), y.iloc[test].to_numpy()
        loss.append(-model.log_predictive_density(rows, truth))
        low, high = model.predict_interval(rows, coverage=0.9).T
        covered.append((low <= truth) & (truth <= high))
    return float(np.concatenate(loss).mean()), float(np.concatenate(covered).mean())


def table(X: pd.DataFrame, y: pd.Series, last: np.ndarray) -> pd.DataFrame:
    """Scores of every model in both tasks."""
    known = [(np.flatnonzero(~last), np.flatnonzero(last))]
    new = list(GroupKFold(N_FOLDS).split(X, y, X["subject"]))
    rows = {}
    for name, settings in MODELS.items():
        known_scores, new_scores = (scores(settings, X, y, splits) for splits in (known, new))
        rows[name] = [*known_scores, *new_scores]
    heads = pd.MultiIndex.from_product([["known patients", "new patients"], ["log loss", "covered"]])
    return pd.DataFrame.from_dict(rows, orient="index", columns=heads)


def draw_effects(model: GMERegressor, X: pd.DataFrame, ax: Any) -> None:
    """Every patient's effect with its 90 % interval, from the lowest to the highest."""
    effects = model.group_effects_.droplevel(["group", "effect"]).sort_values("mean")
    treated = X.groupby("subject")["progabide"].first().loc[effects.index].to_numpy() > 0
    place = np.arange(len(effects))
    for rows, label in ((~treated, "placebo"), (treated, "progabide")):
        part = effects[rows]
        bars = [part["mean"] - part["lower"], part["upper"] - part["mean"]]
        ax.errorbar(part["mean"], place[rows], xerr=bars, fmt="o", markersize=3, linewidth=1, label=label)
    ax.axvline(0.0, color="0.7", linewidth=1, zorder=0)
    ax.set(title="Effects per patient", xlabel="on the log rate: mean and 90 % interval", ylabel="patients", yticks=[])
    ax.legend(frameon=False, loc="upper left")


def draw_predictions(quantiles: dict[str, np.ndarray], y: np.ndarray, axes: Any) -> None:
    """Predictions of the last period and what came, in the order of the last model's medians."""
    order = np.argsort(list(quantiles.values())[-1][:, 1], kind="stable")
    place = np.arange(len(y))
    for ax, (name, q) in zip(axes, quantiles.items(), strict=True):
        low, middle, high = np.sqrt(q[order]).T
        ax.fill_between(place, low, high, step="mid", alpha=0.35, linewidth=0, label="90 % interval")
        ax.step(place, middle, where="mid", linewidth=1, label="median")
        ax.plot(place, np.sqrt(y[order]), "k.", markersize=4, label="seizures")
        ticks = np.array([0, 1, 4, 9, 16, 25, 49, 81])
        ax.set(title=f"Last period: {name}", xlabel="patients", xticks=[], yticks=np.sqrt(ticks), yticklabels=ticks)
    axes[0].set_ylabel("seizures in two weeks")
    axes[0].legend(frameon=False, loc="upper left")


def draw(X: pd.DataFrame, y: pd.Series, last: np.ndarray, path: Path) -> GMERegressor:
    """Write the figure; the model of all rows that its left panel shows."""
    import matplotlib.pyplot as plt

    model = fitted(MODELS["(1 | subject) + noise per row"], X, y)
    quantiles = {}
    for name in ("negative binomial GLM", "(1 | subject) + noise per row"):
        part = fitted(MODELS[name], X[~last], y[~last])
        quantiles[name] = part.predict_quantiles(columns(MODELS[name], X[last]), LEVELS)
    figure, axes = plt.subplots(1, 3, figsize=(13, 5), width_ratios=[1, 1.3, 1.3])
    axes[2].sharey(axes[1])
    draw_effects(model, X, axes[0])
    draw_predictions(quantiles, y[last].to_numpy(), axes[1:])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="An effect per patient, on real counts.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder of the figure")
    path = parser.parse_args().output / "group_effects.png"
    start = time.perf_counter()
    trial = load_epilepsy()
    X, y, last = design(trial.data), trial.target, (trial.data["period"] == 4).to_numpy()

    print(f"Seizures of 59 patients, {len(y)} rows: the last period held out, and patients in {N_FOLDS} folds\n")
    print(table(X, y, last).to_string(float_format="{:.3f}".format), end="\n\n")
    print("Log loss: nats per row, smaller is better; covered: by intervals that promise 0.9.\n")
    model = draw(X, y, last, path)
    print("(1 | subject) + noise per row, all rows:\n")
    print(model.summary().to_string(float_format="{:.3f}".format), end="\n\n")
    print(f"wrote {path}")
    print(f"{time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
