"""The dictionary of an image: its size, how long it is learned, and its estimate of every pixel.

Some observed pixels are held out. Now and then the dictionary of the moment predicts them; the fit ends where that no
longer improves. The last dictionary is kept, or an earlier one that was clearly better, and the image is estimated from
all observed pixels.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sksvi.estimators.posterior import Posterior
from sksvi.families import Beta, Gamma
from sksvi.images._patches import (
    BATCH_ROWS,
    COURSE,
    FINAL_DRAWS,
    Course,
    added_up,
    cosines,
    default_estimator,
    default_size,
    extract_patches,
    windows,
)

Array = np.ndarray

#: Share of the observed pixels that is held out, at most and at least so many; of fewer the error says nothing.
HELD_SHARE, MOST_HELD, FEWEST_HELD = 0.05, 128, 20
#: The first check, the ratio of the steps of successive ones, and the share that the mean absolute error must lose
#: while the steps double.
FIRST_CHECK, CHECK_FACTOR, GAIN = 100, 1.4, 0.003
#: Standard errors by which an earlier dictionary must be better than the last to be kept.
SIGNIFICANT = 2.0
#: Draws of the dictionary that held-out pixels are checked with.
CHECK_DRAWS = 1


def hide(missing: Array, rng: np.random.RandomState) -> Array:
    """Which observed pixels are held out, (height, width); none where there are too few."""
    observed = np.flatnonzero(~missing.all(-1))
    n = min(int(HELD_SHARE * len(observed)), MOST_HELD)
    hidden = np.zeros(missing.shape[:2], bool)
    if n >= FEWEST_HELD:
        hidden.flat[rng.choice(observed, n, replace=False)] = True
    return hidden


def learned(
    pixels: Array,
    missing: Array,
    estimator: Any,
    defaults: dict[str, Any],
    fixed: dict[str, Any] | None = None,
    *,
    seed: Any,
    **settings: Any,
) -> Dictionary:
    """The estimator, or the default one, fitted to the patches of (height, width, channels), NaN where missing."""
    quiet = (("verbose", 0), ("verbose", False))
    settings = {k: v for k, v in settings.items() if v is not None and (k, v) not in quiet} | (fixed or {})
    if estimator is not None:
        model = clone(estimator).set_params(**settings)
        if model.get_params()["random_state"] is None:
            model.set_params(random_state=seed)
        return Dictionary(model.fit(extract_patches(pixels, default_size(missing))))
    rng = check_random_state(seed)
    hidden = hide(missing, rng)
    course: Course = defaults.get("course", COURSE)
    size = default_size(missing | hidden[..., None], course.patch_size)
    patches = extract_patches(pixels, size, mask=hidden)
    model = default_estimator(len(patches), {name: v for name, v in defaults.items() if name != "course"}, course)
    if course.cosines:
        model.set_params(init=cosines(model.n_components, size, pixels.shape[2]))
    model.set_params(random_state=rng.randint(2**31 - 1), **settings)
    model._validate_params()
    some = telling(patches, course.most_patches, rng)
    batches = math.ceil(len(some) / BATCH_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if not hidden.any():
            return Dictionary(model.fit(patches[some]))
        stop = StopWhenStalled(HeldOut.of(pixels, hidden, patches), model._most_passes() * batches / 2)
        if course.stops:
            model.set_callbacks(stop)
        model.fit(patches[some])
    n_draws = max(1, min(course.draws, course.most_drawn // len(patches)))
    return chosen(model, stop.best, stop.held_out, n_draws, course)


def telling(patches: Array, most: int, rng: np.random.RandomState) -> Array:
    """Indices of the patches to learn from: all, or `most` of those with an observed entry, drawn at random."""
    if len(patches) <= most:
        return np.arange(len(patches))
    rows = np.flatnonzero(~np.isnan(patches).all(1))
    return np.sort(rng.choice(rows, min(len(rows), most), replace=False))


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
        burn_in, n_samples = self.sweeps
        short = self.model._variational().set_params(n_burn_in=burn_in, n_local_samples=n_samples)
        q = dict(short.posterior_)
        use, weight = q["probabilities"], q["weight_precision"]
        q["probabilities"] = Beta(self.richer[0] * use.a, use.b)
        q["weight_precision"] = Gamma(weight.shape, weight.rate / self.richer[1])
        short.posterior_ = Posterior(q)
        mean, variance = short._moments(short._rows(patches), True, n_draws)
        return mean, variance + 1.0 / self.model.noise_precision_


@dataclass(frozen=True)
class HeldOut:
    """Held-out values of pixels and channels, and patches that hold them, without their values.

    value (m,). patches (n, D). mask (n, D): entries that are held out; place: which of the m each of these is.
    """

    value: Array
    patches: Array
    mask: Array
    place: Array

    @classmethod
    def of(cls, pixels: Array, hidden: Array, patches: Array) -> HeldOut:
        """The patches that have held-out pixels."""
        size = math.isqrt(patches.shape[1] // pixels.shape[2])
        rows = np.flatnonzero(windows(hidden[..., None], size).any((2, 3, 4)))
        at = np.unravel_index(rows, [side - size + 1 for side in hidden.shape])
        target = windows(np.where(hidden[..., None], pixels, np.nan), size)[at].reshape(len(rows), -1)
        number = windows(np.arange(pixels.size).reshape(pixels.shape), size)[at].reshape(len(rows), -1)
        mask = ~np.isnan(target)
        numbers, place = np.unique(number[mask], return_inverse=True)
        return cls(pixels.ravel()[numbers], patches[rows], mask, place)

    def predicted(self, dictionary: Dictionary, n_draws: int) -> tuple[Array, Array]:
        """Mean and variance of the held-out values, by the patches that hold them together."""
        mean, variance = (moment[self.mask] for moment in dictionary.predicted(self.patches, n_draws))
        weight = (variance.min() / variance) ** dictionary.sharpness
        total = np.bincount(self.place, weight)
        together = np.bincount(self.place, mean * weight) / total
        apart = np.square(mean - together[self.place]) + variance - dictionary.noise
        return together, np.bincount(self.place, apart * weight) / total + dictionary.noise

    def errors(self, dictionary: Dictionary) -> Array:
        """Absolute errors: squares of a hundred pixels would be those of the few at edges."""
        return np.abs(self.predicted(dictionary, CHECK_DRAWS)[0] - self.value)


class StopWhenStalled:
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
    """The last model, or an early one that is clearly better, with its best odds of use and its errors' scale.

    The scale is learned with the weight of one more pixel at 1: errors of exactly 0 leave no interval of width 0.
    """
    best, errors = as_rich(last, held_out, course)
    if early is not None:
        other, its_errors = as_rich(early, held_out, course)
        gain = errors - its_errors
        best = other if gain.mean() > SIGNIFICANT * gain.std() / math.sqrt(len(gain)) else best
    mean, variance = held_out.predicted(best, n_draws)
    squares = np.square(held_out.value - mean) / variance
    scale = float(np.sqrt((1.0 + squares.sum()) / (1.0 + len(squares))))
    return replace(best, scale=scale, n_draws=n_draws)


def as_rich(model: Any, held_out: HeldOut, course: Course) -> tuple[Dictionary, Array]:
    """The model with the factors of use and precision that held-out pixels prefer, and these pixels' errors."""
    found = [Dictionary(model, richer, sharpness=course.sharpness, sweeps=course.sweeps) for richer in course.richer]
    if len(found) == 1 and not course.stops:  # nothing to choose between
        return found[0], np.zeros(1)
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
    weight = (variance.min() / variance) ** dictionary.sharpness
    total = added_up(weight, pixels.shape)
    image = added_up(weight * mean, pixels.shape) / total
    apart = np.square(mean - extract_patches(image, size)) + variance - 1.0 / dictionary.model.noise_precision_
    return image, added_up(weight * apart, pixels.shape) / total
