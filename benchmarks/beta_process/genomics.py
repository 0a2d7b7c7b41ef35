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

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._methods import METHODS

SCORED, PEER_ROWS = 2000, 10_000
#: Data, share held out, factors, and passes of draws and of the others; each is a fit of its own. The paper has 500.
CELLS = (("cytof", 0.05, 500, (1, 8), (1, 3)),)
GENES = (
    ("nci60", 0.1, 500, (5,), (5,)),
    ("nci60", 0.1, 100, (10,), (10,)),
    ("leukemia", 0.1, 100, (10,), (10,)),
)
#: Variants of Gibbs-SSVI on CyTOF, and their passes.
VARIANTS: dict[str, dict[str, Any]] = {
    "noise by column": {"n_components": 500, "noise": "columns"},
    "100 factors": {"n_components": 100},
    "30 factors": {"n_components": 30},
}
VARIANT_PASSES = 10


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
    row = {"data": name, "method": method, "K": model.n_components, "passes": model.n_iter_}
    row["CPU seconds"] = time.process_time() - start
    held = ~np.isnan(asked[few])
    row["log density"] = float(model.log_predictive_density(known[few], asked[few]).sum() / held.sum())
    row |= {"factors": model.n_effective_components_, "used": float(model.feature_probability_.sum())}
    if label is not None:
        row["NMI"] = information(model.transform(known[few]), model.components_, label[few])
    progress(row)
    return row


def fits(name: str, factors: int, draws: tuple[int, ...], others: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Names and models of the rows for a data set."""
    from sksvi import BetaProcessFA

    for method, (algorithm, local_step) in METHODS.items():
        for limit in draws if local_step == "gibbs" else others:
            shared = {"algorithm": algorithm, "local_step": local_step, "max_iter": limit}
            yield method, BetaProcessFA(factors, tol=0.0, random_state=0, weight_precision="learned", **shared)
    for variant, parameters in VARIANTS.items() if name == "cytof" else ():
        yield (
            f"Gibbs-SSVI, {variant}",
            BetaProcessFA(max_iter=VARIANT_PASSES, tol=0.0, random_state=0, weight_precision="learned", **parameters),
        )


def split_of(name: str, share: float, quick: bool) -> tuple[Array, Array, Array, Any]:
    """Shuffled rows, what is known of them, what is asked, and labels."""
    X, label = load(name)
    order = np.random.default_rng(0).permutation(len(X))[: 2000 if quick else None]
    X, label = X[order], None if label is None else label[order]
    held = np.random.default_rng(1).random(X.shape) < share
    return X, np.where(held, np.nan, X), np.where(held, X, np.nan), label


NOTES = [
    "All rows; every row of the table is a fit of its own. Log density: nats per held-out entry in the units of the "
    f"transformed data, on {SCORED:,} rows: the log of the mean over 200 draws of the density of a row's held-out "
    "entries, weights integrated out. NMI: normalised mutual information of a cell's strongest factor (the largest "
    "|code| times length of the factor) with its gated population, on the same rows; the peers are fitted to "
    f"{PEER_ROWS:,} complete rows. Columns alone: a Gaussian for each column. factors: effective number. used: "
    "expected factors per row. Rows that are not in the table were not run."
]
COLUMNS = ("data", "method", "K", "passes", "CPU seconds", "log density", "factors", "used", "NMI")


def tabulated(table: str, title: str, sets: tuple[Any, ...], quick: bool) -> None:
    """Every fit to these data sets, stored after each."""
    rows: list[dict[str, Any]] = []
    for name, share, factors, draws, others in sets[:1] if quick else sets:
        X, known, asked, label = split_of(name, share, quick)
        rows.append({"data": name, "method": "columns alone", "log density": columns_alone(known, asked)})
        if label is not None:
            rows += peers(name, X[:PEER_ROWS], label[:PEER_ROWS])
        for method, model in fits(name, factors, (1,) if quick else draws, (1,) if quick else others):
            rows.append(scored(name, method, model, known, asked, label))
            report(table, title, [{key: row.get(key) for key in COLUMNS} for row in rows], NOTES, quick)


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    tabulated("beta_process/genomics_genes", "Gene expression", GENES, quick)
    tabulated("beta_process/genomics", "CyTOF", CELLS, quick)


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
