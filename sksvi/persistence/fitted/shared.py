"""Checks of what every fit has: state, counters, history, targets, and single blocks of q."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.base import Family, Message
from sksvi.inference.memory.plates import PlateMemory
from sksvi.inference.memory.sites import Sites
from sksvi.inference.state import State
from sksvi.persistence.states import arrays_of
from sksvi.persistence.validator import Validator

Array = np.ndarray

#: Labels that may have one hash: random ones share it in threes, those that were made to would take hours.
MOST_OF_ONE_HASH = 1_000


# ---- what every fit leaves behind
def check_fit(look: Validator) -> None:
    """Check state, counters and history of a fitted estimator."""
    state = look.at("state_").a(State)
    features = look.at("n_features_in_").count()
    look.unless_none("feature_names_in_", lambda names: labels_of(names, features))
    if look.has("likelihood_"):
        _targets(look)
    for name in ("n_iter_", "n_steps_"):
        look.at(name).count()
    look.at("n_samples_seen_").number(least=0.0)
    look.at("_record").at("began_among").number(least=0.0)
    look.at("converged_").flag()
    look.at("lower_bound_").number()
    look.at("lower_bounds_").array((len(state.at("bounds").a(list).value),))
    check_state(state)


def labels_of(look: Validator, length: int | None = None) -> int:
    """Check that names of columns, classes, levels or ids are distinct; return their number."""
    n = np.shape(look.a(np.ndarray).value)
    look.require(len(n) == 1 and length in (None, n[0]), f"has shape {n}, not ({'any' if length is None else length},)")
    try:
        distinct = _are_distinct(look)
    except TypeError as error:
        raise look.fail("has values that are no labels") from error
    look.require(distinct, "has a label twice")
    return int(n[0])


def _are_distinct(look: Validator) -> bool:
    """Whether labels differ, found by sorting them: a table of hashes is a search through a list where those agree."""
    import pandas as pd

    labels = look.value
    if labels.dtype.kind in "iufb":
        in_order = np.sort(labels)
        missing = int(np.sum(np.isnan(in_order))) if labels.dtype.kind == "f" else 0
        look.require(_most_of_one_hash(labels) <= MOST_OF_ONE_HASH, "has labels made to have one hash")
        return missing <= 1 and not np.any(in_order[1:] == in_order[:-1])
    if labels.dtype == object:
        hashes = len(set(map(hash, labels.tolist())))
        look.require(len(labels) - hashes <= MOST_OF_ONE_HASH, "has labels made to have one hash, or the same")
    return bool(pd.Index(labels).is_unique)


def _most_of_one_hash(labels: Any) -> int:
    """Largest number of integers with one hash in the table of pandas in which predictions look them up."""
    if labels.dtype.kind not in "iu" or labels.dtype.itemsize < 8 or not labels.size:
        return 0
    bits = labels.astype(np.int64).view(np.uint64)
    hashes = (bits >> np.uint64(33) ^ bits ^ bits << np.uint64(11)).astype(np.uint32)
    return int(np.unique(hashes, return_counts=True)[1].max())


def _targets(look: Validator) -> None:
    """Check that classes or levels are as many as the likelihood has."""
    cuts: Any = getattr(look.at("likelihood_").value, "cut_points", None)
    if look.has("levels_"):
        n = labels_of(look.at("levels_"))
        right = n >= 2 and (cuts is None or np.size(cuts) == n - 1)
        look.at("levels_").require(right, f"has {n} levels for a likelihood of {np.size(cuts) + 1}")
    if look.has("classes_"):
        n, latents = labels_of(look.at("classes_")), latents_of(look)
        right = n == (2 if latents == 1 else latents)
        look.at("classes_").require(right, f"has {n} classes for a likelihood of {latents} latents")


def check_state(look: Validator) -> None:
    q = {block.where: block.a(Family) for block in look.at("q").mapping()}
    look.at("q").require(q, "is empty")
    for name in ("passes", "steps", "repairs", "seed"):
        look.at(name).count()
    for name in ("rows", "counted"):
        look.at(name).number(least=0.0)
    for name in ("converged", "finished"):
        look.at(name).flag()
    for bound in look.at("bounds").sequence():
        bound.number()
    for row in look.at("history").sequence():
        row.require(isinstance(row.value, dict) and "seconds" in row.value, "is no row of a history")
    _memory(look)
    _messages(look)
    _progress(look)


def _memory(look: Validator) -> None:
    blocks = look.at("q").value
    for name, memory in zip(look.at("memory").a(dict).value, look.at("memory").mapping(), strict=True):
        memory.require(name in blocks, "is of a block that is not there")
        block = blocks[name]
        if isinstance(memory.value, PlateMemory):
            n = block.n_plates
            memory.require(len(memory.value.clock) == n, f"has {len(memory.value.clock)} plates, the block {n}")
            memory = memory.at("rule")
        # Adam's memory ends with the number of its steps, a secant's is of arrays alone.
        parts = memory.items() if isinstance(memory.value, tuple) else arrays_of(memory)
        for sums in parts:
            if isinstance(sums.value, int):
                sums.count()
                continue
            size = np.size(_coordinates(block))
            # AdaDelta has two numbers per coordinate.
            own = np.size(sums.array()) in (size, 2 * size, size * np.shape(_coordinates(block))[-1])
            sums.require(own, f"has shape {sums.value.shape}, for a block of {size} coordinates")


def _coordinates(block: Family) -> Array:
    """The array whose shape a gradient of the block has first."""
    if hasattr(block, "standard_values"):
        return np.asarray(block.standard_values)
    return np.asarray(block.mean)


def _messages(look: Validator) -> None:
    blocks, messages = look.at("q").value, look.at("messages")
    if isinstance(messages.value, Sites):
        sums = (*messages.at("total").sequence(), *messages.at("first").sequence())
        gaussian = [block for block in blocks.values() if block.column == "gaussian"]
        for part in sums:
            part.require(any(_gaussian_part(part.value, block) for block in gaussian), "is of no block's shape")
    elif hasattr(messages.value, "by_block"):
        for name, message in zip(messages.value.by_block, messages.at("by_block").mapping(), strict=True):
            message.require(name in blocks, "is of a block that is not there")
            _check_message(message.a(Message), blocks[name])


def _check_message(look: Validator, block: Family) -> None:
    """Check that the parts of a message have the shapes of the natural parameters of its block."""
    for number, part in enumerate(look.at("parts").items()):
        first = np.shape(part.value) in (np.shape(block.mean), np.shape(_coordinates(block)), _natural(block))
        second = number == 1 and _gaussian_part(part.value, block)
        packed = number == 1 and hasattr(block, "values") and np.shape(part.value) == np.shape(block.values)
        part.require(first or second or packed, f"is not of the shape of its block, {np.shape(block.mean)}")


def _natural(block: Family) -> tuple[int, ...]:
    return np.shape(block.theta) if hasattr(block, "theta") else np.shape(block.mean)


def _gaussian_part(part: Any, block: Family) -> bool:
    """Whether the shape is that of a message to P m or to P, the natural parameters of a Gaussian block."""
    shape = np.shape(block.mean)
    if not isinstance(part, np.ndarray):
        own: Any = getattr(block, "precision", None)
        return type(part) is type(own) and part.diag.shape == own.diag.shape and part.start == own.start
    return part.shape in (shape, (*shape, *shape[-1:]))


def _progress(look: Validator) -> None:
    blocks, progress = look.at("q").value, look.at("progress")
    own = vars(progress.value)
    for name in ("damping", "small_changes", "since"):
        if name in own:
            progress.at(name).number(least=0.0)
    for check in progress.at("checks").sequence() if "checks" in own else ():
        check.number()
    here = progress.at("here") if own.get("here") is not None else None
    others = [here.at("q")] if here is not None else []
    gradients = [here.at("gradient")] if here is not None else []
    others += [progress.at("average")] if own.get("average") else []
    gradients += [progress.at("gradient")] if own.get("gradient") else []
    for other in others:
        other.require(other.a(dict).value.keys() == blocks.keys(), "has other blocks than the fit")
        for name, block in zip(other.value, other.mapping(), strict=True):
            block.a(Family)
            right = np.shape(block.value.mean) == np.shape(blocks[name].mean)
            block.require(right, f"has shape {np.shape(block.value.mean)}, the fit's {np.shape(blocks[name].mean)}")
    for gradient in gradients:
        for name, parts in zip(gradient.a(dict).value, gradient.mapping(), strict=True):
            parts.require(name in blocks, "is of a block that is not there")
            sizes = {
                np.size(blocks[name].mean),
                int(np.prod(_natural(blocks[name]))),
                np.size(_coordinates(blocks[name])),
            }
            first, *_ = parts.sequence()
            for part in parts.items():
                if isinstance(part.value, np.ndarray):
                    part.require(
                        part.array().size in {first.value.size, first.value.size**2}, "has numbers of another block"
                    )
            first.require(np.size(first.value) in sizes, f"has {np.size(first.value)} numbers, its block {sizes}")


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
