"""Sparse Gaussian process regression and classification."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._typing.arrays import ArrayLike, ClassWeight, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.classification import CLASS_WEIGHT, ClassificationMethods
from sksvi.estimators.encoding import CHUNK, GivenRows
from sksvi.estimators.offsets import remember_exposure, with_exposure
from sksvi.estimators.posterior import RowBounds, divergence_at, row_terms
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.regression import RegressionMethods
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.gaussian_process._base import SparseGP
from sksvi.gaussian_process._encoding import LabelProcessEncoding, ValueProcessEncoding
from sksvi.gaussian_process._start import OPTIMAL_ROWS, checked_noise, noiseless, refused
from sksvi.likelihoods import Likelihood
from sksvi.models.data import Table

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

Array = np.ndarray


def _streams(model: Any) -> bool:
    """Whether `partial_fit` has a meaning; an AttributeError that says why not."""
    if model.bound == "optimal":
        raise AttributeError(refused("partial_fit"))
    return True


@with_own_methods
class SparseGPRegressor(RegressionMethods, SparseGP):
    """Gaussian process regression with inducing points: measured, counted, binomial and ordered targets.

    y | f ~ likelihood with f ~ GP(0, kernel), and a Gaussian q over w = f(Z) at the inducing points Z. Kernel, noise
    and Z maximise the bound -KL(q‖p) + Σ E log p(y|f) (Titsias 2009; Sheth and Khardon 2016, section 4). The GP has
    mean zero about `mean_`: a kernel of yours describes all of f, ``kernel=None`` what varies. Scale X (``Pipeline``)
    where its columns have units of their own.

    Parameters
    ----------
    likelihood : str or instance, default="gaussian"
        "gaussian", "student-t", "poisson" (exp), "poisson-softplus", "negative-binomial", "binomial" (y of shape
        (n, 2): successes, failures), "logit", "probit" (y 0 or 1), "ordinal", "gamma", "inverse-gaussian",
        "log-normal", "weibull", "log-logistic" or "exponential" (y > 0), "tweedie" (y >= 0), "beta" (0 < y < 1),
        "beta-binomial" (as "binomial"), "zero-inflated-poisson", "zero-inflated-negative-binomial", "hurdle-poisson" or
        "hurdle-negative-binomial". Scales are learned unless the instance has a number.
    kernel : kernel of sklearn.gaussian_process.kernels, default=None
        Prior covariance of f, where the search for its parameters begins; None: a scaled RBF with a length scale per
        feature, behind a link plus a constant of variance 1, of labels 1 + c², c the constant f that fits all of them
        best (not of ordered levels, which have cut points).
        Not `WhiteKernel`: the noise is `noise_variance`.
    n_inducing : int or "auto", default="auto"
        Inducing points at most; fewer distinct rows: all of them, and with Gaussian noise the exact GP. "auto": 200;
        with learned Gaussian noise, bound "simple" and 4,096 rows or more 100 more, where a first search with 200
        leaves open more than 0.001 nats a row. Such a search ends at gains forty times as large as others, as places of
        points gain little beside their number.
    inducing : {"kmeans", "random"} or array-like of shape (M, D), default="kmeans"
        Where the inducing points begin: centres of k-means, a random subset of the rows, or these.
    bound : {"simple", "optimal", "v1", "v2"}, default="simple"
        "simple": a lower bound of the log evidence, for every likelihood. The others need Gaussian noise. "optimal":
        the exact evidence, for all rows at once, up to 5,000. "v1" (FITC), "v2": objectives that are no bounds, in
        which every row has the variance that the inducing points leave open; they often predict better densities.
    noise_variance : float or "auto", default="auto"
        Of Gaussian noise; "auto" learns it.
    optimize_hyperparameters : bool, default=True
        Whether the kernel's parameters are learned; its fixed ones stay.
    hyperparameters : {"integrated", "point"}, default="integrated"
        Whether predictions, draws and ``summary()`` are a mixture over few nodes of the posterior of what is learned
        of kernel and likelihood, or take its best values. "point" maximises the bound alone; "integrated" has weak
        priors in the units of X and y, and takes the point in batches and streams, which do not look at all rows, and
        of other likelihoods than "gaussian" where rows times inducing points are more than 8,388,608. With Gaussian
        noise, where these times the hyperparameters are more than 16,777,216 (5,593 rows of eight columns with 300
        points), the posterior is a normal about its mode, and the mode predicts.
    optimize_inducing : bool, default=True
        Whether the inducing points are moved (not with "optimal", whose value they do not change).
    algorithm : {"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`. On mini-batches "cvi" keeps a message per row only where kernel
        and inducing points are fixed; else it steps as "mc-ssvi", as messages would go stale: see ``algorithm_``.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How E log p(y|f) is integrated.
    covariance : {"full", "diag"}, default="full"
        Of the Gaussian q over the inducing values in white coordinates.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; None: all of them, with hyperparameters by L-BFGS. Batches: hyperparameters by Adam. "auto": all
        rows up to 131,072.
    max_iter : int, default=2000
        Most passes over the data, those of the search for hyperparameters included.
    tol : float, default=1e-4
        The fit stops when the relative change of the bound per pass stays below it.
    total_samples : float, default=None
        Population size for `partial_fit`; None: the weight seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    stream_sample : int or "auto", default="auto"
        Past rows that `partial_fit` keeps under "cvi" to correct what the others said as q moves on; 0: none. "auto":
        8,000, fewer where they would take more than 16 MB.
    n_jobs : int, default=None
        Threads over row blocks; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last posterior, kernel and inducing points.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    kernel_ : kernel
        With its fitted parameters.
    inducing_points_ : ndarray of shape (M, D)
    mean_ : float
        Constant part of f, about which the kernel describes the rest: with ``kernel=None`` the mean of a measured y,
        of counts the value that they would have without a kernel; else 0.
    noise_variance_ : float or None
        Noise variance; for other likelihoods their dispersion or scale, None where there is none.
    levels_ : ndarray of shape (L,)
        Ordinal: the sorted values of y, or in its own order the names that an ordered Categorical has.
    algorithm_ : Algorithm
        The one that fitted q.
    likelihood_ : Likelihood
        The fitted likelihood, its learned scales as numbers.
    posterior_ : mapping
        ``posterior_["inducing"]``: ``mean``, ``cov``, ``std``, ``sample`` of f - `mean_` at the inducing points.
    lower_bound_ : float
        Log evidence with hyperparameters integrated over nodes, nats; where they are a point its bound at `posterior_`.
        For "v1" and "v2" of an objective, not a bound.
    lower_bounds_ : ndarray
        Bound, and log prior of the hyperparameters where these are integrated, at their values per pass, nats.
    hyperparameter_posterior_ : DataFrame
        A row per node, its weight and hyperparameters; where they are integrated.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    SparseGPClassifier : The same for labels.
    BayesianGLMRegressor : f linear in the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import SparseGPRegressor
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(50 * X[:, 0])
    >>> model = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[np.pi / 2]], return_std=True)
    >>> mean.round(1), std.round(1)
    (array([1.]), array([0.1]))
    """

    _encoding_class = ValueProcessEncoding
    _quantile_errors = "calibrated"
    mean_: float
    noise_variance_: float | None
    likelihood_: Likelihood

    _parameter_constraints: dict[str, list[Any]] = {
        **SparseGP._parameter_constraints,
        "likelihood": [StrOptions(set(likelihoods.NAMES - likelihoods.OF_CLASSES)), Likelihood],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> SparseGPRegressor:
        """Fit q, kernel, noise and inducing points to (X, y).

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f.
        exposure : array-like of shape (n,), default=None
            What a count is a count of, such as time, area or persons: positive, multiplies the rate exp(f) of
            "poisson" and "negative-binomial" (its logarithm is added to f).

        Returns
        -------
        SparseGPRegressor
            Itself.

        Raises
        ------
        ValueError
            y outside the likelihood's support, numbers that are not finite, negative or only zero weights, equal rows
            alone, an impossible kernel or bound.
        """
        offset = with_exposure(self, offset, exposure, X, y=y)
        return remember_exposure(self._fit(X, y, sample_weight, offset), exposure)

    @available_if(_streams)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> SparseGPRegressor:
        """Go on with one more chunk of data; the first ones say where inducing points begin, with "cvi" the kernel too.

        Under "cvi" kernel and points are learned anew whenever the rows have doubled, while the sample holds all of
        them and until they have been learned from ten rows for each inducing point.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight, offset, exposure : array-like of shape (n,), default=None

        Returns
        -------
        SparseGPRegressor
            Itself.

        Raises
        ------
        ValueError
            As `fit`; ordinal levels that the first call did not have.
        """
        offset = with_exposure(self, offset, exposure, X, y=y)
        return remember_exposure(self._partial_fit(X, y, sample_weight, offset), exposure, streams=True)

    def _row_bounds(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> RowBounds:
        """Terms of rows under every bound at the fitted q; "optimal", which is no sum over them, of few rows."""
        check_is_fitted(self)
        if self.likelihood_.noise_variance is None:
            raise TypeError(
                f"SparseGPRegressor has a choice of bound with Gaussian noise alone, not {self.likelihood_}."
            )
        twin = copy.copy(self).set_params(bound="simple")  # validation writes to it
        rows = self._encoding.read(twin, GivenRows(X, y, None, offset), self._encoding, CHUNK)
        data = self._encoding.encode(twin, rows, CHUNK)
        weight = check_row_values(sample_weight, len(data), "sample_weight", weights=True)
        data, q = replace(data, weight=weight), self.state_.shown
        problem = twin._problem(twin._model(data, "nothing"), data)

        def terms(bound: str, data: Table) -> Array:
            return row_terms(replace(problem, model=problem.model.replaced(bound=bound), data=data), q)

        sums = {}
        if len(data) <= OPTIMAL_ROWS:  # a row of no weight is none
            sums["optimal"] = float(
                terms("optimal", data if weight is None else data.take(np.flatnonzero(weight))).sum()
            )
        return RowBounds(
            fitted=self.bound,
            values={name: terms(name, data) for name in ("simple", "v1", "v2")},
            gaps=(("v1", "simple"), ("v2", "v1")),
            divergence=divergence_at(problem, q),
            weight=np.ones(len(data)) if weight is None else weight,
            sums=sums,
        )

    def _base_likelihood(self) -> Likelihood:
        noise = checked_noise(self.noise_variance)
        if self.likelihood == "gaussian":
            return likelihoods.Gaussian(variance=noise)
        base = super()._base_likelihood()
        noiseless(noise, self.likelihood)
        return base


@with_own_methods
class SparseGPClassifier(ClassificationMethods, SparseGP):
    """Gaussian process classification with inducing points.

    p(y|f) = σ(±f(x)), softmax for more than two classes, f ~ GP(0, kernel), one for each class that softmax tells apart
    (all with this kernel and the same inducing points), and a Gaussian q over w = f(Z) at the inducing points Z. Kernel
    and Z maximise the bound -KL(q‖p) + Σ E log p(y|f) (Sheth and Khardon 2016, section 4).

    Parameters
    ----------
    likelihood : {"logit", "probit", "softmax", "multinomial"} or instance, default="logit"
        "logit" becomes softmax for more than two classes; "probit" is binary. "multinomial": y is a table of counts of
        shape (n, K), as many labelled rows of a softmax; columns of a frame name the classes, and `score` is by trials.
    kernel : kernel of sklearn.gaussian_process.kernels, default=None
        Prior covariance of f, where the search for its parameters begins; None: a scaled RBF with a length scale per
        feature, plus a constant of variance 1 + c², c the constant f that fits labels of two classes best, of more 0.
        Not `WhiteKernel`.
    n_inducing : int, default=200
        Inducing points at most; fewer distinct rows: all of them.
    inducing : {"kmeans", "random"} or array-like of shape (M, D), default="kmeans"
        Where the inducing points begin: centres of k-means, a random subset of the rows, or these.
    bound : {"simple"}, default="simple"
        Of the log evidence. "optimal", "v1" and "v2" are for Gaussian noise (`SparseGPRegressor`) and an error here.
    noise_variance : {"auto"}, default="auto"
        Labels have no Gaussian noise: "auto" is the only value that means something here, a number is an error.
    optimize_hyperparameters : bool, default=True
        Whether the kernel's parameters are learned; its fixed ones stay.
    hyperparameters : {"integrated", "point"}, default="integrated"
        Whether predictions, draws and ``summary()`` are a mixture over few nodes of the posterior of what is learned
        of kernel and likelihood, or take its best values. "point" maximises the bound alone; "integrated" has weak
        priors in the units of X and y, and takes the point in batches and streams, which do not look at all rows, and
        where rows times inducing points are more than 8,388,608 (41,943 rows with 200 points).
    optimize_inducing : bool, default=True
        Whether the inducing points are moved.
    class_weight : {"balanced"}, dict or None, default=None
        What rows of each label count for, beside their sample_weight: "balanced" as if all labels were equally
        frequent. Probabilities are then those of data weighted so, and no longer of the data as they come, and
        intervals are too narrow: a fit warns, and says by how much.
    algorithm : {"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`. On mini-batches "cvi" keeps a message per row only where kernel
        and inducing points are fixed; else it steps as "mc-ssvi", as messages would go stale: see ``algorithm_``.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How E log p(y|f) is integrated.
    covariance : {"full", "diag"}, default="full"
        Of the Gaussian q over the inducing values in white coordinates, of all classes together.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; None: all of them, with hyperparameters by L-BFGS. Batches: hyperparameters by Adam. "auto": all
        rows up to 131,072.
    max_iter : int, default=2000
        Most passes over the data, those of the search for hyperparameters included.
    tol : float, default=1e-4
        The fit stops when the relative change of the bound per pass stays below it.
    total_samples : float, default=None
        Population size for `partial_fit`; None: the weight seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    stream_sample : int or "auto", default="auto"
        Past rows that `partial_fit` keeps under "cvi" to correct what the others said as q moves on; 0: none. "auto":
        8,000, fewer where they would take more than 16 MB.
    n_jobs : int, default=None
        Threads over row blocks; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last posterior, kernel and inducing points.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    kernel_ : kernel
        With its fitted parameters.
    inducing_points_ : ndarray of shape (M, D)
    noise_variance_ : None
    algorithm_ : Algorithm
        The one that fitted q.
    likelihood_ : Likelihood
    posterior_ : mapping
        ``posterior_["inducing"]``: ``mean``, ``cov``, ``std``, ``sample`` of f at the inducing points; softmax: a plate
        for each class.
    lower_bound_ : float
        Log evidence with hyperparameters integrated over nodes, nats; where they are a point its bound at `posterior_`.
    lower_bounds_ : ndarray
        Bound, and log prior of the hyperparameters where these are integrated, at their values per pass, nats.
    hyperparameter_posterior_ : DataFrame
        A row per node, its weight and hyperparameters; where they are integrated.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    GPClassifier : The same on all rows, without inducing points.
    SparseGPRegressor : For measured, counted and ordered targets.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sksvi import SparseGPClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SparseGPClassifier(n_inducing=20, random_state=0).fit(X, y)
    >>> model.predict_proba([[0.0, 1.0], [1.0, -0.5]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    _encoding_class = LabelProcessEncoding
    noise_variance_: None
    likelihood_: Likelihood

    _parameter_constraints: dict[str, list[Any]] = {
        **SparseGP._parameter_constraints,
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "likelihood": [StrOptions({"logit", "bernoulli", "probit", "softmax", "multinomial"}), Likelihood],
        "class_weight": CLASS_WEIGHT,
    }
    _changes = {**SparseGP._changes, "class_weight": UNCHECKED}

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "logit",
        kernel: Kernel | None = None,
        n_inducing: int = 200,
        inducing: str | ArrayLike = "kmeans",
        bound: str = "simple",
        noise_variance: float | str = "auto",
        optimize_hyperparameters: bool = True,
        hyperparameters: str = "integrated",
        optimize_inducing: bool = True,
        class_weight: ClassWeight = None,
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
        batch_size: int | str | None = "auto",
        max_iter: int = 2000,
        tol: float = 1e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        stream_sample: int | str = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            likelihood=likelihood,
            kernel=kernel,
            n_inducing=n_inducing,
            inducing=inducing,
            bound=bound,
            noise_variance=noise_variance,
            optimize_hyperparameters=optimize_hyperparameters,
            hyperparameters=hyperparameters,
            optimize_inducing=optimize_inducing,
            algorithm=algorithm,
            expectation=expectation,
            covariance=covariance,
            batch_size=batch_size,
            max_iter=max_iter,
            tol=tol,
            total_samples=total_samples,
            forgetting=forgetting,
            half_life=half_life,
            stream_sample=stream_sample,
            n_jobs=n_jobs,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None, offset: PerRow | None = None
    ) -> SparseGPClassifier:
        """Fit q, kernel and inducing points to (X, y).

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f; two classes only.

        Returns
        -------
        SparseGPClassifier
            Itself.

        Raises
        ------
        ValueError
            A single class, numbers that are not finite, negative or only zero weights, equal rows alone, an
            impossible kernel, a bound or noise for measured targets.
        """
        return self._fit(X, y, sample_weight, offset)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike,
        y: PerRow,
        classes: ArrayLike | None = None,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
    ) -> SparseGPClassifier:
        """Go on with one more chunk of data; the first ones say where inducing points begin, with "cvi" the kernel too.

        Under "cvi" kernel and points are learned anew whenever the rows have doubled, while the sample holds all of
        them and until they have been learned from ten rows for each inducing point.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,)
        classes : array-like of shape (K,), default=None
            All labels that will come; needed in the first call.
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        SparseGPClassifier
            Itself.

        Raises
        ------
        ValueError
            First call without `classes`, or labels that the first call did not name.
        """
        with self._all_or_nothing():
            self._fix_classes(classes)
            return self._partial_fit(X, y, sample_weight, offset)
