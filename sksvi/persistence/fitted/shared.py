"""Checks of single blocks of q and of names, which those of several estimators share."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.layout import distinct_labels
from sksvi.families.base import Family
from sksvi.persistence.validator import Validator


def labels_of(look: Validator) -> int:
    """Check that names of columns, classes, levels or ids are distinct; return their number."""
    return distinct_labels(look.value, look.where)


def latents_of(look: Validator) -> int:
    """Number of latents of a row."""
    from sksvi.likelihoods import Likelihood

    return int(look.at("likelihood_").a(Likelihood).value.n_latents)


def block_of(look: Validator, name: str) -> Validator:
    """A block of q."""
    q = look.at("state_").at("q")
    q.require(name in q.value, f"has no block {name!r}")
    return q.item(name)


def of_size(look: Validator, size: int) -> None:
    look.require(np.size(look.value.mean) == size, f"has {np.size(look.value.mean)} coordinates, not {size}")


def shown(look: Validator, name: str, shape: tuple[int, ...]) -> None:
    """Check a block of ``posterior_``, as users see it."""
    blocks = look.at("posterior_").at("_blocks")
    blocks.require(name in blocks.a(dict).value, f"has no block {name!r}")
    block = blocks.item(name).a(Family)
    block.require(np.shape(block.value.mean) == shape, f"has shape {np.shape(block.value.mean)}, not {shape}")


def sampled(look: Validator, d: int) -> None:
    """Check that sampled rows of a stream have the d columns of the fit."""
    sample = getattr(look.at("state_").at("messages").value, "sample", None)
    if sample is not None:
        X = sample.data.X
        found = X.X.shape[1] if hasattr(X, "codes") else X.shape[1]
        look.at("state_").at("messages").require(found == d, f"has sampled rows of {found} columns, not {d}")
