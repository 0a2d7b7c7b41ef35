"""Intermittent demand at the defaults: 13 weeks ahead of 208, beside the mean of all weeks and statsmodels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.series import _data

SETS, STEPS = 200, 13
#: Nothing a forecast's mean may exceed: so many times the largest count.
MOST = 5.0
TITLE = "Intermittent demand, 13 weeks ahead of 208"
NOTES = [
    "`sksvi.testing.simulate_intermittent`: counts of 1 to 5 in 8 % of the weeks. Beyond: series with any mean ahead "
    f"above {MOST:g} times the largest count. Error: mean over series of the absolute difference of the mean 13 ahead "
    "from 0.24, the truth. UnobservedComponents: a level that walks, of log(1 + y), exp(mean + variance / 2) - 1.",
    'Level of Nile and coal: what `level="auto"` chose there.',
]


def ours(y: Array) -> tuple[Array, Array | None]:
    """Means and upper ends at the defaults."""
    from sksvi import DynamicGLM

    found = DynamicGLM().fit(None, y).forecast(STEPS)
    return found["mean"].to_numpy(), found["upper"].to_numpy()


def theirs(y: Array) -> tuple[Array, Array | None]:
    """Means of statsmodels."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    ahead = UnobservedComponents(np.log1p(y), level="llevel").fit(disp=0).get_forecast(STEPS)
    return np.exp(ahead.predicted_mean + 0.5 * ahead.var_pred_mean) - 1.0, None


def main(quick: bool = False) -> None:
    from sksvi import DynamicGLM
    from sksvi.testing import simulate_intermittent

    rows: list[dict[str, Any]] = []
    methods = {"DynamicGLM": ours, "UnobservedComponents": theirs, "mean": lambda y: (np.full(STEPS, y.mean()), None)}
    for name, method in methods.items():
        found = []
        for seed in range(5 if quick else SETS):
            simulated = simulate_intermittent(random_state=seed)
            y, ahead = np.asarray(simulated.y, float), simulated.new["ahead"].y
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mean, upper = method(y)
            held = np.nan if upper is None else np.mean(ahead <= upper)
            found.append([np.any(mean > MOST * y.max()), abs(mean[-1] - 0.24), mean.max(), held])
        beyond, error, most, held = np.transpose(found)
        rows.append({"method": name, "series": len(found), "beyond": int(beyond.sum()), "error": error.mean()})
        rows[-1] |= {"largest mean": most.max(), "below upper end of 90 %": held.mean()}
        progress(rows[-1])
    for name, y in {"Nile": _data.table("nile").iloc[:, -1].to_numpy(float), "coal": _data.coal().y}.items():
        likelihood = "gaussian" if name == "Nile" else "auto"
        rows.append({"method": f"{name}: {DynamicGLM(likelihood=likelihood).fit(None, y).level_}"})
    report("series/intermittent", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
