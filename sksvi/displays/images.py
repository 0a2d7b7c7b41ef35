"""Pictures of a dictionary of patches, and of an image before and after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import ArrayLike, Axes, ManyAxes
from sksvi.displays._common import axes_for, check_most, fitted, pyplot, say_shown, unwrapped

Array = np.ndarray

#: What is no pixel of a grey image: a colour that dark and bright ones stand out from, to colour-blind eyes too.
NO_GREY = (0.337, 0.706, 0.914)
#: Pixels of a colour image among which no colour is to be like that of missing ones.
PIXELS = 20_000


def apart_from(pixels: Array) -> tuple[float, float, float]:
    """A colour that none of these is like: for grey values a blue, else the one farthest from all, (n, 3) in 0..1."""
    if pixels.ndim == 1 or not len(pixels) or np.all(pixels == pixels[:, :1]):
        return NO_GREY
    some = pixels[:: -(-len(pixels) // PIXELS)]
    steps = np.linspace(0.0, 1.0, 5)
    colours = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    red, green, blue = colours[int(np.argmax([np.min(np.square(some - colour).sum(1)) for colour in colours]))]
    return float(red), float(green), float(blue)


class DictionaryDisplay:
    """The factors of a model of image patches as small squares, the most used first.

    Parameters
    ----------
    components : array-like of shape (n_components, patch_size² channels)
        Rows as :func:`sksvi.images.extract_patches` orders them.

    channels : int, default=1
        Channels of a pixel, 1 or 3.

    n_components : int, default=None
        How many factors there are, where these are but some of them; None: these are all.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    image_ : matplotlib AxesImage
        The mosaic.

    patches : ndarray of shape (n_components, patch_size, patch_size, channels)
        Each factor between 0 and 1, of the sign in which it is brighter.

    gap_color : tuple of float
        The colour between the patches, which is none of theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import DictionaryDisplay
    >>> display = DictionaryDisplay(np.random.default_rng(0).standard_normal((10, 16)))
    >>> display.patches.shape
    (10, 4, 4, 1)
    """

    def __init__(self, components: ArrayLike, *, channels: int = 1, n_components: int | None = None) -> None:
        components = np.asarray(components, float)
        size = math.isqrt(components.shape[1] // channels) if components.ndim == 2 and channels in (1, 3) else 0
        if not size or components.shape[1] != size * size * channels:
            raise ValueError(
                f"components.shape == {components.shape} with channels={channels!r} are not rows of square patches."
            )
        components = components * np.where(components.sum(1, keepdims=True) < 0, -1.0, 1.0)
        low, high = components.min(1, keepdims=True), components.max(1, keepdims=True)
        scaled = (components - low) / np.where(high > low, high - low, 1.0)
        self.patches = scaled.reshape(-1, size, size, channels)
        self.n_components = len(self.patches) if n_components is None else int(n_components)
        self.gap_color = apart_from(scaled.ravel() if channels == 1 else scaled.reshape(-1, 3))

    def plot(self, ax: Axes | None = None, **imshow_kwargs: Any) -> DictionaryDisplay:
        """Draw the mosaic, row by row.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **imshow_kwargs : dict
            Passed on to ``Axes.imshow``.

        Returns
        -------
        display : DictionaryDisplay
            The display itself.
        """
        ax = axes_for(ax, (6.0, 6.0))
        n, size, _, channels = self.patches.shape
        across = math.ceil(math.sqrt(n))
        down = math.ceil(n / across)
        mosaic = np.full((down * (size + 1) - 1, across * (size + 1) - 1, channels), np.nan)
        for i, patch in enumerate(self.patches):
            row, column = divmod(i, across)
            mosaic[row * (size + 1) :, column * (size + 1) :][:size, :size] = patch
        picture = mosaic[..., 0] if channels == 1 else mosaic
        self.image_ = _shown(ax, picture, self.gap_color, {"vmin": 0.0, "vmax": 1.0} | imshow_kwargs)
        say_shown(ax, n, self.n_components, "factors, the most used")
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        channels: int = 1,
        max_components: int | None = 100,
        ax: Axes | None = None,
        **imshow_kwargs: Any,
    ) -> DictionaryDisplay:
        """Draw the factors of a fitted model of patches.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``components_``; a Pipeline or search stands for the estimator inside.

        channels : int, default=1
            Channels of a pixel, 1 or 3.

        max_components : int or None, default=100
            The most factors to draw. None draws all.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **imshow_kwargs : dict
            Passed on to ``Axes.imshow``.

        Returns
        -------
        display : DictionaryDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from sksvi import BetaProcessFA
        >>> from sksvi.displays import DictionaryDisplay
        >>> X = np.random.default_rng(0).standard_normal((50, 16))
        >>> model = BetaProcessFA(n_components=5, max_iter=100, tol=0.1, random_state=0).fit(X)
        >>> DictionaryDisplay.from_estimator(model).patches.shape
        (5, 4, 4, 1)
        """
        max_components = check_most("max_components", max_components)
        components = fitted(unwrapped(estimator)[0], "components_")
        shown = components[:max_components]
        return cls(shown, channels=channels, n_components=len(components)).plot(ax, **imshow_kwargs)


class BeforeAfterDisplay:
    """An image before and after, side by side, on one grey scale.

    Missing pixels have a colour that is none of the image's, and the title says how many there are.

    Parameters
    ----------
    before, after : array-like of shape (height, width) or (height, width, 3)
        Of one shape; NaN where a pixel is missing.

    titles : tuple of str, default=("Before", "After")
        Of the two.

    truth : array-like of the same shape, default=None
        The image as it is: the titles then have the peak signal-to-noise ratio of each that is whole, in dB:
        10 log₁₀ of peak² over the mean squared error.

    peak : float, default=None
        The largest value that a pixel may have. None: 1 where no pixel of `truth` is larger, else 255 (8 bits) where
        none is larger, else the largest one.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The two axes.

    figure_ : matplotlib Figure
        The figure.

    images_ : list of matplotlib AxesImage
        The two pictures.

    psnr : list of float or None
        Of the two; None without `truth`, and where pixels are missing.

    missing_color : tuple of float
        The colour of missing pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import BeforeAfterDisplay
    >>> display = BeforeAfterDisplay(np.eye(4), np.ones((4, 4))).plot()
    >>> [ax.get_title() for ax in display.axes_]
    ['Before', 'After']
    """

    def __init__(
        self,
        before: ArrayLike,
        after: ArrayLike,
        *,
        titles: tuple[str, str] = ("Before", "After"),
        truth: ArrayLike | None = None,
        peak: float | None = None,
    ) -> None:
        self.before, self.after = np.asarray(before, float), np.asarray(after, float)
        if self.before.shape != self.after.shape or self.before.ndim not in (2, 3):
            raise ValueError(f"before {self.before.shape} and after {self.after.shape} must be images of one shape.")
        if self.before.ndim == 3 and self.before.shape[2] != 3:
            raise ValueError(f"images of colours have 3 channels; found before.shape == {self.before.shape}.")
        if not np.any(np.isfinite(self.before)):
            raise ValueError("before has no pixel that is not missing: there is no scale to draw on.")
        self.titles = titles
        truth = None if truth is None else np.asarray(truth, float)
        if truth is not None and (truth.shape != self.before.shape or not np.all(np.isfinite(truth))):
            raise ValueError(f"truth {truth.shape} must be finite and of the shape of before, {self.before.shape}.")
        self.psnr = [None if truth is None else _psnr(image, truth, peak) for image in (self.before, self.after)]
        self.limits = float(np.nanmin(self.before)), float(np.nanmax(self.before))
        coloured = self._scaled(self.before).reshape(-1, 3) if self.before.ndim == 3 else np.empty(0)
        self.missing_color = apart_from(coloured[np.isfinite(coloured).all(1)] if coloured.ndim == 2 else coloured)

    def _scaled(self, image: Array) -> Array:
        """Colours between 0 and 1."""
        low, high = self.limits
        return np.clip((image - low) / (high - low or 1.0), 0.0, 1.0)

    def plot(self, axes: ManyAxes | None = None, **imshow_kwargs: Any) -> BeforeAfterDisplay:
        """Draw both.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **imshow_kwargs : dict
            Passed on to ``Axes.imshow``.

        Returns
        -------
        display : BeforeAfterDisplay
            The display itself.
        """
        if axes is None:
            _, axes = pyplot().subplots(1, 2, figsize=(8.0, 4.6), layout="constrained")
        low, high = self.limits
        self.images_ = []
        for ax, image, title, psnr in zip(axes, (self.before, self.after), self.titles, self.psnr, strict=True):
            picture = self._scaled(image) if image.ndim == 3 else image
            limits = {"vmin": low, "vmax": high}
            self.images_.append(_shown(ax, picture, self.missing_color, limits | imshow_kwargs))
            missing = float(_missing(image).mean())
            notes = [f"{100 * missing:.3g} % missing"] if missing else []
            notes += [] if psnr is None else ["PSNR ∞ dB" if np.isinf(psnr) else f"PSNR {psnr:.1f} dB"]
            ax.set_title("\n".join([title, *notes]))
            ax.set_axis_off()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _missing(image: Array) -> Array:
    """(height, width) of bool: a pixel without one of its channels is missing."""
    return np.isnan(image).any(axis=2) if image.ndim == 3 else np.isnan(image)


def _psnr(image: Array, truth: Array, peak: float | None) -> float | None:
    """Peak signal-to-noise ratio in dB; what a screen clips is clipped."""
    if np.any(np.isnan(image)):
        return None
    largest = float(truth.max())
    top = next((bits for bits in (1.0, 255.0) if largest <= bits), largest) if peak is None else float(peak)
    clipped = np.clip(image, 0.0, top) if truth.min() >= 0 and largest <= top else image
    error = float(np.mean(np.square(clipped - truth)))
    return float(10.0 * np.log10(top**2 / error)) if error > 0 else float("inf")


def _shown(ax: Any, picture: Array, missing: tuple[float, float, float], options: dict[str, Any]) -> Any:
    """An image whose missing pixels have that colour."""
    import matplotlib

    if picture.ndim == 3:
        return ax.imshow(np.where(_missing(picture)[..., None], missing, picture), **options)
    colours = options.get("cmap", "gray")
    colours = matplotlib.colormaps[colours] if isinstance(colours, str) else colours
    return ax.imshow(picture, **options | {"cmap": colours.with_extremes(bad=missing)})
