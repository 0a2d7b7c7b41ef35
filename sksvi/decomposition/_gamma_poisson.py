"""Gamma-Poisson factorization as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import memory
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.decomposition._gamma_counts import CountFactorization
from sksvi.decomposition._gamma_fit import PoissonFit
from sksvi.decomposition._pairs import Request, best, offered_among
from sksvi.estimators.base import Phase
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.inference.problem import Problem
from sksvi.inference.state import Locals, State
from sksvi.models.data import Table
from sksvi.models.nmf.cells import cells
from sksvi.models.nmf.poisson import DRAWS, LEAST_ROWS, GammaPoisson, TightGammaPoisson
from sksvi.models.nmf.rows import CHUNKS

Array = np.ndarray

#: Models by bound.
MODELS = {"auxiliary": GammaPoisson, "tight": TightGammaPoisson}


@with_own_methods
class GammaPoissonFactorization(PoissonFit, CountFactorization):
    """Non-negative matrix factorization of counts under Gamma priors.

    y_nf ~ Poisson(Σ_k H_nk W_kf) with W_kf ~ Gamma(component_shape, ``component_rate_``), the cells of
    ``components_``, and H_nk ~ Gamma(activation_shape, ``activation_rate_``), how active each is in each row. The rates
    maximise the bound (empirical Bayes). With ``bound="auxiliary"`` q maximises the bound over counts split among
    components (Cemgil 2009), with "tight" that without them (Khan and Lin 2017, table 5). Where X has no counts its
    unit matters: it says how certain a cell is. The likelihood is that of scikit-learn's NMF with the Kullback-Leibler
    divergence; what is added are priors, a posterior, missing cells, chunks of data, and a bound on the evidence.

    Parameters
    ----------
    n_components : int, default=20
        Components.
    component_shape : float, default=0.3
        Shape of the Gamma prior of each component's cells: the smaller, the sparser they are.
    activation_shape : float, default=0.3
        Shape of the Gamma prior of activations: the smaller, the fewer components are active in a row.
    bound : {"auxiliary", "tight"}, default="auxiliary"
        "auxiliary": each count is split among components, and every update is conjugate. "tight": without that, by
        draws of both factors; the bound is larger, a pass some twenty times as long, and held-out scores are hardly
        better. A fit begins with auxiliary counts and goes on from where they settled; `lower_bound_` has the noise of
        the draws.
    init : {"groups", "rows", "random"} or array-like of shape (n_components, F), default="groups"
        First components: means of groups of rows alike (k-means) or rows that differ, with all rows in a step half as
        many again, of which those alike are merged after a few passes; noise; or given ones.
    uncertainty : {"corrected", "variational"}, default="corrected"
        "corrected": `fit` ends with sweeps of conditional draws that begin at q: which component each count came from,
        activations, components, and what these share. Means stay those of q, variances are mean squares of draws about
        them. There are 120 sweeps where these are quick (counts other than 0 times components up to 170,000), else as
        many as take about the time of the fit, but at least 40; none where one visits more than 50 million and the fit
        took few passes. "variational": the variances of q, which are too small. So it is after `partial_fit` and of
        Dask collections.
    algorithm : {"cvi", "svi", "mc-ssvi", "ssvi-a"} or Algorithm, default="cvi"
        How rows see components: by expectations ("cvi", also called "svi") or by draws ("mc-ssvi", also called
        "ssvi-a").
    expectation : str or Expectation, default="auto"
        Every expectation of this model has a closed form: all values do the same.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; "auto": all up to 20,000, else 100; in ``partial_fit`` 200.
    max_iter : int, default=200
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
        Posterior mean of the components, those with the largest share first.
    component_shares_ : ndarray of shape (K,)
        Share of all counts that each explains.
    n_components_ : int
        Number of components.
    activation_rate_, component_rate_ : float
        Learned rates of the priors of activations and components.
    draws_ : JointDraws or None
        Draws that variances are of, single precision: ``items`` (F, S, K), of components; ``n_draws``,
        and ``k_hats``, how far q is from them. None: variances are those of q.
    posterior_ : Posterior
        Block ``components``.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_` and per pass, nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray of shape (F,)

    See Also
    --------
    sklearn.decomposition.NMF : the maximum of the same likelihood.
    sksvi.GammaProcessNMF : components with weights under a gamma process.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sksvi import GammaPoissonFactorization
    >>> X = load_digits().data
    >>> model = GammaPoissonFactorization(n_components=10, random_state=0).fit(X[:300])
    >>> model.components_.shape, model.transform(X[300:305]).shape
    ((10, 64), (5, 10))
    """

    LAYOUT = f"""{PoissonFit.LAYOUT}
        components_ (k,d)
        draws_? JointDraws; draws_.items? (d,_,k) x
    """

    #: Column of `recommend` that holds the numbers of rows without an index.
    _row_numbers = "row"
    #: A chunk is many small steps: one step on all of it would say little more than one on some of its rows.
    _portion_rows = 200
    _parameter_constraints: dict[str, list[Any]] = {
        **PoissonFit._parameter_constraints,
        "bound": [StrOptions(set(MODELS))],
    }
    _changes = {**CountFactorization._changes, "bound": UNCHECKED}

    def __init__(
        self,
        n_components: int = 20,
        *,
        component_shape: float = 0.3,
        activation_shape: float = 0.3,
        bound: str = "auxiliary",
        init: str | ArrayLike = "groups",
        uncertainty: str = "corrected",
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        batch_size: int | str | None = "auto",
        max_iter: int = 200,
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
        self.bound = bound
        self.init = init
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

    def _model(self, n_features: int) -> GammaPoisson:
        return self._made(MODELS[self.bound], n_features)

    def _forming_model(self, n_features: int) -> GammaPoisson:
        return self._made(GammaPoisson, n_features)

    def _check_memory(self, data: Table) -> None:
        super()._check_memory(data)
        if self.bound == "tight":
            K, (n, F) = float(self.n_components), data.X.shape
            n = n if data.at_hand else 0
            numbers = 6 * DRAWS * K * (F + max(LEAST_ROWS, n / CHUNKS))
            memory.need(8.0 * numbers, f"bound='tight' with n_components={self.n_components}", "take 'auxiliary'")

    def _phases(self, problem: Problem, state: State, passes: int) -> list[Phase]:
        """Where draws are taken, they begin where auxiliary counts have settled."""
        phases = super()._phases(problem, state, passes)
        drawn = isinstance(state.locals, Locals) and state.locals.rule == problem.local_rule
        if self.bound == "auxiliary" or drawn:
            return phases
        model = self._forming_model(self.n_features_in_)
        first = self._checked_problem(model, problem.data, problem.batch_size)
        return [Phase(first, passes, self.tol), *phases]

    def recommend(
        self,
        X: MatrixLike,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        items: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> DataFrame:
        """The columns with the largest expected counts for some rows: items for users.

        A row need not be one of the fit: its posterior is found from its own counts.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_rows, F)
            Counts of every column, 0 where there was none; NaN in a dense one where a cell is missing.
        n : int, default=10
            Columns per row, fewer where fewer are left.
        exclude_seen : bool, default=True
            Whether to leave out the columns that a row has counts of.
        items : array-like of shape (c,), default=None
            Columns that may be recommended, by name or else by number; None: all.
        exclude : array-like of shape (e,), default=None
            Columns that no row is recommended.

        Returns
        -------
        DataFrame
            row (its index in a DataFrame, else its number), column (its name, else its number), rank, and mean and std
            of its count, Poisson noise included. Of a Dask collection a lazy one, a partition for each of X.

        Raises
        ------
        ValueError
            An n that is no integer of at least 1; `items` or `exclude` with a column that X has not.
        """
        import pandas as pd

        check_is_fitted(self)
        request = Request.of(n, exclude_seen, items, exclude)
        index = getattr(X, "index", None)
        index = None if callable(index) else index  # a list has a method of that name
        found = cells(self._rows(X))
        names = getattr(self, "feature_names_in_", np.arange(found.shape[1]))
        offered = offered_among(names, request, "columns")
        labels = np.arange(found.shape[0]) if index is None else np.asarray(index)
        tables = []
        for rows, mean, variance in self._moments_of(found):
            score = np.where(found.counts[rows].toarray() > 0, -np.inf, mean) if request.exclude_seen else mean
            of, column, rank = best(score[:, offered], request.n)
            column = offered[column]
            own, std = mean[of, column], np.sqrt(mean[of, column] + variance[of, column])
            parts = {"row": labels[rows][of], "column": names[column], "rank": rank, "mean": own, "std": std}
            tables.append(pd.DataFrame(parts))
        return pd.concat(tables, ignore_index=True)
