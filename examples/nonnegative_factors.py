"""Parts instead of contrasts. `python -m examples.nonnegative_factors`.

Stocks of a made-up market move with all others and with their sector, both in one direction. The rotation of factor
analysis is open, and its factors come out as contrasts that mix these; with loadings that are not negative each factor
is one of them. Prints how near each comes to the truth, and intervals of the largest loadings; draws the loadings into
`demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FactorAnalysis

from sksvi import GammaFactorModel

#: Days, stocks of a sector, and the spread of a stock's own moves, per cent.
DAYS, EACH, OWN = 1000, 8, 1.0
SECTORS = ("banks", "energy", "health", "software")
SOURCES = ("market", *SECTORS)


def market(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Daily returns of each stock, per cent, and how much it moves with each source."""
    stocks = [f"{sector} {k}" for sector in SECTORS for k in range(1, EACH + 1)]
    loadings = pd.DataFrame(0.0, index=list(SOURCES), columns=stocks)
    for number in range(len(SECTORS)):
        own = slice(number * EACH, (number + 1) * EACH)
        loadings.iloc[1 + number, own] = rng.uniform(0.6, 1.8, EACH)
    loadings.loc["market"] = rng.uniform(0.3, 1.2, len(stocks))
    returns = rng.standard_normal((DAYS, len(SOURCES))) @ loadings.to_numpy()
    returns += OWN * rng.uniform(0.5, 1.5, len(stocks)) * rng.standard_normal(returns.shape)
    return pd.DataFrame(returns, columns=stocks), loadings


def matched(found: np.ndarray, truth: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Factors in the order of the sources, each turned to agree with its own, and their cosines."""
    norms = np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(truth, axis=1)
    cosine = (found @ truth.to_numpy().T) / np.maximum(norms, np.finfo(float).tiny)
    order = linear_sum_assignment(-np.abs(cosine).T)[1]
    own = cosine[order, np.arange(len(truth))]
    return found[order] * np.sign(own)[:, None], np.abs(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="demo-output", help="folder for the figure")
    options = parser.parse_args()
    returns, truth = market(np.random.default_rng(0))
    train, test = returns[: DAYS // 2], returns[DAYS // 2 :]
    model = GammaFactorModel(len(SOURCES), noise_variance="per-feature", random_state=0).fit(train)
    peer = FactorAnalysis(len(SOURCES)).fit(train.to_numpy())
    rotated = FactorAnalysis(len(SOURCES), rotation="varimax").fit(train.to_numpy())
    found = {
        "non-negative": matched(model.components_, truth),
        "factor analysis": matched(peer.components_, truth),
        "rotated by varimax": matched(rotated.components_, truth),
    }
    print("cosine of each factor with the source it is most like")
    print(pd.DataFrame({name: cosine for name, (_, cosine) in found.items()}, index=SOURCES).round(3))
    print(f"log density of a new day: {model.score(test):.3f} non-negative, {peer.score(test.to_numpy()):.3f} signed")
    print(model.summary().sort_values("mean", ascending=False).head(6).round(2))
    draw(truth, {name: factors for name, (factors, _) in found.items()}, Path(options.output))


def draw(truth: pd.DataFrame, found: dict[str, np.ndarray], folder: Path) -> None:
    """Loadings as maps: stocks by sources."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    shown = {"truth": truth.to_numpy(), **found}
    largest = max(float(np.abs(part).max()) for part in shown.values())
    figure, axes = plt.subplots(len(shown), 1, figsize=(9, 7), sharex=True, layout="constrained")
    for axis, (name, part) in zip(axes, shown.items(), strict=True):
        image = axis.imshow(part, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="none")
        axis.set_yticks(range(len(SOURCES)), SOURCES)
        axis.set_title(name, loc="left", fontsize=10)
        for edge in range(EACH, EACH * len(SECTORS), EACH):
            axis.axvline(edge - 0.5, color="0.5", linewidth=0.7)
    axes[-1].set_xticks([(k + 0.5) * EACH - 0.5 for k in range(len(SECTORS))], [f"{name} stocks" for name in SECTORS])
    figure.colorbar(image, ax=axes, label="loading, per cent a day", shrink=0.6)
    figure.savefig(folder / "nonnegative_factors.png", dpi=110)
    plt.close(figure)
    print(f"wrote {folder / 'nonnegative_factors.png'}")


if __name__ == "__main__":
    main()
