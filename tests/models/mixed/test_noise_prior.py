"""The prior of the noise per row: its density and divergence, and what few trials make of it without overdispersion."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate
from scipy.stats import t as student

from sksvi import GMERegressor
from sksvi.families import Rayleigh
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE, SquaredDeviation

SCALES = [(2.5, 0.01), (2.5, 0.5), (1.0, 30.0), (0.1, 50.0)]


@pytest.mark.parametrize(("deviation", "scale"), SCALES)
def test_density_is_that_of_a_squared_half_student(deviation: float, scale: float) -> None:
    prior, x = SquaredDeviation(deviation, scale), np.array([1e-6, 0.3, 2.0, 400.0])
    root = np.sqrt(x)
    expected = student.logpdf(root, 3, scale=deviation) + np.log(2.0) - np.log(2.0 * root)
    np.testing.assert_allclose(prior.log_density(x[:, None]), expected, rtol=1e-10)


@pytest.mark.parametrize(("deviation", "scale"), SCALES)
def test_divergence_is_the_integral_and_its_slope_that_of_steps(deviation: float, scale: float) -> None:
    prior, q = SquaredDeviation(deviation, scale), Rayleigh(scale)

    def excess(x: float) -> float:
        at = np.array([[x]])
        log_q = q.log_density(at)[0]
        return float(np.exp(log_q) * (log_q - prior.log_density(at)[0]))

    total = integrate.quad(excess, 0.0, 9.0 * scale, limit=400, epsabs=1e-12)[0]
    assert q.kl(prior) == pytest.approx(total, abs=1e-8)
    h = 1e-4
    slope = (Rayleigh(scale * np.exp(-h)).kl(prior) - Rayleigh(scale * np.exp(h)).kl(prior)) / (2.0 * h)
    assert q.standard_gradient(prior, (np.zeros(1),))[0] == pytest.approx(slope, abs=1e-6)


def test_draws_are_of_the_prior_and_weigh_q_against_it() -> None:
    prior, q = SquaredDeviation(GROUP_PRIOR_SCALE, 0.5), Rayleigh(0.5)
    draws = np.sort(np.sqrt(prior.sample(20_000, 0)[:, 0]))
    np.testing.assert_allclose(
        np.quantile(draws, [0.25, 0.5, 0.75]), student.ppf([0.625, 0.75, 0.875], 3, scale=2.5), rtol=0.05
    )
    _, excess = q.draws_against(prior, 20_000, 0)
    assert excess.mean() == pytest.approx(q.kl(prior), abs=5.0 * excess.std() / 20_000**0.5)


def two_trials(seed: int, n: int = 100) -> tuple[pd.DataFrame, np.ndarray]:
    """Rates of two trials a row that vary as a binomial lets them: slope 0.8, eight groups."""
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal(n), rng.integers(0, 8, n)
    k = rng.binomial(2, 1.0 / (1.0 + np.exp(-0.8 * x - rng.normal(0.0, 0.5, 8)[g])))
    return pd.DataFrame({"x": x, "g": g.astype(str), "row": np.arange(n)}), np.c_[k, 2 - k]


@pytest.mark.filterwarnings("ignore:group 'row' has one row in each level:UserWarning")
def test_few_trials_without_overdispersion_have_the_noise_of_a_row_id() -> None:
    """A row id has the same model and prior, and nodes that follow a deviation towards none, which q(w2) cannot do.

    Under the Rayleigh prior of scale 5 the noise is twice as large.
    """
    found = []
    for seed in range(6):
        X, y = two_trials(seed)
        one = GMERegressor(likelihood="binomial", groups="g").fit(X[["x", "g"]], y)
        paper = GMERegressor(likelihood="binomial", groups="g", noise_prior_scale=5.0).fit(X[["x", "g"]], y)
        by_row = GMERegressor(likelihood="binomial", groups=["g", "row"], noise=False).fit(X, y)
        row = by_row.summary().loc["std(row, intercept)"]
        found.append([one.noise_variance_, row["mean"] ** 2 + row["std"] ** 2, paper.noise_variance_])
    ours, by_id, theirs = np.mean(found, axis=0)
    assert ours < 1.4 * by_id
    assert theirs > 1.5 * ours


def test_noise_that_is_there_is_found_under_either_prior() -> None:
    """The data decide; the shape of q(w2) draws its mean upwards under both."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(400)
    y = rng.poisson(np.exp(1.0 + 0.4 * x + rng.standard_normal(400)))
    ours, paper = (
        GMERegressor(likelihood="poisson", noise_prior_scale=scale).fit(x[:, None], y).noise_variance_
        for scale in ("auto", 5.0)
    )
    assert 0.85 < ours < 1.25
    assert 0.95 * paper < ours < paper
