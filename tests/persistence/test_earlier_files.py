"""Files that 0.1.0.dev0 wrote before its engine had passes load, predict, and go on with a portion as they did then.

The files and what was predicted from them (``expected.npz``) were written by that version, on the data made here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sksvi

FILES = Path(__file__).with_name("files")
NAMES = sorted(path.stem.removeprefix("0.1.0.dev0-") for path in FILES.glob("0.1.0.dev0-*.sksvi"))

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sksvi.persistence.VersionWarning"),
]


@pytest.fixture(scope="module")
def data():
    """X and y of every file."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    binary = (X[:, 0] + rng.normal(size=90) > 0).astype(int)
    real = X @ [1.0, 2, -1] + rng.normal(size=90)
    counts = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    three = rng.integers(0, 3, 90)
    grouped = pd.DataFrame({"x": X[:, 0], "g": rng.integers(0, 8, 90).astype(str)})
    pairs = np.column_stack([rng.integers(0, 12, 300), rng.integers(0, 9, 300)])
    ratings = rng.normal(size=300)
    words = sksvi.datasets.make_ctm(40, 30, n_components=3, random_state=0).data.toarray()
    pmf = pairs, ratings
    return {
        "clf3": (X, three), "clfstream": (X, binary), "regbatch": (X, real), "regstream": (X, real),
        "gme": (grouped, counts), "sgp": (X, real), "pmf": pmf, "pmfstream": pmf, "pmfh": pmf,
        "ctm": (words, None), "bpfa": (X, None),
    }  # fmt: skip


def says(model, X):
    """What a model predicts, or its transformed rows."""
    return np.asarray(model.predict(X) if hasattr(model, "predict") else model.transform(X), float)


#: Models that a portion moves by steps which are other ones by now: no AdaGrad step is longer than a natural one, steps
#: on all rows at hand have a rate of their own, and what earlier rows said grows with the population.
OTHER_STEPS = ("clf3", "bpfa", "ctm", "gme", "regstream")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_loads_predicts_and_goes_on(name, data):
    X, y = data[name]
    expected = np.load(FILES / "expected.npz")
    model = sksvi.load(FILES / f"0.1.0.dev0-{name}.sksvi")
    np.testing.assert_allclose(says(model, X), expected[name], rtol=1e-6, atol=1e-8)
    part = slice(0, 30)
    model.partial_fit(X.iloc[part] if hasattr(X, "iloc") else X[part], None if y is None else y[part])
    exact = {"rtol": 1e-5, "atol": 1e-6}
    # Where a learned prior or noise streams, it now moves together with each portion: near, not the same.
    tolerance = {"rtol": 0.0, "atol": 5e-3} if name in ("regbatch", "sgp") else exact
    if name in OTHER_STEPS:
        assert np.all(np.isfinite(says(model, X)))
    else:
        np.testing.assert_allclose(says(model, X), expected[f"{name}_then"], **tolerance)


def test_every_file_is_asked(data):
    assert set(NAMES) == set(data)
