"""Fits that go on with more rows than they began among, beside a fresh fit to all of them.

Ways: a fresh fit; streams from the first chunk; a fit to few rows that is warm-started with all; one that goes on in
chunks. ``score`` is what `score` says of rows that no fit has seen: R² of ratings, else log density a row, word or
cell. ``behind`` is by how much the bound is below the fresh fit's, nats a row (batch fits only).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock


@dataclass
class Case:
    """Rows of which the first `n` are fitted; sizes of chunks and of first fits."""

    name: str
    estimator: Any
    parts: tuple[np.ndarray, ...]
    n: int
    chunks: tuple[int, ...]
    first: tuple[int, ...]

    def rows(self, start: int, stop: int | None) -> tuple[np.ndarray, ...]:
        return tuple(part[start:stop] for part in self.parts)

    def in_chunks(self, model: Any, size: int, start: int = 0) -> Any:
        for begin in range(start, self.n, size):
            model.partial_fit(*self.rows(begin, min(begin + size, self.n)))
        return model

    def ways(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        def fresh() -> Any:
            return clone(self.estimator)

        def warm(size: int) -> Any:
            model = fresh().set_params(warm_start=True).fit(*self.rows(0, size))
            return model.fit(*self.rows(0, self.n))

        yield "fresh", lambda: fresh().fit(*self.rows(0, self.n))
        for size in self.chunks:
            yield f"chunks of {size}", lambda size=size: self.in_chunks(fresh(), size)
        for size in self.first:
            yield f"fit to {size}, warm", lambda size=size: warm(size)
        for size in self.first:
            yield (
                f"fit to {size}, chunks of {self.chunks[-1]}",
                lambda size=size: self.in_chunks(fresh().fit(*self.rows(0, size)), self.chunks[-1], size),
            )


def ratings(n_factors: int) -> tuple[np.ndarray, np.ndarray]:
    """12,000 ratings of 300 users and 200 items, noise of deviation 0.5."""
    rng = np.random.default_rng(0)
    users, items = (0.7 * rng.standard_normal((n, n_factors)) for n in (300, 200))
    X = np.column_stack([rng.integers(0, 300, 12000), rng.integers(0, 200, 12000)])
    f = np.sum(users[X[:, 0]] * items[X[:, 1]], axis=1) + 0.4 * rng.standard_normal(300)[X[:, 0]]
    return X, f + 0.5 * rng.standard_normal(len(f))


def cases(quick: bool) -> list[Case]:
    from sksvi import BernoulliMixture, GeneralizedPMF
    from sksvi.decomposition import BetaProcessFA, GammaFactorModel, GammaPoissonFactorization, GammaProcessNMF
    from sksvi.topics import CorrelatedTopicModel, StructuredLDA

    rng = np.random.default_rng(0)
    digits = rng.permutation(load_digits().data)
    loadings = rng.exponential(1.0, (10, 40))
    sums = rng.standard_normal((1500, 10)) @ loadings + 0.3 * rng.standard_normal((1500, 40))
    topics, shares = rng.dirichlet(np.full(200, 0.05), 12), rng.dirichlet(np.full(12, 0.2), 2000)
    words = np.stack([rng.multinomial(60, share @ topics) for share in shares]).astype(float)
    every = [
        Case(
            "ratings, 3 factors",
            GeneralizedPMF(12, uncertainty="variational"),
            ratings(3),
            10000,
            (100, 1000),
            (1000, 4000),
        ),
        Case(
            "ratings, 6 factors",
            GeneralizedPMF(12, uncertainty="variational"),
            ratings(6),
            10000,
            (100, 1000),
            (1000, 4000),
        ),
        Case("digits as 0 and 1", BernoulliMixture(), ((digits > 8).astype(float),), 1500, (50, 200), (50, 300, 900)),
        Case("digits", GammaPoissonFactorization(20, uncertainty="variational"), (digits,), 1500, (50, 200), (50, 300)),
        Case("digits", GammaProcessNMF(50, uncertainty="variational"), (digits,), 1500, (50, 200), (50, 300)),
        Case("digits, centred", BetaProcessFA(30), (digits - digits.mean(0),), 800, (50, 200), (50, 300)),
        Case("sums of ten parts", GammaFactorModel(10), (sums,), 1000, (100, 500), (15, 60, 300)),
        Case("words of 12 topics", StructuredLDA(12), (words,), 1500, (50, 200), (20, 100, 500)),
        Case("words of 12 topics", CorrelatedTopicModel(12), (words,), 1000, (50, 200), (20, 100, 500)),
    ]
    return every[:1] if quick else every


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for case in cases(quick):
        case.estimator.set_params(random_state=0)
        fresh = None
        for way, make in case.ways():
            with warnings.catch_warnings(), Clock() as clock:
                warnings.simplefilter("ignore")
                model = make()
            fresh = model if fresh is None else fresh
            batch = "chunks" not in way
            behind = (fresh.lower_bound_ - model.lower_bound_) / case.n
            rows.append(
                {
                    "data": case.name,
                    "estimator": type(model).__name__,
                    "way": way,
                    "score": round(float(model.score(*case.rows(case.n, None))), 4),
                    "behind": round(behind, 3) + 0.0 if batch else None,
                    "CPU s": float(f"{clock.cpu:.2g}"),
                }
            )
            progress(rows[-1])
    report("product/growth", "Fits that go on with more rows than they began among", rows, [], quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
