"""The dictionary that an image is explained by: how large, how long it is learned, and what it says of every pixel.

Some observed pixels are held out. Now and then the dictionary of the moment predicts them; the fit ends where that no
longer improves. The last dictionary is kept, or an earlier one that was clearly better, and the image is estimated from
all observed pixels.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sksvi.algorithms import MCSSVI
from sksvi.estimators.posterior import Posterior
from sksvi.families import Beta, Gamma
from sksvi.images._patches import PATCH_SIZE, extract_patches, reconstruct, windows
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
#: Share of the observed pixels that is held out, at most and at least so many; of fewer the error says nothing.
HELD_SHARE, MOST_HELD, FEWEST_HELD = 0.05, 128, 20
#: Rates of steps on some of the patches, few or many: longer first steps would drop fine factors of small images.
RATE = RobbinsMonro(delay=20.0, kappa=0.5)
#: The first check, the ratio of the steps of successive ones, and the share that the mean absolute error must lose
#: while the steps double.
FIRST_CHECK, CHECK_FACTOR, GAIN = 100, 1.4, 0.003
#: Share of missing pixels and number of patches from which an image is thinly seen, and where noise is held there, as a
#: share of the standard deviation of the pixels: of a dozen pixels per patch it is learned too small.
MOSTLY_MISSING, MANY_PATCHES, HELD_NOISE = 0.5, 20_000, 0.12
#: Standard errors by which an earlier dictionary must be better than the last to be kept.
SIGNIFICANT = 2.0
#: What the odds of use and the precision of the weights are multiplied by in the end, by which held-out pixels prefer:
#: sparse patches are learned from best, and predicted better by the mean over richer ones.
RICHER = ((1.0, 1.0), (7.0, 4.0))
#: Draws of the dictionary that a pixel is checked and estimated with.
CHECK_DRAWS, FINAL_DRAWS = 1, 3


@dataclass(frozen=True)
class Course:
    """When a dictionary is done, and how an image is estimated with it.

    stops: whether held-out pixels say when a fit ends and which dictionary is kept, or it takes all its steps and the
    last one is. richer: what the odds of use and the precision of the weights may be multiplied by in the end.
    sharpness: power of the precisions that overlapping patches are weighted by. sweeps: discarded and kept, for each
    draw of the dictionary. most_drawn: patches times draws at most, where one draw is not more.
    """

    stops: bool = True
    richer: Choices = RICHER
    sharpness: float = 1.0
    sweeps: tuple[int, int] = (2, 4)
    most_drawn: int = 600_000


#: What holds in thinly seen images. Rows of few pixels say little: many short steps find more than few long ones, and
#: larger rates find textures sooner. A hundred held-out pixels tell neither when these steps have done nor what richer
#: patches gain. Errors of overlapping patches go together: the surest of them says more than its precision. More draws
#: of fewer sweeps tell better how sure it is.
THINLY_SEEN = {
    "n_burn_in": 3,
    "n_local_samples": 3,
    "max_iter": 40,
    "weight_precision": 1.0,
    "algorithm": MCSSVI(RobbinsMonro(scale=2.0, delay=180.0, kappa=0.5)),
    "course": Course(stops=False, richer=((5.0, 1.0),), sharpness=1.5, sweeps=(1, 3), most_drawn=900_000),
}


def default_estimator(n_patches: int, parameters: dict[str, Any]) -> Any:
    """What is fitted where no estimator is given: its size and its steps follow from the number of patches."""
    from sksvi.decomposition import BetaProcessFA

    n_components = min(MOST_COMPONENTS, math.ceil(COMPONENTS * math.sqrt(n_patches)))
    batches = math.ceil(min(n_patches, MOST_PATCHES) / BATCH_ROWS)
    steps = min(max(FEWEST_STEPS, PASSES * batches), MOST_STEPS)
    # All that is chosen here was chosen with weights whose precision is learned.
    found: dict[str, Any] = {"max_iter": math.ceil(steps / batches), "weight_precision": "learned"}
    if batches > 1:
        found["algorithm"] = MCSSVI(RATE)
    # No tolerance: what the noisy bound still gains is hardly seen in an image.
    return BetaProcessFA(n_components, batch_size=BATCH_ROWS, tol=0.0, **(found | parameters))


def thinly_seen(pixels: Array, missing: Array) -> dict[str, Any]:
    """What defaults become for many patches of which little is seen: parameters, and `course`; nothing elsewhere."""
    spread = float(np.nanstd(pixels))
    n_patches = math.prod(side - default_size(missing) + 1 for side in missing.shape[:2])
    if missing.mean() <= MOSTLY_MISSING or n_patches < MANY_PATCHES or spread == 0.0:
        return {}
    return THINLY_SEEN | {"noise": HELD_NOISE * spread}


def hide(missing: Array, rng: np.random.RandomState) -> Array:
    """Which observed pixels are held out, (height, width); none where there are too few."""
    observed = np.flatnonzero(~missing.all(-1))
    n = min(int(HELD_SHARE * len(observed)), MOST_HELD)
    hidden = np.zeros(missing.shape[:2], bool)
    if n >= FEWEST_HELD:
        hidden.flat[rng.choice(observed, n, replace=False)] = True
    return hidden


def default_size(missing: Array) -> int:
    """Side of the patches: small images need several patches too, and no place of a patch may always be missing."""
    size = min(PATCH_SIZE, max(1, min(missing.shape[:2]) // 2))
    while windows(missing, size).all((0, 1)).any():
        size -= 1
    return size


def learned(
    pixels: Array,
    missing: Array,
    estimator: Any,
    defaults: dict[str, Any],
    known: dict[str, Any] | None = None,
    *,
    seed: Any,
    **settings: Any,
) -> Dictionary:
    """The estimator, or the default one, fitted to the patches of (height, width, channels), NaN where missing."""
    quiet = (("verbose", 0), ("verbose", False))
    settings = {k: v for k, v in settings.items() if v is not None and (k, v) not in quiet} | (known or {})
    if estimator is not None:
        model = clone(estimator).set_params(**settings)
        if model.get_params()["random_state"] is None:
            model.set_params(random_state=seed)
        return Dictionary(model.fit(extract_patches(pixels, default_size(missing))))
    rng = check_random_state(seed)
    hidden = hide(missing, rng)
    patches = extract_patches(pixels, default_size(missing | hidden[..., None]), mask=hidden)
    course: Course = defaults.get("course", Course())
    model = default_estimator(len(patches), {name: v for name, v in defaults.items() if name != "course"})
    model.set_params(random_state=rng.randint(2**31 - 1), **settings)
    model._validate_params()
    some = telling(patches, rng)
    batches = math.ceil(len(some) / BATCH_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if not hidden.any():
            return Dictionary(model.fit(patches[some]))
        stop = Stop(HeldOut.of(pixels, hidden, patches), model._most_passes() * batches / 2)
        if course.stops:
            model.set_callbacks(stop)
        model.fit(patches[some])
    n_draws = max(1, min(FINAL_DRAWS, course.most_drawn // len(patches)))
    return chosen(model, stop.best, stop.held_out, n_draws, course)


def telling(patches: Array, rng: np.random.RandomState) -> Array:
    """Which patches a dictionary is learned from: all, or as many as it may, of those in which something was seen."""
    if len(patches) <= MOST_PATCHES:
        return np.arange(len(patches))
    rows = np.flatnonzero(~np.isnan(patches).all(1))
    return np.sort(rng.choice(rows, min(len(rows), MOST_PATCHES), replace=False))


@dataclass(frozen=True)
class Dictionary:
    """A fitted estimator, what its odds of use and its weights' precision are multiplied by, and its errors' scale.

    n_draws: of the factors, that an image is estimated with. sharpness, sweeps: as in `Course`.
    """

    model: Any
    richer: tuple[float, float] = (1.0, 1.0)
    scale: float = 1.0
    n_draws: int = FINAL_DRAWS
    sharpness: float = 1.0
    sweeps: tuple[int, int] = (2, 4)

    @property
    def noise(self) -> float:
        """Variance of the noise, the mean over a patch."""
        return float(np.mean(1.0 / self.model.noise_precision_))

    def predicted(self, patches: Array, n_draws: int) -> tuple[Array, Array]:
        """Mean of every entry of patches, and the variance that a new observation of it has."""
        burn_in, kept = self.sweeps
        short = copy.copy(self.model).set_params(n_burn_in=burn_in, n_local_samples=kept)
        q = dict(self.model.posterior_)
        use, weight = q["probabilities"], q["weight_precision"]
        q["probabilities"] = Beta(self.richer[0] * use.a, use.b)
        q["weight_precision"] = Gamma(weight.shape, weight.rate / self.richer[1])
        short.posterior_ = Posterior(q)
        mean, std = short.reconstruct(patches, return_std=True, n_draws=n_draws)
        return mean, np.square(std) + 1.0 / self.model.noise_precision_


@dataclass(frozen=True)
class HeldOut:
    """Held-out values of pixels and channels, and patches that hold them, without their values.

    value (m,). patches (n, D). asked (n, D): entries that are held out; place: which of the m each of these is.
    """

    value: Array
    patches: Array
    asked: Array
    place: Array

    @classmethod
    def of(cls, pixels: Array, hidden: Array, patches: Array) -> HeldOut:
        """The patches that have held-out pixels."""
        size = math.isqrt(patches.shape[1] // pixels.shape[2])
        rows = np.flatnonzero(windows(hidden[..., None], size).any((2, 3, 4)))
        at = np.unravel_index(rows, [side - size + 1 for side in hidden.shape])
        target = windows(np.where(hidden[..., None], pixels, np.nan), size)[at].reshape(len(rows), -1)
        number = windows(np.arange(pixels.size).reshape(pixels.shape), size)[at].reshape(len(rows), -1)
        asked = ~np.isnan(target)
        numbers, place = np.unique(number[asked], return_inverse=True)
        return cls(pixels.ravel()[numbers], patches[rows], asked, place)

    def predicted(self, dictionary: Dictionary, n_draws: int) -> tuple[Array, Array]:
        """Mean and variance of the held-out values, by the patches that hold them together."""
        mean, variance = (moment[self.asked] for moment in dictionary.predicted(self.patches, n_draws))
        weight = (variance.min() / variance) ** dictionary.sharpness
        total = np.bincount(self.place, weight)
        together = np.bincount(self.place, mean * weight) / total
        apart = np.square(mean - together[self.place]) + variance - dictionary.noise
        return together, np.bincount(self.place, apart * weight) / total + dictionary.noise

    def errors(self, dictionary: Dictionary) -> Array:
        """Absolute errors: squares of a hundred pixels would be those of the few at edges."""
        return np.abs(self.predicted(dictionary, CHECK_DRAWS)[0] - self.value)


class Stop:
    """Callback that ends a fit where held-out pixels are predicted no better than after half as many steps.

    Not before so many steps: at first a patch uses many rough factors, which predict well for a while; fine ones that
    predict better take their time.
    """

    def __init__(self, held_out: HeldOut, steps: float) -> None:
        self.held_out, self.steps = held_out, steps
        self.checks: list[tuple[int, float]] = []
        self.best: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to tidy."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing before a pass."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        """After a pass: check, where one is due; True where the fit is to end."""
        if context.task_name != "pass":
            return False
        steps = fitted_estimator.n_steps_
        if steps < (CHECK_FACTOR * self.checks[-1][0] if self.checks else FIRST_CHECK):
            return False
        error = float(self.held_out.errors(Dictionary(fitted_estimator)).mean())
        if self.best is None or error < min(before for _, before in self.checks):
            self.best = fitted_estimator
        self.checks.append((steps, error))
        return steps >= self.steps and stalled(self.checks)


def stalled(checks: list[tuple[int, float]]) -> bool:
    """Whether the error of checks (steps, error) has lost less than GAIN while the steps doubled.

    Examples
    --------
    >>> from sksvi.images._fit import stalled
    >>> stalled([(100, 9.0), (200, 5.0)]), stalled([(100, 9.0), (200, 8.99)]), stalled([(100, 9.0)])
    (False, True, False)
    """
    now, error = checks[-1]
    before = [error for steps, error in checks if steps <= now / 2]
    return bool(before) and error > (1.0 - GAIN) * before[-1]


def chosen(last: Any, early: Any, held_out: HeldOut, n_draws: int, course: Course) -> Dictionary:
    """The last model, or an early one that is clearly better, as rich as held-out pixels prefer, and its errors' scale.

    The scale is learned with the weight of one more pixel at 1: errors of exactly 0 leave no interval of width 0.
    """
    best, errors = as_rich(last, held_out, course)
    if early is not None:
        other, its_errors = as_rich(early, held_out, course)
        gain = errors - its_errors
        if gain.mean() > SIGNIFICANT * gain.std() / math.sqrt(len(gain)):
            best = other
    mean, variance = held_out.predicted(best, n_draws)
    squares = np.square(held_out.value - mean) / variance
    scale = float(np.sqrt((1.0 + squares.sum()) / (1.0 + len(squares))))
    return replace(best, scale=scale, n_draws=n_draws)


def as_rich(model: Any, held_out: HeldOut, course: Course) -> tuple[Dictionary, Array]:
    """The model as rich as held-out pixels prefer, and their errors."""
    found = [Dictionary(model, richer, sharpness=course.sharpness, sweeps=course.sweeps) for richer in course.richer]
    errors = [held_out.errors(dictionary) for dictionary in found]
    best = int(np.argmin(np.mean(errors, axis=1)))
    return found[best], errors[best]


def estimated(dictionary: Dictionary, pixels: Array) -> tuple[Array, Array]:
    """Mean and variance of every pixel without noise.

    A pixel's posterior is the mixture of what its patches say of it: they overlap, so that they are no independent
    witnesses. They are weighted by their predictive precisions, to the power of the dictionary's sharpness.
    """
    size = math.isqrt(dictionary.model.n_features_in_ // pixels.shape[2])
    mean, variance = dictionary.predicted(extract_patches(pixels, size), dictionary.n_draws)
    std = np.sqrt(variance / variance.min()) ** dictionary.sharpness
    image = reconstruct(mean, pixels.shape, std=std)
    apart = np.square(mean - extract_patches(image, size)) + variance - 1.0 / dictionary.model.noise_precision_
    return image, reconstruct(apart, pixels.shape, std=std)
