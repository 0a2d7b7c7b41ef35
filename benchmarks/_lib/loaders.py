"""Data sets: a loader per format of the public ones, and those that more than one family uses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib import HERE, Array

#: Small tables that are kept beside the benchmarks, so that the tests need no download.
STORED_DATA = HERE / "data"
RANDHIE = STORED_DATA / "randhie_500.csv"


def data_folder() -> Path:
    """Folder of the public data sets: the environment's SKSVI_DATA, else ``../shared/data`` beside the repository."""
    folder = Path(os.environ.get("SKSVI_DATA", HERE.parent.parent / "shared" / "data"))
    if not folder.is_dir():
        raise FileNotFoundError(f"no data at {folder}; set SKSVI_DATA to the folder that holds tabular/")
    return folder


def load_libsvm(name: str, n_features: int) -> tuple[Any, Array]:
    """CSR matrix and labels of ``tabular/<name>.libsvm.bz2``."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_folder() / "tabular" / f"{name}.libsvm.bz2"), n_features=n_features)
    return X, y


def load_npz(name: str) -> dict[str, Array]:
    """All arrays of ``tabular/<name>.npz``."""
    with np.load(data_folder() / "tabular" / f"{name}.npz") as archive:
        return dict(archive)


def load_csv(name: str, target: str, drop: Sequence[str] = ()) -> tuple[Any, Array]:
    """DataFrame and target of ``tabular/<name>.csv.xz``."""
    import pandas as pd

    frame = pd.read_csv(data_folder() / "tabular" / f"{name}.csv.xz")
    y = frame[target].to_numpy()
    return frame.drop(columns=[target, *drop]), y


def standardised(X: Any) -> Array:
    """Columns at mean 0 and sd 1, constant columns dropped."""
    X = np.asarray(X, dtype=float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def covtype() -> tuple[Array, Array]:
    """The covtype subset of 92,962 rows as its LIBSVM binary task: columns in [0, 1], cover type 2 or not (X, 0/1)."""
    arrays = load_npz("covtype_subset92962")
    return cover_type_2(arrays["X"], arrays["y"])


def largest_covtype() -> tuple[Array, Array]:
    """`covtype` of all 581,012 rows where ``sklearn.datasets.fetch_covtype()`` has downloaded them, else its subset."""
    from sklearn.datasets import fetch_covtype

    try:
        whole = fetch_covtype(download_if_missing=False)
    except OSError:
        return covtype()
    return cover_type_2(whole.data, whole.target)


def cover_type_2(X: Array, y: Array) -> tuple[Array, Array]:
    """Columns in [0, 1], and whether the cover type is 2."""
    X = X.astype(float)
    X -= X.min(axis=0)
    span = X.max(axis=0)
    return X / np.where(span > 0, span, 1.0), (y == 2).astype(int)


def epil_data() -> tuple[Any, Array]:
    """Seizures of 59 patients in four periods (Thall and Vail 1990), columns of Breslow and Clayton (1993), centred.

    The frame has the columns base = log(base / 4) and age = log(age) less their means, trt, base:trt, V4 and subject.
    """
    import pandas as pd

    raw = pd.read_csv(STORED_DATA / "epil.csv")
    frame = pd.DataFrame({"base": np.log(raw["base"] / 4), "trt": (raw["trt"] == "progabide").astype(float)})
    frame["base"] -= frame["base"].mean()
    frame["base:trt"] = frame["base"] * frame["trt"]
    frame["age"] = np.log(raw["age"]) - np.log(raw["age"]).mean()
    frame["V4"] = (raw["period"] == 4).astype(float)
    frame["subject"] = raw["subject"]
    return frame, raw["y"].to_numpy()
