"""GPClassifier at its defaults: passes, and CPU seconds in units of one Cholesky factorization, by the number of rows.

Simulated rows of four columns, beside scikit-learn's Laplace approximation with the same kernel at the fewest rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks._lib import Array
from benchmarks._lib.measures import log_loss
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock

SIZES, N_TEST = (1_000, 2_000, 5_000), 2_000
#: Times that a Cholesky factorization is timed.
REPEATS = 3


def simulated(n: int) -> tuple[Array, Array]:
    """Rows and labels of a smooth latent with an interaction."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    f = 4.0 * np.sin(2.0 * X[:, 0]) + 2.0 * X[:, 1] * X[:, 2]
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(int)


def cholesky(n: int) -> tuple[float, float]:
    """CPU seconds of a factorization of n x n numbers in place, and of the inverse from it: the fewest of a few."""
    found = []
    for _ in range(REPEATS):
        A = np.asfortranarray(np.full((n, n), 0.5) + 0.5 * np.eye(n))
        with Clock() as factor:
            A = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)[0]
        with Clock() as inverse:
            lapack.dpotri(A, lower=1, overwrite_c=1)
        found.append((factor.cpu, inverse.cpu))
    first, second = (min(times) for times in zip(*found, strict=True))
    return first, second


def row_of(method: str, model: Any, n: int) -> dict[str, Any]:
    """One fit."""
    X, y = simulated(N_TEST + n)
    with Clock() as clock:
        model.fit(X[N_TEST:], y[N_TEST:])
    (unit, inverse), passes = cholesky(n), getattr(model, "n_iter_", None)
    row = {"rows": n, "method": method, "CPU seconds": clock.cpu, "passes": passes, "Cholesky, seconds": unit}
    row |= {"fit / Cholesky": clock.cpu / unit, "pass / Cholesky": passes and clock.cpu / unit / passes}
    row["gradient / Cholesky"] = 1.0 + inverse / unit
    row["test log loss"] = log_loss(y[:N_TEST], model.predict_proba(X[:N_TEST])[:, 1])
    progress(row)
    return row


def main(quick: bool = False) -> None:
    from sksvi import GPClassifier

    sizes = (200,) if quick else SIZES
    GPClassifier().fit(*simulated(100))  # compiles
    peer = GaussianProcessClassifier(ConstantKernel(1.0) * RBF(2.0))
    rows = [row_of("scikit-learn, Laplace", peer, sizes[0])]
    rows += [row_of("default", GPClassifier(random_state=0), n) for n in sizes]
    notes = [
        "CPU seconds of whole fits, nodes of the hyperparameters included, of which 5,000 rows have none; Cholesky: "
        "one factorization of as many rows beside each fit; gradient: a factorization and an inverse from it, which a "
        "step of the hyperparameters cannot do without. Log loss: mean over the same 2,000 test rows, nats."
    ]
    report("gp/classification_speed", "Full GP classification by the number of rows", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
