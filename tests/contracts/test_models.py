"""Every model of the package says the truth about its bound: `check_model` over all of them, and what it finds."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import factorial2
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import sksvi
from sksvi import likelihoods
from sksvi import network as net
from sksvi.algorithms import MCSSVI
from sksvi.datasets import make_ctm
from sksvi.expectations import Auto
from sksvi.inference import engine, plan
from sksvi.inference.problem import GLOBALS
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.integrals import race
from sksvi.likelihoods.distributional import Distributional
from sksvi.models import MODELS, base
from sksvi.models.beta_process import model as beta_process
from sksvi.models.beta_process.model import BetaProcess
from sksvi.models.data import Table
from sksvi.models.factorization import columns
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.gaussian import FactorModel
from sksvi.models.factorization.ratings import Entries, Ratings
from sksvi.models.factorization.side_prior import SidePrior
from sksvi.models.gamma_factor.density import scatter_of
from sksvi.models.gamma_factor.model import GammaFactors
from sksvi.models.gp.full import FullGP
from sksvi.models.gp.sparse import SparseGPModel
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.latents import LinearLatents
from sksvi.models.linear.low_rank import LowRankModel
from sksvi.models.linear.named import NamedPriors
from sksvi.models.linear.two_predictors import TwoPredictors
from sksvi.models.mixed.covariances import Groups
from sksvi.models.mixed.glm import MixedModel
from sksvi.models.mixed.levels import GroupedDesign
from sksvi.models.mixed.two_predictors import MixedTwoPredictors
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.network.model import NetworkModel, NetworkRows
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.model import GammaProcess
from sksvi.models.nmf.overdispersed import OverdispersedPoisson
from sksvi.models.nmf.poisson import GammaPoisson, TightGammaPoisson
from sksvi.models.nmf.rows import CountRows
from sksvi.models.nmf.rows import RowVisit as Visit
from sksvi.models.per_latent import PerLatent
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.topics.correlated import CorrelatedTopics
from sksvi.models.topics.lda import DocumentVisit as Settled
from sksvi.models.topics.lda import LatentDirichlet
from sksvi.models.topics.loops.records import Effort
from sksvi.models.traits import Warmup
from sksvi.network._build import Built
from sksvi.testing import check_model
from tests.cases import LEARNED, NAMES, TRUTH, data_for, model_for, simulate

KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.5]) + ConstantKernel(0.2) * Matern(1.0, nu=1.5)
#: The rule of a softmax is quasi-Monte Carlo: its gradients are those of its values up to an error that falls with its
#: points; with so many of them it stays below this (a third of it at 20 seeds; 2,048 points have up to 1.01e-2).
POINTS, RULE_ERROR = 4096, 1e-2
#: A document's covariance settles where the mean Hessian says, which is where the bound over its nodes is largest if
#: E ε f(ε) = E f'(ε) holds for them. These do by their moments; a hundred thousand that are drawn do not.
#: So many per coordinate. Covariances under the optimal bound are now and then cut to the prior's (3 of 24 at seed 2).
NODES, MOMENTS, NODE_ERROR, CUT_ERROR = 30, (2, 4, 6), 1e-3, 5e-2
#: Visits of rows after which their events and activations agree, and how long each is.
AGREE, AGREED = 5000, Visit(20, 0.0)
#: Protocols, and what is a part of models only.
NO_MODELS = {base.Model, base.Linear, base.Local, base.Bipartite, base.Sampleable, CountRows, LinearLatents, PerLatent}
#: Models that are fitted at a mode: they have no bound, and their own tests (tests/models/linear/test_low_rank.py).
NO_BOUND = {LowRankModel}


# ---- a configured model of every kind, with data
def linear(name, full=True, learned=False, weight=True):
    data = data_for(name, n=30, weight=weight, offset=True)
    return model_for(name, data, full, learned, "ard" if learned else 1.5), data


def two_predictors(name, kind, learned=False):
    """The second latent has the first column and an intercept."""
    data = data_for(name, n=30, d=2, weight=True, offset=True)
    X = np.column_stack([data.X, data.X[:, 0], np.ones(30)])
    likelihood = Distributional(likelihoods.resolve(name), kind).start(data.y, data.weight)
    options = {"n_features": 4, "n_second": 2, "intercept_precision": 0.2, "fit_intercept": True, "full": True}
    options["prior_precision"] = "auto" if learned else 1.5
    of_weights = np.arange(4) < 3  # the last one is the intercept of g
    options["named"] = NamedPriors(np.zeros(4), np.full(4, 0.3), of_weights, np.zeros(4, bool))
    offset = np.column_stack([data.offset, np.zeros(30)])
    return TwoPredictors(likelihood, **options), Table(X, data.y, data.weight, offset)


def mixed_two_predictors(name, kind, learned=False):
    """Levels of two groups, one of them with slopes, have effects on the first latent."""
    model, data = two_predictors(name, kind, learned)
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, count, 30) for count in (6, 4)]).astype(np.int32)
    X = GroupedDesign(data.X, codes, (np.column_stack([np.ones(30), data.X[:, 1]]), None), (6, 4))
    own = {name: getattr(model, name) for name in ("n_second", "intercept_precision", "fit_intercept", "full", "named")}
    own |= {"prior_precision": model.prior_precision, "n_features": X.shape[1], "bound": "optimal"}
    layout = Groups(X.starts, X.levels, X.effects)
    model = MixedTwoPredictors(model.likelihood, noise_prior_scale=None, groups=layout, **own)
    return model, replace(data, X=X)


def wide_and_sparse(full):
    data = data_for("poisson", n=20, d=30)
    data = Table(sp.csr_array(data.X * (np.random.default_rng(0).random(data.X.shape) < 0.1)), data.y)
    return model_for("poisson", data, full, False, "auto"), data


def mixed(name, bound="optimal", noise=2.0, groups=True, arrow=0, n=40, learned=False, full=True):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2))
    if groups:
        codes = np.column_stack([rng.integers(0, count, n) for count in (6, 4)]).astype(np.int32)
        values = np.column_stack([np.ones(n), X[:, 1]]) if arrow == 0 else None
        X = GroupedDesign(X, codes, (values, None), (6, 4), arrow)
    y = simulate(name, np.zeros((n, 1)), 0, 0.5 * rng.standard_normal(n))
    data = Table(X, y, rng.uniform(0.3, 2.0, n), 0.3 * rng.standard_normal(n))
    likelihood = (LEARNED if learned else TRUTH)[name].start(data.y, data.weight)
    layout = Groups(X.starts, X.levels, X.effects) if groups else None
    options = {"intercept_precision": 0.2, "n_features": X.shape[1], "fit_intercept": True, "full": full}
    options["prior_precision"] = "auto" if learned else 1.5
    return MixedModel(likelihood, bound=bound, noise_prior_scale=noise, groups=layout, **options), data


def targets(name, n, rng, X):
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    draws = {
        "gaussian": lambda: f + 0.3 * rng.standard_normal(n),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
        "logit": lambda: (f + rng.logistic(size=n) > 0).astype(float),
        "student-t": lambda: f + 0.2 * rng.standard_t(4, n),
    }
    return draws[name]()


def sparse_gp(name, bound="simple", by="gradient", full=True, fixed=False):
    rng = np.random.default_rng(11)
    X = rng.uniform(-2, 2, (40, 2))
    data = Table(X, targets(name, 40, rng, X), rng.uniform(0.5, 2.0, 40), 0.1 * rng.standard_normal(40))
    likelihood = likelihoods.Gaussian(variance=0.1) if fixed else likelihoods.resolve(name)
    options = {"n_inducing": 7, "scale": X.std(axis=0), "bound": bound, "by": by, "full": full}
    options |= {"learn_kernel": False, "learn_inputs": False} if fixed else {}
    return SparseGPModel(likelihood.start(data.y, data.weight), KERNEL, **options), data


def sparse_gp_of_classes(k, full, by="gradient"):
    rng = np.random.default_rng([k, 21])
    X = rng.uniform(-2, 2, (24, 2))
    f = np.column_stack([np.sin((1 + j) * X[:, 0]) + X[:, 1] * (j - 1) for j in range(k)])
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    y[:k] = np.arange(k)
    options = {"n_inducing": 5, "scale": X.std(axis=0), "full": full, "by": by}
    return SparseGPModel(likelihoods.Softmax(n_classes=k), KERNEL, **options), Table(X, y, rng.uniform(0.5, 2.0, 24))


def full_gp(name):
    rng = np.random.default_rng(12)
    X = rng.uniform(-2, 2, (30, 2))
    data = Table(X, targets(name, 30, rng, X), rng.uniform(0.5, 2.0, 30), 0.1 * rng.standard_normal(30))
    likelihood = likelihoods.Gaussian(variance=0.1) if name == "gaussian" else likelihoods.resolve(name)
    return FullGP(likelihood.start(data.y, data.weight), KERNEL, X), data


def dynamic(name, fixed=False):
    rng = np.random.default_rng(17)
    X = rng.uniform(-2, 2, (30, 1))
    kind = "poisson" if name == "negative-binomial" else name
    y = targets(kind, 30, rng, np.column_stack([X, X]))
    data = Table(X, y, rng.uniform(0.5, 2.0, 30), 0.1 * rng.standard_normal(30))
    likelihood = (likelihoods.Gaussian(variance=0.1) if fixed else likelihoods.resolve(name)).start(data.y, data.weight)
    dynamics = Dynamics()
    dynamics.add_level("auto", False, 0.0, 4.0, "auto")
    dynamics.add_seasonal(4.0, "dummy", "auto", 1.0)
    dynamics.add_coefficients(["x"], 0.0, np.ones(1), 1.0)
    return DynamicModel(likelihood, dynamics, X, data.weight), data


def factorization(name, full=True, features=True, learned=False, biases=True):
    rng = np.random.default_rng(13)
    k, shape = 2, (7, 5)
    pairs = np.argwhere(rng.random(shape) < 0.7)
    u, v = (0.8 * rng.standard_normal((n, k)) for n in shape)
    y = np.asarray(TRUTH[name].sample(np.sum(u[pairs[:, 0]] * v[pairs[:, 1]], axis=1), rng), float)
    weight = rng.uniform(0.5, 2.0, len(y))
    likelihood = LEARNED[name].start(y, weight) if learned else TRUTH[name]
    designs = (np.column_stack([np.ones(7), rng.standard_normal((7, 2))]) if features else None, None)
    priors = {
        side: SidePrior(design, np.full(k + biases, design is not None), True)
        for side, design in zip(SIDES, designs, strict=True)
    }
    model = FactorModel(likelihood, n_components=k, biases=biases, full=full, priors=priors, offset=0.3, unit=1.4)
    return model, Ratings(*pairs.T, y, weight, *shape)


def topics(kind, bound="optimal", full=True):
    rng = np.random.default_rng(14)
    X = sp.csr_matrix(make_ctm(24, 30, n_components=3, n_words=40, random_state=0).data.astype(float))
    options = {"word_prior": np.full((3, 30), 0.2), "pseudo_documents": 10.0, "start": rng.uniform(0.5, 3, (3, 30))}
    model = CorrelatedTopics(3, 30, bound=bound, topics=kind, full=full, **options)
    return model.replaced(visit=Effort(50, 50, 1e-13)), Table(X, np.zeros(24))


def settled(kind, bound, full):
    """Documents are at their best wherever the globals are: the bound is one of the globals alone."""
    model, data = topics(kind, bound, full)
    one = even_nodes(NODES)
    return model.replaced(nodes=np.stack(np.meshgrid(one, one), -1).reshape(1, -1, 2)), data


def even_nodes(n):
    """A normal's quantiles, moved as little as gives the plain means of their even powers a normal's moments."""
    half, powers = norm.ppf((np.arange(n // 2, n) + 0.5) / n), np.array(MOMENTS)
    moments = factorial2(powers - 1)
    for _ in range(20):
        off = np.mean(half[:, None] ** powers, 0) / moments - 1.0
        slopes = powers * half[:, None] ** (powers - 1) / moments / len(half)
        half = half - np.linalg.lstsq(slopes.T, off)[0]
    np.testing.assert_allclose(np.mean(half[:, None] ** powers, 0), moments, rtol=1e-12)
    return np.concatenate([-half[::-1], half])


def held(kind, bound, full):
    """Documents stay where they had settled: the bound at their q(η) as it is, in which nothing is approximate."""
    model, data = topics(kind, bound, full)
    problem = plan.problem(model, data, MCSSVI(), Auto())
    problem.globals = GLOBALS["expected"]
    state = State(model.begin(data, None), 0, locals=plan.initialized(problem, first_state(problem, 0)).locals)
    engine.evaluate(problem, state, engine.whole(problem))
    kept = state.locals.values
    return model.replaced(local_begin=lambda data: kept.copy(), visit=Effort(0, 0, 0.0)), data


def independent_topics(learns_alpha):
    """Documents at their mean-field optimum, wherever the globals are."""
    rng = np.random.default_rng(14)
    X = sp.csr_matrix(make_ctm(24, 30, n_components=3, n_words=40, random_state=0).data.astype(float))
    options = {"alpha": np.array([0.3, 0.8, 0.5]), "eta": np.full((3, 30), 0.2), "start": rng.uniform(0.5, 3, (3, 30))}
    model = LatentDirichlet(3, 30, learns_alpha=learns_alpha, **options)
    traits = replace(model.traits, warmup=Warmup())  # whose gradients are not those of the bound
    model = model.replaced(visit=Settled(20000, 1e-14, 0, 0), globals="expected", traits=traits)
    return model, Table(X, np.zeros(24))


def factors(local_step, noise_size=1, missing=0.3, **known):
    rng = np.random.default_rng(15)
    X = rng.standard_normal((12, 4))
    X[rng.random(X.shape) < missing] = np.nan
    return BetaProcess(3, 4, local_step=local_step, noise_size=noise_size, **known), Table(X, np.zeros(12))


def components(missing=0.0, cls=GammaProcess):
    """Rows are at their best wherever components and weights are."""
    rng = np.random.default_rng(16)
    X = rng.poisson(rng.gamma(0.5, 2.0, (14, 3)) @ rng.gamma(0.5, 2.0, (3, 6))).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    model = cls(3, 6, mean=1.5, start=rng.gamma(1.0, 1.0, (3, 6)))
    return model.replaced(visit=Visit(3000, 0.0)), table(cells(X))


def events(missing):
    """Rows settle until events and activations agree: events of one visit are best for the activations before it."""
    model, data = components(missing, OverdispersedPoisson)
    visited = model.settled

    def agreed(view, batch, effort, rng=None, sums=True):
        for _ in range(AGREE):
            terms = visited(view, batch, AGREED, rng, sums)
            moved = np.abs(terms.local - batch.start).max()
            batch = replace(batch, start=terms.local)
            if moved < 1e-10:
                return terms
        raise AssertionError(f"events still move by {moved:.1e} after {AGREE} visits")

    return model.replaced(settled=agreed), data


def covariances(k, noise, centred=True):
    rng = np.random.default_rng(17)
    X = rng.standard_normal((40, 3)) @ rng.gamma(1.0, 1.0, (3, 4)) + rng.standard_normal((40, 4))
    known = {"noise": np.full(4, 0.5)} if noise == "fixed" else {"noise_size": 1 if noise == "auto" else 4}
    return GammaFactors(k, 4, noise_floor=np.full(4, 1e-3), **known), scatter_of(X, centred, 1)


def mixture(sizes, binary=False, missing=0.2, weighted=True, learns=False):
    rng = np.random.default_rng(16)
    codes = rng.integers(0, np.array(sizes), (30, len(sizes)))
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.uniform(0.5, 2.0, 30) if weighted else None
    model = MixtureModel(4, sizes, concentration=2.0, value_prior=0.7, learns_prior=learns, binary=binary)
    return model, Table(model.layout.cells(codes), np.zeros(30), weight)


def network(name, in_turn=True):
    """Every kind of node and of factor; by rows where a third of them may be a batch."""
    rng = np.random.default_rng(17)
    X, group, t = rng.standard_normal((24, 3)), rng.integers(0, 4, 24), rng.uniform(0.1, 3.0, 24)
    nodes = {
        "w": net.Gaussian(0.0, "spread", size=3, covariance="full"),
        "spread": net.Gamma(2.0, 1.0),
        "shapes": net.Gamma(2.0, "rate", size=4),
        "rate": net.Gamma(3.0, 2.0),
        "p": net.Beta([1.0, 2.0], 3.0),
        "shares": net.Dirichlet(rng.uniform(0.5, 2.0, (4, 3))),
        "counts": net.Likelihood("poisson", net.Link("w", design=X)),
        "numbers": net.Gamma(net.Link("shapes", index=group), "rate"),
        "hits": net.Binomial(net.Link("p", index=group % 2), trials=5),
        "codes": net.Categorical(net.Link("shares", index=group)),
        "events": net.Poisson("rate", exposure=t),
        "measured": net.Gaussian(net.Link("w", design=X), "rate"),
    }
    data = {
        "counts": rng.poisson(1.0, 24),
        "numbers": rng.gamma(2.0, 1.0, 24),
        "hits": rng.integers(0, 6, 24),
        "codes": rng.integers(0, 3, 24),
        "events": rng.poisson(t),
        "measured": rng.standard_normal(24),
    }

    def log_density(speed, p, t):
        return np.log1p(p) - np.square(speed - t)

    def slopes(speed, p, t):
        return -2.0 * (speed - t), 1.0 / (1.0 + p)

    links = [net.Link("shapes", index=group), net.Link("p", index=group % 2)]
    factor = net.Function(links, log_density, slopes if name == "slopes" else None, data=[t])
    built = Built(nodes, {"curve": factor}, data)
    rows = 24 if name == "rows" else 0
    model = NetworkModel(built.priors, built.factors.values(), None, rows, in_turn)
    return model, NetworkRows(np.arange(max(rows, 1)))


BOUNDS = ["optimal", "simple", "mean-field"]
#: Configured models of every entry of MODELS: what makes one, and what error is its integral's own.
CASES = {
    "linear": [
        *[
            (linear, (name, full), RULE_ERROR if name == "softmax" else 1e-4)
            for name in NAMES
            for full in (True, False)
        ],
        *[(linear, (name, full, True), 1e-4) for name in LEARNED for full in (True, False)],
        *[(wide_and_sparse, (full,), 1e-4) for full in (True, False)],
        (linear, ("poisson", True, False, False), 1e-4),
    ],
    "two-predictors": [
        *[(two_predictors, ("gaussian", "scale", learned), 1e-4) for learned in (True, False)],
        (two_predictors, ("negative-binomial", "scale"), 1e-3),
        (two_predictors, ("hurdle-poisson", "zero"), 1e-3),
    ],
    "mixed-two-predictors": [
        *[(mixed_two_predictors, ("gaussian", "scale", learned), 1e-4) for learned in (True, False)],
        (mixed_two_predictors, ("hurdle-poisson", "zero"), 1e-3),
    ],
    "mixed": [
        *[(mixed, ("gaussian", bound, 2.0, groups), 3e-4) for bound in BOUNDS for groups in (True, False)],
        *[(mixed, ("gaussian", bound, 2.0, True, None, 40, True), 3e-4) for bound in BOUNDS],
        (mixed, ("negative-binomial", "simple", 2.0, False, None, 12, True), 3e-4),
        (mixed, ("negative-binomial", "mean-field", 2.0, False, None, 12, True), 1e-3),
        *[(mixed, ("poisson", bound, 2.0, True), 3e-4) for bound in BOUNDS[1:]],
        *[(mixed, ("logit", bound, 2.0, True, 1), 3e-4) for bound in BOUNDS[1:]],
        *[(mixed, ("poisson", "optimal", None, True, arrow), 1e-4) for arrow in (0, 1, None)],
        (mixed, ("poisson", "optimal", 2.0, False, None, 3), 3e-4),
        (mixed, ("logit", "optimal", 2.0, True, 0, 6), 3e-4),
        (mixed, ("poisson", "simple", 2.0, True, None, 40, False, False), 3e-4),
    ],
    "sparse-gp": [
        *[
            (sparse_gp, (name, bound, by, full), 1e-4)
            for name, bound in [("gaussian", "simple"), ("gaussian", "v1"), ("logit", "simple"), ("poisson", "simple")]
            for by, full in [("gradient", True), ("gradient", False), ("evidence", True)]
        ],
        (sparse_gp, ("gaussian", "simple", "evidence", False), 1e-4),
        (sparse_gp, ("student-t", "simple", "gradient", True), 1e-4),
        # Hyperparameters of "v2" go along the gradient of "v1": see the test of their gradient below.
        *[(sparse_gp, ("gaussian", "v2", "gradient", full, True), 1e-4) for full in (True, False)],
        *[(sparse_gp, ("gaussian", "optimal", "evidence", full), 1e-4) for full in (True, False)],
        *[(sparse_gp_of_classes, (k, full), RULE_ERROR) for k in (2, 3) for full in (True, False)],
    ],
    "dynamic": [
        *[(dynamic, (name,), 1e-4) for name in ("gaussian", "logit", "poisson", "negative-binomial")],
        (dynamic, ("gaussian", True), 1e-4),
    ],
    "full-gp": [(full_gp, (name,), 1e-4) for name in ("gaussian", "logit", "poisson")],
    "factorization": [
        *[
            (factorization, (name, full, features), 1e-4)
            for name in ("gaussian", "ordinal", "poisson")
            for full in (True, False)
            for features in (True, False)
        ],
        *[(factorization, (name, full, True, True), 1e-4) for name in LEARNED for full in (True, False)],
        (factorization, ("gaussian", True, False, False, False), 1e-4),
    ],
    "correlated-topics": [
        *[
            (held, (kind, bound, full), 1e-6)
            for kind in ("dirichlet", "point", "sampled", "adagrad")
            for bound in BOUNDS
            for full in (True, False)
        ],
        # Covariances under the bound "simple" are mostly cut to the prior's, where they are not at their best.
        *[(settled, ("dirichlet", "optimal", full), CUT_ERROR) for full in (True, False)],
        *[(settled, ("dirichlet", "mean-field", full), NODE_ERROR) for full in (True, False)],
    ],
    "latent-dirichlet": [(independent_topics, (learns,), 1e-6) for learns in ("", "auto", "symmetric")],
    "gamma-poisson": [(components, (missing, GammaPoisson), 1e-4) for missing in (0.0, 0.2)],
    "gamma-poisson-overdispersed": [(events, (missing,), 1e-4) for missing in (0.0, 0.2)],
    "gamma-poisson-tight": [(components, (missing, TightGammaPoisson), 1e-4) for missing in (0.0, 0.2)],
    "gamma-process": [(components, (missing,), 1e-4) for missing in (0.0, 0.2)],
    "gamma-factors": [
        *[(covariances, (k, kind), 1e-4) for k in (2, 6) for kind in ("fixed", "auto", "per-feature")],
        (covariances, (2, "fixed", False), 1e-4),
    ],
    "mixture": [
        (mixture, ((2, 2, 2), True), 1e-6),
        (mixture, ((2, 2, 2), True, 0.0, False), 1e-6),
        (mixture, ((2, 3, 1, 3),), 1e-6),
        (mixture, ((2, 2, 2), True, 0.2, True, True), 1e-6),
        (mixture, ((2, 3, 1, 3), False, 0.2, True, True), 1e-6),
    ],
    "network": [(network, (name, in_turn), 1e-4) for name in ("rows", "slopes", "whole") for in_turn in (True, False)],
    "beta-process": [
        *[(factors, (step, size), 1e-4) for step in ("mean-field", "spike-slab", "gibbs") for size in (1, 4)],
        *[(factors, (step, 1, 0.0, 0.5, 2.0), 1e-4) for step in ("mean-field", "spike-slab")],
    ],
}


def made(make, arguments):
    if make is factors and len(arguments) > 3:
        *first, noise, weight_precision = arguments
        return factors(*first, noise=noise, weight_precision=weight_precision)
    return make(*arguments)


@pytest.fixture(autouse=True)
def local_steps_settle(monkeypatch):
    monkeypatch.setattr(beta_process, "MAX_SWEEPS", 20000)
    monkeypatch.setattr(beta_process, "SWEEP_TOL", 1e-13)


@pytest.fixture(autouse=True)
def rules_have_many_points(monkeypatch):
    monkeypatch.setattr(race, "LEVELS", ((np.inf, POINTS),))


# ---- all of them
def class_of(entry):
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def test_every_model_of_the_package_has_an_entry():
    found = set()
    for info in pkgutil.walk_packages(sksvi.__path__, "sksvi."):
        module = importlib.import_module(info.name)
        found |= {
            value
            for _, value in inspect.getmembers(module, inspect.isclass)
            if base.Model in value.__mro__ and value.__module__ == info.name
        }
    assert found - NO_MODELS - NO_BOUND == {class_of(entry) for entry in MODELS.values()}
    assert found >= NO_MODELS | NO_BOUND


def test_every_entry_has_cases_of_its_class():
    assert set(CASES) == set(MODELS)
    for key, cases in CASES.items():
        make, arguments, _ = cases[0]
        assert type(made(make, arguments)[0]) is class_of(MODELS[key])


def label(key, make, arguments):
    return "-".join([key, make.__name__, *(getattr(a, "__name__", str(a)) for a in arguments)])


#: Nodes by the thousand, and noise that is integrated out numerically.
SLOW = {(settled, ("dirichlet", bound, full)) for bound in BOUNDS for full in (True, False)}
SLOW |= {(mixed, ("poisson", "optimal", 2.0, False, None, 3))}
ALL = [
    pytest.param(*case, id=label(key, *case[:2]), marks=[pytest.mark.exhaustive] if case[:2] in SLOW else [])
    for key, cases in CASES.items()
    for case in cases
]


@pytest.mark.parametrize(("make", "arguments", "tolerance"), ALL)
def test_gradients_sums_and_steps(make, arguments, tolerance, global_random_seed):
    model, data = made(make, arguments)
    check_model(model, data, tolerance=tolerance, seed=global_random_seed)


def test_hyperparameters_of_v2_go_where_those_of_v1_do(global_random_seed):
    gradients = []
    for bound in ("v1", "v2"):
        model, data = sparse_gp("gaussian", bound)
        problem = plan.problem(model, data, MCSSVI(), Auto())
        q = first_state(problem, global_random_seed).q
        gradients.append(engine.evaluate(problem, State(q, 0), engine.whole(problem))[0])
    for name in ("kernel", "inputs", "likelihood"):
        for one, other in zip(*(gradient[name] for gradient in gradients), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
@pytest.mark.parametrize("name", ["gaussian", "ordinal", "poisson"])
def test_weights_of_ratings_are_repeats(name, full, global_random_seed):
    """Entries are no rows of a table: the columns' own version of what `check_model` asks of others."""
    rng = np.random.default_rng(global_random_seed)
    model, data = factorization(name, full)
    q = model.begin(data, rng)
    for side in SIDES:
        entries, view = data.sides[side], model.side_view(q, side)
        times = rng.integers(0, 3, len(entries))
        ends = np.concatenate([[0], np.cumsum(times)])[entries.starts]
        repeated = Entries(ends, np.repeat(entries.other, times), np.repeat(entries.y, times))
        weighted = Entries(entries.starts, entries.other, entries.y, times.astype(float))
        (value, parts), (again, others) = (
            view.plates(part, Auto(), None).terms(q[side]) for part in (weighted, repeated)
        )
        np.testing.assert_allclose(again, value, rtol=1e-10)
        for part, other in zip(parts, others, strict=True):
            np.testing.assert_allclose(other, part, rtol=1e-9, atol=1e-10)


# ---- what is wrong is found
def scaled(name, part, factor=1.05):
    """A pull-back whose gradient of one block is wrong in one part."""

    def change(gradient):
        parts = list(gradient[name])
        parts[part] = factor * parts[part]
        return {**gradient, name: tuple(parts)}

    return change


#: A case of every kind, the method that is made wrong, how, and what is said.
WRONG = [
    pytest.param(linear, ("logit",), scaled("weights", 0), "'weights' in the mean", id="linear mean"),
    pytest.param(linear, ("logit", False), scaled("weights", 1), "'weights' in the covariance", id="linear variance"),
    pytest.param(linear, ("softmax",), scaled("weights", 1, 1.3), "'weights' in the covariance", id="classes"),
    pytest.param(
        linear, ("negative-binomial", True, True), scaled("likelihood", 0), "gradient of 'likelihood'", id="point"
    ),
    pytest.param(
        mixed, ("poisson", "simple", 2.0, True), scaled("weights", 1), "'weights' in the covariance", id="arrow"
    ),
    pytest.param(
        mixed, ("gaussian", "simple", 2.0, False), scaled("noise", 0), "'noise' in the moments", id="noise"
    ),
    pytest.param(sparse_gp, ("logit",), scaled("inducing", 1), "'inducing' in the covariance", id="sparse GP"),
    pytest.param(full_gp, ("logit",), scaled("latents", 0), "'latents' in the mean", id="full GP, mean"),
    pytest.param(full_gp, ("logit",), scaled("latents", 1), "'latents' in the covariance", id="full GP, variance"),
    pytest.param(held, ("dirichlet", "optimal", True), scaled("topics", 0), "'topics' in the moments", id="topics"),
    pytest.param(
        held, ("point", "simple", False), scaled("population", 0), "'population' in the moments", id="population"
    ),
    *[
        pytest.param(factors, ("mean-field",), scaled(name, part), f"{name!r} in the {word}", id=f"{name}, {word}")
        for name, part, word in [
            ("probabilities", 0, "moments"),
            ("weight_precision", 0, "moments"),
            ("noise_precision", 0, "moments"),
            ("features", 0, "mean"),
            ("features", 1, "covariance"),
        ]
    ],
    *[
        pytest.param(network, ("rows",), scaled(name, part), f"{name!r} in the {word}", id=f"node {name}, {word}")
        for name, part, word in [("w", 0, "mean"), ("w", 1, "covariance"), ("shapes", 0, "moments")]
    ],
    pytest.param(
        factorization, ("ordinal", True, True, True), scaled("likelihood", 0), "gradient of 'likelihood'", id="ratings"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "arguments", "change", "message"), WRONG)
def test_a_wrong_gradient_is_found(make, arguments, change, message):
    model, data = make(*arguments)
    right = model.pull_back
    model.pull_back = lambda terms, batch: change(right(terms, batch))  # of this very model, which keeps parts of it
    tolerance = RULE_ERROR if arguments == ("softmax",) else 1e-4
    with pytest.raises(AssertionError, match=message):
        check_model(model, data, tolerance=tolerance)


@pytest.mark.parametrize("name", ["kernel", "inputs"])
def test_a_wrong_gradient_of_what_is_no_sum_is_found(name):
    model, data = sparse_gp("poisson")
    right = model.completed
    with pytest.raises(AssertionError, match=f"gradient of {name!r}"):
        check_model(model.replaced(completed=lambda gradient, q: scaled(name, 0)(right(gradient, q))), data)


@pytest.mark.parametrize(("part", "message"), [(0, "in the mean"), (1, "in the covariance")])
@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_a_wrong_gradient_of_plates_is_found(full, part, message, monkeypatch):
    model, data = factorization("ordinal", full)
    right = columns.SideColumns.terms

    def wrong(self, block):
        value, parts = right(self, block)
        return value, tuple(1.05 * p if k == part else p for k, p in enumerate(parts))

    monkeypatch.setattr(columns.SideColumns, "terms", wrong)
    with pytest.raises(AssertionError, match=f"gradient of 'users' {message}"):
        check_model(model, data)


def test_other_faults_are_found():
    """Names, rows that are missed, sums that are none, weights that count otherwise, steps that go downhill."""

    def refused(message, learned=False, name="negative-binomial", **methods):
        model, data = linear(name, True, learned)
        for method, make in methods.items():
            setattr(model, method, make(getattr(model, method)))
        with pytest.raises(AssertionError, match=message):
            check_model(model, data)

    def without(name):
        return lambda f: lambda *a: {key: value for key, value in f(*a).items() if key != name}

    refused("has no gradient", pull_back=without("weights"))
    refused("'likelihood'. has no gradient", True, pull_back=without("likelihood"))
    refused("no block of q", pull_back=lambda f: lambda *a: {**f(*a), "other": (np.zeros(1),)})
    refused("needs a prior", prior=lambda f: lambda q: {} if "weights" in q else f(q))
    refused("visit|misses|stand for", sweep=lambda f: lambda *a: list(f(*a))[:1])
    refused(
        "stand for all rows",
        sweep=lambda f: lambda *a: [base.Segment(s.rows, 2.0 * s.scale, s.blocks) for s in f(*a)],
    )
    refused("is no block", sweep=lambda f: lambda *a: [base.Segment(s.rows, s.scale, ("other",)) for s in f(*a)])
    refused("best mean is downhill", best_mean=lambda f: lambda q, *a: type(q["weights"])(
        f(q, *a).mean + 3.0, q["weights"].precision
    ))  # fmt: skip
    refused("grow", grown=lambda f: lambda q, data: {name: block.copy() for name, block in q.items()})
    refused("other shapes", message_shapes=lambda f: lambda n: ((n,), (n, 2)))


def test_sums_over_rows_that_are_none_are_found():
    """A bound with something per chunk in it, and rows whose weights count twice."""
    model, data = linear("poisson")
    right = model.terms

    def constant(view, batch, expect, rng):
        terms = right(view, batch, expect, rng)
        terms.value[0] += 1.0
        return terms

    with pytest.raises(AssertionError, match="do not add up to the whole"):
        check_model(model.replaced(terms=constant), data)

    def squared(view, batch, expect, rng):
        return right(view, batch, expect, rng).weighted(batch.data.weight)

    with pytest.raises(AssertionError, match="whole weights are not repeats"):
        check_model(model.replaced(terms=squared), data)


def test_steps_of_hyperparameters_that_go_downhill_are_found(monkeypatch):
    model, data = linear("gaussian", True, True)
    right = LinearModel._precision_step

    def downhill(self, q):
        step, gain = right(self, q)
        return -step, gain

    monkeypatch.setattr(LinearModel, "_precision_step", downhill)
    with pytest.raises(AssertionError, match="step of 'prior_precision' goes downhill"):
        check_model(model, data)


def test_a_search_that_ends_downhill_is_found():
    model, data = full_gp("logit")

    def downhill(fit, tol):
        return model.at(fit.q["kernel"].value - 3.0, fit.q["latents"]), True

    with pytest.raises(AssertionError, match="ends downhill"):
        check_model(model.replaced(search=downhill), data)


def test_sums_that_depend_on_threads_are_found():
    model, data = linear("poisson")
    right, seen = model.pull_back, []

    def counted(terms, batch):
        seen.append(None)
        return {name: tuple(p * (1 + 1e-15 * len(seen)) for p in parts) for name, parts in right(terms, batch).items()}

    with pytest.raises(AssertionError, match="threads change bits"):
        check_model(model.replaced(pull_back=counted), data)
