"""scikit-learn's own checks: all of them, for every algorithm, without an expected failure."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    GeneralizedPMF,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    PoissonFactorization,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sksvi.algorithms import VARIATIONAL, HybridMCSSVI
from sksvi.likelihoods import Gaussian
from sksvi.schedules import AdaGrad

# As in scikit-learn's own run of these checks: some of their data are separable or fitted exactly.
# scikit-learn's checks fit a few rows that a line tells apart, and targets that are constant.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*perfect separation"),
    pytest.mark.filterwarnings("ignore:.* in every row"),
    pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning"),  # the checks' targets are no counts
    pytest.mark.filterwarnings("ignore:class_weight counts rows"),  # which the checks set
]

CLASSES = [BayesianGLMClassifier, BayesianGLMRegressor]
MIXED_CLASSES = [GMEClassifier, GMERegressor]
# Few passes, enough for every check of accuracy; both classes by every algorithm, and all else with as many passes as
# they want, are in LONG_FITS.
SHORT = [cls(max_iter=10) for cls in CLASSES]
BY_ALGORITHM = [
    CLASSES[i % 2](algorithm=name, max_iter=4 if name == "fp" else 10)
    for i, name in enumerate(VARIATIONAL)
    if name != "cvi"
]
DIAGONAL = [cls(covariance="diag", max_iter=3) for cls in CLASSES]
PRIORS = [BayesianGLMClassifier(prior_precision="ard", max_iter=10), BayesianGLMRegressor(prior_precision=1.0)]
LIKELIHOODS = [
    BayesianGLMClassifier(likelihood="probit", max_iter=10),
    BayesianGLMRegressor(likelihood="student-t"),
    BayesianGLMRegressor(likelihood="poisson"),
    BayesianGLMRegressor(likelihood="poisson-softplus"),
    BayesianGLMRegressor(likelihood="negative-binomial"),
    BayesianGLMRegressor(likelihood=Gaussian(variance=0.5)),
]
# Noise, and the optimal bound with likelihoods whose noise is integrated in closed form, and by quadrature.
MIXED = [
    GMEClassifier(),
    GMERegressor(likelihood=Gaussian(variance=0.5), noise=True),
    GMERegressor(likelihood="poisson", bound="simple"),
]
MORE_MIXED = [
    GMEClassifier(noise=True, max_iter=3),
    GMERegressor(noise=True, algorithm="cvi", max_iter=5),
    GMERegressor(likelihood="student-t", noise=True, bound="mean-field", max_iter=5),
]

# A bound, labels, counts; gradient algorithms are in LONG_FITS, the full GP is in test_full.py.
SPARSE_GP = [
    SparseGPRegressor(max_iter=5),
    SparseGPRegressor(likelihood="poisson", optimize_hyperparameters=False),
    SparseGPClassifier(max_iter=5, n_inducing=15, hyperparameters="point"),
]

# One of each kind of what is above with few passes, until it converges or has had enough.
LONG_FITS = [
    *(cls(algorithm=name, max_iter=300) for name in ("cvi", "mc-ssvi") for cls in CLASSES),
    BayesianGLMRegressor(algorithm="s-dsvi", max_iter=60),
    BayesianGLMClassifier(covariance="diag", max_iter=40),
    BayesianGLMClassifier(prior_precision="ard", max_iter=60),
    BayesianGLMClassifier(likelihood="probit"),
    GMEClassifier(noise=True, max_iter=15),
    GMEClassifier(noise=True, bound="simple", likelihood="probit", covariance="diag", max_iter=40),
    GMERegressor(likelihood="poisson", bound="simple", algorithm="h-mc-ssvi", max_iter=40),
    GMERegressor(noise=True, algorithm="cvi", max_iter=30),
    SparseGPRegressor(max_iter=100),
    *(SparseGPRegressor(bound=bound, max_iter=30) for bound in ("v1", "v2", "optimal")),
    SparseGPRegressor(algorithm="s-dsvi", max_iter=10, optimize_hyperparameters=False),
    SparseGPClassifier(max_iter=40, n_inducing=15),
]

# Tables of ids are no arrays of numbers: what needs data is repeated on pairs in test_pmf.py, test_poisson_pairs.py.
FACTORIZATIONS = [
    GeneralizedPMF(),
    GeneralizedPMF(likelihood="logit", algorithm="s-dsvi", covariance="diag"),
    PoissonFactorization(),
]

#: Checks that scikit-learn defines and does not yield to other packages, where they mean something here.
UNYIELDED = ["check_dataframe_column_names_consistency", "check_param_validation", "check_inplace_ensure_writeable"]
#: These call every estimator with predict_proba a classifier; the contract gives it to ordinal regressors.
CALLS_IT_A_CLASSIFIER = {
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_regressors_no_decision_function",
}


@parametrize_with_checks(SHORT)
def test_linear_models(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(BY_ALGORITHM + MORE_MIXED)
def test_every_algorithm(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(DIAGONAL + PRIORS)
def test_diagonal_covariance_and_priors(estimator, check):
    check(estimator)


@pytest.mark.exhaustive  # each likelihood as such, and with every estimator that takes it, in the short part
@parametrize_with_checks(LIKELIHOODS)
def test_every_likelihood(estimator, check):
    check(estimator)


@parametrize_with_checks(MIXED)
def test_mixed_effects(estimator, check):
    check(estimator)


@parametrize_with_checks(SPARSE_GP)
def test_sparse_gaussian_processes(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(LONG_FITS)
def test_long_fits(estimator, check):
    check(estimator)


with warnings.catch_warnings():
    # scikit-learn says, here and not when they run, that it leaves out the checks on arrays.
    warnings.simplefilter("ignore", SkipTestWarning)

    @parametrize_with_checks(FACTORIZATIONS)
    def test_factorizations(estimator, check):
        check(estimator)


@pytest.mark.costly
@pytest.mark.parametrize("max_iter", [1, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_ordinal_passes_but_for_having_probabilities(max_iter):
    """The checks' targets are real numbers: a few are levels, many are refused as none, as a user would want it."""
    model = BayesianGLMRegressor(likelihood="ordinal", max_iter=max_iter)
    results = check_estimator(model, on_fail=None, on_skip=None)
    failed = [r for r in results if r["status"] == "failed" and "takes every distinct value" not in str(r["exception"])]
    assert {r["check_name"] for r in failed} <= CALLS_IT_A_CLASSIFIER


@pytest.mark.parametrize("name", UNYIELDED)
@pytest.mark.parametrize(
    "estimator",
    [*SHORT, *BY_ALGORITHM, *LIKELIHOODS, *MIXED, *(pytest.param(m, marks=pytest.mark.exhaustive) for m in MORE_MIXED)],
    ids=repr,
)
def test_checks_that_are_not_yielded(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("cls", [*CLASSES, *MIXED_CLASSES])
def test_constructors_share_their_parameters(cls):
    parameters = list(inspect.signature(cls).parameters.values())
    first = GMEClassifier if cls in MIXED_CLASSES else BayesianGLMClassifier
    # Labels have weights, measurements none; of these a scale or zeros may have columns.
    own = ["class_weight", "scale_features", "zero_features"]
    found = [p.name for p in parameters if p.name not in own]
    assert found == [name for name in inspect.signature(first).parameters if name not in own]
    assert ("class_weight" in inspect.signature(cls).parameters) == issubclass(cls, ClassifierMixin)


@pytest.mark.parametrize("cls", [*CLASSES, *MIXED_CLASSES, GPClassifier, SparseGPClassifier, SparseGPRegressor])
def test_constructor_is_keyword_only_and_documented(cls):
    parameters = list(inspect.signature(cls).parameters.values())
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    documented = inspect.getdoc(cls)
    assert [p.name for p in parameters if f"\n{p.name} : " not in documented] == []


@pytest.mark.parametrize("cls", CLASSES)
def test_a_fit_changes_no_parameter(cls, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((30, 2)), np.arange(30) % 2
    algorithm = HybridMCSSVI(adagrad=AdaGrad(rate=0.3))
    model = cls(algorithm=algorithm, prior_precision=np.array([1.0, 2.0]), max_iter=5)
    before = repr(model.get_params())
    model.fit(X, y)
    assert model.algorithm is algorithm and repr(model.get_params()) == before
    assert model.set_params(algorithm__adagrad__rate=0.1).get_params()["algorithm__adagrad__rate"] == 0.1


def test_tags_follow_the_likelihood():
    tags = BayesianGLMRegressor(likelihood="poisson").__sklearn_tags__()
    assert tags.target_tags.positive_only and tags.input_tags.sparse and tags.estimator_type == "regressor"
    assert not BayesianGLMRegressor(likelihood="ordinal").__sklearn_tags__().target_tags.positive_only
    assert BayesianGLMRegressor(likelihood="binomial").__sklearn_tags__().target_tags.multi_output
    assert BayesianGLMClassifier().__sklearn_tags__().classifier_tags.multi_class
    assert not BayesianGLMClassifier(likelihood="probit").__sklearn_tags__().classifier_tags.multi_class
    # An estimator with a wrong parameter can still be printed, cloned and asked for its tags.
    assert repr(clone(BayesianGLMRegressor(likelihood="nothing")))
    assert BayesianGLMRegressor(likelihood="nothing").__sklearn_tags__() is not None
