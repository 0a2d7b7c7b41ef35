"""The five algorithms of the paper, and images estimated from every other patch."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from benchmarks._lib import Array

#: The paper's names: algorithm and local step.
METHODS = {
    "Gibbs-SSVI": ("mc-ssvi", "gibbs"),
    "Mimno-SVI": ("cvi", "gibbs"),
    "Titsias-SSVI": ("mc-ssvi", "spike-slab"),
    "MF-SSVI": ("mc-ssvi", "mean-field"),
    "MF-SVI": ("cvi", "mean-field"),
}
#: The sweeps for each of the draws of the dictionary that an image is estimated with, for all five.
FINAL_SWEEPS = {"n_burn_in": 2, "n_local_samples": 1}
#: Standard deviation, in those of the image, of patches that are left out: they weigh nothing.
NEGLIGIBLE = 1e9


def model_of(method: str, passes: int, init: str = "random", **parameters: Any) -> Any:
    """One of the five with the paper's sizes."""
    from sksvi import BetaProcessFA

    algorithm, local_step = METHODS[method]
    settings = {"batch_size": 250, "tol": 0.0, "random_state": 0, "init_factors": 50.0, "weight_precision": "learned"}
    settings |= parameters
    return BetaProcessFA(
        250, algorithm=algorithm, local_step=local_step, init=init, max_iter=passes, **settings
    )  # fmt: skip


def every_other(shape: tuple[int, ...], size: int = 8) -> Array:
    """Patches of every other row and column, and those at the far edges."""
    down, right = (side - size + 1 for side in shape)
    i, j = np.divmod(np.arange(down * right), right)
    return np.flatnonzero(((i % 2 == 0) | (i == down - 1)) & ((j % 2 == 0) | (j == right - 1)))


def image_of(model: Any, patches: Array, shape: tuple[int, ...]) -> Array:
    """The image by precision-weighted means over every other patch and ten draws of the dictionary."""
    from sksvi.images import reconstruct

    chosen = every_other(shape)
    mean, std = np.zeros(patches.shape), np.full(patches.shape, NEGLIGIBLE * np.nanstd(patches))
    short = copy.copy(model).set_params(**FINAL_SWEEPS)
    mean[chosen], spread = short.reconstruct(patches[chosen], return_std=True)
    std[chosen] = np.sqrt(np.square(spread) + 1.0 / model.noise_precision_)
    return reconstruct(mean, shape, std=std)


def fitted(model: Any, patches: Array, shape: tuple[int, ...]) -> tuple[Array, dict[str, Any]]:
    """The image, and what the fit cost and learned."""
    start = time.process_time()
    model.fit(patches)
    row = {"steps": model.n_steps_, "CPU seconds": time.process_time() - start}
    row |= {"sd": float(model.noise_precision_**-0.5), "used": float(model.feature_probability_.sum())}
    return image_of(model, patches, shape), row
