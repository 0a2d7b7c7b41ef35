"""Wrong arguments drawn at random, by every estimator: an error that names the argument, or finite numbers.

`python -m benchmarks hostile.calls` makes twenty thousand of them.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest

from support.call_outcomes import evaluate_call
from support.estimator_cases import NAMES, VARIANTS, fitted_estimator
from support.random_calls import Call, random_calls

SEED = 4
GIBBS = {"local_step": "gibbs", "algorithm": "ssvi"}
HUGE = f"{10**30!r:.30}"  # as the table of values calls it
COUNTS, SHOPS, SITES = {"likelihood": "poisson"}, {"groups": "site"}, {"groups": ["site"], "likelihood": "gaussian"}
#: What further draws found, and was mended: (estimator, variant, fitted, method, argument, what).
FOUND = [
    ("DynamicGLM", SHOPS, False, "fit", "offset", "a row less"),
    ("DynamicGLM", SHOPS, False, "fit", "offset", "no rows"),
    ("DynamicGLM", SHOPS, True, "predict_latent", "offset", "a sparse matrix"),
    ("DynamicGLM", SHOPS, True, "forecast_latent", "offset", "an empty list"),
    ("GammaFactorModel", {}, True, "sample", "n_samples", HUGE),
    ("GammaFactorModel", {}, True, "score_samples", "n_draws", HUGE),
    ("DynamicGLM", COUNTS, True, "log_evidence", "n_samples", HUGE),
    ("DynamicGLM", COUNTS, True, "forecast", "steps", HUGE),
    ("GammaProcessNMF", {"search_passes": 1}, False, "fit", "set concentration", "np.float16(0.5)"),
    ("GMERegressor", SITES, True, "partial_fit", "y", "times 1e99"),
    ("SparseGPRegressor", {}, False, "fit", "y", "times 1e150"),
    ("CorrelatedTopicModel", {}, True, "partial_fit", "X", "a dict"),
    ("StructuredLDA", {}, True, "partial_fit", "X", "a dict"),
    ("StructuredLDA", GIBBS, False, "fit", "X", "single precision near its end"),
    ("StructuredLDA", GIBBS, False, "partial_fit", "X", "times 1e5"),
    ("DynamicGLM", SHOPS, False, "partial_fit", "y", "times 1e-20"),
    ("DynamicGLM", COUNTS, True, "log_predictive_density", "X", "a cell of 1e+38"),
    ("DynamicGLM", COUNTS, True, "partial_fit", "offset", "times 1e5"),
    ("DynamicGLM", {"likelihood": "gaussian"}, False, "fit", "y", "times 1e99"),
    ("DynamicGLM", {"likelihood": "logit"}, True, "score", "offset", "times 1e5"),
]


def compiled(call):
    """The verdict on a call, on its second run where the first was slow: that one compiled."""
    verdict = evaluate_call(call)
    return evaluate_call(call) if "took" in verdict.why else verdict


@pytest.mark.costly
@pytest.mark.parametrize("n_calls", [150, pytest.param(400, marks=pytest.mark.exhaustive)])
def test_none_of_them_is_mishandled(n_calls):
    verdicts = [(call, compiled(call)) for call in random_calls(n_calls, SEED)]
    wrong = [f"{call}: {verdict.why}" for call, verdict in verdicts if verdict.kind == "mishandled"]
    assert not wrong, "\n".join(wrong)
    kinds = collections.Counter(verdict.kind for _, verdict in verdicts)
    assert kinds["vague"] <= 0.02 * n_calls
    assert kinds["refused"] > n_calls // 3 and kinds["answered"] > n_calls // 10
    assert {call.name for call, _ in verdicts} == set(NAMES)


NOISY = {"groups": ["site"], "noise": True, "bound": "simple"}
#: Whose rows decide too: at an exposure of 1e29 a slope was a number, and its double was none; of labels that are all
#: told apart by their offsets the slopes had no square, and what rows say of a scale was divided by it.
SEEDED = [
    ("SparseGPRegressor", COUNTS, False, "fit", "exposure", str(10**29), 1644415453),
    ("GMEClassifier", NOISY, True, "partial_fit", "offset", "times 1e5", 1542676055),
    ("StructuredLDA", {"doc_topic_prior": "auto"}, True, "proportion_interval", "X", "a column times 1e20", 1768730938),
    ("StructuredLDA", GIBBS, True, "proportion_interval", "X", "a cell of 1e+60", 292477496),
    ("PoissonFactorization", {"algorithm": "mc-ssvi"}, True, "fit", "y", "times 1e-160", 53698717),
    ("DynamicGLM", {"likelihood": "gaussian"}, True, "log_predictive_density", "X", "a column times 1e99", 2051686540),
    ("StructuredLDA", {}, True, "sample_prior", "X", "times 1e50", 691459798),
]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "options", "is_fitted", "method", "argument", "what", "seed"), [*((*call, 0) for call in FOUND), *SEEDED]
)
def test_what_was_found_is_mended(name, options, is_fitted, method, argument, what, seed):
    call = Call(name, VARIANTS.get(name, [{}]).index(options), is_fitted, method, argument, what, seed)
    verdict = compiled(call)
    assert verdict.kind in ("refused", "answered"), verdict.why


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
    fitted_estimator(call.name, call.options)
    monkeypatch.setattr("sksvi.BayesianGLMRegressor.predict", lambda self, **arguments: broken(self))
    assert evaluate_call(call).kind == kind
