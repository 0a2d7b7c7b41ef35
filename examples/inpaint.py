"""Four fifths of the pixels of a photograph are missing, or noise covers it. `python -m examples.inpaint`.

The photograph comes with scikit-learn. Prints the peak signal-to-noise ratios before and after; draws the pictures and
the dictionary that was learned into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image

from sksvi import BeforeAfterDisplay, BetaProcessFA, DictionaryDisplay
from sksvi.images import denoise, extract_patches, inpaint, reconstruct

#: Rows and columns of the photograph that are used, noise, and the two estimators (None: the default one).
WINDOW = slice(90, 346), slice(150, 406)
SIGMA, MISSING = 15.0, 0.8
ESTIMATOR: BetaProcessFA | None = None


def psnr(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio of an 8-bit image, dB."""
    return float(10 * np.log10(255**2 / np.mean(np.square(np.clip(estimate, 0, 255) - truth))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="demo-output", help="folder for the figures")
    folder = Path(parser.parse_args().output)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    truth = load_sample_image("china.jpg").mean(2)[WINDOW]

    mask = rng.random(truth.shape) < MISSING
    filled = inpaint(truth, mask, estimator=ESTIMATOR, random_state=0)
    mean = np.where(mask, truth[~mask].mean(), truth)
    print(
        f"{100 * MISSING:g} % missing: {psnr(mean, truth):.2f} dB with the mean, {psnr(filled, truth):.2f} dB filled in"
    )
    display = BeforeAfterDisplay(np.where(mask, np.nan, truth), filled, truth=truth).plot()
    display.figure_.savefig(folder / "inpainted.png", dpi=110)

    noisy = truth + SIGMA * rng.standard_normal(truth.shape)
    clean = denoise(noisy, estimator=ESTIMATOR, random_state=0)
    print(f"noise of sd {SIGMA:g}: {psnr(noisy, truth):.2f} dB before, {psnr(clean, truth):.2f} dB after")
    BeforeAfterDisplay(noisy, clean, truth=truth).plot().figure_.savefig(folder / "denoised.png", dpi=110)

    # The same by hand, with the estimator at hand afterwards.
    model = ESTIMATOR or BetaProcessFA(n_components=100, init_factors=20, max_iter=15, tol=5e-2, random_state=0)
    patches = extract_patches(noisy)
    by_hand = reconstruct(model.fit(patches).reconstruct(patches), truth.shape)
    learned = 1 / np.sqrt(model.noise_precision_)
    print(f"by hand: {psnr(by_hand, truth):.2f} dB, noise of sd {learned:.1f} learned")
    DictionaryDisplay.from_estimator(model).figure_.savefig(folder / "dictionary.png", dpi=110)


if __name__ == "__main__":
    main()
