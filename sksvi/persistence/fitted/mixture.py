"""Checks of fitted mixtures."""

from __future__ import annotations

import numpy as np

from sksvi.families import Point
from sksvi.families.base import Family
from sksvi.inference.memory.locals import Locals
from sksvi.persistence.fitted.shared import labels_of
from sksvi.persistence.validator import Validator


def check_mixture(look: Validator) -> None:
    """Check weights and probabilities, the categories of columns, and the order of the components."""
    d = look.at("n_features_in_").count(1)
    k = int(look.at("_record").at("choices").a(dict).value["n_components"])
    sizes = (2,) * d
    if look.has("categories_"):
        sizes = tuple(labels_of(values) for values in look.at("categories_").sequence(d))
    shapes: dict[str, tuple[int, ...]] = {"weights": (k,)}
    for m in {size for size in sizes if size > 1}:
        shape: tuple[int, ...] = (k, sizes.count(m))
        shapes |= {f"values_{m}": (*shape, m)} if look.has("categories_") else {"probabilities": shape}
    in_state, shown = look.at("state_").at("q"), look.at("posterior_").at("_blocks")
    if "value_prior" in in_state.a(dict).value:
        in_state.item("value_prior").a(Point).at("value").array((1,))
    look.at("probability_prior_").number(above=0.0)
    for place, learned in ((in_state, {"value_prior"}), (shown, set())):
        place.require(place.a(dict).value.keys() - learned == shapes.keys(), "has not the blocks of a mixture")
        for name, shape in shapes.items():
            block = place.item(name).a(Family)
            block.require(np.shape(block.value.mean) == shape, f"has shape {np.shape(block.value.mean)}, not {shape}")
    look.at("weights_").array((k,), least=0.0)
    used = look.at("n_components_").count(1)
    look.at("n_components_").require(used <= k, f"is {used}, of {k}")
    order = look.at("_order").array((k,), "i", least=0, below=k)
    look.at("_order").require(len(set(order.tolist())) == k, "names a component twice")
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        labels = local.at("values").array((None, 1), least=0.0)
        local.require(np.all(labels < k) and not np.any(labels % 1), f"has labels that are none of {k} components")
