"""CyTOF and gene expression: held-out log density of the five algorithms, and factors against gated populations.

CyTOF: arcsinh(x/5), 5 % of the entries held out. NCI60 and leukemia: genes as rows, 10 % held out.
Mutual information: of the strongest factor of each cell with its gated population, normalised.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.bpfa_inpainting import METHODS
from benchmarks.common import Array, arguments, data_folder, progress, report

SCORED, ROWS = 2000, 5000
#: Data, share held out, and passes: rows of gene expression are as many as there are genes.
SETS = (("cytof", 0.05, (5, 40)), ("nci60", 0.1, (10,)), ("leukemia", 0.1, (10,)))
FACTORS = 100


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
    for name, share, passes in SETS:
        X, label = load(name)
        order = np.random.default_rng(0).permutation(len(X))[: 2000 if quick else ROWS]
        X, label = X[order], None if label is None else label[order]
        held = np.random.default_rng(1).random(X.shape) < share
        known, asked = np.where(held, np.nan, X), np.where(held, X, np.nan)
        rows.append({"data": name, "method": "columns alone", "log density": columns_alone(known, asked)})
        for limit in passes[:1] if quick else passes:
            for method, (algorithm, local_step) in METHODS.items():
                model = BetaProcessFA(
                    FACTORS, algorithm=algorithm, local_step=local_step, max_iter=limit, tol=0.0, random_state=0
                )
                start = time.process_time()
                model.fit(known)
                rows.append({"data": name, "method": method, "passes": limit})
                rows[-1]["CPU seconds"] = time.process_time() - start
                few = slice(0, SCORED)
                density = model.log_predictive_density(known[few], asked[few]).sum() / held[few].sum()
                rows[-1] |= {"log density": float(density), "factors": model.n_effective_components_}
                if label is not None:
                    rows[-1]["NMI"] = information(model.transform(X[few]), label[few])
                progress(rows[-1])
        if label is not None:
            rows += peers(name, X, label)
    columns = ("data", "method", "passes", "CPU seconds", "log density", "factors", "NMI")
    table = [{key: row.get(key) for key in columns} for row in rows]
    notes = [
        f"At most {ROWS:,} rows, {FACTORS} factors (the paper: all rows, 500). Log density: nats per held-out entry in "
        f"the units of the transformed data, on {SCORED:,} rows. NMI: normalised "
        "mutual information of the strongest factor of a cell, by absolute value in units of its mean use, with its "
        "gated population. The peers are fitted to complete rows. Columns alone: a Gaussian "
        "for each column. Factors: effective number."
    ]
    report("bpfa_genomics", "CyTOF and gene expression", table, notes, quick)


def columns_alone(known: Array, asked: Array) -> float:
    """Mean log density of the first rows' held-out entries under a Gaussian for each column."""
    mean, variance = np.nanmean(known, 0), np.nanvar(known, 0)
    square = np.square(asked[:SCORED] - mean)
    return float(np.nanmean(-0.5 * (np.log(2 * np.pi * variance) + square / variance)))


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
            50, transform_algorithm="lasso_lars", max_iter=3, random_state=0
        ),
    }
    for method, model in models.items():
        start = time.process_time()
        model.fit(X)
        seconds = time.process_time() - start
        codes = model.transform(X[:SCORED])
        found.append(
            {"data": name, "method": method, "CPU seconds": seconds, "NMI": information(codes, label[:SCORED])}
        )
        progress(found[-1])
    return found


if __name__ == "__main__":
    main(arguments(__doc__))
