"""Inpainting of images of which 80 % of the pixels are missing: the default of `sksvi.images.inpaint`.

PSNR = 10 log10(255²/MSE) over the whole image with observed pixels kept and the estimate clipped to 0..255, as in
``protocols.py``; over the missing pixels alone; and of the model's own estimate over the observed pixels alone, which
it was fitted to.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._data import IMAGES, hidden, image, observed_mask, qualities

#: PSNR in dB that the issue quotes, by image: none of these was run here.
QUOTED = {
    "biharmonic (scikit-image), quoted": (29.9, 25.0, 23.1, 27.2, 30.8),
    "cubic interpolation, quoted": (29.0, 25.8, 22.0, 26.5, 30.2),
    "batch BPFA (Zhou et al. 2012), quoted": (30.1, 25.9, 24.8, 27.8, 31.0),
    "Gibbs-SSVI (Table 1 of the paper), quoted": (40.5, 47.4, 38.2, 34.3, 43.3),
}
COLUMNS = ("image", "method", "init", "steps", "seconds", "CPU seconds", "PSNR", "PSNR missing", "PSNR observed", "sd")


def measured(name: str, steps: int) -> dict[str, Any]:
    """The default fitted to one image, as a row of the table."""
    from sksvi.images import INPAINTING, averaged, default_estimator

    truth, missing, patches = hidden(name)
    start = time.perf_counter(), time.process_time()
    model = default_estimator(len(patches), steps, INPAINTING).set_params(random_state=0).fit(patches)
    estimate = averaged(model, patches, truth.shape)
    spent = time.perf_counter() - start[0], time.process_time() - start[1]
    row = {"image": name, "method": "Gibbs-SSVI", "init": "random", "steps": model.n_steps_}
    row |= {"seconds": spent[0], "CPU seconds": spent[1], **qualities(estimate, truth, missing)}
    return row | {"sd": float(model.noise_precision_**-0.5)}


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
    """The default of ``inpaint`` on every image, beside other methods; stored after every image."""
    from sksvi.images import INPAINT_STEPS

    notes = [
        "80 % of the pixels missing (seed 0), 8 x 8 patches, 250 factors, batches of 250: the default of "
        "`sksvi.images.inpaint`, Gibbs-SSVI with 8 + 4 sweeps from a random start. PSNR in dB over the whole image, "
        "observed pixels kept; 'PSNR missing' over the missing pixels alone (0.97 dB less); 'PSNR observed' of the "
        "model's own estimate over the pixels it was fitted to. sd: standard deviation of the noise that was learned, "
        "in grey levels. Methods called quoted were not run here: the figures are those that the task description "
        "gives; they lack seconds. Images that are not in the table were not run. Seconds are of a busy machine.",
        "Table 1 of the paper (34 to 47 dB) is 6.5 to 21.5 dB above what batch BPFA is quoted with for the same task. "
        "Of the three definitions only 'PSNR observed', of pixels that the model was fitted to, comes near it.",
    ]
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(IMAGES[:1] if quick else IMAGES):
        rows.append(measured(name, 200 if quick else INPAINT_STEPS))
        progress(rows[-1])
        rows.append(cubic(name))
        progress(rows[-1])
        rows += [{"image": name, "method": method, "PSNR": values[i]} for method, values in QUOTED.items()]
        table = [{key: row.get(key) for key in COLUMNS} for row in rows]
        report("beta_process/inpainting", "Inpainting, 80 % of the pixels missing", table, notes, quick)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    default_runs(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
