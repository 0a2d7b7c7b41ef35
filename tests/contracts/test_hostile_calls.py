"""Wrong arguments drawn at random, by every estimator: an error that names the argument, or finite numbers.

`python -m benchmarks hostile.calls` makes twenty thousand of them.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest

from benchmarks.hostile._calls import NAMES, Call, drawn, fitted, judged

CALLS, SEED = 400, 4


def test_none_of_them_is_mishandled():
    verdicts = [(call, judged(call)) for call in drawn(CALLS, SEED)]
    wrong = [f"{call}: {verdict.why}" for call, verdict in verdicts if verdict.kind == "mishandled"]
    assert not wrong, "\n".join(wrong)
    kinds = collections.Counter(verdict.kind for _, verdict in verdicts)
    assert kinds["vague"] <= 0.02 * CALLS
    assert kinds["refused"] > CALLS // 3 and kinds["answered"] > CALLS // 10
    assert {call.name for call, _ in verdicts} == set(NAMES)


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (lambda model: 1 / 0, "mishandled"),
        (lambda model: np.array([np.nan]), "mishandled"),
        (lambda model: setattr(model, "coef_", None), "mishandled"),
        (lambda model: (_ for _ in ()).throw(ValueError("no")), "vague"),
        (lambda model: (_ for _ in ()).throw(ValueError("X is wrong")), "refused"),
        (lambda model: np.array([1.0]), "answered"),
    ],
)
def test_the_judge_sees_what_is_wrong(broken, kind, monkeypatch):
    call = Call("BayesianGLMRegressor", 0, True, "predict", "X", "None", 0)
    fitted(call.name, call.options)
    monkeypatch.setattr("sksvi.BayesianGLMRegressor.predict", lambda self, **arguments: broken(self))
    assert judged(call).kind == kind
