"""The walk along scales of a prior: where it goes, where it ends, and which scale it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from sksvi.inference.passes.path import FACTOR, FIRST, LEAST, MOST, PathState, chosen, following, tempered

N = 400


@dataclass
class Losses:
    """Averages over rows, in the place of a fit, with the loss that each temperature has."""

    fixed_precision: float | None = None
    mean_square: float = 1.0
    null_loss: float = 1.0
    weight: np.ndarray = field(default_factory=lambda: np.ones(N))
    by_temperature: object = None

    def average(self, values):
        return float(values.mean()), float(values.std() / len(values) ** 0.5)

    def likelihood_at(self, parameters):
        return None

    def unit_of(self, likelihood):
        return 1.0

    def left_out_losses(self, point, temperature, rows):
        return self.by_temperature(temperature)[rows]


def walked(mean_of, noise=0.0, fit=None):
    """The widths of a path whose rows lose `mean_of` the width on average, and the one that is chosen."""
    rng, fit, progress = np.random.default_rng(0), Losses() if fit is None else fit, PathState()
    own = rng.standard_normal(N)
    own -= own.mean()
    while (width := following(progress, fit)) is not None:
        progress = progress.with_point(width, SimpleNamespace(losses=mean_of(width) + noise * own * np.log(width)))
    return progress.widths, progress.widths[chosen(progress, fit)]


def test_it_gets_wider_while_that_pays():
    widths, best = walked(lambda width: (np.log(width) - np.log(FIRST * FACTOR**3)) ** 2)
    np.testing.assert_allclose(widths, FIRST * FACTOR ** np.arange(5))
    assert best == pytest.approx(FIRST * FACTOR**3)


def test_it_gets_narrower_where_wider_is_worse():
    widths, best = walked(lambda width: (np.log(width) - np.log(FIRST / FACTOR**2)) ** 2)
    np.testing.assert_allclose(sorted(widths), FIRST * FACTOR ** np.arange(-3.0, 2.0))
    assert best == pytest.approx(FIRST / FACTOR**2)


def test_it_ends_at_limits():
    assert max(walked(lambda width: -np.log(width))[0]) <= MOST * FACTOR
    assert min(walked(np.log)[0]) >= LEAST / FACTOR


def test_what_is_within_noise_is_as_good():
    """Of losses that differ by less than their noise the narrowest scale is taken."""
    _, clear = walked(lambda width: -0.02 * np.log(width / FIRST) if width < 200 else 1.0)
    _, noisy = walked(lambda width: -0.02 * np.log(width / FIRST) if width < 200 else 1.0, noise=3.0)
    assert clear > FIRST and noisy <= FIRST


def test_a_fixed_precision_has_a_path_of_one():
    widths, best = walked(np.log, fit=Losses(fixed_precision=0.25, mean_square=2.0))
    assert widths == [best]


@pytest.mark.parametrize(("best", "expected"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
def test_the_largest_temperature_that_is_as_good(best, expected):
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(N)
    noise -= noise.mean()

    def losses(temperature):
        away = temperature - best
        return away**2 + 1e-3 * away * noise

    fit = Losses(by_temperature=losses)
    point = SimpleNamespace(variance=np.full((N, 1), 2.0), parameters=np.zeros(0))
    assert tempered(fit, point) == pytest.approx(expected)
