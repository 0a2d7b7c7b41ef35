"""Inpainting by the five algorithms of the paper at the same number of steps, from random and from Gibbs starts.

80 % of the pixels of house and peppers are missing. Far fewer steps than the default of `sksvi.images.inpaint` takes:
the table is about the order of the algorithms.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.bpfa_inpainting import hidden, qualities
from benchmarks.common import Array, arguments, progress, report

#: The paper's names: algorithm and local step.
METHODS = {
    "Gibbs-SSVI": ("mc-ssvi", "gibbs"),
    "Mimno-SVI": ("cvi", "gibbs"),
    "Titsias-SSVI": ("mc-ssvi", "spike-slab"),
    "MF-SSVI": ("mc-ssvi", "mean-field"),
    "MF-SVI": ("cvi", "mean-field"),
}
#: Passes over the patches, in batches of 250.
PASSES = 2
RUNS = [(name, init) for name in ("house", "peppers") for init in ("random", "gibbs")]


def model_of(method: str, passes: int, init: str = "random") -> Any:
    """One of the five with the paper's sizes."""
    from sksvi import BetaProcessFA

    algorithm, local_step = METHODS[method]
    return BetaProcessFA(
        250, algorithm=algorithm, local_step=local_step, init=init, batch_size=250, max_iter=passes, tol=0.0,
        random_state=0,
    )  # fmt: skip


def fitted(model: Any, patches: Array, shape: tuple[int, ...]) -> tuple[Array, dict[str, Any]]:
    """The image by plain means over patches at the globals' expectations, and what the fit cost and learned."""
    from sksvi.images import reconstruct

    start = time.process_time()
    estimate = reconstruct(model.fit(patches).reconstruct(patches), shape)
    row = {"steps": model.n_steps_, "CPU seconds": time.process_time() - start}
    row |= {"sd": float(model.noise_precision_**-0.5), "used": float(model.feature_probability_.sum())}
    return estimate, row


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    notes = [
        "80 % of the pixels missing (seed 0), 8 x 8 patches, 250 factors, batches of 250, 3 + 3 Gibbs sweeps, one "
        f"thread. {PASSES} passes each, a twenty-fourth of the steps that the default of `inpaint` takes: far from "
        "convergence. Pixels are plain means over their patches. PSNR in dB over the whole image, observed pixels "
        "kept. sd: of the noise that was learned. used: expected factors per patch. init gibbs: from 50 sweeps of the "
        "full sampler over 2,000 patches, whose seconds are included. Rows that are not in the table were not run."
    ]
    rows: list[dict[str, Any]] = []
    for name, init in RUNS[:1] if quick else RUNS:
        truth, missing, patches = hidden(name)
        for method in METHODS:
            estimate, row = fitted(model_of(method, 1 if quick else PASSES, init), patches, truth.shape)
            quality = qualities(estimate, truth, missing)
            row = {"image": name, "init": init, "method": method, "PSNR": quality["PSNR"]} | row
            rows.append(row)
            progress(row)
        report("bpfa_algorithms", "Inpainting by the five algorithms", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
