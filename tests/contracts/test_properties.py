"""What holds for every value: likelihoods, families, ids and levels with parameters and data drawn by hypothesis."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sksvi import likelihoods as lk
from sksvi.decomposition._ids import plates_of, unique_ids
from sksvi.decomposition._ids import positions as id_positions
from sksvi.estimators.levels import first_levels
from sksvi.estimators.levels import positions as level_positions
from sksvi.expectations import Auto
from sksvi.families import Beta, DiagonalGaussian, Dirichlet, Gamma, Gaussian
from sksvi.likelihoods import (
    Bernoulli,
    Binomial,
    Likelihood,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)
from sksvi.likelihoods import Gaussian as GaussianNoise
from sksvi.predictive.quantiles import log_predictive

LATENT = st.floats(-20, 20)
COUNT = st.integers(0, 200).map(float)
LABEL = st.sampled_from([0.0, 1.0])
# Of a positive number its order of magnitude is what matters.
SCALE = st.floats(-3, 3).map(lambda power: 10.0**power)
MODERATE = st.floats(-1.5, 0.7).map(lambda power: 10.0**power)
POSITIVE, SHARE = st.floats(-4, 4).map(np.exp), st.floats(0.01, 0.99)
CUTS = st.lists(st.floats(0.05, 4), min_size=1, max_size=5).map(lambda gaps: np.cumsum(gaps) - np.sum(gaps) / 2)

#: Each likelihood of one latent with drawn parameters, and a value of y for it.
LIKELIHOODS: dict[str, st.SearchStrategy[tuple[Likelihood, Any]]] = {
    "logit": st.tuples(st.just(Bernoulli()), LABEL),
    "probit": st.tuples(st.just(Bernoulli(link="probit")), LABEL),
    "binomial": st.tuples(st.just(Binomial()), st.tuples(COUNT, COUNT)),
    "poisson": st.tuples(st.just(Poisson()), COUNT),
    "poisson-softplus": st.tuples(st.just(Poisson(rate="softplus")), COUNT),
    "negative-binomial": st.tuples(st.builds(NegativeBinomial, dispersion=SCALE), COUNT),
    "gaussian": st.tuples(st.builds(GaussianNoise, variance=SCALE), st.floats(-50, 50)),
    "student-t": st.tuples(st.builds(StudentT, scale=SCALE, df=st.floats(0.5, 100)), st.floats(-50, 50)),
    "gamma": st.tuples(st.builds(lk.Gamma, dispersion=MODERATE), POSITIVE),
    "inverse-gaussian": st.tuples(st.builds(lk.InverseGaussian, dispersion=MODERATE), POSITIVE),
    "log-normal": st.tuples(st.builds(lk.LogNormal, scale=MODERATE), POSITIVE),
    "weibull": st.tuples(st.builds(lk.Weibull, scale=MODERATE), POSITIVE),
    "exponential": st.tuples(st.just(lk.Exponential()), POSITIVE),
    "log-logistic": st.tuples(st.builds(lk.LogLogistic, scale=MODERATE), POSITIVE),
    "beta": st.tuples(st.builds(lk.Beta, precision=st.floats(2, 50)), SHARE),
    "beta-binomial": st.tuples(st.builds(lk.BetaBinomial, precision=st.floats(0.5, 50)), st.tuples(COUNT, COUNT)),
    "inflated-poisson": st.tuples(st.builds(lk.ZeroInflatedPoisson, zero_probability=SHARE), COUNT),
    "inflated-negative-binomial": st.tuples(
        st.builds(lk.ZeroInflatedNegativeBinomial, zero_probability=SHARE, dispersion=MODERATE), COUNT
    ),
    "hurdle-poisson": st.tuples(st.builds(lk.HurdlePoisson, zero_probability=SHARE), COUNT),
    "hurdle-negative-binomial": st.tuples(
        st.builds(lk.HurdleNegativeBinomial, zero_probability=SHARE, dispersion=MODERATE), COUNT
    ),
    "tweedie": st.tuples(st.builds(lk.Tweedie, power=st.floats(1.1, 1.9), dispersion=MODERATE), POSITIVE),
    "ordinal": CUTS.flatmap(
        lambda cuts: st.tuples(
            st.builds(Ordinal, cut_points=st.just(cuts.tolist()), slope=st.floats(0.2, 5)),
            st.integers(0, len(cuts)).map(float),
        )
    ),
}
#: Those whose y is one number with a distribution function that quantiles invert: Tweedie's has a step at 0, and shares
#: near 1 are rounded.
SCALAR = sorted(set(LIKELIHOODS) - {"binomial", "beta-binomial", "beta", "tweedie"})
#: And whose y is counted or a level.
COUNTED = ["logit", "probit", "poisson", "poisson-softplus", "negative-binomial", "ordinal", "inflated-poisson"]
COUNTED += ["inflated-negative-binomial", "hurdle-poisson", "hurdle-negative-binomial"]


def for_any(*strategies: Any, examples: int = 40) -> Callable[[Callable[..., None]], None]:
    """Run a property on drawn examples, the same ones every time."""

    def run(holds: Callable[..., None]) -> None:
        settings(max_examples=examples, deadline=None, derandomize=True)(given(*strategies)(holds))()

    return run


def at(y: Any, n: int = 1) -> np.ndarray:
    """A drawn value as n rows of a target."""
    return np.repeat(np.asarray(y)[None], n, axis=0)


def test_no_likelihood_is_left_out():
    """Softmax has a property of its own below, and what is censored is as the likelihood that it is around."""
    others = {"resolve", "Likelihood", "LikelihoodTraits", "Support"}
    others |= {"Censored", "Softmax", "Multinomial", "AsymmetricLaplace"}
    source = Path(__file__).read_text().replace("GaussianNoise", "Gaussian")
    assert not [name for name in set(lk.__all__) - others if not re.search(rf"(just|builds)\((lk\.)?{name}\b", source)]


# ---- likelihoods


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_derivatives_are_those_of_the_log_density(name):
    @for_any(LIKELIHOODS[name], LATENT)
    def holds(drawn, f):
        likelihood, y = drawn
        # In units of the scale of y, where the likelihood has one: curvature is per scale squared.
        step = 1e-5 * min(1.0, getattr(likelihood, "scale", 1.0))
        value, d1, d2 = likelihood.derivatives(at(y, 3), f + step * np.array([-1.0, 0.0, 1.0]))
        size = 1.0 + np.max(np.abs(value)) * 1e-10 / step
        assert abs((value[2] - value[0]) / (2 * step) - d1[1]) <= 1e-5 * (size + abs(d1[1]) + abs(d2[1]))
        assert abs((d1[2] - d1[0]) / (2 * step) - d2[1]) <= 1e-5 * (size + abs(d1[1]) + abs(d2[1]))
        assert not likelihood.traits.log_concave or d2[1] <= 0


@pytest.mark.parametrize("name", SCALAR)
def test_quantiles_invert_the_distribution_function(name):
    @for_any(LIKELIHOODS[name], st.floats(-8, 8), st.floats(1e-4, 1 - 1e-4))
    def holds(drawn, f, p):
        likelihood, y = drawn
        low, high = likelihood.cdf(y, f), likelihood.cdf(y + 1.0, f)
        assert 0 <= low <= high <= 1 + 1e-12
        quantile = float(likelihood.ppf(p, f))
        assert likelihood.cdf(quantile, f) >= p * (1 - 1e-8)
        if likelihood.traits.discrete:
            assert quantile == np.round(quantile)
            assert quantile == 0 or likelihood.cdf(quantile - 1.0, f) < p * (1 + 1e-9)
        else:
            assert likelihood.cdf(quantile, f) == pytest.approx(p, rel=1e-7)


@pytest.mark.parametrize("name", COUNTED)
def test_the_distribution_function_adds_up_the_mass(name):
    @for_any(LIKELIHOODS[name], st.floats(-8, 8))
    def holds(drawn, f):
        likelihood, y = drawn
        codes = np.arange(y + 1.0)
        mass = np.exp(likelihood.log_prob(codes, f))
        assert np.all(mass <= 1 + 1e-12)
        np.testing.assert_allclose(mass.sum(), likelihood.cdf(y, f), rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_expectations_keep_jensens_order(name):
    """E log p(y | f) ≤ log E p(y | f), and ≤ log p(y | E f) where log p is concave; a spread of zero is equality."""

    @for_any(LIKELIHOODS[name], st.floats(-6, 6), st.floats(-3, 1.2).map(lambda power: 10.0**power))
    def holds(drawn, m, v):
        likelihood, y = drawn
        y, m, v = at(y), np.array([m]), np.array([v])
        expected = Auto().value(likelihood, y, m, v)
        slack = 1e-7 * (1 + np.abs(expected))
        assert expected <= log_predictive(likelihood, y, m, v) + slack
        if likelihood.traits.log_concave:
            assert expected <= likelihood.log_prob(y, m) + slack
        here = likelihood.log_prob(y, m)
        np.testing.assert_allclose(Auto().value(likelihood, y, m, 0 * v), here, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(log_predictive(likelihood, y, m, 0 * v), here, rtol=1e-7, atol=1e-7)


def test_softmax_is_a_distribution_whose_gradient_sums_to_zero():
    @for_any(st.lists(st.floats(-700, 700), min_size=2, max_size=6))
    def holds(f):
        likelihood, f = Softmax(n_classes=len(f)), np.array(f)
        codes = np.arange(len(f))
        value, d1, _ = likelihood.derivatives(codes, np.tile(f, (len(f), 1)))
        assert np.exp(value).sum() == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(d1.sum(-1), 0.0, atol=1e-9)
        moved = likelihood.log_prob(codes, np.tile(f + 37.0, (len(f), 1)))
        np.testing.assert_allclose(moved, value, rtol=1e-9, atol=1e-9)


# ---- families


def numbers(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(-50, 50), min_size=n, max_size=n).map(np.array)


def scales(n: int, low: float = -3, high: float = 3) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(low, high).map(lambda power: 10.0**power), min_size=n, max_size=n).map(np.array)


def matrices(n: int) -> st.SearchStrategy[np.ndarray]:
    """Positive definite, with eigenvalues over two orders of magnitude."""
    rotation = st.integers(0, 2**32 - 1).map(
        lambda seed: np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    )
    return st.builds(lambda turn, values: (turn * values) @ turn.T, rotation, scales(n, -1, 1))


FAMILIES = {
    "Gamma": st.builds(Gamma, scales(3), scales(3)),
    "Beta": st.builds(Beta, scales(3), scales(3)),
    "Dirichlet": st.builds(Dirichlet, scales(4)),
    "DiagonalGaussian": st.builds(DiagonalGaussian, numbers(3), scales(3)),
    "Gaussian": st.builds(Gaussian, numbers(3), matrices(3)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_divergences_are_positive_and_zero_only_of_itself(name):
    @for_any(FAMILIES[name], FAMILIES[name])
    def holds(q, p):
        there, back = q.kl(p), p.kl(q)
        size = 1 + abs(there) + abs(back)
        assert min(there, back) >= -1e-9 * size
        assert abs(q.kl(q)) <= 1e-9
        assume(np.max(np.abs(q.mean - p.mean)) > 1e-3 * np.max(np.abs(q.mean) + q.std))
        assert there > 0 and back > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_natural_parameters_and_messages_lead_back(name):
    @for_any(FAMILIES[name], FAMILIES[name])
    def holds(q, p):
        for again in (p.replace(q.natural(p)), p.times(q.over(p))):
            np.testing.assert_allclose(
                again.mean, q.mean, rtol=1e-7, atol=1e-7 * np.max(np.abs(q.mean) + np.abs(p.mean))
            )
            np.testing.assert_allclose(again.std, q.std, rtol=1e-6)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet"])
def test_log_normalisers_are_convex_with_the_moments_as_slope(name):
    @for_any(FAMILIES[name], FAMILIES[name])
    def holds(q, p):
        """A(θ_p) ≥ A(θ_q) + η_q · (θ_p − θ_q): what makes a divergence one, and η the slope."""
        line = np.sum(q.log_normaliser) + np.sum(q.moments * (p.theta - q.theta))
        assert np.sum(p.log_normaliser) >= line - 1e-9 * (1 + abs(line))
        direction = p.theta - q.theta
        assume(np.max(np.abs(direction)) > 0)
        step = 1e-5 * np.min(np.abs(q.theta) + 1e-3) / np.max(np.abs(direction))
        assume(all(np.all(np.isfinite(q.of_theta(q.theta + sign * step * direction).moments)) for sign in (-1, 1)))
        ahead, behind = (np.sum(q.of_theta(q.theta + sign * step * direction).log_normaliser) for sign in (1, -1))
        slope = np.sum(q.moments * direction)
        noise = 1e-12 * (abs(ahead) + abs(behind)) / step
        size = np.sum(np.abs(q.moments * direction))
        assert abs((ahead - behind) / (2 * step) - slope) <= 1e-4 * size + noise


# ---- ids and levels

IDS = {
    "integers": st.integers(-(2**62), 2**62),
    "strings": st.text(max_size=6),
    "numbers": st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: value + 0.0),
    "booleans": st.booleans(),
    "tuples": st.tuples(st.integers(0, 3), st.text(max_size=2)),
    "mixed": st.one_of(st.integers(2, 9), st.text(max_size=3)),
}


def column(values: list[Any], kind: str) -> pd.Series:
    return pd.Series(values, dtype=object if kind in ("tuples", "mixed", "strings") else None)


@pytest.mark.parametrize("kind", IDS)
def test_ids_lead_back_to_their_rows(kind):
    @for_any(st.lists(IDS[kind], min_size=1, max_size=20), st.lists(IDS[kind], max_size=8))
    def holds(first, second):
        ids = unique_ids(column(first, kind))
        assert len(ids) == len(set(first))
        assert [ids[k] for k in id_positions(ids, column(first, kind))] == first
        if second:
            longer = unique_ids(column(second, kind), ids)
            assert list(longer[: len(ids)]) == list(ids), "ids keep their places"
            assert len(longer) == len({*first, *second})
            assert [longer[k] for k in id_positions(longer, column(second, kind))] == second
            found = id_positions(ids, column(second, kind))
            assert [k < 0 for k in found] == [value not in set(first) for value in second]


def test_missing_ids_have_plates_of_their_own():
    @for_any(st.lists(st.one_of(st.none(), st.sampled_from("abcd")), min_size=1, max_size=20))
    def holds(values):
        assume(any(value is not None for value in values))
        given_ids = pd.Series(values, dtype=object)
        ids = unique_ids(given_ids)
        plates = plates_of(ids, given_ids)
        missing = [value is None for value in values]
        assert sorted(plates[missing]) == list(range(len(ids), len(ids) + sum(missing)))
        assert [ids[k] for k in plates[~np.array(missing)]] == [value for value in values if value is not None]


LEVELS = {
    "integers": st.integers(-1000, 1000),
    "halves": st.integers(-20, 20).map(lambda value: value / 2),
    "booleans": st.booleans(),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_levels_keep_the_order_of_their_numbers(kind):
    @for_any(st.lists(LEVELS[kind], min_size=1, max_size=20))
    def holds(values):
        levels, codes = first_levels(np.array(values), "ordinal")
        assert levels.tolist() == sorted(set(values))
        assert levels[codes].tolist() == values
        assert level_positions(levels, pd.Series(values)).tolist() == codes.tolist()


def test_levels_keep_the_order_that_a_categorical_gives():
    names = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6, unique=True)

    @for_any(names.flatmap(lambda order: st.tuples(st.just(order), st.lists(st.sampled_from(order), min_size=1))))
    def holds(drawn):
        order, values = drawn
        given_order = pd.Series(pd.Categorical(values, categories=order, ordered=True))
        levels, codes = first_levels(given_order, "ordinal")
        assert levels.tolist() == order
        assert [order[code] for code in codes] == values
        with pytest.raises(ValueError, match="a level that is not in"):
            level_positions(levels, pd.Series([*values, "longer than any of them"]))
