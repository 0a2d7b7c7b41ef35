"""Local nodes integrated out against locals with a q of their own: bounds, deviations and intervals, by the exact ones.

Rows y_i given f_i ~ N(centre, 1/precision), centre ~ N(0, 1), precision ~ Gamma(4, 2), both drawn anew for each data
set, so that exact 90 % intervals hold nine in ten of them. The exact evidence and posterior are sums over a grid of
centre and log precision, with the integral over each f_i by the trapezoidal rule. The second table has fits of the same
model with coefficients by `GMERegressor(bound="optimal")` and by a network.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from scipy import stats

from benchmarks._lib.tables import arguments, progress, report

SETS, ROWS = 50, 40
PRIOR_SHAPE, PRIOR_RATE = 4.0, 2.0
NAMES = ("centre", "precision")


def models() -> dict[str, tuple[Any, Any]]:
    """Likelihood and draws of y given f, by name."""
    from sksvi import likelihoods

    return {
        "counts": (likelihoods.Poisson(), lambda f, rng: rng.poisson(np.exp(f)).astype(float)),
        "labels": (likelihoods.Bernoulli(), lambda f, rng: (rng.random(len(f)) < 1.0 / (1.0 + np.exp(-f))) * 1.0),
        "measurements": (
            likelihoods.StudentT(scale=0.5, df=4.0),
            lambda f, rng: f + 0.5 * rng.standard_t(4.0, len(f)),
        ),
    }


#: Values of centre and of log precision, the whole of what the prior allows.
WHOLE = np.linspace(-4.0, 4.0, 81), np.linspace(-4.5, 3.5, 61)


def grid_about(q: Any) -> tuple[np.ndarray, np.ndarray]:
    """A finer grid about a fit: twelve deviations of the centre, eleven below and seven above of log precision."""
    centre, precision = q["centre"], q["precision"]
    middle, width = np.log(precision.mean[0]), 1.0 / np.sqrt(precision.shape[0])
    return (
        centre.mean[0] + centre.std[0] * np.linspace(-12.0, 12.0, 61),
        middle + width * np.linspace(-11.0, 7.0, 55),
    )


def exact(
    likelihood: Any, y: np.ndarray, grid: tuple[np.ndarray, np.ndarray] = WHOLE, most_at_ends: float = 1e-5
) -> tuple[float, np.ndarray]:
    """Log evidence, and the posterior deviations of centre and precision, by sums over a grid."""
    centre, log_t = grid
    z = np.linspace(-7.0, 7.0, 141 if grid is WHOLE else 101)[:, None, None]
    density = np.exp(-0.5 * np.square(z)) * (z[1] - z[0]) / np.sqrt(2.0 * np.pi)
    joint = stats.norm.logpdf(centre)[:, None] + log_t
    joint = joint + stats.gamma.logpdf(np.exp(log_t), PRIOR_SHAPE, scale=1.0 / PRIOR_RATE)
    f = (centre[:, None] + z * np.exp(-0.5 * log_t)).reshape(len(z), -1)
    for value, times in zip(*np.unique(y, return_counts=True), strict=True):
        p = np.exp(likelihood.log_prob(np.full(f.shape[1], value), f)).reshape(len(z), *joint.shape)
        with np.errstate(divide="ignore"):  # in corners of the grid that have no weight
            joint = joint + times * np.log(np.einsum("zct,zct->ct", p, np.broadcast_to(density, p.shape)))
    weight = np.exp(joint - joint.max())
    total = joint.max() + np.log(weight.sum() * (centre[1] - centre[0]) * (log_t[1] - log_t[0]))
    weight /= weight.sum()
    at_ends = max(weight[[0, -1]].sum(), weight[:, [0, -1]].sum())
    if at_ends > most_at_ends:
        raise ValueError(f"the grid is too small: {at_ends:.1g} of the posterior lies at its ends")
    stds = []
    for axis, value in ((1, centre), (0, np.exp(log_t))):
        share = weight.sum(axis)
        stds.append(np.sqrt(share @ np.square(value) - np.square(share @ value)))
    return float(total), np.array(stds)


def covered(q: Any, truth: dict[str, float]) -> list[bool]:
    """Whether the 90 % intervals of q hold the truth."""
    centre, precision = q["centre"], q["precision"]
    ends = (
        stats.norm.ppf([0.05, 0.95], centre.mean[0], centre.std[0]),
        stats.gamma.ppf([0.05, 0.95], precision.shape[0], scale=1.0 / precision.rate[0]),
    )
    return [bool(low <= truth[name] <= high) for name, (low, high) in zip(NAMES, ends, strict=True)]


def fits_of(child: Any, data: dict[str, Any], truth: dict[str, float], exact_about: Any) -> dict[bool, dict[str, Any]]:
    """Gap, ratios of deviations, intervals and seconds with locals integrated and not, against `exact`."""
    from sksvi.network import Gamma, Gaussian, Network

    found: dict[bool, dict[str, Any]] = {}
    for integrated in (False, True):
        nodes = {
            "centre": Gaussian(0.0, 1.0),
            "precision": Gamma(PRIOR_SHAPE, PRIOR_RATE),
            "f": Gaussian("centre", "precision", size=ROWS, integrated=integrated),
            "y": child,
        }
        started = process_time()
        fit = Network(nodes).fit(data)
        q = fit.posterior_
        found[integrated] = {
            "gap": -fit.lower_bound_,
            "ratio": np.array([q[name].std[0] for name in NAMES]),
            "covered": covered(q, truth),
            "seconds": process_time() - started,
        }
    total, stds = exact_about(q)
    for one in found.values():
        one["gap"], one["ratio"] = total + one["gap"], one["ratio"] / stds
    return found


def drawn(seed: int) -> tuple[dict[str, float], np.ndarray, np.random.Generator]:
    """Centre and precision from their priors, locals (n,) given them, and the generator for what comes next."""
    rng = np.random.default_rng([seed, ROWS])
    truth = {"centre": rng.standard_normal(), "precision": rng.gamma(PRIOR_SHAPE, 1.0 / PRIOR_RATE)}
    return truth, truth["centre"] + rng.standard_normal(ROWS) / np.sqrt(truth["precision"]), rng


def fits(name: str, seed: int) -> dict[bool, dict[str, Any]]:
    """`fits_of` a data set of a model."""
    from sksvi.network import Likelihood

    likelihood, draw = models()[name]
    truth, f, rng = drawn(seed)
    y = draw(f, rng)
    return fits_of(Likelihood(likelihood, "f"), {"y": y}, truth, lambda q: exact(likelihood, y, grid_about(q)))


def rows_of(name: str, results: list[dict[bool, dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for locals with a q of their own and one for locals that are integrated out."""
    made = []
    for integrated in (False, True):
        each = [result[integrated] for result in results]
        gaps, ratios, inside = (np.array([one[key] for one in each]) for key in ("gap", "ratio", "covered"))
        row = {
            "model": name,
            "locals": "integrated" if integrated else "a q each",
            "gap, mean": gaps.mean(),
            "gap, least": gaps.min(),
            "gap, most": gaps.max(),
            "std of centre": ratios[:, 0].mean(),
            "std of precision": ratios[:, 1].mean(),
            "centre in 90 %": inside[:, 0].mean(),
            "precision in 90 %": inside[:, 1].mean(),
            "CPU seconds": float(np.mean([one["seconds"] for one in each])),
        }
        made.append(row)
        progress(row)
    return made


def notes(sets: int) -> list[str]:
    """What the columns are."""
    error = f"{0.3 / np.sqrt(sets):.2f}"
    return [
        f"{sets} data sets of {ROWS} local nodes each. Gap: log evidence less the bound, nats, mean, least and largest "
        "over the sets. std: posterior deviation over the exact one, mean. In 90 %: share of sets whose interval holds "
        f"the truth (standard error {error} at 0.9). CPU seconds of a fit."
    ]


def short(rows: list[dict[str, Any]]) -> int:
    """How many integrated rows lie beneath mean field, or above the evidence."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return sum(other["gap, mean"] > own["gap, mean"] or other["gap, least"] < -1e-3 for own, other in pairs)


def difference_at(nodes: Any, X: np.ndarray, y: np.ndarray, q: dict[str, Any], likelihood: Any) -> float:
    """The network's bound less that of the mixed-effects model without a table, at the q of the latter's fit."""
    from sksvi.algorithms import MCSSVI
    from sksvi.inference import plan
    from sksvi.inference.engine import exact_bound
    from sksvi.inference.state import State
    from sksvi.models.data import Table
    from sksvi.models.mixed.glm import MixedModel
    from support.networks import Bound

    options: dict[str, Any] = {"prior_precision": 1.0, "intercept_precision": 1.0, "n_features": X.shape[1]}
    model = MixedModel(likelihood, bound="optimal", noise_prior_scale=2.0, fit_intercept=False, full=True, **options)
    theirs = exact_bound(plan.problem(model, Table(X, y), MCSSVI()), State(q, 0))
    return float(Bound(nodes, {}, {"X": X, "y": y}).value({"w": q["weights"], "noise": q["noise"]}) - theirs)


def of_mixed(name: str, n: int, seed: int) -> dict[str, Any]:
    """The same model with three coefficients by `GMERegressor` or `GMEClassifier` and by a network."""
    from sksvi import GMEClassifier, GMERegressor
    from sksvi.network import Gaussian, Likelihood, Link, Network, Rayleigh

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    likelihood, draw = models()[name]
    y = draw(X @ [0.6, -0.4, 0.2] + 0.7 * rng.standard_normal(n), rng)
    options: dict[str, Any] = {
        "likelihood": "poisson" if name == "counts" else "logit",
        "bound": "optimal",
        "noise": True,
        "noise_prior_scale": 2.0,
        "prior_precision": 1.0,
        "fit_intercept": False,
        "tol": 1e-13,
        "max_iter": 5000,
    }
    started = process_time()
    theirs = (GMERegressor if name == "counts" else GMEClassifier)(**options).fit(X, y)
    middle = process_time()
    nodes = {
        "w": Gaussian(0.0, 1.0, size=3, covariance="full"),
        "noise": Rayleigh(2.0),
        "f": Gaussian(Link("w", design="X"), variance="noise", size="y", integrated=True),
        "y": Likelihood(likelihood, "f"),
    }
    ours = Network(nodes).fit({"X": X, "y": y}, tol=1e-12, max_iter=5000)
    ended = process_time()
    weights = theirs.posterior_["weights"]
    at_one_q = difference_at(nodes, X, y, {"weights": weights, "noise": theirs.posterior_["noise"]}, likelihood)
    row = {
        "model": name,
        "rows": n,
        "bound, mixed effects": theirs.lower_bound_,
        "bound, network": ours.lower_bound_,
        "difference at one q": at_one_q,
        "difference of fits": ours.lower_bound_ - theirs.lower_bound_,
        "coefficients, std": float(np.max(np.abs(ours.posterior_["w"].mean - weights.mean) / weights.std)),
        "scale of noise, relative": ours.posterior_["noise"].scale / theirs.posterior_["noise"].scale - 1.0,
        "CPU s, mixed effects": middle - started,
        "CPU s, network": ended - middle,
    }
    progress(row)
    return row


def main(quick: bool = False) -> int:
    """How many rows fall short: above the evidence, beneath mean field, or another bound than the mixed model's."""
    sets = 2 if quick else SETS
    rows = [row for name in models() for row in rows_of(name, [fits(name, seed) for seed in range(sets)])]
    report("network/structured", "Local nodes integrated out", rows, notes(sets), quick)
    mixed = [of_mixed(name, n, seed=0) for name in ("counts", "labels") for n in ((40,) if quick else (100, 400))]
    report(
        "network/structured_mixed",
        "One model as a mixed-effects estimator and as a network",
        mixed,
        ["Optimal bound of both, nats; the estimator's integrals come from a table, good to about 1e-8 a row."],
        quick,
    )
    return short(rows) + sum(abs(row["difference at one q"]) > 1e-8 for row in mixed)


if __name__ == "__main__":
    main(arguments(__doc__))
