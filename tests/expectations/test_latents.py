"""Expectations: accuracy against dense quadrature, derivatives, unbiasedness, independence of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from sksvi.expectations import Auto, GaussHermite, MonteCarlo, Quadrature, resolve
from sksvi.integrals.quadrature import HERMITE_LIMITS, hermite
from sksvi.integrals.race import race
from sksvi.likelihoods import (
    Bernoulli,
    Binomial,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)
from sksvi.predictive.quantiles import log_predictive

Z = np.linspace(-9.0, 9.0, 100_001)
W = np.exp(-0.5 * Z**2)
W /= W.sum()
SCALES = [0.0, 1e-3, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0, 1.3, 2.0, 3.0, 10.0, 15.0, 30.0, 100.0]
CASES = {
    "logit": (Bernoulli(), 1.0, 1e-6),
    "probit": (Bernoulli(link="probit"), 1.0, 3e-6),
    "binomial": (Binomial(), np.array([3.0, 2.0]), 1e-6),
    "softplus-0": (Poisson(rate="softplus"), 0.0, 1e-6),
    "softplus-4": (Poisson(rate="softplus"), 4.0, 1e-6),
    "negative-binomial": (NegativeBinomial(dispersion=0.7), 5.0, 1e-6),
    "student": (StudentT(scale=0.5, df=4.0), 0.7, 1e-6),
    "ordinal": (Ordinal(cut_points=[-1.0, 0.5, 2.0]), 2, 1e-6),
    "ordinal-steep": (Ordinal(cut_points=[-0.4, 0.5], slope=20.0), 1, 1e-6),
}


def dense(likelihood, y, m, sd):
    """E l, E l', E l'' / 2 and the scale of each, by 100,001 nodes."""
    f = m + sd * Z
    parts = likelihood.derivatives(np.broadcast_to(y, (1, *np.shape(y))), f)
    return [(scale * part @ W, scale * np.abs(part) @ W) for scale, part in zip((1.0, 1.0, 0.5), parts, strict=True)]


#: Deviations on both sides of every change of rule of expectations by tables too.
TABLE_SCALES = [*SCALES, 0.139, 0.141, 0.279, 0.281, 0.559, 0.561, 1.119, 1.121, 60.0, 90.0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("rule", "sd"), [(Quadrature(), sd) for sd in SCALES] + [(Auto(), sd) for sd in TABLE_SCALES])
def test_quadrature_is_accurate_at_every_sd(name, rule, sd):
    likelihood, y, tolerance = CASES[name]
    m = np.array([-3.0, -0.7, 0.4, 2.0]) * (likelihood.width + 0.7 * sd)
    found = rule(likelihood, np.repeat(np.asarray(y)[None], 4, axis=0), m, np.full(4, sd**2))
    for i, mean in enumerate(m):
        for value, (wanted, scale) in zip(found, dense(likelihood, y, mean, sd), strict=True):
            assert abs(value[i] - wanted) <= tolerance * scale + 1e-300


@pytest.mark.parametrize(("n", "limit"), HERMITE_LIMITS)
def test_hermite_limits_keep_their_promise(n, limit):
    nodes, weights = hermite(n)
    for m in np.linspace(-6.0, 6.0, 13):
        values = Bernoulli().derivatives(1.0, m + limit * nodes)
        for value, (wanted, scale), factor in zip(values, dense(Bernoulli(), 1.0, m, limit), (1, 1, 0.5), strict=True):
            assert abs(factor * value @ weights - wanted) <= 1e-7 * scale


def test_quadrature_serves_any_sd():
    for likelihood, y, _ in CASES.values():
        y = np.repeat(np.asarray(y)[None], 3, axis=0)
        for sd in (1e4, 1e12, 1e60):
            for part in Quadrature()(likelihood, y, np.array([-1.0, 0.0, 2.0]) * sd, np.full(3, sd**2)):
                assert np.all(np.isfinite(part))


@pytest.mark.costly
@pytest.mark.parametrize("name", ["logit", "binomial", "negative-binomial"])
def test_tables_hold_far_from_zero_and_rows_beyond_them_have_nodes(name, global_random_seed):
    likelihood, y, _ = CASES[name]
    rng = np.random.default_rng(global_random_seed)
    sd = np.concatenate([np.exp(rng.uniform(np.log(1e-3), np.log(300.0), 200)), [200.0, 1.0, 2.0, 0.0]])
    # Where sd is large and m is farther than that, all that is left lies in what every rule cuts off.
    far = np.where(sd[:200] < 1.0, 60.0, 3.0 * sd[:200])
    m = np.concatenate([rng.uniform(-far, far), [0.0, 1e3, -1e9, 30.0]])
    v = np.square(sd)
    y = np.repeat(np.asarray(y)[None], len(m), axis=0)
    by_table, by_nodes = Auto()(likelihood, y, m, v), Quadrature()(likelihood, y, m, v)
    scales = np.array([[scale for _, scale in dense(likelihood, *row)] for row in zip(y, m, sd, strict=True)]).T
    for found, wanted, scale in zip(by_table, by_nodes, scales, strict=True):
        # A slope that is nearly 0 is a sum that cancels: 2e-8 of what is summed are let off.
        assert np.all(np.abs(found - wanted) <= 2e-6 * np.abs(wanted) + 2e-8 * scale + 1e-12)
    one_by_one = [Auto()(likelihood, y[i : i + 1], m[i : i + 1], v[i : i + 1]) for i in range(len(m))]
    for k, found in enumerate(by_table):
        np.testing.assert_array_equal(found, [row[k][0] for row in one_by_one])
    narrow = Auto()(likelihood, y.astype(np.float32), m.astype(np.float32), v.astype(np.float32))
    assert all(part.dtype == np.float32 for part in narrow)


def test_a_wide_posterior_tends_to_the_kink():
    # E log(1 + exp(f)) -> E max(f, 0), E sigmoid'(f) -> N(0 | m, v)
    sd = 1e6
    value, dm, dv = Quadrature()(Bernoulli(), np.zeros(1), np.zeros(1), np.array([sd**2]))
    np.testing.assert_allclose([value[0] / sd, dm[0], 2 * dv[0] * sd], [-0.3989422804, -0.5, -0.3989422804], rtol=1e-6)


@pytest.mark.parametrize("likelihood", [Poisson(), Gaussian(variance=0.4)])
def test_closed_forms(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, m, v = np.arange(6.0), rng.normal(size=6), rng.gamma(1.0, size=6)
    for rule in (Auto(), Quadrature()):
        for a, b in zip(rule(likelihood, y, m, v), GaussHermite(n=80)(likelihood, y, m, v), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_probit_predictive_closed_form():
    m, v = np.array([-2.0, 0.3, 4.0]), np.array([0.1, 2.0, 9.0])
    probit = Bernoulli(link="probit")
    by_nodes = Quadrature().integrate(lambda f, rows: probit.mean(f), probit, m, v)
    np.testing.assert_allclose(by_nodes, probit.expected_mean(m, v), rtol=2e-6)


@pytest.mark.parametrize("rule", [Quadrature(), GaussHermite(n=7), Auto()])
@pytest.mark.parametrize("name", CASES)
def test_the_value_alone_is_that_with_derivatives(rule, name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y, _ = CASES[name]
    m, v = rng.normal(scale=3.0, size=60), np.exp(rng.normal(scale=3.0, size=60))
    y = np.repeat(np.asarray(y)[None], 60, axis=0)
    np.testing.assert_array_equal(rule.value(likelihood, y, m, v), rule(likelihood, y, m, v)[0])


def test_the_value_of_several_latents_and_of_closed_forms():
    m, v = np.array([[0.3, -0.2, 1.0]]), np.array([[0.5, 1.0, 2.0]])
    softmax = Softmax(n_classes=3)
    np.testing.assert_array_equal(Auto().value(softmax, np.ones(1), m, v), Auto()(softmax, np.ones(1), m, v)[0])
    for likelihood in (Poisson(), Gaussian(variance=0.3)):
        y, m, v = np.array([0.0, 2.0]), np.array([0.1, 0.5]), np.array([0.2, 3.0])
        for rule in (Auto(), Quadrature()):
            np.testing.assert_array_equal(rule.value(likelihood, y, m, v), rule(likelihood, y, m, v)[0])


@pytest.mark.parametrize("rule", [Quadrature(), Auto()])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("likelihood", [Gaussian(), NegativeBinomial(), StudentT(), Ordinal()])
def test_parameter_sums_are_the_sums_of_the_parameters(rule, weighted, likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = np.append(rng.integers(0, 4, size=50), [0, 1, 2, 3]).astype(float)
    m, v = rng.normal(size=len(y)), rng.gamma(2.0, size=len(y))
    weight = rng.uniform(0.0, 3.0, size=len(y)) if weighted else None
    fitted = likelihood.start(y)
    # A block of data may lack a level, or have no rows.
    for part in (slice(0, len(y)), np.flatnonzero(y == 1), slice(0, 0)):
        g, h = rule.parameters(fitted, y[part], m[part], v[part])
        w = np.ones(len(g)) if weight is None else weight[part]
        sums = rule.parameter_sums(fitted, y[part], m[part], v[part], None if weight is None else w)
        np.testing.assert_allclose(sums[0], w @ g, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(sums[1], np.tensordot(w, h, 1), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rule", [Quadrature(), GaussHermite(n=7), Auto()])
@pytest.mark.parametrize("name", [*CASES, "softmax"])
def test_rows_do_not_depend_on_each_other(rule, name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 90
    v = np.exp(rng.normal(scale=3.0, size=n))
    m = rng.normal(size=n)
    if name == "softmax":
        if isinstance(rule, GaussHermite):
            pytest.skip("gauss-hermite integrates over one f")
        likelihood, y = Softmax(n_classes=3), rng.integers(0, 3, size=n)
        m, v = rng.normal(size=(n, 3)), v[:, None] * rng.uniform(0.5, 2.0, size=(n, 3))
    else:
        likelihood, y, _ = CASES[name]
        y = np.repeat(np.asarray(y)[None], n, axis=0)
    together = rule(likelihood, y, m, v)
    order = rng.permutation(n)
    for start, stop in ((0, 1), (1, 3), (3, 40), (40, n)):
        rows = order[start:stop]
        for a, b in zip(together, rule(likelihood, y[rows], m[rows], v[rows]), strict=True):
            np.testing.assert_array_equal(a[rows], b)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Ordinal(cut_points=[-1.0, 1.0])])
def test_monte_carlo_is_unbiased(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, m, v = np.ones(3), np.array([-1.0, 0.0, 2.0]), np.array([0.1, 1.0, 4.0])
    wanted = Quadrature()(likelihood, y, m, v)
    draws = [MonteCarlo(n=10)(likelihood, y, m, v, rng) for _ in range(1000)]
    for k in range(3):
        part = np.stack([draw[k] for draw in draws])
        assert np.all(np.abs(part.mean(axis=0) - wanted[k]) <= 4 * part.std(axis=0) / np.sqrt(len(draws)))


def test_monte_carlo_softmax_is_unbiased(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = Softmax(n_classes=4), np.array([0, 2])
    m, v = rng.normal(size=(2, 4)), np.array([[0.01, 0.5, 1.0, 2.0], [9.0, 0.2, 4.0, 0.0]])
    wanted = Quadrature()(likelihood, y, m, v)
    draws = [MonteCarlo(n=20)(likelihood, y, m, v, rng) for _ in range(1000)]
    for k in range(3):
        part = np.stack([draw[k] for draw in draws])
        error = part.std(axis=0) / np.sqrt(len(draws)) + 1e-6
        assert np.all(np.abs(part.mean(axis=0) - wanted[k]) <= 4 * error)


@pytest.mark.parametrize("sd", [0.0, 1e-3, 0.1, 0.4, 0.7, 0.9, 1.0, 1.25, 1.5, 1.9, 2.5, 4.0, 10.0, 100.0])
def test_race_of_two_is_the_logistic(sd, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    m = rng.normal(size=(30, 2)) * max(sd, 1.0)
    v = np.broadcast_to(np.array([sd, 0.3 * sd]) ** 2, m.shape)
    log_sum, p, q = race(m, v)
    value, dm, dv = Quadrature()(Bernoulli(), np.ones(30), m[:, 0] - m[:, 1], v.sum(axis=1))
    np.testing.assert_allclose(p[:, 0], 1.0 - dm, atol=1e-6)
    np.testing.assert_allclose(q[:, 0], -2.0 * dv, atol=1e-6)
    np.testing.assert_allclose(log_sum, m[:, 0] - value, atol=2e-6 * max(sd, 1.0))


def test_race_against_samples(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for k in (3, 10, 20):
        m, sd = 2 * rng.normal(size=(1, k)), rng.gamma(1.0, size=(1, k))
        log_sum, p, q = race(m, sd**2)
        f = m + sd * rng.standard_normal((100_000, k))
        likelihood = Softmax(n_classes=k)
        parts = ((np.logaddexp.reduce(f, axis=1)[:, None], log_sum), (likelihood.mean(f), p[0]),
                 (likelihood.conditional_variance(f), q[0]))  # fmt: skip
        for draws, wanted in parts:
            error = draws.std(axis=0) / np.sqrt(len(f)) + 1e-6
            assert np.all(np.abs(draws.mean(axis=0) - wanted) <= 4.5 * error)
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)


def test_race_of_far_apart_and_certain_classes():
    m = np.array([[0.0, 1e4, -1e4], [5.0, 5.0, 5.0]])
    log_sum, p, q = race(m, np.array([[1.0, 0.0, 100.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(p, [[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-8)
    np.testing.assert_allclose(q[0], 0.0, atol=1e-8)
    np.testing.assert_allclose(log_sum, [1e4, 5 + np.log(3)], rtol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (Gaussian(), np.array([0.0, 1.0, 2.0])),
        (NegativeBinomial(), np.array([0.0, 3.0, 9.0])),
        (StudentT(), np.array([0.0, 1.0, 5.0])),
        (Ordinal(), np.array([0, 1, 2])),
    ],
)
def test_parameters_are_the_derivatives_of_the_expected_value(likelihood, y):
    likelihood = likelihood.start(y)
    m, v = np.array([-0.3, 0.2, 1.0]), np.array([0.0, 0.5, 5.0])
    g, h = Quadrature().parameters(likelihood, y, m, v)
    start, step = likelihood.unconstrained, 1e-4
    assert g.shape == (3, len(start))
    assert h.shape == (3, len(start), len(start))
    for p, unit in enumerate(step * np.eye(len(start))):
        high, low = likelihood.replace(start + unit), likelihood.replace(start - unit)
        slope = (Quadrature()(high, y, m, v)[0] - Quadrature()(low, y, m, v)[0]) / (2 * step)
        np.testing.assert_allclose(slope, g[:, p], atol=2e-5)
        curve = (Quadrature().parameters(high, y, m, v)[0] - Quadrature().parameters(low, y, m, v)[0]) / (2 * step)
        np.testing.assert_allclose(curve, h[:, p], atol=2e-5)


def test_nothing_learned_has_no_parameters():
    g, h = Quadrature().parameters(Poisson(), np.ones(4), np.zeros(4), np.ones(4))
    for rule in (Quadrature(), Auto()):
        for likelihood in (Poisson(), Ordinal(cut_points=[-1.0, 1.0]), Gaussian(variance=1.0)):
            sums = rule.parameter_sums(likelihood, np.ones(4), np.zeros(4), np.ones(4))
            assert [part.shape for part in sums] == [(0,), (0, 0)]
    assert g.shape == (4, 0)
    assert h.shape == (4, 0, 0)


@pytest.mark.parametrize("rule", [Auto(), Quadrature(), GaussHermite(n=5), MonteCarlo(n=3)])
def test_no_rows_and_one_row(rule, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for n in (0, 1):
        for part in rule(Bernoulli(), np.ones(n), np.zeros(n), np.ones(n), rng):
            assert part.shape == (n,)


@pytest.mark.parametrize("name", [*CASES, "softmax"])
def test_float32_in_float32_out(name):
    likelihood, y, _ = CASES.get(name, (Softmax(n_classes=3), 1, None))
    m, v = np.linspace(-2, 2, 6), np.array([0.0, 0.01, 0.3, 1.0, 9.0, 1000.0])
    y = np.repeat(np.asarray(y)[None], 6, axis=0)
    if name == "softmax":
        m, v = np.stack([m, -m, 0.5 * m], axis=1), np.stack([v, v, v], axis=1)
    single = Quadrature()(likelihood, y, m.astype(np.float32), v.astype(np.float32))
    for a, b in zip(single, Quadrature()(likelihood, y, m, v), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=3e-4, atol=3e-5)


def log_mean(likelihood, y, m, sd):
    exponent = likelihood.log_prob(np.broadcast_to(y, (1, *np.shape(y))), m + sd * np.linspace(-12, 12, 400_001))
    exponent = exponent - 0.5 * np.linspace(-12, 12, 400_001) ** 2
    top = exponent.max()
    return top + np.log(np.exp(exponent - top).sum() * (24 / 400_000)) - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize(
    ("likelihood", "targets"),
    [
        (Bernoulli(), [0.0, 1.0]),
        (Bernoulli(link="probit"), [1.0]),
        (Binomial(), [np.array([40.0, 2.0])]),
        (Poisson(), [0.0, 3.0, 100.0, 1e4]),
        (Poisson(rate="softplus"), [0.0, 50.0]),
        (NegativeBinomial(dispersion=0.3), [0.0, 7.0, 1000.0]),
        (StudentT(scale=0.1, df=4.0), [0.0, 6.0]),
        (StudentT(scale=0.02, df=80.0), [0.0, 3.0]),
        (Ordinal(cut_points=[-1.0, 0.0, 2.0], slope=3.0), [0, 1, 3]),
        (Gaussian(variance=0.3), [1.0]),
    ],
)
@pytest.mark.parametrize("sd", [0.01, 0.3, 1.0, 4.0])
def test_log_predictive(likelihood, targets, sd):
    for y in targets:
        for m in (-2.0, 0.5, 4.0):
            found = log_predictive(likelihood, np.asarray(y)[None], np.array([m]), np.array([sd**2]))[0]
            wanted = log_mean(likelihood, y, m, sd)
            if wanted > -60.0:  # beyond, the reference's own range of 12 sd may cut the mass
                assert found == pytest.approx(wanted, abs=1e-6)


def test_log_predictive_without_variance_is_log_prob():
    m = np.array([-1.0, 0.0, 30.0])
    for likelihood in (Bernoulli(), Poisson(), StudentT(scale=1.0, df=3.0), Ordinal(cut_points=[0.0])):
        found = log_predictive(likelihood, np.ones(3), m, np.zeros(3))
        np.testing.assert_allclose(found, likelihood.log_prob(np.ones(3), m), rtol=1e-8, atol=1e-12)


def test_messages():
    with pytest.raises(ValueError, match="'gauss-hermite', 'monte-carlo'"):
        resolve("exact")
    with pytest.raises(ValueError, match="integer >= 1"):
        GaussHermite(n=0)(Bernoulli(), np.ones(1), np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="rng"):
        MonteCarlo()(Bernoulli(), np.ones(1), np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match=r"found -1\.0 in row 1"):
        Quadrature()(Bernoulli(), np.ones(2), np.zeros(2), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="monte-carlo"):
        GaussHermite()(Softmax(n_classes=3), np.ones(1), np.zeros((1, 3)), np.ones((1, 3)))
    given = GaussHermite(n=5)
    assert resolve(given) is not given
    assert resolve("auto").exact and not resolve("monte-carlo").exact


@pytest.mark.parametrize("sd", [0.5, 3.0, 100.0, 1000.0])
def test_two_classes_are_one_integral(sd):
    """E log sum exp of two is E f_1 + E log(1 + exp(f_2 - f_1)), of one normal difference."""
    m, v = np.array([[0.3, -0.4]]), np.full((1, 2), sd**2)
    spread = np.sqrt(2.0) * sd
    z, height = np.linspace(-12.0, 12.0, 400_001), 24.0 / 400_000
    wanted = 0.3 + height * norm.pdf(z) @ np.logaddexp(0.0, -0.7 + spread * z)
    assert race(m, v)[0][0] == pytest.approx(wanted, abs=1e-6 if sd < 1 else 1e-5 * sd)
