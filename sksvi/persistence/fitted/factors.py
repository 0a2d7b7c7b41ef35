"""Checks of fitted factor models: of ratings, of sparse factors, of counts and of covariances."""

from __future__ import annotations

import numpy as np

from sksvi.families import Point
from sksvi.families.base import Family
from sksvi.inference.memory.locals import Locals
from sksvi.persistence.fitted.shared import block_of, labels_of, of_size, shown
from sksvi.persistence.validator import Validator


def check_factorization(look: Validator) -> None:
    """Check ids, blocks of both sides, and the items that users have rated."""
    from sksvi.families import GaussianPlates

    choices = look.at("_record").at("choices").a(dict).value
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
        tables = look.at("_encoding").at("features")
        features = tables.a(dict).value.get(side)
        if features is not None:
            labels_of(tables.item(side).at("ids"))
        columns = 0 if features is None else features.values.shape[1]
        rows = len(block_of(look, f"{side}_mean").value.value)
        constant = side == "items" and bool(choices["biases"]) and not look.value.likelihood_.traits.ordered
        right = rows == columns + (constant or features is not None)
        block_of(look, f"{side}_mean").require(right, f"has {rows} coefficients for {columns} features")
    look.unless_none("seen_", lambda rated: _rated_items(rated, look))
    look.unless_none("_first_rows", lambda rows: _first_ratings(rows, look))
    look.at("_encoding").at("unit").number(above=0.0)
    look.at("_encoding").at("offset").number()


def _first_ratings(rows: Validator, look: Validator) -> None:
    """Check the ratings that a stream stores: positions of users and items, -1 where the id is missing."""
    pairs = rows.at("X").array((None, 2), least=-1.0)
    rows.at("X").require(np.all(pairs == np.floor(pairs)), "has positions that are no whole numbers")
    for side, column in zip(("users", "items"), pairs.T, strict=True):
        n = len(look.at(f"{side}_").value)
        rows.at("X").require(np.all(column < n), f"names other {side} than the {n} that the fit has")


def _rated_items(rated: Validator, look: Validator) -> int:
    """Check the items that each user has rated, which `recommend` leaves out; return their number."""
    starts, items = rated.sequence(2)
    users = len(look.at("users_").value)
    starts.array((users + 1,), "i", least=0)
    items.array((None,), "i", least=0, below=len(look.at("items_").value))
    right = starts.value[0] == 0 and starts.value[-1] == len(items.value) and np.all(np.diff(starts.value) >= 0)
    starts.require(right, "does not divide the ratings among users")
    return len(items.value)


def _sizes(look: Validator) -> tuple[int, int]:
    """The parameter n_components of the fit, and its number of columns."""
    return int(look.at("_record").at("choices").a(dict).value["n_components"]), look.at("n_features_in_").count(1)


def _shaped(look: Validator, name: str, shape: tuple[int, ...]) -> None:
    """Check that the mean of a block has this shape."""
    block = block_of(look, name)
    found = np.shape(block.a(Family).value.mean)
    block.require(found == shape, f"has shape {found}, not {shape}")


def check_beta_process(look: Validator) -> None:
    """Check features, draws, and the units of the columns."""
    k, d = _sizes(look)
    look.at("mean_").array((d,))
    look.at("scale_").number(above=0.0)
    encoding = look.at("_encoding")
    encoding.at("mean").array((d,))
    encoding.at("scale").number(above=0.0)
    encoding.at("wide").flag()
    noise = encoding.at("noise_size").count(1)
    encoding.at("noise_size").require(noise in (1, d), f"is {noise}, neither 1 nor {d}")
    features = block_of(look, "features")
    found = np.shape(features.value.mean)
    features.require(sorted(found) == sorted((k, d)), f"has shape {found}, not {(k, d)}")
    of_size(block_of(look, "probabilities"), k)
    of_size(block_of(look, "weight_precision"), 1)
    of_size(block_of(look, "noise_precision"), noise)
    order = look.at("_factors").at("order")
    n_used = len(order.array((None,), "i", least=0, below=k))
    order.require(len(set(order.value.tolist())) == n_used >= 1, "names a feature twice, or none")
    look.at("components_").array((n_used, d), "x")
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k))
    look.at("feature_probability_").array((n_used,), least=0.0)
    shown(look, "features", (n_used, d))
    shown(look, "probabilities", (n_used,))
    precision = look.at("noise_precision_")
    precision.array((d,), above=0.0) if isinstance(precision.value, np.ndarray) else precision.number(above=0.0)
    if look.at("_factors").has("draws"):
        draws = look.at("_factors").at("draws")
        draws.require(
            draws.a(dict).value.keys() >= {"features", "logit", "noise", "weight"}, "lacks a part of the draws"
        )
        n = len(draws.item("features").array((None, k, d)))
        draws.item("logit").array((n, k))
        draws.item("noise").array((n, noise), above=0.0)
        draws.item("weight").array((n,), above=0.0)


def check_gamma_process(look: Validator) -> None:
    """Check components, their weights and shares."""
    k, f = _sizes(look)
    look.at("prior_mean_").number(above=0.0)
    look.at("_encoding").at("mean").number(above=0.0)
    _shaped(look, "components", (k, f))
    _shaped(look, "weights", (k,))
    n_used = look.at("n_components_").count(1)
    look.at("n_components_").require(n_used <= k, f"is {n_used}, more than n_components={k}")
    look.at("components_").array((n_used, f), "x", least=0.0)
    for name in ("component_weights_", "component_shares_"):
        look.at(name).array((n_used,), least=0.0)
    shown(look, "components", (n_used, f))
    shown(look, "weights", (n_used,))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


def check_gamma_poisson(look: Validator) -> None:
    """Check components, their shares, and the rates of both priors."""
    _poisson_factors(look, *_sizes(look))
    look.at("_encoding").at("mean").number(above=0.0)


def check_poisson_pairs(look: Validator) -> None:
    """Check components, shares and rates of priors as `check_gamma_poisson`, and ids, users' factors and counts."""
    k, _ = _sizes(look)
    users, items = (labels_of(look.at(name)) for name in ("users_", "items_"))
    _poisson_factors(look, k, items)
    shown(look, "users", (users, k))
    rated = look.at("seen_")
    look.at("_seen_counts").array((0 if rated.value is None else _rated_items(rated, look),), above=0.0)
    for name in ("_n_rows", "_waiting", "_began_with"):
        look.at(name).number(least=0.0)
    look.at("_encoding").at("mean").number(above=0.0)
    look.at("_prior_shapes").array((2,), above=0.0)


def _poisson_factors(look: Validator, k: int, f: int) -> None:
    """Check the fitted attributes of a Poisson factorization with k components and f columns."""
    _shaped(look, "components", (k, f))
    for name in ("activation_rate_", "component_rate_"):
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
    """Check loadings, noise, units and the scatter of the rows."""
    from sksvi.models.gamma_factor.scatter import Scatter

    k, d = _sizes(look)
    _shaped(look, "loadings", (k, d))
    shown(look, "loadings", (k, d))
    look.at("components_").array((k, d), "x", least=0.0)
    for name in ("noise_variance_", "scale_"):
        look.at(name).array((d,), above=0.0)
    look.at("mean_").array((d,))
    look.at("_loadings_prior").array((2,), above=0.0)
    encoding = look.at("_encoding")
    encoding.at("scale").array((d,), above=0.0)
    scatter = encoding.at("scatter").a(Scatter)
    scatter.at("mean").array((d,))
    means = look.at("fit_mean_")
    means.require(not means.flag() or bool(scatter.value.centred), "is True of a scatter about 0")
    if "noise" in look.at("state_").at("q").value:
        noise = block_of(look, "noise").a(Point).value.value
        learned = 1 if look.at("noise_variance").value == "auto" else d
        block_of(look, "noise").require(noise.shape == (learned,), f"has shape {noise.shape}, not {(learned,)}")
