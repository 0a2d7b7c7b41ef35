"""CyTOF and gene expression: held-out log density of the five algorithms, and factors against gated populations.

CyTOF: arcsinh(x/5), 5 % of the entries held out. NCI60 and leukemia: genes as rows, 10 % held out.
Mutual information: of the strongest factor of each cell, the one that contributes most to its row, with its gated
population, normalised.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.bpfa_algorithms import METHODS
from benchmarks.common import Array, arguments, data_folder, progress, report

SCORED, ROWS = 2000, 10_000
#: Data, share held out, and passes: rows of gene expression are as many as there are genes.
SETS = (("cytof", 0.05, (2, 8, 30)), ("nci60", 0.1, (3, 10)), ("leukemia", 0.1, (3, 10)))
FACTORS = 100
#: Variants of Gibbs-SSVI on CyTOF.
VARIANTS: dict[str, dict[str, Any]] = {
    "30 factors": {"n_components": 30},
    "noise by column": {"noise": "columns"},
    "30 factors, noise by column": {"n_components": 30, "noise": "columns"},
}


def load(name: str) -> tuple[Array, Any]:
    """Rows, and labels of CyTOF."""
    folder = data_folder() / "genomics"
    if name == "cytof":
        with np.load(folder / "cytof_pbmc_helios.npz") as z:
            return np.arcsinh(z["X"].astype(float) / 5), z["label"]
    with np.load(folder / {"nci60": "nci60.npz", "leukemia": "leukemia_golub1999.npz"}[name]) as z:
        X = z["X"].astype(float).T
    return (np.arcsinh(X / 100) if name == "leukemia" else X), None


def scored(name: str, method: str, model: Any, known: Array, asked: Array, label: Any) -> dict[str, Any]:
    """One fit as a row of the table."""
    few, start = slice(0, SCORED), time.process_time()
    model.fit(known)
    row = {"data": name, "method": method, "passes": model.n_iter_, "CPU seconds": time.process_time() - start}
    held = ~np.isnan(asked[few])
    row["log density"] = float(model.log_predictive_density(known[few], asked[few]).sum() / held.sum())
    row |= {"factors": model.n_effective_components_, "used": float(model.feature_probability_.sum())}
    if label is not None:
        row["NMI"] = information(model.transform(known[few]), model.components_, label[few])
    progress(row)
    return row


def fits(name: str, passes: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Names and models of the rows for a data set."""
    from sksvi import BetaProcessFA

    for limit in passes:
        for method, (algorithm, local_step) in METHODS.items():
            shared = {"algorithm": algorithm, "local_step": local_step, "max_iter": limit}
            yield method, BetaProcessFA(FACTORS, tol=0.0, random_state=0, **shared)
    for variant, parameters in VARIANTS.items() if name == "cytof" else ():
        settings = {"n_components": FACTORS, "max_iter": passes[-1], **parameters}
        yield f"Gibbs-SSVI, {variant}", BetaProcessFA(tol=0.0, random_state=0, **settings)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    notes = [
        f"At most {ROWS:,} rows, {FACTORS} factors (the paper: all rows, 500). Log density: nats per held-out entry in "
        f"the units of the transformed data, on {SCORED:,} rows. NMI: normalised mutual information of a cell's "
        "strongest factor (the largest |code| times length of the factor) with its gated population; the peers are "
        "fitted to complete rows. Columns alone: a Gaussian for each column. factors: effective number. used: expected "
        "factors per row."
    ]
    columns = ("data", "method", "passes", "CPU seconds", "log density", "factors", "used", "NMI")
    rows: list[dict[str, Any]] = []
    for name, share, passes in SETS[:1] if quick else SETS:
        X, label = load(name)
        order = np.random.default_rng(0).permutation(len(X))[: 2000 if quick else ROWS]
        X, label = X[order], None if label is None else label[order]
        held = np.random.default_rng(1).random(X.shape) < share
        known, asked = np.where(held, np.nan, X), np.where(held, X, np.nan)
        rows.append({"data": name, "method": "columns alone", "log density": columns_alone(known, asked)})
        if label is not None:
            rows += peers(name, X, label)
        for method, model in fits(name, passes[:1] if quick else passes):
            rows.append(scored(name, method, model, known, asked, label))
            table = [{key: row.get(key) for key in columns} for row in rows]
            report("bpfa_genomics", "CyTOF and gene expression", table, notes, quick)


def columns_alone(known: Array, asked: Array) -> float:
    """Mean log density of the first rows' held-out entries under a Gaussian for each column."""
    mean, variance = np.nanmean(known, 0), np.nanvar(known, 0)
    square = np.square(asked[:SCORED] - mean)
    return float(np.nanmean(-0.5 * (np.log(2 * np.pi * variance) + square / variance)))


def information(codes: Array, components: Array, label: Array) -> float:
    """Normalised mutual information of the label with the factor that contributes most to a row."""
    from sklearn.metrics import normalized_mutual_info_score

    strongest = np.argmax(np.abs(codes) * np.linalg.norm(components, axis=1), 1)
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
            {
                "data": name,
                "method": method,
                "CPU seconds": seconds,
                "NMI": information(codes, model.components_, label[:SCORED]),
            }
        )
        progress(found[-1])
    return found


if __name__ == "__main__":
    main(arguments(__doc__))
