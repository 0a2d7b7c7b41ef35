"""Hyperparameters of a fit as a diagnosis looks at them: how well they are determined, or that a point is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from sksvi.estimators.summaries import learned_rows
from sksvi.inspection._diagnoses import Finding, absent

Array = np.ndarray

#: Standard deviation of the logarithm of a hyperparameter above which it is not determined; rows per length scale.
WIDE, PER_LENGTH = 0.5, 20
#: Degrees of freedom above which a Student-t is a normal distribution.
NORMAL_DF = 30.0
#: Standard deviations of f, in those of y (on the scale of a link 1), below and above which a point is no estimate.
COLLAPSED, RUNAWAY = 0.01, 20.0
#: Power of the number of points that the variance of a part of a series grows with over all of them.
GROWTH = {"level_variance": 1, "trend_variance": 3, "seasonal_variance": 1, "cycle_variance": 0}
COVERAGE = 0.9


@dataclass(frozen=True)
class Hyperparameters:
    """Positive hyperparameters by their logarithms.

    Parameters
    ----------
    centre : dict of str to float
        Mean, or the point.
    sd : dict of str to float
        Standard deviation; NaN of a point of which none is known.
    spread : dict of str to tuple of float
        Of points that are scales: standard deviation over all rows and in a single step that they give y or f.
    """

    centre: dict[str, float]
    sd: dict[str, float]
    spread: dict[str, tuple[float, float]]

    @classmethod
    def of_nodes(cls, table: Any) -> Hyperparameters:
        """Hyperparameters of nodes, a row each with its weight."""
        weight = table["weight"].to_numpy()
        # Correlations are no scales, whatever their sign.
        names = [name for name in table.columns[1:] if np.all(table[name] > 0) and not str(name).startswith("cor(")]
        logs = {str(name): np.log(table[name].to_numpy(float)) for name in names}
        centre = {name: float(weight @ on) for name, on in logs.items()}
        sd = {name: float(np.sqrt(max(weight @ np.square(on - centre[name]), 0.0))) for name, on in logs.items()}
        return cls(centre, sd, {})

    @classmethod
    def of_points(cls, estimator: Any, n: int) -> Hyperparameters:
        """Hyperparameters of a fit to n rows that has them as points."""
        values, sd, spread = {}, {}, {}
        for name, (value, width) in {**_of_likelihood(estimator, n), **_of_groups(estimator)}.items():
            values[name], sd[name] = value, width
            if name in ("scale", "std(residual)") and estimator.likelihood_.traits.additive:
                spread[name] = value, value
        for name, value in _of_kernel(estimator).items():
            values[name] = value
            if "constant_value" in name:
                spread[name] = np.sqrt(value), np.sqrt(value)
        for name, growth in GROWTH.items():
            if hasattr(estimator, f"{name}_") and getattr(estimator, name, "auto") == "auto":
                least = float(np.min(getattr(estimator, f"{name}_")))
                values[name], spread[name] = least, (np.sqrt(least * n**growth), np.sqrt(least))
        with np.errstate(divide="ignore"):
            centre = {name: float(np.log(value)) for name, value in values.items()}
        return cls(centre, {name: sd.get(name, np.nan) for name in centre}, spread)

    @property
    def text(self) -> str:
        """Some of them."""
        with np.errstate(over="ignore"):  # of what is hardly determined
            shown = [
                f"{name} {np.exp(at):.3g}" + ("" if np.isnan(self.sd[name]) else f" (×/÷ {np.exp(self.sd[name]):.2f})")
                for name, at in self.centre.items()
            ]
        return "; ".join(shown[:6]) + ("; ..." if len(shown) > 6 else "")


def _of_likelihood(estimator: Any, n: int) -> dict[str, tuple[float, float]]:
    """Positive parameters of the likelihood, learned ones with the width that the curvature of the data leaves them."""
    likelihood = estimator.likelihood_
    if not likelihood.traits.positive:
        return {}
    rows = learned_rows(likelihood, estimator.state_.q.get("likelihood"), COVERAGE)
    width = np.log(rows["upper"] / rows["lower"]) / (2.0 * ndtri(0.5 + 0.5 * COVERAGE))
    if np.size(getattr(estimator, "coef_", ())) >= n:  # it is given these, which can fit every row
        width[:] = np.nan
    found = {str(name): (float(rows["mean"][name]), float(width[name])) for name in rows.index}
    return found if getattr(likelihood, "df", None) is None else {"df": (float(likelihood.df), np.nan)} | found


def _of_groups(estimator: Any) -> dict[str, tuple[float, float]]:
    """Standard deviations between levels, with the width that their information leaves them.

    A level whose effect has the variance v of the prior's σ² informs of log σ by 2(1 - v/σ²)²; of L levels with a
    common intercept the sum is by L / (L - 1) too small: tr(PZZᵀPZZᵀ)/2 of restricted maximum likelihood (Searle,
    Casella and McCulloch 1992) in a balanced design.
    """
    if not hasattr(estimator, "group_std_"):
        return {}
    effects, found = estimator.group_effects_["std"], {}
    for (group, effect), std in estimator.group_std_["mean"].items():
        own = effects.xs((group, effect), level=("group", "effect"))
        informs = np.square(1.0 - np.square(own / std)).sum() * 2.0 * len(own) / max(len(own) - 1, 1)
        found[f"std({group}, {effect})"] = float(std), float(informs**-0.5) if informs > 0 else np.inf
    return found


def _of_kernel(estimator: Any) -> dict[str, float]:
    """Numbers of a kernel that were learned."""
    if not getattr(estimator, "optimize_hyperparameters", False):
        return {}
    kernel = estimator.kernel_
    found: dict[str, float] = {}
    for part in kernel.hyperparameters:
        if not part.fixed:
            values = np.ravel(kernel.get_params()[part.name])
            names = [part.name] if len(values) == 1 else [f"{part.name}[{j}]" for j in range(len(values))]
            found |= dict(zip(names, values.tolist(), strict=True))
    return found


def hyperparameters(found: Hyperparameters, reach: float, n: int, unit: float = 1.0) -> Finding:
    """Whether hyperparameters are determined.

    Parameters
    ----------
    found : Hyperparameters
    reach : float
        Longest range of a column.
    n : int
        Number of rows.
    unit : float
        Standard deviation of y, or 1 on the scale of a link.
    """
    centre, sd, text = found.centre, found.sd, found.text
    if not centre:
        return absent("hyperparameters", "none that is positive was learned, or they are points without a width")
    if "df" in centre and centre["df"] + 1.64 * np.nan_to_num(sd["df"], posinf=np.inf) > np.log(NORMAL_DF):
        alarm = "Degrees of freedom are not known from above: the noise may well be normal"
        return Finding("hyperparameters", text, alarm, 'likelihood="gaussian"')
    lengths = [name for name in centre if "length_scale" in name]
    beyond = [name for name in lengths if np.exp(centre[name]) > reach or sd[name] > WIDE]
    if len(lengths) > 2 and 2 * len(beyond) >= len(lengths) and n < PER_LENGTH * len(lengths):
        alarm = f"{len(beyond)} of {len(lengths)} length scales are beyond what {n} rows can say"
        return Finding("hyperparameters", text, alarm, "one length scale for all columns, fewer columns, or more rows")
    wide = [name for name in centre if sd[name] > WIDE and (name.startswith("std(") or name.endswith("_variance"))]
    if wide:
        alarm = f"{', '.join(wide[:3])} may be zero or several times as large: few levels or time points speak of it"
        return Finding("hyperparameters", text, alarm, "state it or its prior, or get more levels or points")
    remedy = 'hyperparameters="integrated", or state it or its prior'
    for name, (over_all, at_once) in found.spread.items():
        if np.isnan(sd[name]) and over_all < COLLAPSED * unit:
            return Finding("hyperparameters", text, f"{name} collapsed: a point next to zero is no estimate", remedy)
        if at_once > RUNAWAY * unit:
            return Finding("hyperparameters", text, f"{name} ran away: nothing holds it from above", remedy)
    return Finding("hyperparameters", text)
