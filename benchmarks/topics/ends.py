"""Where default fits end: passes, whether they say that they converged, and what as many passes again would gain.

Real and simulated corpora of a few thousand documents, every parameter at its default.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.topics._data import compiled, corpus

#: Documents of 20 newsgroups that are taken, and documents that a word must occur in there.
NEWS_DOCUMENTS, NEWS_WORDS = 3000, 5
#: Name, documents, words of the vocabulary, topics and words of a document of the simulated corpora.
SIMULATED = (("short documents", 5000, 1000, 20, 60), ("long documents", 2000, 500, 20, 200))


def newsgroups() -> Any:
    """Some documents of 20 newsgroups, without rare words."""
    X = corpus("newsgroups20")["X"]
    X = X[np.sort(np.random.default_rng(0).choice(X.shape[0], NEWS_DOCUMENTS, replace=False))]
    return X[:, np.diff(X.tocsc().indptr) >= NEWS_WORDS]


def corpora(quick: bool) -> dict[str, Any]:
    """Counts by name."""
    from sksvi.datasets import make_ctm

    if quick:
        return {"simulated": make_ctm(250, 60, n_components=20, n_words=30, random_state=0).data}
    found = {"NIPS papers": corpus("nips_uci_min21")["X"], "Associated Press": corpus("ap_blei")["X"]}
    found["20 newsgroups"] = newsgroups()
    for name, documents, words, topics, n_words in SIMULATED:
        simulated = make_ctm(documents, words, n_components=topics, n_words=n_words, random_state=0)
        found[f"simulated, {name}"] = simulated.data
    return found


def ended(X: Any) -> dict[str, Any]:
    """The default fit, and its bound beside that of a fit twice as long."""
    from sksvi import CorrelatedTopicModel

    model = CorrelatedTopicModel(random_state=0, uncertainty="variational")
    with warnings.catch_warnings(record=True) as caught, Clock() as clock:
        warnings.simplefilter("always")
        model.fit(X)
    longer = clone(model).set_params(tol=0.0, max_iter=2 * model.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer.fit(X)
    gain = (longer.lower_bound_ - model.lower_bound_) / abs(model.lower_bound_)
    return {
        "passes": model.n_iter_,
        "converged": bool(model.converged_),
        "warnings": sum(issubclass(one.category, ConvergenceWarning) for one in caught),
        "left / tol": gain / model.tol,
        "topics without words": int(np.sum(model.topic_prevalence_ == 0)),
        **clock.spent,
    }


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name, X in corpora(quick).items():
        compiled(20, X)
        rows.append({"corpus": name, "documents": X.shape[0], "words": X.shape[1], **ended(X)})
        progress(rows[-1])
        report("topics/ends", TITLE, rows, NOTES, quick)


TITLE = "Where default fits of the correlated topic model end"
NOTES = [
    "Default parameters, 20 topics. Left: what the bound gains in as many passes again, as a share of it, in units of "
    "`tol`; a fit stops where two checks of the exact bound gained less than 10 of them. Warnings: of convergence."
]


if __name__ == "__main__":
    main(arguments(__doc__))
