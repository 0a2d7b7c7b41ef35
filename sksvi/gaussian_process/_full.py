"""Bayesian classification with a full Gaussian process: one message per training row."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import ClassWeight, DataFrame, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_row_values, interval_table, n_rows
from sksvi.estimators.classification import CLASS_WEIGHT, ClassificationMethods
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.encoding import CHUNK, GivenRows
from sksvi.estimators.posterior import Posterior, PosteriorTarget, check_same_rows, final_bound
from sksvi.estimators.refit import LIKELIHOOD, SHARED, UNCHECKED, stays
from sksvi.estimators.sites import SiteFit
from sksvi.estimators.summaries import CHANGES, concatenated
from sksvi.estimators.summaries import CONSTRAINTS as HYPERPARAMETERS
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families.gaussian.views import ChosenRows
from sksvi.gaussian_process._draws import full_draws
from sksvi.gaussian_process._encoding import DistinctRows, FullProcessEncoding
from sksvi.gaussian_process._part import started_at_part
from sksvi.gaussian_process._process import GaussianProcess, ProcessFit
from sksvi.gaussian_process._sites import full_sites
from sksvi.gaussian_process._start import ALONE, OF_ALL_ROWS, first_kernel, shortened, spread_of
from sksvi.inference.problem import Problem
from sksvi.inference.records import START
from sksvi.inference.start import continued
from sksvi.inference.state import State
from sksvi.likelihoods import Likelihood
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.evaluations import MOST_NUMBERS
from sksvi.models.gp.full import FullGP

if TYPE_CHECKING:
    from sksvi.gaussian_process._sparse import SparseGPClassifier

Array = np.ndarray

#: Matrices between all rows that predictions hold for a node, of which there is about one for each hyperparameter.
OF_NODE = 3.0


@with_own_methods
class GPClassifier(ClassificationMethods, GaussianProcess):
    """Gaussian process classification on all rows, two classes.

    p(y|f) = σ(±f(x)), f ~ GP(0, kernel), and the Gaussian q over f at the training rows that maximises the bound
    -KL(q‖p) + Σ E log p(y|f); q is the prior times one Gaussian message per row (Khan and Lin 2017, CVI). A pass costs
    n³ operations and memory n²: up to a few thousand rows. `SparseGPClassifier` takes more rows.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, default=None
        Prior covariance of f; None: a scaled RBF with a length scale per feature, plus a constant of variance 1 + c²,
        c the constant f that fits all labels best. More than eight features have one length scale where their standard
        deviations are within a factor of three of the median, or where that explains some rows better, as it does
        pixels. Lengths start at the distance of the rows from their mean, or shorter where some rows have clearly more
        evidence of that. Not `WhiteKernel`.
    likelihood : {"logit", "probit"} or instance, default="logit"
    optimize_hyperparameters : bool, default=True
        Whether the kernel's parameters maximise the bound, starting from the ones given; its fixed ones stay.
    hyperparameters : {"integrated", "point"}, default="integrated"
        Whether predictions, draws and ``summary()`` are a mixture over few nodes of the posterior of what is learned
        of the kernel, or take its best values. "point" maximises the bound alone; "integrated" has weak priors in the
        units of X, and takes the point of more than 2,896 rows.
    class_weight : {"balanced"}, dict or None, default=None
        What rows of each label count for, beside their sample_weight: "balanced" as if all labels were equally
        frequent. Probabilities are then those of data weighted so, and no longer of the data as they come, and
        intervals are too narrow: a fit warns, and says by how much.
    algorithm : {"cvi", "fp", "mc-ssvi"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How E log p(y|f) is integrated; "monte-carlo" only without `optimize_hyperparameters`.
    covariance : {"full"}, default="full"
        Of q over the latents. Two numbers per row describe a full one, so that "diag" would save nothing: an error.
    batch_size : int, "auto" or None, default="auto"
        Rows whose messages a step moves, of "cvi"; "auto", None: all. Messages are exact at the end, so that no size
        changes q (Khan and Lin 2017, eq. 14). A step costs n² `batch_size` operations and a pass two to nine times
        what one on all rows does: it pays where part of a pass is enough, or expectations cost more than matrices.
    max_iter : int, default=1000
        Most passes over the data, those of the search for hyperparameters included.
    tol : float, default=1e-4
        The fit stops when the relative change of the bound per pass stays below it.
    total_samples : None, default=None
        Of `partial_fit`, which there is not: q belongs to the rows of `fit`. A number is an error.
    n_jobs : int, default=None
        Threads of the predictions; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last kernel parameters and, on the same rows, from the last posterior.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    kernel_ : kernel
        With its fitted parameters.
    X_train_ : ndarray of shape (m, D)
        The distinct training rows of positive weight, in an order of their own.
    likelihood_ : Likelihood
    posterior_ : mapping
        ``posterior_["latents"]``: ``mean``, ``cov``, ``std``, ``sample`` of f without offset at the training rows of
        positive weight.
    lower_bound_ : float
        Log evidence with hyperparameters integrated over nodes, nats; where they are a point its bound at `posterior_`.
    lower_bounds_ : ndarray
        Bound, and log prior of the hyperparameters where these are integrated, at their values per pass, nats.
    hyperparameter_posterior_ : DataFrame
        A row per node, its weight and hyperparameters; where they are integrated.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    BayesianGLMClassifier : f linear in the columns.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sksvi import GPClassifier
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = GPClassifier().fit(X, y)
    >>> model.predict_proba([[0.0, 1.0], [1.0, -0.5]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    LAYOUT = (
        GaussianProcess.LAYOUT
        + """
        X_train_ (n,d) x; state_.q.latents where np.size(it.mean) == n
        _rows_of_fit items 2; _rows_of_fit[0] (r) i >=0; _rows_of_fit[1] (r) i <n
        posterior_._blocks.latents.mean (r)
        _process.nodes? where self._process.node_blocks is not None
        _process.node_blocks? items 2; _process.node_blocks[0]? (a,n) f where a == len(self._process.few.weights) - 1
        _process.node_blocks[1]? (a,n) f >=0; state_.q.kernel.value (p) f
        state_.progress.under_way where not it or it.keys() == {'found', 'left', 'settled', 'here', 'before', 'rate'}
        state_.progress.under_way.left? number >0; state_.progress.under_way.rate? number >=0
        state_.progress.under_way.before? where it <= np.inf
        state_.progress.under_way.found? where all(p == len(x) == len(x if b is None else b[-1]) for x, b in it)
        state_.progress.under_way.settled? where [a.shape for b in it for a in b[:3]] == 3 * [(p,), (n,), (n,)]
        state_.progress.under_way.here? where [a.shape for a in it[:3]] == [(p,), (n,), (n,)] and np.all(it[2] >= 0.0)
    """
    )

    _encoding_class = FullProcessEncoding
    #: Rows that count, by number, and where each is among the different ones.
    _rows_of_fit: tuple[Array, Array]
    kernel_: Kernel
    X_train_: np.ndarray
    likelihood_: Likelihood

    _binary_only = True
    #: A row costs as many products as there are pairs of rows.
    _most_scored = 512
    _parameter_constraints: dict[str, list[Any]] = {
        "kernel": [Kernel, None],
        "likelihood": [StrOptions({"logit", "bernoulli", "probit"}), Likelihood],
        "class_weight": CLASS_WEIGHT,
        "optimize_hyperparameters": ["boolean"],
        **HYPERPARAMETERS,
        **BaseSVI._parameter_constraints,
        "algorithm": [StrOptions({"cvi", "fp", "mc-ssvi"}), algorithms.Algorithm],
    }
    # Values of the last three that a full GP cannot have are refused in every fit.
    _changes = {
        **SHARED,
        "kernel": stays("its parameters have been learned", lambda estimator, name: repr(estimator.kernel)),
        "likelihood": LIKELIHOOD,
        "class_weight": UNCHECKED,
        "optimize_hyperparameters": UNCHECKED,
        **CHANGES,
        "covariance": UNCHECKED,
        "batch_size": UNCHECKED,
        "total_samples": UNCHECKED,
    }

    def __init__(
        self,
        *,
        kernel: Kernel | None = None,
        likelihood: LikelihoodLike = "logit",
        optimize_hyperparameters: bool = True,
        hyperparameters: str = "integrated",
        class_weight: ClassWeight = None,
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
        batch_size: int | str | None = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        total_samples: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.optimize_hyperparameters = optimize_hyperparameters
        self.hyperparameters = hyperparameters
        self.class_weight = class_weight
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None, offset: PerRow | None = None
    ) -> GPClassifier:
        """Fit q, and the kernel's parameters, to (X, y).

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,)
            Labels of any type, two of them.
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f.

        Returns
        -------
        GPClassifier
            Itself.

        Raises
        ------
        ValueError
            Other than two classes, numbers that are not finite, negative or only zero weights, an impossible kernel.
        """
        return self._fit(X, y, sample_weight, offset)

    # ---- from rows to a model
    def _check_whole(self, n: int) -> None:
        """An error for what only means something where a model takes a part of the rows."""
        instead = "SparseGPClassifier has it."
        if self.covariance != "full":
            raise ValueError(
                f"covariance={self.covariance!r} cannot serve GPClassifier, whose q is the prior times a message per "
                f"row and costs two numbers a row: set covariance='full'. {instead}"
            )
        if self.total_samples is not None:
            raise ValueError(
                f"total_samples={self.total_samples} is for partial_fit, which GPClassifier does not have: its q "
                f"belongs to the rows of fit. Set total_samples=None. {instead}"
            )

    def _build_model(self, data: DistinctRows) -> tuple[FullGP, Table]:
        own = self.kernel
        kernel = first_kernel(self.likelihood_, data) if own is None else kernels.checked(own, data.X.shape[1])
        learned, density = self.optimize_hyperparameters, self._hyper_prior(kernel, data)
        self._check_room(len(data), learned * len(kernel.theta))
        self._rows_of_fit = data.counted, data.place
        return FullGP(self.likelihood_, kernel, data.X, learned, density), data

    def _model_at_start(self, problem: Problem, seed: int) -> FullGP:
        model = cast(FullGP, problem.model)
        if self.kernel is None and model.learned:
            model = model.replaced(kernel=shortened(model.kernel, model.likelihood, problem.data))
        return started_at_part(problem, model, self.tol)

    def _continued(self, problem: Problem) -> State:
        state = self.state_
        if not np.array_equal(cast(Table, problem.data).X, self.X_train_):
            state = replace(state, q=cast(FullGP, problem.model).at(state.q["kernel"].value), progress=START)
        return continued(problem, state)

    def _expose(self, model: FullGP, state: State) -> None:
        self.kernel_ = model.current_kernel(state.q)
        self.X_train_, block = model.X, state.q["latents"]
        self._process = ProcessFit(self.kernel_, self.likelihood_, block, model.X)
        self.posterior_ = Posterior({"latents": ChosenRows(block, self._rows_of_fit[1])})

    def _check_room(self, n: int, learned: int) -> None:
        """An error where matrices between n rows, with so many hyperparameters learned, exceed the memory there is."""
        nodes = learned if self.hyperparameters == "integrated" and n**2 <= MOST_NUMBERS else 0
        n_matrices = OF_ALL_ROWS * (1.0 if learned else ALONE) + OF_NODE * nodes
        what = f"the covariance between {n} rows, of which a fit holds {n_matrices:.0f},"
        memory.need(n_matrices * 8.0 * n**2, what, "take SparseGPClassifier, or fewer rows")

    # ---- the posterior that q stands for
    def _with_rows_of_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Problem, float | None]:
        """The problem that was fitted, with its rows anew; and the bound that the fit ended at."""
        check_is_fitted(self)
        twin = copy.copy(self)  # validation writes to it
        data = self._encoding.read(twin, GivenRows(X, y, sample_weight, offset), self._encoding, CHUNK)
        check_same_rows(self, data.total_weight, offset)
        if not np.array_equal(data.X, self.X_train_):
            raise ValueError("X are not the rows of the fit, to which q of GPClassifier belongs: give those.")
        model = FullGP(self.likelihood_, self.kernel_, data.X, False)
        return twin._problem(model, data), final_bound(self, self._process.log_prior)

    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its rows, for a comparison of q with its posterior."""
        import pandas as pd

        problem, bound = self._with_rows_of_fit(X, y, sample_weight, offset)
        data, latents = cast(DistinctRows, problem.data), self.posterior_["latents"].block
        return PosteriorTarget(
            problem=problem,
            q=self.state_.shown,
            block="latents",
            index=pd.Index(data.counted, name="row"),
            mean=latents.mean[data.place],
            std=latents.std[data.place],
            shown=lambda draws: draws[:, data.place],
            final_bound=bound,
        )

    def _sites(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> SiteFit:
        """The fit as messages of its different rows."""
        problem, bound = self._with_rows_of_fit(X, y, sample_weight, offset)
        copies = check_row_values(sample_weight, n_rows(X), "sample_weight", weights=True)
        return full_sites(self, problem, bound, n_rows(X), copies)

    @property
    def _column_spread(self) -> Array:
        """Standard deviation of each column of the fit, 0 of a constant one."""
        return spread_of(Table(self.X_train_[self._rows_of_fit[1]], np.empty(0)))

    # ---- prediction
    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        return full_draws(self, n, rng)

    def _latents_of(self, node: int, X: Array, offset: Any) -> tuple[Array, Array]:
        """Mean and variance of f under one process."""
        part = self._process.parts[node]
        block, kernel = part.block, part.kernel
        rows = parallel.slices(X.shape[0], parallel.chunk_rows(len(self.X_train_), False))
        block.prepare()

        def one(rows: slice) -> tuple[Array, Array]:
            here = X[rows].astype(float, copy=False)
            m, v = block.latents(kernels.cross(kernel, here, self.X_train_), kernels.diagonal(kernel, here))
            return (m if offset is None else m + offset[rows]), v

        found = list(parallel.in_order(one, rows, parallel.n_threads(self.n_jobs)))
        m, v = (np.concatenate(both).astype(X.dtype, copy=False) for both in zip(*found, strict=True))
        return m, v

    def _blocks_of_nodes(self, model: FullGP, blocks: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Two numbers per row and node; covariances are those of the kernels."""
        shape = -1, len(model.X)
        return np.reshape([dual for dual, _ in blocks], shape), np.reshape([weights for _, weights in blocks], shape)

    def to_sparse(self, n_inducing: int | None = None, random_state: RandomState = None) -> SparseGPClassifier:
        """The nearest sparse process with this kernel, which needs no training row: smaller, faster, for files too.

        q_s, of f at inducing points that are moved between the rows, minimises KL(q_s ‖ q) from this fit's q
        (Titsias 2009, with the messages of the fit as data). `X_train_` and the messages stay behind.

        Parameters
        ----------
        n_inducing : int, default=None
            Inducing points, fewer than there are different rows; None: half as many, and at most 200.
        random_state : int, RandomState or None, default=None
            Of where they begin.

        Returns
        -------
        SparseGPClassifier
            Fitted, for predictions, `partial_fit` and files, at the mode of the hyperparameters. Its ``lower_bound_``
            is the bound of this fit there less KL(q_s ‖ q), which says, in nats, what was lost.

        Raises
        ------
        ValueError
            `n_inducing` is below 1, or no smaller than the number of different rows.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sksvi import GPClassifier
        >>> X, y = make_moons(100, noise=0.2, random_state=0)
        >>> model = GPClassifier(hyperparameters="point").fit(X, y)
        >>> sparse = model.to_sparse(20, random_state=0)
        >>> bool(abs(sparse.predict_proba(X) - model.predict_proba(X)).max() < 0.01)
        True
        >>> print(f"{model.lower_bound_ - sparse.lower_bound_:.1f} nats lost")
        0.0 nats lost
        """
        from sksvi.gaussian_process._sparsened import sparsened

        return sparsened(self, n_inducing, random_state)

    def _without_rows(self) -> Any:
        if hasattr(self, "state_"):
            raise ValueError(
                "training_rows=False: a GPClassifier is its training rows, of which each has a part in every "
                "prediction. Save model.to_sparse(), the nearest SparseGPClassifier, whose file holds inducing points "
                "and no rows."
            )
        return super()._without_rows()

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """The kernel's numbers, then the posterior of f at the training rows of positive weight.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper. The kernel's hyperparameters, as ``length_scale(price)`` where there is one
            per named column, are point estimates, whose std, lower and upper are NaN; a row per training row, by its
            number, follows.
        """
        import pandas as pd

        check_is_fitted(self)
        latents = self.posterior_["latents"]
        rows = interval_table(latents.mean, latents.std, coverage, pd.Index(self._rows_of_fit[0]))
        return concatenated([self._process.kernel_table(coverage, self._names), rows])
