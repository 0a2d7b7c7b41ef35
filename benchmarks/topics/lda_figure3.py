"""The structured SVI paper's Figure 3: where mean-field SVI ends that begins from what each algorithm found.

Every algorithm fits the NIPS papers, then two passes of SVI go on from its topics; bounds are those of mean field.
"""

from __future__ import annotations

import warnings
from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import completion, corpus, small, split
from benchmarks.topics.lda_grid import ALGORITHMS, PAPER

#: Seeds of the splits, passes of each algorithm, and of SVI from there.
SEEDS, PASSES, MORE = (0, 1), 20, 2
NOTES = [
    f"NIPS, K = 50, mean-field documents, priors 0.1 of topics and 0.01 of words (not the default), {PASSES} passes, "
    f"then {MORE} of svi. Bounds: mean field, nats per word of the fit. log p per word: completion, after both."
]


def main(quick: bool = False) -> None:
    from sksvi import StructuredLDA

    X, rows = corpus("nips_uci_min21")["X"], list[dict[str, Any]]()
    for seed in SEEDS[:1] if quick else SEEDS:
        found = small(split(X, seed)) if quick else split(X, seed)
        words = found.train.sum()
        for algorithm in ALGORITHMS:
            options = {"algorithm": algorithm, "random_state": 0, "tol": 0.0, "warm_start": True, "n_jobs": 1, **PAPER}
            options["uncertainty"] = "variational"
            model = StructuredLDA(5 if quick else 50, max_iter=2 if quick else PASSES, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                before = model.fit(found.train).lower_bound_
                after = model.set_params(algorithm="svi", max_iter=MORE).fit(found.train).lower_bound_
            rows.append({"split": seed, "algorithm": algorithm, "bound per word": before / words})
            rows[-1] |= {"after svi": after / words, "log p per word": completion(model, found)}
            progress(rows[-1])
    report("topics/lda_figure3", "Bounds of mean-field SVI begun from four algorithms", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
