"""The model under ``GeneralizedPMF``: gradients of the three routes, bounds, closed forms, priors and turning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from sksvi import expectations
from sksvi.algorithms.line_search import MAX_HALVINGS
from sksvi.algorithms.rules import Newton, StepResult
from sksvi.families import Free, GaussianPlates, Point
from sksvi.families.gaussian.plates import packed
from sksvi.inference import plan
from sksvi.inference.passes import alternating
from sksvi.inference.problem import divergence
from sksvi.inference.start import first_state
from sksvi.models.factorization.columns import (
    SIDES,
    JointColumns,
    SampledColumns,
    SideColumns,
    SquaredColumns,
)
from sksvi.models.factorization.gaussian import FactorModel
from sksvi.models.factorization.ratings import Ratings
from sksvi.models.factorization.side_prior import SidePrior
from tests import cases
from tests.models.factorization import oracles as oracle

NAMES = ["gaussian", "student-t", "poisson", "poisson-softplus", "negative-binomial", "logit", "probit", "ordinal"]
AUTO = expectations.resolve("auto")


def model_for(name, k=2, *, biases=False, full=True, designs=(None, None), diag=True, **options):
    """A factorization whose first prior variance is one; scales fixed."""
    applies = [np.full(k + biases, design is not None) for design in designs]
    priors = {
        side: SidePrior(*pair, diag) for side, pair in zip(SIDES, zip(designs, applies, strict=True), strict=True)
    }
    options = {"unit": np.sqrt(k), **options}
    return FactorModel(cases.TRUTH[name], n_components=k, biases=biases, full=full, priors=priors, **options)


def ratings_for(name, seed, n_users=7, n_items=5, k=2, density=0.7, weight=False, spread=0.8):
    """Pairs of a matrix drawn from the model, and the data."""
    rng = np.random.default_rng([seed, 11])
    pairs = np.argwhere(rng.random((n_users, n_items)) < density)
    u, v = spread * rng.standard_normal((n_users, k)), spread * rng.standard_normal((n_items, k))
    y = np.asarray(cases.TRUTH[name].sample(np.sum(u[pairs[:, 0]] * v[pairs[:, 1]], axis=1), rng), float)
    weights = rng.uniform(0.5, 2.0, len(y)) if weight else None
    return pairs, Ratings(*pairs.T, y, weights, n_users, n_items), y, weights


def random_plates(rng, n, size, full, spread=0.3):
    root = rng.standard_normal((n, size, size)) * spread / np.sqrt(size)
    cov = root @ np.swapaxes(root, 1, 2) + 0.02 * np.eye(size)
    values = packed(cov, True) if full else np.diagonal(cov, axis1=1, axis2=2).copy()
    return GaussianPlates(0.7 * rng.standard_normal((n, size)), values, None, full)


def random_q(model, data, rng, spread=0.3):
    q = model.begin(data, rng)
    for side in SIDES:
        q[side] = random_plates(rng, len(q[side]), q[side].mean.shape[1], model.full, spread)
        q[f"{side}_mean"] = Free(0.3 * rng.standard_normal(q[f"{side}_mean"].value.shape))
    return q


def augmented(model, q, side):
    """Every coordinate of a side, constants too, as the oracles' factors."""
    layout, block = model.layouts[side], q[side]
    cov = np.zeros((len(block), layout.width, layout.width))
    cov[:, layout.free[:, None], layout.free] = block.cov
    return oracle.Factors(layout.embedded(block.mean), cov)


def terms_by_item(model, q, pairs, y, weight):
    """Σ E log p of every item by the oracles' moments and a dense grid."""
    m, v = oracle.latent_moments(pairs, augmented(model, q, "users"), augmented(model, q, "items"))
    value = cases.expected_log_prob(model.current_likelihood(q), y, m + model.offset, v)
    return np.bincount(pairs[:, 1], value if weight is None else weight * value, len(q["items"]))


def moved(block, mean=0.0, values=0.0):
    return GaussianPlates(block.mean + mean, block.values + values, None, block.full)


def problem_of(model, data, algorithm="cvi", **options):
    return cases.problem_for(model, data, algorithm, **options)


def run(model, data, passes, tol=0.0, state=None, seed=0):
    problem = problem_of(model, data)
    state = first_state(problem, seed) if state is None else state
    return plan.run(problem, state, passes, tol, lambda state: False)


# ---- gradients
@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
@pytest.mark.parametrize("name", NAMES)
def test_plain_route_is_the_gradient_of_the_surrogate(name, full, global_random_seed):
    rng = np.random.default_rng([global_random_seed, 1])
    pairs, data, y, weight = ratings_for(name, global_random_seed, weight=True)
    model = model_for(name, biases=True, full=full, offset=0.3)
    q = random_q(model, data, rng)
    columns = SideColumns(model.side_view(q, "items"), data.sides["items"], AUTO, None)
    value, (d, D) = columns.terms(q["items"])
    np.testing.assert_allclose(value, terms_by_item(model, q, pairs, y, weight), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(columns.value(q["items"]), value, rtol=1e-12)

    def slope(step=1e-4, **direction):
        ends = [
            terms_by_item(
                model, {**q, "items": moved(q["items"], **{k: s * e for k, e in direction.items()})}, pairs, y, weight
            )
            for s in (-step, step)
        ]
        return (ends[1] - ends[0]) / (2 * step)

    shape = q["items"].mean.shape
    for direction in rng.standard_normal((3, *shape)):
        np.testing.assert_allclose(np.sum(d * direction, axis=1), slope(mean=direction), rtol=2e-5, atol=2e-5)
    for direction in 0.1 * rng.standard_normal((3, *((*shape, shape[1]) if full else shape))):
        E = direction + np.swapaxes(direction, 1, 2) if full else direction
        along = np.sum(D * E, axis=tuple(range(1, E.ndim)))
        np.testing.assert_allclose(along, slope(values=packed(E, full)), rtol=2e-5, atol=2e-5)


@pytest.mark.costly
@pytest.mark.parametrize("name", ["gaussian", "poisson", "poisson-softplus", "logit", "ordinal"])
def test_joint_route_is_the_sum_over_a_jointly_gaussian_row(name, global_random_seed):
    """Every side sees the other's coordinates, constants included, in the place of u."""
    rng = np.random.default_rng([global_random_seed, 2])
    pairs, data, y, weight = ratings_for(name, global_random_seed, n_users=3, n_items=2, weight=True)
    model = model_for(name, biases=True, offset=0.2)
    q = random_q(model, data, rng)
    users, items = augmented(model, q, "users"), augmented(model, q, "items")
    likelihood = model.likelihood
    scalar = oracle.Scalar(
        *(lambda y, f, i=i: likelihood.derivatives(np.asarray(y), np.asarray(f))[i] for i in range(3))
    )
    for side, own, other, mine in (("items", items, users, 1), ("users", users, items, 0)):
        columns = JointColumns(model.side_view(q, side), data.sides[side], expectations.resolve("quadrature"), None)
        _, (d, D) = columns.terms(q[side])
        free = model.layouts[side].free
        d_sum, D_sum = np.zeros_like(own.mean), np.zeros_like(own.cov)
        for pair, target, w in zip(pairs, y, weight, strict=True):
            p, other_plate = pair[mine], pair[1 - mine]
            row, column = (oracle.Factors(*(a[i] for a in f)) for f, i in ((other, other_plate), (own, p)))
            one = oracle.joint_gaussian(scalar, target, row, column, (model.offset, 0.0))
            d_sum[p] += w * one[0]
            D_sum[p] += w * one[1]
        np.testing.assert_allclose(d, d_sum[:, free], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(D, D_sum[:, free[:, None], free], rtol=1e-4, atol=1e-4)


@pytest.mark.costly
def test_joint_curvature_is_nearer_to_the_true_one(global_random_seed):
    """K = 10, posterior variance 0.2, logistic: errors of about 2 and 8 %; draws are the truth."""
    rng = np.random.default_rng([global_random_seed, 3])
    k, n = 10, 20
    pairs = np.column_stack([np.arange(n), np.arange(n)])
    data = Ratings(*pairs.T, rng.integers(0, 2, n).astype(float), None, n, n)
    model = model_for("logit", k)
    q = model.begin(data, rng)
    for side in SIDES:
        mean = rng.standard_normal((n, k)) * np.sqrt(0.8)
        q[side] = GaussianPlates.constant(mean, np.full(k, 0.2), True)
    view, entries = model.side_view(q, "items"), data.sides["items"]
    joint = JointColumns(view, entries, expectations.resolve("quadrature"), None).terms(q["items"])[1][1]
    plain = SideColumns(view, entries, AUTO, None).terms(q["items"])[1][1]
    view = model.side_view(q, "items", expectations.MonteCarlo(n=20_000), rng)
    truth = SampledColumns(view, entries, AUTO, None).terms(q["items"])[1][1]

    def error(D):
        return np.mean(np.linalg.norm(D - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2)))

    assert error(joint) < 0.6 * error(plain) and error(joint) < 0.05


@pytest.mark.costly
@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
@pytest.mark.parametrize("name", ["logit", "poisson-softplus"])
def test_sampled_route_is_unbiased_for_the_true_bound(name, full, global_random_seed):
    rng = np.random.default_rng([global_random_seed, 4])
    pairs, data, y, _ = ratings_for(name, global_random_seed, n_users=4, n_items=2, density=0.9)
    model = model_for(name, full=full)
    q = random_q(model, data, rng, spread=0.6)
    users, items = (oracle.Factors(q[side].mean, q[side].cov) for side in SIDES)
    value, d, D = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2, 2))
    for (i, j), target in zip(pairs, y, strict=True):
        row, column = (oracle.Factors(f.mean[p], f.cov[p]) for f, p in ((users, i), (items, j)))
        one = oracle.true_term(oracle.SCALARS[name], target, row, column, step=20)
        for total, part in zip((value, d, D), one, strict=True):
            total[j] += part
    D = D if full else np.diagonal(D, axis1=1, axis2=2)
    draws = []
    for _ in range(150):
        columns = SampledColumns(
            model.side_view(q, "items", expectations.MonteCarlo(n=40), rng), data.sides["items"], AUTO, None
        )
        found, (dm, dv) = columns.terms(q["items"])
        draws.append(np.concatenate([found, dm.ravel(), dv.ravel()]))
    exact = np.concatenate([value, d.ravel(), np.ravel(D)])
    error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - exact) < 4 * error + 1e-6)


def test_expectation_chooses_the_route():
    _, data, *_ = ratings_for("logit", 0)
    rng = np.random.default_rng(0)

    def route(name, expectation, full=True):
        model = model_for(name, full=full)
        expect = expectations.resolve(expectation)
        view = model.side_view(model.begin(data, rng), "items", expect, rng)
        return type(view.plates(data.sides["items"], expect, rng))

    assert route("logit", "auto") is route("logit", "gauss-hermite") is SideColumns
    assert route("logit", "quadrature") is JointColumns and route("logit", "quadrature", full=False) is SideColumns
    assert route("gaussian", "auto") is route("gaussian", "quadrature") is SquaredColumns
    assert route("gaussian", "monte-carlo") is route("logit", "monte-carlo", full=False) is SampledColumns


# ---- Gaussian likelihood
def test_squared_columns_are_the_plain_ones(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 5])
    _, data, y, weight = ratings_for("gaussian", global_random_seed, weight=True)
    model = model_for("gaussian", biases=True, offset=-0.4)
    model = model.replaced(likelihood=cases.LEARNED["gaussian"].start(y, weight))
    q = random_q(model, data, rng)
    for side in SIDES:
        both = [c(model.side_view(q, side), data.sides[side], AUTO, None) for c in (SideColumns, SquaredColumns)]
        (value, gradient), (closed, closed_gradient) = (columns.terms(q[side]) for columns in both)
        np.testing.assert_allclose(closed, value, rtol=1e-10)
        np.testing.assert_allclose(both[1].value(q[side]), value, rtol=1e-10)
        for a, b in zip(closed_gradient, gradient, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)
        for a, b in zip(*(columns.points(q[side]) for columns in both), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("passes", [1, 4])
def test_gaussian_passes_are_lim_and_teh(passes, global_random_seed):
    pairs, data, y, _ = ratings_for("gaussian", global_random_seed, 9, 7, 3)
    # Theirs begin at the noise that is given.
    model = model_for("gaussian", 3, learn_priors=False).replaced(tempered=lambda passes: None)
    start = first_state(problem_of(model, data), global_random_seed)
    items = oracle.Factors(start.q["items"].mean.copy(), start.q["items"].cov)
    state = run(model, data, passes, state=start)
    users, items, _, _, bounds = oracle.lim_teh(pairs, y, items, 9, noise=0.5, sweeps=passes)
    for side, exact in zip(SIDES, (users, items), strict=True):
        np.testing.assert_allclose(state.q[side].mean, exact.mean, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(state.q[side].cov, exact.cov, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.bounds, bounds, rtol=1e-10)
    assert state.bound == state.bounds[-1]


@pytest.mark.costly
def test_fully_observed_matrix_has_the_analytic_solution(global_random_seed):
    """Nakajima et al. (2013), and the subspace of principal components."""
    rng = np.random.default_rng([global_random_seed, 6])
    left, right = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (14, 9))
    Y = left * np.array([12.0, 7.0, 0.8]) @ right.T
    pairs = np.argwhere(np.ones(Y.shape))
    data = Ratings(*pairs.T, Y.ravel(), None, *Y.shape)
    state = run(model_for("gaussian", 2, learn_priors=False), data, 400, seed=global_random_seed)
    users, items = oracle.nakajima(Y, 2, 0.5)
    best = oracle.surrogate_bound(oracle.gaussian(0.5), pairs, Y.ravel(), users, items)
    assert state.bound == pytest.approx(best, rel=1e-9)
    a, b = state.q["users"], state.q["items"]
    np.testing.assert_allclose(a.mean @ b.mean.T, users.mean @ items.mean.T, atol=1e-4)
    for block, exact, basis in ((a, users, left), (b, items, right)):
        np.testing.assert_allclose(np.linalg.eigvalsh(block.cov[0]), np.sort(np.diag(exact.cov[0])), rtol=1e-3)
        assert subspace_angles(block.mean, basis[:, :2]).max() < 1e-3


# ---- bounds
@pytest.mark.costly
@pytest.mark.parametrize("name", ["gaussian", "logit"])
def test_bound_is_below_the_evidence(name, global_random_seed):
    """10 x 10. The logistic surrogate is no bound: the true bound of its q is, and the two are close."""
    pairs, data, y, _ = ratings_for(name, global_random_seed, 10, 10, 2, 1.0, spread=1.0)
    state = run(model_for(name, learn_priors=False), data, 60, seed=global_random_seed)
    scalar = oracle.gaussian(0.5) if name == "gaussian" else oracle.logit()
    evidence, error = oracle.annealed_evidence(scalar, pairs, y, 10, 10, 2, chains=60, steps=200, seed=3)
    bound = state.bound
    users, items = (oracle.Factors(state.q[side].mean, state.q[side].cov) for side in SIDES)
    assert oracle.surrogate_bound(scalar, pairs, y, users, items) == pytest.approx(bound, rel=1e-6)
    if name == "logit":
        each = []
        for (i, j), target in zip(pairs, y, strict=True):
            row, column = (oracle.Factors(f.mean[p], f.cov[p]) for f, p in ((users, i), (items, j)))
            each.append(oracle.true_term(scalar, target, row, column, step=30))
        true = sum(one[0] for one in each) - oracle.kl_to_prior(users, 1.0) - oracle.kl_to_prior(items, 1.0)
        assert abs(true - bound) < 0.02 * abs(bound)
        bound = true
    assert bound < evidence + 4 * error


# ---- what is learned of all plates
def features(rng, n):
    return np.column_stack([np.ones(n), rng.standard_normal((n, 2))])


@pytest.mark.parametrize("diag", [True, False], ids=["by coordinate", "spherical"])
def test_learned_priors_are_the_best_ones(diag, global_random_seed):
    rng = np.random.default_rng([global_random_seed, 7])
    _, data, *_ = ratings_for("logit", global_random_seed)
    model = model_for("logit", biases=True, designs=(features(rng, 7), features(rng, 5)), diag=diag)
    q = random_q(model, data, rng)
    problem, state = problem_of(model, data), first_state(problem_of(model, data), 0)
    for _ in range(30):  # coefficients given precisions, then the other way round
        q = model.learned(q, False)
    best = divergence(problem, state, q)
    for name in ("users_mean", "items_mean", "users_precision", "items_precision"):
        for _ in range(4):
            step = 0.05 * rng.standard_normal(q[name].value.shape)
            if not diag and name.endswith("precision"):
                step[:2] = step[0]
            assert divergence(problem, state, {**q, name: Free(q[name].value + step)}) > best


def test_divergence_of_the_coefficients_by_monte_carlo(global_random_seed):
    """E over the coefficients of the plates' divergence, and the coefficients' own."""
    rng = np.random.default_rng([global_random_seed, 8])
    _, data, *_ = ratings_for("logit", global_random_seed)
    model = model_for("logit", biases=True, designs=(features(rng, 7), None))
    q = random_q(model, data, rng)
    q["users_precision"] = Free(rng.uniform(-0.5, 0.5, 3))
    prior, precision = model.priors["users"], np.exp(q["users_precision"].value)
    block = prior.coefficients(q, "users")
    own = 0.0
    for mean, cov, p in zip(block.mean, block.cov, precision, strict=True):
        scale = np.sqrt(prior.delta * p)
        own += oracle.kl_to_prior(oracle.Factors((mean * scale)[None], (cov * np.outer(scale, scale))[None]), 1.0)
    means = np.einsum("np,skp->snk", prior.design, block.sample(4000, global_random_seed))
    fixed = 0.5 * (np.sum(q["users"].variance * precision - 1 - np.log(precision)) - q["users"].log_det.sum())
    draws = fixed + 0.5 * np.sum(np.square(q["users"].mean - means) * precision, axis=(1, 2))
    found = q["users"].kl(prior.block(q, "users")) + prior.divergence(q, "users")
    assert abs(own + draws.mean() - found) < 4 * draws.std() / np.sqrt(len(draws))


def test_turning_leaves_f_alone_and_never_costs(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 9])
    pairs, data, *_ = ratings_for("logit", global_random_seed, k=3)
    model = model_for("logit", 3, biases=True, designs=(features(rng, 7), None))
    problem, state = problem_of(model, data), first_state(problem_of(model, data), 0)
    for _ in range(5):
        q = model.learned(random_q(model, data, rng), False)
        turned = model.expanded({**q, **{side: q[side].copy() for side in SIDES}})
        before, after = (
            oracle.latent_moments(pairs, augmented(model, at, "users"), augmented(model, at, "items"))
            for at in (q, turned)
        )
        np.testing.assert_allclose(after[0], before[0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(after[1], before[1], rtol=1e-8, atol=1e-9)
        prior = [
            model.priors["users"].design @ at["users_mean"].value[:, :3] @ at["items"].mean[:, :3].T
            for at in (q, turned)
        ]
        np.testing.assert_allclose(prior[1], prior[0], rtol=1e-8, atol=1e-9)
        assert divergence(problem, state, model.learned(turned, False)) <= divergence(problem, state, q) + 1e-9
        for block in (turned["users"], turned["items"]):
            np.testing.assert_allclose(block.log_det, np.linalg.slogdet(block.cov)[1], rtol=1e-7, atol=1e-8)
    assert model_for("logit", 3, full=False).expanded({}) == {}


# ---- sub-sampling
def test_entries_drawn_by_column_are_unbiased(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 10])
    _, data, *_ = ratings_for("poisson", global_random_seed, 12, 4)
    model = model_for("poisson")
    q, entries = random_q(model, data, rng), data.sides["items"]
    view = model.side_view(q, "items")
    exact = np.concatenate(
        [g.reshape(4, -1) for g in SideColumns(view, entries, AUTO, None).terms(q["items"])[1]], axis=1
    )
    draws = []
    for _ in range(400):
        part = entries.drawn(3, rng)
        assert np.all(part.counts == np.minimum(entries.counts, 3))
        gradient = SideColumns(view, part, AUTO, None).terms(q["items"])[1]
        scale = (entries.counts / part.counts)[:, None]
        draws.append(np.concatenate([scale * g.reshape(4, -1) for g in gradient], axis=1))
    error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - exact) < 4 * error + 1e-9)


def test_an_exact_bound_is_what_a_noisy_fit_reports(global_random_seed):
    """The engine evaluates all entries at the averaged q."""
    pairs, data, y, _ = ratings_for("logit", global_random_seed, 12, 8)
    model = model_for("logit", biases=True, learn_priors=False)
    problem = problem_of(model, data, "mc-ssvi", batch_size=3)
    state = plan.run(problem, first_state(problem, 0), 6, 0.0, lambda state: False)
    value = terms_by_item(model, state.q, pairs, y, None).sum()
    assert state.bound == pytest.approx(value - divergence(replace(problem, batch_size=None), state, state.q), rel=1e-6)


@pytest.mark.parametrize(("step", "kept"), [(-1.0, False), (1.0, True)], ids=["too far", "away from it"])
def test_a_large_step_of_the_likelihood_is_judged(step, kept, global_random_seed, monkeypatch):
    """A variance that is a quarter too large goes down as far as it helps, and not up at all."""
    _, data, y, _ = ratings_for("gaussian", global_random_seed, 12, 8)
    model = model_for("gaussian").replaced(likelihood=cases.LEARNED["gaussian"].start(data.sides["users"].y))
    problem = problem_of(model, data)
    state = run(model, data, 1)
    g, _ = state.progress.gradient["likelihood"]
    best = state.q["likelihood"].value + np.log(1.0 + 2.0 * g / len(y))
    old = best + np.log(1.25)
    state.q["likelihood"] = Point(old)
    value = alternating.data_value(problem, state)
    progress = replace(state.progress, gradient={"likelihood": (g, np.zeros((1, 1)))}, value=value)

    class Told(Newton):
        def step(self, name, q, prior, gradient, memory, pace):
            return StepResult(q[name].moved(np.array([step]), pace.rate * pace.damping), memory)

    monkeypatch.setattr(model, "hyper", {**model.hyper, "likelihood": Told()})
    state, halvings = alternating.with_hyper(problem, replace(state, progress=progress))
    assert (halvings == MAX_HALVINGS) == kept == np.array_equal(state.q["likelihood"].value, old)
    assert halvings > 0 and alternating.data_value(problem, state) >= value
