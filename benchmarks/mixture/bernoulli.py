"""Mixtures of Bernoullis: fresh rows, components and seconds by algorithm and moves; digits; cover of the weights.

KL: the truth's log-likelihood less the model's, nats per fresh row. Used: components that half a row or more is
expected to have, beside those that occur among the rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.mixture import _data, _peers

SETS = {"stick-breaking": (_data.stick_breaking, 3), "Dirichlet": (_data.paper, 4)}
#: Algorithms are compared by their q, which no chain corrects.
OF_Q = {"uncertainty": "variational"}
#: Name -> parameters of the fits to the simulated sets.
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "svi": OF_Q,
    "svi, moves none": {"moves": "none", **OF_Q},
    "svi, moves all": {"moves": "all", **OF_Q},
    "svi, all rows": {"batch_size": None, **OF_Q},
    "svi, all rows, moves none": {"batch_size": None, "moves": "none", **OF_Q},
    "ssvi-a": {"algorithm": "ssvi-a", **OF_Q},
    "ssvi-a, moves none": {"algorithm": "ssvi-a", "moves": "none", **OF_Q},
    "ssvi-a, 50 passes": {"algorithm": "ssvi-a", "max_iter": 50, "tol": 0.0, **OF_Q},
    "ssvi": {"algorithm": "ssvi", **OF_Q},
    "ssvi, moves none": {"algorithm": "ssvi", "moves": "none", **OF_Q},
    "map": {"algorithm": "map", **OF_Q},
    "map, moves none": {"algorithm": "map", "moves": "none", **OF_Q},
    "collapsed Gibbs, 100 sweeps": {"algorithm": "gibbs", "max_iter": 100, **OF_Q},
}


def models(quick: bool) -> dict[str, Callable[[], Any]]:
    """What is fitted to the simulated sets."""
    from sksvi import BernoulliMixture

    names = list(METHODS)[:2] if quick else list(METHODS)
    ours = {name: lambda own=METHODS[name]: BernoulliMixture(random_state=0, **own) for name in names}
    return {**ours, "EM, 100 components": lambda: _peers.EM(100), "columns alone": _peers.Columns}


def simulated(quick: bool) -> None:
    """The two generators."""
    from sklearn.metrics import adjusted_rand_score

    rows: list[dict[str, Any]] = []
    for method, make in models(quick).items():
        row: dict[str, Any] = {"method": method}
        for name, (generator, n_seeds) in SETS.items():
            found = []
            for seed in range(1 if quick else n_seeds):
                data = generator(seed)
                start = time.process_time()
                model = make().fit(data.X)
                seconds = time.process_time() - start
                score = model.score(data.fresh)
                ari = adjusted_rand_score(data.labels, model.predict(data.X))
                used, true = model.n_components_, len(np.unique(data.labels))
                found.append((score, data.truth - score, ari, used, true, seconds))
            scores, losses, aris, used, true, seconds = map(list, zip(*found, strict=True))
            row |= {
                f"{name}: KL": float(np.mean(losses)),
                f"{name}: log density, seed 0": scores[0],
                f"{name}: least ARI": min(aris),
                f"{name}: used / true": ", ".join(f"{a}/{b}" for a, b in zip(used, true, strict=True)),
                f"{name}: CPU seconds": float(np.median(seconds)),
            }
        rows.append(row)
        progress(row)
        notes = [
            f"{_data.ROWS:,} rows of {_data.COLUMNS} columns from {_data.K} components, α = {_data.ALPHA:g}; weights "
            "by stick-breaking (seeds 0-2) and from a Dirichlet distribution (0-3). ARI: adjusted Rand index of the "
            "most probable components of the fitted rows; CPU seconds of a fit, the median of the sets. The default "
            "predicts by the means of a chain, all others by q."
        ]
        report("mixture/bernoulli", "Mixtures of Bernoullis", rows, notes, quick)


def starts(quick: bool) -> None:
    """Fits with, and without, first passes that see means."""
    from sksvi import BernoulliMixture
    from sksvi.models.mixture.model import MixtureModel

    rows, usual = [], MixtureModel.traits
    made: dict[str, dict[str, Any]] = {
        "svi": OF_Q,
        "svi, all rows": {"batch_size": None, **OF_Q},
        "ssvi-a": {"algorithm": "ssvi-a", **OF_Q},
    }
    for method, own in made.items():
        for warmup in (replace(usual.warmup, passes=0, full_batch=0), usual.warmup):
            MixtureModel.traits = replace(usual, warmup=warmup)
            row: dict[str, Any] = {"method": method, "first passes": warmup.passes}
            for name, (generator, n_seeds) in SETS.items():
                sets = [generator(seed) for seed in range(1 if quick else n_seeds)]
                fits = [BernoulliMixture(random_state=0, **own).fit(data.X) for data in sets]
                lost = [data.truth - model.score(data.fresh) for data, model in zip(sets, fits, strict=True)]
                row |= {f"{name}: KL": float(np.mean(lost))}
                row |= {f"{name}: used": ", ".join(str(model.n_components_) for model in fits)}
            rows.append(row)
            progress(row)
    MixtureModel.traits = usual
    report("mixture/bernoulli_start", "Passes that see means, and none", rows, ["As the first table."], quick)


def of_digits(quick: bool) -> None:
    """Binarised digits against simple peers."""
    from sksvi import BernoulliMixture

    data = _data.digits(*((500, 200) if quick else (4000, 1000)))
    made: dict[str, Callable[[], Any]] = {
        "columns alone": _peers.Columns,
        "EM, 10 components": lambda: _peers.EM(10),
        "EM, 30 components": lambda: _peers.EM(30),
        "EM, 100 components": lambda: _peers.EM(100),
        "default": lambda: BernoulliMixture(random_state=0),
        "probability_prior=1": lambda: BernoulliMixture(probability_prior=1.0, random_state=0),
        "probability_prior=0.1": lambda: BernoulliMixture(probability_prior=0.1, random_state=0),
        "svi": lambda: BernoulliMixture(random_state=0, **OF_Q),
        "svi, all rows": lambda: BernoulliMixture(batch_size=None, random_state=0, **OF_Q),
        "ssvi-a": lambda: BernoulliMixture(algorithm="ssvi-a", random_state=0, **OF_Q),
        "collapsed Gibbs, 40 sweeps": lambda: BernoulliMixture(algorithm="gibbs", max_iter=40, random_state=0, **OF_Q),
    }
    rows: list[dict[str, Any]] = []
    for method, make in made.items():
        start = time.process_time()
        model = make().fit(data.X)
        seconds, whole = time.process_time() - start, model.score(data.fresh)
        rows.append(
            {
                "method": method,
                "log density per row": whole,
                "hidden half given the other": whole - model.score(data.seen),
                "components": model.n_components_,
                "CPU seconds": seconds,
            }
        )
        progress(rows[-1])
    notes = [
        f"{len(data.X):,} images of 784 pixels to fit, a tenth of the pixels missing; {len(data.fresh):,} new ones, "
        "nats per image. Hidden half: log density of a random half of an image's pixels given the other half. EM: 60 "
        "passes from random responsibilities, one count added to each value."
    ]
    report("mixture/bernoulli_digits", "Binarised digits", rows, notes, quick)


def covered(rng: np.random.Generator, columns: int) -> dict[str, float]:
    """Share of three weights that 90 % intervals cover: 300 rows whose groups few columns tell apart, or many."""
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import beta

    from sksvi import BernoulliMixture
    from sksvi.models.data import Table
    from sksvi.models.mixture.model import MixtureModel
    from sksvi.models.mixture.sampler import MixtureSampler

    groups, n = 3, 300
    share, probability = rng.dirichlet(np.full(groups, 4.0)), rng.beta(1, 1, (groups, columns))
    X = (rng.random((n, columns)) < probability[rng.choice(groups, n, p=share)]).astype(float)
    found: dict[str, float] = {}

    def order(means: Array) -> Array:
        distance = np.abs(means[:, None] - probability).sum(-1)
        return linear_sum_assignment(distance)[1]

    for algorithm in ("ssvi-a", "ssvi", "svi"):
        options: dict[str, Any] = {"algorithm": algorithm, "uncertainty": "variational", "random_state": 0}
        model = BernoulliMixture(groups, concentration=12.0, **options).fit(X)
        block = model.posterior_["weights"]
        own, total = block.concentration, block.total[0]
        low, high = beta(own, total - own).ppf([[0.05], [0.95]])
        truth = share[order(model.means_)]
        found[algorithm] = float(np.mean((low <= truth) & (truth <= high)))
    core = MixtureModel(groups, model._encoding.sizes, concentration=12.0, value_prior=1.0, binary=True)
    sampler = MixtureSampler(core, Table(model._encoding.cells(model, X, model._encoding), np.zeros(n)))
    draw, weights = sampler.begin(model.state_.q), []
    for sweep in range(600):
        draw, _ = sampler.sweep(draw, rng)
        if sweep >= 100:
            means = (1.0 + draw.counts[::2].T) / (2.0 + draw.counts.T.reshape(groups, -1, 2).sum(-1))
            drawn = np.empty(groups)
            drawn[order(means)] = rng.dirichlet(core.share + draw.rows)
            weights.append(drawn)
    low, high = np.quantile(weights, [0.05, 0.95], axis=0)
    found["collapsed Gibbs, draws"] = float(np.mean((low <= share) & (share <= high)))
    return found


def calibration(quick: bool) -> None:
    """Cover of the weights by what tells the groups apart."""
    rows = []
    for columns in (30, 8, 4):
        sets = [covered(np.random.default_rng([columns, i]), columns) for i in range(4 if quick else 60)]
        for method in sets[0]:
            values = np.array([one[method] for one in sets])
            error = float(values.std(ddof=1) / len(values) ** 0.5)
            rows.append({"columns": columns, "method": method, "covered": float(values.mean()), "error": error})
            progress(rows[-1])
    notes = [
        "300 rows in three groups with weights from Dir(4, 4, 4) and uniform probabilities: 90 % intervals of the "
        "three weights on 60 data sets, and the standard error. The fewer the columns, the less sure a row's group is, "
        "which a mean-field posterior of the weights does not know."
    ]
    report("mixture/bernoulli_calibration", "Cover of the weights of a mixture", rows, notes, quick)


def main(quick: bool = False) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    simulated(quick)
    starts(quick)
    calibration(quick)
    of_digits(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
