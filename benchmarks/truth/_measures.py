"""What one data set says of one estimator: which truths its intervals cover, its log density, its CPU seconds."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from benchmarks._lib import Array
from benchmarks._lib.measures import LEVEL, Z
from benchmarks.truth import _peers

#: Forecasts of intermittent demand beyond this mean are nobody's.
LIMIT = 10.0


@dataclass
class Measured:
    """Of one data set: hits by quantity, estimates over truths, densities, CPU seconds, warnings."""

    covered: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ratio: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    numbers: dict[str, float] = field(default_factory=dict)
    density: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: float = np.nan
    seconds_after: float = np.nan
    warned: tuple[str, ...] = ()


def measure(simulated: Any, model: Any, peer: str | None = None) -> Measured:
    """Fit, and count all that the model can answer."""
    found = Measured()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(simulated.X, simulated.y)
        found.seconds = time.process_time() - start
        start = time.process_time()
        coefficients(found, simulated, model)
        if hasattr(model, "forecast"):
            ahead(found, simulated, model)
        else:
            rows(found, simulated, model)
        found.seconds_after = time.process_time() - start
    found.warned = tuple({type(w.message).__name__ for w in caught})
    if peer is not None:
        beside(found, simulated, model, peer)
    return found


# ---------------------------------------------------------------- the table of effects


def table_of(model: Any, likelihood: str) -> Any:
    """``summary()``; of a softmax the contrasts to its first class."""
    return model.summary(reference=model.classes_[0]) if likelihood == "softmax" else model.summary()


def labels(table: Any) -> dict[Any, int]:
    """Position of each row by its label, (class, coefficient) of a softmax."""
    return {label: i for i, label in enumerate(table.index)}


def position(found: dict[Any, int], effect: Any) -> int | None:
    """The effect's row: by its name, a series' "coefficient x", or a contrast "gender_male vs female"."""
    for name in (effect.name, f"coefficient {effect.name}"):
        key = name if effect.label is None else (effect.label, name)
        if key in found:
            return found[key]
    for label, i in found.items():
        if isinstance(label, str) and label.startswith((f"{effect.name} ", f"{effect.name}[")):
            return i
    return None


def coefficients(found: Measured, simulated: Any, model: Any) -> None:
    """Cover of each row whose truth is known, and the mean estimate over the truth."""
    table = table_of(model, simulated.likelihood)
    where = labels(table)
    columns = [table[name].to_numpy(float) for name in ("mean", "lower", "upper")]
    for effect in simulated.effects:
        i = position(where, effect)
        if i is None or not np.isfinite(columns[1][i]):
            continue
        mean, lower, upper = (column[i] for column in columns)
        found.covered[effect.kind].append(float(lower <= effect.value <= upper))
        if effect.value:
            found.ratio[effect.kind].append(mean / effect.value)
        if effect.name.startswith("gender") and "direction" in table:
            direction = float(table["direction"].iloc[i])
            found.numbers["direction of a factor"] = direction if mean * effect.value > 0 else 1 - direction


# ---------------------------------------------------------------- rows that are new


def latent(model: Any, X: Any) -> tuple[Array, Array]:
    """Mean and sd of f."""
    mean, variance = model.predict_latent(X)
    return np.ravel(mean), np.sqrt(np.ravel(variance))


def rows(found: Measured, simulated: Any, model: Any) -> None:
    """f and y of the rows to predict; the cut points of an ordinal target move f, a softmax has several."""
    with_f = simulated.likelihood not in ("ordinal", "softmax")
    for part, new in simulated.new.items():
        if with_f:
            mean, sd = latent(model, new.X)
            found.covered[f"f, {part}"] += list(np.abs(new.f - mean) <= Z * sd)
        if hasattr(model, "predict_interval"):
            low, high = np.asarray(model.predict_interval(new.X)).T
            found.covered[f"y, {part}"] += list((low <= new.y) & (new.y <= high))


def ahead(found: Measured, simulated: Any, model: Any) -> None:
    """f of the fitted points, f and y one step ahead and at the last step."""
    new = simulated.new["ahead"]
    steps = len(new.y)
    mean, sd = latent(model, simulated.X)
    forecast = model.forecast(steps, new.X)
    low, high, means = (forecast[name].to_numpy(float) for name in ("lower", "upper", "mean"))
    if simulated.likelihood == "intermittent":
        found.numbers[f"mean {steps} ahead above {LIMIT:g}"] = float(means[-1] > LIMIT)
    else:
        f = model.forecast_latent(steps, new.X)
        found.covered["f, fitted"] += list(np.abs(simulated.f - mean) <= Z * sd)
        below, above = f["lower"].to_numpy(float), f["upper"].to_numpy(float)
        for k in (0, steps - 1):
            found.covered[f"f, {k + 1} ahead"].append(float(below[k] <= new.f[k] <= above[k]))
    for k in (0, steps - 1):
        found.covered[f"y, {k + 1} ahead"].append(float(low[k] <= new.y[k] <= high[k]))


# ---------------------------------------------------------------- the peer


def beside(found: Measured, simulated: Any, model: Any, peer: str) -> None:
    """Mean log density of new y, ours and the peer's."""
    if hasattr(model, "forecast"):
        found.density.update(_series_density(simulated, model))
        return
    theirs = _peers.fitted_peer(peer, simulated.X, simulated.y, simulated.groups)
    for part, new in simulated.new.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = float(np.mean(model.log_predictive_density(new.X, new.y)))
            found.density[part] = ours, np.nan if theirs is None else float(np.mean(theirs(new.X, new.y)))


def _series_density(simulated: Any, model: Any) -> Iterator[tuple[str, tuple[float, float]]]:
    """Normal densities at one step and at the last, of a Gaussian series."""
    new = simulated.new["ahead"]
    steps = len(new.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, sd = _peers.local_level(simulated.y, simulated.X)(steps, new.X)
        forecast = model.forecast(steps, new.X)
    for k in (0, steps - 1):
        ours = stats.norm.logpdf(new.y[k], forecast["mean"].iloc[k], forecast["std"].iloc[k])
        yield f"{k + 1} ahead", (float(ours), float(stats.norm.logpdf(new.y[k], mean[k], sd[k])))


def enough(simulated: Any) -> bool:
    """Whether there is anything to fit: two classes, a softmax's three, a count that is not zero."""
    if simulated.likelihood in ("logit", "probit", "ordinal", "softmax"):
        return len(np.unique(simulated.y)) >= (3 if simulated.likelihood == "softmax" else 2)
    return bool(np.any(simulated.y))


__all__ = ["LEVEL", "Measured", "enough", "measure"]
