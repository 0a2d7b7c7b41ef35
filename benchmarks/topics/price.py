"""The price of an assumption in topic models: nats that two bounds of a document lose to the optimal one at one q.

The NIPS papers, 1,200 documents, and simulated documents of eight topics; `sksvi.inspection.bound_report` has each
document's term under all three bounds at the same topics and the same N(μ, Σ), its q(η) fitted anew under each. Of
words that the topics share "mean-field" takes the topic of each as independent of η, "simple" averages log
probabilities over topics. Documents are told apart by their length and by how many topics they mix: the exponential of
the entropy of their proportions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.measures import fitted
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import nips

BOUNDS = ("optimal", "mean-field", "simple")
TOPICS, SIMULATED, CORPORA = (20, 50), 1000, 5


def simulated(seed: int, quick: bool) -> Any:
    from sksvi.datasets import make_ctm

    return make_ctm(100 if quick else SIMULATED, 500, random_state=seed).data


def price(X: Any, k: int, bound: str, seed: int) -> tuple[Any, Any]:
    """A fit by one bound, and its report on its documents."""
    from sksvi import CorrelatedTopicModel
    from sksvi.inspection import bound_report

    model = fitted(CorrelatedTopicModel(k, bound=bound, random_state=seed, uncertainty="variational"), X)
    return model, bound_report(model, X)


def row_of(name: str, k: int, bound: str, corpora: list[tuple[Any, Any, Any]]) -> dict[str, Any]:
    """A line per corpus, number of topics and bound of the fit: means over the corpora, and their spread."""
    row = {"corpus": name, "topics": k, "corpora": len(corpora), "q fitted by": bound}
    row["optimal bound"] = float(np.mean([its.totals.loc["optimal", "bound"] for _, _, its in corpora]))
    for other in BOUNDS[1:]:
        lost = [1e3 * its.rows[f"optimal - {other}"].sum() / X.sum() for X, _, its in corpora]
        row[f"{other} loses"] = float(np.mean(lost))
        row[f"sd of {other}"] = float(np.std(lost, ddof=1)) if len(lost) > 1 else None
        row[f"by document, {other}"] = float(np.mean([its.rows[f"optimal - {other}"].mean() for _, _, its in corpora]))
    row["report above the fit"] = float(
        np.mean([its.totals.loc[bound, "bound"] - model.lower_bound_ for _, model, its in corpora])
    )
    return row


def thirds(values: Array) -> list[tuple[str, Array]]:
    """Least, middle and largest third of documents by a number of each, with what it is there."""
    order = np.argsort(values, kind="stable")
    return [(f"{values[part].min():.3g} to {values[part].max():.3g}", part) for part in np.array_split(order, 3)]


def rows_by_document(name: str, k: int, X: Any, model: Any, its: Any) -> list[dict[str, Any]]:
    """Price of a word by length and mixture of the documents."""
    shares, words = model.transform(X), np.asarray(X.sum(1)).ravel()
    mixed = np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1))
    rows = []
    for what, values in (("words", words), ("topics mixed", mixed)):
        for label, part in thirds(values):
            row = {"corpus": name, "topics": k, "documents by": what, "from": label, "documents": len(part)}
            for other in BOUNDS[1:]:
                lost = its.rows[f"optimal - {other}"].to_numpy()[part]
                row[f"{other} loses"] = 1e3 * float(lost.sum() / words[part].sum())
                row[f"by document, {other}"] = float(lost.mean())
            rows.append(row)
    return rows


def main(quick: bool = False) -> None:
    rows, documents = [], []
    cases = [("NIPS", k, [nips(quick).train]) for k in ((5,) if quick else TOPICS)]
    cases += [("simulated", 8, [simulated(seed, quick) for seed in range(1 if quick else CORPORA)])]
    for name, k, corpora in cases:
        for bound in BOUNDS:
            found = [(X, *price(X, k, bound, seed)) for seed, X in enumerate(corpora)]
            rows.append(row_of(name, k, bound, found))
            progress(rows[-1])
            if bound == "optimal":
                documents += rows_by_document(name, k, *found[0])
    notes = [
        "One q of topics and N(μ, Σ) in each line. Loses: nats per 1,000 words; by document: nats per document. Report "
        "above the fit: the fitted bound at documents that are settled for the report, less `lower_bound_`."
    ]
    report("topics/price", "The price of the mean-field and of the simple bound at one q", rows, notes, quick)
    title = "The price of documents by their length and by the number of topics that they mix"
    notes = ["At the q of the optimal bound, the first corpus. Loses: nats per 1,000 words."]
    report("topics/price_documents", title, documents, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
