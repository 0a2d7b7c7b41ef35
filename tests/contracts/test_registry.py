"""What is public is tested, saved and documented: a new estimator, likelihood, family or bound without that fails."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import StrOptions

import sksvi
from sksvi import algorithms, expectations, families, likelihoods, schedules
from sksvi._runtime import parallel
from sksvi.models.beta_process import model as beta_process
from sksvi.models.factorization import ratings
from sksvi.models.linear import rows
from sksvi.models.nmf import poisson
from sksvi.persistence import REGISTRY
from sksvi.persistence.writer import class_key
from tests import cases

ROOT = Path(__file__).resolve().parents[2]
ESTIMATORS = [value for name in sksvi.__all__ if hasattr(value := getattr(sksvi, name), "fit")]
INDEX = (ROOT / "doc" / "reference" / "index.rst").read_text()
#: Files of tests by the name they are imported under.
TESTS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
}

# Fits of a few passes: nothing here depends on how good they are.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- what there is
def strings(cls: Any, name: str) -> list[str]:
    """The strings that a parameter may be."""
    rules = cls._parameter_constraints.get(name, [])
    return sorted(option for rule in rules if isinstance(rule, StrOptions) for option in rule.options)


def choices(name: str) -> list[Any]:
    """(estimator, string) for everything that the parameter may be in every estimator that has it."""
    known = {"algorithm": algorithms.ALGORITHMS, "expectation": expectations.NAMES, "likelihood": likelihoods.NAMES}
    found = []
    for cls in ESTIMATORS:
        if name in inspect.signature(cls).parameters:
            options = strings(cls, name) or sorted(known[name])
            found += [pytest.param(cls, option, id=f"{cls.__name__}-{option}") for option in options]
    return found


def classes_of(module: Any) -> list[Any]:
    """Public classes that a module defines, bases that nobody uses themselves left out."""
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    found = [getattr(module, name) for name in names]
    return [c for c in found if inspect.isclass(c) and c.__module__.startswith(module.__name__)]


def package_of(cls: Any) -> str:
    """The package an estimator is in: linear_model and so on."""
    return cls.__module__.rpartition(".")[0]


def checked() -> list[Any]:
    """Every estimator in a ``parametrize_with_checks`` of the tests."""
    found: list[Any] = []
    for name, text in TESTS.items():
        if "parametrize_with_checks(" not in text:  # nothing to be found by a parse, which takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "parametrize_with_checks":
                found += eval(compile(ast.Expression(node.args[0]), name, "eval"), vars(importlib.import_module(name)))
    return found


CHECKED = checked()


#: Likelihoods of positive measurements.
POSITIVE = ("gamma", "inverse-gaussian", "log-normal", "weibull", "log-logistic", "exponential")


def small(cls: Any, **options: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """An estimator with few passes, and 40 rows that it takes."""
    rng = np.random.default_rng(7)
    parameters = inspect.signature(cls).parameters
    cheap = {"max_iter": 3, "random_state": 0, "n_inducing": 6, "n_components": 2}
    cheap = {k: v for k, v in cheap.items() if k in parameters}
    tags = cls().__sklearn_tags__()
    X = rng.standard_normal((40, 2))
    if cls.__name__.endswith("Mixture"):
        X = (X > 0).astype(float)
    elif not tags.input_tags.two_d_array:  # pairs of ids
        X = rng.integers(0, 6 if "likelihood" in parameters else 40, (40, 2))
    if "likelihood" not in parameters:  # rows to be transformed
        return cls(**cheap, **options), rng.poisson(2.0, (40, 6)) if tags.input_tags.positive_only else X, None
    name = options.get("likelihood", parameters["likelihood"].default)
    if name in ("binomial", "beta-binomial"):
        y = np.column_stack([np.arange(40) % 3, np.arange(40) % 4 + 1])
    elif is_classifier(cls()) or name in ("logit", "bernoulli", "probit"):
        y = (X[:, 0] + rng.standard_normal(40) > 0).astype(int)
    elif name in ("gaussian", "student-t"):
        y = X[:, 0] + 0.3 * rng.standard_normal(40)
    elif name == "beta":
        y = rng.uniform(0.1, 0.9, 40)
    elif name in POSITIVE:
        y = np.exp(0.3 * X[:, 0] + 0.3 * rng.standard_normal(40))
    else:
        y = rng.poisson(1.5, 40).clip(0, 3)
    return cls(**cheap, **options), X, y


def quick(cls: Any) -> dict[str, str]:
    """The bound that costs least."""
    if (
        "bound" not in inspect.signature(cls).parameters
        or "simple" not in cls._parameter_constraints["bound"][0].options
    ):
        return {}
    return {"bound": "simple"}


def predictions(model: Any, X: np.ndarray) -> np.ndarray:
    """All that a prediction says: moments of f beside the answer, as arrays one after the other."""
    if hasattr(model, "score_samples") and hasattr(model, "predict_proba"):
        return np.append(np.ravel(model.predict_proba(X)), model.score(X))
    if not hasattr(model, "predict_latent"):
        return np.append(np.ravel(model.transform(X)), model.score(X))
    parts = [*model.predict_latent(X), model.predict_proba(X) if is_classifier(model) else model.predict(X)]
    return np.concatenate([np.ravel(part) for part in parts])


# ---- lists that have to be complete
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_is_checked_saved_and_documented(cls):
    assert cls in {type(estimator) for estimator in CHECKED}
    assert class_key(REGISTRY, cls) == cls.__name__
    assert re.search(rf"^   {cls.__name__}$", INDEX, re.MULTILINE)
    assert ">>>" in inspect.getdoc(cls)


def test_every_algorithm_and_bound_is_checked():
    """Each algorithm by some estimator; each bound by one of the package that has it ("auto" is one of the others)."""
    assert {str(e.algorithm) for e in CHECKED if hasattr(e, "algorithm")} >= set(algorithms.ALGORITHMS)
    seen = {(package_of(type(e)), e.bound) for e in CHECKED if hasattr(e, "bound")}
    resolved = [e for e in CHECKED if hasattr(e, "_bound") and not inspect.signature(e._bound).parameters]
    seen |= {(package_of(type(e)), e._bound()) for e in resolved}
    missing = [choice.values for choice in choices("bound")]
    assert not [(cls, bound) for cls, bound in missing if (package_of(cls), bound) not in seen]


@pytest.mark.parametrize(
    "module", [likelihoods, algorithms, schedules, expectations], ids=lambda module: module.__name__
)
def test_every_part_is_saved_and_documented(module):
    bases = ("Likelihood", "LikelihoodTraits", "Support", "Algorithm", "Expectation")
    public = [c for c in classes_of(module) if c.__name__ not in bases]
    assert len(public) >= 3
    for cls in public:
        assert class_key(REGISTRY, cls) is not None, cls
        assert re.search(rf"^   {cls.__name__}$", INDEX, re.MULTILINE), cls


def test_every_likelihood_has_cases():
    """Those of tests/cases.py are what the tests of the core run over; "bernoulli" is another name of "logit".

    A multinomial is rows of a softmax (tests/likelihoods/test_multinomial.py), a quantile's likelihood is fitted
    in ways of its own (test_quantile.py).
    """
    assert likelihoods.NAMES == {*cases.NAMES, "bernoulli", "multinomial"}
    assert {type(likelihood) for likelihood in cases.TRUTH.values()} == {
        c
        for c in classes_of(likelihoods)
        if c.__name__
        not in ("AsymmetricLaplace", "Censored", "Likelihood", "LikelihoodTraits", "Multinomial", "Support")
    }


def test_every_family_is_saved_and_checked():
    """Free and Rayleigh are no Gaussians: they have tests of their own in the same file."""
    text = "".join(TESTS.values())
    for cls in classes_of(families):
        if issubclass(cls, Exception) or cls.__name__ in ("Draw", "Family"):
            continue
        assert class_key(REGISTRY, cls) is not None, cls
        assert re.search(rf"\b{cls.__name__}\(", text) or f'"{cls.__name__}' in text, cls


def test_every_display_and_data_set_is_documented():
    documented = set(re.findall(r"^   (\w+)$", INDEX, re.MULTILINE))
    functions = {name for name in dir(sksvi.datasets) if name.startswith(("load_", "make_"))}
    assert functions <= documented
    assert {name for name in sksvi._ATTRIBUTES if name.endswith("Display")} <= documented
    assert set(sksvi.testing.__all__) <= documented


# ---- what every estimator does, whatever it is told
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_fit_leaves_what_is_promised(cls):
    model, X, y = small(cls)
    assert model.fit(X, y) is model
    assert np.isfinite(model.lower_bound_) and len(model.lower_bounds_) == len(model.history_) == model.n_iter_
    assert {"bound", "rows", "seconds"} <= set(model.history_.columns)
    columns = list(model.summary().columns)
    assert columns[:4] == ["mean", "std", "lower", "upper"] and set(columns[4:]) <= {"direction"}
    assert model.n_features_in_ == X.shape[1] and model.posterior_
    assert not hasattr(model, "likelihood") or model.likelihood_ is not None
    assert not hasattr(clone(model), "posterior_") and repr(clone(model)) == repr(model)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_fit_is_told_as_text(cls, tmp_path):
    """Of a fit, of the same loaded, and of a stream: the header says what attributes say, the table has its rows."""
    model, X, y = small(cls)
    with pytest.raises(NotFittedError, match=rf"{cls.__name__}.*not fitted"):
        model.summary_text()
    model.fit(X, y)
    text = model.summary_text(0.8)
    told = cases.header(text)
    weight = told["ratings" if "ratings" in told else "rows"]
    assert text.startswith(f"{cls.__name__}\n") and float(weight) == model.n_samples_seen_
    assert told["lower bound"] == f"{model.lower_bound_:,.2f} nats" and told["passes"] == str(model.n_iter_)
    assert told["converged"].startswith("yes" if model.converged_ else "no") and told["intervals"] == "80 %"
    if hasattr(model, "likelihood_"):
        assert told["likelihood"].startswith(type(model.likelihood_).__name__)
    n, lines = len(model.summary()), text.partition("\n\n")[2].split("\n")
    assert len(lines) == 1 + min(n, 41) and lines[0].split()[-1] == model.summary().columns[-1]
    if model._score_name != "score" and cls is not sksvi.DynamicGLM:
        assert float(told[model._score_name]) == pytest.approx(model.score(X, y), abs=1e-4)
    scored = cases.header(model.summary_text(X=X, y=y))
    assert float(scored[model._score_name]) == pytest.approx(model.score(X, y), abs=1e-4)
    model.save(tmp_path / "model.sksvi")
    assert sksvi.load(tmp_path / "model.sksvi").summary_text(0.8) == text
    if hasattr(cls, "partial_fit"):
        stream, classes = clone(model), {"classes": np.unique(y)} if is_classifier(model) else {}
        for _ in range(2):
            stream.partial_fit(X, *[] if y is None else [y], **classes)
        told = cases.header(stream.summary_text())
        assert float(told["ratings" if "ratings" in told else "rows"]) == 2 * model.n_samples_seen_
        assert told["lower bound"] == f"{stream.lower_bound_:,.2f} nats" and model._score_name not in told


@pytest.mark.parametrize(("cls", "algorithm"), choices("algorithm"))
def test_every_algorithm_is_saved_and_does_not_depend_on_threads(
    cls, algorithm, tmp_path, monkeypatch, small_chunks_of_documents
):
    sizes: list[int] = []
    in_order, summed = parallel.in_order, parallel.summed
    for module in (parallel, rows):  # several blocks
        monkeypatch.setattr(module, "chunk_rows", lambda width, full: 16)
    monkeypatch.setattr(beta_process, "MOST_ROWS", 16)
    monkeypatch.setattr(poisson, "LEAST_ROWS", 16)
    monkeypatch.setattr(ratings, "CHUNK_ENTRIES", 64)
    for name, shared in (("in_order", in_order), ("summed", summed)):
        watched = partial(lambda shared, f, items, n: sizes.append(len(items)) or shared(f, items, n), shared)
        monkeypatch.setattr(parallel, name, watched)
    model, X, y = small(cls, algorithm=algorithm, n_jobs=1, **quick(cls))
    model.fit(X, y)
    expected = predictions(model, X)
    # One series is filtered point by point.
    assert (cls is sksvi.DynamicGLM or max(sizes) > 1) and np.all(np.isfinite(expected))
    model.save(tmp_path / "model.sksvi")
    for again in (sksvi.load(tmp_path / "model.sksvi"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(predictions(again, X), expected)
        assert again.lower_bound_ == model.lower_bound_
    threads = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(predictions(threads, X), expected)


@pytest.mark.parametrize(("cls", "bound"), choices("bound"))
def test_every_bound_fits(cls, bound):
    model, X, y = small(cls, bound=bound)
    if is_classifier(model) and bound in ("optimal", "v1", "v2") and cls.__name__.startswith("SparseGP"):
        with pytest.raises(ValueError, match="is for likelihood='gaussian'"):
            model.fit(X, y)
        return
    assert np.all(np.isfinite(predictions(model.fit(X, y), X)))


@pytest.mark.parametrize(("cls", "likelihood"), choices("likelihood"))
def test_every_likelihood_fits(cls, likelihood):
    model, X, y = small(cls, likelihood=likelihood, **quick(cls))
    y = np.eye(2)[y] if likelihood == "multinomial" else y  # counts of classes
    assert np.all(np.isfinite(predictions(model.fit(X, y), X)))
    among = ("poisson", "negative-binomial") if likelihood == "auto" else (likelihood,)
    assert type(model.likelihood_) in [type(likelihoods.resolve(name, 2)) for name in among]


@pytest.mark.parametrize(("cls", "expectation"), choices("expectation"))
def test_every_expectation_fits(cls, expectation):
    fixed = {"optimize_hyperparameters": False} if hasattr(cls(), "optimize_hyperparameters") else {}
    model, X, y = small(cls, expectation=expectation, **fixed, **quick(cls))
    assert np.all(np.isfinite(predictions(model.fit(X, y), X)))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_budget_of_passes_is_kept(cls):
    """Wherever it ends: while q settles, in the first look of a search for hyperparameters, in a later one."""
    for max_iter in range(1, 9):
        model, X, y = small(cls, **quick(cls))
        model.set_params(max_iter=max_iter).fit(X, y)
        assert 1 <= model.n_iter_ <= max_iter
        assert np.all(np.isfinite(predictions(model, X)))
