"""InstEval: 73,421 ratings with crossed groups of 2,972 students, 1,128 lecturers and 14 departments.

Seconds and memory of a fit of four fifths of the rows, each in a fresh process (joint covariance of all effects and a
diagonal one; ratings as numbers and as ordered levels), beside the exact answer of the Gaussian model: the evidence
maximised in the standard deviations, by Cholesky factorisation with the students eliminated first.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process
from benchmarks.mixed._data import inst_eval, split
from benchmarks.mixed._peers import indicators

FIT = """
import json, time, warnings
import numpy as np
from benchmarks._lib.timing import peak_memory, reset_peak
from benchmarks.mixed.insteval import loss_per_rating, parts
from sksvi.mixed_effects import GMERegressor
warnings.simplefilter("ignore")
X, y, X_test, y_test, groups = parts({rows})
settings = dict(groups=groups, noise=False, **{settings})
GMERegressor(max_iter=2, **settings).fit(X[:2000], y[:2000])  # compiled loops, thread pools
reset_peak()
before = peak_memory()
start = time.perf_counter()
model = GMERegressor(**settings).fit(X, y)
seconds = time.perf_counter() - start
added = peak_memory() - before
print(json.dumps(dict(
    seconds=seconds, added=added, peak=peak_memory(), passes=int(model.n_iter_), converged=bool(model.converged_),
    bound=float(model.lower_bound_), nll=float(-model.log_predictive_density(X_test, y_test).mean()),
    loss=loss_per_rating(model, X_test, y_test), sd=model.group_std_["mean"].tolist(),
    noise=float(model.noise_) ** 0.5 if model.noise_ is not None else None,
)))
"""


def parts(rows: int | None = None) -> tuple[Any, Array, Any, Array, list[str]]:
    """Training and test part, and the names of the groups."""
    data = inst_eval()
    X, y, X_test, y_test = split(data, 0)
    return X.iloc[:rows], y[:rows], X_test, y_test, data.groups


def loss_per_rating(model: Any, X: Any, y: Array) -> float:
    """Mean -log p(rating): of a Gaussian, its mass between the half points around the rating."""
    if hasattr(model, "predict_proba"):
        return float(-model.log_predictive_density(X, y).mean())
    return half_points(y, *model.predict(X, return_std=True))


def half_points(y: Array, mean: Array, std: Array) -> float:
    from scipy.special import ndtr

    upper = np.where(y == 5, 1.0, ndtr((y + 0.5 - mean) / std))
    lower = np.where(y == 1, 0.0, ndtr((y - 0.5 - mean) / std))
    return float(-np.log(upper - lower).mean())


class Exact:
    """y = X b + Z u + e with Gaussian effects: evidence and posterior for given standard deviations.

    The precision of (students, rest) has a diagonal block for the students, so that the rest alone is factored.
    """

    def __init__(self, X: Any, y: Array, groups: list[str], fixed_precision: Array) -> None:
        import scipy.sparse as sp

        self.levels = {group: {level: i for i, level in enumerate(X[group].unique())} for group in groups}
        self.groups, self.y, self.fixed_precision = groups, np.asarray(y, float), fixed_precision
        self.design = self.matrix(X)
        self.gram = sp.csr_matrix(self.design.T @ self.design)
        self.projected = self.design.T @ self.y
        self.n_first = len(self.levels[groups[0]])

    def matrix(self, X: Any) -> Any:
        """Students, further groups, fixed effects and intercept; an unseen level has a row of zeros."""
        import scipy.sparse as sp

        blocks = [
            indicators(np.array([levels.get(v, -1) for v in X[group]]), len(levels))
            for group, levels in self.levels.items()
        ]
        fixed = np.column_stack([X.drop(columns=self.groups).to_numpy(float), np.ones(len(X))])
        return sp.hstack([*blocks, sp.csr_matrix(fixed)]).tocsr()

    def prior_precision(self, sd: Array) -> Array:
        sizes = [len(levels) for levels in self.levels.values()]
        return np.concatenate([*(np.full(n, s**-2) for n, s in zip(sizes, sd, strict=True)), self.fixed_precision])

    def evidence(self, log_sd: Array) -> float:
        """log p(y); the last number is the log sd of the noise."""
        from scipy.linalg import cho_factor, cho_solve

        sd, noise = np.exp(log_sd[:-1]), float(np.exp(2 * log_sd[-1]))
        prior, k = self.prior_precision(sd), self.n_first
        first = self.gram.diagonal()[:k] / noise + prior[:k]
        cross = self.gram[:k, k:] / noise
        rest = self.gram[k:, k:].toarray() / noise + np.diag(prior[k:])
        rest -= (cross.T @ cross.multiply(1 / first[:, None]).tocsr()).toarray()
        factor = cho_factor(rest, lower=True)
        b = self.projected / noise
        b_rest = b[k:] - cross.T @ (b[:k] / first)
        explained = b[:k] @ (b[:k] / first) + b_rest @ cho_solve(factor, b_rest)
        log_det = np.log(first).sum() + 2 * np.log(np.diag(factor[0])).sum() - np.log(prior).sum()
        n = len(self.y)
        return float(-0.5 * (n * np.log(2 * np.pi * noise) + self.y @ self.y / noise - explained + log_det))

    def fit(self) -> Array:
        """Log standard deviations of the groups and of the noise at the largest evidence."""
        from scipy.optimize import minimize

        start = np.log([*np.full(len(self.groups), 0.4), 1.2])
        return minimize(lambda v: -self.evidence(v), start, method="L-BFGS-B", options={"ftol": 1e-11}).x

    def predict(self, log_sd: Array, X: Any) -> tuple[Array, Array]:
        """Predictive mean and variance of y."""
        from scipy.linalg import cho_factor, cho_solve

        sd, noise = np.exp(log_sd[:-1]), float(np.exp(2 * log_sd[-1]))
        precision = self.gram.toarray() / noise + np.diag(self.prior_precision(sd))
        covariance = cho_solve(cho_factor(precision, lower=True), np.eye(len(precision)))
        rows = self.matrix(X)
        variance = noise + np.asarray(rows.multiply(rows @ covariance).sum(axis=1)).ravel()
        for group, s in zip(self.groups, sd, strict=True):
            variance += s**2 * np.array([level not in self.levels[group] for level in X[group]])
        return rows @ (covariance @ self.projected / noise), variance


def exact_row(rows: int | None) -> dict[str, Any]:
    """The exact Gaussian answer as a line of the table."""
    X, y, X_test, y_test, groups = parts(rows)
    start = time.perf_counter()
    columns = X.shape[1] - len(groups)
    exact = Exact(X, y, groups, np.append(np.full(columns, 0.1), 1e-2))
    best = exact.fit()
    seconds = time.perf_counter() - start
    mean, variance = exact.predict(best, X_test)
    nll = 0.5 * np.mean(np.log(2 * np.pi * variance) + (y_test - mean) ** 2 / variance)
    return {
        "fit": "exact, largest evidence",
        "seconds": seconds,
        "bound": exact.evidence(best),
        "test NLL": float(nll),
        "log loss of the rating": half_points(y_test, mean, np.sqrt(variance)),
        **{f"sd {group}": float(s) for group, s in zip((*groups, "noise"), np.exp(best), strict=True)},
    }


def main(quick: bool = False) -> None:
    limit = 8000 if quick else None
    rows = []
    for likelihood in ("gaussian", "ordinal"):
        for covariance in ("full", "diag"):
            settings = {"likelihood": likelihood, "covariance": covariance}
            settings |= {"prior_precision": 0.1, "intercept_precision": 1e-2} if likelihood == "gaussian" else {}
            found = fresh_process(FIT.format(rows=limit, settings=settings))
            names = inst_eval().groups
            rows.append(
                {
                    "fit": f"{likelihood}, {'joint' if covariance == 'full' else 'diagonal'}",
                    "seconds": found["seconds"],
                    "added by the fit, MiB": found["added"],
                    "peak of the process, MiB": found["peak"],
                    "passes": found["passes"],
                    "converged": found["converged"],
                    "bound": found["bound"],
                    "test NLL": found["nll"],
                    "log loss of the rating": found["loss"],
                    **{f"sd {group}": s for group, s in zip(names, found["sd"], strict=True)},
                    "sd noise": found["noise"],
                }
            )
            progress(rows[-1])
    exact = exact_row(limit)
    rows.append({key: exact.get(key) for key in rows[0]})
    notes = [
        "Bounds and NLL of gaussian and ordinal rows are densities and masses: compare them within a likelihood, the "
        "last column but those of the sds across. Log loss of the rating: a Gaussian's mass between half points. "
        "The exact row has standard deviations at a point and so is no bound of the others' posterior of them."
    ]
    report("mixed/insteval", "InstEval: crossed groups of thousands of levels", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
