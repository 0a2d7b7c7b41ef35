"""What every display needs: matplotlib when it is there, the estimator inside wrappers, its fitted attributes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

from sksvi.predictive import wrappers
from sksvi.predictive.plain import tail_of

Array = np.ndarray

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


def axes_for(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """The axes to draw on: those given, else those of a new figure of this size, inches."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def panels(
    axes: Any, n: int, what: str, most: int, size: tuple[float, float], margin: float, sharex: bool = True
) -> tuple[Any, bool]:
    """Axes of n panels, `most` at most side by side, each of this size, and whether they are of a new figure."""
    made = axes is None
    if made:
        across = min(n, most)
        down = math.ceil(n / across)
        whole = (size[0] * across, margin + down * size[1])
        options: dict[str, Any] = {"layout": "constrained", "squeeze": False, "sharex": sharex}
        _, grid = pyplot().subplots(down, across, figsize=whole, **options)
        for unused in grid.ravel()[n:]:
            unused.set_visible(False)
        for lowest in grid.ravel()[max(0, n - across) : n]:  # that is drawn of each column
            lowest.tick_params(labelbottom=True)
        axes = grid.ravel()[:n]
    axes = np.atleast_1d(np.asarray(axes, object))
    if axes.shape != (n,):
        raise ValueError(f"{what}, {n}; found shape {axes.shape}.")
    return axes, made


def ranked_bars(ax: Any, lengths: Array, names: list[str], title: str, size: float, style: dict[str, Any]) -> Any:
    """Bars with their names, the first on top."""
    bars = ax.barh(np.arange(len(lengths)), lengths, **style)
    ax.set_yticks(np.arange(len(lengths)), names, fontsize=8)
    ax.set_ylim(len(lengths) - 0.4, -0.6)
    ax.set_title(title, fontsize=size)
    ax.tick_params(axis="x", labelsize=8)
    return bars


def scale_beside(image: Any, label: str, **kwargs: Any) -> Any:
    """The scale of a heat map's colours."""
    colorbar = image.axes.figure.colorbar(image, ax=image.axes, **kwargs)
    colorbar.set_label(label, fontsize=8)
    colorbar.ax.tick_params(labelsize=8)
    return colorbar


def note_above(ax: Any, note: str) -> None:
    """A small line above the axes."""
    if note:
        ax.set_title(note, fontsize="small", loc="left", color="0.3")


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


def legend_above(ax: Any, ncols: int | None = None) -> None:
    """A legend in one line, or in `ncols` columns, above the axes, where it hides no data."""
    handles, _ = ax.get_legend_handles_labels()
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=ncols or len(handles), fontsize="small", frameon=False, columnspacing=1.2, **place)


def central(mean: Any, std: Any, coverage: float) -> tuple[Any, Any]:
    """Ends of the equal-tailed interval of a Gaussian."""
    half = -ndtri(tail_of(coverage)) * std
    return mean - half, mean + half


def say_shown(ax: Any, shown: int, total: int, what: str) -> None:
    """A line above the axes where only some are drawn."""
    note_above(ax, f"{shown:,} of {total:,} {what}" if shown < total else "")


def check_whole(name: str, value: Any, least: int = 1, otherwise: str = "") -> int:
    """A whole number of at least `least`; `otherwise`: what the parameter may be too, for the error."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{otherwise}; found {value!r}.")
    return int(value)


def check_most(name: str, value: Any, least: int = 1) -> int | None:
    """A limit of how many are drawn: a whole number, or None."""
    return None if value is None else check_whole(name, value, least, ", or None")


def check_kind(kind: Any, kinds: Any) -> str:
    """One of the kinds of a display."""
    if kind not in tuple(kinds):
        raise ValueError(f"kind={kind!r} is unknown: choose {' or '.join(map(repr, kinds))}.")
    return str(kind)


def check_one_of(name: str, value: Any, options: Any) -> None:
    """An error for a value that is none of the options."""
    options = list(options)
    if value not in options:
        expected = " or ".join(map(repr, options)) if len(options) == 2 else f"one of {options}"
        raise ValueError(f"{name} must be {expected}; found {value!r}.")


def column_names(given: Any, names: Any, n: int) -> Array:
    """Names of n columns: those given, else those that the estimator or the Pipeline has."""
    names = names if given is None else np.asarray(given, object)
    if names.shape != (n,):
        raise ValueError(f"feature_names has shape {names.shape}, expected {(n,)}.")
    return names


def unwrapped(estimator: Any) -> tuple[Any, Any]:
    """Return the estimator inside searches and pipelines, and the pipeline of transformers before it, or None."""
    inner, steps, _ = wrappers.unwrapped(estimator)
    return inner, steps[-1] if steps else None


def name_of(column: Any, otherwise: str = "y") -> str:
    """Name of a pandas column, else another one."""
    name = getattr(column, "name", None)
    return otherwise if name is None else str(name)


def target_name(model: Any, y: Any = None) -> str:
    """What axes call the target of a fitted model: by the y of its fit, else by the one given, else y."""
    return str(getattr(model, "target_name_", None) or name_of(y))


def outcome_name(model: Any, y: Any = None) -> str:
    """What probabilities of a fitted model of two labels are of, else the name of the target."""
    likelihood, labels = model.likelihood_, getattr(model, "classes_", (0, 1))
    two = likelihood.traits.classifies and likelihood.n_latents == 1
    return target_name(model, y) + (f" = {labels[1]}" if two else "")


#: What axes call the units of effects on the latent where nothing is known of it.
LATENT = "units of the latent"


def latent_unit(model: Any) -> str:
    """What effects on the latent of a fitted model are in: log odds, logarithms of a mean, or the units of y."""
    likelihood = getattr(model, "likelihood_", None)
    if likelihood is None:
        return LATENT
    if likelihood.ratio is None:
        return f"units of {target_name(model)}" if likelihood.traits.additive else LATENT
    unit = "log odds" if likelihood.ratio == "odds" else "log rate" if likelihood.traits.discrete else "log mean"
    return f"{unit} of {outcome_name(model)}" if hasattr(model, "target_name_") else unit


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
