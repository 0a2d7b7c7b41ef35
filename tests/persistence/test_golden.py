"""A saved model of every estimator and version loads, and predicts what it did when it was saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sksvi
from sksvi.persistence import REGISTRY
from support import saved_models

GOLDEN = Path(__file__).with_name("golden")
FILES = sorted(GOLDEN.glob("*/*.sksvi"))


@pytest.mark.filterwarnings("ignore::sksvi.persistence.VersionWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_file_predicts_what_it_did(path):
    model = sksvi.load(path)
    with np.load(path.with_name("expected.npz")) as file:
        expected = dict(file)
    answers = saved_models.model_answers(path.stem, model)
    assert len(answers) == sum(key.startswith(f"{path.stem}.") for key in expected)
    for number, answer in enumerate(answers):
        stored = expected[f"{path.stem}.{number}"]
        if stored.dtype.kind == "f":
            np.testing.assert_allclose(answer, stored, rtol=1e-6, atol=1e-9)
        else:
            np.testing.assert_array_equal(answer.astype(stored.dtype), stored)


def test_every_estimator_has_a_golden_file_and_they_are_small():
    classes = {type(sksvi.load(path)).__name__ for path in FILES if path.parent.name == sksvi.__version__}
    estimators = {name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")} | {"Network"}
    assert classes == estimators <= set(REGISTRY)
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*")) < 680_000
