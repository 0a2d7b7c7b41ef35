"""Every estimator that takes steps of gradients, each of its bounds and local steps, on small simulated tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

import sksvi
from sksvi.datasets import make_beta_process, make_ctm, make_lda, make_pmf

#: The algorithms that do not take natural steps on every block.
GRADIENT = ("h-mc-ssvi", "s-dsvi")
#: Parameters that choose the objective or its local steps: a row of the table for each of their strings.
CHOICES = ("bound", "local_step")
#: A string that stands for another one.
ALIAS = "auto"
#: What else has a row of its own, by estimator.
FURTHER: dict[str, dict[str, list[Any]]] = {
    "BayesianGLMClassifier": {"likelihood": ["logit", "softmax"]},
    "BayesianGLMRegressor": {"likelihood": ["gaussian", "poisson", "negative-binomial", "student-t"]},
    "CorrelatedTopicModel": {"topics": ["dirichlet", "point"]},
    "GMEClassifier": {"noise": [False, True]},
    "GMERegressor": {"likelihood": ["gaussian", "poisson-softplus"], "noise": [False, True]},
    "GeneralizedPMF": {"likelihood": ["gaussian", "logit", "poisson"]},
    "SparseGPRegressor": {"likelihood": ["gaussian", "poisson"]},
}
#: Estimators whose bound has several optima, the best of which is compared, and from how many random starts.
SEVERAL_OPTIMA, STARTS = ("BetaProcessFA", "CorrelatedTopicModel", "StructuredLDA"), 4
SHOWN = (*CHOICES, "likelihood", "noise", "topics")
#: Settings of all rows of an estimator: kernels stay, so that all algorithms have one bound.
KERNEL = {"optimize_hyperparameters": False, "optimize_inducing": False, "n_inducing": 15}
FIXED: dict[str, dict[str, Any]] = {
    "BetaProcessFA": {"n_components": 6, "max_iter": 300},
    "CorrelatedTopicModel": {"n_components": 4},
    "GammaFactorModel": {"n_components": 3},
    "GeneralizedPMF": {"n_components": 3},
    "GMEClassifier": {"groups": [5]},
    "GMERegressor": {"groups": [5]},
    "SparseGPClassifier": KERNEL,
    "SparseGPRegressor": KERNEL,
    "StructuredLDA": {"n_components": 4},
}


class Case(NamedTuple):
    """An estimator with the settings of a row, and its training data."""

    estimator: Any
    settings: dict[str, Any]
    table: tuple[Any, ...]

    @property
    def label(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.settings.items() if key in SHOWN)

    @property
    def seeds(self) -> range:
        return range(STARTS if self.estimator.__name__ in SEVERAL_OPTIMA else 1)

    def model(self, seed: int, **settings: Any) -> Any:
        fixed = FIXED.get(self.estimator.__name__, {})
        return self.estimator(**{**fixed, **self.settings, **settings}, random_state=seed)


def strings(cls: Any, name: str) -> list[str]:
    """The strings that a parameter may be."""
    rules = cls._parameter_constraints.get(name, [])
    return sorted(option for rule in rules if isinstance(rule, StrOptions) for option in rule.options)


def estimators() -> list[Any]:
    """Every public estimator that takes an algorithm of `GRADIENT`."""
    public = [getattr(sksvi, name) for name in sksvi.__all__]
    return [cls for cls in public if hasattr(cls, "fit") and set(GRADIENT) & set(strings(cls, "algorithm"))]


# ---- data
def latent(n: int) -> tuple[Any, Any, Any]:
    """Standard normal columns, a line of them, and the generator of targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    return X, X @ rng.standard_normal(5), rng


def target(kind: str, n: int) -> tuple[Any, Any]:
    """Columns and targets of the kind that a likelihood is of."""
    X, f, rng = latent(n)
    if kind == "softmax":
        return X, np.argmax(np.column_stack([f, X[:, 1], -X[:, 2]]) + rng.gumbel(size=(n, 3)), axis=1)
    if kind == "logit":
        return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)
    if kind in ("poisson", "poisson-softplus", "negative-binomial"):
        return X, rng.poisson(np.log1p(np.exp(f + rng.standard_normal(n))))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)


def grouped(kind: str, n: int) -> tuple[Any, Any]:
    """The same with a last column of 20 groups, whose effects the targets do not have."""
    X, y = target(kind, n)
    return np.column_stack([X, np.arange(n) % 20]), y


def pairs(kind: str, n: int) -> tuple[Any, Any]:
    """Ids of users and items, and targets."""
    bunch = make_pmf(n // 5, n // 10, 3, likelihood=kind, observed=0.5, random_state=0)
    return bunch.data, bunch.target


#: From the likelihood ("" for none) and a number of rows to training data.
DATA: dict[str, Callable[[str, int], tuple[Any, ...]]] = {
    "BayesianGLMClassifier": target,
    "BayesianGLMRegressor": target,
    "BetaProcessFA": lambda kind, n: (make_beta_process(n, 20, 4, random_state=0).data,),
    "CorrelatedTopicModel": lambda kind, n: (make_ctm(n, 60, n_components=4, random_state=0).data,),
    "GMEClassifier": lambda kind, n: grouped("logit", n),
    "GMERegressor": grouped,
    "GammaFactorModel": lambda kind, n: (target("gaussian", n)[0] ** 2,),
    "GeneralizedPMF": pairs,
    "SparseGPClassifier": lambda kind, n: target("logit", n),
    "SparseGPRegressor": target,
    "StructuredLDA": lambda kind, n: (make_lda(n, 60, n_components=4, random_state=0).data,),
}


def cases(n: int = 400) -> Iterator[Case]:
    """Every estimator with each of its bounds and local steps, and with what `FURTHER` adds."""
    for cls in estimators():
        name = cls.__name__
        options = {key: [s for s in strings(cls, key) if s != ALIAS] for key in CHOICES}
        options = {key: values for key, values in options.items() if values} | FURTHER.get(name, {})
        for values in product(*options.values()):
            settings = dict(zip(options, values, strict=True))
            yield Case(cls, settings, DATA[name](settings.get("likelihood", ""), n))
