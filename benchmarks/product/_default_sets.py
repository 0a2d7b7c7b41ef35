"""Small sets as a user has them, (X, y) each: raw units, rows in the order of the file, columns as they are named."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder, load_csv
from benchmarks.mixed._data import dummies, salamander_data, table

#: Seed of everything that is simulated.
SEED = 14


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def column(frame: Any, target: str, kept: list[str]) -> tuple[Any, Array]:
    return frame[kept].astype(float), frame[target].to_numpy()


# ---------------------------------------------------------------- measured targets


def series(name: str, target: str, kept: list[str]) -> tuple[Any, Array]:
    import pandas as pd

    return column(pd.read_csv(data_folder() / "series" / f"{name}.csv"), target, kept)


def published(name: str) -> tuple[Array, Array]:
    with np.load(data_folder() / "tabular" / "uci_splits" / f"{name}.npz") as found:
        return found["X"].astype(float), found["y"].astype(float).ravel()


def california() -> tuple[Array, Array]:
    """Every 25th block of houses, values in dollars."""
    d = np.loadtxt(data_folder() / "tabular" / "cal_housing.csv.xz", delimiter=",")[::25]
    return d[:, :-1], d[:, -1]


def diabetes() -> tuple[Array, Array]:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True, scaled=False)


def engel() -> tuple[Any, Array]:
    import statsmodels.api as sm

    return column(sm.datasets.engel.load_pandas().data, "foodexp", ["income"])


def abalone() -> tuple[Any, Array]:
    X, y = load_csv("abalone", "Rings")
    return dummies(X[::5]), y[::5].astype(float)


def salaries() -> tuple[Array, Array]:
    """A target of 50,000 and 10,000 about it."""
    r = rng()
    X = r.normal(size=(300, 3))
    return X, 50000 + 10000 * (X[:, 0] + 0.5 * r.normal(size=300))


def temperatures() -> tuple[Array, Array]:
    """A year of temperatures by the number of the day."""
    r, day = rng(), np.arange(1.0, 366.0)
    return day[:, None], 11 - 9 * np.cos(2 * np.pi * (day - 20) / 365) + 2 * r.normal(size=365)


def sleepstudy() -> tuple[Any, Array]:
    raw = table("lme4_sleepstudy")
    return raw[["Days", "Subject"]], raw["Reaction"].to_numpy()


def radon() -> tuple[Any, Array]:
    raw = table("HLMdiag_radon")
    return raw[["basement", "uranium", "county"]], raw["log.radon"].to_numpy()


def wine_alcohol() -> tuple[Array, Array]:
    """The alcohol of a wine from its other measurements."""
    X, _ = bundled("wine")
    return X[:, 1:], X[:, 0]


# ---------------------------------------------------------------- counts


def dummied(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Any, Array]:
    raw = table(name)
    return dummies(raw.drop(columns=[target, *drop])), raw[target].to_numpy()


def asthma() -> tuple[Any, Array]:
    import pandas as pd

    raw = pd.read_csv(data_folder() / "series" / "asthma.csv")
    return raw.drop(columns=["Count", "Intercept"]), raw["Count"].to_numpy()


def utah() -> tuple[Any, Array]:
    kept = ["ReducedBAC", "FriSat", "lnOMVDRate", "Population"]
    return series("driverdeaths", "Deaths", kept)


def crabs() -> tuple[Any, Array]:
    return dummied("vcdExtra_CrabSatellites", "satellites")


def fish() -> tuple[Any, Array]:
    raw = table("COUNT_fishing")
    return column(raw, "totabund", ["meandepth", "year", "sweptarea"])


def epil() -> tuple[Any, Array]:
    raw = table("MASS_epil")
    raw["trt"] = (raw["trt"] == "progabide").astype(float)
    return raw[["trt", "base", "age", "V4", "subject"]], raw["y"].to_numpy()


def two_groups() -> tuple[Any, Array]:
    """Counts of 403 rows with sites and areas, and noise of their own."""
    import pandas as pd

    r, n = rng(), 403
    X = pd.DataFrame({"x": r.normal(size=n), "site": r.integers(0, 60, n), "area": r.integers(0, 12, n)})
    sites, areas = 0.6 * r.normal(size=60), 0.4 * r.normal(size=12)
    f = 1 + 0.5 * X["x"] + sites[X["site"]] + areas[X["area"]] + 0.5 * r.normal(size=n)
    return X.astype({"site": str, "area": str}), r.poisson(np.exp(f))


# ---------------------------------------------------------------- labels


def bundled(name: str, every: int = 1) -> tuple[Array, Array]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X[::every], y[::every]


def tumours() -> tuple[Array, Array]:
    """Every fourth of the breast cancer set, its ten means."""
    X, y = bundled("breast_cancer", 4)
    return X[:, :10], y


def spector() -> tuple[Any, Array]:
    import statsmodels.api as sm

    return column(sm.datasets.spector.load_pandas().data, "GRADE", ["GPA", "TUCE", "PSI"])


def contraception(group: str | None = None) -> tuple[Any, Array]:
    """1 where a woman of Bangladesh uses contraception, with her district as a group or without."""
    raw = table("mlmRev_Contraception")
    X = dummies(raw[["livch", "age", "urban"]].astype({"livch": str}))
    return X if group is None else X.assign(**{group: raw[group].astype(str)}), (raw["use"] == "Y").to_numpy(int)


def salamander() -> tuple[Any, Array]:
    return salamander_data()


# ---------------------------------------------------------------- matrices: X is the pair (row, column) of an entry


def ratings() -> tuple[Any, Array]:
    """Ratings of 60 users and 40 films, two factors, values about 70 of 100."""
    import pandas as pd

    r = rng()
    at = r.permutation(2400)[:900]
    u, v = r.normal(size=(60, 2)), r.normal(size=(40, 2))
    pairs = pd.DataFrame({"user": at // 40, "film": at % 40})
    f = (u[at // 40] * v[at % 40]).sum(1) + r.normal(size=60)[at // 40]
    return pairs, 70 + 8 * f + 5 * r.normal(size=900)


def movielens() -> tuple[Any, Array]:
    """The ratings of the first 25 users."""
    import pandas as pd

    with np.load(data_folder() / "ratings" / "movielens_1m.npz") as z:
        found = pd.DataFrame({name: z[name] for name in ("user", "item", "rating")})
    found = found[found["user"].isin(np.unique(found["user"])[:25])]
    return found[["user", "item"]], found["rating"].to_numpy(float)


def entries(M: Array, share: float = 0.5) -> tuple[Any, Array]:
    """A share of the entries of a matrix, by row and column."""
    import pandas as pd

    at = np.sort(rng().permutation(M.size)[: int(share * M.size)])
    return pd.DataFrame({"row": at // M.shape[1], "column": at % M.shape[1]}), M.ravel()[at]


def pixels() -> tuple[Any, Array]:
    """Half of the pixels of 200 digits."""
    return entries(bundled("digits", 9)[0][:200])


def sparse_factors() -> tuple[Any, Array]:
    from sksvi.datasets import make_beta_process

    return entries(50 + 10 * make_beta_process(200, 10, n_components=4, random_state=SEED).data)


# ---------------------------------------------------------------- words


def simulated_documents() -> tuple[Any, Array]:
    from sksvi.datasets import make_ctm

    X = make_ctm(300, 100, n_components=5, random_state=SEED).data
    return X, np.zeros(X.shape[0])


def associated_press() -> tuple[Any, Array]:
    """The first 400 articles in their 500 most frequent words."""
    from benchmarks.topics._data import corpus

    X = corpus("ap_blei")["X"][:400]
    words = np.sort(np.argsort(-np.asarray(X.sum(0)).ravel(), kind="stable")[:500])
    X = X[:, words]
    X = X[np.asarray(X.sum(1)).ravel() > 0]
    return X.tocsr(), np.zeros(X.shape[0])
