"""CyTOF and gene expression: held-out log density of the five algorithms, and factors against gated populations.

CyTOF: arcsinh(x/5), 5 % of the entries held out. NCI60 and leukemia: genes as rows, 10 % held out.
Mutual information: of the strongest factor of each cell, the one that contributes most to its row, with its gated
population, normalised.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments
from benchmarks.beta_process._methods import METHODS

SCORED, PEER_ROWS = 2000, 10_000
PEERS = ("FactorAnalysis", "MiniBatchDictionaryLearning")
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


def scored(model: Any, known: Array, asked: Array, label: Any) -> dict[str, Any]:
    """One fit: what it cost, and its scores."""
    few, start = slice(0, SCORED), time.process_time()
    model.fit(known)
    row: dict[str, Any] = {"CPU seconds": time.process_time() - start}
    held = ~np.isnan(asked[few])
    row["log density"] = float(model.log_predictive_density(known[few], asked[few]).sum() / held.sum())
    row |= {"factors": model.n_effective_components_, "used": float(model.feature_probability_.sum())}
    if label is not None:
        row["NMI"] = information(model.transform(known[few]), model.components_, label[few])
    return row


def cells_of(sets: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Data, factors, method and passes of every row, the other models first."""
    cells: list[dict[str, Any]] = []
    for name in dict.fromkeys(chosen[0] for chosen in sets):
        others = ["columns alone", *(PEERS if name == "cytof" else ())]
        cells += [{"data": name, "K": None, "method": method, "passes": None} for method in others]
    for name, _, factors, draws, steps in sets:
        for method, (_, local_step) in METHODS.items():
            limits = draws if local_step == "gibbs" else steps
            cells += [{"data": name, "K": factors, "method": method, "passes": limit} for limit in limits]
    for variant, parameters in VARIANTS.items() if sets == CELLS else ():
        row = {"data": "cytof", "K": parameters["n_components"], "method": f"Gibbs-SSVI, {variant}"}
        cells.append(row | {"passes": VARIANT_PASSES})
    return cells


def run(cell: dict[str, Any], shares: dict[str, float], quick: bool) -> list[dict[str, Any]]:
    """The columns of one row."""
    from sksvi import BetaProcessFA

    name, method = cell["data"], cell["method"]
    X, known, asked, label = split_of(name, shares[name], quick)
    if method == "columns alone":
        return [{"log density": columns_alone(known, asked)}]
    if method in PEERS:
        return [peer(method, X[:PEER_ROWS], label[:PEER_ROWS])]
    algorithm, local_step = METHODS[method.split(",")[0]]
    parameters = VARIANTS.get(method.partition(", ")[2], {"n_components": cell["K"]})
    options = {"algorithm": algorithm, "local_step": local_step, "max_iter": cell["passes"], **parameters}
    model = BetaProcessFA(tol=0.0, random_state=0, weight_precision="learned", **options)
    return [scored(model, known, asked, label)]


@functools.lru_cache(maxsize=1)
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
    "expected factors per row. Rows that are not in the table were not run. Rows with one start: of an earlier "
    "version, in which a row ascended from even odds alone."
]
COLUMNS = ("data", "method", "K", "passes", "CPU seconds", "log density", "factors", "used", "NMI")


def tabulated(table: str, title: str, sets: tuple[Any, ...], quick: bool) -> None:
    """Every fit to these data sets, stored after each; those that are stored are not run again."""
    cells = cells_of(sets)
    if quick:
        cells = [cell | {"passes": cell["passes"] and 1} for cell in cells if cell["data"] == cells[0]["data"]][:8]
    shares = {name: share for name, share, *_ in sets}
    by_cells(table, title, cells, lambda cell: run(cell, shares, quick), NOTES, quick, COLUMNS)


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


def peer(method: str, X: Array, label: Array) -> dict[str, Any]:
    """scikit-learn's factor analysis or dictionary learning."""
    from sklearn.decomposition import FactorAnalysis, MiniBatchDictionaryLearning

    models = {
        "FactorAnalysis": FactorAnalysis(20, random_state=0),
        "MiniBatchDictionaryLearning": MiniBatchDictionaryLearning(
            50, transform_algorithm="lasso_lars", max_iter=3, random_state=0
        ),
    }
    model, start = models[method], time.process_time()
    model.fit(X)
    seconds = time.process_time() - start
    codes = model.transform(X[:SCORED])
    return {"CPU seconds": seconds, "NMI": information(codes, model.components_, label[:SCORED])}


if __name__ == "__main__":
    main(arguments(__doc__))
