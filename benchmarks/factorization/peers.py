"""Other packages on the same splits of ratings: myFM, SMURFF, Surprise and LightFM, stored beside our tables.

Needs them installed (``pip install myfm smurff scikit-surprise lightfm``; sksvi itself is not needed) and is rerun only
when named. A sampler's scores after n iterations average the predictive distributions of the last half of them, and its
seconds are its own: computing the test predictions is left out. "cores" is what a package may use. What was taken where
a package reports no noise or no probability is in the table's notes.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.factorization._data import (
    Split,
    binary_scores,
    errors,
    level_scores,
    movielens,
    rounded_mass,
    side_features,
    small,
    stored_peers,
)

#: A long run: done anew only when it is named.
STORED = True
#: Iterations after which a sampler is scored, as long as its time lasts.
CHECKPOINTS = (10, 20, 35, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200)
#: Threads of those that have any: the cores that this process may use.
THREADS = len(os.sched_getaffinity(0))
#: SMURFF's noise precision, fixed: with its sampled noise the test scores depend on the precision it starts from.
PRECISION = 1.5
N_USERS, N_ITEMS, SEED = 6040, 3952, 0
Rows = Iterator[dict[str, Any]]


def required(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        package = {"surprise": "scikit-surprise"}.get(name, name)
        raise ModuleNotFoundError(f"this row is measured with {package}, which is not installed: pip install {package}")


# ---------------------------------------------------------------- what samplers share


class LastHalf:
    """Averages of per-sample arrays over the last half of the samples at every checkpoint; the time of training."""

    def __init__(self, limit: float) -> None:
        self.marks = sorted({0, *CHECKPOINTS, *(n // 2 for n in CHECKPOINTS)})
        self.sums: dict[int, Any] = {0: 0.0}
        self.total: Any = 0.0
        self.n, self.limit, self.clock = 0, limit, Clock()
        self.start_clock()

    def stop_clock(self) -> None:
        """One more iteration is done."""
        self.clock.__exit__()
        self.n += 1

    def add(self, sample: Array) -> Array | None:
        """Add the sample's array; its average at a checkpoint, else None."""
        self.total = self.total + sample
        if self.n not in self.marks:
            return None
        self.sums[self.n] = self.total
        if self.n not in CHECKPOINTS:
            return None
        half = self.n // 2
        return np.asarray((self.total - self.sums.pop(half)) / (self.n - half))

    def start_clock(self) -> None:
        self.clock.__enter__()

    @property
    def spent(self) -> bool:
        return self.clock.cpu > self.limit or self.n >= CHECKPOINTS[-1]


def gaussian_sample(y: Array, mean: Array, sd: float) -> Array:
    """Per row what a Gaussian predictive draw gives: its mean, density at y, distribution function at y, mass of y."""
    from scipy.special import ndtr

    z = (y - mean) / sd
    density = np.exp(-0.5 * z * z) / (np.sqrt(2 * np.pi) * sd)
    return np.column_stack([mean, density, ndtr(z), rounded_mass(y, mean, sd)])


def gaussian_scores(y: Array, averages: Array) -> dict[str, float]:
    mean, density, below, mass = averages.T
    return {
        **errors(y, mean),
        "log density": float(np.mean(np.log(density))),
        "log mass": float(np.mean(np.log(mass))),
        "coverage 90 %": float(np.mean((below > 0.05) & (below < 0.95))),
    }


# ---------------------------------------------------------------- myFM


def one_hot(pairs: Array) -> Any:
    """Columns of users, then of items."""
    import scipy.sparse as sp

    rows = np.repeat(np.arange(len(pairs)), 2)
    columns = np.column_stack([pairs[:, 0] - 1, N_USERS + pairs[:, 1] - 1]).ravel()
    return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(pairs), N_USERS + N_ITEMS))


def side_columns(pairs: Array) -> Any:
    """Columns of the users' features, then of the items'."""
    import scipy.sparse as sp

    users, items = side_features()
    items = items.reindex(np.arange(1, N_ITEMS + 1), fill_value=0.0)
    left, right = sp.csr_matrix(users.to_numpy()), sp.csr_matrix(items.to_numpy())
    return sp.hstack([left[pairs[:, 0] - 1], right[pairs[:, 1] - 1]]).tocsr(), (users.shape[1], items.shape[1])


def myfm(split: Split, kind: str, rank: int, limit: float, side: bool = False) -> Rows:
    """myFM's Gibbs sampler; ``kind``: "ordinal" (ordered probit), "gaussian" or "binary" (probit)."""
    required("myfm")
    import myfm as package
    import scipy.sparse as sp
    from scipy.special import ndtr

    pairs, y, test, y_test = split
    X, X_test, groups = one_hot(pairs), one_hot(test), [N_USERS, N_ITEMS]
    if side:
        more, sizes = side_columns(pairs)
        X, X_test, groups = sp.hstack([X, more]).tocsr(), sp.hstack([X_test, side_columns(test)[0]]).tocsr(), groups
        groups = [*groups, *sizes]
    names = {"ordinal": "MyFMOrderedProbit", "gaussian": "MyFMRegressor", "binary": "MyFMClassifier"}
    model = getattr(package, names[kind])(rank=rank, random_seed=SEED)
    found: list[dict[str, Any]] = []
    run = LastHalf(limit)

    def callback(i: int, fm: Any, hyper: Any, history: Any) -> tuple[bool, None]:
        run.stop_clock()
        if kind == "ordinal":
            sample = fm.oprobit_predict_proba(X_test, [], 0)
        elif kind == "binary":
            sample = ndtr(fm.predict_score(X_test, []))
        else:
            sample = gaussian_sample(y_test, fm.predict_score(X_test, []), float(hyper.alpha) ** -0.5)
        average = run.add(np.asarray(sample))
        if average is not None:
            score = {"ordinal": level_scores, "binary": binary_scores, "gaussian": gaussian_scores}[kind]
            found.append({"iterations": run.n, **run.clock.spent, **score(y_test, average), "cores": 1})
            progress(found[-1])
        run.start_clock()
        return run.spent, None

    target = (y - 1).astype(np.int64) if kind == "ordinal" else y
    model.fit(X, target, n_iter=CHECKPOINTS[-1], n_kept_samples=1, group_shapes=groups, callback=callback)
    yield from found


# ---------------------------------------------------------------- SMURFF


class TestCells:
    """Predictions of a SMURFF session for wanted cells, in their order."""

    def __init__(self, session: Any, pairs: Array) -> None:
        cells = np.array([cell.coords for cell in session.getTestPredictions()])
        keys = cells @ np.array([N_ITEMS, 1])
        wanted = (pairs - 1) @ np.array([N_ITEMS, 1])
        order = np.argsort(keys)
        self.at = order[np.searchsorted(keys, wanted, sorter=order)]

    def read(self, session: Any) -> Array:
        cells = session.getTestPredictions()
        return np.fromiter((cell.pred_1sample for cell in cells), float, len(cells))[self.at]


def smurff(split: Split, kind: str, rank: int, limit: float, side: bool = False) -> Rows:
    """SMURFF's Gibbs sampler, normal priors (``side``: Macau's); ``kind``: "gaussian" or "binary" (probit)."""
    required("smurff")
    import scipy.sparse as sp
    import smurff as package
    from scipy.special import ndtr

    pairs, y, test, y_test = split
    known = np.random.default_rng(SEED).permutation(len(y))[: len(y) // 20]
    cells = np.concatenate([test, pairs[known]])
    centre = y.mean() if kind == "gaussian" else 0.5

    def matrix(pairs: Array, values: Array) -> Any:
        return sp.csr_matrix((values, (pairs[:, 0] - 1, pairs[:, 1] - 1)), shape=(N_USERS, N_ITEMS))

    kinds = ["macau" if side else "normal"] * 2
    session = package.TrainSession(
        priors=kinds, num_latent=rank, burnin=CHECKPOINTS[-1] + 1, nsamples=1, seed=SEED, verbose=0, num_threads=THREADS
    )
    noise = package.FixedNoise(PRECISION) if kind == "gaussian" else package.ProbitNoise(0.0)
    session.setTrain(matrix(pairs, y - centre), noise, True)
    session.setTest(matrix(cells, np.concatenate([y_test, y[known]]) - centre))
    if side:
        users, items = side_features()
        items = items.reindex(np.arange(1, N_ITEMS + 1), fill_value=0.0)
        for mode, table in enumerate((users, items)):
            session.addSideInfo(mode, sp.csr_matrix(table.to_numpy()), package.SampledNoise(1.0), direct=True)
    run = LastHalf(limit)
    session.init()
    reader = None
    while not run.spent:
        session.step()
        run.stop_clock()
        reader = reader or TestCells(session, cells)
        drawn = reader.read(session)
        f, f_known = drawn[: len(test)], drawn[len(test) :]
        average = run.add(
            ndtr(f)
            if kind == "binary"
            else gaussian_sample(y_test, f + centre, float(np.sqrt(np.mean((y[known] - centre - f_known) ** 2))))
        )
        if average is not None:
            score = binary_scores if kind == "binary" else gaussian_scores
            row = {"iterations": run.n, **run.clock.spent, **score(y_test, average), "cores": THREADS}
            progress(row)
            yield row
        run.start_clock()


# ---------------------------------------------------------------- LightFM, Surprise


def lightfm(split: Split, rank: int, limit: float, alpha: float = 0.0) -> Rows:
    """LightFM with the logistic loss (AdaGrad), its score through the logistic function."""
    required("lightfm")
    import scipy.sparse as sp
    from lightfm import LightFM
    from scipy.special import expit

    pairs, y, test, y_test = split
    model = LightFM(no_components=rank, loss="logistic", user_alpha=alpha, item_alpha=alpha, random_state=SEED)
    cells = sp.coo_matrix((2 * y - 1, (pairs[:, 0] - 1, pairs[:, 1] - 1)), shape=(N_USERS, N_ITEMS))
    users, items = (np.ascontiguousarray(side, dtype=np.int32) for side in (test - 1).T)
    clock, epochs = Clock(), 0
    for n in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100):
        with clock:
            model.fit_partial(cells, epochs=n - epochs, num_threads=THREADS)
        epochs = n
        row = {"iterations": n, **clock.spent, **binary_scores(y_test, expit(model.predict(users, items)))}
        progress(row)
        yield {**row, "cores": THREADS}
        if clock.cpu > limit:
            break


def surprise_svd(split: Split, rank: int, epochs: int, rate: float, penalty: float) -> Rows:
    """Surprise's SVD (biases, stochastic gradient descent): a point estimate."""
    required("surprise")
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    pairs, y, test, y_test = split
    frame = pd.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1], "rating": y})
    data = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    model = SVD(n_factors=rank, n_epochs=epochs, lr_all=rate, reg_all=penalty, random_state=SEED)
    with Clock() as clock:
        model.fit(data)
    mean = np.array([model.predict(user, item).est for user, item in test.tolist()])
    sd = float(np.sqrt(np.mean((y_test - mean) ** 2)))
    scores = gaussian_scores(y_test, gaussian_sample(y_test, mean, sd))
    row = {"iterations": epochs, **clock.spent, **scores, "cores": 1}
    progress(row)
    yield row


# ---------------------------------------------------------------- tables

Job = tuple[str, str, float, Callable[[Split, float], Rows]]
#: Task, name, CPU seconds of training after which a sampler stops, run.
JOBS: list[Job] = [
    ("gaussian", "SMURFF, K = 32", 90, lambda s, t: smurff(s, "gaussian", 32, t)),
    ("gaussian", "Surprise SVD, its defaults (K = 100)", 0, lambda s, t: surprise_svd(s, 100, 20, 0.005, 0.02)),
    ("gaussian", "Surprise SVD, K = 100, penalty 0.06", 0, lambda s, t: surprise_svd(s, 100, 60, 0.005, 0.06)),
    ("binary", "LightFM logistic, K = 10 (its default)", 60, lambda s, t: lightfm(s, 10, t)),
    ("binary", "LightFM logistic, K = 32", 60, lambda s, t: lightfm(s, 32, t)),
    ("binary", "SMURFF probit, K = 32", 60, lambda s, t: smurff(s, "binary", 32, t)),
    ("binary", "SMURFF probit, K = 10", 60, lambda s, t: smurff(s, "binary", 10, t)),
    ("binary", "myFM probit, K = 20", 90, lambda s, t: myfm(s, "binary", 20, t)),
    ("ordinal", "myFM ordered probit, K = 20", 300, lambda s, t: myfm(s, "ordinal", 20, t)),
    ("ordinal", "myFM ordered probit, K = 32", 360, lambda s, t: myfm(s, "ordinal", 32, t)),
    ("gaussian", "SMURFF Macau, K = 32, side features", 90, lambda s, t: smurff(s, "gaussian", 32, t, side=True)),
    ("ordinal", "myFM ordered probit, K = 20, side features", 300, lambda s, t: myfm(s, "ordinal", 20, t, side=True)),
    ("gaussian", "myFM, K = 32", 240, lambda s, t: myfm(s, "gaussian", 32, t)),
]
COLUMNS: tuple[str, ...] = (
    "task",
    "peer",
    "iterations",
    "seconds",
    "CPU seconds",
    "cores",
    "rmse",
    "mae",
    "log density",
    "log mass",
)
COLUMNS += ("coverage 90 %", "auc", "error")


def main(quick: bool = False, only: str = "") -> None:
    """Every peer, or those with ``only`` in their names; rows that are stored of others stay."""
    splits = {kind: movielens(kind) for kind in ("all", "binary")}
    if quick:
        splits = {kind: small(split) for kind, split in splits.items()}
    paths = stored_peers("factorization/peers_paths") if only else []
    for task, name, limit, job in JOBS:
        if only not in name:
            continue
        print(f"{task}: {name}", flush=True)
        try:
            rows = list(job(splits["binary" if task == "binary" else "all"], 2.0 if quick else limit))
        except ModuleNotFoundError as error:
            print(f"  left out: {error}", flush=True)
            continue
        paths = [row for row in paths if row["peer"] != name] + [{"task": task, "peer": name, **row} for row in rows]
        if not quick:
            store(paths)
    if quick:
        report("factorization/peers", "Matrix factorization by other packages", trimmed(last(paths)), quick=True)


def last(paths: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The row that stands for each peer: its last; of LightFM, which overfits as it goes on, the best on the test."""
    ends: dict[str, dict[str, Any]] = {}
    for row in paths:
        before = ends.get(row["peer"], row)
        # LightFM's last epochs leave some ratings no probability at all, stored as None
        score, best = (-np.inf if part["log density"] is None else part["log density"] for part in (row, before))
        ends[row["peer"]] = before if row["peer"].startswith("LightFM") and score < best else row
    return list(ends.values())


def store(paths: list[dict[str, Any]]) -> None:
    """After every peer, so that what was measured stays."""
    notes = [
        "MovieLens 1M, 80/20. log density: of the level (ordinal, binary) or of a real number (Gaussian); log mass: of "
        "the level after rounding. A sampler's scores average the last half of its iterations; LightFM's are those of "
        "its best epoch on the test. Scoring is in neither seconds nor CPU seconds (of all threads).",
        "By hand: SMURFF's precision is fixed at 1.5 for sampling; in its densities the noise of a sample is the mean "
        "square of that sample's residuals on 5 % of the training entries. Its probit probability is Phi(f), LightFM's "
        "probability the logistic function of its score, Surprise's sd its RMSE on the test, the best that one number "
        "can do.",
        "Chosen with the test in sight, in the peers' favour: SMURFF's precision (the best of a few short runs), "
        "LightFM's epoch, Surprise's sd. A row with cores = 1 of a package that has threads was held to one core.",
    ]
    report("factorization/peers", "Matrix factorization by other packages", trimmed(last(paths)), notes)
    report("factorization/peers_paths", "Other packages by iterations", trimmed(paths), notes)


def trimmed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row.get(key) for key in COLUMNS} for row in rows]


if __name__ == "__main__":
    main(arguments(__doc__))
