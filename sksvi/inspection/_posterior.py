"""How good the variational posterior of a fit is: Pareto-smoothed importance sampling from it.

The shape of the tail of the ratios is k-hat (`sksvi.integrals.pareto`): Vehtari, Simpson, Gelman, Yao and Gabry 2024
(JMLR 25:72).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_count
from sksvi.estimators.posterior import PosteriorTarget
from sksvi.inference.engine import evaluate, prepare, whole
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.integrals.pareto import LEAST_DRAWS, smoothed
from sksvi.models.base import Blocks

# ---- draws of q and their importance ratios p(y, draw) / q(draw), hyperparameters held as q has them
Array = np.ndarray

#: Numbers that are drawn at a time, and pairs of a row and a draw that are looked at together. Draws are told apart by
#: their block, so that the first of these two is a part of what a seed means.
DRAWN, PAIRS = 2**21, 2**17


def drawn(problem: Problem, q: Blocks, n_draws: int, seed: int) -> Iterator[tuple[slice, dict[str, Array], Array]]:
    """Draws in blocks: which they are, those of every block of q that has a prior, and log q - log prior, (S,)."""
    prior = problem.model.prior(q)
    numbers = sum(int(np.size(q[name].mean)) for name in prior)
    for number, part in enumerate(parallel.slices(n_draws, max(1, DRAWN // numbers))):
        rng = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, number])))
        found = {name: q[name].draws_against(prior[name], part.stop - part.start, rng) for name in sorted(prior)}
        excess: Any = sum(above for _, above in found.values())
        yield part, {name: draws for name, (draws, _) in found.items()}, excess


def log_ratios(problem: Problem, q: Blocks, n_draws: int, seed: int) -> Array:
    """log p(y, draw) - log q(draw) of each draw, (S,), nats."""
    prepare(q)
    out = np.empty(n_draws)
    for part, draws, excess in drawn(problem, q, n_draws, seed):
        out[part] = _log_likelihood(problem, q, draws, len(excess)) - excess
    return out


def _log_likelihood(problem: Problem, q: Blocks, draws: dict[str, Array], n_draws: int) -> Array:
    """log p(y | draw), (S,): chunk by chunk of the rows, whose sums meet in a fixed order."""
    model, data = problem.model, problem.data

    def of_chunk(rows: Any) -> Array:
        batch, total = model.batch(data, rows), np.empty(n_draws)
        for part in parallel.slices(n_draws, max(1, PAIRS // max(1, len(np.arange(len(data))[rows])))):
            some = {name: values[part] for name, values in draws.items()}
            total[part] = model.log_likelihood_at(q, some, batch, problem.exact)  # type: ignore[attr-defined]
        return total

    return parallel.summed(of_chunk, model.chunks(slice(0, len(data)), data), problem.threads)


def bound_at(problem: Problem, q: Blocks) -> float:
    """E log p(y, draw) - log q(draw) under q, nats: the bound without what hyperparameters pay themselves."""
    there, prior = problem.for_bound, problem.model.prior(q)
    _, value = evaluate(there, State(q, 0), whole(there), gradient_wanted=False)
    return float(value - sum(q[name].kl(prior[name]) for name in prior))


# ---- how good q is by them
SUPPORTED = "linear models, mixed effects, sparse Gaussian processes, GPClassifier and DynamicGLM have such a check"


@dataclass(frozen=True)
class PosteriorCheck:
    """What `check_posterior` found.

    Parameters
    ----------
    k_hat : float
        Shape of the tail of the importance ratios p(y, draw) / q(draw). Below 0.7 the numbers here are to be trusted.
        Above it `effective_sample_size` says how much hangs on the tail: near `n_draws` next to nothing, as the ratios
        hardly differ; far below it q is not the posterior, and the numbers here are not its either. -inf where all
        ratios are the same, as q is the posterior; inf where a handful of draws have all the weight.
    lower_bound : float
        Bound on the log evidence at q, hyperparameters held, nats: ``lower_bound_`` without what a prior of the
        hyperparameters themselves adds to it.
    log_evidence : float
        Log evidence by importance sampling, nats. By so much as the bound is below it q is from the posterior,
        KL(q ‖ posterior).
    std_error : float
        Of `log_evidence`, nats.
    effective_sample_size : float
        How many draws from the posterior the draws are worth, at most `n_draws`. A mean under q is off by at most
        sqrt(n_draws / effective_sample_size - 1) of its standard deviations, as far as these draws show.
    n_draws : int
        Draws from q.
    coefficients : DataFrame
        A row per coefficient as in ``summary``, levels less the first and classes less their mean, with mean and std of
        q, corrected_mean and corrected_std of the posterior by importance sampling, and mc_error, the standard error of
        corrected_mean. Of a sparse Gaussian process f at the inducing points, of `GPClassifier` and `DynamicGLM` f at
        the rows of the fit.
    """

    k_hat: float
    lower_bound: float
    log_evidence: float
    std_error: float
    effective_sample_size: float
    n_draws: int
    coefficients: DataFrame = field(repr=False)


def check_posterior(
    model: BaseEstimator,
    X: MatrixLike | None = None,
    y: PerRow | None = None,
    *,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 4000,
    random_state: RandomState = 0,
) -> PosteriorCheck:
    """Whether the variational posterior q of a fit is near the posterior: k-hat, log evidence, corrected coefficients.

    Draws from q are weighted by the ratios p(y, draw) / q(draw), the largest of them smoothed. Were q the posterior,
    all would be the same; how heavy their tail is, k-hat, says how far it is from it (Yao, Vehtari, Simpson and Gelman
    2018). Hyperparameters that q holds as points stay there: learned precisions of priors, standard deviations of
    groups, scales of likelihoods, kernels, inducing points. All is said of the posterior given these, and nothing of
    how well they are known.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects, a Gaussian process or a `DynamicGLM`; or a Pipeline or search around
        one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D), default=None
        The rows of the fit, in their order; of a stream all chunks together. None for a `DynamicGLM`, which holds its
        series.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets; None for a `DynamicGLM`.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them.
    n_draws : int, default=4000
        Draws from q, at least 25. Time grows with rows times draws; memory does not.
    random_state : int, RandomState or None, default=0
        Of the draws. The numbers do not depend on `n_jobs` of the model, which says how many threads there are.

    Returns
    -------
    PosteriorCheck
        With k_hat, lower_bound, log_evidence, std_error, effective_sample_size, n_draws and coefficients.

    Raises
    ------
    TypeError
        If there is no estimator inside that has such a check, or a target's transformer around it; for Dask
        collections.
    ValueError
        For rows that are not those of the fit, and streams that forget or count for a larger population; a posterior
        under which a row is impossible.

    Warns
    -----
    UserWarning
        Where the bound at these rows is not the one that the fit ended at.

    Notes
    -----
    Noise per row of mixed effects is integrated out: q is that of coefficients, levels and the noise's variance. A
    sparse Gaussian process is compared with the best q of any form over f at its inducing points, exp(Σ E[log p(y|f)])
    times the prior (Hensman et al. 2015), with "v1" and "v2" FITC's posterior: what its points leave open is not seen.
    Corrected means and deviations have those of q as control variates, so that they are as exact as q is near.

    k-hat is of all coordinates of q together. Hundreds of them, each off by a little, have a large one although every
    marginal is right: a small k-hat says that q is good, a large one of many coordinates not that it is bad.

    The shape is estimated as Zhang and Stephens (2009), smoothed as Vehtari, Simpson, Gelman, Yao and Gabry (2024).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sksvi import BayesianGLMClassifier
    >>> from sksvi.inspection import check_posterior
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X.iloc[:, :10]
    >>> found = check_posterior(BayesianGLMClassifier().fit(X, y), X, y)
    >>> print(f"{found.k_hat:.1f}, {found.effective_sample_size:.0f} draws, {found.log_evidence:.1f} nats")
    0.6, 3706 draws, -93.9 nats
    >>> found = check_posterior(BayesianGLMClassifier(covariance="diag").fit(X, y), X, y)
    >>> print(f"{found.k_hat:.1f}, {found.effective_sample_size:.0f} draws")
    0.9, 57 draws
    """
    n_draws = check_count(n_draws, "n_draws", LEAST_DRAWS, bytes_each=32.0)
    fit = FittedRows(model, X, y, sample_weight, offset, exposure)
    fit.require("_joint", "cannot weigh draws of its posterior", SUPPORTED)
    seed = drawn_seed(random_state)
    with parallel.working():
        joint = fit.call("_joint")
        lower_bound = bound_at(joint.problem, joint.q)
        joint.check_bound(lower_bound)
        ratios = log_ratios(joint.problem, joint.q, n_draws, seed)
        if np.any(np.isnan(ratios)) or not np.isfinite(ratios.max()):
            raise ValueError(
                f"{fit.name} gives a row of y no density, or one that is no number, at a draw of its "
                "posterior: no importance ratio can be formed."
            )
        smooth, k_hat = smoothed(ratios)
        top = float(smooth.max())
        each = np.exp(smooth - top)
        weight = each / each.sum()
        return PosteriorCheck(
            k_hat=k_hat,
            lower_bound=lower_bound,
            log_evidence=top + float(np.log(each.mean())),
            std_error=float(each.std(ddof=1) / each.mean() / np.sqrt(n_draws)),
            effective_sample_size=1.0 / float(weight @ weight),
            n_draws=n_draws,
            coefficients=_corrected(joint, weight, seed),
        )


def _corrected(joint: PosteriorTarget, weight: Array, seed: int) -> DataFrame:
    """Means and deviations under the weights beside those of q, which are control variates: the draws are made anew."""
    share, size = 1.0 / len(weight), len(joint.mean)
    own, other, squares, others, error, across = np.zeros((6, size))
    for part, draws, _ in drawn(joint.problem, joint.q, len(weight), seed):
        off, w = joint.shown(draws[joint.block]) - joint.mean, weight[part]
        square = np.square(off)
        own, other = own + w @ off, other + share * off.sum(0)
        squares, others = squares + w @ square, others + share * square.sum(0)
        error, across = error + np.square(w - share) @ square, across + ((w - share) * w) @ off
    v_own, v_other = squares - np.square(own), others - np.square(other)
    # Off the subspace of a wide design q is the prior, draws do not move, and there is nothing to correct.
    drawn_share = np.minimum(np.divide(v_other, np.square(joint.std), out=np.zeros(size), where=joint.std > 0), 1.0)
    ratio = np.divide(v_own, v_other, out=np.ones(size), where=v_other > 0)
    error = error - 2.0 * own * across + np.square(own) * float(weight @ weight)
    columns = {
        "mean": joint.mean,
        "std": joint.std,
        "corrected_mean": joint.mean + own - other,
        "corrected_std": joint.std * np.sqrt(np.maximum(1.0 + drawn_share * (ratio - 1.0), 0.0)),
        "mc_error": np.sqrt(np.maximum(error, 0.0)),
    }
    return pd.DataFrame(columns, index=joint.index)
