"""Mixed-effects classification of two classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sksvi import likelihoods
from sksvi._typing.arrays import ArrayLike, ClassWeight, Columns, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.classification import CLASS_WEIGHT, ClassificationMethods
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.linear_model import BayesianGLMClassifier
from sksvi.mixed_effects._base import MixedEffects
from sksvi.mixed_effects._included import including


@with_own_methods
class GMEClassifier(MixedEffects, BayesianGLMClassifier):
    """Bayesian generalized linear mixed-effects classification of two classes.

    p(y|f) = σ(±f) with f = Xw + b + Σ_g u_g[level] + noise + offset: u_g ~ N(0, s_g²) for each level of a grouping
    column, noise ~ N(0, w2) for each datum, q(w, u) Gaussian, q(w2) Rayleigh (Sheth and Khardon 2016, section 4.1).

    Parameters
    ----------
    likelihood : {"logit", "probit"} or instance, default="logit"
    bound : {"auto", "optimal", "simple", "mean-field"}, default="auto"
        Which bound q maximises (equations in the user guide). "auto": "optimal", with ``algorithm="cvi"`` "mean-field".
    noise : "auto" or bool, default="auto"
        Whether each datum has Gaussian noise of variance w2 in f. False: group effects alone. "auto" is False for
        labels: one label per row says nothing about noise per row, which takes long to integrate and is all prior.
    noise_prior_scale : "auto" or float, default="auto"
        "auto": √w2 has the half-Student-t prior of standard deviations between levels. A number: the scale (mode) of a
        Rayleigh prior of w2, 5 in the paper; few trials or rows leave w2 near such a mode.
    groups : str, int or list of them, default=None
        Names or indices of categorical columns of X: each of their levels has a Gaussian effect. Levels may be strings
        or numbers; a row without a level gets an effect of its own in a fit, a level's whole spread in a prediction.
        "school/class" is nested: groups ``school``, and ``school:class``, whose levels are those of class within each
        school; "school:class" the second alone.
    random_slopes : str, int, list of them or mapping, default=None
        Columns of X whose slope varies between levels, for every group, or by group ``{group: columns}``. Of a
        categorical column the differences of its levels from the first vary.
    random_intercepts : bool, str, int or list of them, default=True
        Whether the levels of all groups have an intercept, or the groups whose levels have one; those of others have
        slopes alone, which lme4 writes ``(0 + x | g)``.
    correlated : bool, default=True
        Whether the intercept and slopes of a level are correlated a priori: standard deviations and correlations are
        learned, under a prior of correlations that is wide about 0 (LKJ with shape 2) where columns are 0, or at their
        means if these are more than 2 standard deviations from 0. False: they are independent where columns are 0, each
        with its own standard deviation. Of a group without slopes nothing changes.
    on_unseen : {"warn", "ignore", "error"}, default="warn"
        What is said of levels to be predicted that the fit did not have. "warn": a warning, with levels of both sides,
        where a column has several and none of them is known, or one of another type than all of the fit ("501" where
        that had 501); single new levels are ordinary. "error": any of them is refused. Rows without a level are never
        told of. Of categorical columns beside groups "warn" tells every level that is new.
    prior_precision : {"auto", "ard", "flat"}, float, array-like of shape (D,) or mapping, default="auto"
        Precision (1/variance) of the zero-mean Gaussian prior of the coefficients. "auto" learns one for all columns
        that vary within levels and one for those that every level of a group fixes, each under a half-Cauchy prior of
        the spread that they together give f; "ard" learns one
        per coefficient by the bound alone. Both are for columns on a scale of their own, the distance of the two values
        of a column that has two, else two standard deviations, so that units do not matter; `summary` then answers for
        each effect under a weak prior of its own. "flat" or 0: no information, for data that determine every
        coefficient. Numbers are for the columns as given, one of an array for all levels of a categorical column.
        A mapping, as {"age_s*": "auto", "dose": 4.0}, has a precision for each group of columns, as in
        `BayesianGLMRegressor`, of smooths beside `groups` say; columns without a key are as under "auto".
    prior : dict or None, default=None
        Priors by name, beside ``prior_precision="auto"``: ``{"age": Normal(0.5, 0.2), "site_*": Normal(0, 1)}``. Keys
        are coefficients as `summary` names them, columns (of a categorical one all levels), patterns of
        :mod:`fnmatch`, or positions; the closest one counts, of patterns the first. Values are
        :class:`sksvi.priors.Normal` and :class:`sksvi.priors.StudentT` in the units of the column,
        :class:`sksvi.priors.Horseshoe`, "flat", or "auto", as columns without a key.
        ``"intercept"`` is f at 0 of all columns, which are not centred then.
    intercept_precision : "auto" or float, default="auto"
        Prior precision of the intercept, about 0. "auto": at the columns' means the prior is centred where the
        intercept alone would be, with a standard deviation of 10 times that of a measured target, behind a link of 10;
        sparse columns count as centred at 0.
    fit_intercept : bool, default=True
    hyperparameters : {"integrated", "point"}, default="integrated"
        Whether scales of coefficients and of levels, and what the likelihood learns (noise, dispersion, degrees of
        freedom; no cut points), have a posterior: a few nodes, over which tables, predictions, draws and `lower_bound_`
        are mixtures. "point": all is given the values where the bound is largest. Nodes of parameters of a likelihood
        that is not Gaussian need all rows, 20,000 at most: of streams they are a point.
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
    algorithm : {"auto", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi", "fp"} or instance, default="auto"
        How q is fitted; see :mod:`sksvi.algorithms`. "auto": `fit` takes "mc-ssvi", `partial_fit` "cvi", which absorbs
        what each chunk says where the others take a step for it.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How the expectations over f are integrated; "monte-carlo" draws 10 outer and 100 inner samples.
    covariance : {"full", "diag"}, default="full"
        Of the Gaussian q over coefficients and group effects together.
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
    classes_ : ndarray of shape (2,)
    coef_, coef_std_ : ndarray of shape (1, D)
        Means and standard deviations of the joint posterior, by which the fit predicts, of the columns that are no
        grouping column. What the data say of one effect is in ``summary``.
    intercept_ : ndarray of shape (1,)
    noise_scale_, noise_variance_ : float
        Scale of the Rayleigh q(w2), and E w2; 0 without noise.
    group_effects_ : DataFrame
        mean, std, lower, upper (90 %) of each effect, by group, level and effect; with ``groups``.
    group_std_ : DataFrame
        Posterior mean and std of each standard deviation between levels, by group and effect; with ``groups``.
    group_covariance_ : DataFrame
        Posterior mean of the covariance of the effects of a level, by group and effect, a column an effect; with
        ``groups``.
    prior_precision_ : float or ndarray of shape (D,)
        The precision used, for the columns as given: a fixed number, or one per coefficient.
    prior_power_ : int
        Without groups, as of the linear models; 0 with groups.
    likelihood_ : Likelihood
        The fitted likelihood, its learned scales as numbers.
    posterior_ : mapping
        ``posterior_["weights"]`` (the intercept last), ``["noise"]``, ``["groups"]``: ``mean``, ``std``, ``cov``,
        ``sample``.
    lower_bound_, lower_bounds_ : float, ndarray
        Log evidence with hyperparameters integrated, and the bound on it at their best values per pass, nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray
        Of X with its grouping columns.

    See Also
    --------
    GMERegressor : The same for measured, counted and ordered targets.
    BayesianGLMClassifier : Without noise and groups; any number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi import GMEClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"x": rng.standard_normal(300), "rater": np.tile(list("abcdefghij"), 30)})
    >>> y = np.where(X["x"] + rng.logistic(size=300) > 0, "yes", "no")
    >>> model = GMEClassifier(groups="rater").fit(X, y)
    >>> len(model.group_effects_)
    10
    """

    _binary_only = True
    _parameter_constraints: dict[str, list[Any]] = {
        **MixedEffects._parameter_constraints,
        "likelihood": [StrOptions({"logit", "bernoulli", "probit"}), likelihoods.Likelihood],
        "class_weight": CLASS_WEIGHT,
    }
    _changes = {**MixedEffects._changes, "class_weight": UNCHECKED}
    predict = including(ClassificationMethods.predict)
    predict_proba = including(ClassificationMethods.predict_proba)
    predict_log_proba = including(ClassificationMethods.predict_log_proba)
    decision_function = including(ClassificationMethods.decision_function)
    log_predictive_density = including(ClassificationMethods.log_predictive_density)

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "logit",
        bound: str = "auto",
        noise: bool | str = "auto",
        noise_prior_scale: float | str = "auto",
        groups: Columns | None = None,
        random_slopes: Columns | Mapping[Any, Columns] | None = None,
        random_intercepts: bool | Columns = True,
        correlated: bool = True,
        on_unseen: str = "warn",
        prior_precision: float | str | ArrayLike | Mapping[str | int, float | str] = "auto",
        prior: dict[Any, Any] | None = None,
        intercept_precision: float | str = "auto",
        fit_intercept: bool = True,
        hyperparameters: str = "integrated",
        categorical_features: str | ArrayLike | None = "from_dtype",
        class_weight: ClassWeight = None,
        algorithm: AlgorithmLike = "auto",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
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
        super().__init__(
            likelihood=likelihood,
            prior_precision=prior_precision,
            prior=prior,
            intercept_precision=intercept_precision,
            fit_intercept=fit_intercept,
            hyperparameters=hyperparameters,
            categorical_features=categorical_features,
            class_weight=class_weight,
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
        self.bound = bound
        self.noise = noise
        self.noise_prior_scale = noise_prior_scale
        self.groups = groups
        self.random_slopes = random_slopes
        self.random_intercepts = random_intercepts
        self.correlated = correlated
        self.on_unseen = on_unseen
