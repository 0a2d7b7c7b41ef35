"""The shape of the prior where columns outnumber rows: equal variances beside the powers of XᵀX that the bound chooses.

Cover of 90 % intervals of coefficients and of latents at new rows with the truth known, log loss (of a measured target
the negative log density) expected at 500 new rows; then log loss on texts and wide tables. "equal" fits have no choice;
"spreads" are these with words on spreads of their own in the place of one scale for all.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.glm._text_methods import columns_of, losses
from benchmarks.glm._text_sets import TextSet, all_sets, counts, newsgroups
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.linear_model._columns import ColumnScaling
from sksvi.models.linear import glm
from sksvi.models.linear.scales import POWERS

#: Rows and columns that are simulated; rows and words of texts.
SIZE, WORDS = (60, 150), (150, 400)
#: Columns are independent, share five factors, or are words (TF-IDF of four newsgroups); effects of all columns alike,
#: of four strong ones, or of the factors (of words: of sums of documents that are not among the rows).
DESIGNS = [(columns, truth) for columns in ("independent", "factors", "words") for truth in ("dense", "sparse")]
DESIGNS += [("factors", "leading"), ("words", "leading")]
NEW, REPEATS, SPLITS = 500, {"independent": 60, "factors": 60, "words": 30}, 2
#: Of a quick run, and texts of many rows.
QUICK, SLOW = ("sphinx/docutils", "factors, 100 x 2,000"), ("AP, court", "Reuters 2,000")


@contextmanager
def equal(only: bool, spreads: bool = False) -> Iterator[None]:
    """Fits inside have the powers of the prior that are usual, or but the one of equal variances."""
    powers, scale = (0,) if only else POWERS, property(lambda columns: columns.scale / columns.stats.spread)
    on_spreads = mock.patch.object(ColumnScaling, "common_scale", scale) if spreads else nullcontext()
    with mock.patch.object(glm, "POWERS", powers), on_spreads, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def words(n: int, d: int, truth: str, rng: np.random.Generator) -> tuple[Any, Array]:
    """TF-IDF of the d commonest words of n rows and of new ones, and coefficients of which f is a sum."""
    raw, _ = newsgroups(7, 8, 9, 10)
    order = rng.permutation(raw.shape[0])
    common = np.argsort(-np.bincount(raw[order[:n]].indices, minlength=raw.shape[1]), kind="stable")[:d]
    X = counts(raw[order[:n]][:, common], raw[order][:, common])[1]
    w = rng.standard_normal(d)
    if truth == "sparse":
        w[rng.permutation(d)[4:]] = 0.0
    elif truth == "leading":
        rest = X[n + NEW :]
        w = rest.T @ rng.standard_normal(rest.shape[0])
    return X[: n + NEW], w


def simulated(size: tuple[int, int], design: tuple[str, str], seed: int) -> tuple[Any, Array, Array]:
    """Columns of the rows and of new ones, their latents, of variance 4 about 0, and the coefficients."""
    (n, d), (columns, truth) = size, design
    rng = np.random.default_rng([seed, n, d, DESIGNS.index(design)])
    if columns == "words":
        X, w = words(n, d, truth, rng)
    else:
        X, loadings, w = rng.standard_normal((n + NEW, d)), rng.standard_normal((5, d)), rng.standard_normal(d)
        if columns == "factors":
            X = (X + rng.standard_normal((n + NEW, 5)) @ loadings) / np.sqrt(6.0)
        if truth == "sparse":
            w[4:] = 0.0
        elif truth == "leading":
            w = loadings.T @ rng.standard_normal(5)
    f = X @ w
    scale = 2.0 / np.std(f)
    return X, scale * (f - np.mean(f)), scale * w


def fitted(kind: str, X: Any, f: Array, new: Any, f_new: Array, w: Array, seed: int, only: bool) -> list[float]:
    """Power, cover of all coefficients and of those that are not 0, of latents, and the loss."""
    rng = np.random.default_rng([seed, 1])
    make = BayesianGLMRegressor if kind == "gaussian" else BayesianGLMClassifier
    y = f + rng.standard_normal(len(f)) if kind == "gaussian" else (f + rng.logistic(size=len(f)) > 0).astype(int)
    with equal(only):
        model = make(covariance="full").fit(X, y)
    table, d = model.summary(), X.shape[1]
    inside = (table["lower"].to_numpy()[:d] <= w) & (w <= table["upper"].to_numpy()[:d])
    m, v = model.predict_latent(new)
    if kind == "gaussian":
        loss = -np.mean(model.log_predictive_density(new, f_new + rng.standard_normal(len(f_new))))
    else:
        p, q = 1.0 / (1.0 + np.exp(-f_new)), model.predict_proba(new)[:, 1]
        loss = -np.mean(p * np.log(q) + (1.0 - p) * np.log1p(-q))
    covered = np.mean(np.abs(f_new - m) <= 1.645 * np.sqrt(v))
    return [model.prior_power_, inside.mean(), inside[w != 0].mean(), covered, float(loss)]


def covers(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for kind, design in itertools.product(("gaussian", "logit"), DESIGNS):
        n, d = WORDS if design[0] == "words" else SIZE
        found: dict[str, list[list[float]]] = {"equal": [], "chosen": []}
        for seed in range(3 if quick else REPEATS[design[0]]):
            X, f, w = simulated((n, d), design, seed)
            parts = X[:n], f[:n], X[n:], f[n:], w, seed
            found["chosen"].append(fitted(kind, *parts, False))
            same = found["chosen"][-1][0] == 0  # the fit without a choice has its bits
            found["equal"].append(found["chosen"][-1] if same else fitted(kind, *parts, True))
        for prior, own in found.items():
            rows.append(cover_row(kind, design, (n, d), prior, np.array(own)))
            progress(rows[-1])
    return rows


def cover_row(kind: str, design: tuple[str, str], size: tuple[int, int], prior: str, found: Array) -> dict[str, Any]:
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    row = {"target": kind, "columns": design[0], "effects": design[1], "rows": size[0], "of columns": size[1]}
    row |= {"prior": prior, "power 1": np.mean(found[:, 0] == 1)}
    row |= {"power 2": np.mean(found[:, 0] == 2), "cover, all": mean[1], "cover, not 0": mean[2], "its se": error[2]}
    return row | {"cover of f": mean[3], "loss": mean[4], "se of it": error[4]}


def text_row(data: TextSet, splits: int) -> dict[str, Any]:
    found: dict[str, list[list[float]]] = {name: [] for name in ("spreads", "equal", "chosen", "low-rank")}
    size = (0, 0)
    for A, labels, B, to_come in data.drawn(splits):
        size = A.shape
        for name, own in found.items():
            with equal(name in ("spreads", "equal"), name == "spreads"), Clock() as clock:
                model = BayesianGLMClassifier(covariance="low-rank" if name == "low-rank" else "full").fit(A, labels)
            loss = losses(model.predict_proba(B), columns_of(model.classes_, to_come)).mean()
            bound = np.nan if name == "low-rank" else model.lower_bound_
            own.append([float(loss), clock.cpu, bound, model.prior_power_])
    means = {name: np.mean(own, axis=0) for name, own in found.items()}
    row: dict[str, Any] = {"data": data.name, "kind": data.kind, "rows": size[0], "columns": size[1], "splits": splits}
    row |= {f"loss, {name}": mean[0] for name, mean in means.items()}
    gaps = np.subtract(found["chosen"], found["equal"])[:, 0]
    row |= {"se of chosen - equal": float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if splits > 1 else None}
    row |= {"powers": ", ".join(f"{own[3]:.0f}" for own in found["chosen"])}
    row |= {"bound, equal - spreads": means["equal"][2] - means["spreads"][2]}
    row |= {"bound, chosen - equal": means["chosen"][2] - means["equal"][2]}
    return row | {f"CPU, {name}": mean[1] for name, mean in means.items()}


def texts(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for data in all_sets():
        if data.several or data.kind == "D < n" or data.name in SLOW or (quick and data.name not in QUICK):
            continue
        try:
            rows.append(text_row(data, 1 if quick else SPLITS))
        except FileNotFoundError as error:
            progress({"data": data.name, "left out": str(error)})
            continue
        progress(rows[-1])
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means of ratios of the loss and of CPU seconds, of sparse tables and of dense ones."""
    found = []
    for kind in sorted({row["kind"] for row in rows}):
        own = [row for row in rows if row["kind"] == kind]
        ratios = np.array([row["loss, chosen"] / row["loss, equal"] for row in own])
        others = np.array([row["loss, chosen"] / row["loss, low-rank"] for row in own])
        cpu = np.array([row["CPU, chosen"] / row["CPU, equal"] for row in own])
        first = np.array([row["loss, equal"] / row["loss, spreads"] for row in own])
        found.append({"kind": kind, "sets": len(own), "equal / spreads": float(np.exp(np.log(first).mean()))})
        found[-1] |= {"chosen / equal": float(np.exp(np.log(ratios).mean()))}
        found[-1] |= {"worst": float(ratios.max()), "chosen / low-rank": float(np.exp(np.log(others).mean()))}
        found[-1] |= {"CPU, chosen / equal": float(np.exp(np.log(cpu).mean()))}
    return found


def main(quick: bool = False) -> None:
    note = (
        f"{REPEATS['factors']} sets each, of words {REPEATS['words']}; cover of f at {NEW} new rows. f has variance 4, "
        "Gaussian noise, which is learned, variance 1."
    )
    report(
        "glm/spectral_cover", "Cover and loss by the shape of the prior, the truth known", covers(quick), [note], quick
    )
    rows = texts(quick)
    notes = ["Means over random splits. Loss in nats; the bound pays for the choice. "
             f"{', '.join(SLOW)} are left out: with 1,000 rows and more a fit takes long."]  # fmt: skip
    report("glm/spectral", "Texts and wide tables by the shape of the prior", rows, notes, quick)
    report("glm/spectral_summary", "Ratios of log losses", summary(rows), ["Geometric means."], quick)


if __name__ == "__main__":
    main(arguments(__doc__))
