"""What mixed models are compared with: our GLM of the fixed effects, and statsmodels; test NLL of each row, seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array

#: Test NLL of each row; seconds by the clock and of the processor; the fit.
Result = tuple[Array, tuple[float, float], Any]


def timed(make: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What ``make`` gives; its seconds by the clock and those of the processor, which other programs hardly change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start, used = time.perf_counter(), time.process_time()
        model = make()
        return model, (time.perf_counter() - start, time.process_time() - used)


def linear_model(likelihood: str, train: Any, y: Array, test: Any, y_test: Array, groups: list[str]) -> Result:
    """Our Bayesian GLM of the fixed effects alone, prior precision learned."""
    from sksvi.linear_model import BayesianGLMRegressor

    A, B = train.drop(columns=groups).to_numpy(), test.drop(columns=groups).to_numpy()
    model, seconds = timed(lambda: BayesianGLMRegressor(likelihood=likelihood).fit(A, y))
    return -model.log_predictive_density(B, y_test), seconds, model


def statsmodels_vb(
    likelihood: str, train: Any, y: Array, test: Any, y_test: Array, groups: list[str], fixed_prior_sd: float = 2.0
) -> Result:
    """``PoissonBayesMixedGLM`` or ``BinomialBayesMixedGLM``, ``fit_vb``, their default priors.

    Their ``predict`` has the fixed effects alone, at their means; here f of a row is Gaussian by their (factorised) q
    of fixed and group effects, an unseen level has variance exp(2 E log sd), and the likelihood is integrated over f.
    """
    import scipy.sparse as sp
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM

    kind = PoissonBayesMixedGLM if likelihood == "poisson" else BinomialBayesMixedGLM
    designs, identity, unseen = [], [], []
    for i, group in enumerate(groups):
        levels = {level: j for j, level in enumerate(train[group].unique())}
        identity += [i] * len(levels)
        known = [np.array([levels.get(level, -1) for level in part[group]]) for part in (train, test)]
        designs.append([indicators(codes, len(levels)) for codes in known])
        unseen.append(known[1] < 0)
    fixed = [np.column_stack([p.drop(columns=groups).to_numpy(float), np.ones(len(p))]) for p in (train, test)]
    Z, Z_test = (sp.hstack([pair[k] for pair in designs]).tocsr() for k in (0, 1))
    model = kind(y, fixed[0], Z, np.array(identity), fe_p=fixed_prior_sd)
    result, seconds = timed(lambda: model.fit_vb(rng=np.random.default_rng(0)))
    mean = fixed[1] @ result.fe_mean + Z_test @ result.vc_mean
    variance = fixed[1] ** 2 @ result.fe_sd**2 + Z_test.power(2) @ result.vc_sd**2
    variance += sum(np.where(new, np.exp(2 * v), 0.0) for new, v in zip(unseen, result.vcp_mean, strict=True))
    return -integrated(likelihood, y_test, mean, variance), seconds, result


def indicators(codes: Array, n_levels: int) -> Any:
    """Sparse 0/1 matrix of levels; code -1 is a row of zeros."""
    import scipy.sparse as sp

    rows = np.flatnonzero(codes >= 0)
    return sp.csr_matrix((np.ones(len(rows)), (rows, codes[rows])), shape=(len(codes), n_levels))


def integrated(likelihood: str, y: Array, mean: Array, variance: Array, n_nodes: int = 801) -> Array:
    """log of E p(y | f) over f ~ N(mean, variance), by a trapezoidal rule."""
    from scipy.special import gammaln, log_expit, logsumexp

    z = np.linspace(-9.0, 9.0, n_nodes)
    weights = -0.5 * z**2 - np.log(np.sum(np.exp(-0.5 * z**2)))
    found = []
    for rows in np.array_split(np.arange(len(y)), max(1, len(y) // 2000)):
        f, counts = mean[rows, None] + np.sqrt(variance)[rows, None] * z, y[rows, None]
        if likelihood == "poisson":
            values = counts * f - np.exp(f) - gammaln(counts + 1.0)
        elif likelihood == "poisson-softplus":
            rate = np.logaddexp(0.0, f)
            log_rate = np.where(f < -30.0, f, np.log(np.maximum(rate, 1e-14)))
            values = counts * log_rate - rate - gammaln(counts + 1.0)
        else:
            values = log_expit(np.where(counts == 1, f, -f))
        found.append(logsumexp(values + weights, axis=1))
    return np.concatenate(found)


def mean_error(values: Array) -> tuple[float, float | None]:
    """Mean and its standard error over splits; none for one split."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
