"""What a cheaper course of `inpaint` loses: fewer sweeps, steps, rows of a step and draws, beside the default.

Of images of which 80 % of the pixels are missing. CPU seconds of learning and of the image apart.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._data import middle, observed_mask, psnr

IMAGES = ("house", "barbara", "boat")
#: Parameters of the estimator, and of the course, by name.
COURSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "1 + 2 sweeps": ({"n_burn_in": 1, "n_local_samples": 2}, {}),
    "0 + 2 sweeps": ({"n_burn_in": 0, "n_local_samples": 2}, {}),
    "1 + 1 sweeps": ({"n_burn_in": 1, "n_local_samples": 1}, {}),
    "half of the steps": ({}, {"most_steps": 2500}),
    "two draws of the dictionary": ({}, {"draws": 2}),
}
NOTES = [
    "80 % of the pixels missing (seed 0), observed ones kept. The default has 3 + 3 sweeps, 5,000 steps of 250 patches "
    "and 4 draws of the dictionary in the end."
]


def measured(name: str, course: str, size: int | None) -> dict[str, Any]:
    """A row of the table."""
    from sksvi.images._fit import estimated, learned
    from sksvi.images._patches import pixels_of, thinly_seen
    from sksvi.images._tasks import INPAINTING

    truth = middle(name, size)
    missing = ~observed_mask(truth.shape)
    pixels, gone = pixels_of(np.where(missing, np.nan, truth), None)
    own, changes = COURSES[course]
    defaults = INPAINTING | thinly_seen(pixels, gone) | own
    if "course" in defaults:
        defaults["course"] = replace(defaults["course"], **changes)
    start = time.process_time()
    dictionary = learned(pixels, gone, None, defaults, seed=0)
    between = time.process_time()
    image = estimated(dictionary, pixels)[0].reshape(truth.shape)
    spent = {"learning, CPU s": between - start, "image, CPU s": time.process_time() - between}
    row = {"image": name, "course": course, "steps": dictionary.model.n_steps_} | spent
    return row | {"PSNR": psnr(np.where(missing, image, truth), truth)}


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name in IMAGES[:1] if quick else IMAGES:
        for course in list(COURSES)[:2] if quick else COURSES:
            rows.append(measured(name, course, 64 if quick else None))
            progress(rows[-1])
    report("beta_process/cheaper", "Cheaper courses of inpainting", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
