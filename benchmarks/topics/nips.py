"""Document completion on NIPS papers: our correlated topic models beside scikit-learn's LDA in the same run.

The default fit at K = 50, 100, 150, full covariances at 50; the first pass after which the score of the default is past
-7.36 nats per word, and its seconds. Other packages: ``benchmarks.topics.peers``.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import Split, compiled, completion, nips, path, unigram, whole_fit
from benchmarks.topics._peers import lda

#: The score whose time is measured, and the passes that are looked at for it.
MARK, LOOKS = -7.36, tuple(range(1, 31))
COLUMNS = ("K", "method", "passes", "seconds", "CPU seconds", "log p per word")


def main(quick: bool = False) -> None:
    found = nips(quick)
    sizes = (5,) if quick else (50, 100, 150)
    rows: list[dict[str, Any]] = [dict.fromkeys(COLUMNS) | {"method": "unigram", "log p per word": unigram(found)}]
    methods: list[tuple[int, str]] = [(sizes[0], name) for name in ("default", "LDA", "time")]
    methods += [(K, "default") for K in sizes[1:]] + [(sizes[0], "full covariance")]
    for K, method in methods:
        rows.append({"K": K, **one(method, K, found, quick)})
        progress(rows[-1])
        # After every method: a run that is cut off leaves those that it finished.
        report("topics/nips", TITLE, rows, NOTES, quick)


def one(method: str, K: int, found: Split, quick: bool) -> dict[str, Any]:
    """The row of a method."""
    from sksvi import CorrelatedTopicModel

    if method == "LDA":
        peer = lda(K, 3 if quick else 50)
        return {
            "method": "LDA (scikit-learn, batch)",
            **whole_fit(peer, found.train),
            "log p per word": completion(peer, found),
        }
    parameters = {"covariance": "full"} if method == "full covariance" else {}
    compiled(K, found.train, **parameters)
    model = CorrelatedTopicModel(K, random_state=0, **parameters)
    if method == "time":
        model.set_params(uncertainty="variational")
        return reached(model, found, LOOKS[:1] if quick else LOOKS)
    if quick:
        model.set_params(max_iter=2)
    return {
        "method": f"CTM, {method}",
        **whole_fit(model, found.train),
        "log p per word": completion(model, found),
    }


def reached(model: Any, found: Split, looks: tuple[int, ...]) -> dict[str, Any]:
    """The first look at which the mark is passed, or the last one."""
    row = path(model, found, looks, mark=MARK)[-1]
    name = f"CTM, default, first pass past {MARK}" if row["log p per word"] >= MARK else "CTM, default, never past it"
    return {"method": name} | {key: row[key] for key in row if key != "bound per word"}


TITLE = "Document completion on NIPS papers (1,200 to fit, 300 to test)"
NOTES = [
    "log p per word: mean over the held-out words, half of the distinct words of each test document; higher is better. "
    "Seconds of whole fits, compilation apart, on a machine that others use too: CPU seconds compare. LDA: 50 passes, "
    f"default priors. First pass past {MARK}: seconds of the passes alone, without the bound at the end."
]


if __name__ == "__main__":
    main(arguments(__doc__))
