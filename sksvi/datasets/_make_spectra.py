"""Simulated spectrograms."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from sksvi._typing.arrays import RandomState
from sksvi.datasets._make import _count, _generator

Array = np.ndarray

#: Highest frequency, Hz; ranges of the formants and of their widths, and of the pitch of voiced sounds; their share.
NYQUIST, FORMANTS = 8000.0, ((250, 900), (900, 2500), (2200, 3600), (3500, 6500))
WIDTHS, PITCH, VOICED = (60, 250), (80, 300), 0.7
#: Width of a harmonic, Hz, and what lies between harmonics.
HARMONIC, BETWEEN = 20.0, 0.003
#: Shape of the gamma distribution of activations: most are near 0.
SPARSITY = 0.2


def make_spectra(
    n_samples: int = 1000,
    n_features: int = 257,
    *,
    n_components: int = 50,
    mean_count: float = 50.0,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Counts of a spectrogram in which sounds like those of speech overlap.

    Each component is a spectrum under four formants, seven of ten of them harmonics of a pitch, the others noise;
    activations are Gamma(0.2), independent; counts are Poisson.

    Parameters
    ----------
    n_samples, n_features : int
        Frames (rows) and frequencies from 0 to 8 kHz (columns).
    n_components : int, default=50
        Sounds.
    mean_count : float, default=50.0
        Mean of a cell.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (n_samples, n_features), counts; ``components`` (n_components, n_features), spectra
        of mean 1; ``activations`` (n_samples, n_components), whose product with them is the mean of the counts; and
        ``frequencies`` (n_features,) in Hz.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, or ``mean_count`` is not positive and finite.

    Examples
    --------
    >>> from sksvi.datasets import make_spectra
    >>> bunch = make_spectra(30, 65, n_components=4, mean_count=10.0, random_state=0)
    >>> bunch.data.shape, bunch.components.shape, bunch.activations.shape
    ((30, 65), (4, 65), (30, 4))
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    n_components = _count("n_components", n_components)
    if not (np.isfinite(mean_count) and mean_count > 0):
        raise ValueError(f"mean_count must be positive and finite; found {mean_count}")
    rng = _generator(random_state)
    frequencies = np.linspace(0.0, NYQUIST, n_features)
    components = np.array([_spectrum(frequencies, rng) for _ in range(n_components)])
    components /= components.mean(1, keepdims=True)
    activations = rng.gamma(SPARSITY, mean_count / n_components / SPARSITY, (n_samples, n_components))
    counts = rng.poisson(activations @ components).astype(float)
    return Bunch(data=counts, components=components, activations=activations, frequencies=frequencies)


def _spectrum(f: Array, rng: np.random.Generator) -> Array:
    """Resonances at four formants, times a source of harmonics or noise, falling with frequency."""
    centres = np.array([rng.uniform(*reach) for reach in FORMANTS])
    widths, heights = rng.uniform(*WIDTHS, 4), rng.uniform(0.2, 1.0, 4)
    envelope = (heights / (1.0 + np.square((f[:, None] - centres) / widths))).sum(1)
    envelope *= (1.0 + f / 1000.0) ** -rng.uniform(0.0, 1.5)
    if rng.random() >= VOICED:
        return np.asarray(envelope * rng.uniform(0.3, 0.5, len(f)))
    pitch = rng.uniform(*PITCH)
    apart = f - pitch * np.maximum(np.round(f / pitch), 1.0)
    return np.asarray(envelope * (np.exp(-0.5 * np.square(apart / HARMONIC)) + BETWEEN))
