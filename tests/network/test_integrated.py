"""Local nodes integrated out: against quadrature by hand, finite differences, mixed-effects models and the evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import roots_genlaguerre

from sksvi import GMERegressor, families, likelihoods
from sksvi.algorithms import MCSSVI
from sksvi.algorithms.steps import natural_step
from sksvi.inference import plan
from sksvi.inference.engine import exact_bound
from sksvi.inference.state import State
from sksvi.models.data import Table
from sksvi.models.mixed.glm import MixedModel
from sksvi.network import Function, Gamma, Gaussian, Likelihood, Link, Network, Rayleigh
from support.networks import Bound

LIKELIHOODS = {
    "poisson": (likelihoods.Poisson(), lambda f: stats.poisson(np.exp(f)).rvs),
    "logit": (likelihoods.Bernoulli(), lambda f: stats.bernoulli(1.0 / (1.0 + np.exp(-f))).rvs),
    "student-t": (likelihoods.StudentT(scale=0.5, df=4.0), lambda f: stats.t(4.0, f, 0.5).rvs),
    "gaussian": (likelihoods.Gaussian(variance=0.3), lambda f: stats.norm(f, 0.3**0.5).rvs),
}
#: Nodes and slot of the spread.
SPREADS = {
    "rayleigh": ({"s": Rayleigh(2.0)}, {"variance": "s"}),
    "gamma": ({"s": Gamma(3.0, 2.0)}, {"precision": "s"}),
    "gammas": ({"s": Gamma([3.0, 5.0], 2.0)}, {"precision": Link("s", index="group")}),
    "variance": ({}, {"variance": 0.7}),
    "precisions": ({}, {"precision": Link("s", index="group")}),
}
N = 12


def data(name, spread, seed):
    rng = np.random.default_rng(seed)
    X, group = rng.standard_normal((N, 2)), np.arange(N) % 2
    f = X @ [0.6, -0.4] + rng.normal(0.0, 0.8, N)
    named = {"group": group} if spread in ("gammas", "precisions") else {}
    return named | {"X": X, "y": LIKELIHOODS[name][1](f)(random_state=rng).astype(float)}


def network(name, spread, integrated=True, covariance="diag"):
    nodes, options = SPREADS[spread]
    if spread == "precisions":
        nodes = {"s": Gamma([3.0, 5.0], "r"), "r": Gamma(2.0, 1.0)}
    line = Gaussian(0.0, 1.5, size=2, covariance=covariance)
    f = Gaussian(Link("w", design="X"), size="y", integrated=integrated, **options)
    return {"w": line, **nodes, "f": f, "y": Likelihood(LIKELIHOODS[name][0], "f", offset=0.2)}


def somewhere(priors, seed):
    """Blocks that are not the priors."""
    rng, q = np.random.default_rng([seed, 1]), {}
    for name, block in priors.items():
        if block.column == "gaussian":
            q[name] = type(block)(rng.normal(0.0, 0.5, block.mean.shape), rng.uniform(2.0, 9.0, block.mean.shape))
        elif isinstance(block, families.Rayleigh):
            q[name] = families.Rayleigh(rng.uniform(0.4, 1.5))
        else:
            q[name] = families.Gamma(rng.uniform(4.0, 9.0, block.shape.shape), rng.uniform(2.0, 5.0, block.shape.shape))
    return q


# ---- the integrals
def spread_rule(block, group, n=N):
    """Variances (S, n or 1) and weights (S, n or 1) of a rule by hand."""
    if block is None:
        return np.array([[0.7]]), np.ones((1, 1))
    if isinstance(block, families.Rayleigh):
        t = np.linspace(-9.0, 2.2, 150)
        r = np.exp(t)[:, None]
        weight = np.square(r) * np.exp(-0.5 * np.square(r))
        return block.scale * r, weight / weight.sum()
    rules = [roots_genlaguerre(60, a - 1.0) for a in block.shape]
    value, weight = (np.stack([rule[k] for rule in rules], 1) for k in (0, 1))
    chosen = group if len(block.shape) > 1 else np.zeros(n, int)
    return (block.rate / value)[:, chosen], (weight / weight.sum(0))[:, chosen]


def by_hand(likelihood, y, m, v, variances, weights):
    """E_u E_w log ∫ p(y | f) N(f | u, w) df of each row, and mean and variance of f given y, by product rules."""
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(24)
    value, first, second = np.zeros((3, len(y)))
    for z, share in zip(nodes, node_weights / node_weights.sum(), strict=True):
        u = m + np.sqrt(v) * z
        for w, weight in zip(variances, weights, strict=True):
            sd = np.sqrt(w)
            f = u + sd * np.linspace(-9.0, 9.0, 801)[:, None]
            p = likelihood.log_prob(y, f) - 0.5 * np.square(f - u) / w - 0.5 * np.log(2 * np.pi * w)
            top = p.max(0)
            p = np.exp(p - top)
            value += share * weight * (top + np.log(p.sum(0) * sd * 18.0 / 800))
            first += share * weight * (p * f).sum(0) / p.sum(0)
            second += share * weight * (p * f * f).sum(0) / p.sum(0)
    return value, first, second - np.square(first)


@pytest.mark.costly
@pytest.mark.parametrize("spread", ["rayleigh", "gamma", "gammas", "variance"])
@pytest.mark.parametrize("name", ["poisson", "logit"])
def test_terms_are_those_of_quadrature_by_hand(name, spread, global_random_seed):
    rows = data(name, spread, global_random_seed)
    bound = Bound(network(name, spread), {}, rows)
    q = somewhere(bound.priors, global_random_seed)
    factor = bound.factors[-1]
    w = q["w"]
    m, v = rows["X"] @ w.mean + 0.2, np.square(rows["X"]) @ w.variance
    wanted, mean, variance = by_hand(LIKELIHOODS[name][0], rows["y"], m, v, *spread_rule(q.get("s"), rows.get("group")))
    np.testing.assert_allclose(factor.terms(q, slice(None))[0], wanted, rtol=3e-6, atol=3e-6)
    local = factor.local(q)
    np.testing.assert_allclose(local.mean, mean - 0.2, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(local.variance, variance, rtol=1e-4)
    half = np.arange(0, N, 2)
    np.testing.assert_allclose(factor.terms(q, half)[0], wanted[half], rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_are_finite_differences_of_the_bound(name, spread, global_random_seed):
    bound = Bound(network(name, spread), {}, data(name, spread, global_random_seed))
    x = bound.pack(somewhere(bound.priors, global_random_seed))
    slope, step = bound(x)[1], 1e-4
    for k, direction in enumerate(np.eye(len(x))):
        found = (bound(x + step * direction)[0] - bound(x - step * direction)[0]) / (2.0 * step)
        assert slope[k] == pytest.approx(found, rel=2e-5, abs=2e-5)


# ---- several rows of an element
def grouped(name, spread, seed, k=5, per=4):
    """Rows of elements 0, ..., k - 2 of k, in no order."""
    rng, (nodes, options) = np.random.default_rng(seed), SPREADS[spread]
    group = rng.permutation(np.repeat(np.arange(k - 1), per))
    f = Gaussian("u", size=k, integrated=True, **options)
    y = LIKELIHOODS[name][1](rng.normal(0.3, 1.0, k)[group])(random_state=rng).astype(float)
    offset = rng.normal(0.0, 0.3, len(y))
    child = Likelihood(LIKELIHOODS[name][0], Link("f", index="group"), offset="offset")
    return {"u": Gaussian(0.0, 1.0), **nodes, "f": f, "y": child}, {"y": y, "group": group, "offset": offset}


@pytest.mark.parametrize("spread", ["rayleigh", "gamma", "variance"])
@pytest.mark.parametrize("name", ["poisson", "logit", "gaussian"])
def test_elements_of_several_rows(name, spread, global_random_seed):
    """Values and moments by hand, gradients by finite differences; an element without rows is as its parents say."""
    nodes, rows = grouped(name, spread, global_random_seed)
    bound = Bound(nodes, {}, rows)
    q = somewhere(bound.priors, global_random_seed)
    factor, k = bound.factors[-1], 4

    class Rows:
        def log_prob(self, y, f):
            likelihood, of = LIKELIHOODS[name][0], [rows["group"] == k for k in range(4)]
            each = (likelihood.log_prob(rows["y"][i], f[:, [k]] + rows["offset"][i]) for k, i in enumerate(of))
            return np.stack([part.sum(1) for part in each], 1)

    m, v = (np.full(k, part[0]) for part in (q["u"].mean, q["u"].variance))
    wanted, mean, variance = by_hand(Rows(), np.zeros(k), m, v, *spread_rule(q.get("s"), None, k))
    np.testing.assert_allclose(factor.terms(q, slice(None))[0], wanted, rtol=1e-5, atol=1e-5)
    local = factor.local(q)
    np.testing.assert_allclose(local.mean, [*mean, m[0]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(local.variance[:k], variance, rtol=1e-4)
    variances, weights = spread_rule(q.get("s"), None, 1)
    assert local.variance[k] == pytest.approx(v[0] + (variances * weights).sum(), rel=1e-5)
    x, step = bound.pack(q), 1e-4
    for slope, direction in zip(bound(x)[1], np.eye(len(x)), strict=True):
        found = (bound(x + step * direction)[0] - bound(x - step * direction)[0]) / (2.0 * step)
        assert slope == pytest.approx(found, rel=2e-5, abs=2e-5)


@pytest.mark.costly
def test_one_row_by_index_is_one_row_each(global_random_seed):
    rows = data("poisson", "gamma", global_random_seed)
    nodes = network("poisson", "gamma")
    by_index = {**nodes, "y": Likelihood("poisson", Link("f", index=np.arange(N)), offset=0.2)}
    wanted, found = (Network(one).fit(rows) for one in (nodes, by_index))
    assert found.lower_bound_ == pytest.approx(wanted.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(found.posterior_["f"].mean, wanted.posterior_["f"].mean, atol=1e-5)


# ---- against the mixed-effects model
def counts(seed, n=50):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, rng.poisson(np.exp(X @ [0.5, -0.4, 0.2] + rng.normal(0.0, 0.7, n))).astype(float)


MIXED = {
    "w": Gaussian(0.0, 1.5, size=3, covariance="full"),
    "noise": Rayleigh(5.0),
    "f": Gaussian(Link("w", design="X"), variance="noise", size="y", integrated=True),
    "y": Likelihood("poisson", "f"),
}
OPTIONS = {"prior_precision": 1.5, "fit_intercept": False, "noise_prior_scale": 5.0}


@pytest.mark.parametrize("bound", ["optimal", "mean-field"])
def test_bound_of_the_mixed_effects_model_at_one_q(bound, global_random_seed):
    """The optimal bound at the same q by the same nodes; with a q for each f, at its best, the mean-field bound."""
    X, y = counts(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    q = {
        "weights": families.Gaussian(rng.normal(0.0, 0.3, 3), np.diag(rng.uniform(5.0, 20.0, 3)) + 1.0),
        "noise": families.Rayleigh(rng.uniform(0.2, 1.0)),
    }
    options = {"prior_precision": 1.5, "intercept_precision": 1.0, "n_features": 3, "fit_intercept": False}
    model = MixedModel(likelihoods.Poisson(), bound=bound, noise_prior_scale=5.0, full=True, **options)
    problem = plan.problem(model, Table(X, y), MCSSVI())
    wanted = exact_bound(problem, State(q, 0))
    ours = {"w": q["weights"], "noise": q["noise"]}
    if bound == "optimal":
        assert Bound(MIXED, {}, {"X": X, "y": y}).value(ours) == pytest.approx(wanted, abs=1e-8)
        return
    # q of the globals is a factor's only other neighbour: hold it by observing nothing else, and step f alone.
    nodes = {**MIXED, "f": Gaussian(Link("w", design="X"), variance="noise", size="y")}
    whole = Bound(nodes, {}, {"X": X, "y": y})
    f = families.DiagonalGaussian(np.log(y + 0.5), np.full(len(y), 2.0))
    for _ in range(200):
        blocks = {**ours, "f": f}
        messages = [x.terms(blocks, slice(None))[1]["f"] for x in whole.factors if "f" in x.nodes]
        f = natural_step(f, whole.priors["f"], tuple(map(sum, zip(*messages, strict=True))), 0.5)
    assert whole.value({**ours, "f": f}) == pytest.approx(wanted, abs=1e-7)


@pytest.mark.costly
def test_a_fit_ends_where_the_mixed_effects_model_does(global_random_seed):
    X, y = counts(global_random_seed)
    theirs = GMERegressor(likelihood="poisson", bound="optimal", noise=True, tol=1e-13, max_iter=2000, **OPTIONS)
    theirs.fit(X, y)
    for order in ("in turn", "parallel"):
        ours = Network(MIXED).fit({"X": X, "y": y}, order=order, tol=1e-12)
        q = ours.posterior_
        assert ours.converged_ and np.diff(ours.lower_bounds_).min() > -1e-9
        assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=2e-7)  # theirs is from a table
        np.testing.assert_allclose(q["w"].mean, theirs.posterior_["weights"].mean, atol=1e-5)
        assert q["noise"].scale == pytest.approx(theirs.posterior_["noise"].scale, rel=1e-4)


# ---- against the evidence: counts about an unknown centre, with an unknown precision
def evidence(y, prior):
    """Log evidence and moments of centre and precision on a grid."""
    centre, log_t = np.linspace(-2.5, 3.5, 121), np.linspace(-4.0, 4.5, 161)
    log_phi = np.zeros((len(centre), len(log_t)))
    z = np.linspace(-8.0, 8.0, 321)[:, None]
    for j, t in enumerate(np.exp(log_t)):
        f = centre + z / np.sqrt(t)
        for value, times in zip(*np.unique(y, return_counts=True), strict=True):
            p = stats.poisson.logpmf(value, np.exp(f)) + stats.norm.logpdf(z)
            log_phi[:, j] += times * np.log(np.exp(p).sum(0) * (z[1] - z[0]))
    joint = log_phi + stats.norm.logpdf(centre, 0.0, 1.0)[:, None]
    joint = joint + stats.gamma.logpdf(np.exp(log_t), prior[0], scale=1.0 / prior[1]) + log_t
    weight = np.exp(joint - joint.max())
    total = joint.max() + np.log(weight.sum() * (centre[1] - centre[0]) * (log_t[1] - log_t[0]))
    share = weight / weight.sum()
    mean = (share.sum(1) @ centre, share.sum(0) @ np.exp(log_t))
    second = (share.sum(1) @ np.square(centre), share.sum(0) @ np.exp(2.0 * log_t))
    return total, np.array(mean), np.sqrt(np.array(second) - np.square(mean))


@pytest.mark.costly
def test_structured_is_above_mean_field_and_below_the_evidence(global_random_seed):
    """Deviations of mean field are too narrow; integrated they are those of the exact posterior within a quarter."""
    rng = np.random.default_rng(global_random_seed)
    y = rng.poisson(np.exp(rng.normal(0.5, 0.8, 25))).astype(float)
    total, _, std = evidence(y, (4.0, 2.0))
    fits = {}
    for integrated in (False, True):
        f = Gaussian("centre", "precision", size="y", integrated=integrated)
        nodes = {"centre": Gaussian(0.0, 1.0), "precision": Gamma(4.0, 2.0), "f": f, "y": Likelihood("poisson", "f")}
        fits[integrated] = Network(nodes).fit({"y": y})
    assert fits[False].lower_bound_ < fits[True].lower_bound_ <= total + 1e-4
    assert total - fits[True].lower_bound_ < 0.25
    found = {key: np.array([fit.posterior_[n].std[0] for n in ("centre", "precision")]) for key, fit in fits.items()}
    assert np.all(found[False] < found[True]) and np.all(np.abs(found[True] / std - 1.0) < 0.25)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_structured_is_above_mean_field(name, global_random_seed):
    rows = data(name, "gamma", global_random_seed)
    bounds = [Network(network(name, "gamma", integrated)).fit(rows).lower_bound_ for integrated in (False, True)]
    assert bounds[0] < bounds[1] + 1e-9


@pytest.mark.exhaustive
def test_mini_batches_end_near_all_rows(global_random_seed):
    X, y = counts(global_random_seed, 200)
    exact = Network(MIXED).fit({"X": X, "y": y})
    with pytest.warns(Warning, match="not converged"):
        found = Network(MIXED).fit(
            {"X": X, "y": y}, batch_size=100, max_iter=20, tol=1e-12, random_state=global_random_seed
        )
    assert found.lower_bound_ == pytest.approx(exact.lower_bound_, abs=1.0)


# ---- refusals
F = Gaussian(0.0, "s", size="y", integrated=True)
S, Y = Gamma(2.0, 1.0), Likelihood("poisson", "f")
REFUSED = {
    "nothing below": ({"s": S, "f": F}, "nothing depends on it: it takes one Likelihood"),
    "two children": ({"s": S, "f": F, "y": Y, "z": Y}, "'y', 'z' depends on it"),
    "a Gaussian child": ({"s": S, "f": F, "y": Gaussian("f", 1.0)}, "'y', 'y' depends on it"),
    "a design": ({"s": S, "f": F, "y": Likelihood("poisson", Link("f", design=[[1.0]]))}, "through a design"),
    "groups of a mixture": (
        {"s": S, "f": F, "y": Likelihood(LIKELIHOODS["student-t"][0], Link("f", index=[0, 0]))},
        "StudentT is not log-concave",
    ),
    "two spreads": ({"s": S, "f": Gaussian(0.0, "s", variance=1.0)}, "a precision and a variance"),
    "a variance of a Gamma": ({"s": S, "f": Gaussian(0.0, variance="s")}, "needs a number or a Rayleigh node"),
    "a precision of a Rayleigh": ({"s": Rayleigh(1.0), "f": Gaussian(0.0, "s")}, "needs a number or a Gamma node"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_integrated_is_refused(case):
    nodes, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        Network(nodes)


def test_what_data_do_not_fit_is_refused():
    nodes = {"s": S, "f": F, "y": Y}
    with pytest.raises(ValueError, match="'f' is integrated, and data"):
        Network(nodes).fit({"y": [1.0, 2.0], "f": [0.0, 1.0]})
    with pytest.raises(
        ValueError, match=r"integrated and has 1 elements, and data\['y'\] 2 rows.*or an index.*size='y'"
    ):
        Network({"s": S, "f": Gaussian(0.0, "s", integrated=True), "y": Y}).fit({"y": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"prior of shape 0\.5.*at least 1"):
        Network({"s": Gamma(0.5, 1.0), "f": F, "y": Y}).fit({"y": [1.0, 2.0]})
    for spread in ({"variance": 0.0}, {"precision": -1.0}):
        with pytest.raises(ValueError, match=r"node 'f': the (variance|precision) of a Gaussian is (0|-1), and must"):
            Network({"m": Gaussian(0.0, 1.0), "f": Gaussian("m", size="y", integrated=True, **spread), "y": Y}).fit(
                {"y": [1.0, 2.0]}
            )
    for scale, words in ((-1.0, "the scale of a Rayleigh distribution is -1"), ([1.0, 2.0], "is one number")):
        with pytest.raises(ValueError, match=f"node 's': .*{words}"):
            Network({"s": Rayleigh(scale), "f": Gaussian(0.0, variance="s", size="y", integrated=True), "y": Y}).fit(
                {"y": [1.0, 2.0]}
            )
    with pytest.raises(ValueError, match="takes 'y' from data"):
        Network(nodes).fit({})
    with pytest.raises(ValueError, match="'g' depends on it"):
        Network(nodes, {"g": Function(["f"], np.log)})
