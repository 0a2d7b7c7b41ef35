"""Pictures of a dictionary of patches, and of an image before and after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sksvi.displays._common import fitted, pyplot, unwrapped

Array = np.ndarray


class DictionaryDisplay:
    """The factors of a model of image patches as small squares, the most used first.

    Parameters
    ----------
    components : array-like of shape (n_components, patch_size² channels)
        Rows as :func:`sksvi.images.extract_patches` orders them.

    channels : int, default=1
        Channels of a pixel, 1 or 3.

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

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import DictionaryDisplay
    >>> display = DictionaryDisplay(np.random.default_rng(0).standard_normal((10, 16)))
    >>> display.patches.shape
    (10, 4, 4, 1)
    """

    def __init__(self, components: Any, *, channels: int = 1) -> None:
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

    def plot(self, ax: Any = None, **imshow_kwargs: Any) -> DictionaryDisplay:
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
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.0, 6.0), layout="constrained")
        n, size, _, channels = self.patches.shape
        across = math.ceil(math.sqrt(n))
        down = math.ceil(n / across)
        mosaic = np.ones((down * (size + 1) - 1, across * (size + 1) - 1, channels))
        for i, patch in enumerate(self.patches):
            row, column = divmod(i, across)
            mosaic[row * (size + 1) :, column * (size + 1) :][:size, :size] = patch
        picture = mosaic[..., 0] if channels == 1 else mosaic
        self.image_ = ax.imshow(picture, **({"cmap": "gray", "vmin": 0.0, "vmax": 1.0} | imshow_kwargs))
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        channels: int = 1,
        max_components: int | None = 100,
        ax: Any = None,
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
        components = fitted(unwrapped(estimator)[0], "components_")
        return cls(components[:max_components], channels=channels).plot(ax, **imshow_kwargs)


class BeforeAfterDisplay:
    """An image before and after, side by side, on one grey scale.

    Parameters
    ----------
    before, after : array-like of shape (height, width) or (height, width, 3)
        Of one shape; NaN in ``before`` is left blank.

    titles : tuple of str, default=("Before", "After")
        Of the two.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The two axes.

    figure_ : matplotlib Figure
        The figure.

    images_ : list of matplotlib AxesImage
        The two pictures.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import BeforeAfterDisplay
    >>> display = BeforeAfterDisplay(np.eye(4), np.ones((4, 4))).plot()
    >>> [ax.get_title() for ax in display.axes_]
    ['Before', 'After']
    """

    def __init__(self, before: Any, after: Any, *, titles: tuple[str, str] = ("Before", "After")) -> None:
        self.before, self.after = np.asarray(before, float), np.asarray(after, float)
        if self.before.shape != self.after.shape or self.before.ndim not in (2, 3):
            raise ValueError(f"before {self.before.shape} and after {self.after.shape} must be images of one shape.")
        self.titles = titles

    def plot(self, axes: Any = None, **imshow_kwargs: Any) -> BeforeAfterDisplay:
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
            _, axes = pyplot().subplots(1, 2, figsize=(8.0, 4.2), layout="constrained")
        low, high = np.nanmin(self.before), np.nanmax(self.before)
        self.images_ = []
        for ax, picture, title in zip(axes, (self.before, self.after), self.titles, strict=True):
            if picture.ndim == 3:  # colours are drawn between 0 and 1
                picture = np.clip((picture - low) / (high - low or 1.0), 0.0, 1.0)
            self.images_.append(ax.imshow(picture, **({"cmap": "gray", "vmin": low, "vmax": high} | imshow_kwargs)))
            ax.set_title(title)
            ax.set_axis_off()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
