"""Checks of fitted linear and mixed models."""

from __future__ import annotations

import numpy as np

from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.persistence.fitted.shared import block_of, labels_of, latents_of, of_size, sampled, shown
from sksvi.persistence.validator import Validator


def check_linear(look: Validator) -> None:
    """Check the coefficients of a GLM."""
    _coefficients(look, _columns(look, look.at("n_features_in_").count(1)), 0, True)


def _columns(look: Validator, d: int) -> int:
    """Number of coefficients of d columns, of which some may be categorical."""
    if not look.has("_categories"):
        return d
    own = look.at("_categories")
    own.require(type(own.value).__name__ == "CategoricalColumns", "says nothing of categorical columns")
    own.at("n_columns").require(own.value.n_columns == d, f"is {own.value.n_columns}, not {d}")
    return int(own.value.width)


def check_mixed(look: Validator) -> None:
    """Check the coefficients, levels and effects of a mixed model."""
    features = look.at("n_features_in_").count(1)
    if not look.has("_factors"):
        _coefficients(look, _columns(look, features), 0, True)
        return
    factors = [factor.count() for factor in look.at("_factors").sequence()]
    right = len(set(factors)) == len(factors) >= 1 and max(factors) < features
    look.at("_factors").require(right, "names no columns of X")
    fixed, n = _columns(look, features - len(factors)), len(factors)
    sizes, effects = [], []
    for levels, size, slopes, scales in zip(
        look.at("_levels").sequence(n),
        look.at("_sizes").sequence(n),
        look.at("_slopes").sequence(n),
        look.at("_slope_scales").sequence(n),
        strict=True,
    ):
        size.require(size.count() >= labels_of(levels), f"is {size.value}, fewer than the levels that have names")
        names, columns = slopes.sequence(2)
        for column in columns.sequence(len(names.value)):
            column.require(column.count() < fixed, "is no column")
        scales.array((1 + len(names.value),), above=0.0)
        sizes.append(size.value)
        effects.append(1 + len(names.value))
    total = int(np.dot(sizes, effects))
    _coefficients(look, fixed, total, False)
    shown(look, "groups", (total,))
    look.at("_log_scales").at("nodes").array((None, sum(effects)))
    of_size(block_of(look, "group_std"), sum(effects))
    look.unless_none("_constant", lambda constant: constant.array((n, fixed), "b"))


def _coefficients(look: Validator, d: int, more: int, plain: bool) -> None:
    """Check the coefficients of d columns, with `more` effects in their block; `plain`: several classes may occur."""
    extra = int(bool(look.at("_record").at("choices").a(dict).value.get("fit_intercept", True)))
    classes = latents_of(look) if plain else 1
    per_class = (d,) if classes == 1 else (classes, d)
    inner = d
    if look.has("_subspace"):
        scale, basis = look.at("_subspace").sequence(2)
        scale.array((d,), above=0.0)
        inner = basis.array((d, None)).shape[1]
    of_size(block_of(look, "weights"), classes * (inner + more + extra))
    shown(look, "weights", (*per_class[:-1], d + extra))
    look.unless_none("_nodes", lambda nodes: _hyperparameters(look, nodes))
    look.at("_columns").at("scale").array((d,))
    for name in ("coef_", "coef_std_"):
        value = look.at(name).array(kind="x", least=0.0 if name == "coef_std_" else None)
        right = value.shape in (per_class, (1, d) if classes == 1 else per_class)
        look.at(name).require(right, f"has shape {value.shape}, not {per_class}")
    intercept = look.at("intercept_")
    if isinstance(intercept.value, np.ndarray):
        intercept.array((classes,), "x")
    else:
        intercept.require(classes == 1, "is one number for several classes").number()
    sampled(look, d)
    precision = look.at("prior_precision_")
    if isinstance(precision.value, np.ndarray):
        precision.array((d,), least=0.0)
    else:
        precision.number(least=0.0)
    look.unless_none("_spreads", lambda spreads: spreads.array((d,), least=0.0))
    mean, width_of = look.at("_intercept_prior").sequence(2)
    mean.number()
    width_of.number(least=0.0)
    look.at("_unit").number(above=0.0)


def _hyperparameters(look: Validator, nodes: Validator) -> None:
    """Check the nodes of hyperparameters: a value for each coordinate, and a block of weights for each node."""
    end = 0
    places = look.at("_places").a(dict)
    for name, place in zip(places.value, places.mapping(), strict=True):
        start, stop = (part.count() for part in place.sequence(2))
        size = np.size(block_of(look, name).value.mean)
        place.require((start, stop) == (end, end + size), f"is {[start, stop]}, not {[end, end + size]}")
        end = stop
    k = len(nodes.at("values").array((None, end)))
    for view in look.at("posterior_").at("_blocks").mapping():
        if isinstance(view.value, NodeMixture):
            view.at("node_blocks").at("weights").array((k,))
