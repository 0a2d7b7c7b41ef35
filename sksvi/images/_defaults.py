"""Defaults for an image where no estimator is given: size of patches and dictionary, steps, and how to estimate it.

All follow from the number of patches and from the share of their pixels that is observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi.algorithms import MCSSVI
from sksvi.images._patches import PATCH_SIZE, windows
from sksvi.schedules import RobbinsMonro

Array = np.ndarray
#: Factors of the odds of use and of the precision of the weights, of which held-out pixels choose.
Choices = tuple[tuple[float, float], ...]

#: Patches that a dictionary is learned from at most, and rows of a step.
MOST_PATCHES, BATCH_ROWS = 50_000, 250
#: Factors: so many times the root of the number of patches, at most the second.
COMPONENTS, MOST_COMPONENTS = 1.5, 250
#: Steps at least, passes, and steps at most.
FEWEST_STEPS, PASSES, MOST_STEPS = 200, 18, 3500
#: Rates of steps on some of the patches, few or many: longer first steps would drop fine factors of small images.
RATE = RobbinsMonro(delay=20.0, kappa=0.5)
THIN_RATE = RobbinsMonro(delay=40.0, kappa=0.5)
#: Share of missing pixels and number of patches from which an image is thinly seen, and where noise is held there, as a
#: share of the standard deviation of the pixels: of a dozen pixels per patch it is learned too small.
MOSTLY_MISSING, MANY_PATCHES, HELD_NOISE = 0.5, 20_000, 0.15
#: There: numbers seen in a patch, which its side follows from, and that side at most.
SEEN, LARGEST_PATCH = 20, 10
#: What the odds of use and the precision of the weights are multiplied by in the end, by which held-out pixels prefer:
#: sparse patches are learned from best, and predicted better by the mean over richer ones.
RICHER = ((1.0, 1.0), (7.0, 4.0))
#: Draws of the dictionary that an image is estimated with.
FINAL_DRAWS = 3


@dataclass(frozen=True)
class Course:
    """When a dictionary is done, and how an image is estimated with it.

    stops: whether held-out pixels say when a fit ends and which dictionary is kept, or it takes all its steps and the
    last one is. richer: what the odds of use and the precision of the weights may be multiplied by in the end.
    sharpness: power of the precisions that overlapping patches are weighted by. sweeps: discarded and kept, for each of
    `draws` draws of the dictionary. most_drawn: patches times draws at most, where one draw is not more. patch_size:
    side of the patches at most. most_patches, passes, most_steps: at most so many patches to learn a dictionary from,
    passes over these, and steps. cosines: whether it starts from products of cosines, else at random.
    """

    stops: bool = True
    richer: Choices = RICHER
    sharpness: float = 1.0
    sweeps: tuple[int, int] = (2, 4)
    draws: int = FINAL_DRAWS
    most_drawn: int = 600_000
    patch_size: int = PATCH_SIZE
    most_patches: int = MOST_PATCHES
    passes: int = PASSES
    most_steps: int = MOST_STEPS
    cosines: bool = False


#: What holds where nothing else is said.
COURSE = Course()
#: What holds in thinly seen images. Rows of few pixels say little: many short steps find more than few long ones. A
#: hundred held-out pixels tell neither when these steps have done nor what richer patches gain. Errors of overlapping
#: patches go together: the surest of them says more than its precision. Draws of rows begin where a greedy search ends,
#: and an image needs one sweep from there: more draws of the dictionary gain more. Learning needs them all: textures of
#: fine edges lose where it does without burn-in.
THINLY_SEEN = {"n_burn_in": 3, "n_local_samples": 3, "weight_precision": 1.0, "algorithm": MCSSVI(THIN_RATE)}
THIN_COURSE = Course(
    stops=False,
    richer=((5.0, 1.0),),
    sharpness=1.5,
    sweeps=(0, 1),
    draws=4,
    most_drawn=1_200_000,
    most_patches=125_000,
    passes=40,
    most_steps=5000,
    cosines=True,
)


def default_estimator(n_patches: int, parameters: dict[str, Any], course: Course = COURSE) -> Any:
    """Default `BetaProcessFA` for so many patches, from which its number of components and of steps follow."""
    from sksvi.decomposition import BetaProcessFA

    n_components = min(MOST_COMPONENTS, math.ceil(COMPONENTS * math.sqrt(n_patches)))
    batches = math.ceil(min(n_patches, course.most_patches) / BATCH_ROWS)
    steps = min(max(FEWEST_STEPS, course.passes * batches), course.most_steps)
    # All that is chosen here was chosen with weights whose precision is learned.
    found: dict[str, Any] = {"max_iter": math.ceil(steps / batches), "weight_precision": "learned"}
    if batches > 1:
        found["algorithm"] = MCSSVI(RATE)
    # No tolerance: what the noisy bound still gains is hardly seen in an image.
    return BetaProcessFA(n_components, batch_size=BATCH_ROWS, tol=0.0, **(found | parameters))


def thinly_seen(pixels: Array, missing: Array) -> dict[str, Any]:
    """Defaults for many patches with few observed pixels: parameters of the estimator, and `course`; else empty."""
    spread, observed_share = float(np.nanstd(pixels)), 1.0 - float(missing.mean())
    n_patches = math.prod(side - default_size(missing) + 1 for side in missing.shape[:2])
    if observed_share >= 1.0 - MOSTLY_MISSING or n_patches < MANY_PATCHES or spread == 0.0:
        return {}
    side = round(math.sqrt(SEEN / (observed_share * missing.shape[2])))
    size = default_size(missing, min(max(PATCH_SIZE, side), LARGEST_PATCH))
    return THINLY_SEEN | {"noise": HELD_NOISE * spread, "course": replace(THIN_COURSE, patch_size=size)}


def default_size(missing: Array, most: int = PATCH_SIZE) -> int:
    """Side of the patches: small images need several patches too, and no place of a patch may always be missing."""
    size = min(most, max(1, min(missing.shape[:2]) // 2))
    while windows(missing, size).all((0, 1)).any():
        size -= 1
    return size
