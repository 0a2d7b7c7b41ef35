"""Bayesian classification with a linear latent: logit, probit, softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import _fit_context

from sksvi._typing.arrays import ArrayLike, ClassWeight, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.classification import CLASS_WEIGHT, ClassificationMethods
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.targets import LabelTarget
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.inference.state import State
from sksvi.likelihoods import Likelihood
from sksvi.linear_model._base import BayesianGLM
from sksvi.linear_model._low_rank import check_low_rank
from sksvi.priors import MultivariateNormal

Array = np.ndarray


@with_own_methods
class BayesianGLMClassifier(ClassificationMethods, BayesianGLM):
    """Bayesian logistic or probit regression; softmax regression for more than two classes.

    p(y|f) = σ(±f) with f = Xw + b (softmax: one f per class), w_j ~ N(0, 1/prior_precision), and a Gaussian q(w) that
    maximises the bound -KL(q‖p) + Σ E log p(y|f) (Sheth and Khardon 2016, eq. 3; Khan and Lin 2017).

    Parameters
    ----------
    likelihood : {"logit", "probit", "softmax", "multinomial"} or instance, default="logit"
        "logit" becomes softmax for more than two classes; "probit" is binary. "multinomial": y is a table of counts of
        shape (n, K), as many labelled rows of a softmax; columns of a frame name the classes, and `score` is by trials.
    prior_precision : {"auto", "ard", "flat"}, float, array-like of shape (D,) or mapping, default="auto"
        Precision (1/variance) of the zero-mean Gaussian prior of the coefficients. "auto" learns one for all, under
        a half-Cauchy prior of the spread that all columns together give f; "ard" learns one per coefficient by the
        bound alone. Both are for columns on a scale of their own, the distance of the two values of a column that has
        two, else two standard deviations, so that units do not matter (under ``covariance="low-rank"`` for columns as
        given); `summary` then answers for each effect under a weak prior of its own. "flat" or 0: no information, for
        data that determine every coefficient. Numbers are for the columns as given, one of an array for all levels of a
        categorical column. Where columns of numbers outnumber rows at hand, "auto" under ``covariance="full"`` is an
        empirical prior of the rows too: sparse columns share one scale, and the bound chooses `prior_power_`.
        A mapping, as {"age_s*": "auto", "dose": 4.0}, has a precision for each group of columns: a key is a name, a
        pattern of names or a position, and a column belongs to the first one that fits; "auto" learns the precision of
        the group, under a half-Cauchy prior of its own, and both are for the columns as given (of a categorical column
        for all its levels). Columns without a key ("*") are as under "auto". So each smooth of
        :class:`sksvi.preprocessing.SmoothTransformer` learns how smooth it is.
    prior : dict, posterior or None, default=None
        Priors by name, beside ``prior_precision="auto"``: ``{"age": Normal(0.5, 0.2), "site_*": Horseshoe()}``. Keys
        are coefficients as `summary` names them, columns (of a categorical one all levels), patterns of
        :mod:`fnmatch`, or positions; the closest one counts, of patterns the first. Values are
        :class:`sksvi.priors.Normal` and :class:`sksvi.priors.StudentT` in the units of the column,
        :class:`sksvi.priors.Horseshoe`, "flat", or "auto", as columns without a key.
        ``"intercept"`` is f at 0 of all columns, which are not centred then. Of several classes each has these priors.
        Of two classes, for all coefficients together, the `posterior_` of a fit to other rows, or a
        :class:`sksvi.priors.MultivariateNormal`.
        Not with ``covariance="low-rank"``.
    intercept_precision : "auto" or float, default="auto"
        Prior precision of the intercept, about 0. "auto": at the columns' means the prior is centred where the
        intercept alone would be, with a standard deviation of 10 times that of a measured target, behind a link of 10;
        sparse columns count as centred at 0.
    fit_intercept : bool, default=True
    hyperparameters : {"integrated", "point"}, default="integrated"
        Whether scales of coefficients and of levels, and what the likelihood learns (noise, dispersion, degrees of
        freedom; no cut points), have a posterior: a few nodes, over which tables, predictions, draws and `lower_bound_`
        are mixtures. "point": all is given the values where the bound is largest. Nodes of parameters of a likelihood
        that is not Gaussian need all rows, 20,000 at most: of streams they are a point, and under
        ``covariance="low-rank"``.
    categorical_features : "from_dtype", array-like of str, int or bool, or None, default="from_dtype"
        Columns in whose place indicators of their levels stand, by name, position or mask. "from_dtype": those of a
        frame whose type is categorical, or that hold text which is no number. Levels are what the type declares, else
        what the first rows have; so is a missing value where they have one. Rows with others are read without an effect
        of the column, and a warning says so. Under a flat prior the first level is the reference, without a
        coefficient. None: every column is one of numbers.
    class_weight : {"balanced"}, dict or None, default=None
        What rows of each label count for, beside their sample_weight: "balanced" as if all labels were equally
        frequent. Probabilities are then those of data weighted so, and no longer of the data as they come, and
        intervals are too narrow: a fit warns, and says by how much.
    algorithm : {"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How E log p(y|f) is integrated.
    covariance : {"auto", "full", "diag", "low-rank"}, default="auto"
        Of the Gaussian q over the coefficients. "low-rank" is for text and tables with more columns than rows, at about
        the price of a point estimate: the mode under one prior for the columns as they are, whose scale is the
        narrowest that leave-one-out finds as good as any; a covariance that is diagonal off the leading directions of
        the rows; and predictions whose variance is tempered by leave-one-out. "auto": "low-rank" for
        more than 10 classes, for more than 700 coefficients of all classes together, and under a learned prior for
        sparse rows fewer than their columns, more than 50; else "full", as for what "low-rank" cannot take. The first
        chunk of `partial_fit` chooses for all: sparse rows with more than 700 coefficients or 10 classes have
        "low-rank".
    batch_size : int, "auto" or None, default="auto"
        Rows per step; None: all of them. "auto": all rows up to about a million.
    max_iter : int, default=300
        Most passes over the data.
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
        `fit` goes on from the last posterior.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    coef_, coef_std_ : ndarray of shape (1, D), or (K, D) for more than two classes
        Means and standard deviations of the joint posterior, by which the fit predicts; of a categorical column one per
        level. What the data say of one effect is in ``summary``.
    intercept_ : ndarray of shape (1,) or (K,)
    prior_precision_ : float or ndarray of shape (D,)
        The precision used, for the columns as given: a fixed number, or one per coefficient.
    prior_power_ : int
        Power p, 0, 1 or 2, of the prior covariance 0.1 I + 0.9 c (XᵀX)ᵖ of coefficients on the scale of the prior, I at
        p = 0. Other than 0 only where columns of numbers outnumber rows and the bound of a learned prior pays for it:
        prior probabilities are 0.9, 0.05 and 0.05, and `lower_bound_` has the log of the chosen one in it. Streams,
        Dask collections, categorical columns, mini-batches and ``algorithm="s-dsvi"`` have 0.
    likelihood_ : Likelihood
        The fitted likelihood, its learned scales as numbers.
    posterior_ : mapping
        ``posterior_["weights"]``: ``mean``, ``cov``, ``std``, ``sample``; the intercept is the last coordinate.
        ``posterior_.names``: of these coordinates.
    lower_bound_, lower_bounds_ : float, ndarray
        Log evidence with hyperparameters integrated, and the bound on it at their best values per pass, nats. Under
        ``covariance="low-rank"`` there is none.
    loo_, temperature_ : float
        Under ``covariance="low-rank"``: leave-one-out log loss, nats a row, and what variances of f are multiplied by
        where y is predicted: 0 predicts by the mode. `predict_latent`, `summary` and draws are without it. Of a stream
        `loo_` is that of the first rows, which are fitted together, and then the loss of chunks at the mode before they
        were learned, recent ones counting most; `summary` takes the spreads of columns from the first chunk.
    hyperparameter_posterior_ : DataFrame
        A row per node: its weight, and the hyperparameters there.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    BayesianGLMRegressor : The same for measured, counted and ordered targets.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sksvi import BayesianGLMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianGLMClassifier(prior_precision=1.0).fit(scale(X), y)
    >>> model.predict_proba(scale(X)[:1]).round(2)
    array([[1., 0.]])
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    likelihood_: Likelihood

    _target_class = LabelTarget
    _parameter_constraints: dict[str, list[Any]] = {
        **BayesianGLM._parameter_constraints,
        "likelihood": [StrOptions({"logit", "bernoulli", "probit", "softmax", "multinomial"}), Likelihood],
        "covariance": [StrOptions({"auto", "full", "diag", "low-rank"})],
        "class_weight": CLASS_WEIGHT,
    }
    _changes = {**BayesianGLM._changes, "class_weight": UNCHECKED}

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "logit",
        prior_precision: float | str | ArrayLike | Mapping[str | int, float | str] = "auto",
        prior: dict[Any, Any] | Posterior | MultivariateNormal | None = None,
        intercept_precision: float | str = "auto",
        fit_intercept: bool = True,
        hyperparameters: str = "integrated",
        categorical_features: str | ArrayLike | None = "from_dtype",
        class_weight: ClassWeight = None,
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "auto",
        batch_size: int | str | None = "auto",
        max_iter: int = 300,
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
        self.likelihood = likelihood
        self.prior_precision = prior_precision
        self.prior = prior
        self.intercept_precision = intercept_precision
        self.fit_intercept = fit_intercept
        self.hyperparameters = hyperparameters
        self.categorical_features = categorical_features
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.stream_sample = stream_sample
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None, offset: PerRow | None = None
    ) -> BayesianGLMClassifier:
        """Fit q to (X, y).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f; two classes only.

        Returns
        -------
        BayesianGLMClassifier
            Itself.

        Raises
        ------
        ValueError
            A single class, numbers that are not finite, negative or only zero weights, an impossible combination.
        """
        check_low_rank(self, self.warm_start and hasattr(self, "state_"))
        return self._fit(X, y, sample_weight, offset)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike,
        y: PerRow,
        classes: ArrayLike | None = None,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
    ) -> BayesianGLMClassifier:
        """Go on with one more chunk of data.

        Under ``covariance="low-rank"`` the first rows (2,000, and of every class; as many as `stream_sample` allows)
        are fitted together whenever they have doubled, and then are gone: a later chunk ends at the mode under what
        earlier ones left, independent coefficients. Its cost is that of its entries, whatever D, but for copies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
        classes : array-like of shape (K,), default=None
            All labels that will come; needed in the first call.
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        BayesianGLMClassifier
            Itself.

        Raises
        ------
        ValueError
            First call without `classes`, or labels that the first call did not name.
        """
        check_low_rank(self, hasattr(self, "state_"))
        with self._all_or_nothing():
            self._fix_classes(classes)
            return self._partial_fit(X, y, sample_weight, offset)

    def _expose(self, model: Any, state: State, *rows: Any) -> None:
        super()._expose(model, state, *rows)
        self.coef_, self.coef_std_ = np.atleast_2d(self.coef_), np.atleast_2d(self.coef_std_)
        self.intercept_ = np.atleast_1d(self.intercept_)
