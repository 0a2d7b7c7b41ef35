"""Every estimator under a limit of its address space: what it asks for is enough, and half of that is refused by name.

The peak is that of the process, with what compiled loops and BLAS take: `support.memory_cases` sees Python's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest
from sklearn.base import clone

from sksvi import (
    BernoulliMixture,
    CategoricalMixture,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GMEClassifier,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
    StructuredLDA,
)
from sksvi._runtime import memory
from support import memory_cases as cases
from support.estimator_cases import NAMES

#: Of what a fit asks for: what it has room for, besides pages that are not full, and what is too little.
ROOM, SLACK, TOO_LITTLE = 1.3, 2**24, 0.5
#: Least that a case asks for: fewer bytes are nobody's question, and the slack would be much of them.
LEAST = 2**26
#: Passes of a fit; more where hyperparameters have nodes only when their search is over.
PASSES, SEARCHED = 2, {"GMEClassifier": 20, "GMERegressor": 20}
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}


def levels(n, users, items):
    model, X, y = cases.gme(n, users, items)
    return GMEClassifier(groups=model.groups), X, (y > 0).astype(int)


def pairs(users):
    """Begun at random: groups of so many users take longer than the fit."""
    model, X, y = cases.pairs_of_counts(users)
    return model.set_params(n_components=90, init="random"), X, y


#: Where draws that end a fit ask for no more than it and take most of its time; those of the others are tried.
OF_Q = {"uncertainty": "variational", "random_state": 0}
LARGE = {
    "BayesianGLMClassifier": lambda: cases.glm(1100, 1000, 2, covariance="full"),
    "BayesianGLMRegressor": lambda: cases.glm(1100, 1000, covariance="full"),
    "BernoulliMixture": lambda: cases.counts(BernoulliMixture(20, **OF_Q), 30, 6000, 1),
    "BetaProcessFA": lambda: cases.beta_process(60, 3000),
    "CategoricalMixture": lambda: cases.counts(CategoricalMixture(20, moves="none", **OF_Q), 30, 6000, 1),
    "DynamicGLM": lambda: cases.series(350_000, level="walk", likelihood="gaussian"),
    "GMEClassifier": lambda: levels(3000, 1500, 300),
    "GMERegressor": lambda: cases.gme(4000, 2000, 300),
    "GammaFactorModel": lambda: cases.counts(GammaFactorModel(40, **OF_Q), 100, 100),
    "GammaPoissonFactorization": lambda: cases.counts(GammaPoissonFactorization(40, random_state=0), 50, 3000),
    "GammaProcessNMF": lambda: cases.counts(GammaProcessNMF(40, random_state=0), 50, 2500),
    "GPClassifier": lambda: cases.gp(GPClassifier(), 1000, 2),
    "GeneralizedPMF": lambda: cases.pmf("full", 3_000),
    "PoissonFactorization": lambda: pairs(6_000),
    "SparseGPClassifier": lambda: cases.gp(SparseGPClassifier(n_inducing=500, random_state=0), 600, 2),
    "SparseGPRegressor": lambda: cases.gp(SparseGPRegressor(n_inducing=500, random_state=0), 600),
    "CorrelatedTopicModel": lambda: cases.topics(50, 10_000),
    "StructuredLDA": lambda: cases.counts(StructuredLDA(40, **OF_Q), 8, 10_000),
}
QUICK = ("BetaProcessFA", "DynamicGLM")


def mapped():
    """Bytes of the address space that are taken, when what was let go has gone back."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def limited(size):
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(mapped() + size), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def fitted(model, X, y, size=float("inf")):
    """What became of a fit of a new estimator under a limit: nothing, or its error."""
    model = clone(model)
    try:
        with contextlib.nullcontext() if size == float("inf") else limited(size):
            model.fit(X) if y is None else model.fit(X, y)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def tried(name):
    """Bytes that a fit asks for at most, and what becomes of it without a limit, with room, and with too little."""
    model, X, y = LARGE[name]()
    model.set_params(max_iter=SEARCHED.get(name, PASSES), n_jobs=1)
    asked = [0.0]
    with mock.patch.object(memory, "need", lambda size, what, remedy: asked.append(size)):
        free = fitted(model, X, y)
    return {
        "name": name,
        "asked": max(asked),
        "free": free,
        "room": fitted(model, X, y, ROOM * max(asked) + SLACK),
        "too little": fitted(model, X, y, TOO_LITTLE * max(asked)),
    }


def main(names):
    warnings.simplefilter("ignore")
    for name in names:
        print(json.dumps(tried(name)), flush=True)


def of_process(names):
    """What `tried` finds in a process of its own, whose address space is that of nobody else."""
    code = f"from tests.contracts.test_address_space import main; main({list(names)!r})"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | ALONE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_address_space(names):
    pytest.importorskip("resource", reason="needs limits of processes")
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs to know what is mapped")
    for found in of_process(names):
        assert found["asked"] > LEAST and not found["free"], found
        assert not found["room"], found
        refused = r"ValueError: .* needs [\d.]+ GiB of memory, and [\d.]+ GiB are available: \w"
        assert re.match(refused, found["too little"]), found


def test_every_estimator_has_a_case():
    assert set(LARGE) == set(NAMES)


@pytest.mark.costly
def test_a_fit_asks_for_the_memory_that_it_takes():
    check_address_space(QUICK)


@pytest.mark.exhaustive
@pytest.mark.complete
def test_every_fit_asks_for_the_memory_that_it_takes():
    check_address_space([name for name in LARGE if name not in QUICK])
