"""Ratings with a posterior: who will like what, and how sure that is. `python -m examples.ratings [--path FILE]`.

FILE is a CSV with the columns user, item, rating (MovieLens' `ratings.csv` after renaming). Without one, ordered
ratings of 300 users and 120 films are simulated from a factorization. Prints test scores beside what the mean rating
of each film gives, the coverage of the intervals by how many ratings a user has, and recommendations; draws
`demo-output/ratings.png`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sksvi import GeneralizedPMF
from sksvi.datasets import make_pmf
from sksvi.likelihoods import Ordinal


def simulated() -> pd.DataFrame:
    """Users rate unequally often: each keeps a share of its entries."""
    cuts = np.array([-2.0, -0.7, 0.7, 2.0])
    likelihood = Ordinal(cut_points=cuts)
    matrix = make_pmf(300, 120, 4, likelihood=likelihood, observed=0.5, item_variance=0.8, random_state=0)
    table = pd.DataFrame(matrix.data, columns=["user", "item"]).assign(rating=matrix.target + 1)
    rng = np.random.default_rng(0)
    keep = rng.random(len(table)) < rng.uniform(0.05, 1.0, 300)[table["user"]]
    table = table[keep].reset_index(drop=True)
    table["user"], table["item"] = "user " + table["user"].astype(str), "film " + table["item"].astype(str)
    return table


def split(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths to fit, the rest to test."""
    order = np.random.default_rng(1).permutation(len(table))
    n = len(table) * 4 // 5
    return table.iloc[order[:n]], table.iloc[order[n:]]


def scores(model: Any, train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Test error and log density, beside those of the films' own shares of each rating."""
    pairs, y = test[["user", "item"]], test["rating"].to_numpy()
    levels = model.levels_
    counts = train.groupby("item")["rating"].value_counts().unstack(fill_value=0).reindex(columns=levels, fill_value=0)
    shares = (
        counts.reindex(test["item"]).fillna(0).to_numpy()
        + train["rating"].value_counts(normalize=True)[levels].to_numpy() * 5
    )
    shares /= shares.sum(1, keepdims=True)
    rows = {}
    for name, p in {"film's shares": shares, "GeneralizedPMF": model.predict_proba(pairs)}.items():
        mass = p[np.arange(len(y)), np.searchsorted(levels, y)]
        rows[name] = {"rmse": np.sqrt(np.mean((p @ levels - y) ** 2)), "log mass": np.log(mass).mean()}
    return pd.DataFrame(rows).T


def by_activity(model: Any, train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Standard deviation of the latent and share of test ratings inside 90 % intervals, by ratings per user."""
    pairs = test[["user", "item"]]
    interval = model.predict_interval(pairs, coverage=0.9)
    inside = (test["rating"].to_numpy() >= interval[:, 0]) & (test["rating"].to_numpy() <= interval[:, 1])
    std = np.sqrt(model.predict_latent(pairs)[1])
    seen = test["user"].map(train["user"].value_counts()).fillna(0)
    group = pd.cut(seen, [-1, 5, 10, 20, 50, np.inf], labels=["0-5", "6-10", "11-20", "21-50", "more"])
    table = pd.DataFrame({"ratings of the user": group.array, "sd of f": std, "inside 90 %": inside})
    return (
        table.groupby("ratings of the user", observed=True)
        .agg(["mean", "size"])
        .loc[:, [("sd of f", "mean"), ("inside 90 %", "mean"), ("inside 90 %", "size")]]
    )


def draw(activity: pd.DataFrame, recommended: pd.DataFrame, path: Path) -> None:
    """What the model is unsure of, and five recommendations of one user."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.bar(activity.index.astype(str), activity[("sd of f", "mean")], color="tab:blue")
    left.set(xlabel="ratings of the user", ylabel="posterior sd of f", title="Few ratings, a wide posterior")
    shown = recommended[::-1]
    right.errorbar(shown["mean"], np.arange(len(shown)), xerr=shown["std"], fmt="o", color="tab:orange")
    right.set_yticks(np.arange(len(shown)), shown["item"])
    right.set(xlabel="predicted rating, mean ± sd", title=f"For {shown['user'].iloc[0]}")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, help="CSV with the columns user, item, rating")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--components", type=int, default=10)
    options = parser.parse_args(argv)
    table = simulated() if options.path is None else pd.read_csv(options.path)
    train, test = split(table)
    model = GeneralizedPMF(options.components, likelihood="ordinal", random_state=0)
    model.fit(train[["user", "item"]], train["rating"])
    print(f"{len(train)} ratings of {len(model.users_)} users and {len(model.items_)} items; {model.n_iter_} passes\n")
    print(scores(model, train, test).round(3), "\n")
    activity = by_activity(model, train, test)
    print(activity.round(3), "\n")
    recommended = model.recommend([train["user"].iloc[0]], n=5)
    print(recommended.round(2))
    options.output.mkdir(parents=True, exist_ok=True)
    draw(activity, recommended, options.output / "ratings.png")


if __name__ == "__main__":
    main()
