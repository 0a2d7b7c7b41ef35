"""Contrasts drawn: intervals of both kinds where the table has them, groups and classes by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMClassifier, ContrastDisplay
from sksvi.inspection import contrasts

pytest.importorskip("matplotlib")


@pytest.fixture
def result(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"plan": rng.choice(list("abc"), 90), "sex": rng.choice(["f", "m"], 90)})
    model = BayesianGLMClassifier().fit(X, rng.choice(["no", "so", "yes"], 90))
    return contrasts(model, "plan", by="sex", reference="no"), model


def test_every_interval_is_drawn(result):
    result, model = result
    display = ContrastDisplay.from_result(result, color="C3")
    table = result.table
    wide, narrow = display.ax_.collections[:2]
    for lines, ends in ((wide, ("simultaneous_lower", "simultaneous_upper")), (narrow, ("lower", "upper"))):
        np.testing.assert_allclose([line[:, 0] for line in lines.get_segments()], table[list(ends)])
    np.testing.assert_allclose(display.points_.get_xdata(), table["mean"])
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[0] == "a - b, so, f" and len(names) == 12
    assert "90 %" in display.ax_.get_xlabel()
    again = ContrastDisplay.from_estimator(model, "plan", by="sex", reference="no", ax=display.ax_)
    pd.testing.assert_frame_equal(again.table, table)
