"""Write the models of the present version, and what they predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sksvi
from support import saved_models

#: One of each estimator, and of streams what they keep beside it.
NAMES = (
    "glm",
    "glm-stream",
    "glm-categories",
    "classes-three",
    "classes-low-rank",
    "mixed-slopes",
    "mixed-stream",
    "mixed-classes",
    "sparse-gp",
    "sparse-gp-classes",
    "gp-classes",
    "factors",
    "factors-stream",
    "topics",
    "lda",
    "components",
    "poisson-components",
    "poisson-components-tight",
    "pairs",
    "series",
    "loadings",
    "classes-of-bits",
    "classes-of-bits-gibbs",
    "latent-classes",
    "sparse-factors",
    "sparse-factors-gibbs",
    "network",
)


def main() -> None:
    folder = Path(__file__).parent / sksvi.__version__
    folder.mkdir(exist_ok=True)
    expected = {}
    for name in NAMES:
        model = saved_models.fit_model(name)
        model.save(folder / f"{name}.sksvi")
        for number, answer in enumerate(saved_models.model_answers(name, model)):
            expected[f"{name}.{number}"] = answer.astype(str) if answer.dtype == object else answer
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main()
