"""Images: patches there and back, missing pixels, noise, bad input."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sksvi import BetaProcessFA
from sksvi.images import _fit, _patches, denoise, extract_patches, inpaint, reconstruct
from sksvi.images._patches import BATCH_ROWS, MOST_PATCHES, MOST_STEPS, default_estimator

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def picture(height=48, width=40):
    """Stripes and a disc, 0..255."""
    y, x = np.mgrid[:height, :width]
    return 127 + 60 * np.sin(x / 3.0 + y / 5.0) + 60.0 * (np.hypot(y - 20, x - 22) < 10)


def quick(**parameters):
    return BetaProcessFA(**{"n_components": 30, "max_iter": 15, "tol": 0.0, **parameters})


@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3)])
@pytest.mark.parametrize("size", [1, 3, 6])
def test_patches_there_and_back(shape, size):
    image = np.random.default_rng(0).standard_normal(shape)
    patches = extract_patches(image, size)
    channels = 1 if len(shape) == 2 else shape[2]
    assert patches.shape == ((10 - size) * (8 - size), size * size * channels)
    np.testing.assert_array_equal(patches[1], image[:size, 1 : 1 + size].ravel())
    np.testing.assert_allclose(reconstruct(patches, shape), image, atol=1e-12)


def test_means_over_patches_are_weighted_by_precision():
    """Two patches of two pixels share the middle one of three: worked out by hand."""
    patches = np.array([[1.0, 2.0, 1.0, 2.0], [4.0, 5.0, 4.0, 5.0]])
    std = np.array([[1.0, 1.0, 1.0, 2.0], [2.0, 1.0, 1.0, 1.0]])
    wanted = np.array([[1.0, (2 / 1 + 4 / 4) / (1 + 1 / 4), 5.0], [1.0, (2 / 4 + 4 / 1) / (1 / 4 + 1), 5.0]])
    np.testing.assert_allclose(reconstruct(patches, (2, 3), std=std), wanted)
    np.testing.assert_allclose(reconstruct(1e200 * patches, (2, 3), std=1e200 * std), 1e200 * wanted)
    plain = reconstruct(patches, (2, 3))
    np.testing.assert_allclose(reconstruct(patches, (2, 3), std=np.full((2, 4), 7.0)), plain)
    np.testing.assert_allclose(plain[:, 1], 3.0)


def test_missing_pixels_are_nan_in_every_patch():
    image, mask = np.ones((6, 6)), np.zeros((6, 6), bool)
    mask[2, 3] = True
    patches = extract_patches(np.where(mask, np.nan, image), 3, mask=mask)
    assert np.isnan(patches).sum() == 9
    assert extract_patches(image.astype(np.float32), 3).dtype == np.float32


@pytest.mark.costly
def test_pixels_are_filled_in(global_random_seed):
    image = picture()
    mask = np.random.default_rng(global_random_seed).random(image.shape) < 0.5
    filled = inpaint(np.where(mask, np.nan, image), mask, estimator=quick(), random_state=global_random_seed)
    np.testing.assert_array_equal(filled[~mask], image[~mask])
    assert np.mean((filled - image)[mask] ** 2) < 0.1 * np.var(image)


@pytest.mark.costly
def test_noise_is_removed_and_learned(global_random_seed):
    image = picture()
    noisy = image + 15 * np.random.default_rng(global_random_seed).standard_normal(image.shape)
    for sigma in (None, 15.0):
        better = denoise(noisy, sigma=sigma, estimator=quick(), random_state=global_random_seed)
        assert np.mean((better - image) ** 2) < 0.4 * 15**2


@pytest.mark.costly
def test_integer_and_colour_images():
    image = np.clip(np.stack([picture(24, 24), picture(24, 24)[::-1], np.full((24, 24), 90.0)], -1), 0, 255)
    image = image.astype(np.uint8)
    mask = np.random.default_rng(0).random(image.shape[:2]) < 0.3
    filled = inpaint(image, mask, estimator=quick(max_iter=5), random_state=0)
    assert filled.shape == image.shape and filled.dtype == np.uint8
    np.testing.assert_array_equal(filled[~mask], image[~mask])
    better = denoise(image, estimator=quick(max_iter=5), random_state=0)
    assert better.shape == image.shape and better.dtype == np.uint8


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_results_have_the_type_and_the_range_of_what_was_observed(dtype, global_random_seed):
    """A flat image with spikes, that a sum of patterns overshoots: channel by channel."""
    rng = np.random.default_rng(global_random_seed)
    image = np.where(rng.random((20, 20, 2)) < 0.3, 200, 20) + np.array([0, 30])
    image = (image / 255).astype(dtype) if np.dtype(dtype).kind == "f" else image.astype(dtype)
    mask = rng.random((20, 20)) < 0.4
    filled, std = inpaint(image, mask, quality="fast", return_std=True, random_state=global_random_seed)
    clean = denoise(image, quality="fast", random_state=global_random_seed)
    for found, observed in ((filled, image[~mask]), (clean, image.reshape(-1, 2))):
        assert found.dtype == dtype and found.shape == image.shape
        assert np.all((found >= observed.min(0)) & (found <= observed.max(0)))
    assert std.dtype == (np.float32 if dtype == np.float32 else np.float64)


def test_fast_results_are_near(global_random_seed):
    """Half of the pixels, or noise: most of the variance is found, by few steps of few factors."""
    image = picture()
    rng = np.random.default_rng(global_random_seed)
    mask = rng.random(image.shape) < 0.5
    filled = inpaint(image, mask, quality="fast", random_state=global_random_seed)
    assert np.mean((filled - image)[mask] ** 2) < 0.1 * np.var(image)
    noisy = image + 15 * rng.standard_normal(image.shape)
    better = denoise(noisy, quality="fast", random_state=global_random_seed)
    assert np.mean((better - image) ** 2) < 0.4 * 15**2
    with pytest.raises(ValueError, match="quality must be one of 'best', 'fast'; found 'good'"):
        inpaint(image, mask, quality="good")


@pytest.mark.costly
def test_defaults_need_no_estimator():
    mask = np.random.default_rng(0).random((30, 30)) < 0.5
    a, b = (inpaint(picture(30, 30), mask, max_iter=5, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    estimator = quick(max_iter=2)
    inpaint(picture(30, 30), mask, estimator=estimator, random_state=0)
    assert not hasattr(estimator, "components_")


def test_pixels_that_are_nan_are_a_mask():
    image = picture(24, 24)
    mask = np.random.default_rng(0).random(image.shape) < 0.3
    holes = np.where(mask, np.nan, image)
    wanted = inpaint(image, mask, max_iter=5, random_state=0)
    np.testing.assert_array_equal(inpaint(holes, max_iter=5, random_state=0), wanted)
    # Some by the mask, some as NaN.
    first = np.arange(24)[:, None] < 12
    mixed = np.where(first, holes, image)
    np.testing.assert_array_equal(inpaint(mixed, mask & ~first, max_iter=5, random_state=0), wanted)


def test_threads_change_no_bit_and_verbose_shows_the_passes(capsys):
    image = picture(24, 24)
    image[::2, ::3] = np.nan
    one = inpaint(image, max_iter=3, return_std=True, random_state=0)
    capsys.readouterr()
    two = inpaint(image, max_iter=3, return_std=True, random_state=0, n_jobs=2, verbose=1)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert "BetaProcessFA" in capsys.readouterr().err


@pytest.mark.costly
def test_settings_override_those_of_the_estimator(monkeypatch):
    fitted = []
    fit = BetaProcessFA.fit
    monkeypatch.setattr(BetaProcessFA, "fit", lambda self, X, y=None: fitted.append(self) or fit(self, X, y))
    image = picture(20, 20)
    denoise(image, estimator=quick(), max_iter=2, n_jobs=2, sigma=3.0, random_state=4)
    denoise(image, estimator=quick(max_iter=3, random_state=1), random_state=4)
    names = ("max_iter", "n_jobs", "noise", "random_state")
    assert [[model.get_params()[name] for name in names] for model in fitted] == [
        [2, 2, 3.0, 4],
        [3, None, "shared", 1],
    ]


@pytest.mark.costly
def test_standard_deviations_cover(global_random_seed):
    """Pixels are inside intervals of 90 %: those that are missing, and all without their noise."""
    rng = np.random.default_rng(global_random_seed)
    image, mask = picture(32, 32), rng.random((32, 32)) < 0.5
    observed = image + 10 * rng.standard_normal(image.shape)
    filled, std = inpaint(observed, mask, return_std=True, max_iter=12, random_state=global_random_seed)
    assert np.all(std[~mask] == 0) and np.all(std[mask] > 0)
    # About 25 held-out pixels give the scale, 15 % or so of it; errors of neighbours go together.
    assert 0.75 < np.mean(np.abs(filled - observed)[mask] < 1.645 * std[mask]) < 0.995
    clean, std = denoise(observed, sigma=10.0, return_std=True, max_iter=12, random_state=global_random_seed)
    assert clean.shape == std.shape == image.shape
    assert np.mean(np.abs(clean - image) < 1.645 * std) > 0.75


@pytest.mark.parametrize("scale, shift", [(1 / 255, 0.0), (1e4, 0.0), (1e-3, 1e4)])
def test_images_of_any_scale(scale, shift):
    image = picture(20, 20)
    mask = np.random.default_rng(0).random(image.shape) < 0.3
    wanted, std = inpaint(image, mask, max_iter=10, return_std=True, random_state=0)
    found, other = inpaint(scale * image + shift, mask, max_iter=10, return_std=True, random_state=0)
    np.testing.assert_allclose((found - shift) / scale, wanted, atol=1e-2)
    np.testing.assert_allclose(other / scale, std, atol=1e-2)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 3), (5, 5), (9, 2, 3)])
def test_images_smaller_than_a_patch(shape):
    image = np.random.default_rng(0).random(shape)
    mask = np.zeros(shape[:2], bool)
    mask[0, 0] = image.size > 3
    filled, std = inpaint(image, mask, return_std=True, max_iter=20, random_state=0)
    assert filled.shape == std.shape == shape and np.all(np.isfinite(filled)) and np.all(np.isfinite(std))
    assert np.all(np.isfinite(denoise(image, max_iter=20, random_state=0)))


def test_constant_images_and_single_observed_pixels():
    constant = np.full((20, 20), 7.0)
    holes = constant.copy()
    holes[::3] = np.nan
    filled, std = inpaint(holes, return_std=True, max_iter=10, random_state=0)
    np.testing.assert_allclose(filled, constant, atol=1e-6)
    assert np.all(np.isfinite(std))
    np.testing.assert_allclose(denoise(constant, max_iter=10, random_state=0), constant, atol=1e-6)
    # A place of a patch without an observed pixel would have no mean: patches become smaller.
    alone = np.full((6, 6), np.nan)
    alone[2, 3] = 5.0
    np.testing.assert_allclose(inpaint(alone, random_state=0), 5.0, atol=1e-6)


def test_steps_follow_from_the_number_of_patches():
    sizes = [default_estimator(n, {}) for n in (16, 1681, 7921, 62_001, 255_025)]
    batches = [np.ceil(min(n, MOST_PATCHES) / BATCH_ROWS) for n in (16, 1681, 7921, 62_001, 255_025)]
    steps = [model.max_iter * b for model, b in zip(sizes, batches, strict=True)]
    assert steps == sorted(steps) and steps[0] <= 200 and steps[-1] < MOST_STEPS + batches[-1]
    assert [model.n_components for model in sizes] == [6, 62, 134, 250, 250]


@pytest.mark.costly
@pytest.mark.parametrize("gain, steps", [(1.0, 30), (-np.inf, 60)])
def test_a_fit_ends_where_held_out_pixels_gain_nothing(monkeypatch, gain, steps):
    """Of a budget of 60 steps: the first check from half of it on ends the fit, or none does."""
    fitted = []
    fit = BetaProcessFA.fit
    monkeypatch.setattr(BetaProcessFA, "fit", lambda self, X, y=None: fitted.append(self) or fit(self, X, y))
    monkeypatch.setattr(_fit, "FIRST_CHECK", 5)
    monkeypatch.setattr(_fit, "GAIN", gain)
    denoise(picture(30, 30), max_iter=20, random_state=0)
    # Three steps a pass; checks after 6, 9, 15, 21, 30, ...
    assert fitted[0].n_steps_ == steps


def test_noise_is_held_where_most_pixels_are_missing(monkeypatch):
    fitted = []
    fit = BetaProcessFA.fit
    monkeypatch.setattr(BetaProcessFA, "fit", lambda self, X, y=None: fitted.append(self) or fit(self, X, y))
    monkeypatch.setattr(_patches, "MANY_PATCHES", 100)
    image, order = picture(20, 20), np.random.default_rng(0).permutation(400).reshape(20, 20)
    for share, scale in ((0.5, 1.0), (0.7, 1.0), (0.7, 10.0)):
        inpaint(scale * image, order < share * 400, max_iter=1, random_state=0)
    spread = image[order >= 280].std()
    # Three tenths are seen: of 8 x 8 pixels about 20.
    assert [model.n_features_in_ for model in fitted] == [64] * 3 and isinstance(fitted[0].init, str)
    assert [model.init.shape for model in fitted[1:]] == [(model.n_components, 64) for model in fitted[1:]]
    assert fitted[0].noise == "shared" and fitted[0].weight_precision == "learned"
    assert fitted[1].noise == pytest.approx(0.15 * spread) and fitted[1].weight_precision == 1.0
    assert fitted[2].noise == pytest.approx(1.5 * spread)
    assert [model.n_burn_in for model in fitted] == [8, 3, 3]
    monkeypatch.setattr(_patches, "MANY_PATCHES", 1000)
    inpaint(image, order < 280, max_iter=1, random_state=0)
    assert fitted[3].noise == "shared" and fitted[3].weight_precision == "learned"


@pytest.mark.parametrize("share, channels, side", [(0.51, 1, 8), (0.7, 1, 8), (0.8, 1, 10), (0.95, 1, 10), (0.8, 3, 8)])
def test_patches_of_thinly_seen_images_hold_twenty_numbers_or_are_ten_wide(share, channels, side):
    image = np.random.default_rng(0).random((160, 160, channels))
    pixels, missing = _patches.pixels_of(image, np.arange(25_600).reshape(160, 160) % 100 < 100 * share)
    course = _patches.thinly_seen(pixels, missing)["course"]
    assert course.patch_size == side and course.cosines


@pytest.mark.parametrize("size, channels", [(1, 1), (8, 1), (10, 1), (3, 3)])
def test_a_dictionary_starts_from_cosines_of_unit_length(size, channels):
    atoms = _patches.cosines(250, size, channels)
    np.testing.assert_allclose(np.square(atoms).sum(1), 1.0)
    np.testing.assert_allclose(atoms[0], (size**2 * channels) ** -0.5)
    # Any patch is a sum of them.
    assert np.linalg.matrix_rank(atoms) == size**2 * channels


@pytest.mark.costly
def test_little_seen_takes_all_steps_and_is_estimated_with_richer_patches_and_sharper_weights(monkeypatch):
    monkeypatch.setattr(_patches, "MANY_PATCHES", 100)
    monkeypatch.setattr(_fit, "stalled", lambda checks: True)  # a hundred held-out pixels would end the fit
    pixels, missing = _patches.pixels_of(picture(48, 48), np.random.default_rng(0).random((48, 48)) < 0.7)
    defaults = _patches.thinly_seen(pixels, missing)
    dictionary = _fit.learned(pixels, missing, None, defaults, max_iter=4, seed=0)
    assert dictionary.model.n_iter_ == 4
    assert dictionary.richer == (5.0, 1.0) and dictionary.sharpness == 1.5
    sooner = defaults | {"course": replace(defaults["course"], stops=True)}
    assert _fit.learned(pixels, missing, None, sooner, max_iter=40, seed=0).model.n_iter_ < 40


@pytest.mark.parametrize("unit", [1.0, 1e150])
def test_patches_are_weighted_by_a_power_of_their_precisions(unit):
    rng = np.random.default_rng(0)
    mean, variance = unit * rng.standard_normal((4, 4)), unit**2 * rng.uniform(0.5, 2.0, (4, 4))

    class Known(_fit.Dictionary):
        def predicted(self, patches, n_draws):
            return mean, variance

    model = SimpleNamespace(n_features_in_=4, noise_precision_=unit**-2 / 0.1)
    for sharpness in (1.0, 1.5):
        image, _ = _fit.estimated(Known(model, sharpness=sharpness), np.zeros((3, 3, 1)))
        # The middle pixel is in all four patches of 2 x 2, at another corner of each.
        at = range(4), [3, 2, 1, 0]
        own, weight = mean[at], (variance[at] / unit**2) ** -sharpness
        assert image[1, 1, 0] == pytest.approx(np.average(own, weights=weight))


def test_nothing_missing():
    image = picture(20, 20)
    np.testing.assert_array_equal(inpaint(image, np.zeros(image.shape, bool), estimator=quick(max_iter=2)), image)
    np.testing.assert_array_equal(inpaint(image, max_iter=2), image)


def test_bad_images():
    image, mask = picture(12, 12), np.zeros((12, 12), bool)
    with pytest.raises(ValueError, match="every pixel is missing"):
        inpaint(image, ~mask)
    colour = np.stack([image, image, np.full_like(image, np.nan)], -1)
    with pytest.raises(ValueError, match="channel 2 of image has no observed pixel"):
        inpaint(colour)
    with pytest.raises(ValueError, match="boolean"):
        inpaint(image, mask.astype(int))
    with pytest.raises(ValueError, match=r"mask.shape == \(3, 3\)"):
        inpaint(image, mask[:3, :3])
    with pytest.raises(ValueError, match="found shape"):
        denoise(image[0])
    with pytest.raises(ValueError, match="infinite values"):
        inpaint(np.where(image > image.mean(), np.inf, image), mask)
    with pytest.raises(ValueError, match="real numbers"):
        denoise(image.astype(complex))
    with pytest.raises(ValueError, match="every pixel is missing"):
        denoise(np.full((9, 9), np.nan))
    for wrong in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="max_iter"):
            inpaint(image, max_iter=wrong)
    for sigma in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="sigma"):
            denoise(image, sigma=sigma)
    for size in (0, 13, 2.0, True):
        with pytest.raises(ValueError, match="patch_size"):
            extract_patches(image, size)
    with pytest.raises(ValueError, match="not all patches"):
        reconstruct(np.ones((5, 4)), (9, 9))
    with pytest.raises(ValueError, match="expected that of patches"):
        reconstruct(np.ones((4, 4)), (3, 3), std=np.ones((4, 1)))
    with pytest.raises(ValueError, match="std must be positive"):
        reconstruct(np.ones((4, 4)), (3, 3), std=np.zeros((4, 4)))


def test_displays_of_dictionary_and_images():
    pytest.importorskip("matplotlib")
    from sklearn.exceptions import NotFittedError

    from sksvi.displays import BeforeAfterDisplay, DictionaryDisplay

    with pytest.raises(NotFittedError):
        DictionaryDisplay.from_estimator(quick())
    model = quick(max_iter=2, random_state=0).fit(extract_patches(picture(20, 20), 4))
    display = DictionaryDisplay.from_estimator(model, max_components=7)
    assert display.patches.shape == (7, 4, 4, 1)
    assert display.image_.get_array().shape == (3 * 5 - 1, 3 * 5 - 1)
    assert DictionaryDisplay(np.ones((2, 12)), channels=3).plot().patches.shape == (2, 2, 2, 3)
    with pytest.raises(ValueError, match="not rows of square patches"):
        DictionaryDisplay(np.ones((2, 12)))
    image = np.stack([picture(9, 9)] * 3, -1)
    holes = np.where(image > 150, np.nan, image)
    pair = BeforeAfterDisplay(holes, image, titles=("a", "b")).plot()
    missing = 100 * np.mean(image[..., 0] > 150)
    assert [ax.get_title() for ax in pair.axes_] == [f"a\n{missing:.3g} % missing", "b"]
    with pytest.raises(ValueError, match="images of one shape"):
        BeforeAfterDisplay(image, image[:5])


@pytest.mark.exhaustive
def test_example(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    import sys

    from examples import inpaint as example

    monkeypatch.setattr(example, "ESTIMATOR", quick(max_iter=1, random_state=0))
    monkeypatch.setattr(example, "WINDOW", (slice(90, 140), slice(150, 200)))
    monkeypatch.setattr(sys, "argv", ["inpaint", "--output", str(tmp_path)])
    example.main()
    printed = capsys.readouterr().out
    assert "80 % missing" in printed and "noise of sd 15" in printed and "learned" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["denoised.png", "dictionary.png", "inpainted.png"]


def test_missing_pixels_have_a_colour_of_their_own(global_random_seed):
    pytest.importorskip("matplotlib")
    from sksvi.displays import BeforeAfterDisplay, DictionaryDisplay
    from sksvi.displays.images import apart_from

    rng = np.random.default_rng(global_random_seed)
    grey = picture(20, 20)
    mask = rng.random(grey.shape) < 0.5
    pair = BeforeAfterDisplay(np.where(mask, np.nan, grey), grey).plot()
    drawn = pair.images_[0].to_rgba(pair.images_[0].get_array())
    assert np.allclose(drawn[mask][:, :3], pair.missing_color) and np.ptp(drawn[mask][0, :3]) > 0.3
    assert np.allclose(np.ptp(drawn[~mask][:, :3], axis=1), 0)
    # Colours: none of the image's is near, whatever they are.
    for taken in ([0, 0, 1], [1, 0, 0], [0.2, 0.7, 0.9]):
        image = np.clip(np.array(taken) + 0.05 * rng.standard_normal((20, 20, 3)), 0, 1)
        image[0, 0], image[0, 1] = 0, 1
        pair = BeforeAfterDisplay(np.where(mask[..., None], np.nan, image), image).plot()
        shown = pair.images_[0].get_array()
        assert np.all(shown[mask] == pair.missing_color)
        apart = np.linalg.norm(image.reshape(-1, 3) - pair.missing_color, axis=1)
        assert apart.min() > 0.5
    assert apart_from(np.empty((0, 3))) == apart_from(np.repeat(rng.random((9, 1)), 3, axis=1))
    parts = DictionaryDisplay(rng.standard_normal((3, 4)), n_components=7).plot()
    gaps = np.ma.getmaskarray(parts.image_.get_array())
    assert gaps[:, 2].all() and gaps[2].all() and parts.ax_.get_title(loc="left") == "3 of 7 factors, the most used"


def test_the_title_says_the_signal_to_noise_ratio():
    """By hand: an error of 10 everywhere is 10 log10(255^2 / 100) = 28.13 dB; one of 0.1 of a peak of 1, 20 dB."""
    pytest.importorskip("matplotlib")
    from sksvi.displays import BeforeAfterDisplay

    truth = np.full((4, 4), 100.0)
    holes = np.where(np.eye(4) > 0, np.nan, truth)
    pair = BeforeAfterDisplay(holes, truth + 10, truth=truth).plot()
    assert pair.psnr[0] is None and pair.psnr[1] == pytest.approx(28.1308, abs=1e-4)
    assert pair.axes_[1].get_title() == "After\nPSNR 28.1 dB"
    small = BeforeAfterDisplay(np.full((2, 2), 0.6), np.full((2, 2), 0.5), truth=np.full((2, 2), 0.5))
    assert small.psnr == [pytest.approx(20.0), np.inf]
    assert BeforeAfterDisplay(truth, truth + 10, truth=truth, peak=1000).psnr[1] == pytest.approx(40.0)
    with pytest.raises(ValueError, match=r"truth \(3, 3\) must be finite and of the shape of before, \(4, 4\)"):
        BeforeAfterDisplay(truth, truth, truth=np.ones((3, 3)))
    with pytest.raises(ValueError, match="before has no pixel that is not missing"):
        BeforeAfterDisplay(np.full((2, 2), np.nan), np.ones((2, 2)))
