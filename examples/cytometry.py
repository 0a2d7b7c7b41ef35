"""Sparse factors of cells by marker, with lost entries. `python -m examples.cytometry [cells.npz]`.

A file holds ``X``, counts of cells by markers, and if it likes ``marker`` (names) and ``label`` (population of each
cell); without one, cells of six populations are simulated. Prints how well lost entries are filled in, the markers of
the most used factors, and how much a cell's strongest factor says of its population; draws the factors into
`demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import normalized_mutual_info_score

from sksvi import BetaProcessFA

#: Cells taken from a file or simulated, share of the entries that are lost, scale of the arcsinh, passes and tolerance.
N_CELLS, LOST, COFACTOR, PASSES, TOL = 5000, 0.05, 5.0, 60, 3e-2
#: Factors that are printed and drawn, and markers named for each.
SHOWN, NAMED = 8, 4


def simulated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, marker names and populations: each population expresses some of 15 markers."""
    markers = np.array([f"CD{number}" for number in (3, 4, 8, 11, 14, 16, 19, 20, 25, 27, 28, 38, 45, 56, 123)])
    programmes = rng.random((6, len(markers))) < 0.3
    label = rng.integers(len(programmes), size=n)
    level = np.exp(rng.normal(np.where(programmes, 3.5, 0.3)[label], 0.5))
    return rng.poisson(level).astype(float), markers, label


def loaded(path: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Some of the cells of a file."""
    with np.load(path) as file:
        X = file["X"].astype(float)
        marker = file["marker"] if "marker" in file else np.array([f"marker {d}" for d in range(X.shape[1])])
        rows = rng.permutation(len(X))[:N_CELLS]
        return X[rows], marker, file["label"][rows] if "label" in file else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="?", help="an .npz file")
    parser.add_argument("--output", default="demo-output", help="folder for the figure")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    counts, marker, label = loaded(options.cells, rng) if options.cells else simulated(N_CELLS, rng)
    cells = pd.DataFrame(np.arcsinh(counts / COFACTOR), columns=marker.astype(str))

    lost = rng.random(cells.shape) < LOST
    known = cells.mask(lost)
    model = BetaProcessFA(n_components=50, max_iter=PASSES, tol=TOL, random_state=0).fit(known)
    error = (model.impute(known) - cells.to_numpy())[lost]
    plain = (cells - known.mean()).to_numpy()[lost]
    sizes = np.sqrt([np.mean(error**2), np.mean(plain**2)])
    print(f"lost entries: root mean square error {sizes[0]:.2f}, with column means {sizes[1]:.2f}")

    factors = pd.DataFrame(model.components_[:SHOWN], columns=cells.columns)
    for k, factor in factors.iterrows():
        top = factor[factor.abs().nlargest(NAMED).index]
        named = ", ".join(f"{name} {weight:+.1f}" for name, weight in top.items())
        print(f"factor {k}, used by {model.feature_probability_[k]:.0%}: {named}")
    if label is not None:
        contribution = np.abs(model.transform(cells)) * np.linalg.norm(model.components_, axis=1)
        strongest = np.argmax(contribution, 1)
        print(f"strongest factor and population: {normalized_mutual_info_score(label, strongest):.2f} of 1 in common")
    draw(factors, Path(options.output))


def draw(factors: pd.DataFrame, folder: Path) -> None:
    """The factors by marker, as a picture."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
    reach = float(factors.abs().to_numpy().max())
    picture = axis.imshow(factors, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto")
    axis.set_xticks(range(factors.shape[1]), factors.columns, rotation=90)
    axis.set_ylabel("factor, most used first")
    figure.colorbar(picture, label="arcsinh of counts")
    figure.savefig(folder / "cytometry.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
