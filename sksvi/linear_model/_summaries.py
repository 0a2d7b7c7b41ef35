"""The table of a fitted linear model: coefficients or contrasts of classes, ratios, what else was learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi._names import own_name
from sksvi.estimators.summaries import COLUMNS, STEP, checked_reference, learned_rows, mixture_table, node_table
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.linear_model._contrasts import LevelContrasts, Question, answers
from sksvi.linear_model._integrated import likelihood_at, node_fits, prior_at
from sksvi.linear_model._prior import own_precision

Array = np.ndarray


def shown_coefficients(estimator: Any, coverage: float) -> tuple[list[Array], Array]:
    """Mean, std, lower and upper, (C, R) each, of the rows that `summary` has by default but the intercept.

    And (R,) their coefficients: of a categorical column a row belongs to the level that is compared.
    """
    table = effects_table(estimator, coverage, None, None, "reference", None)
    named = np.array(level_contrasts(estimator, "reference", None).named, int)
    width = len(named) + estimator.fit_intercept
    columns = [table[name].to_numpy(float).reshape(-1, width) for name in COLUMNS]
    return [column[:, : len(named)] for column in columns], named


def effects_table(
    estimator: Any,
    coverage: float,
    reference: Any,
    effects: str | None = "joint",
    contrasts: str = "none",
    reference_levels: Any = None,
) -> Any:
    """A summary's table of the coefficients."""
    import pandas as pd

    classes: Any = getattr(estimator, "classes_", None)
    view = estimator.posterior_["weights"]
    several = view.mean.ndim == 2
    own = own_precision(estimator, effects)
    maps, shown_classes = class_contrasts(estimator, reference, several, own is not None)
    levels = level_contrasts(estimator, contrasts, reference_levels)
    columns = estimator._column_names()
    question = Question(levels.plain, levels.factors, maps, estimator.fit_intercept, own)
    parts = [answers(question, part, precision) for part, precision in views_and_priors(estimator, view)]
    means, stds = np.array([m for m, _ in parts]), np.sqrt([v for _, v in parts])
    order = np.concatenate([levels.order, [question.n_rows - 1] * estimator.fit_intercept]).astype(int)
    names = [columns[j] for j in levels.named] + [own_name("intercept", columns)] * estimator.fit_intercept
    index = pd.Index(names, name="coefficient")
    if several:
        labels = [classes[k] for k in shown_classes]
        index = pd.MultiIndex.from_product([labels, names], names=["class", "coefficient"])
    weights = np.ones(1) if len(parts) == 1 else estimator._fitted.nodes.weights
    df = degrees_of_freedom(estimator) if len(parts) == 1 else None
    return mixture_table(means[..., order], stds[..., order], weights, coverage, index, df)


def joint_effects(estimator: Any, view: Any) -> tuple[Any, Array, Array, Callable[[Array], Array]]:
    """Index, means and deviations (C,) of the rows of a summary under the joint prior, and draws (S, C) of these.

    Those of the view of one node, the last function of draws of its weights. Of classes rows are less their mean: a
    shift of all is told apart by the prior alone.
    """
    index = effects_table(estimator, 0.9, None, "joint", "reference").index
    several, d = view.mean.ndim == 2, len(estimator._encoding.columns.scale)
    maps = class_contrasts(estimator, None, several, own=True)[0]
    levels = level_contrasts(estimator, "reference", None)
    question = Question(levels.plain, levels.factors, maps, estimator.fit_intercept, None)
    order = np.concatenate([levels.order, [question.n_rows - 1] * estimator.fit_intercept]).astype(int)
    mean, variance = (part[:, order].ravel() for part in answers(question, view, np.zeros(d)))
    matrix = levels.matrix(d, estimator.fit_intercept)

    def shown(weights: Array) -> Array:
        rows = weights.reshape(len(weights), -1, weights.shape[-1])
        rows = (rows.reshape(-1, rows.shape[-1]) @ matrix.T).reshape(*rows.shape[:2], -1)
        return (maps @ rows).reshape(len(weights), -1)

    return index, mean, np.sqrt(variance), shown


def views_and_priors(estimator: Any, view: Any) -> list[tuple[Any, Array]]:
    """The weights in the user's units and the precision of their prior, (D,), of every node that tables show.

    Under a flat prior beside Gaussian noise that is the fit itself: its t distribution is exact, nodes approximate it.
    """
    fits = node_fits(estimator)
    if isinstance(view, NodeMixture) and _least_squares(estimator):
        return [(view.view, prior_at(estimator, fits[0]))]
    views = view.components if isinstance(view, NodeMixture) else [view]
    return [(part, prior_at(estimator, fit)) for part, fit in zip(views, fits, strict=True)]


def _least_squares(estimator: Any) -> bool:
    """Whether a noise was learned beside coefficients under a flat prior, and nothing else."""
    alone = estimator._prior_kind == "flat" and set(estimator._fitted.places) <= {"likelihood"}
    return alone and estimator.likelihood_.noise_variance is not None


def degrees_of_freedom(estimator: Any) -> float | None:
    """Degrees of freedom of t quantiles where a noise was learned that tables show no nodes of; None: normal ones."""
    nodes = "likelihood" in estimator._fitted.places and not _least_squares(estimator)
    if estimator.likelihood_.noise_variance is None or nodes or "likelihood" not in estimator.state_.q:
        return None
    view, precision = views_and_priors(estimator, estimator.posterior_["weights"])[0]
    d, variance = len(estimator._encoding.columns.scale), view.variance
    if view.correlated_prior:  # off the subspace, where it is not, no data determine a thing
        precision, variance = view.inner.prior_precision, view.inner.inner.variance
        d = len(precision)
    determined = float(np.sum(np.maximum(1.0 - precision * variance[..., :d], 0.0)))
    return max(1.0, estimator.n_samples_seen_ - estimator.fit_intercept - determined)


def shown_reference(estimator: Any, reference: Any) -> Any:
    """The class that others are compared with: under a flat prior the first one where none is given."""
    several = estimator.likelihood_.n_latents > 1
    return estimator.classes_[0] if reference is None and several and estimator._prior_kind == "flat" else reference


def class_contrasts(estimator: Any, reference: Any, several: bool, own: bool) -> tuple[Array, list[int]]:
    """Rows (C, K) that make contrasts of classes, and the classes that rows are called by."""
    classes: Any = getattr(estimator, "classes_", None)
    if reference is not None:
        at = checked_reference(reference, classes, several, type(estimator).__name__)
        compared = [k for k in range(len(classes)) if k != at]
        return np.eye(len(classes))[compared] - np.eye(len(classes))[at], compared
    if not several:
        return np.ones((1, 1)), [0]
    k = len(classes)
    # A shift of all classes changes nothing: under weak priors only differences are known.
    return np.eye(k) - (1.0 / k if own else 0.0), list(range(k))


def level_contrasts(estimator: Any, contrasts: str, reference_levels: Any) -> LevelContrasts:
    """Which coefficients have rows, and contrasts of levels."""
    categories, d = estimator._encoding.categorical, len(estimator._encoding.columns.scale)
    if categories is None:
        if reference_levels:
            raise ValueError(f"reference_levels={reference_levels!r}: X has no categorical column.")
        return LevelContrasts.plain_columns(d)
    found = LevelContrasts.of(
        categories, estimator._names_of_columns(), contrasts, reference_levels, estimator._encoding.shares
    )
    return found.followed_by(categories.width, d - categories.width)


def scale_columns(estimator: Any, values: Array) -> dict[str, Any]:
    """Scales of coefficients and learned parameters of the likelihood at nodes, in the user's units, by name."""
    columns: dict[str, Any] = {}
    precision = estimator._fitted.values_of("prior_precision", values)
    if precision is not None:
        # On one standard deviation of a column, half of its spread; of a group for the columns as given.
        scales = np.exp(-0.5 * precision) / estimator._encoding.kind_spread
        alone = scales.shape[1] == 1 and estimator._encoding.groups is None
        names = ["coefficients"] if alone else estimator._kind_names()
        columns |= {f"scale({name})": scales[:, k] for k, name in enumerate(names)}
    return columns | likelihood_columns(estimator, values)


def likelihood_columns(estimator: Any, values: Array) -> dict[str, Any]:
    """Learned parameters of the likelihood at nodes, as tables show them; none where they are a point."""
    if "likelihood" not in estimator._fitted.places:
        return {}
    rows = [likelihood_at(estimator, h).reported for h in values]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def likelihood_tables(estimator: Any, coverage: float) -> list[Any]:
    """What a summary has below the coefficients."""
    columns = {} if estimator._fitted.nodes is None else likelihood_columns(estimator, estimator._fitted.nodes.values)
    if columns:
        within, weights = likelihood_within(estimator), estimator._fitted.nodes.weights
        if cut_points_have_nodes(estimator):
            shift, spread = intercept_at_nodes(estimator)
            columns = {name: values - shift for name, values in columns.items()}
            within = within + weights @ spread
        return [node_table(columns, weights, coverage, estimator.likelihood_.traits.positive, within)]
    return [learned_rows(estimator.likelihood_, estimator.state_.q.get("likelihood"), coverage)]


def cut_points_have_nodes(estimator: Any) -> bool:
    """Whether a summary has cut points less the intercept, in the place of both: rows tell their difference alone."""
    places, together = estimator._fitted.places, estimator.likelihood_.scales.collinear
    return bool(together and estimator.fit_intercept and "likelihood" in places)


def intercept_at_nodes(estimator: Any) -> tuple[Array, Array]:
    """Mean and variance of the intercept at every node, (k,) each."""
    at = len(estimator._encoding.columns.scale)
    views = [view for view, _ in views_and_priors(estimator, estimator.posterior_["weights"])]
    return np.array([view.mean[at] for view in views]), np.array([view.variance[at] for view in views])


def likelihood_within(estimator: Any) -> Array:
    """Variance of the learned parameters of the likelihood about the heaviest node, on the scale of tables."""
    nodes = estimator._fitted.nodes
    at = nodes.values[int(np.argmax(nodes.weights))]
    rows = likelihood_columns(estimator, np.vstack([at, at + STEP * np.eye(len(at))]))
    on = np.array([np.log(row) if estimator.likelihood_.traits.positive else row for row in rows.values()])
    slopes = (on[:, 1:] - on[:, :1]) / STEP
    return np.square(slopes) @ (np.zeros(len(at)) if nodes.within is None else nodes.within)
