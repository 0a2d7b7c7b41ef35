"""Mixture of Bernoulli vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.estimators.validation import with_own_methods
from sksvi.mixture._base import Mixture
from sksvi.mixture._encoding import BinaryEncoding

Array = np.ndarray


@with_own_methods
class BernoulliMixture(Mixture):
    """Mixture of rows of zeros and ones that finds how many components it needs, with missing cells.

    Row x has component z with probability π_z, and x_d = 1 with probability φ_zd, independently by column; π has the
    prior Dir(concentration / n_components), which leaves components that nothing needs empty, and each φ Beta(c, c).
    Weights and probabilities are learned by stochastic variational inference (Hoffman and Blei 2015).

    Parameters
    ----------
    n_components : int, default=100
        Number of components at most.
    concentration : float or "auto", default="auto"
        α of the weights' prior Dir(α/K, ..., α/K): a priori n rows have about α log(1 + n/α) components. A new row
        is of none of those in use with a probability of about α / (n + α). "auto" is the smaller of 40 / K
        and 2 K, at least K / 20: a few components are all meant, and of many those that rows do not need stay empty.
    probability_prior : float or "auto", default="auto"
        c of the prior Beta(c, c) of each probability. "auto" learns it from the rows, under log c ~ N(0, 1), by
        the bound; "gibbs" draws it.
    moves : {"merge", "all", "none"} or bool, default="merge"
        What is tried with all rows at the end of a fit, and kept where it raises the bound: merging components of at
        least 5 rows each, and of any size where that gains more than 1 % of the bound together; merging components of
        any size and deleting some, which leaves fewer small ones than the data have; or nothing. After moves no bound
        is below that of one component. Under "svi" steps on all rows follow, and small fits (rows times components at
        most 50,000) also begin from three other starts, of which the best end stays; "none" leaves these out too. True
        is "all", False is "none". "gibbs" has no moves, and ``partial_fit`` those that leave no fewer components, or
        gain 8 % of the bound.
    algorithm : {"svi", "ssvi-a", "ssvi", "map", "cvi", "mc-ssvi", "gibbs"} or Algorithm, default="svi"
        How rows see weights and probabilities: their expected logarithms ("svi", "cvi"), a draw of them ("ssvi-a", and
        "mc-ssvi", which is the same here), a draw that the gradient follows ("ssvi"), or their means ("map"). The first
        10 passes of all of them see means. "gibbs" is collapsed Gibbs sampling, which keeps all rows in memory: a
        reference; `max_iter` sweeps, of which the second half is kept.
    uncertainty : {"corrected", "variational"}, default="corrected"
        What `posterior_` and `summary` spread by. "corrected": `fit` ends with a chain of the joint posterior that
        begins at q, of labels, weights, probabilities and a learned prior count, over the components in use and one
        more, all others without weight: q takes labels and components as independent. Predictions, `weights_` and
        `means_` are of the chain's means. "variational": q. So it is after `partial_fit`, for Dask collections, for
        weights that are no whole numbers or sum to more than 1,048,576, and with a single component.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; "auto": a tenth of them, at least 64 and at most 2,000; all of at most 500, where fits from other
        starts follow, as by default.
    max_iter : int, default=100
        Passes over the rows, at most.
    tol : float, default=3e-4
        Relative change of the bound at which the fit stops: between two passes where a step takes all rows. Others
        evaluate it 4, 6, 9, 14, 21, ... passes after the first ten, and stop where it gained less than 10 ``tol``
        twice. Steps on all rows at the end of a fit stop at ``tol`` / 30.
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
        Seed of the first components (rows), of draws and of the order of rows.
    verbose : int, default=0
        1: a progress bar.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Posterior mean of the weights, the largest first; of all components, as an unused one has a weight too.
    means_ : ndarray of shape (n_components, D)
        Posterior mean of the probabilities of a one.
    probability_prior_ : float
        c, given or learned.
    n_components_ : int
        Components used: those that half a row or more is expected to have. They come first.
    posterior_ : Posterior
        Blocks ``weights`` (Dirichlet) and ``probabilities`` (Beta).
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_`, and per pass, nats. Of "gibbs" the passes have log p(X, labels).
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    CategoricalMixture : the same for columns of more than two values.
    sklearn.mixture.BayesianGaussianMixture : the same for measured columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BernoulliMixture
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 200)
    >>> X = (rng.random((200, 12)) < np.array([0.1, 0.9])[labels][:, None]).astype(float)
    >>> X[::5, 3] = np.nan
    >>> model = BernoulliMixture(10, random_state=0).fit(X)
    >>> model.n_components_, bool(np.mean((model.predict(X) == model.predict(X)[0]) == (labels == labels[0])) > 0.99)
    (2, True)
    """

    weights_: np.ndarray
    n_components_: int

    _binary = True
    _encoding_class = BinaryEncoding

    @property
    def means_(self) -> Array:
        """Posterior mean of the probabilities of a one."""
        if not hasattr(self, "_own"):
            raise AttributeError("means_ is there after fit")
        return self._own["probabilities"].mean

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """New rows from the predictive distribution of one row.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None

        Returns
        -------
        X : ndarray of shape (n_samples, D)
            Zeros and ones.
        labels : ndarray of shape (n_samples,)
            Components.
        """
        codes, labels = self._sampled(n_samples, random_state)
        return self._rows_of(codes), labels

    def _rows_of(self, codes: Array) -> Any:
        return 1.0 - codes

    def _labels_of(self, column: int) -> Array:
        return np.array([1.0, 0.0])

    def _shown_values(self, column: int, m: int) -> list[tuple[int, Any]]:
        return [(0, 1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
