"""Checks of fitted factor models: of ratings, of sparse factors, of counts and of covariances."""

from __future__ import annotations

import numpy as np

from sksvi.persistence.fitted.shared import block_of, labels_of, shown
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


def check_poisson_pairs(look: Validator) -> None:
    """Check components, shares and rates of priors as `check_gamma_poisson`, and ids, users' factors and counts."""
    k = int(look.at("_record").at("choices").a(dict).value["n_components"])
    users, items = (labels_of(look.at(name)) for name in ("users_", "items_"))
    look.at("components_").array((k, items), "x")
    shown(look, "users", (users, k))
    rated = look.at("seen_")
    look.at("_seen_counts").array((0 if rated.value is None else _rated_items(rated, look),), above=0.0)
    for name in ("_n_rows", "_waiting", "_began_with"):
        look.at(name).number(least=0.0)
    look.at("_encoding").at("mean").number(above=0.0)
    look.at("_prior_shapes").array((2,), above=0.0)
