"""Images: patches there and back, missing pixels, noise, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import BetaProcessFA
from sksvi.images import denoise, extract_patches, inpaint, reconstruct

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


def test_pixels_are_filled_in(global_random_seed):
    image = picture()
    mask = np.random.default_rng(global_random_seed).random(image.shape) < 0.5
    filled = inpaint(np.where(mask, np.nan, image), mask, estimator=quick(), random_state=global_random_seed)
    np.testing.assert_array_equal(filled[~mask], image[~mask])
    assert np.mean((filled - image)[mask] ** 2) < 0.1 * np.var(image)


def test_noise_is_removed_and_learned(global_random_seed):
    image = picture()
    noisy = image + 15 * np.random.default_rng(global_random_seed).standard_normal(image.shape)
    for sigma in (None, 15.0):
        better = denoise(noisy, sigma=sigma, estimator=quick(), random_state=global_random_seed)
        assert np.mean((better - image) ** 2) < 0.4 * 15**2


def test_integer_and_colour_images():
    image = np.clip(np.stack([picture(24, 24), picture(24, 24)[::-1], np.full((24, 24), 90.0)], -1), 0, 255)
    image = image.astype(np.uint8)
    mask = np.random.default_rng(0).random(image.shape[:2]) < 0.3
    filled = inpaint(image, mask, estimator=quick(max_iter=5), random_state=0)
    assert filled.shape == image.shape and filled.dtype == np.float64
    np.testing.assert_array_equal(filled[~mask], image[~mask])
    better = denoise(image, estimator=quick(max_iter=5), random_state=0)
    assert better.shape == image.shape and np.all(np.isfinite(better))


def test_defaults_need_no_estimator(monkeypatch):
    from sksvi import images

    monkeypatch.setattr(images, "INPAINT_STEPS", 20)
    mask = np.random.default_rng(0).random((30, 30)) < 0.5
    a, b = (inpaint(picture(30, 30), mask, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    estimator = quick(max_iter=2)
    inpaint(picture(30, 30), mask, estimator=estimator, random_state=0)
    assert not hasattr(estimator, "components_")


def test_nothing_missing_and_small_images():
    image = picture(20, 20)
    np.testing.assert_array_equal(inpaint(image, np.zeros(image.shape, bool), estimator=quick(max_iter=2)), image)
    tiny = inpaint(np.eye(3), np.eye(3) == 1, estimator=quick(max_iter=2), random_state=0)
    assert np.all(np.isfinite(tiny))


def test_bad_images():
    image, mask = picture(12, 12), np.zeros((12, 12), bool)
    with pytest.raises(ValueError, match="mask is True everywhere"):
        inpaint(image, ~mask)
    with pytest.raises(ValueError, match="boolean"):
        inpaint(image, mask.astype(int))
    with pytest.raises(ValueError, match=r"mask.shape == \(3, 3\)"):
        inpaint(image, mask[:3, :3])
    with pytest.raises(ValueError, match="found shape"):
        denoise(image[0])
    with pytest.raises(ValueError, match="NaN or infinite"):
        inpaint(np.where(image > image.mean(), np.inf, image), mask)
    with pytest.raises(ValueError, match="real numbers"):
        denoise(image.astype(complex))
    with pytest.raises(ValueError, match="no pixel that is not NaN"):
        denoise(np.full((9, 9), np.nan))
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
    pair = BeforeAfterDisplay(np.where(image > 150, np.nan, image), image, titles=("a", "b")).plot()
    assert [ax.get_title() for ax in pair.axes_] == ["a", "b"]
    with pytest.raises(ValueError, match="images of one shape"):
        BeforeAfterDisplay(image, image[:5])


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
