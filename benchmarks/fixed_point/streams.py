"""Whether the certificate could stand in for judged halving in streams: halvings, and what a certificate costs.

`partial_fit` with defaults (`"cvi"`), rows in random order. An evaluation is one look at a portion's rows with its Gram
product; a product with the Jacobian of natural steps on both costs a Gram product too. The certificate is taken at the
q after each portion, of that portion's rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.fixed_point._data import SETS, SMALL, Rows, available, likelihood
from benchmarks.fixed_point._maps import GLM, Jacobian, certificate

#: Rows of a portion by set, and the most portions; relative change at which power iteration ends.
PORTIONS = {"usps": (100, 300), "a9a": (500,), "abalone": (200,), "flares": (100,), "breast cancer": (50,)}
MOST, TOL = 16, 1e-2


def spectrum(data: Rows, rows: Any, model: Any) -> tuple[float, int]:
    """mu of natural steps on a portion's rows at the model's q, and the products that found it."""
    weights = model.posterior_["weights"]
    glm = GLM(data.X[rows], data.y[rows], likelihood(data.likelihood))
    S = np.asarray(weights.cov)
    here = glm.at(np.ravel(weights.mean), S)
    found = certificate(Jacobian(glm, S, here).natural, 2 * len(glm.y), tol=TOL)
    return found.mu, found.products


def row_of(name: str, data: Rows, portion: int) -> dict[str, Any]:
    """A stream: evaluations, halvings, and the certificates along it."""
    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

    labels = data.likelihood == "logit"
    model = (BayesianGLMClassifier if labels else BayesianGLMRegressor)(likelihood=data.likelihood)
    order = np.random.default_rng(0).permutation(len(data.y))[: MOST * portion]
    found = []
    for first in range(0, len(order), portion):
        rows = order[first : first + portion]
        # The last column is the constant one, which is the model's own here.
        model.partial_fit(data.X[rows, :-1], data.y[rows], **({"classes": [0, 1]} if labels else {}))
        found.append(spectrum(data, rows, model))
    mu, products = map(np.array, zip(*found, strict=True))
    portions, steps, halvings = len(found), int(model.history_["step"].iloc[-1]), int(model.state_.repairs)
    row = {
        "data": name,
        "columns": data.X.shape[1],
        "rows of a portion": portion,
        "portions": portions,
        "evaluations": steps + halvings + portions,
        "halvings": halvings,
        "halvings, share": halvings / (steps + halvings + portions),
        "portions with mu > 1": int((mu > 1).sum()),
        "largest mu": float(mu.max()),
        "products of a certificate": float(np.median(products)),
        "one before each step would cost": int(np.median(products) * steps),
    }
    progress(row)
    return row


def main(quick: bool = False) -> None:
    sets = {name: load for name, load in {**SETS, **SMALL}.items() if name in PORTIONS}
    if quick:
        sets = {"breast cancer": SMALL["breast cancer"]}
    rows = [row_of(name, data, portion) for name, data in available(sets) for portion in PORTIONS[name]]
    if not rows:
        return
    notes = [
        f"At most {MOST} portions. Evaluations: those of all fits to portions, halved steps included. The last column: "
        f"products with the Jacobian, by power iteration to a relative change of {TOL:g}, if every step had one.",
    ]
    report("fixed_point/streams", "Halvings in streams, and the price of certificates", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
