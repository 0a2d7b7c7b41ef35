"""Inpainting by the five algorithms of the paper for about the same CPU seconds, from Gibbs and from random starts.

80 % of the pixels are missing; in a second table, the paper's denoising, half of them and the rest noisy. Five images
by their middle, two whole. The image is estimated in the same way for all five algorithms, as `sksvi.images.inpaint`
does it, but from every other patch in each direction: mean field takes long over a patch. Fits that are stored are not
run again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.tables import arguments
from benchmarks.beta_process._data import IMAGES, hidden, middle, observed_mask, psnr, qualities
from benchmarks.beta_process._methods import METHODS, fitted, model_of

#: Passes over the patches in batches of 250, each a fit of its own: a step of draws takes a fifth of the others' time.
PASSES = {"gibbs": (4, 20), "spike-slab": (2,), "mean-field": (2,)}
#: The same where minutes are given: from random starts, with about as many seconds for all.
LONG_PASSES = {"gibbs": 60, "spike-slab": 8, "mean-field": 10}
#: Images of 256 x 256 pixels, taken whole; side of the middle of the others, and of all in the second table.
WHOLE, MIDDLE = ("house", "peppers"), 96
#: Standard deviation of the noise of the second table, and the share of the pixels that is observed.
SIGMA, OBSERVED = 15.0, 0.5


def compared() -> list[dict[str, Any]]:
    """The fits of the main table: the path of the draws only once."""
    cells = []
    for init, name in [(init, name) for init in ("random", "gibbs") for name in WHOLE]:
        for method, (_, local_step) in METHODS.items():
            limits = PASSES[local_step] if (init, name) == ("random", "house") else PASSES[local_step][-1:]
            cells += [{"image": name, "size": 256, "init": init, "method": method, "passes": n} for n in limits]
    return cells


def middles() -> list[dict[str, Any]]:
    """The middle of every image from a Gibbs start, by every method."""
    return [
        {"image": name, "size": MIDDLE, "init": "gibbs", "method": method, "passes": PASSES[local_step][-1]}
        for name in IMAGES
        for method, (_, local_step) in METHODS.items()
    ]


def inpainted(cell: dict[str, Any], quick: bool = False) -> list[dict[str, Any]]:
    """One fit to one image of which a fifth of the pixels is observed."""
    truth, missing, patches = hidden(cell["image"], 48 if quick else cell["size"])
    model = model_of(cell["method"], cell["passes"], cell["init"])
    estimate, row = fitted(model, patches, truth.shape)
    return [{"PSNR": qualities(estimate, truth, missing)["PSNR"], **row}]


def noisy(name: str, size: int) -> tuple[Array, Array]:
    """The middle of an image, and half of its pixels with noise; NaN elsewhere."""
    truth = middle(name, size)
    data = truth + SIGMA * np.random.default_rng(1).standard_normal(truth.shape)
    return truth, np.where(observed_mask(truth.shape, OBSERVED), data, np.nan)


def denoised(cell: dict[str, Any], quick: bool = False) -> list[dict[str, Any]]:
    """One fit to an image of which half of the pixels is observed with noise."""
    from sksvi.images import extract_patches

    truth, data = noisy(cell["image"], 48 if quick else cell["size"])
    model = model_of(cell["method"], cell["passes"], cell["init"], weight_precision=1.0)
    estimate, row = fitted(model, extract_patches(data, 8, mask=np.isnan(data)), truth.shape)
    return [{"PSNR": psnr(estimate, truth), **row}]


def tabulated(name: str, title: str, cells: list[dict[str, Any]], run: Any, notes: list[str], quick: bool) -> None:
    """One table; a quick run takes the cells of one image and start, a pass each."""
    if quick:
        cells = [cell | {"passes": 1} for cell in cells[-len(METHODS) :]]
    by_cells(f"beta_process/{name}", title, cells, lambda cell: run(cell, quick), notes, quick)


NOTES = (
    "8 x 8 patches, 250 factors, batches of 250, 3 + 3 Gibbs sweeps, one thread; every row is a fit of its own. PSNR "
    "in dB over the whole image; the image is estimated for all five as the default of `inpaint` does it "
    "(precision-weighted means over ten draws of the dictionary), but from every other patch in each direction. CPU "
    "seconds are those of the fit. sd: of the noise that was learned. used: expected factors per patch. init gibbs: "
    "from 50 sweeps of the full sampler over 2,000 patches, whose seconds are included. size: pixels of a side, "
    f"256 the whole image of house and peppers, {MIDDLE} the middle of any. Rows that are not in the table were not "
    "run."
)


def noisy_runs(quick: bool) -> None:
    """The paper's denoising, on the middle of every image."""
    notes = [
        f"The middle {MIDDLE} x {MIDDLE} pixels of every image, half of them missing (seed 0), noise of standard "
        f"deviation {SIGMA:g} (seed 1) on the others, the weights' precision at 1, from a Gibbs start. " + NOTES
    ]
    title = "Denoising of half of the pixels by the five algorithms"
    tabulated("algorithms_noisy", title, middles(), denoised, notes, quick)


def longer_runs(quick: bool) -> None:
    """From random starts with minutes of CPU for every algorithm."""
    cells = [
        {"image": name, "size": 256, "init": "random", "method": method, "passes": LONG_PASSES[local_step]}
        for name in WHOLE
        for method, (_, local_step) in METHODS.items()
    ]
    notes = ["As beta_process.algorithms, random starts, for longer. Rows that are not in the table were not run."]
    tabulated("algorithms_longer", "Inpainting by the five algorithms, longer", cells, inpainted, notes, quick)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    noisy_runs(quick)
    notes = ["80 % of the pixels missing (seed 0), observed ones kept in the estimate. " + NOTES]
    tabulated(
        "algorithms_images", "Inpainting of five images by the five algorithms", middles(), inpainted, notes, quick
    )
    tabulated("algorithms", "Inpainting by the five algorithms", compared(), inpainted, notes, quick)
    longer_runs(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
