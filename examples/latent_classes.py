"""Latent classes of a survey. `python -m examples.latent_classes`.

Five kinds of households answer eight questions of two to four answers; a tenth of the answers is missing. Finds the
classes without being told how many there are, prints their sizes and what each answers most, and draws the answers of
every class into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sksvi import CategoricalMixture

#: Questions and their answers.
QUESTIONS = {
    "car": ["none", "one", "two or more"],
    "dwelling": ["flat", "house"],
    "tenure": ["rents", "owns"],
    "children": ["none", "one", "two or more"],
    "commute": ["walks", "cycles", "bus", "car"],
    "pet": ["none", "cat", "dog"],
    "garden": ["no", "yes"],
    "holiday": ["home", "train", "flight"],
}
#: Kinds of households and their shares, and how clearly each prefers its own answers (small: clearly).
KINDS, SHARES, CLEARNESS = 5, (0.35, 0.25, 0.2, 0.15, 0.05), 0.3
HOUSEHOLDS, MISSING = 3000, 0.1
#: Classes smaller than this are not shown.
LEAST_SHARE = 0.01


def survey(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Answers with gaps, and each household's kind."""
    kind = rng.choice(KINDS, HOUSEHOLDS, p=SHARES)
    table = {}
    for question, answers in QUESTIONS.items():
        likely = rng.dirichlet(np.full(len(answers), CLEARNESS), KINDS)
        chosen = (rng.random((HOUSEHOLDS, 1)) > np.cumsum(likely, 1)[kind][:, :-1]).sum(1)
        table[question] = pd.Categorical.from_codes(np.where(rng.random(HOUSEHOLDS) < MISSING, -1, chosen), answers)
    return pd.DataFrame(table), kind


def shares(model: CategoricalMixture) -> pd.DataFrame:
    """Probability of each answer (rows) in the classes that a hundredth of the households are in (columns)."""
    return model.means_.iloc[: int(np.sum(model.weights_ > LEAST_SHARE))].T


def drawn(table: pd.DataFrame, weights: np.ndarray) -> Any:
    """A heat map: questions and answers by class."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(1.6 + 0.75 * table.shape[1], 0.27 * len(table) + 1.2), layout="constrained")
    image = ax.imshow(table.to_numpy(), aspect="auto", cmap="Blues", vmin=0.0, vmax=1.0)
    ax.set_yticks(range(len(table)), [f"{question}: {answer}" for question, answer in table.index])
    ax.set_xticks(range(table.shape[1]), [f"class {k}\n{w:.0%}" for k, w in enumerate(weights)])
    for edge in np.cumsum(table.groupby(level=0, sort=False).size().to_numpy())[:-1]:
        ax.axhline(edge - 0.5, color="0.6", lw=0.8)
    figure.colorbar(image, label="probability of the answer")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="demo-output", help="folder for the figure")
    options = parser.parse_args()
    X, kind = survey(np.random.default_rng(0))
    model = CategoricalMixture(random_state=0).fit(X)
    found = model.predict(X)
    table = shares(model)
    print(f"{table.shape[1]} classes of a hundredth or more; {KINDS} kinds of households answered")
    for k in range(table.shape[1]):
        own = kind[found == k]
        share = np.bincount(own, minlength=KINDS).max() / max(len(own), 1)
        most = table[table.columns[k]].groupby(level=0, sort=False).idxmax()
        answers = ", ".join(f"{question} {answer}" for question, answer in most)
        print(f"class {k}: {model.weights_[k]:.1%} of households, {share:.0%} of one kind; {answers}")

    figure = drawn(table, model.weights_[: table.shape[1]])
    Path(options.output).mkdir(parents=True, exist_ok=True)
    path = Path(options.output) / "latent_classes.png"
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
