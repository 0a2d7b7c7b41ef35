"""Figure 1 of Sheth & Khardon (fixed point): where the curvature g(m, v) = -E l''(f) rises or falls with v."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, report, store_figure
from benchmarks.fixed_point._maps import curvature

#: |v dg/dv| below this share of |g| is no sign but rounding.
LEAST = 1e-10


def cases() -> dict[str, tuple[Any, float]]:
    """Name: (likelihood, target)."""
    from sksvi.likelihoods import NegativeBinomial, Ordinal, StudentT, resolve

    dispersed = NegativeBinomial(dispersion=1.0)
    return {
        "logit": (resolve("logit"), 1),
        "probit": (resolve("probit"), 1),
        "poisson, exp": (resolve("poisson"), 3.0),
        "poisson, softplus, y = 3": (resolve("poisson-softplus"), 3.0),
        "negative binomial, y = 3": (dispersed, 3.0),
        "ordinal, middle level": (Ordinal(cut_points=(-1.0, 1.0)), 1),
        "ordinal, lowest level": (Ordinal(cut_points=(-1.0, 1.0)), 0),
        "student-t, df = 4, y = 0": (StudentT(scale=1.0, df=4.0), 0.0),
    }


def signs(kind: Any, y: float, m: Array, v: Array) -> tuple[Array, Array]:
    """Sign of dg/dv (v, m), 0 where it is rounding, and g."""
    mm, vv = (part.ravel() for part in np.meshgrid(m, v))
    here = curvature(kind, np.full(len(mm), y), mm, vv)
    bend = vv * here.in_variance
    sign = np.where(np.abs(bend) > LEAST * np.abs(here.g), np.sign(bend), 0.0)
    return sign.reshape(len(v), len(m)), here.g.reshape(len(v), len(m))


def changes(sign: Array) -> int:
    """Most changes of sign along the last axis, zeros passed over."""
    return max(int((np.diff(line[line != 0]) != 0).sum()) for line in sign)


def regions(sign: Array) -> int:
    """Connected regions of one sign."""
    from scipy.ndimage import label

    return int(label(sign > 0)[1] + label(sign < 0)[1])


def draw(maps: dict[str, Array], m: Array, v: Array) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained", sharex=True, sharey=True)
    for ax, (name, sign) in zip(axes.flat, maps.items(), strict=True):
        ax.pcolormesh(m, v, sign, cmap="coolwarm", vmin=-1.5, vmax=1.5, shading="nearest")
        ax.set(title=name, yscale="log")
    for ax in axes[-1]:
        ax.set_xlabel("mean of f")
    for ax in axes[:, 0]:
        ax.set_ylabel("variance of f")
    store_figure("fixed_point/monotonicity", figure)


def main(quick: bool = False) -> None:
    m, v = np.linspace(-8, 8, 41 if quick else 161), np.geomspace(0.05, 100, 25 if quick else 100)
    rows, maps = [], {}
    for name, (kind, y) in cases().items():
        sign, g = signs(kind, y, m, v)
        maps[name] = sign
        rows.append(
            {
                "likelihood": name,
                "share rising": float((sign > 0).mean()),
                "share without a sign": float((sign == 0).mean()),
                "most changes along m": changes(sign),
                "most changes along v": changes(sign.T),
                "regions": regions(sign),
                "least g": float(g.min()),
            }
        )
    notes = [
        f"Sign of dg/dv on a grid of {len(m)} means from -8 to 8 by {len(v)} variances from 0.05 to 100. Changes: of "
        "sign along a line of the grid, at the most. A least g below 0: the likelihood is not log-concave.",
    ]
    report("fixed_point/monotonicity", "Where the curvature rises with the variance (Figure 1)", rows, notes, quick)
    if not quick:
        draw(maps, m, v)


if __name__ == "__main__":
    main(arguments(__doc__))
