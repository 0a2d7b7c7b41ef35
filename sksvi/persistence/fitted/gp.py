"""Checks of fitted Gaussian processes."""

from __future__ import annotations

import numpy as np

from sksvi.families.base import Family
from sksvi.persistence.fitted.shared import block_of, latents_of, of_size, sampled, shown
from sksvi.persistence.validator import Validator


def check_sparse_gp(look: Validator) -> None:
    """Check kernel, inducing points and whitened block."""
    d, classes = look.at("n_features_in_").count(1), latents_of(look)
    _kernel(look.at("kernel_"), d)
    m = len(look.at("inducing_points_").array((None, d)))
    of_size(block_of(look, "inducing"), m * classes)
    fit = look.at("_process")
    white = fit.at("block").a(Family)
    white.require(np.size(white.value.mean) == m * classes, f"has {np.size(white.value.mean)} coordinates")
    shape = (m,) if classes == 1 else (classes, m)
    white.require(np.shape(white.value.mean) == shape, f"has shape {np.shape(white.value.mean)}, not {shape}")
    shown(look, "inducing", shape)
    q = look.at("state_").at("q")
    if "inputs" in q.value:
        q.item("inputs").at("value").array((m, d))
    if "kernel" in q.value:
        q.item("kernel").at("value").array((len(look.at("kernel_").value.theta),))
    look.at("_encoding").at("unit").array((d,), above=0.0)
    look.unless_none("_learned_rows", lambda rows: rows.count(1))
    look.at("mean_").number()
    sampled(look, d)
    if fit.has("nodes"):
        away = _away(look)
        for block in fit.at("node_blocks").sequence(away):
            mean = np.shape(block.a(Family).value.mean)
            block.require(mean == shape, f"has shape {mean}, not {shape}")


def check_full_gp(look: Validator) -> None:
    """Check kernel, training rows, and the block over them."""
    d = look.at("n_features_in_").count(1)
    _kernel(look.at("kernel_"), d)
    n = len(look.at("X_train_").array((None, d), "x"))
    q = look.at("state_").at("q")
    if "kernel" in q.value:
        q.item("kernel").at("value").array((len(look.at("kernel_").value.theta),))
    of_size(block_of(look, "latents"), n)
    counted, place = look.at("_rows_of_fit").sequence(2)
    rows = place.array((None,), "i", least=0, below=n)
    counted.array((len(rows),), "i", least=0)
    shown(look, "latents", (len(rows),))
    fit = look.at("_process")
    if fit.has("nodes"):
        away = _away(look)
        duals, weights = fit.at("node_blocks").sequence(2)
        duals.array((away, n))
        weights.array((away, n), least=0.0)


def _away(look: Validator) -> int:
    """Check the nodes, with values of the kernel and perhaps the likelihood; number of those beside the mode."""
    size, more = look.at("kernel_").value.n_dims, np.size(look.at("likelihood_").value.unconstrained)
    fit = look.at("_process")
    for name in ("nodes", "few"):
        values = fit.at(name).at("values")
        values.require(
            values.array((None, None)).shape[1] in (size, size + more), f"are not of {size} or {size + more}"
        )
    return len(fit.at("few").at("weights").value) - 1


def _kernel(look: Validator, d: int) -> None:
    from sksvi.models.gp import kernels

    try:
        kernels.checked(look.value, d)
    except (ValueError, TypeError, AttributeError) as error:
        raise look.fail(f"is no kernel of {d} features: {error}") from error
