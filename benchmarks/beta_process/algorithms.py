"""Inpainting by the five algorithms of the paper for about the same CPU seconds, from random and from Gibbs starts.

80 % of the pixels of house and peppers are missing. The image is estimated in the same way for all five, as
`sksvi.images.inpaint` does it, but from every other patch in each direction: mean field takes long over a patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._data import hidden, qualities
from benchmarks.beta_process._methods import METHODS, fitted, model_of

#: Passes over the patches in batches of 250, each a fit of its own: a step of draws takes a fifth of the others' time.
PASSES = {"gibbs": (4, 20), "spike-slab": (2,), "mean-field": (2,)}
#: The same where minutes are given: from random starts, with about as many seconds for all.
LONG_PASSES = {"gibbs": 60, "spike-slab": 8, "mean-field": 10}
RUNS = [(name, init) for init in ("random", "gibbs") for name in ("house", "peppers")]


def compared(name: str, init: str, quick: bool) -> Iterator[tuple[str, Any]]:
    """Method and model of every fit for an image and a start: the path of the draws only once."""
    for method, (_, local_step) in METHODS.items():
        passes = PASSES[local_step] if (name, init) == RUNS[0] else PASSES[local_step][-1:]
        for limit in (1,) if quick else passes:
            yield method, model_of(method, limit, init)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    notes = [
        "80 % of the pixels missing (seed 0), 8 x 8 patches, 250 factors, batches of 250, 3 + 3 Gibbs sweeps, one "
        "thread; every row is a fit of its own. PSNR in dB over the whole image, observed pixels kept; the image is "
        "estimated for all five as the default of `inpaint` does it (precision-weighted means over ten draws of the "
        "dictionary), but from every other patch in each direction. CPU seconds are those of the fit. sd: of the noise "
        "that was learned. used: expected factors per patch. init gibbs: from 50 sweeps of the full sampler over 2,000 "
        "patches, whose seconds are included. Rows that are not in the table were not run."
    ]
    rows: list[dict[str, Any]] = []
    for name, init in RUNS[:1] if quick else RUNS:
        for method, model in compared(name, init, quick):
            rows.append(scored(name, init, method, model))
            report("beta_process/algorithms", "Inpainting by the five algorithms", rows, notes, quick)
    longer(quick)


def scored(name: str, init: str, method: str, model: Any) -> dict[str, Any]:
    """The row of one fit to one image."""
    truth, missing, patches = hidden(name)
    estimate, row = fitted(model, patches, truth.shape)
    row = {"image": name, "init": init, "method": method, "PSNR": qualities(estimate, truth, missing)["PSNR"], **row}
    progress(row)
    return row


def longer(quick: bool) -> None:
    """From random starts with minutes of CPU for every algorithm."""
    rows: list[dict[str, Any]] = []
    for name in ("house",) if quick else ("house", "peppers"):
        for method, (_, local_step) in METHODS.items():
            model = model_of(method, 1 if quick else LONG_PASSES[local_step])
            rows.append(scored(name, "random", method, model))
            notes = ["As beta_process.algorithms, random starts, for longer."]
            report("beta_process/algorithms_longer", "Inpainting by the five algorithms, longer", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
