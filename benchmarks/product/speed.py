"""Seconds beside scikit-learn (Newton's method), bayesianbandits (R-VGA) and NumPyro (AutoMultivariateNormal)."""

from __future__ import annotations

import time
import warnings
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib import Array
from benchmarks._lib.exact import bound, optimum, posterior_of, precisions, with_constant
from benchmarks._lib.loaders import covtype, load_csv, load_libsvm
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import installed, interleave, median

CHUNK = 1000


def a9a() -> tuple[Any, Array]:
    X, y = load_libsvm("a9a", 123)
    return X, (y > 0).astype(int)


def bike() -> tuple[Array, Array]:
    """Bike sharing by the hour: counts of rentals, categories one-hot, weather in its own units."""
    import pandas as pd

    X, y = load_csv("bike_hour", "cnt")
    categories = pd.get_dummies(X[["season", "mnth", "hr", "weekday", "weathersit"]].astype(str), drop_first=True)
    return np.hstack([categories.to_numpy(float), X[["yr", "holiday", "temp", "hum", "windspeed"]].to_numpy(float)]), y


def visits() -> tuple[Array, Array]:
    """Outpatient visits of the RAND experiment, 20,186 rows."""
    import pandas as pd

    X, y = load_csv("counts/Ecdat_DoctorContacts", "mdu", drop=["rownames"])
    X = pd.get_dummies(X, drop_first=True).to_numpy(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def words() -> tuple[Any, Array]:
    """Labels of 50,000 sparse rows of 300 columns, 15 numbers a row."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random_array((50_000, 300), density=0.05, rng=rng, format="csr", data_sampler=rng.standard_normal)
    f = X @ rng.standard_normal(300)
    return X, (rng.random(50_000) < 1.0 / (1.0 + np.exp(-f))).astype(int)


def against_scikit_learn(quick: bool) -> list[dict[str, Any]]:
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

    X, y = a9a()
    sets: dict[str, tuple[str, Any, Array]] = {"a9a sparse": ("logit", X, y), "a9a dense": ("logit", X.toarray(), y)}
    if not quick:
        sets["sparse, 50,000 rows"] = ("logit", *words())
        sets["covtype subset"] = ("logit", *covtype())
        sets["bike hour"] = ("poisson", *bike())
        sets["doctor visits"] = ("poisson", *visits())
    rows = []
    for name, (kind, X, y) in sets.items():
        if kind == "logit":
            ours: Any = BayesianGLMClassifier(prior_precision=1.0)
            # Of 300 columns a Hessian takes longer than the products of conjugate gradients.
            solver = (
                {"solver": "newton-cg", "tol": 1e-6} if name.startswith("sparse") else {"solver": "newton-cholesky"}
            )
            peer: Any = LogisticRegression(C=1.0, **solver)
        else:
            ours = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0)
            peer = PoissonRegressor(solver="newton-cholesky", alpha=1.0 / len(y))
        jobs = {"ours": lambda m=ours, X=X, y=y: m.fit(X, y), "peer": lambda m=peer, X=X, y=y: m.fit(X, y)}
        seconds = interleave(jobs, 3 if quick else 9)
        ratios = [a / b for a, b in zip(seconds["ours"], seconds["peer"], strict=True)]
        rows.append(
            {
                "data": name,
                "likelihood": kind,
                "rows": X.shape[0],
                "columns": X.shape[1],
                "ours, s": median(seconds["ours"]),
                "scikit-learn, s": median(seconds["peer"]),
                "ratio": median(ratios),
                "our passes": ours.n_iter_,
                "its iterations": int(np.max(peer.n_iter_)),
                **shares(ours, X, y),
            }
        )
        progress(rows[-1])
    return rows


def shares(model: Any, X: Any, y: Array) -> dict[str, float]:
    """Share of a single-threaded fit that X'WX takes, and x'Sx of all rows."""
    from sksvi.models.linear.rows import DenseRows, RescaledRows, SparseRows

    spent = {"gram": 0.0, "spread": 0.0}

    def timed(verb: str, method: Any) -> Any:
        def run(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = method(*arguments)
            spent[verb] += time.perf_counter() - start
            return result

        return run

    with ExitStack() as stack:
        for rows, verb in product((DenseRows, RescaledRows, SparseRows), spent):
            stack.enter_context(patch.object(rows, verb, timed(verb, getattr(rows, verb))))
        start = time.perf_counter()
        clone(model).set_params(n_jobs=1).fit(X, y)
        total = time.perf_counter() - start
    return {"share of X'WX": spent["gram"] / total, "share of x'Sx": spent["spread"] / total}


def bandits_jobs(X1: Array, y: Array) -> dict[str, Any]:
    """Fits on a design that holds its constant column, one prior precision for all coefficients, as the peer has."""
    from bayesianbandits import BayesianGLM, RVGAApproximator

    from sksvi.linear_model import BayesianGLMClassifier

    chunks = [slice(start, start + CHUNK) for start in range(0, len(y), CHUNK)]

    def ours(**settings: Any) -> Any:
        return BayesianGLMClassifier(prior_precision=1.0, fit_intercept=False, **settings)

    def peer(**settings: Any) -> Any:
        return BayesianGLM(alpha=1.0, link="logit", approximator=RVGAApproximator(**settings))

    def streamed(model: Any, **settings: Any) -> Any:
        for rows in chunks:
            model.partial_fit(X1[rows], y[rows], **settings)
        return model

    return {
        "ours, fit": lambda: ours().fit(X1, y),
        "R-VGA, fit (default: 5 iterations)": lambda: peer().fit(X1, y),
        "R-VGA, fit (converged, quadrature)": lambda: peer(n_iter=100, use_probit=False).fit(X1, y),
        f"ours, one pass by {CHUNK}": lambda: streamed(ours(algorithm="cvi"), classes=[0, 1]),
        f"R-VGA, one pass by {CHUNK}": lambda: streamed(peer()),
    }


def against_bayesianbandits(quick: bool) -> list[dict[str, Any]]:
    X, y = a9a()
    X1 = with_constant(X.toarray())
    precision = np.ones(X1.shape[1])
    best = optimum(X1, y.astype(float), precision)[0]
    jobs, last = bandits_jobs(X1, y), {}

    def run(key: str) -> None:
        last[key] = jobs[key]()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = interleave({key: partial(run, key) for key in jobs}, 2 if quick else 5)
    rows = []
    for key, model in last.items():
        q = (model.coef_, np.linalg.inv(model.cov_inv_)) if key.startswith("R-VGA") else posterior_of(model)
        value = bound(X1, y.astype(float), *q, precision)
        rows.append(
            {"method": key, "seconds": median(seconds[key]), "bound": value, "short of the optimum, nats": best - value}
        )
    return rows


def numpyro_times(X1: Array, y: Array, precision: Array, goal: float, rate: float, limit: float) -> dict[str, float]:
    """Seconds of AutoMultivariateNormal (Adam, full batch, one sample) until its exact bound reaches ``goal``.

    Compilation and our checks of the bound are not counted.
    """
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    scale = jnp.asarray(precision**-0.5, dtype=jnp.float32)

    def model(A: Any, b: Any) -> None:
        w = numpyro.sample("w", dist.Normal(jnp.zeros(A.shape[1]), scale).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=A @ w), obs=b)

    guide = AutoMultivariateNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO())
    A, b = jnp.asarray(X1, dtype=jnp.float32), jnp.asarray(y, dtype=jnp.float32)
    state = svi.init(jax.random.PRNGKey(0), A, b)

    @jax.jit
    def hundred(state: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, s: svi.update(s, A, b)[0], state)

    start = time.perf_counter()
    jax.block_until_ready(hundred(state))
    compilation, seconds, steps, value = time.perf_counter() - start, 0.0, 0, -np.inf
    while value < goal and seconds < limit:
        start = time.perf_counter()
        state = jax.block_until_ready(hundred(state))
        seconds += time.perf_counter() - start
        steps += 100
        parameters = svi.get_params(state)
        L = np.asarray(parameters["auto_scale_tril"], dtype=float)
        value = bound(X1, y, np.asarray(parameters["auto_loc"], dtype=float), L @ L.T, precision)
    return {"seconds": seconds if value >= goal else np.nan, "steps": steps, "bound": value, "compilation": compilation}


def against_numpyro(quick: bool) -> list[dict[str, Any]]:
    from sksvi.linear_model import BayesianGLMClassifier

    X, y = a9a()
    if quick:
        X, y = X[:3000], y[:3000]
    sparse, X = X, X.toarray()
    X1, precision = with_constant(X), precisions(X.shape[1], 1.0)
    best = optimum(X1, y.astype(float), precision)[0]
    goal = best - 0.01 * abs(best)
    ours = BayesianGLMClassifier(prior_precision=1.0)
    rows: list[dict[str, Any]] = []
    one_pass = BayesianGLMClassifier(prior_precision=1.0, max_iter=1)
    for name, A in {"sparse": sparse, "dense": X}.items():
        fits = {"whole default fit": ours, "one pass": one_pass}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            times = interleave({what: lambda A=A, m=m: m.fit(A, y) for what, m in fits.items()}, 3 if quick else 5)
        for what, model in fits.items():
            seconds = median(times[what])
            rows.append(
                {
                    "method": f"ours, {what}, {name}",
                    "seconds to 1 %": seconds if model.lower_bound_ >= goal else None,
                    "steps": model.n_steps_,
                    "bound": model.lower_bound_,
                    "optimum": best,
                    "compilation, s": 0.0,
                    "times ours (dense, one pass)": None,
                    "with compilation": None,
                }
            )
    for rate in (0.003, 0.01, 0.03):
        found = numpyro_times(X1, y.astype(float), precision, goal, rate, 20.0 if quick else 60.0)
        rows.append(
            {
                "method": f"NumPyro AutoMultivariateNormal, Adam {rate}",
                "seconds to 1 %": found["seconds"],
                "steps": found["steps"],
                "bound": found["bound"],
                "optimum": best,
                "compilation, s": found["compilation"],
                "times ours (dense, one pass)": found["seconds"] / seconds,
                "with compilation": (found["seconds"] + found["compilation"]) / seconds,
            }
        )
        progress(rows[-1])
    return rows


def main(quick: bool = False) -> None:
    notes = [
        "Medians of nine fits in turn after a warm-up; ratio: median of the ratios of neighbours. Shares are of a fit "
        "in one thread. Ours gives a posterior, the peer a point, by newton-cholesky, of the sparse 50,000 rows by "
        "newton-cg to 1e-6."
    ]
    report("product/speed", "Beside scikit-learn's Newton methods", against_scikit_learn(quick), notes, quick)
    bandits = "a9a, 124 coefficients, prior precision 1 for all; medians of five in turn; bound by our own quadrature."
    numpyro = (
        "a9a dense; full batches in 32 bit; compilation and the checks of the bound not counted. NaN: not within 60 s."
    )
    optional = {
        "bayesianbandits": ("Beside bayesianbandits", against_bayesianbandits, bandits),
        "numpyro": ("Beside NumPyro: seconds to within 1 % of the optimal bound", against_numpyro, numpyro),
    }
    for package, (title, table, note) in optional.items():
        if installed(package):
            report(f"product/speed_{package}", title, table(quick), [note], quick)
        else:
            print(f"{package} is not installed here: its table stays as it is stored.")


if __name__ == "__main__":
    main(arguments(__doc__))
