"""The updates themselves, on blocks without a model."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest

from sksvi import algorithms, schedules
from sksvi.algorithms import ALGORITHMS, VARIATIONAL, Algorithm
from sksvi.algorithms.rules import Fixed, StepSize
from sksvi.algorithms.steps import (
    ADAM_DELAY,
    ADAM_FIRST,
    ADAM_RATE,
    ADAM_SECOND,
    MAX_HALVINGS,
    SECANT_BENDS,
    SECANT_REACH,
    TRUSTED_SPREAD,
    AdaGradMemory,
    FlatMemory,
    adam_step,
    beyond_step,
    euclidean_step,
    flat_step,
    hybrid_step,
    natural_step,
    secant_step,
    shortened,
    site_step,
    trusted_root,
    trusted_step,
)
from sksvi.families import DiagonalGaussian, Free, Gamma, Gaussian, NotPositiveDefinite, Rayleigh, StandardGaussian
from sksvi.families.base import between
from sksvi.schedules import AdaDelta, AdaGrad, Constant, RobbinsMonro


class Quadratic:
    """E log p = b·m - (mᵀA m + tr A S) / 2: a Gaussian likelihood, whose optimum is known."""

    def __init__(self, size, seed, full=True):
        rng = np.random.default_rng(seed)
        factor = rng.standard_normal((size, size))
        self.a = factor @ factor.T / size + 0.3 * np.eye(size)
        self.b = rng.standard_normal(size)
        self.full = full
        self.prior = DiagonalGaussian(rng.standard_normal(size), rng.uniform(0.5, 2.0, size))
        precision = self.a + np.diag(self.prior.precision)
        self.mean = np.linalg.solve(precision, self.b + self.prior.precision * self.prior.mean)
        self.precision = precision if full else np.diag(precision)

    def start(self):
        size = len(self.b)
        return (
            Gaussian(np.zeros(size), 2.0 * np.eye(size))
            if self.full
            else DiagonalGaussian(np.zeros(size), np.ones(size))
        )

    def gradient(self, q):
        return self.b - self.a @ q.mean, -0.5 * (self.a if self.full else np.diag(self.a))

    def bound(self, q):
        return self.b @ q.mean - 0.5 * (q.mean @ self.a @ q.mean + np.sum(self.a * q.cov)) - q.kl(self.prior)


KINDS = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])


def test_natural_step_reaches_a_conjugate_optimum_at_once(global_random_seed):
    target = Quadratic(4, global_random_seed)
    q = natural_step(target.start(), target.prior, target.gradient(target.start()), 1.0)
    np.testing.assert_allclose(q.mean, target.mean, rtol=1e-10)
    np.testing.assert_allclose(q.precision, target.precision, rtol=1e-12)


@KINDS
def test_natural_step_is_the_weighted_mean_of_natural_parameters(full, global_random_seed):
    """ρ of the prior and its messages to 1 - ρ of q, in the natural parameters themselves, to 1e-10."""
    target = Quadratic(3, global_random_seed, full)
    q, rate = target.start().replace((np.ones(3), target.start().precision)), 0.3
    g, curvature = target.gradient(q)
    new = natural_step(q, target.prior, (g, curvature), rate)
    precision = (1 - rate) * q.precision + rate * (target.prior.precision_like(q) - 2 * curvature)
    bend = curvature @ q.mean if full else curvature * q.mean
    linear = (1 - rate) * q.dot(q.mean) + rate * (target.prior.dot(target.prior.mean) + g - 2 * bend)
    np.testing.assert_allclose(new.precision, precision, rtol=1e-12)
    np.testing.assert_allclose(new.dot(new.mean), linear, rtol=1e-10)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_prior_that_moved_moves_all_of_a_damped_step(rate, global_random_seed):
    """What the data said stays as it was said: a share of the old prior in its place would be read as data."""
    target = Quadratic(3, global_random_seed)
    q = natural_step(target.start(), target.prior, target.gradient(target.start()), 1.0)
    moved = DiagonalGaussian(target.prior.mean + 1.0, 7.0 * target.prior.precision)
    new = natural_step(q, moved, target.gradient(q), rate, target.prior)
    wanted = moved.times(q.over(target.prior))
    np.testing.assert_allclose(new.mean, wanted.mean, rtol=1e-10)
    np.testing.assert_allclose(new.precision, wanted.precision, rtol=1e-12)


@KINDS
def test_a_step_of_rate_zero_stays(full, global_random_seed):
    target = Quadratic(3, global_random_seed, full)
    new = natural_step(target.start(), target.prior, target.gradient(target.start()), 0.0)
    np.testing.assert_array_equal(new.mean, target.start().mean)
    np.testing.assert_array_equal(new.precision, target.start().precision)


@pytest.mark.costly
@KINDS
@pytest.mark.parametrize("name", VARIATIONAL)
def test_every_algorithm_climbs_to_the_optimum(name, full, global_random_seed):
    """A small step goes uphill, many reach the optimum."""
    target = Quadratic(3, global_random_seed, full)
    rule, n = algorithms.resolve(name).rule(target.start()), 100.0
    q, memory = rule.start(target.start(), n)
    assert rule.knows(memory)
    bounds = [target.bound(q)]
    small = rule.step("w", {"w": q}, target.prior, target.gradient(q), memory, StepSize(1e-3, 1e-3, n)).block
    assert target.bound(small) > bounds[0]
    for _ in range(3000):
        pace = StepSize(0.5, 0.05 if memory else 0.5, n)
        q, memory, _ = rule.step("w", {"w": q}, target.prior, target.gradient(q), memory, pace)
        bounds.append(target.bound(q))
    np.testing.assert_allclose(q.mean, target.mean, atol=2e-3)
    best = target.bound(type(target.start())(target.mean, target.precision))
    assert best - 1e-3 <= bounds[-1] <= best + 1e-9


@KINDS
def test_adagrad_in_whitened_coordinates_ignores_units(full, global_random_seed):
    """Rescaled columns: the same path in the columns' new units."""
    target = Quadratic(3, global_random_seed, full)
    units = np.array([1e-3, 1.0, 50.0])
    paths = []
    for scale in (np.ones(3), units):
        prior = DiagonalGaussian(target.prior.mean * scale, target.prior.precision / scale**2)
        start = target.start()
        bend = np.outer(scale, scale) if full else scale**2
        q = type(start)(start.mean * scale, start.precision / bend).standard()
        memory = AdaGradMemory.start(q, 100.0)
        for _ in range(5):
            g, curvature = target.gradient(type(q)(q.mean / scale, q.root / scale))
            q, memory = euclidean_step(q, prior, (g / scale, curvature / bend), memory, AdaGrad(), 100.0)
        paths.append((q.mean / scale, q.std / scale))
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-9)


@KINDS
def test_a_gradient_step_changes_no_spread_by_more_than_half(full, global_random_seed):
    """In coordinates where q is standard, whatever noise asks for; a short step is left as it is."""
    rng = np.random.default_rng(global_random_seed)
    root = np.tril(rng.standard_normal((4, 4))) + 2 * np.eye(4) if full else rng.uniform(0.1, 5.0, 4)
    step = np.tril(rng.standard_normal((4, 4))) if full else rng.standard_normal(4)
    cut = trusted_root(root, 1e3 * step, full)
    relative = cut @ np.linalg.inv(root) if full else cut / root
    change = np.linalg.norm(relative, axis=0) if full else np.abs(relative)
    assert np.max(change) == pytest.approx(TRUSTED_SPREAD)
    np.testing.assert_allclose(cut / np.abs(cut).max(), step / np.abs(step).max(), atol=1e-12)
    np.testing.assert_array_equal(trusted_root(root, 1e-3 * step, full), 1e-3 * step)
    both = trusted_root(np.stack([root, root]), np.stack([1e3 * step, 1e-3 * step]), full)
    np.testing.assert_allclose(both, np.stack([cut, 1e-3 * step]), rtol=1e-10)


@KINDS
def test_hybrid_step_moves_the_covariance_as_the_natural_step(full, global_random_seed):
    target = Quadratic(3, global_random_seed, full)
    q, memory = target.start(), AdaGradMemory.start(target.start(), 10.0)
    new, moved = hybrid_step(q, target.prior, target.gradient(q), 0.4, memory, AdaGrad(), 10.0)
    wanted = natural_step(q, target.prior, target.gradient(q), 0.4)
    np.testing.assert_array_equal(new.precision, wanted.precision)
    in_mean = target.prior.dot(target.prior.mean - q.mean) + target.gradient(q)[0]
    assert (new.mean - q.mean) @ in_mean > 0
    assert np.all(moved.mean >= memory.mean)


@KINDS
def test_raised_sums_make_no_step_longer_than_a_natural_one(full, global_random_seed):
    """Of plates, each with a share of its own, in coordinates where `unit` is standard."""
    rng, share, n, adagrad = np.random.default_rng(global_random_seed), np.array([0.3, 0.02]), 50.0, AdaGrad()
    if full:
        unit, root = (np.tril(rng.uniform(-0.5, 0.5, (2, 3, 3))) + np.eye(3) for _ in range(2))
    else:
        unit, root = rng.uniform(0.5, 2.0, (2, 2, 3))
    q = StandardGaussian(np.zeros((2, 3)), root)
    memory = AdaGradMemory(unit, np.zeros((2, 3)), np.zeros_like(unit), 4.0).raised(q, share, n, adagrad)
    assert memory.mean.shape == q.mean.shape and memory.root.shape == root.shape
    back = np.linalg.inv(unit) if full else 1.0 / unit
    variance = np.diagonal(np.swapaxes(back, 1, 2) @ q.cov @ back, axis1=1, axis2=2) if full else (root * back) ** 2
    natural = share[:, None] * variance
    slope = 1e-6 * rng.standard_normal((2, 3))
    step, _ = memory.mean_step(slope, adagrad, n, 0.0 * natural)
    moved = np.einsum("pk,pkj->pj", step, back) if full else step * back
    inner = np.einsum("pjk,pk->pj", unit, slope) if full else unit * slope
    np.testing.assert_allclose(moved, natural * inner, rtol=1e-3)
    slope = 1e-6 * rng.standard_normal(root.shape)
    step, _ = memory.root_step(slope, adagrad, n, 0.0 * natural)
    inner = np.tril(slope @ np.swapaxes(unit, 1, 2)) if full else unit * slope
    np.testing.assert_allclose(
        step @ back if full else step * back, (natural[:, None] if full else natural) * inner, rtol=1e-3
    )
    higher = memory.raised(q, 0.5 * share, n, adagrad)
    assert np.all(higher.mean >= memory.mean) and np.all(higher.root >= memory.root)
    lower = memory.raised(q, 2.0 * share, n, adagrad)
    np.testing.assert_array_equal(lower.mean, memory.mean)
    np.testing.assert_array_equal(lower.root, memory.root)


def test_adagrad_is_that_of_duchi():
    adagrad, total = AdaGrad(rate=0.1), np.zeros(2)
    gradients = np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]])
    for t, g in enumerate(gradients):
        step, total = adagrad.step(g, total)
        np.testing.assert_allclose(step, 0.1 * g / np.sqrt((gradients[: t + 1] ** 2).sum(0) + 1e-12))


def test_adadelta_is_that_of_zeiler():
    """Algorithm 1 there, with a rate in front that the means of squared steps do not see."""
    rule = AdaDelta(rate=0.5, decay=0.9, epsilon=1e-2)
    gradients = np.array([[[1.0, -2.0, 0.1]], [[0.5, 0.0, 3.0]], [[3.0, 1.0, -0.2]]])
    means, steps = rule.begin(gradients[0]), np.zeros((0, 1, 3))
    for t, g in enumerate(gradients):
        step, means = rule.step(g, means)
        weights = 0.1 * 0.9 ** np.arange(t + 1)[::-1]
        squares, moved = (np.tensordot(w, a**2, 1) for w, a in ((weights, gradients[: t + 1]), (weights[1:], steps)))
        wanted = g * np.sqrt((moved + 1e-2) / (squares + 1e-2))
        np.testing.assert_allclose(step, 0.5 * wanted, rtol=1e-12)
        steps = np.concatenate([steps, wanted[None]])


def test_adadeltas_first_step_is_as_long_as_is_said():
    step, _ = AdaDelta().step(np.array([-1e3, 1e3]), AdaDelta().begin(np.zeros(2)))
    np.testing.assert_allclose(step, [-np.sqrt(1e-6 / 0.05), np.sqrt(1e-6 / 0.05)], rtol=1e-9)


class Line:
    """A block of one number whose slope is handed over, and which has little information of its own."""

    stretch = np.ones(1)

    def fisher(self, v):
        return 1e-3 * v

    def __init__(self, value):
        self.standard_values = np.array([value])

    def standard_gradient(self, prior, gradient):
        return gradient[0]

    def at(self, values):
        return Line(values[0])


def known(information):
    """The curvature in the moment with which `Line` has this information in its coordinate."""
    return np.array([[(1e-3 - information) / 1e-6]])


def secants(slope, start, n, information, damping=1.0):
    """Coordinates of n secant steps along the zero of a slope."""
    q, memory, path = Line(start), None, [start]
    for _ in range(n):
        gradient = (np.array([slope(q.standard_values[0])]), known(information))
        q, memory, _ = secant_step(q, None, gradient, damping, memory)
        path.append(q.standard_values[0])
    return path


@pytest.mark.parametrize("share", [0.75, 1.4])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_secant_step_is_at_the_zero_of_a_line_at_once(side, share):
    """The first is by what the rows know, the others at the zero of the line where that is near it."""
    bend = 5.0 * share

    def line(x):
        return bend * (3.0 - x)

    path = secants(line, 3.0 - 0.6 * side, 2, 5.0)
    np.testing.assert_allclose(np.diff(path), side * 0.6 * np.array([share, 1.0 - share]))
    path = secants(line, 3.0 - 2.6 * side, 3, 5.0)
    np.testing.assert_allclose(np.diff(path), side * np.array([SECANT_REACH, SECANT_REACH, 0.6]))
    np.testing.assert_allclose(np.diff(secants(line, 3.0 - 2.6 * side, 1, 5.0, 0.3)), 0.3 * side)


def test_a_secant_step_trusts_no_bend_far_from_what_rows_know():
    here, gradient = Line(1.0), (np.array([2.0]), known(10.0))
    least, most = 10.0 * np.array(SECANT_BENDS)
    # The slope stays, rises, and falls much faster along the last step than rows know.
    for its_slope, bend in ((2.0, least), (0.5, least), (20.0, most)):
        moved, memory, gain = secant_step(here, None, gradient, 1.0, (np.array([0.8]), np.array([its_slope])))
        np.testing.assert_allclose(moved.standard_values, 1.0 + 2.0 / bend)
        assert gain == pytest.approx(0.5 * 2.0**2 / bend)
        np.testing.assert_array_equal(memory, [[1.0], [2.0]])
    # Nothing moved: by what rows know.
    moved, *_ = secant_step(here, None, gradient, 1.0, (np.array([1.0]), np.array([7.0])))
    np.testing.assert_allclose(moved.standard_values, 1.2)
    still, _, gain = secant_step(here, None, (np.zeros(1), known(10.0)), 1.0, None)
    np.testing.assert_array_equal(still.standard_values, [1.0])
    assert gain == 0.0


@pytest.mark.parametrize("curvature", [0.0, -0.5])
@pytest.mark.parametrize("slope", [1e-3, -0.5, 40.0])
def test_a_first_secant_step_is_natural_up_to_an_e_fold(slope, curvature):
    """Else a block at its optimum would promise the gain of an e-fold; what rows know makes it shorter."""
    q = Rayleigh(2.0)
    moment = 4.0 * q.scale**2
    gradient = ((slope - q.standard_gradient(q, (np.zeros(1),))) / moment, np.array([[curvature]]))
    moved, *_ = secant_step(q, q, gradient, 1.0, None)
    wanted = np.clip(slope / (4.0 - curvature * moment**2), -SECANT_REACH, SECANT_REACH)
    np.testing.assert_allclose(np.log(moved.scale / q.scale), wanted)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_a_trusted_step_is_the_natural_one_within_a_factor_of_two(rate):
    q, prior = Rayleigh(2.0), Rayleigh(1.5)
    small = (np.array([0.01]),)
    np.testing.assert_allclose(
        trusted_step(q, prior, small, rate).scale, natural_step(q, prior, small, rate).scale, rtol=1e-12
    )
    np.testing.assert_allclose(trusted_step(q, prior, (np.array([-1e6]),), rate).scale, 1.0)
    np.testing.assert_allclose(trusted_step(q, prior, (np.array([1e6]),), rate).scale, 4.0)


def test_a_flat_step_is_adagrad_in_standard_coordinates():
    q, prior, adagrad, n = Rayleigh(2.0), Rayleigh(1.5), AdaGrad(rate=0.7), 20.0
    memory = FlatMemory.start(q)
    np.testing.assert_array_equal(memory.total, [0.0])
    total = 0.0
    for g in (0.5, -1.0, 0.1):
        slope = q.standard_gradient(prior, (np.array([g]),))
        unit = memory.unit * slope / n
        total += unit**2
        wanted = q.standard_values + memory.unit * 0.7 * unit / np.sqrt(total + adagrad.epsilon)
        q, memory = flat_step(q, prior, (np.array([g]),), memory, adagrad, n)
        np.testing.assert_allclose(q.standard_values, wanted)
        np.testing.assert_allclose(memory.total, total)
    np.testing.assert_allclose(memory.faded(0.3).total, 0.3 * total)
    assert memory.faded(0.3).unit == memory.unit


def test_adam_is_that_of_kingma_and_ba_with_a_falling_rate():
    """In sums over all gradients so far instead of running ones."""
    gradients = np.array([[1.0, 0.0, -3.0], [0.5, 0.0, 2.0], [-4.0, 0.0, 0.1], [1.0, 0.0, 1.0]])
    block, memory = Free(np.zeros(3)), None
    for t in range(1, 5):
        before = block.value
        block, memory = adam_step(block, gradients[t - 1], memory)
        first, second = (base ** np.arange(t)[::-1] for base in (ADAM_FIRST, ADAM_SECOND))
        mean = first @ gradients[:t] / first.sum()
        square = second @ gradients[:t] ** 2 / second.sum()
        wanted = ADAM_RATE / np.sqrt(1.0 + t / ADAM_DELAY) * mean / np.sqrt(np.where(square > 0, square, 1.0))
        np.testing.assert_allclose(block.value - before, wanted, rtol=1e-10)


def test_adam_averages_what_turns_to_and_fro():
    """A mean with a memory β of ±1 by turns is (1 - β) / (1 + β) in size: 0.05 of the 10 that Kingma and Ba average."""
    block, memory = Free(np.zeros(1)), None
    for t in range(200):
        before = block.value
        block, memory = adam_step(block, np.array([(-1.0) ** t]), memory)
    assert np.all(np.abs(block.value - before) < 0.1 * ADAM_RATE)


def test_a_step_beyond_goes_further_along_the_natural_one():
    """Shape and rate are natural parameters up to a constant: rate times as far as the step of rate 1."""
    q, prior = Gamma(np.array([2.0, 3.0]), np.array([1.0, 2.0])), Gamma(np.ones(2), np.full(2, 1.5))
    gradient = (np.array([[0.5, -1.0], [3.0, -0.8]]),)
    whole, far = natural_step(q, prior, gradient, 1.0), beyond_step(q, prior, gradient, 1.25)
    for name in ("shape", "rate"):
        own, its, there = (getattr(block, name) for block in (q, whole, far))
        assert np.all(own != its)
        np.testing.assert_allclose(there - own, 1.25 * (its - own), rtol=1e-12)


def test_fading_keeps_a_share_of_the_sums():
    memory = AdaGradMemory(np.ones(2), np.array([4.0, 1.0]), np.array([2.0, 8.0]), 3.0).faded(0.25)
    np.testing.assert_array_equal([memory.mean, memory.root], [[1.0, 0.25], [0.5, 2.0]])
    assert memory.reach == 3.0


def test_a_mean_may_go_as_far_as_its_data_are_many():
    q = DiagonalGaussian(np.zeros(4), np.ones(4))
    assert AdaGradMemory.start(q, 100.0).reach == 5.0
    assert AdaGradMemory.start(q, 2.0).reach == 1.0


def test_site_step_is_a_damped_message():
    np.testing.assert_allclose(site_step(np.array([1.0, 2.0]), np.array([3.0, 0.0]), 0.25), [1.5, 1.5])


def test_shortened_halves_until_it_is_possible():
    tried = []

    def step(share):
        tried.append(share)
        if share > 0.2:
            raise NotPositiveDefinite("no")
        return share

    assert shortened(step) == 0.125
    assert tried == [1.0, 0.5, 0.25, 0.125]


def test_the_last_step_that_is_tried_is_the_shortest():
    def step(share):
        if share > 0.5**MAX_HALVINGS:
            raise NotPositiveDefinite("no")
        return share

    assert shortened(step) == 0.5**MAX_HALVINGS


def test_a_block_that_stays_has_the_density_that_it_was_given():
    assert Fixed().log_density({}) == 0.0
    assert Fixed(lambda q: 2.0 * q["x"]).log_density({"x": 3.0}) == 6.0


def test_shortened_gives_up_with_the_reason():
    tried = []

    def step(share):
        tried.append(share)
        raise NotPositiveDefinite("never", 4)

    with pytest.raises(NotPositiveDefinite, match="never") as caught:
        shortened(step)
    assert caught.value.coordinate == 4
    assert len(tried) == MAX_HALVINGS + 1


def test_a_natural_step_out_of_the_domain_is_shortened():
    """A convex term: the whole step has a negative precision, a shorter one does not."""
    q, prior = Gaussian(np.zeros(2), np.eye(2)), DiagonalGaussian(np.zeros(2), np.ones(2))
    gradient = np.zeros(2), np.eye(2)
    with pytest.raises(NotPositiveDefinite):
        natural_step(q, prior, gradient, 1.0)
    rule = algorithms.MCSSVI().rule(q)
    new, memory, gain = rule.step("w", {"w": q}, prior, gradient, None, StepSize(1.0, 1.0, 1.0))
    assert memory is None and gain == 0.0
    assert np.all(new.variance > 0)


# ---- algorithms and schedules as a registry
def test_algorithms_are_a_complete_registry():
    classes = {
        value
        for name, value in vars(algorithms).items()
        if inspect.isclass(value)
        and issubclass(value, Algorithm)
        and not name.startswith("_")
        and value is not Algorithm
    }
    assert classes == set(ALGORITHMS.values())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_resolve(name):
    algorithm = algorithms.resolve(name)
    assert type(algorithm) is ALGORITHMS[name]
    steps = name in VARIATIONAL
    own = ALGORITHMS[name](**({"schedule": Constant(0.5)} if steps else {}))
    copy = algorithms.resolve(own)
    assert type(copy) is type(own) and copy is not own
    assert not steps or copy.rate(3, True) == copy.rate(3, False) == copy.rate(3, False, True) == 0.5


def test_resolve_lists_what_there_is():
    with pytest.raises(ValueError, match=r"'adam'.*'cvi'.*'s-dsvi'"):
        algorithms.resolve("adam")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rates_are_one_where_nothing_is_random_and_fall_elsewhere(name):
    algorithm = ALGORITHMS[name]()
    assert algorithm.rate(7, True) == 1.0
    for messages in (False, True):
        rates = [algorithm.rate(t, False, messages) for t in range(2000)]
        assert all(0 < late <= early <= 1 for early, late in pairwise(rates))
        assert rates[-1] < 0.2


@pytest.mark.parametrize(
    "cls", [cls for _, cls in inspect.getmembers(schedules, inspect.isclass) if hasattr(cls, "rate")]
)
def test_schedules(cls):
    assert cls() is not None
    for t in (0, 1, 1000):
        assert 0 < cls().rate(t) <= 1


def test_robbins_monro_formula():
    schedule = RobbinsMonro(scale=2.0, delay=3.0, kappa=0.75)
    assert schedule.rate(4) == pytest.approx(2.0 * 8.0**-0.75)
    assert schedule.rate(0) == pytest.approx(2.0 * 4.0**-0.75)
    assert RobbinsMonro(scale=100.0).rate(0) == 1.0


def test_large_arrays_are_mixed_to_the_same_bits(monkeypatch, global_random_seed):
    a, b = np.random.default_rng(global_random_seed).standard_normal((2, 7, 5, 3))
    monkeypatch.setattr("sksvi.families.base.LARGE", 100)
    monkeypatch.setattr("sksvi.families.base.CACHED", 31)
    np.testing.assert_array_equal(between(a, b, 0.3), (1 - 0.3) * a + 0.3 * b)
