"""Who serves whom: every pair that is refused says what is wrong and what helps, and what is to stay stays."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BetaProcessFA,
    CorrelatedTopicModel,
    GeneralizedPMF,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sksvi.algorithms import MAP, SDSVI, SSVI, FixedPoint, Gibbs, HybridMCSSVI
from sksvi.inference import engine, plan
from sksvi.inference.problem import DIRECT
from sksvi.inference.site_updates import SiteUpdates
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.base import Segment
from sksvi.models.linear.glm import LinearModel
from sksvi.models.traits import BoundTraits, Traits
from sksvi.schedules import AdaGrad
from tests.cases import data_for, model_for, problem_for
from tests.models.mixed import test_glm as mixed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((60, 3))
LABELS = (ROWS[:, 0] > 0) * 1
COUNTS = RNG.poisson(1.0, (60, 8)) + 0.0
PAIRS = np.column_stack([np.repeat(np.arange(12), 5), np.tile(np.arange(5), 12)])


class Undivided(LinearModel):
    """A model whose bound is no sum over rows."""

    traits = Traits(BoundTraits(additive=False, seeded=False))


class OwnRegressor(BayesianGLMRegressor):
    """An estimator of such a model."""

    def _build_model(self, data):
        model, data = super()._build_model(data)
        model.__class__ = Undivided
        return model, data


#: Estimators with data of theirs.
ESTIMATORS = {
    BayesianGLMClassifier: (ROWS, LABELS),
    BayesianGLMRegressor: (ROWS, ROWS[:, 0]),
    GMERegressor: (np.column_stack([ROWS, LABELS]), COUNTS[:, 0]),
    GPClassifier: (ROWS, LABELS),
    SparseGPClassifier: (ROWS, LABELS),
    SparseGPRegressor: (ROWS, ROWS[:, 0]),
    GeneralizedPMF: (PAIRS, ROWS[:, 0]),
    CorrelatedTopicModel: (COUNTS, None),
    BetaProcessFA: (ROWS, None),
    OwnRegressor: (ROWS, ROWS[:, 0]),
}


class Case(NamedTuple):
    """A call that is refused in these words, the parts that its message names, and a remedy that it names."""

    words: str
    estimator: type
    options: dict[str, Any]
    parts: tuple[str, ...]
    remedy: dict[str, Any]


CASES = [
    *(
        Case(
            "posterior itself",
            cls,
            {"algorithm": Gibbs()},
            ("algorithm=Gibbs()", cls.__name__),
            {"algorithm": "mc-ssvi"},
        )
        for cls in ESTIMATORS
        if cls is not BetaProcessFA
    ),
    *(
        Case(
            "works on all rows at once",
            cls,
            {"algorithm": "fp", "batch_size": 20},
            ("algorithm='fp'", "batch_size=20"),
            remedy,
        )
        for cls in (BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, SparseGPClassifier)
        for remedy in ({"batch_size": None}, {"algorithm": "cvi"})
    ),
    *(
        Case(
            "messages of all rows",
            GPClassifier,
            {"algorithm": algorithm, "batch_size": 20},
            (f"algorithm={algorithm!r}", "batch_size=20", "GPClassifier"),
            remedy,
        )
        for algorithm in ("mc-ssvi", "fp")
        for remedy in ({"batch_size": None}, {"algorithm": "cvi"})
    ),
    *(
        Case(
            "not concave in q",
            SparseGPRegressor,
            {"algorithm": algorithm, "bound": "v2", "batch_size": 20},
            ("SparseGPRegressor", "batch_size=20", "bound='simple' or 'v1'"),
            remedy,
        )
        for algorithm in ("cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi")
        for remedy in ({"batch_size": None}, {"bound": "simple"}, {"bound": "v1"})
    ),
    Case(
        "no sum over rows", OwnRegressor, {"batch_size": 20}, ("OwnRegressor", "no sum over rows"), {"batch_size": None}
    ),
    *(
        Case(
            "the mean of one Gaussian block",
            cls,
            {"algorithm": FixedPoint()},
            ("algorithm=FixedPoint()", cls.__name__),
            {"algorithm": name},
        )
        for cls in (GeneralizedPMF, CorrelatedTopicModel, BetaProcessFA)
        for name in ("mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi")
    ),
    *(
        Case(
            "bound without noise",
            cls,
            {"algorithm": "fp", "expectation": "monte-carlo"},
            ("algorithm='fp'", "expectation='monte-carlo'"),
            remedy,
        )
        for cls in (BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, GPClassifier, SparseGPClassifier)
        for remedy in ({"expectation": "auto"}, {"expectation": "quadrature"}, {"algorithm": "cvi"})
        # Line searches of the whole GP's kernel take no noise either, and say so.
        if cls is not GPClassifier or "expectation" in remedy
    ),
    *(
        Case(
            "Cholesky factor",
            GPClassifier,
            {"algorithm": algorithm},
            (f"algorithm={algorithm}", "GPClassifier"),
            {"algorithm": name},
        )
        for algorithm in (HybridMCSSVI(), SDSVI())
        for name in ("cvi", "fp", "mc-ssvi")
    ),
    *(
        Case(
            "line searches",
            GPClassifier,
            {"expectation": "monte-carlo"},
            ("expectation='monte-carlo'", "kernel's parameters"),
            remedy,
        )
        for remedy in ({"expectation": "auto"}, {"expectation": "quadrature"}, {"optimize_hyperparameters": False})
    ),
    *(
        Case("conjugate globals", BayesianGLMClassifier, {"algorithm": SSVI()}, ("SSVI()", "Classifier"), remedy)
        for remedy in ({"algorithm": "mc-ssvi"}, {"algorithm": "cvi"})
    ),
    *(
        Case("is not known to", BetaProcessFA, {"algorithm": algorithm}, (f"{algorithm}", "BetaProcessFA"), remedy)
        for algorithm in (SSVI(), MAP())
        for remedy in ({"algorithm": "cvi"}, {"algorithm": "mc-ssvi"})
    ),
    *(
        Case(
            "climbs a bound",
            BayesianGLMClassifier,
            {"covariance": "low-rank", "algorithm": "mc-ssvi"},
            ("algorithm='mc-ssvi'", "covariance='low-rank'"),
            remedy,
        )
        for remedy in ({"algorithm": "cvi"}, {"covariance": "full"}, {"covariance": "diag"})
    ),
    *(
        Case(
            "judges each scale",
            BayesianGLMClassifier,
            {"covariance": "low-rank", "batch_size": 3},
            ("covariance='low-rank'", "batch_size=3"),
            remedy,
        )
        for remedy in ({"batch_size": "auto"}, {"covariance": "diag"})
    ),
    *(
        Case(
            "which takes no expectation",
            BayesianGLMClassifier,
            {"covariance": "low-rank", "expectation": "monte-carlo"},
            ("covariance='low-rank'", "expectation='monte-carlo'"),
            remedy,
        )
        for remedy in ({"expectation": "auto"}, {"covariance": "full"}, {"covariance": "diag"})
    ),
    *(
        Case(
            "one site per",
            GeneralizedPMF,
            {"algorithm": "cvi", "batch_size": 3},
            ("algorithm='cvi'", "batch_size=3"),
            remedy,
        )
        for remedy in ({"batch_size": None}, {"algorithm": "mc-ssvi"})
    ),
]


def fit(case, **options):
    settings = {"max_iter": 2, "random_state": 0, **case.options, **options}
    for name, value in (("n_components", 2), ("n_inducing", 5), ("groups", [3])):
        if name in case.estimator._get_param_names():
            settings[name] = value
    X, y = ESTIMATORS[case.estimator]
    return case.estimator(**settings).fit(X, y)


def text_of(case):
    """The refusal's text, which these words belong to alone."""
    (text,) = (text for _, text in plan.REFUSALS if case.words in text)
    return text


# ---- refusals
def test_every_refusal_has_a_case():
    assert {text_of(case) for case in CASES} == {text for _, text in plan.REFUSALS}


def parameter(case):
    """A case by its name; those of topics compile the loops of each algorithm, for ten seconds."""
    marks = [pytest.mark.exhaustive] * (case.estimator is CorrelatedTopicModel)
    return pytest.param(case, marks=marks, id=f"{case.words}-{case.estimator.__name__}-{case.remedy}")


@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_a_refusal_names_both_parts_and_what_helps(case):
    """The message is that row's, and no other's; what it proposes is accepted."""
    text = re.sub(r"\\\{\w+(!r)?\\\}", ".+", re.escape(text_of(case)))
    with pytest.raises(ValueError, match=text) as caught:
        fit(case)
    message = str(caught.value)
    for part in case.parts:
        assert part in message
    for name, value in case.remedy.items():
        assert f"{name}={value!r}" in message or repr(value) in message.partition("choose")[2] or "another" in message
    fitted = fit(case, **case.remedy)
    assert np.isfinite(fitted.lower_bound_ if hasattr(fitted, "lower_bound_") else fitted.loo_)
    if set(case.remedy) == set(case.options) == {"algorithm"}:  # nothing else is wrong: all that it names will do
        for name in re.findall(r"'([a-z-]+)'", message.partition("choose")[2]):
            assert np.isfinite(fit(case, algorithm=name).lower_bound_)


@pytest.mark.parametrize("first", [True, False], ids=["first portion", "another portion"])
def test_streams_refuse_the_same_pairs(first):
    X, y = ESTIMATORS[BayesianGLMRegressor]
    model = BayesianGLMRegressor(batch_size=20)
    if not first:
        model.partial_fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="algorithm='fp' works on all rows at once and cannot take batch_size=20"):
        model.set_params(algorithm="fp").partial_fit(X, y)
    with pytest.raises(ValueError, match=r"algorithm=Gibbs\(\) draws from the posterior itself"):
        model.set_params(algorithm=Gibbs()).partial_fit(X, y)
    assert vars(model.set_params(algorithm=before["algorithm"])) == before


def test_a_batch_of_all_rows_is_no_mini_batch():
    X, y = ESTIMATORS[BayesianGLMRegressor]
    for size in (60, 61):
        assert BayesianGLMRegressor(algorithm="fp", batch_size=size).fit(X, y).converged_


# ---- what is decided
def test_a_change_is_decided_anew():
    """Messages belong to mini-batches, and the exact expectation to those that draw."""
    data = data_for("logit")
    problem = problem_for(model_for("logit", data), data, "cvi", batch_size=20)
    assert isinstance(problem.messages, SiteUpdates) and not problem.deterministic
    whole = plan.changed(problem, batch_size=None)
    assert whole.messages is DIRECT and whole.deterministic
    assert isinstance(plan.changed(whole, batch_size=20).messages, SiteUpdates)
    drawn = problem_for(model_for("logit", data), data, "mc-ssvi", "monte-carlo")
    assert drawn.messages is DIRECT and drawn.exact.exact and not drawn.deterministic


# ---- what an algorithm's parameters reach
@pytest.mark.costly
@pytest.mark.parametrize("batch_size", [None, 20], ids=["full batch", "mini-batch"])
@pytest.mark.parametrize("algorithm", [HybridMCSSVI, SDSVI])
def test_topics_by_adagrad_heed_its_rate(algorithm, batch_size):
    """The block has no natural step, so that an algorithm's AdaGrad is what moves it."""

    def topics(max_iter, adagrad):
        model = CorrelatedTopicModel(
            2,
            topics="adagrad",
            algorithm=algorithm(adagrad=adagrad),
            batch_size=batch_size,
            max_iter=max_iter,
            tol=0.0,
            random_state=0,
        )
        return model.fit(COUNTS).components_

    for adagrad, low, high in ((AdaGrad(rate=1e-6), 1e-9, 1e-5), (AdaGrad(), 1e-2, 1.0)):
        assert low < np.max(np.abs(topics(6, adagrad) - topics(1, adagrad))) < high
    assert np.array_equal(topics(6, None), topics(6, AdaGrad()))


# ---- what stays
def setting(algorithm, batch_size, full=True, frozen=()):
    """A mixed model with a block of every kind: weights, noise, points by Newton and points of the prior."""
    rng = np.random.default_rng(3)
    data = mixed.data_for("gaussian", rng, n=40)
    model = mixed.model_for("gaussian", data, "mean-field", learned=True, precision="auto").replaced(full=full)
    return problem_for(model, data, algorithm, batch_size=batch_size, frozen=frozenset(frozen))


BLOCKS = ("weights", "noise", "likelihood", "prior_precision", "group_std")
FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
ALGORITHM = pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"])
BATCH = pytest.mark.parametrize("batch_size", [None, 10], ids=["full batch", "mini-batch"])


def moments(block):
    return [block.value] if hasattr(block, "value") else [block.mean, block.std]


def moved(before, after):
    """Names of the blocks that are not what they were; means of equal numbers are off by their rounding."""
    assert before.keys() == after.keys()
    pairs = {name: zip(moments(before[name]), moments(after[name]), strict=True) for name in before}
    return {name for name, parts in pairs.items() if not all(np.allclose(a, b, rtol=1e-12, atol=0) for a, b in parts)}


@FULL
@BATCH
@ALGORITHM
@pytest.mark.parametrize("frozen", [*((name,) for name in BLOCKS), BLOCKS[1:], BLOCKS[:2]], ids="+".join)
def test_frozen_blocks_stay(frozen, algorithm, batch_size, full):
    """And the others move."""
    problem = setting(algorithm, batch_size, full, frozen)
    first = first_state(problem, 0)
    assert set(first.q) == set(BLOCKS)
    last = plan.run(problem, first, 3, 1e-9)
    assert moved(first.q, last.q) == set(BLOCKS) - set(frozen)
    assert np.isfinite(last.bound)


@FULL
@BATCH
@ALGORITHM
@pytest.mark.parametrize("blocks", [*((name,) for name in BLOCKS), ("weights", "likelihood"), None], ids=str)
def test_a_segment_moves_the_blocks_that_it_names(blocks, algorithm, batch_size, full):
    problem = setting(algorithm, batch_size, full)
    state = problem.messages.begin(problem, first_state(problem, 0))
    segment = Segment(np.arange(10), 4.0, blocks)
    gradient, _ = engine.evaluate(problem, state, segment)
    q, memory, _ = engine.step(problem, state, segment, gradient)
    assert moved(state.q, q) == set(blocks or BLOCKS)
    for name in set(BLOCKS) - set(blocks or BLOCKS):
        assert q[name] is state.q[name]
        assert memory.get(name) is state.memory.get(name)


@FULL
def test_messages_are_those_of_a_block_that_stays(full):
    """Sites of a frozen block go on, so that their sum is theirs when it moves again."""
    problem = setting("cvi", 10, full, frozen=("weights",))
    state = problem.messages.begin(problem, first_state(problem, 0))
    for segment in problem.model.sweep(problem.data, 10, 0, 0):
        gradient, _ = engine.evaluate(problem, state, segment)
        state = replace(state, q=engine.step(problem, state, segment, gradient)[0])
    kept = [np.array(getattr(part, "parts", [part])[0]) for part in state.messages.total]
    problem.messages.fresh(problem, state)
    for part, own in zip(state.messages.total, kept, strict=True):
        np.testing.assert_allclose(np.array(getattr(part, "parts", [part])[0]), own, rtol=1e-9, atol=1e-9)


def test_all_frozen_is_a_fit_that_stands(global_random_seed):
    data = data_for("poisson", seed=global_random_seed)
    problem = problem_for(model_for("poisson", data), data, frozen=frozenset({"weights"}))
    state = plan.run(problem, State(problem.model.begin(data, None), 0), 20, 1e-6)
    assert state.converged and state.bound == engine.exact_bound(problem, state)
