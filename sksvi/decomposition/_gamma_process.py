"""Gamma process NMF as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.algorithms.specs import SSVIA
from sksvi.decomposition._gamma_counts import CountFactorization
from sksvi.decomposition._gamma_fit import EVENED, in_order
from sksvi.estimators.base import Phase
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import UNCHECKED, auto_or_number, stays
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families import Gamma
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.nmf.model import GammaProcess
from sksvi.models.nmf.rows import CountRows
from sksvi.schedules import Constant

Array = np.ndarray

#: A component is used where it explains more than this share of all counts.
USED = 1e-4


@with_own_methods
class GammaProcessNMF(CountFactorization):
    """Non-negative matrix factorization of counts under a gamma process (GaP-KL-NMF).

    Counts are Poisson with mean (H∘θ)W: ``components_`` W, how active each is in each row H, and one weight θ_k per
    component under a gamma process prior, which leaves components that nothing needs small. It splits others rather
    than empty them: give ``n_components`` near the number that is expected. The likelihood is that of scikit-learn's
    NMF with the Kullback-Leibler divergence; what is added are priors, a posterior, intervals, missing cells, chunks of
    data, and a bound on the evidence. Fitted by stochastic variational inference (Hoffman and Blei 2015).

    Parameters
    ----------
    n_components : int, default=50
        Components to choose from: the truncation of the gamma process.
    component_shape : float, default=0.25
        Shape a of the prior Gamma(a, a) of each component's cells: the smaller, the sparser they are.
    activation_shape : float, default=0.2
        Shape b of the prior Gamma(b, b) of activations: the smaller, the fewer components are active in a row.
    concentration : float, default=1.0
        α of the prior Gamma(α/K, αc) of weights: the smaller, the fewer components are used.
    prior_mean : "auto" or float, default="auto"
        1/c, the mean of a cell a priori. "auto": that of the first fit's cells (1 where all of them are 0).
    init : {"rows", "random"} or array-like of shape (n_components, F), default="rows"
        First components: rows that differ (k-means++), in `fit` twice as many as are wanted, of which those alike
        are merged after a few passes; noise; or given ones.
    prune : bool, default=True
        Whether components that explain less than 1/10,000 of all counts are left out of the results; one stays.
    search_passes : int, default=0
        So many passes of a fit to all rows at once begin it by draws of components, weights and activations, in steps
        of rate 1, whatever the algorithm: they find components that expectations miss. 150 where the components
        themselves are asked for and counts are few, as when faint sounds are separated; where cells are predicted they
        may cost more than they bring.
    uncertainty : {"corrected", "variational"}, default="corrected"
        "corrected": `fit` ends with sweeps of conditional draws that begin at q: which component each count came from,
        activations, components, and what these share. Means stay those of q, variances are mean squares of draws about
        them. There are 120 sweeps where these are quick (counts other than 0 times components up to 170,000), else as
        many as take about the time of the fit, but at least 40; none where one visits more than 50 million and the fit
        took few passes. "variational": the variances of q, which are too small. So it is after `partial_fit` and of
        Dask collections.
    algorithm : {"svi", "ssvi-a", "cvi", "mc-ssvi"} or Algorithm, default="svi"
        How rows see components and weights: by expectations ("svi", also called "cvi") or by draws ("ssvi-a", also
        called "mc-ssvi").
    expectation : str or Expectation, default="auto"
        Every expectation of this model has a closed form: all values do the same.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; "auto": all up to 20,000, else 5,000; in ``partial_fit`` 20.
    max_iter : int, default=1000
        Most passes over the data.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops.
    total_samples : float or None, default=None
        Rows of the population, for ``partial_fit``; None: those seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one; with twice the rows that its components began among, or more, it
        begins anew.
    random_state : int, RandomState or None, default=None
        Seed.
    verbose : int, default=0
        1: a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (K, F)
        Posterior mean of the components that are used, those with the largest share first.
    component_weights_ : ndarray of shape (K,)
        Posterior mean of their weights θ.
    component_shares_ : ndarray of shape (K,)
        Share of all counts that each explains.
    n_components_ : int
        Number of components in the results.
    draws_ : JointDraws or None
        Draws that variances are of, single precision: ``items`` (F, S, K), of components times weights; ``n_draws``,
        and ``k_hats``, how far q is from them. None: variances are those of q.
    prior_mean_ : float
        1/c.
    posterior_ : Posterior
        Blocks ``components`` and ``weights``.

    See Also
    --------
    sklearn.decomposition.NMF : the maximum of the same likelihood.
    sksvi.topics.CorrelatedTopicModel : counts of words.

    Examples
    --------
    >>> from sksvi import GammaProcessNMF
    >>> from sksvi.datasets import make_spectra
    >>> bunch = make_spectra(60, 40, n_components=3, random_state=0)
    >>> model = GammaProcessNMF(n_components=10, random_state=0).fit(bunch.data)
    >>> model.transform(bunch.data).shape == (60, model.n_components_)
    True
    """

    LAYOUT = f"""{CountFactorization.LAYOUT}
        _record.choices.n_components count k; prior_mean_ number >0
        state_.q.components.mean (k,d); state_.q.weights.mean (k); state_.locals.values? (_,k) f >=0
        n_components_ count n >=1 <=k; components_ (n,d) x >=0
        draws_? JointDraws; draws_.items? (d,_,n) x; draws_.weights? (_,n) x
        component_weights_ (n) f >=0; component_shares_ (n) f >=0
        posterior_._blocks.components.mean (n,d); posterior_._blocks.weights.mean (n)
    """

    component_weights_: np.ndarray
    n_components_: int
    prior_mean_: float

    #: A chunk is many small steps: one step on all of it would say little more than one on some of its rows.
    _portion_rows = 20
    _parameter_constraints: dict[str, list[Any]] = {
        **CountFactorization._parameter_constraints,
        "concentration": [Interval(Real, 1e-3, 1e6, closed="both")],
        "prior_mean": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "init": ["array-like", StrOptions({"rows", "random"})],
        "prune": ["boolean"],
        "search_passes": [Interval(Integral, 0, None, closed="left")],
    }
    _changes = {
        **CountFactorization._changes,
        "concentration": UNCHECKED,
        "prior_mean": stays("the first fit has set the mean of a cell", auto_or_number),
        "prune": UNCHECKED,
        "search_passes": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 50,
        *,
        component_shape: float = 0.25,
        activation_shape: float = 0.2,
        concentration: float = 1.0,
        prior_mean: float | str = "auto",
        init: str | ArrayLike = "rows",
        prune: bool = True,
        search_passes: int = 0,
        uncertainty: str = "corrected",
        algorithm: AlgorithmLike = "svi",
        expectation: ExpectationLike = "auto",
        batch_size: int | str | None = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.component_shape = component_shape
        self.activation_shape = activation_shape
        self.concentration = concentration
        self.prior_mean = prior_mean
        self.init = init
        self.prune = prune
        self.search_passes = search_passes
        self.uncertainty = uncertainty
        self.algorithm = algorithm
        self.expectation = expectation
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting
    @property
    def _cell_mean(self) -> float:
        """Mean of a cell a priori."""
        return self._encoding.mean if isinstance(self.prior_mean, str) else float(self.prior_mean)

    def _model(self, n_features: int) -> GammaProcess:
        return GammaProcess(
            int(self.n_components),
            n_features,
            component_shape=float(self.component_shape),
            activation_shape=float(self.activation_shape),
            concentration=float(self.concentration),
            mean=self._cell_mean,
        )

    def _phases(self, problem: Problem, state: State, passes: int) -> list[Phase]:
        phases = super()._phases(problem, state, passes)
        search, last = self._search(problem), min(int(self.search_passes), passes)
        # One that was cut off where its search ended has not ended it.
        within = state.passes < last or (state.passes == last > 0 and state.moved_by == search.moves)
        if state.finished or not within or not problem.full_batch:
            return phases
        return [Phase(search, last, 0.0), *phases]  # it settles nowhere

    def _search(self, problem: Problem) -> Problem:
        """Problem of the first passes, which search for components."""
        traits = problem.model.traits
        # It moves among components, and those that it left are no part of where it is.
        traits = replace(traits, steps=replace(traits.steps, averages=False))
        return plan.changed(problem, model=problem.model.replaced(traits=traits), algorithm=SSVIA(Constant(1.0)))

    @property
    def _evened(self) -> float:
        return 0.0 if self.search_passes else EVENED

    # ---- the prior
    @property
    def _improper(self) -> str:
        if not isinstance(self.prior_mean, str) or hasattr(self, "state_"):
            return ""
        return "prior_mean='auto' is the mean of the cells that are to be drawn: give a number"

    def _row_draws(self, model: Any, q: dict[str, Any], drawn: dict[str, Array], data: Any, rng: Any) -> Array:
        """Counts of rows whose activations are Gamma(b, b)."""
        b = model.activation_shape
        activations = rng.gamma(b, 1.0 / b, (len(data), len(drawn["weights"])))
        return np.asarray(rng.poisson(activations * drawn["weights"] @ drawn["components"]), float)

    # ---- what a fit leaves behind
    def _weighted(self, activations: Array) -> Array:
        return np.asarray(activations * self.component_weights_)

    @property
    def _moments_by_side(self) -> dict[str, tuple[Array, Array]]:
        (mean, variance), q = super()._moments_by_side["items"], self.posterior_["weights"]
        spread = q.variance * (variance + np.square(mean)) + np.square(q.mean) * variance
        return {"items": (q.mean * mean, spread)}

    def _chain_model(self, n_features: int) -> CountRows:
        """The model of the components in the results, each with the prior that it had among all."""
        share = len(self.components_) / int(self.n_components)
        model = super()._chain_model(n_features)
        return model.replaced(concentration=share * self.concentration, mean=share * self._cell_mean)

    @property
    def _summarised(self) -> Gamma:
        q = self.posterior_["weights"]
        if self.draws_ is None:
            return q
        rate = q.mean / np.mean(np.square(self.draws_.weights - q.mean), axis=0)
        return Gamma(rate * q.mean, rate)

    def _expose(self, model: Any, state: State) -> None:
        components, weights = state.q["components"], state.q["weights"]
        shares, order = in_order(weights.shape - model.prior(state.q)["weights"].shape)
        order = order[: max(1, int(np.sum(shares > USED)))] if self.prune else order
        own = {"components": components[order], "weights": weights[order]}
        self.posterior_, self.prior_mean_ = Posterior(own), self._cell_mean
        self.components_ = own["components"].mean.astype(self._encoding.dtype)
        self.component_weights_, self.component_shares_ = own["weights"].mean, shares[order]
        self.n_components_ = len(order)
