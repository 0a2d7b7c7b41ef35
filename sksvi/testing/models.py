"""Checks for one's own likelihoods, families and models: the same that the package's tests run on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.expectations import Auto
from sksvi.testing._close import _assert_close
from sksvi.testing.families import _directions_of, _moved

Array = Any


def check_model(model: Any, data: Any, *, tolerance: float = 1e-4, seed: int = 0) -> None:
    """Raise AssertionError if a model's gradients are not those of its bound.

    At a random q near the model's first one, the pulled-back gradient of every block is compared with finite
    differences of E log p, batches must add up to the whole, a row of weight two must count as two rows, and a step of
    a hyperparameter must point uphill.

    Parameters
    ----------
    model : Model
        See :class:`sksvi.models.base.Model`.
    data : Data
        See :class:`sksvi.models.base.Data`; a few dozen rows do.
    tolerance : float, default=1e-4
        Relative error allowed in a gradient; more where the integral over the latents is itself an approximation.
    seed : int, default=0
        For q and directions.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Poisson
    >>> from sksvi.models.base import Data
    >>> from sksvi.models.linear.glm import LinearModel
    >>> from sksvi.testing import check_model
    >>> model = LinearModel(Poisson(), prior_precision=1.0, intercept_precision=0.1, n_features=1,
    ...                     fit_intercept=True, full=True)
    >>> check_model(model, Data(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])))
    """
    from sksvi.algorithms import MCSSVI
    from sksvi.inference import engine
    from sksvi.models.base import Segment

    rng = np.random.default_rng(seed)
    problem = engine.Problem(model, data, MCSSVI(), Auto(), Auto())
    q = dict(model.init(data))
    first = q[model.block]
    q[model.block] = type(first)(first.sample(1, seed)[0], first.precision)

    def evaluated(blocks: dict[str, Any], rows: Any = None, on: Any = problem) -> tuple[dict[str, Any], float]:
        rows = slice(0, len(on.data)) if rows is None else rows
        return engine.evaluate(on, engine.State(blocks, seed), Segment(rows, 1.0))

    def bound(blocks: dict[str, Any]) -> float:
        return evaluated(blocks)[1] - engine.divergence(problem, engine.State(blocks, seed), blocks)

    gradient, value = evaluated(q)
    engine.check_finite(value, gradient, engine.State(q, seed))
    _check_gradient_of_value(q, gradient, lambda blocks: evaluated(blocks)[1], rng, tolerance)
    for name, slope in model.free_gradients(q, gradient).items():
        step = rng.standard_normal(slope.shape)
        high, low = (evaluated({**q, name: type(q[name])(q[name].value + s * step)})[1] for s in (1e-5, -1e-5))
        _assert_close(np.sum(slope * step), (high - low) / 2e-5, f"gradient of {name!r}", q[name], tolerance)
    parts = [evaluated(q, rows) for rows in np.array_split(rng.permutation(len(data)), 3)]
    _assert_sum(gradient, value, parts, "batches do not add up to the whole")
    double = replace(data, weight=np.full(len(data), 2.0) if data.weight is None else 2.0 * data.weight)
    twice = replace(problem, data=double)
    _assert_sum(*evaluated(q, on=twice), [(gradient, value)] * 2, "a row of weight two is not two rows")
    for name, (step, _) in model.point_steps(q, gradient).items():
        here, there = (bound({**q, name: q[name].moved(share * step, 1.0)}) for share in (0.0, 1e-3))
        assert there >= here - 1e-9 * (1 + abs(here)), f"the step of {name!r} goes downhill."


def _check_gradient_of_value(
    q: dict[str, Any], gradient: dict[str, Any], value: Any, rng: np.random.Generator, tolerance: float
) -> None:
    """Each block's gradient against finite differences of E log p."""
    for name, slopes in gradient.items():
        if name not in q:  # sums that `free_gradients` turns into a gradient
            continue
        block = q[name]
        if len(slopes) == 1:
            high, low = (value({**q, name: block.at(block.standard_values + s)}) for s in (1e-4, -1e-4))
            rise = block.at(block.standard_values + 1e-4).moments - block.at(block.standard_values - 1e-4).moments
            _assert_close(np.sum(slopes[0] * rise), high - low, f"gradient of {name!r}", block, tolerance)
            continue
        first, second = slopes
        if block.kind == "point":
            step = rng.standard_normal(first.shape)
            high, low = (value({**q, name: block.moved(s * step, 1.0)}) for s in (1e-4, -1e-4))
            _assert_close(np.sum(first * step), (high - low) / 2e-4, f"gradient of {name!r}", block, tolerance)
            continue
        dm, ds = _directions_of(block, rng)
        for what, moves in (("mean", (dm, 0.0 * ds)), ("covariance", (0.0 * dm, ds))):
            high, low = (value({**q, name: _moved(block, *moves, s)}) for s in (1e-3, -1e-3))
            found = np.sum(first * moves[0]) + np.sum(second * moves[1])
            _assert_close(found, (high - low) / 2e-3, f"gradient of {name!r} in its {what}", block, tolerance)


def _assert_sum(gradient: dict[str, Any], value: float, parts: list[Any], what: str) -> None:
    wanted = [value, *(part for pair in gradient.values() for part in pair)]
    summands = [[other, *(part for pair in each.values() for part in pair)] for each, other in parts]
    for whole, *pieces in zip(wanted, *summands, strict=True):
        error = np.max(np.abs(sum(pieces) - whole), initial=0.0) / (1 + np.max(np.abs(whole), initial=0.0))
        assert error <= 1e-10, f"{what}: off by {error:.1e}."
