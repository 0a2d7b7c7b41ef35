"""Images as sums of parts. `python -m examples.digit_parts`.

Handwritten digits are counts of ink: a factorization under Gamma priors takes them apart into forms and strokes.
Images of which two fifths of the pixels are missing are filled in, each missing pixel with its standard deviation.
Prints how well; draws the parts and the images into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from sksvi import GammaPoissonFactorization

#: Images to fit, parts, share of missing pixels, and images that are drawn.
FITTED, PARTS, MISSING, SHOWN = 1500, 30, 0.4, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="demo-output", help="folder for the figure")
    options = parser.parse_args()
    images = load_digits().data
    train, test = images[:FITTED], images[FITTED:]
    missing = np.random.default_rng(0).random(test.shape) < MISSING
    hidden = np.where(missing, np.nan, test)

    model = GammaPoissonFactorization(PARTS, random_state=0).fit(train)
    filled, std = model.impute(hidden, return_std=True)
    apart = np.abs(filled - test)[missing]
    by_mean = np.abs(np.where(missing, train.mean(0), test) - test)[missing]
    asked = np.where(missing, test, np.nan)
    score = model.log_predictive_density(hidden, asked).sum() / missing.sum()
    print(f"{PARTS} parts of {FITTED} images, {model.n_iter_} passes, lower bound {model.lower_bound_:.0f} nats")
    print(f"missing pixels: mean error {apart.mean():.2f} of 16, by the mean image {by_mean.mean():.2f}")
    print(f"within two standard deviations: {100 * np.mean(apart <= 2 * std[missing]):.0f} %")
    print(f"log probability of a missing pixel: {score:.2f} nats")
    draw(model, hidden, filled, std, test, Path(options.output))


def draw(
    model: GammaPoissonFactorization,
    hidden: np.ndarray,
    filled: np.ndarray,
    std: np.ndarray,
    test: np.ndarray,
    folder: Path,
) -> None:
    """The parts, and some images: with holes, filled in, how sure, and the truth."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.0, 6.4), layout="constrained")
    parts, images = figure.subfigures(2, 1, height_ratios=[3, 4])
    parts.suptitle("Parts, the most used first", fontsize=10)
    for axes, part in zip(parts.subplots(3, 10).flat, model.components_, strict=False):
        axes.imshow(part.reshape(8, 8), cmap="Greys", vmin=0)
        axes.set(xticks=[], yticks=[])
    rows = {"pixels seen": hidden, "filled in": filled, "std": np.where(np.isnan(hidden), std, np.nan), "truth": test}
    cmap = matplotlib.colormaps["Greys"].with_extremes(bad="#f2c9a1")
    for line, (name, values) in zip(images.subplots(len(rows), SHOWN), rows.items(), strict=True):
        for axes, image in zip(line, values, strict=False):
            top = 16.0 if name != "std" else 5.0
            axes.imshow(image.reshape(8, 8), cmap="viridis" if name == "std" else cmap, vmin=0, vmax=top)
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "digit_parts.png", dpi=120)
    plt.close(figure)
    print(f"figure: {folder / 'digit_parts.png'}")


if __name__ == "__main__":
    main()
