"""Whether the attributes of a fitted estimator fit its data's sizes and each other, estimator by estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.families import Dirichlet, Point
from sksvi.families.base import Family, Message
from sksvi.inference.memory.locals import Locals
from sksvi.inference.memory.of_plates import PlateMemory
from sksvi.inference.memory.of_rows import Sites
from sksvi.inference.past import Past
from sksvi.inference.state import State
from sksvi.persistence.look import Look
from sksvi.persistence.states import arrays_of

Array = np.ndarray


# ---- what every fit leaves behind
def check_fit(look: Look) -> None:
    """State, counters and history; `look` is at the estimator."""
    state = look.at("state_").a(State)
    features = look.at("n_features_in_").count()
    look.unless_none("feature_names_in_", lambda names: _labels(names, features))
    if look.has("likelihood_"):
        _targets(look)
    for name in ("n_iter_", "n_steps_"):
        look.at(name).count()
    look.at("n_samples_seen_").number(least=0.0)
    look.at("converged_").flag()
    look.at("lower_bound_").number()
    look.at("lower_bounds_").array((len(state.at("bounds").a(list).value),))
    _state(state)


def _labels(look: Look, length: int | None = None) -> int:
    """Distinct names, of columns, classes, levels or ids; how many."""
    import pandas as pd

    n = np.shape(look.a(np.ndarray).value)
    look.require(len(n) == 1 and length in (None, n[0]), f"has shape {n}, not ({'any' if length is None else length},)")
    try:
        distinct = pd.Index(look.value).is_unique
    except TypeError as error:
        raise look.fail("has values that are no labels") from error
    look.require(distinct, "has a label twice")
    return int(n[0])


def _targets(look: Look) -> None:
    """As many classes or levels as the likelihood has."""
    cuts = getattr(look.at("likelihood_").value, "cut_points", None)
    if look.has("levels_"):
        n = _labels(look.at("levels_"))
        right = n >= 2 and (cuts is None or np.size(cuts) == n - 1)
        look.at("levels_").require(right, f"has {n} levels for a likelihood of {np.size(cuts) + 1}")
    if look.has("classes_"):
        n, latents = _labels(look.at("classes_")), _latents(look)
        right = n == (2 if latents == 1 else latents)
        look.at("classes_").require(right, f"has {n} classes for a likelihood of {latents} latents")


def _state(look: Look) -> None:
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


def _memory(look: Look) -> None:
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


def _messages(look: Look) -> None:
    blocks, messages = look.at("q").value, look.at("messages")
    if isinstance(messages.value, Sites):
        sums = (*messages.at("total").sequence(), *messages.at("first").sequence())
        gaussian = [block for block in blocks.values() if block.column == "gaussian"]
        for part in sums:
            part.require(any(_gaussian_part(part.value, block) for block in gaussian), "is of no block's shape")
    elif hasattr(messages.value, "by_block"):
        for name, said in zip(messages.value.by_block, messages.at("by_block").mapping(), strict=True):
            said.require(name in blocks, "is of a block that is not there")
            _said(said.a(Message), blocks[name])
    if isinstance(messages.value, Past):
        messages.unless_none("sample", lambda sample: sample.at("data"))


def _said(look: Look, block: Family) -> None:
    """A message's parts are as the block's natural parameters."""
    for number, part in enumerate(look.at("parts").items()):
        first = np.shape(part.value) in (np.shape(block.mean), np.shape(_coordinates(block)), _natural(block))
        second = number == 1 and _gaussian_part(part.value, block)
        packed = number == 1 and hasattr(block, "values") and np.shape(part.value) == np.shape(block.values)
        part.require(first or second or packed, f"is not of the shape of its block, {np.shape(block.mean)}")


def _natural(block: Family) -> tuple[int, ...]:
    return np.shape(block.theta) if hasattr(block, "theta") else np.shape(block.mean)


def _gaussian_part(part: Any, block: Family) -> bool:
    """Whether this may be what is added to P m, or to P."""
    shape = np.shape(block.mean)
    if not isinstance(part, np.ndarray):
        own = getattr(block, "precision", None)
        return type(part) is type(own) and part.diag.shape == own.diag.shape and part.start == own.start
    return part.shape in (shape, (*shape, *shape[-1:]))


def _progress(look: Look) -> None:
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


def _latents(look: Look) -> int:
    """Latents of a row."""
    from sksvi.likelihoods import Likelihood

    return int(look.at("likelihood_").a(Likelihood).value.n_latents)


def _block(look: Look, name: str) -> Look:
    """A block of q."""
    q = look.at("state_").at("q")
    q.require(name in q.value, f"has no block {name!r}")
    return q.item(name)


def _of_size(look: Look, size: int) -> None:
    look.require(np.size(look.value.mean) == size, f"has {np.size(look.value.mean)} coordinates, not {size}")


def _shown(look: Look, name: str, shape: tuple[int, ...]) -> None:
    """A block as users see it."""
    blocks = look.at("posterior_").at("_blocks")
    blocks.require(name in blocks.a(dict).value, f"has no block {name!r}")
    block = blocks.item(name).a(Family)
    block.require(np.shape(block.value.mean) == shape, f"has shape {np.shape(block.value.mean)}, not {shape}")


# ---- linear and mixed models
def check_linear(look: Look) -> None:
    """Coefficients of a GLM."""
    _coefficients(look, look.at("n_features_in_").count(1), 0, True)


def check_mixed(look: Look) -> None:
    """Coefficients, levels and effects of a mixed model."""
    features = look.at("n_features_in_").count(1)
    if not look.has("_factors"):
        _coefficients(look, features, 0, True)
        return
    factors = [factor.count() for factor in look.at("_factors").sequence()]
    right = len(set(factors)) == len(factors) >= 1 and max(factors) < features
    look.at("_factors").require(right, "names no columns of X")
    fixed, n = features - len(factors), len(factors)
    sizes, effects = [], []
    for levels, size, slopes, scales in zip(
        look.at("_levels").sequence(n),
        look.at("_sizes").sequence(n),
        look.at("_slopes").sequence(n),
        look.at("_slope_scales").sequence(n),
        strict=True,
    ):
        size.require(size.count() >= _labels(levels), f"is {size.value}, fewer than the levels that have names")
        names, columns = slopes.sequence(2)
        for column in columns.sequence(len(names.value)):
            column.require(column.count() < fixed, "is no column")
        scales.array((1 + len(names.value),), above=0.0)
        sizes.append(size.value)
        effects.append(1 + len(names.value))
    total = int(np.dot(sizes, effects))
    _coefficients(look, fixed, total, False)
    _shown(look, "groups", (total,))
    look.at("_log_scales").at("nodes").array((None, sum(effects)))
    _of_size(_block(look, "group_std"), sum(effects))


def _coefficients(look: Look, d: int, more: int, plain: bool) -> None:
    """Of d columns, and `more` effects in the same block; several classes only where it is `plain`."""
    extra = int(bool(look.at("_choices").a(dict).value.get("fit_intercept", True)))
    classes = _latents(look) if plain else 1
    per_class = (d,) if classes == 1 else (classes, d)
    inner = d
    if look.has("_subspace"):
        scale, basis = look.at("_subspace").sequence(2)
        scale.array((d,), above=0.0)
        inner = basis.array((d, None)).shape[1]
    _of_size(_block(look, "weights"), classes * (inner + more + extra))
    _shown(look, "weights", (*per_class[:-1], d + extra))
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
    _sampled(look, d)
    precision = look.at("prior_precision_")
    if isinstance(precision.value, np.ndarray):
        precision.array((d,), least=0.0)
    else:
        precision.number(least=0.0)
    look.unless_none("_spreads", lambda spreads: spreads.array((d,), least=0.0))
    look.unless_none("_switched_off", lambda off: off.at("which").array((classes, d + extra), "b"))
    mean, width_of = look.at("_intercept_prior").sequence(2)
    mean.number()
    width_of.number(least=0.0)
    look.at("_unit").number(above=0.0)


def _sampled(look: Look, d: int) -> None:
    """Past rows of a stream have the columns of the fit."""
    sample = getattr(look.at("state_").at("messages").value, "sample", None)
    if sample is not None:
        X = sample.data.X
        found = X.X.shape[1] if hasattr(X, "codes") else X.shape[1]
        look.at("state_").at("messages").require(found == d, f"has sampled rows of {found} columns, not {d}")


# ---- Gaussian processes
def check_sparse_gp(look: Look) -> None:
    """Kernel, inducing points and whitened block."""
    d, classes = look.at("n_features_in_").count(1), _latents(look)
    _kernel(look.at("kernel_"), d)
    m = len(look.at("inducing_points_").array((None, d)))
    _of_size(_block(look, "inducing"), m * classes)
    white = look.at("_white").a(Family)
    white.require(np.size(white.value.mean) == m * classes, f"has {np.size(white.value.mean)} coordinates")
    shape = (m,) if classes == 1 else (classes, m)
    white.require(np.shape(white.value.mean) == shape, f"has shape {np.shape(white.value.mean)}, not {shape}")
    _shown(look, "inducing", shape)
    q = look.at("state_").at("q")
    if "inputs" in q.value:
        q.item("inputs").at("value").array((m, d))
    if "kernel" in q.value:
        q.item("kernel").at("value").array((len(look.at("kernel_").value.theta),))
    look.unless_none("_unit", lambda unit: unit.array((d,), above=0.0))
    look.unless_none("_learned_rows", lambda rows: rows.count(1))
    look.at("mean_").number()
    _sampled(look, d)


def check_full_gp(look: Look) -> None:
    """Kernel, training rows, and the block over them."""
    d = look.at("n_features_in_").count(1)
    _kernel(look.at("kernel_"), d)
    n = len(look.at("X_train_").array((None, d), "x"))
    q = look.at("state_").at("q")
    if "kernel" in q.value:
        q.item("kernel").at("value").array((len(look.at("kernel_").value.theta),))
    _of_size(_block(look, "latents"), n)
    rows = look.at("_rows").array((None,), "i", least=0, below=n)
    look.at("_counted").array((len(rows),), "i", least=0)
    _shown(look, "latents", (len(rows),))


def _kernel(look: Look, d: int) -> None:
    from sksvi.models.gp import kernels

    try:
        kernels.checked(look.value, d)
    except (ValueError, TypeError, AttributeError) as error:
        raise look.fail(f"is no kernel of {d} features: {error}") from error


# ---- time series
def check_dynamic(look: Look) -> None:
    """Points in time, the states of the fit, and the messages over them."""
    d = look.at("n_features_in_").count()
    for name in ("_centre", "_scale"):
        look.at(name).array((d,), above=0.0 if name == "_scale" else None)
    look.at("_unit").number(above=0.0)
    look.at("mean_").number()
    series = look.at("_series")
    T, width = series.at("X").array((None, d)).shape
    structure = look.at("_structure").a(dict)
    structure.require("length" in structure.value, "has no length")
    structure.item("length").count(1)
    try:
        dynamics = look.value._dynamics
    except (AttributeError, TypeError, ValueError) as error:
        raise structure.fail(f"describes no states: {error}") from error
    n, chain = dynamics.n_states, _block(look, "latents").at("chain")
    right = len(chain.value.noise) == n and chain.value.X.shape == (T, width)
    chain.require(
        right, f"has {len(chain.value.noise)} states and rows {chain.value.X.shape}, not {n} and {(T, width)}"
    )
    _block(look, "dynamics").at("value").array((len(dynamics.parameters),))
    look.at("_last").array((n,))
    look.at("_last_cov").array((n, n))
    look.at("coef_").array((d,), "x")
    look.at("coef_std_").array((d,), "x", least=0.0)
    _shown(look, "latents", (T,))
    times = look.at("_times").a(dict)
    times.require({"kind", "values", "name"} <= times.value.keys(), "is no index")
    try:
        found = len(look.value.index_)
    except (KeyError, TypeError, ValueError) as error:
        raise times.fail(f"is no index: {error}") from error
    times.require(found == T, f"has {found} times for {T} points")


def check_panel(look: Look) -> list[Any]:
    """Fits to several series, of this class and each to one; their names, and the rows that were theirs."""
    look.require("state_" not in vars(look.value), "is a fit to one series and to several")
    members = look.at("_members").a(list)
    cls = type(look.value)
    alone = all(type(member) is cls and "_members" not in vars(member) for member in members.value)
    members.require(members.value and alone, "are no fits to one series each")
    members.require(all("state_" in vars(member) for member in members.value), "are not all fitted")
    names, rows = look.at("_labels").a(list), look.at("_rows").a(list)
    n = len(members.value)
    names.require(len(names.value) == n and len(set(map(repr, names.value))) == n, f"are no {n} names")
    rows.require(len(rows.value) == n, f"has {len(rows.value)} parts for {n} series")
    for part, member in zip(rows.sequence(), members.value, strict=True):
        part.array((len(member.posterior_["latents"].mean),), "i", least=0)
    whole = np.concatenate(rows.value)
    rows.require(np.array_equal(np.sort(whole), np.arange(len(whole))), "are not each row once")
    for name in ("n_iter_", "n_steps_", "n_features_in_"):
        look.at(name).count()
    look.at("converged_").flag()
    look.at("lower_bound_").number()
    return list(members.value)


# ---- factorization
def check_factorization(look: Look) -> None:
    """Ids, blocks of both sides, and what has been rated."""
    from sksvi.families import GaussianPlates

    choices = look.at("_choices").a(dict).value
    size = int(choices["n_components"]) + bool(choices["biases"])
    for side in ("users", "items"):
        n = _labels(look.at(f"{side}_"))
        block = _block(look, side).a(GaussianPlates)
        found = block.value.mean.shape
        finished = look.at("state_").at("finished").flag()
        right = found[1] == size and (found[0] == n if finished else found[0] >= n)
        block.require(right, f"has shape {found}, not {(n, size)}")
        _block(look, f"{side}_precision").at("value").array((size,))
        _block(look, f"{side}_mean").at("value").array((None, size))
        features = look.at("_features").a(dict).value.get(f"{side[:-1]}_features")
        if features is not None:
            _labels(look.at("_features").item(f"{side[:-1]}_features").at("ids"))
        columns = 0 if features is None else features.values.shape[1]
        rows = len(_block(look, f"{side}_mean").value.value)
        constant = side == "items" and bool(choices["biases"]) and not look.value.likelihood_.ordered
        right = rows == columns + (constant or features is not None)
        _block(look, f"{side}_mean").require(right, f"has {rows} coefficients for {columns} features")
    starts, items = look.at("seen_").sequence(2)
    users = len(look.at("users_").value)
    starts.array((users + 1,), "i", least=0)
    items.array((None,), "i", least=0, below=len(look.at("items_").value))
    right = starts.value[0] == 0 and starts.value[-1] == len(items.value) and np.all(np.diff(starts.value) >= 0)
    starts.require(right, "does not divide the ratings among users")
    look.at("_unit").number(above=0.0)
    look.at("_offset").number()


# ---- topics
def check_topics(look: Look) -> None:
    """Topics, and the population of documents."""
    v = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    for place in (look.at("state_").at("q"), look.at("_globals")):
        place.require({"topics", "population"} <= place.a(dict).value.keys(), "has not the blocks of a topic model")
        topics, population = place.item("topics").a(Family), place.item("population").a(Family)
        topics.require(np.shape(topics.value.mean) == (k, v), f"has shape {np.shape(topics.value.mean)}, not {(k, v)}")
        population.at("sums").array((k, k))
    _shown(look, "topics", (k, v))
    look.at("components_").array((k, v), least=0.0)
    look.at("topic_log_odds_").array((k - 1,))
    look.at("topic_covariance_").array((k - 1, k - 1))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        w = k - 1
        widths = {w + more for square in (w, w * w) for more in (w, 2 * w, w + 2 * square, w + square)}
        found = local.at("values").array((None, None)).shape[1]
        local.require(found in widths, f"has {found} numbers for a document of {k} topics")


def check_lda(look: Look) -> None:
    """Topics, and the hyperparameters that are learned."""
    v = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    look.at("_dtype").require(look.at("_dtype").a(str).value in ("float32", "float64"), "is no type of floats")
    for place in (look.at("state_").at("q"), look.at("_globals")):
        place.require("topics" in place.a(dict).value, "has not the block of a topic model")
        topics = place.item("topics").a(Dirichlet)
        topics.require(np.shape(topics.value.mean) == (k, v), f"has shape {np.shape(topics.value.mean)}, not {(k, v)}")
        for name, sizes in (("alpha", (1, k)), ("eta", (1,))):
            if name in place.value:
                size = len(place.item(name).a(Point).at("value").array((None,)))
                place.item(name).require(size in sizes, f"has {size} numbers")
    _shown(look, "topics", (k, v))
    look.at("components_").array((k, v), least=0.0)
    look.at("doc_topic_prior_").array((k,), least=0.0)
    look.at("topic_word_prior_").number(above=0.0)
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


# ---- sparse factors
def check_beta_process(look: Look) -> None:
    """Features, draws, and the units of the columns."""
    d = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    look.at("mean_").array((d,))
    look.at("scale_").number(above=0.0)
    noise = look.at("_noise_size").count(1)
    look.at("_noise_size").require(noise in (1, d), f"is {noise}, neither 1 nor {d}")
    features = _block(look, "features")
    found = np.shape(features.value.mean)
    features.require(sorted(found) == sorted((k, d)), f"has shape {found}, not {(k, d)}")
    _of_size(_block(look, "probabilities"), k)
    _of_size(_block(look, "weight_precision"), 1)
    _of_size(_block(look, "noise_precision"), noise)
    kept = len(look.at("_order").array((None,), "i", least=0, below=k))
    look.at("_order").require(len(set(look.value._order.tolist())) == kept >= 1, "names a feature twice, or none")
    look.at("components_").array((kept, d), "x")
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k))
    look.at("feature_probability_").array((kept,), least=0.0)
    _shown(look, "features", (kept, d))
    _shown(look, "probabilities", (kept,))
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


# ---- components of counts
def check_gamma_process(look: Look) -> None:
    """Components, their weights and shares."""
    f = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    look.at("prior_mean_").number(above=0.0)
    for name, shape in (("components", (k, f)), ("weights", (k,))):
        found = np.shape(_block(look, name).a(Family).value.mean)
        _block(look, name).require(found == shape, f"has shape {found}, not {shape}")
    kept = look.at("n_components_").count(1)
    look.at("n_components_").require(kept <= k, f"is {kept}, more than n_components={k}")
    look.at("components_").array((kept, f), "x", least=0.0)
    for name in ("component_weights_", "component_shares_"):
        look.at(name).array((kept,), least=0.0)
    _shown(look, "components", (kept, f))
    _shown(look, "weights", (kept,))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


# ---- factors of covariances
def check_gamma_factors(look: Look) -> None:
    """Loadings, noise, units and the scatter of the rows."""
    from sksvi.models.gamma_factor.scatter import Scatter

    d = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    found = np.shape(_block(look, "loadings").a(Family).value.mean)
    _block(look, "loadings").require(found == (k, d), f"has shape {found}, not {(k, d)}")
    _shown(look, "loadings", (k, d))
    look.at("components_").array((k, d), "x", least=0.0)
    for name in ("noise_variance_", "scale_"):
        look.at(name).array((d,), above=0.0)
    look.at("mean_").array((d,))
    scatter = look.at("_scatter").a(Scatter)
    scatter.at("mean").array((d,))
    if "noise" in look.at("state_").at("q").value:
        noise = _block(look, "noise").a(Point).value.value
        learned = 1 if look.at("noise_variance").value == "auto" else d
        _block(look, "noise").require(noise.shape == (learned,), f"has shape {noise.shape}, not {(learned,)}")


def check_gamma_poisson(look: Look) -> None:
    """Components, their shares, and the rates of both priors."""
    f = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    found = np.shape(_block(look, "components").a(Family).value.mean)
    _block(look, "components").require(found == (k, f), f"has shape {found}, not {(k, f)}")
    for name in ("_first_mean", "activation_rate_", "component_rate_"):
        look.at(name).number(above=0.0)
    for name in ("activation_rate", "component_rate"):
        _block(look, name).a(Point).at("value").array((1,))
    look.at("n_components_").require(look.at("n_components_").count(1) == k, f"is not n_components={k}")
    look.at("components_").array((k, f), "x", least=0.0)
    look.at("component_shares_").array((k,), least=0.0)
    _shown(look, "components", (k, f))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals) and local.value.rule == "slopes of rows":  # of the bound without counts
        local.at("values").array((None, 2 * k))
    elif isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)


# ---- mixtures
def check_mixture(look: Look) -> None:
    """Weights and probabilities, the categories of columns, and the order of the components."""
    d = look.at("n_features_in_").count(1)
    k = int(look.at("_choices").a(dict).value["n_components"])
    sizes = (2,) * d
    if look.has("categories_"):
        sizes = tuple(_labels(values) for values in look.at("categories_").sequence(d))
    shapes: dict[str, tuple[int, ...]] = {"weights": (k,)}
    for m in {size for size in sizes if size > 1}:
        shape = (k, sizes.count(m))
        shapes |= {f"values_{m}": (*shape, m)} if look.has("categories_") else {"probabilities": shape}
    for place in (look.at("state_").at("q"), look.at("posterior_").at("_blocks")):
        place.require(place.a(dict).value.keys() == shapes.keys(), "has not the blocks of a mixture")
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


#: Key of the table -> what to ask of a fitted estimator of that class.
ESTIMATORS: dict[str, Callable[[Look], None]] = {
    "BayesianGLMClassifier": check_linear,
    "BayesianGLMRegressor": check_linear,
    "GMEClassifier": check_mixed,
    "GMERegressor": check_mixed,
    "SparseGPClassifier": check_sparse_gp,
    "SparseGPRegressor": check_sparse_gp,
    "GPClassifier": check_full_gp,
    "DynamicGLM": check_dynamic,
    "GeneralizedPMF": check_factorization,
    "CorrelatedTopicModel": check_topics,
    "StructuredLDA": check_lda,
    "BetaProcessFA": check_beta_process,
    "GammaFactorModel": check_gamma_factors,
    "GammaPoissonFactorization": check_gamma_poisson,
    "GammaProcessNMF": check_gamma_process,
    "BernoulliMixture": check_mixture,
    "CategoricalMixture": check_mixture,
}
