"""Do 90 % intervals hold expected counts, and cells that were missing? By mean count and start."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.measures import fitted, inside
from benchmarks._lib.tables import arguments, progress, report

DATA_SETS = 10
TITLE = "Cover of the intervals of expected counts"
NOTES = [
    "200 rows of 30 frequencies from four components, fitted by eight; a tenth of the cells missing. Intervals of mean "
    f"± 1.645 standard deviations, {DATA_SETS} data sets: of the expected counts of cells that were seen and of those "
    "that were not, and of the counts themselves that were not, Poisson noise included."
]


def main(quick: bool = False) -> None:
    from sksvi import GammaProcessNMF
    from sksvi.datasets import make_spectra

    rows: list[dict[str, Any]] = []
    for mean_count in (2.0,) if quick else (2.0, 10.0, 50.0):
        for search in (0,) if quick else (0, 150):
            found = []
            for seed in range(2 if quick else DATA_SETS):
                bunch = make_spectra(200, 30, n_components=4, mean_count=mean_count, random_state=seed)
                missing = np.random.default_rng(seed).random(bunch.data.shape) < 0.1
                hidden = np.where(missing, np.nan, bunch.data)
                model = fitted(
                    GammaProcessNMF(8, search_passes=search, uncertainty="variational", random_state=seed), hidden
                )
                mean, std = model.reconstruct(hidden, return_std=True)
                filled, spread = model.impute(hidden, return_std=True)
                apart = bunch.activations @ bunch.components - mean
                covers = [inside(apart[~missing], std[~missing]), inside(apart[missing], std[missing])]
                found.append([*covers, inside((bunch.data - filled)[missing], spread[missing])])
            shares, errors = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(len(found))
            rows.append({"mean count": mean_count, "search_passes": search})
            for name, share, error in zip(
                ("expected, seen", "expected, missing", "counts"), shares, errors, strict=True
            ):
                rows[-1] |= {name: float(share), f"{name}: se": float(error)}
            progress(rows[-1])
    report("nmf/coverage", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
