"""Long NUTS runs (NumPyro, 64 bit) of small sets under the default priors, hyperparameters sampled too.

``python -m benchmarks truth.mass_reference`` rewrites results/truth/mass_reference.json (needs numpyro), which
`truth.mass` reads; runs that are stored stay, without the file all are done anew. The priors are those of doc/glm.md
and doc/mixed_effects.md, with the units and limits that the estimator takes from the rows.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from benchmarks._lib import Array
from benchmarks._lib.draws import moments, rounded
from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.truth._mass import CASES, GRID

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 5000, 2000, 20261126
GROUP_DF, GROUP_SCALE = 3.0, 2.5
HYPERPARAMETERS = ("std(group, intercept)", "std(residual)", "df", "scale", "dispersion")


def model(data: dict[str, Any], y: Array) -> None:
    """Coefficients on the spread of their columns, an intercept; measured targets have levels of one group."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    # √W is half-Cauchy between its limits: its angle is uniform.
    angle = numpyro.sample("angle", dist.Uniform(*data["angles"]))
    scale = jnp.tan(angle) * data["unit of f"] / np.sqrt(data["variance"])
    raw = numpyro.sample("raw", dist.Normal(jnp.zeros(data["Z"].shape[1]), 1.0).to_event(1))
    w = numpyro.deterministic("weights", scale * raw)
    a = numpyro.sample("a", dist.Normal(*data["intercept"]))
    f = a + data["Z"] @ w
    if data["same level"] is not None:
        prior = dist.FoldedDistribution(dist.StudentT(GROUP_DF, 0.0, GROUP_SCALE * data["unit"]))
        std = numpyro.sample("std(group, intercept)", prior)
    if data["likelihood"] == "logit":
        numpyro.sample("y", dist.Bernoulli(logits=f), obs=y)
    elif data["likelihood"] == "student-t":
        df = numpyro.sample("df", dist.Gamma(2.0, 0.1))
        log_scale = numpyro.sample("log scale", dist.ImproperUniform(dist.constraints.real, (), ()))
        spread = numpyro.deterministic("scale", jnp.exp(log_scale))
        numpyro.sample("y", dist.StudentT(df, f, spread), obs=y)
    elif data["likelihood"] == "negative-binomial":
        levels = numpyro.sample("levels", dist.Normal(jnp.zeros(data["codes"].max() + 1), 1.0).to_event(1))
        root = numpyro.sample("root", dist.Exponential(1.0))
        dispersion = numpyro.deterministic("dispersion", root**2)
        mean = jnp.exp(f + std * levels[data["codes"]])
        numpyro.sample("y", dist.NegativeBinomial2(mean, 1.0 / dispersion), obs=y)
    else:
        noise = numpyro.sample("std(residual)", dist.HalfCauchy(data["unit"]))
        # Levels are integrated: a funnel of three of them is where chains stick.
        cov = noise**2 * jnp.eye(len(y)) + std**2 * data["same level"]
        numpyro.sample("y", dist.MultivariateNormal(f, cov), obs=y)


def described(name: str) -> tuple[dict[str, Any], Array, Any]:
    """What the model needs of a case, its targets, and the columns of the fit."""
    estimator, X, y = CASES[name]()
    estimator.fit(X, y)
    grouped = isinstance(X, pd.DataFrame) and "group" in X
    rows = np.asarray(X.drop(columns="group") if grouped else X, float)
    columns, prior = estimator._encoding.columns, estimator._encoding.scale_prior(estimator.likelihood_)
    mean, precision = estimator._encoding.prior.intercept
    ends = np.arctan(np.sqrt(np.array([prior.ratio(prior.highest)[0], prior.ratio(prior.lowest)[0]])))
    likelihood = "logit" if is_classifier(estimator) else estimator.likelihood
    data = {
        "Z": (rows - columns.centre) / columns.scale,
        "angles": tuple(float(end) for end in ends),
        "variance": float(prior.variance[0]),
        "unit of f": float(prior.unit),
        "unit": float(estimator._encoding.prior.unit),
        "intercept": (float(mean), float(precision) ** -0.5),
        "same level": np.equal.outer(*2 * [X["group"].to_numpy()]).astype(float) if grouped else None,
        "codes": np.unique(X["group"], return_inverse=True)[1] if grouped else None,
        "likelihood": likelihood,
    }
    names = (
        [name for name in X if name != "group"]
        if isinstance(X, pd.DataFrame)
        else [f"x{j}" for j in range(rows.shape[1])]
    )
    return data, y, (names, columns)


def run(name: str, quick: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Quantiles of what `summary` has rows of, and how good the run is."""
    import jax
    from numpyro.infer import MCMC, NUTS

    start = time.perf_counter()
    data, y, (names, columns) = described(name)
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.99),
        num_warmup=200 if quick else N_WARM_UP,
        num_samples=200 if quick else N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(SEED), data, y, extra_fields=("diverging",))
    draws = {key: np.asarray(value) for key, value in sampler.get_samples(group_by_chain=True).items()}
    coef = draws["weights"] / columns.scale
    found = {column: coef[..., j] for j, column in enumerate(names)}
    found["intercept"] = draws["a"] - coef @ columns.centre
    found |= {key: draws[key] for key in HYPERPARAMETERS if key in draws}
    quality = moments(np.stack(list(found.values()), axis=-1))
    stored = {key: np.quantile(value, GRID) for key, value in found.items()}
    return stored, {
        "set": name,
        "largest R-hat": float(quality["r_hat"].max()),
        "smallest ESS": float(quality["ess"].min()),
        "divergences": int(np.asarray(sampler.get_extra_fields()["diverging"]).sum()),
        "seconds": time.perf_counter() - start,
    }


def main(quick: bool = False) -> None:
    import jax
    import numpyro

    jax.config.update("jax_enable_x64", True)
    runs, table = RESULTS / "truth/mass_reference_quantiles.json", RESULTS / "truth/mass_reference.json"
    there = runs.exists() and not quick
    found = json.loads(runs.read_text()) if there else {}
    rows = json.loads(table.read_text())["rows"] if there else []
    for name in [name for name in CASES if name not in found][: 1 if quick else None]:
        found[name], quality = run(name, quick)
        rows.append(quality)
        progress(quality)
    notes = [
        f"NUTS of NumPyro {numpyro.__version__}, 64 bit, {N_CHAINS} chains of {N_DRAWS} draws after {N_WARM_UP}, "
        f"seed {SEED}; scales of coefficients, noise, degrees of freedom and the deviation between levels sampled too."
    ]
    report("truth/mass_reference", "Reference runs of small sets", rows, notes, quick)
    if not quick:
        runs.write_text(json.dumps(rounded(found), indent=None) + "\n")


if __name__ == "__main__":
    main(arguments(__doc__))
