"""The lower bound pass by pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sksvi.displays._common import fitted, pyplot, unwrapped

_COLUMNS = {"pass": "Passes over the data", "seconds": "Seconds", "rows": "Rows seen", "step": "Steps"}


class LowerBoundDisplay:
    """Lower bound on the log evidence, pass by pass, of one or several fits.

    Parameters
    ----------
    traces : mapping of str to (ndarray of shape (n_passes,), ndarray of shape (n_passes,))
        For each fit its name, the horizontal coordinates and the bounds in nats.

    x : {"pass", "seconds", "rows", "step"}, default="pass"
        What the horizontal coordinates are.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    lines_ : list of matplotlib Line2D
        One line per fit, in the order of ``traces``.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import LowerBoundDisplay
    >>> display = LowerBoundDisplay({"cvi": (np.array([1, 2, 3]), np.array([-90.0, -81.0, -80.5]))})
    >>> display.plot().ax_.get_ylabel()
    'Lower bound (nats)'
    """

    def __init__(self, traces: Mapping[str, tuple[np.ndarray, np.ndarray]], *, x: str = "pass") -> None:
        if x not in _COLUMNS:
            raise ValueError(f"x must be one of {list(_COLUMNS)}; found {x!r}.")
        self.traces = dict(traces)
        self.x = x

    def plot(self, ax: Any = None, **line_kwargs: Any) -> LowerBoundDisplay:
        """Draw the bounds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for every line.

        Returns
        -------
        display : LowerBoundDisplay
            The display itself.
        """
        if ax is None:
            _, ax = pyplot().subplots()
        self.lines_ = []
        for name, (x, bound) in self.traces.items():
            marker = {"marker": "o"} if len(x) == 1 else {}  # a line through one point would be invisible
            self.lines_ += ax.plot(x, bound, **({"label": name} | marker | line_kwargs))
        ax.set_xlabel(_COLUMNS[self.x])
        ax.set_ylabel("Lower bound (nats)")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "pass", ax: Any = None, **line_kwargs: Any
    ) -> LowerBoundDisplay:
        """Draw the bound per pass of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : fitted estimator, or mapping of str to fitted estimator
            Estimators with ``history_``; a Pipeline or search stands for the estimator inside. The keys of a mapping
            name the lines.

        x : {"pass", "seconds", "rows", "step"}, default="pass"
            Column of ``history_`` along the horizontal axis.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for every line.

        Returns
        -------
        display : LowerBoundDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If an estimator is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.preprocessing import scale
        >>> from sksvi import BayesianGLMClassifier, LowerBoundDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> fits = {name: BayesianGLMClassifier(algorithm=name).fit(scale(X), y) for name in ("cvi", "mc-ssvi")}
        >>> len(LowerBoundDisplay.from_estimator(fits).lines_)
        2
        """
        fits = estimator if isinstance(estimator, Mapping) else {type(unwrapped(estimator)[0]).__name__: estimator}
        if x not in _COLUMNS:
            raise ValueError(f"x must be one of {list(_COLUMNS)}; found {x!r}.")
        traces = {}
        for name, fit in fits.items():
            history = fitted(unwrapped(fit)[0], "history_")
            traces[str(name)] = (history[x].to_numpy(), history["bound"].to_numpy())
        return cls(traces, x=x).plot(ax, **line_kwargs)
