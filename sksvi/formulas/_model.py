"""A model from a formula: its columns and an estimator in one pipeline, which finds response and offset itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._typing.arrays import ArrayLike, DataFrame, PathLike, PerRow, Series
from sksvi._typing.parameters import LikelihoodLike
from sksvi.estimators.checks import check_flag
from sksvi.formulas._design import FormulaTransformer, frame_of
from sksvi.formulas._expressions import INTERCEPT
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.mixed_effects import GMEClassifier, GMERegressor

#: Classes of estimators by whether y is a label, and whether levels have effects.
ESTIMATORS: dict[tuple[bool, bool], Any] = {
    (False, False): BayesianGLMRegressor,
    (False, True): GMERegressor,
    (True, False): BayesianGLMClassifier,
    (True, True): GMEClassifier,
}
#: Parameters that a formula sets, and how it says so.
IN_FORMULA = {
    "groups": "(1 | g)",
    "random_slopes": "(1 + x | g)",
    "random_intercepts": "(0 + x | g)",
    "correlated": "(1 + x | g), or (1 + x || g) without correlations",
    "fit_intercept": "0 + x",
}


def from_formula(
    formula: str,
    data: DataFrame,
    likelihood: LikelihoodLike = "gaussian",
    *,
    maps: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> FormulaModel:
    """Model of a frame, to be fitted, from a formula in the notation of R's lme4 and mgcv.

    Parameters
    ----------
    formula : str
        Response, ~, and terms: columns, ``x * z``, ``C(z)``, ``log(x)``, ``poly(x, 2)`` and all that formulaic knows;
        ``s(x)``, ``s(x, by=z, k=20)``: smooths of `SmoothTransformer`, each with a scale of its own; ``ti(x, z)``: the
        interaction of two, ``te(x, z)``: s(x) + s(z) + ti(x, z);
        ``gp(x, z, length_scale=0.5)``: processes of `HilbertGPTransformer`, likewise; ``mrf(district, k=30)``: effects
        of areas that resemble their neighbours on the map of `maps`, those of `Neighbours`, with a scale of their own,
        beside which ``(1 | district)`` are effects that do not; ``(1 | g)``,
        ``(1 + x | g)``, ``(0 + x | g)``, ``(1 + x || g)`` (which is ``(1 | g) + (0 + x | g)``), ``(1 | g1/g2)``,
        ``(1 | g1:g2)``: effects of levels; ``offset(log(n))``. Responses besides
        columns and expressions are ``cbind(successes, failures)``, ``cbind(a, b, c)`` (with "multinomial") and
        ``Surv(time, event)``.
    data : DataFrame
        Rows with the columns and levels of those to be fitted. Nothing is fitted yet.
    likelihood : str or instance, default="gaussian"
        As of `BayesianGLMRegressor` or, for labels ("logit", "probit", "softmax"), of `BayesianGLMClassifier`.
    maps : dict or None, default=None
        Of each column in an ``mrf()`` its map, as `Neighbours` takes it: a frame of weights, or a dict of each area to
        the list of its neighbours. It is one connected map.
    **parameters : dict
        Other parameters of the estimator, which is `GMERegressor` or `GMEClassifier` where levels have effects.

    Returns
    -------
    FormulaModel
        Unfitted: ``fit(data)``, then ``predict(new)``, ``predict_interval(new)``, ``summary()``; ``model[-1]`` is the
        estimator.

    Raises
    ------
    ImportError
        Without formulaic.
    ValueError
        Naming the term that is not understood, a name that is no column, or a parameter that the formula sets.

    Warns
    -----
    UserWarning
        Where ``(1 + z || g)`` of a categorical column has independent effects, and in lme4 correlated ones; of
        interactions and powers of a column whose values are far from 0, such as years.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import sksvi
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame({"x": rng.normal(size=200), "site": rng.choice(list("abcdefgh"), 200), "n": 10.0})
    >>> data["y"] = rng.poisson(10.0 * np.exp(0.5 * data["x"] - 1.0))
    >>> model = sksvi.from_formula("y ~ x + (1 | site) + offset(log(n))", data, likelihood="poisson").fit(data)
    >>> list(model.summary().index)
    ['x', 'intercept', 'std(site, intercept)', 'noise variance']
    >>> bool(abs(model[-1].coef_[0] - 0.5) < 4 * model[-1].coef_std_[0])
    True
    """
    for name in sorted(set(parameters) & set(IN_FORMULA)):
        raise ValueError(f"{name}={parameters[name]!r}: the formula says it, as {IN_FORMULA[name]}; leave it out.")
    design = FormulaTransformer(formula, maps).fit(data)
    if design.terms_.response is not None:
        design.response(data)
    design.offset_of(data)
    has_groups = bool(design.effects_)
    chosen: dict[str, Any] = {"fit_intercept": design.has_intercept, **parameters}
    if has_groups:
        effects = design.effects_
        slopes = {name: [one for one in own if one != INTERCEPT] for name, own in effects.items()}
        slopes = {name: columns for name, columns in slopes.items() if columns}
        intercepts = [name for name, own in effects.items() if INTERCEPT in own]
        chosen |= {"groups": list(effects), "random_slopes": slopes or None}
        chosen |= {"random_intercepts": intercepts} if len(intercepts) < len(effects) else {}
        chosen |= {"correlated": design.correlated_} if slopes else {}
    precision = parameters.get("prior_precision", {})
    if design.smooth_keys and isinstance(precision, Mapping):
        chosen["prior_precision"] = {**precision, **{key: "auto" for key in design.smooth_keys if key not in precision}}
    _tell_of_levels_apart(design)
    _tell_of_products(design, data)
    estimator = ESTIMATORS[_is_for_labels(likelihood), has_groups](likelihood=likelihood, **chosen)
    return FormulaModel([("design", FormulaTransformer(formula, maps)), ("model", estimator)])


def _tell_of_levels_apart(design: FormulaTransformer) -> None:
    """Warn of effects of categorical columns that are independent, where lme4's are not."""
    for group, effects in design.effects_.items():
        apart = [] if design.correlated_ or len(effects) < 2 else [name for name in effects if name.endswith("]")]
        if apart:
            warnings.warn(
                f"effects of the levels of {group!r} on {apart[0]} and others are independent, as brms has them; lme4 "
                "has correlated effects of all levels of a categorical column there. Write | for correlated ones.",
                stacklevel=3,
            )


def _tell_of_products(design: FormulaTransformer, data: DataFrame) -> None:
    """Warn of interactions and powers of columns far from 0, whose own part in the rows the prior cannot tell."""
    for term, name, off in design.fixed_.far_from_zero(frame_of(data)):
        warnings.warn(
            f"term {term!r} of the formula: values of {name!r} are {off:.0f} standard deviations from 0, so that its "
            "column is nearly a multiple of others, and the prior, which goes by how far a column spreads, draws its "
            f"coefficient to zero. Write center({name}) for {name} in all terms: those without it are then effects at "
            f"the mean of {name}.",
            stacklevel=3,
        )


def _is_for_labels(likelihood: Any) -> bool:
    if isinstance(likelihood, str) and likelihood in ("softmax", "multinomial"):
        return True
    spec = likelihoods.resolve(likelihood)
    return bool(spec.traits.classifies or spec.n_latents > 1)


def _of_estimator(name: str, needs_y: bool = False) -> Callable[..., Any]:
    """A method of rows that the estimator answers, with the columns and the offset that the formula makes of them."""

    def answer(
        self: Any, X: DataFrame, *args: object, **kwargs: Any
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray] | float:
        check_is_fitted(self)
        if needs_y and not args and kwargs.get("y") is None:
            kwargs["y"] = self.response(X)
        return getattr(self[-1], name)(self[0].transform(X), *args, **self._with_offset(X, kwargs))

    answer.__name__ = name
    answer.__doc__ = f"""`{name}` of the estimator, for the rows of a frame.

        Parameters
        ----------
        X : DataFrame
            With the columns that the formula names; the offset that it has is added.
        *args, **kwargs
            As `{name}` of the estimator takes them{"; y is that of the formula where it is left out" * needs_y}.

        Returns
        -------
        As of the estimator.
        """
    return available_if(lambda self: hasattr(self.steps[-1][1], name))(answer)


class FormulaModel(Pipeline):
    """Pipeline of a `FormulaTransformer` and an estimator, whose rows are those of a frame with the response.

    What it is made by is :func:`sksvi.formulas.from_formula`. It goes wherever a pipeline does: through searches and
    cross-validation and the functions of :mod:`sksvi.inspection`. `sksvi.save` writes all of it, without pickle: the
    formula, levels, knots and centres of its columns, and the estimator.

    Parameters
    ----------
    steps : list of (str, estimator)
        A `FormulaTransformer` and an estimator of this package.
    transform_input : list of str, default=None
        As of scikit-learn's Pipeline, like the next two.
    memory : str or object, default=None
    verbose : bool, default=False

    Examples
    --------
    >>> import pandas as pd
    >>> import sksvi
    >>> data = pd.DataFrame({"y": [1.0, 2.1, 2.9, 4.2, 5.0, 6.1], "x": range(6)})
    >>> model = sksvi.from_formula("y ~ x", data).fit(data)
    >>> model.predict(data[:1]).round(0), model[-1].coef_.round(1)
    (array([1.]), array([1.]))
    """

    LAYOUT = ""
    PARAMETER_LAYOUT = """
        steps items 2 where self.memory is None
        steps[0][1] FormulaTransformer; steps[1][1] BayesianGLM
    """
    predict = _of_estimator("predict")
    predict_proba = _of_estimator("predict_proba")
    predict_log_proba = _of_estimator("predict_log_proba")
    decision_function = _of_estimator("decision_function")
    predict_latent = _of_estimator("predict_latent")
    predict_quantiles = _of_estimator("predict_quantiles")
    predict_interval = _of_estimator("predict_interval")
    predict_median = _of_estimator("predict_median")
    predict_survival = _of_estimator("predict_survival")
    sample_y = _of_estimator("sample_y")
    sample_prior = _of_estimator("sample_prior")
    log_predictive_density = _of_estimator("log_predictive_density", needs_y=True)
    to_arviz = _of_estimator("to_arviz", needs_y=True)
    score = _of_estimator("score", needs_y=True)

    def fit(self, X: DataFrame, y: PerRow | None = None, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the model to the rows of a frame.

        Parameters
        ----------
        X : DataFrame
            With the columns that the formula names.
        y : array-like, default=None
            The response; None: that of the formula.
        sample_weight : array-like of shape (n,), default=None
        **params : dict
            As Pipeline takes them, ``model__offset=...`` beside that of the formula.

        Returns
        -------
        FormulaModel
            Itself.
        """
        beside = self._with_offset(X, {"offset": params.pop("model__offset", None)})
        if sample_weight is not None:
            params |= {"design__sample_weight": sample_weight, "model__sample_weight": sample_weight}
        params |= {f"model__{name}": value for name, value in beside.items()}
        super().fit(X, self.response(X) if y is None else y, **params)
        return self

    @available_if(lambda self: hasattr(self.steps[-1][1], "partial_fit"))
    def partial_fit(
        self, X: DataFrame, y: PerRow | None = None, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Go on with one more chunk of rows; the first one fixes levels, contrasts and bends.

        Parameters
        ----------
        X : DataFrame
        y : array-like, default=None
            The response; None: that of the formula.
        sample_weight : array-like of shape (n,), default=None
        **params : dict
            Others of the estimator's `partial_fit`, such as ``classes``.

        Returns
        -------
        FormulaModel
            Itself.
        """
        design, model = self[0], self[-1]
        y = self.response(X) if y is None else y
        fresh = not hasattr(design, "spec_")
        rows = design.fit_transform(X, y, sample_weight=sample_weight) if fresh else design.transform(X)
        model.partial_fit(rows, y, sample_weight=sample_weight, **self._with_offset(X, params))
        return self

    def response(self, X: DataFrame) -> DataFrame | Series:
        """What stands left of the ~, for the rows of a frame.

        Parameters
        ----------
        X : DataFrame

        Returns
        -------
        Series, or DataFrame
            As `FormulaTransformer.response`.
        """
        return self[0].response(X)

    def offset_of(self, X: DataFrame) -> PerRow | None:
        """Sum of the offsets of the formula, (n,); None where it has none.

        Parameters
        ----------
        X : DataFrame
        """
        return self[0].offset_of(X)

    def summary(self, **options: Any) -> DataFrame:
        """Table of the estimator, rows named as the formula names them.

        Parameters
        ----------
        **options : dict
            Of its ``summary``, such as ``coverage=0.9``.

        Returns
        -------
        DataFrame
        """
        check_is_fitted(self)
        return self[-1].summary(**options)

    def save(self, path: PathLike, training_rows: bool = True) -> None:
        """Write the model to `path`; ``sksvi.load`` reads it back, and it predicts the same bits.

        Parameters
        ----------
        path : str or path-like
        training_rows : bool, default=True
            Whether the file has what belongs to single training rows.

        Raises
        ------
        OSError
            Where no file can be made at `path`.
        TypeError
            For a formula whose expressions are more than arithmetic of columns and functions of formulaic, which would
            be code; or another estimator.
        ValueError
            ``training_rows=False`` of a fit that was cut off.
        """
        from sksvi.persistence import save

        save(self, path, check_flag(training_rows, "training_rows"))

    def _without_rows(self) -> FormulaModel:
        """Copy whose estimator has nothing that belongs to single training rows."""
        bare = copy.copy(self)
        bare.steps = [self.steps[0], (self.steps[1][0], self.steps[1][1]._without_rows())]
        return bare

    def _with_offset(self, X: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a method of rows, the offset of the formula added to one that is given."""
        own, given = self.offset_of(X), options.get("offset")
        total = own if given is None else given if own is None else own + given
        others = {name: value for name, value in options.items() if name != "offset"}
        return others if total is None else {**others, "offset": total}
