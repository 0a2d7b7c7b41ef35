"""Inpainting of images of which 80 % of the pixels are missing: the default of `sksvi.images.inpaint`.

PSNR = 10 log10(255²/MSE) over the whole image with observed pixels kept and the estimate clipped to 0..255, as in
``protocols.py``; over the missing pixels alone; and of the model's own estimate over the observed pixels alone, which
it was fitted to.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, report
from benchmarks.beta_process._data import IMAGES, cover, filled, image, middle, observed_mask, qualities

#: PSNR in dB that the issue quotes, by image: none of these was run here.
QUOTED = {
    "biharmonic (scikit-image), quoted": (29.9, 25.0, 23.1, 27.2, 30.8),
    "cubic interpolation, quoted": (29.0, 25.8, 22.0, 26.5, 30.2),
    "batch BPFA (Zhou et al. 2012), quoted": (30.1, 25.9, 24.8, 27.8, 31.0),
    "Gibbs-SSVI (Table 1 of the paper), quoted": (40.5, 47.4, 38.2, 34.3, 43.3),
}
COLUMNS = ("image", "method", "steps", "seconds", "CPU seconds", "PSNR", "PSNR missing", "PSNR observed", "sd", "cover")
COLUMNS += ("richer",)
#: Images at a time: two that share a cache take longer.
SIDE_BY_SIDE = 1


def measured(name: str, size: int | None = None) -> dict[str, Any]:
    """The default on one image, or on its middle, as a row of the table."""
    from sksvi.images._patches import thinly_seen
    from sksvi.images._tasks import INPAINTING

    truth = middle(name, size)
    missing = ~observed_mask(truth.shape)
    holes = np.where(missing, np.nan, truth)[..., None]
    estimate, variance, dictionary, row = filled(holes[..., 0], INPAINTING | thinly_seen(holes, missing[..., None]))
    variance = dictionary.scale**2 * (variance + dictionary.noise)
    row = {"image": name, "size": len(truth), "method": "inpaint"} | row
    return row | qualities(estimate, truth, missing) | {"cover": cover(estimate, variance, truth, missing)}


def cubic(name: str) -> dict[str, Any]:
    """SciPy's cubic interpolation between the observed pixels."""
    from scipy.interpolate import griddata

    truth = image(name)
    missing = ~observed_mask(truth.shape)
    at, grid = np.argwhere(~missing), tuple(np.indices(truth.shape))
    start = time.perf_counter(), time.process_time()
    filled = griddata(at, truth[~missing], grid, method="cubic")
    filled = np.where(np.isnan(filled), griddata(at, truth[~missing], grid, method="nearest"), filled)
    spent = time.perf_counter() - start[0], time.process_time() - start[1]
    row = {"image": name, "method": "cubic interpolation (SciPy)", "seconds": spent[0], "CPU seconds": spent[1]}
    quality = qualities(filled, truth, missing)
    return row | {"PSNR": quality["PSNR"], "PSNR missing": quality["PSNR missing"]}


def default_runs(quick: bool) -> None:
    """The default of ``inpaint`` on every image, in processes of their own, beside other methods."""
    notes = [
        "80 % of the pixels missing (seed 0): the default of `sksvi.images.inpaint`, which takes 10 x 10 patches of "
        "such images, at most 250 factors, batches of 250, Gibbs-SSVI with 3 + 3 sweeps from cosines, noise and "
        "precision of the weights held, 5,000 steps, five times the odds of use in the end. PSNR in dB over the whole "
        "image, observed pixels kept; 'PSNR missing' "
        "over the missing pixels alone (0.97 dB less); 'PSNR observed' of the model's own estimate over the pixels it "
        "was fitted to. cover: share of the missing pixels within +- 1.645 of `return_std`. sd: standard deviation of "
        "the noise, in grey levels. richer: whether the image is estimated with more factors per patch "
        "than were learned. Methods called quoted were not run here: the figures are those that the task description "
        "gives; they lack seconds. Images that are not in the table were not run. "
        "The table of the version before, 12,000 steps for "
        "every image, is `inpainting_before`.",
        "Table 1 of the paper (34 to 47 dB) is 6.5 to 21.5 dB above what batch BPFA is quoted with for the same task. "
        "Of the three definitions only 'PSNR observed', of pixels that the model was fitted to, comes near it.",
    ]
    names = IMAGES[:1] if quick else IMAGES
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(SIDE_BY_SIDE) as pool:
        ours = [pool.submit(measured, name, 64 if quick else None) for name in names]
        for i, name in enumerate(names):
            rows += [ours[i].result(), cubic(name)]
            rows += [{"image": name, "method": method, "PSNR": values[i]} for method, values in QUOTED.items()]
            stored(rows, notes, quick)


def small_runs(quick: bool) -> None:
    """The middles of two images."""
    notes = [
        "The middle 96 x 96 pixels, 80 % of them missing: 8 x 8 patches, noise and precision of the weights learned, "
        "8 + 4 sweeps from random factors; else as the table of whole images. The version before is "
        "`inpainting_small_before`."
    ]
    rows = [measured(name, 48 if quick else 96) for name in (("house",) if quick else ("barbara", "house"))]
    report("beta_process/inpainting_small", "Inpainting of small images", rows, notes, quick)


def stored(rows: list[dict[str, Any]], notes: list[str], quick: bool) -> None:
    """The table as it stands."""
    table = [{key: row.get(key) for key in COLUMNS} for row in rows]
    report("beta_process/inpainting", "Inpainting, 80 % of the pixels missing", table, notes, quick)


def main(quick: bool = False) -> None:
    default_runs(quick)
    small_runs(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
