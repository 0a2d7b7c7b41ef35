"""Inpainting of images of which 80 % of the pixels are missing: five algorithms and scikit-image's two methods.

PSNR = 10 log10(255²/MSE) over the whole image with observed pixels kept and the estimate clipped to 0..255, as in
``protocols.py``, and over the missing pixels alone. With a fifth of the pixels observed the second is lower by
10 log10(1/0.8) = 0.97 dB; over all pixels of the model's own estimate (observed ones not kept) it is nearly the same.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import Array, arguments, data_folder, progress, report

IMAGES = ("house", "peppers", "barbara", "boat", "lena")
#: The paper's names: algorithm and local step.
METHODS = {
    "Gibbs-SSVI": ("mc-ssvi", "gibbs"),
    "Mimno-SVI": ("cvi", "gibbs"),
    "Titsias-SSVI": ("mc-ssvi", "spike-slab"),
    "MF-SSVI": ("mc-ssvi", "mean-field"),
    "MF-SVI": ("cvi", "mean-field"),
}
BATCH = 250
#: Steps of each method; mean-field steps cost several times as much and gain nothing after these.
STEPS = {"gibbs": 8000, "spike-slab": 2000, "mean-field": 2000}


def image(name: str) -> Array:
    """An 8-bit grey image as floats."""
    from PIL import Image

    return np.asarray(Image.open(data_folder() / "images" / f"{name}.png")).astype(float)


def observed_mask(shape: tuple[int, ...], share: float = 0.2, seed: int = 0) -> Array:
    """True where a pixel is observed."""
    return np.random.default_rng(seed).random(shape) < share


def psnr(estimate: Array, truth: Array, where: Any = None) -> float:
    """dB over the pixels `where`, the estimate clipped to the range of 8 bits."""
    error = np.square(np.clip(estimate, 0, 255) - truth)
    return float(10 * np.log10(255**2 / np.mean(error if where is None else error[where])))


def steps_as_passes(n_rows: int, steps: int) -> int:
    return max(1, -(-steps // -(-n_rows // BATCH)))


def model_of(n_rows: int, method: str, init: str = "random", steps: int | None = None) -> Any:
    """The estimator of a row of the tables."""
    from sksvi import BetaProcessFA

    algorithm, local_step = METHODS[method]
    return BetaProcessFA(
        250,
        algorithm=algorithm,
        local_step=local_step,
        init=init,
        batch_size=BATCH,
        max_iter=steps_as_passes(n_rows, STEPS[local_step] if steps is None else steps),
        tol=0.0,
        random_state=0,
    )


def final(model: Any) -> Any:
    """The fitted model with as many sweeps over each patch as ``sksvi.images`` has at the end."""
    from sksvi.images import FINAL_SWEEPS

    return model.set_params(n_burn_in=FINAL_SWEEPS, n_local_samples=FINAL_SWEEPS)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sksvi.images import extract_patches, reconstruct

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    rows: list[dict[str, Any]] = []
    for name in IMAGES[:1] if quick else IMAGES:
        truth = image(name)
        missing = ~observed_mask(truth.shape)
        known = np.where(missing, np.nan, truth)
        patches = extract_patches(known, 8, mask=missing)
        for method, estimate in peers(known, missing).items():
            seconds, filled = estimate
            filled = np.where(missing, filled, truth)
            rows.append(row_of(name, method, None, None, seconds, filled, truth, missing))
            progress(rows[-1])
        for init in ("random",) if quick else ("random", "gibbs"):
            for method in METHODS:
                model = model_of(len(patches), method, init, 200 if quick else None)
                start = time.perf_counter()
                filled = np.where(
                    missing, reconstruct(final(model.fit(patches)).reconstruct(patches), truth.shape), truth
                )
                seconds = time.perf_counter() - start
                rows.append(row_of(name, method, init, model.n_steps_, seconds, filled, truth, missing))
                rows[-1]["factors"] = model.n_effective_components_
                progress(rows[-1])
    columns = ("image", "method", "init", "steps", "seconds", "PSNR", "PSNR missing", "factors")
    notes = [
        "80 % of the pixels missing (seed 0), 8 x 8 patches, 250 factors, batches of 250. PSNR in dB over the whole "
        "image, observed pixels kept; 'PSNR missing' over the missing pixels alone. Factors: effective number."
    ]
    rows = [{key: row.get(key) for key in columns} for row in rows]
    report("bpfa_inpainting", "Inpainting, 80 % of the pixels missing", rows, notes, quick)


def row_of(
    name: str, method: str, init: Any, steps: Any, seconds: float, filled: Array, truth: Array, missing: Array
) -> dict[str, Any]:
    quality = {"PSNR": psnr(filled, truth), "PSNR missing": psnr(filled, truth, missing)}
    return {"image": name, "method": method, "init": init, "steps": steps, "seconds": seconds, **quality}


def peers(known: Array, missing: Array) -> dict[str, tuple[float, Array]]:
    """scikit-image's biharmonic inpainting where it is installed, and SciPy's cubic interpolation."""
    import importlib.util

    from scipy.interpolate import griddata

    found = {}
    start = time.perf_counter()
    at = np.argwhere(~missing)
    grid = tuple(np.indices(known.shape))
    cubic = griddata(at, known[~missing], grid, method="cubic")
    cubic = np.where(np.isnan(cubic), griddata(at, known[~missing], grid, method="nearest"), cubic)
    found["cubic interpolation"] = (time.perf_counter() - start, cubic)
    if importlib.util.find_spec("skimage"):
        from skimage.restoration import inpaint_biharmonic

        start = time.perf_counter()
        filled = inpaint_biharmonic(np.where(missing, 0.0, known), missing)
        found["biharmonic (scikit-image)"] = (time.perf_counter() - start, filled)
    return found


if __name__ == "__main__":
    main(arguments(__doc__))
