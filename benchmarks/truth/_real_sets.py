"""Thirty small real sets, (X, y) each: numbers as they are measured, text as columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder, load_csv, load_libsvm, load_npz
from benchmarks.mixed._data import dummies, table


@dataclass(frozen=True)
class RealSet:
    """A data set; ``kind`` of target: "measured", "counts" or "labels"."""

    name: str
    kind: str
    source: str
    load: Callable[[], tuple[Array, Array]]


def arrays(frame: Any, target: str, drop: tuple[str, ...] = ()) -> tuple[Array, Array]:
    X = dummies(frame.drop(columns=[target, *drop])).to_numpy(float)
    return X[:, X.std(axis=0) > 0], frame[target].to_numpy()


def bundled(name: str) -> tuple[Array, Array]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X, y


def diabetes() -> tuple[Array, Array]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X, y


def wine_alcohol() -> tuple[Array, Array]:
    X, _ = bundled("wine")
    return X[:, 1:], X[:, 0]


def statsmodels_set(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Array, Array]:
    import statsmodels.api as sm

    return arrays(getattr(sm.datasets, name).load_pandas().data.astype(float), target, drop)


def published(name: str) -> tuple[Array, Array]:
    with np.load(data_folder() / "tabular" / "uci_splits" / f"pbp_{name}.npz") as found:
        return found["X"].astype(float), found["y"].astype(float).ravel()


def from_r(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Array, Array]:
    return arrays(table(name), target, drop)


def csv(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Array, Array]:
    frame, y = load_csv(name, target, drop)
    return arrays(frame.assign(**{target: y}), target)


def libsvm(name: str, n_features: int) -> tuple[Array, Array]:
    X, y = load_libsvm(name, n_features)
    return X.toarray(), (y == y.max()).astype(int)


def split_set(name: str) -> tuple[Array, Array]:
    found = load_npz(f"{name}_cvi_split")
    X = np.concatenate([found["X_train"], found["X_test"]]).astype(float)
    y = np.concatenate([found["y_train"], found["y_test"]]).ravel()
    return X[:, X.std(axis=0) > 0], (y > 0).astype(int)


def affairs() -> tuple[Array, Array]:
    X, y = statsmodels_set("fair", "affairs")
    return X, (y > 0).astype(int)


def contraception() -> tuple[Array, Array]:
    raw = table("mlmRev_Contraception")
    return dummies(raw[["livch", "age", "urban"]].astype({"livch": str})).to_numpy(float), (raw["use"] == "Y").to_numpy(
        int
    )


def bikes() -> tuple[Array, Array]:
    from sksvi.datasets import load_bike_sharing

    X, y = load_bike_sharing(return_X_y=True, as_frame=True)
    return dummies(X).to_numpy(float), np.asarray(y, float)


def epilepsy() -> tuple[Array, Array]:
    return from_r("MASS_epil", "y", ("subject", "period", "lbase", "lage"))


def sets() -> list[RealSet]:
    """All thirty."""
    measured = {
        "diabetes": ("scikit-learn", diabetes),
        "wine alcohol": ("scikit-learn", wine_alcohol),
        "engel": ("statsmodels", lambda: statsmodels_set("engel", "foodexp")),
        "credit cards": ("statsmodels", lambda: statsmodels_set("ccard", "AVGEXP")),
        "state crime": ("statsmodels", lambda: statsmodels_set("statecrime", "murder")),
        "Boston housing": ("UCI", lambda: published("bostonHousing")),
        "yacht": ("UCI", lambda: published("yacht")),
        "red wine": ("UCI", lambda: published("wine-quality-red")),
        "power plant": ("UCI", lambda: published("power-plant")),
        "kin8nm": ("UCI", lambda: published("kin8nm")),
        "computer activity": ("DELVE", lambda: csv("cpu_act", "usr")),
        "abalone": ("UCI", lambda: csv("abalone", "Rings")),
    }
    counts = {
        "articles": ("R pscl", lambda: from_r("pscl_bioChemists", "art")),
        "crabs": ("R vcdExtra", lambda: from_r("vcdExtra_CrabSatellites", "satellites")),
        "hospital stays": ("R COUNT", lambda: from_r("COUNT_azpro", "los", ("hospital",))),
        "bad health": ("R COUNT", lambda: from_r("COUNT_badhealth", "numvisit")),
        "visits to doctors": ("statsmodels", lambda: statsmodels_set("randhie", "mdvis")),
        "epilepsy": ("R MASS", epilepsy),
        "solar flares": ("UCI", lambda: csv("solar_flare", "C", ("M", "X"))),
        "bike rentals": ("sksvi", bikes),
    }
    labels = {
        "breast cancer": ("scikit-learn", lambda: bundled("breast_cancer")),
        "iris": ("scikit-learn", lambda: bundled("iris")),
        "wine": ("scikit-learn", lambda: bundled("wine")),
        "spector": ("statsmodels", lambda: statsmodels_set("spector", "GRADE")),
        "affairs": ("statsmodels", affairs),
        "contraception": ("R mlmRev", contraception),
        "heart": ("LIBSVM", lambda: libsvm("heart_scale", 13)),
        "Pima": ("LIBSVM", lambda: libsvm("diabetes_scale", 8)),
        "credit": ("LIBSVM", lambda: libsvm("australian_scale", 14)),
        "sonar": ("UCI", lambda: split_set("sonar")),
    }
    kinds = {"measured": measured, "counts": counts, "labels": labels}
    return [RealSet(name, kind, *found) for kind, kept in kinds.items() for name, found in kept.items()]
