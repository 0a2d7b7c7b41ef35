"""Separate notes that overlap. `python -m examples.unmix_sounds`.

Six notes of a synthesised instrument are played at random, some together; their spectrogram is taken apart into
components, which are notes and the clicks of their onsets, and when each sounds. Prints how well each note's own sound
comes back from the mixture; draws spectrogram, components and activations into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

from sksvi import GammaProcessNMF

#: Samples a second, seconds, length of a window in samples, and steps between windows.
RATE, SECONDS, WINDOW, HOP = 8000, 20.0, 1024, 256
#: Notes in Hz (a pentatonic scale), how often each is struck, seconds in which it fades, and the noise.
NOTES, STRUCK, FADES, NOISE = (220.0, 246.9, 293.7, 329.6, 392.0, 440.0), 7, 0.6, 1e-3
#: Power that counts as one: the fit is of counts.
LEVELS = 20.0
#: Highest frequency that is drawn.
SHOWN = 2500.0


def notes(rng: np.random.Generator) -> np.ndarray:
    """Each note's own sound, (notes, samples): harmonics that fade, struck at random."""
    t = np.arange(int(RATE * SECONDS)) / RATE
    played = np.zeros((len(NOTES), len(t)))
    for own, pitch in zip(played, NOTES, strict=True):
        strength = rng.gamma(2.0, 0.5, 8) / np.arange(1, 9)
        for start in rng.uniform(0.0, SECONDS - 1.0, STRUCK):
            after = t - start
            sounds = after > 0
            tone = sum(a * np.sin(2 * np.pi * pitch * h * after[sounds]) for h, a in enumerate(strength, 1))
            own[sounds] += rng.uniform(0.4, 1.0) * tone * np.exp(-after[sounds] / FADES)
    return played


def separated(model: GammaProcessNMF, counts: np.ndarray, sound: np.ndarray) -> np.ndarray:
    """Components (K, frames, frequencies) of a complex spectrogram: each cell is shared as its expected counts are."""
    activations = model.transform(counts) * model.component_weights_
    parts = activations.T[:, :, None] * model.components_[:, None, :]
    return sound * parts / np.maximum(parts.sum(0), np.finfo(float).tiny)


def quality(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Signal to distortion, dB."""
    return float(10 * np.log10(np.sum(truth**2) / np.sum((estimate - truth) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="demo-output", help="folder for the figure")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    played = notes(rng)
    mixture = played.sum(0) + NOISE * rng.standard_normal(played.shape[1])

    transform = ShortTimeFFT(hann(WINDOW), HOP, RATE)
    sound = transform.stft(mixture).T
    counts = np.round(LEVELS * np.abs(sound) / np.abs(sound).mean())
    model = GammaProcessNMF(n_components=10, search_passes=150, random_state=0).fit(counts)
    pitches = [strongest(component, transform.f) for component in model.components_]

    parts = np.array([transform.istft(part.T, k1=len(mixture)) for part in separated(model, counts, sound)])
    print(f"{model.n_components_} components of 10 are used; {len(NOTES)} notes were played")
    for pitch, own in zip(NOTES, played, strict=True):
        nearest = np.array([own @ part / np.linalg.norm(part) for part in parts])
        of_note = nearest > 0.5 * nearest.max()
        back = parts[of_note].sum(0)
        print(f"{pitch:6.1f} Hz: {of_note.sum()} component(s), {quality(back, own):5.1f} dB; "
              f"in the mixture {quality(mixture, own):5.1f} dB")  # fmt: skip
    draw(model, counts, transform, pitches, Path(options.output))


def strongest(component: np.ndarray, frequencies: np.ndarray) -> float:
    """Frequency at which a component is largest."""
    return float(frequencies[np.argmax(component)])


def draw(
    model: GammaProcessNMF, counts: np.ndarray, transform: ShortTimeFFT, pitches: list[float], folder: Path
) -> None:
    """The spectrogram, the components by frequency, and when each sounds."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    shown = transform.f <= SHOWN
    order = np.argsort(pitches, kind="stable")
    shares = np.sqrt(model.component_shares_[order] / model.component_shares_.max())
    activations = model.transform(counts)[:, order] * shares
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    left.imshow(np.log1p(counts[:, shown].T), origin="lower", aspect="auto", extent=(0, SECONDS, 0, SHOWN))
    left.set(title="mixture", xlabel="seconds", ylabel="Hz")
    for place, component in enumerate(model.components_[order][:, shown]):
        middle.fill_betweenx(transform.f[shown], place, place + 0.9 * component / component.max(), lw=0.5)
    middle.set(title="components", xlabel="component, by pitch", ylim=(0, SHOWN))
    heights = activations / np.maximum(activations.max(), np.finfo(float).tiny)
    right.imshow(np.sqrt(heights.T), origin="lower", aspect="auto", extent=(0, SECONDS, -0.5, len(order) - 0.5))
    right.set(title="when each sounds", xlabel="seconds", ylabel="component")
    figure.savefig(folder / "unmix_sounds.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
