"""Checks of fitted linear and mixed models."""

from __future__ import annotations

import numpy as np

from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.persistence.fitted.shared import block_of, labels_of, latents_of, of_size, sampled, shown
from sksvi.persistence.validator import Validator


def check_linear(look: Validator) -> None:
    """Check the coefficients of a GLM."""
    _coefficients(look, _columns(look, look.at("n_features_in_").count(1)), 0, True)


def _named(look: Validator, name: str) -> Validator:
    """Check that the value is of the class of this name; return its validator."""
    return look.require(type(look.value).__name__ == name, f"is a {type(look.value).__name__}, not a {name}")


def _columns(look: Validator, d: int) -> int:
    """Number of coefficients of d columns, of which some may be categorical."""
    encoding = look.at("_encoding")
    if not encoding.has("categorical"):
        return d
    own = _named(encoding.at("categorical"), "CategoricalColumns")
    own.at("n_columns").require(own.value.n_columns == d, f"is {own.value.n_columns}, not {d}")
    return int(own.value.width)


def check_mixed(look: Validator) -> None:
    """Check the coefficients, levels and effects of a mixed model."""
    features, encoding = look.at("n_features_in_").count(1), _named(look.at("_encoding"), "GroupedEncoding")
    factors = list(encoding.at("factors").items())
    if not factors:
        _coefficients(look, _columns(look, features), 0, True)
        return
    columns, n = [_named(factor, "Factor").at("column").count() for factor in factors], len(factors)
    right = len(set(columns)) == n and max(columns) < features
    encoding.at("factors").require(right, "names no columns of X")
    fixed = _columns(look, features - n)
    sizes, effects = [], []
    for factor, scales in zip(factors, encoding.at("slope_scales").sequence(n), strict=True):
        size, names = factor.at("size"), factor.at("slopes").a(list).value
        size.require(size.count() >= labels_of(factor.at("names")), f"is {size.value}, fewer than its names")
        for column in factor.at("at").sequence(len(names)):
            column.require(column.count() < fixed, "is no column")
        scales.array((1 + len(names),), above=0.0)
        sizes.append(size.value)
        effects.append(1 + len(names))
    total = int(np.dot(sizes, effects))
    _coefficients(look, fixed, total, False)
    shown(look, "groups", (total,))
    look.at("_fitted").at("group_scales").at("nodes").array((None, sum(effects)))
    of_size(block_of(look, "group_std"), sum(effects))
    encoding.at("constant").array((n, fixed), "b")
    encoding.unless_none("kinds_before", lambda kinds: kinds.array((fixed,), "i"))


def _coefficients(look: Validator, d: int, more: int, plain: bool) -> None:
    """Check the coefficients of d columns, with `more` effects in their block; `plain`: several classes may occur."""
    extra = int(bool(look.at("_record").at("choices").a(dict).value.get("fit_intercept", True)))
    classes = latents_of(look) if plain else 1
    per_class = (d,) if classes == 1 else (classes, d)
    inner = d
    encoding, fitted = look.at("_encoding"), _named(look.at("_fitted"), "FittedWeights")
    if fitted.has("subspace"):
        scale, basis = fitted.at("subspace").sequence(2)
        scale.array((d,), above=0.0)
        inner = basis.array((d, None)).shape[1]
    of_size(block_of(look, "weights"), classes * (inner + more + extra))
    shown(look, "weights", (*per_class[:-1], d + extra))
    fitted.unless_none("nodes", lambda nodes: _hyperparameters(look, nodes))
    encoding.at("columns").at("scale").array((d,))
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
    for name in ("spreads", "relative_scale_before"):
        encoding.unless_none(name, lambda values: values.array((d,), least=0.0))
    prior = _named(encoding.at("prior"), "LinearPrior")
    mean, width_of = prior.at("intercept").sequence(2)
    mean.number()
    width_of.number(least=0.0)
    prior.at("unit").number(above=0.0)
    prior.at("weight").number(least=0.0)
    prior.at("totals").array((None,), least=0.0)


def _hyperparameters(look: Validator, nodes: Validator) -> None:
    """Check the nodes of hyperparameters: a value for each coordinate, and a block of weights for each node."""
    end = 0
    places = look.at("_fitted").at("places").a(dict)
    for name, place in zip(places.value, places.mapping(), strict=True):
        start, stop = (part.count() for part in place.sequence(2))
        size = np.size(block_of(look, name).value.mean)
        place.require((start, stop) == (end, end + size), f"is {[start, stop]}, not {[end, end + size]}")
        end = stop
    k = len(nodes.at("values").array((None, end)))
    for view in look.at("posterior_").at("_blocks").mapping():
        if isinstance(view.value, NodeMixture):
            view.at("node_blocks").at("weights").array((k,))
