"""What every display needs: matplotlib when it is there, the estimator inside wrappers, its fitted attributes."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from sksvi.predictive import wrappers

#: Okabe and Ito's colours, told apart by colour-blind eyes: blue, vermilion, green, purple, orange, sky, black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Marks of more series than there are colours.
MARKERS = ("o", "s", "^", "D", "v", "P")


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib. Install it with: pip install 'sksvi[plot]'") from error
    return plt


def style_of(k: int) -> dict[str, Any]:
    """Colour and mark of the k-th of several series: another mark for each round of the colours."""
    return {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k // len(COLORS) % len(MARKERS)]}


def legend_outside(ax: Any, **kwargs: Any) -> None:
    """A legend right of the axes, where it hides no data."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        fontsize="small",
        title_fontsize="small",
        **kwargs,
    )


def legend_above(ax: Any) -> None:
    """A legend in one line above the axes, where it hides no data."""
    handles, _ = ax.get_legend_handles_labels()
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=len(handles), fontsize="small", frameon=False, columnspacing=1.2, **place)


def say_shown(ax: Any, shown: int, total: int, what: str) -> None:
    """A line above the axes where only some are drawn."""
    if shown < total:
        ax.set_title(f"{shown:,} of {total:,} {what}", fontsize="small", loc="left", color="0.3")


def check_most(name: str, value: Any) -> int | None:
    """A limit of how many are drawn: a whole number of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be at least 1, or None; found {value!r}.")
    return int(value)


def check_kind(kind: Any, kinds: Any) -> str:
    """One of the kinds of a display."""
    if kind not in tuple(kinds):
        raise ValueError(f"kind={kind!r} is unknown: choose {' or '.join(map(repr, kinds))}.")
    return str(kind)


def unwrapped(estimator: Any) -> tuple[Any, Any]:
    """Return the estimator inside searches and pipelines, and the pipeline of transformers before it, or None."""
    inner, steps, _ = wrappers.unwrapped(estimator)
    return inner, steps[-1] if steps else None


def refuse_several(model: Any) -> None:
    """An error for a fit to several series, which have no one axis."""
    if hasattr(model, "series_"):
        raise ValueError("this is a fit to several series: draw one of its series_, by name.")


def fitted(estimator: Any, attribute: str) -> Any:
    """A fitted attribute, or an error that says whether fit is missing or the attribute."""
    value = getattr(estimator, attribute, None)
    if value is not None:
        return value
    name = type(estimator).__name__
    if hasattr(estimator, "n_features_in_"):
        raise TypeError(f"estimator must have {attribute!r} after fit; {name} has not.")
    raise NotFittedError(f"This {name} is not fitted yet; call fit before plotting it.")
