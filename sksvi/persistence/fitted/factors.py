"""Fitted factors: of ratings, sparse ones, of counts and of covariances."""

from __future__ import annotations

import numpy as np

from sksvi.families import Point
from sksvi.families.base import Family
from sksvi.inference.memory.locals import Locals
from sksvi.persistence.fitted.shared import block_of, labels_of, of_size, shown
from sksvi.persistence.validator import Validator


def check_factorization(look: Validator) -> None:
    """Ids, blocks of both sides, and what has been rated."""
    from sksvi.families import GaussianPlates

    choices = look.at("_choices").a(dict).value
    size = int(choices["n_components"]) + bool(choices["biases"])
    for side in ("users", "items"):
        n = labels_of(look.at(f"{side}_"))
        block = block_of(look, side).a(GaussianPlates)
        found = block.value.mean.shape
        finished = look.at("state_").at("finished").flag()
        right = found[1] == size and (found[0] == n if finished else found[0] >= n)
        block.require(right, f"has shape {found}, not {(n, size)}")
        block_of(look, f"{side}_precision").at("value").array((size,))
        block_of(look, f"{side}_mean").at("value").array((None, size))
        features = look.at("_features").a(dict).value.get(f"{side[:-1]}_features")
        if features is not None:
            labels_of(look.at("_features").item(f"{side[:-1]}_features").at("ids"))
        columns = 0 if features is None else features.values.shape[1]
        rows = len(block_of(look, f"{side}_mean").value.value)
        constant = side == "items" and bool(choices["biases"]) and not look.value.likelihood_.ordered
        right = rows == columns + (constant or features is not None)
        block_of(look, f"{side}_mean").require(right, f"has {rows} coefficients for {columns} features")
    look.unless_none("seen_", lambda seen: _seen(seen, look))
    look.unless_none("_first_rows", lambda rows: _first_ratings(rows, look))
    look.at("_unit").number(above=0.0)
    look.at("_offset").number()


def _first_ratings(rows: Validator, look: Validator) -> None:
    """Ratings that a stream keeps: positions of users and items, -1 where the id is missing."""
    pairs = rows.at("X").array((None, 2), least=-1.0)
    rows.at("X").require(np.all(pairs == np.floor(pairs)), "has positions that are no whole numbers")
    for side, column in zip(("users", "items"), pairs.T, strict=True):
        n = len(look.at(f"{side}_").value)
        rows.at("X").require(np.all(column < n), f"names other {side} than the {n} that the fit has")


def _seen(seen: Validator, look: Validator) -> int:
    """Items of each user, as they are told for `recommend`; how many there are."""
    starts, items = seen.sequence(2)
    users = len(look.at("users_").value)
    starts.array((users + 1,), "i", least=0)
    items.array((None,), "i", least=0, below=len(look.at("items_").value))
    right = starts.value[0] == 0 and starts.value[-1] == len(items.value) and np.all(np.diff(starts.value) >= 0)
    starts.require(right, "does not divide the ratings among users")
    return len(items.value)


def _sizes(look: Validator) -> tuple[int, int]:
    """Components that the fit has room for, and columns."""
    return int(look.at("_choices").a(dict).value["n_components"]), look.at("n_features_in_").count(1)


def _shaped(look: Validator, name: str, shape: tuple[int, ...]) -> None:
    """A block whose mean has this shape."""
    block = block_of(look, name)
    found = np.shape(block.a(Family).value.mean)
    block.require(found == shape, f"has shape {found}, not {shape}")


def check_beta_process(look: Validator) -> None:
    """Features, draws, and the units of the columns."""
    k, d = _sizes(look)
    look.at("mean_").array((d,))
    look.at("scale_").number(above=0.0)
    noise = look.at("_noise_size").count(1)
    look.at("_noise_size").require(noise in (1, d), f"is {noise}, neither 1 nor {d}")
    if look.value.weight_precision == "auto":
        look.at("_wide").flag()
    features = block_of(look, "features")
    found = np.shape(features.value.mean)
    features.require(sorted(found) == sorted((k, d)), f"has shape {found}, not {(k, d)}")
    of_size(block_of(look, "probabilities"), k)
    of_size(block_of(look, "weight_precision"), 1)
    of_size(block_of(look, "noise_precision"), noise)
    kept = len(look.at("_order").array((None,), "i", least=0, below=k))
    look.at("_order").require(len(set(look.value._order.tolist())) == kept >= 1, "names a feature twice, or none")
    look.at("components_").array((kept, d), "x")
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k))
    look.at("feature_probability_").array((kept,), least=0.0)
    shown(look, "features", (kept, d))
    shown(look, "probabilities", (kept,))
    precision = look.at("noise_precision_")
    precision.array((d,), above=0.0) if isinstance(precision.value, np.ndarray) else precision.number(above=0.0)
    if look.has("_draws"):
        draws = look.at("_draws")
        draws.require(
            draws.a(dict).value.keys() >= {"features", "logit", "noise", "weight"}, "lacks a part of the draws"
        )
        n = len(draws.item("features").array((None, k, d)))
        draws.item("logit").array((n, k))
        draws.item("noise").array((n, noise), above=0.0)
        draws.item("weight").array((n,), above=0.0)


def check_gamma_process(look: Validator) -> None:
    """Components, their weights and shares."""
    k, f = _sizes(look)
    look.at("prior_mean_").number(above=0.0)
    _shaped(look, "components", (k, f))
    _shaped(look, "weights", (k,))
    kept = look.at("n_components_").count(1)
    look.at("n_components_").require(kept <= k, f"is {kept}, more than n_components={k}")
    look.at("components_").array((kept, f), "x", least=0.0)
    for name in ("component_weights_", "component_shares_"):
        look.at(name).array((kept,), least=0.0)
    shown(look, "components", (kept, f))
    shown(look, "weights", (kept,))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


def check_gamma_poisson(look: Validator) -> None:
    """Components, their shares, and the rates of both priors."""
    _poisson_factors(look, *_sizes(look))


def check_poisson_pairs(look: Validator) -> None:
    """The same, and ids, users' factors and counts."""
    k, _ = _sizes(look)
    users, items = (labels_of(look.at(name)) for name in ("users_", "items_"))
    _poisson_factors(look, k, items)
    shown(look, "users", (users, k))
    seen = look.at("seen_")
    look.at("_seen_counts").array((0 if seen.value is None else _seen(seen, look),), above=0.0)
    for name in ("_n_rows", "_waiting", "_began_with"):
        look.at(name).number(least=0.0)
    look.at("_prior_shapes").array((2,), above=0.0)


def _poisson_factors(look: Validator, k: int, f: int) -> None:
    """Of so many components and columns."""
    _shaped(look, "components", (k, f))
    for name in ("_first_mean", "activation_rate_", "component_rate_"):
        look.at(name).number(above=0.0)
    for name in ("activation_rate", "component_rate"):
        block_of(look, name).a(Point).at("value").array((1,))
    look.at("n_components_").require(look.at("n_components_").count(1) == k, f"is not n_components={k}")
    look.at("components_").array((k, f), "x", least=0.0)
    look.at("component_shares_").array((k,), least=0.0)
    shown(look, "components", (k, f))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals) and local.value.rule == "slopes of rows":  # of the bound without counts
        local.at("values").array((None, 2 * k))
    elif isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


def check_gamma_factors(look: Validator) -> None:
    """Loadings, noise, units and the scatter of the rows."""
    from sksvi.models.gamma_factor.scatter import Scatter

    k, d = _sizes(look)
    _shaped(look, "loadings", (k, d))
    shown(look, "loadings", (k, d))
    look.at("components_").array((k, d), "x", least=0.0)
    for name in ("noise_variance_", "scale_"):
        look.at(name).array((d,), above=0.0)
    look.at("mean_").array((d,))
    look.at("_loadings_prior").array((2,), above=0.0)
    scatter = look.at("_scatter").a(Scatter)
    scatter.at("mean").array((d,))
    means = look.at("fit_mean_")
    means.require(not means.flag() or bool(scatter.value.centred), "is True of a scatter about 0")
    if "noise" in look.at("state_").at("q").value:
        noise = block_of(look, "noise").a(Point).value.value
        learned = 1 if look.at("noise_variance").value == "auto" else d
        block_of(look, "noise").require(noise.shape == (learned,), f"has shape {noise.shape}, not {(learned,)}")
