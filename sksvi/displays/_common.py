"""What every display needs: matplotlib when it is there, the estimator inside wrappers, its fitted attributes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sklearn.exceptions import NotFittedError

from sksvi.predictive import wrappers

#: Okabe and Ito's colours, told apart by colour-blind eyes: blue, vermilion, green, purple, orange, sky, black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Marks of more series than there are colours.
MARKERS = ("o", "s", "^", "D", "v", "P")
#: Letters of a name that are drawn.
LONGEST = 32
#: Letters back to the start of a word, at most.
WORD = 8


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


def shortened(name: Any, longest: int = LONGEST) -> str:
    """A name as it is drawn: its middle left out where it is too long for an axis."""
    name = str(name)
    if len(name) <= longest:
        return name
    head = (longest - 1) * 2 // 3
    return f"{name[:head]}…{name[head + 1 - longest :]}"


def apart(names: Any, longest: int = LONGEST) -> list[str]:
    """Names side by side as they are drawn: of those that are too long, what tells them apart stays.

    Where one is too long, all lose the name of their transformer ("onehot__") if they still differ. What is then too
    long loses the end of the beginning that it shares with another.

    Examples
    --------
    >>> from sksvi.displays._common import apart
    >>> apart(["remainder__age", "onehot__occupation_Exec-managerial"])
    ['age', 'occupation_Exec-managerial']
    >>> apart(["region_of_the_north_east", "region_of_the_north_west"], 16)
    ['region_of_t…east', 'region_of_t…west']
    """
    names = [str(name) for name in names]
    if all(len(name) <= longest for name in names):
        return names
    bare = [name.rpartition("__")[2] for name in names]
    if len(set(bare)) == len(set(names)) and all(bare):
        names = bare
    shared = _shared_beginnings(names)
    return [_cut(name, shared[name], longest) for name in names]


def _shared_beginnings(names: list[str]) -> dict[str, int]:
    """How many letters of each name its nearest neighbour begins with too, from the start of a word on."""
    order, shared = sorted(set(names)), dict.fromkeys(names, 0)
    for one, other in pairwise(order):
        differs = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        common = next(differs, min(len(one), len(other)))
        for name in (one, other):
            shared[name] = max(shared[name], common)
    for name, n in shared.items():
        words = [n - k for k in range(min(n, WORD)) if name[n - k - 1] in " _-.=:"]
        shared[name] = words[0] if words else n
    return shared


def _cut(name: str, shared: int, longest: int) -> str:
    """A name whose first `shared` letters another has too."""
    own = name[shared:]
    if len(name) <= longest or not shared:
        return shortened(name, longest)
    room = longest - 1 - len(own)
    if room >= 0:
        return f"{name[:room]}…{own}"
    return f"…{own[: longest - 2]}…"


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


def check_kind(kind: Any, known: Any) -> str:
    """One of the kinds of a display."""
    if kind not in tuple(known):
        raise ValueError(f"kind={kind!r} is unknown: choose {' or '.join(map(repr, known))}.")
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
