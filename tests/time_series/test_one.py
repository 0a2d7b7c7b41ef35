"""One point that follows others: the message that numbers find is that of a fit to this point."""

import numpy as np
import pandas as pd
import pytest

from sksvi import DynamicGLM, algorithms, expectations, likelihoods
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.likelihoods import NegativeBinomial, StudentT
from sksvi.models.data import Table
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.model import DynamicModel
from sksvi.time_series._filter import Steps, filter_step, states, value_of

POINTS = {
    "poisson": 7.0,
    "poisson-softplus": 3.0,
    "logit": 1.0,
    "probit": 0.0,
    "gaussian": -4.0,
    "binomial": [3.0, 9.0],
    NegativeBinomial(dispersion=0.3): 12.0,
    StudentT(df=4.0, scale=0.5): -6.0,
}


def known(mean, variance):
    """The chain of a point of which so much is known."""
    none, ints = np.zeros(0), np.zeros(0, np.int64)
    first = np.array([mean]), np.array([[variance]])
    return Chain(np.zeros((1, 0)), np.ones(1), ints, np.zeros(1, np.int64), ints, none, np.zeros(1), *first, ints)


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("law", POINTS, ids=str)
def test_the_message_is_that_of_a_fit(law, variance):
    likelihood, expect = likelihoods.resolve(law), expectations.resolve("auto")
    likelihood = likelihood.start(np.array([-1.0, 1.0])) if law == "gaussian" else likelihood
    row = Table(np.zeros((1, 0)), np.array([POINTS[law]]), np.array([1.5]), np.array([0.2]))
    chain = known(0.4, variance)
    model = DynamicModel(likelihood, Dynamics(), row.X, row.weight, chain=chain)
    problem = plan.problem(model, row, algorithms.resolve("cvi"), expect)
    state = plan.run(problem, first_state(problem, 0), 1000, 1e-9)
    here, block = states(chain, chain.mean, chain.cov), state.q["latents"]
    message = Steps(likelihood, expect, 1e-9, 1000)(*here.ahead(row.X), *value_of(row))
    here.update(message)
    found = filter_step([message], here)
    own = ChainGaussian(chain, found.linear, found.weights)
    assert message.settled
    np.testing.assert_allclose(found.last, own.swept.last, rtol=1e-9)
    np.testing.assert_allclose(found.last_cov, own.swept.last_cov, rtol=1e-9)
    assert message.bound == pytest.approx(state.bound, abs=1e-7)
    np.testing.assert_allclose(own.mean, block.mean, atol=3e-4 * block.std[0])
    np.testing.assert_allclose(own.variance, block.variance, rtol=3e-4)


def test_a_row_that_no_look_is_left_for_is_not_settled():
    y = np.random.default_rng(0).poisson(5.0, 40).astype(float)
    model = DynamicGLM(level_variance=0.1).fit(None, y[:39]).set_params(max_iter=1)
    assert not model.partial_fit(None, [300.0]).converged_
    assert model.set_params(max_iter=50).partial_fit(None, y[39:]).converged_


STREAMS = {
    "level": ({"level_variance": 0.02}, False),
    "season": ({"seasonal": 4, "seasonal_variance": 0.01, "level_variance": 0.02}, True),
    # A filter stands at the mode of what was learned.
    "measured": ({"likelihood": "gaussian", "level_variance": 0.02, "hyperparameters": "point"}, True),
    "pairs": ({"likelihood": "binomial", "level_variance": 0.02}, True),
}


@pytest.mark.parametrize("name", STREAMS)
def test_points_one_by_one_leave_what_rows_one_by_one_leave(name):
    parameters, columns = STREAMS[name]
    rng, n = np.random.default_rng(0), 40
    y = rng.poisson(4.0, (n, 2) if name == "pairs" else n).astype(float)
    y[33] = np.nan
    X = rng.standard_normal((n, 2)) if columns else None
    rows, ahead = [None if X is None else X[t : t + 1] for t in range(n)], None if X is None else X[:30]
    fits = [DynamicGLM(**parameters).fit(ahead, y[:30]) for _ in range(2)]
    rowwise, stream = fits[0], fits[1].online()
    for t in range(30, n):
        own = {"sample_weight": [2.0], "offset": [0.5]} if t % 2 and columns else {}
        before = rowwise.forecast_latent(1, rows[t], offset=own.get("offset", [0.0]))
        said = stream.observe(y[t], rows[t], **own)
        np.testing.assert_allclose([said.mean, said.variance**0.5], before[["mean", "std"]].to_numpy()[0], rtol=1e-9)
        rowwise.partial_fit(rows[t], y[t : t + 1], **own)
        if t == 36:
            stream.update()
    assert stream.update() is fits[1]
    for attribute in ("lower_bounds_", "index_", "coef_", "n_iter_", "n_samples_seen_"):
        np.testing.assert_array_equal(getattr(fits[1], attribute), getattr(rowwise, attribute))
    for message in ("linear", "weights", "mean"):
        np.testing.assert_array_equal(getattr(fits[1]._series.block, message), getattr(rowwise._series.block, message))


def test_a_filter_refuses_what_its_series_does():
    y = np.random.default_rng(0).poisson(5.0, 40).astype(float)
    model = DynamicGLM(level_variance=0.1).fit(None, y)
    stream = model.online()
    for wrong, text in ((-1.0, "Poisson needs"), (np.inf, "infinity")):
        with pytest.raises(ValueError, match=text):
            stream.observe(wrong)
    stream.observe(3)
    model.partial_fit(None, [2.0])
    with pytest.raises(ValueError, match="since online"):
        stream.update()
    with pytest.raises(ValueError, match="online is of one series"):
        DynamicGLM(groups="shop").fit(
            None, pd.Series(y, pd.MultiIndex.from_product([["a", "b"], range(20)], names=["shop", "day"]))
        ).online()
