"""CyTOF and gene expression: held-out log density of the five algorithms, and factors against gated populations.

CyTOF: arcsinh(x/5), 5 % of the entries held out. NCI60 and leukemia: genes as rows, 10 % held out. K = 500 as in the
paper. Mutual information: of the strongest factor of each cell with its gated population, normalised.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.bpfa_inpainting import METHODS
from benchmarks.common import Array, arguments, data_folder, progress, report

SCORED = 5000


def load(name: str) -> tuple[Array, Any]:
    """Rows, and labels of CyTOF."""
    folder = data_folder() / "genomics"
    if name == "cytof":
        with np.load(folder / "cytof_pbmc_helios.npz") as z:
            return np.arcsinh(z["X"].astype(float) / 5), z["label"]
    with np.load(folder / {"nci60": "nci60.npz", "leukemia": "leukemia_golub1999.npz"}[name]) as z:
        X = z["X"].astype(float).T
    return (np.arcsinh(X / 100) if name == "leukemia" else X), None


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sksvi import BetaProcessFA

    warnings.simplefilter("ignore", ConvergenceWarning)
    rows: list[dict[str, Any]] = []
    for name, share, passes in (("cytof", 0.05, 3), ("nci60", 0.1, 20), ("leukemia", 0.1, 20)):
        X, label = load(name)
        order = np.random.default_rng(0).permutation(len(X))[: 2000 if quick else None]
        X, label = X[order], None if label is None else label[order]
        held = np.random.default_rng(1).random(X.shape) < share
        known, asked = np.where(held, np.nan, X), np.where(held, X, np.nan)
        for method, (algorithm, local_step) in METHODS.items():
            model = BetaProcessFA(
                100 if quick else 500,
                algorithm=algorithm,
                local_step=local_step,
                max_iter=1 if quick else passes,
                tol=0.0,
                random_state=0,
            )
            start = time.perf_counter()
            model.fit(known)
            seconds = time.perf_counter() - start
            few = slice(0, SCORED)
            density = model.log_predictive_density(known[few], asked[few]).sum() / held[few].sum()
            rows.append({"data": name, "method": method, "seconds": seconds, "log density": float(density)})
            rows[-1]["factors"] = model.n_effective_components_
            if label is not None:
                rows[-1]["NMI"] = information(model.transform(X[few]), label[few])
            progress(rows[-1])
        if label is not None:
            rows += peers(name, X, label)
    columns = ("data", "method", "seconds", "log density", "factors", "NMI")
    rows = [{key: row.get(key) for key in columns} for row in rows]
    notes = [
        "Log density: nats per held-out entry in the units of the transformed data, on 5,000 rows. NMI: normalised "
        "mutual information of the strongest factor of a cell, by absolute value in units of its mean use, with its "
        "gated population. The peers are fitted to complete rows."
    ]
    report("bpfa_genomics", "CyTOF and gene expression", rows, notes, quick)


def information(codes: Array, label: Array) -> float:
    """Normalised mutual information of the strongest factor with the label."""
    from sklearn.metrics import normalized_mutual_info_score

    size = np.sqrt(np.mean(np.square(codes), 0))
    strongest = np.argmax(np.abs(codes) / np.where(size > 0, size, 1.0), 1)
    return float(normalized_mutual_info_score(label, strongest))


def peers(name: str, X: Array, label: Array) -> list[dict[str, Any]]:
    """scikit-learn's factor analysis and dictionary learning."""
    from sklearn.decomposition import FactorAnalysis, MiniBatchDictionaryLearning

    found = []
    models = {
        "FactorAnalysis": FactorAnalysis(20, random_state=0),
        "MiniBatchDictionaryLearning": MiniBatchDictionaryLearning(
            50, transform_algorithm="lasso_lars", max_iter=10, random_state=0
        ),
    }
    for method, model in models.items():
        start = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - start
        codes = model.transform(X[:SCORED])
        found.append({"data": name, "method": method, "seconds": seconds, "NMI": information(codes, label[:SCORED])})
        progress(found[-1])
    return found


if __name__ == "__main__":
    main(arguments(__doc__))
