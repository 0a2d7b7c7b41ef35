"""Plane waves: what a dictionary of an image's patches starts from.

Textures are sums of few of them at any angle; from random factors they take thousands of steps to be found.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray

#: How much dearer frequencies are of waves that differ between channels: colours vary slowly.
COLOUR = 3.0
#: Length of a sampled wave, relative to its amplitude times the root of the patch, below which it is no wave.
NOTHING = 1e-6


def waves(n: int, channels: int, width: int, rng: np.random.RandomState) -> Array:
    """n patches of unit length, (n, width = size² channels): cosines and sines, the slowest first, then random ones.

    Frequencies are the multiples of 1/ceil(sqrt(n)) in both directions, so that there are about n cosines and sines of
    one channel.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi._waves import waves
    >>> first = waves(5, 1, 16, np.random.RandomState(0))
    >>> first.shape, bool(np.allclose(first[0], 0.25)), bool(np.allclose(np.linalg.norm(first, axis=1), 1.0))
    ((5, 16), True, True)
    """
    grid, size = math.ceil(math.sqrt(n)), math.isqrt(width // channels)
    place = np.arange(size) - 0.5 * (size - 1)
    colours = np.cos(np.pi * np.outer(np.arange(channels), np.arange(channels) + 0.5) / channels)
    found = []
    for down, right in _frequencies(grid):
        angle = 2 * np.pi * np.add.outer(down * place, right * place) / grid
        for c, colour in enumerate(colours):
            dear = math.hypot(down, right) * (COLOUR if c else 1.0)
            for wave in (np.cos(angle), np.sin(angle)):
                patch = np.multiply.outer(wave, colour).ravel()
                if np.linalg.norm(patch) > NOTHING * size:
                    found.append((dear, patch))
    found.sort(key=lambda pair: pair[0])
    patches = np.stack([patch for _, patch in found[:n]])
    patches = np.concatenate([patches, rng.standard_normal((n - len(patches), width))])
    return patches / np.linalg.norm(patches, axis=1, keepdims=True)


def _frequencies(grid: int) -> list[tuple[int, int]]:
    """One of each pair of opposite frequencies modulo the grid, where half an even grid is its own opposite."""
    half, own = grid // 2, (0, grid / 2)
    pairs = [(down, right) for down in range(half + 1) for right in range(-((grid - 1) // 2), half + 1)]
    return [(down, right) for down, right in pairs if down not in own or right >= 0]
