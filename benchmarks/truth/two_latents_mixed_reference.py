"""Long NUTS runs (NumPyro, 64 bit) of mixed models of two latents, under the priors that a fit has.

``python -m benchmarks truth.two_latents_mixed_reference`` rewrites results/truth/two_latents_mixed_reference.json
(needs numpyro and the folder of the sets), which `truth.two_latents_mixed` reads.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.draws import moments, rounded
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.two_latents_mixed import RUNS, Case, cases
from sksvi.families import InUnits
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 2000, 1000, 20261128


def model(data: dict[str, Any], y: Array) -> None:
    """Weights of both latents and the intercept, levels as sd times standard normal draws."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("weights", dist.Normal(data["mean"], data["std"]).to_event(1))
    std = numpyro.sample("std", dist.FoldedDistribution(dist.StudentT(3.0, 0.0, GROUP_PRIOR_SCALE)))
    levels = numpyro.sample("levels", dist.Normal(jnp.zeros(data["codes"].max() + 1), 1.0).to_event(1))
    f = data["of f"] @ w + std * levels[data["codes"]] + data["offset"]
    g = data["of g"] @ w
    if data["latent"] == "scale":
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(f), jnp.exp(g)), obs=y)
        return
    if data["dispersed"]:
        root = numpyro.sample("root", dist.Exponential(1.0))
        counts = dist.NegativeBinomial2(jnp.exp(f), 1.0 / numpyro.deterministic("dispersion", root**2))
    else:
        counts = dist.Poisson(jnp.exp(f))
    log_zero, log_count = jax.nn.log_sigmoid(g), jax.nn.log_sigmoid(-g) + counts.log_prob(y)
    numpyro.factor("y", jnp.sum(jnp.where(y == 0, jnp.logaddexp(log_zero, log_count), log_count)))


def described(case: Case) -> tuple[dict[str, Any], Array, Any]:
    """What the model needs of a case, its counts, and the fit."""
    _, X, y, offset = case.rows()
    fit = case.fitted(X, y, offset)
    problem, _ = fit._with_rows_of_fit(X, y, None, offset)
    design, fixed = problem.data.X, problem.model.n_fixed
    prior, at = problem.model.prior(fit.state_.q)["weights"], [*range(fixed), -1]
    rows = np.column_stack([design.X, np.ones(len(y))])
    second = np.zeros(fixed + 1)
    second[fixed - problem.model.n_second : fixed] = 1.0
    data = {
        "mean": prior.mean[at], "std": prior.precision[at] ** -0.5, "of f": rows * (1.0 - second),
        "of g": rows * second, "codes": design.codes[:, 0], "offset": offset, "latent": case.latent,
        "dispersed": "dispersion" in getattr(fit.likelihood_.likelihood, "counts", fit.likelihood_).learned,
    }  # fmt: skip
    return data, problem.data.y, fit


def run(case: Case, quick: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Moments of what `summary` has rows of, and how good the run is."""
    import jax
    from numpyro.infer import MCMC, NUTS

    data, y, fit = described(case)
    start = time.process_time()
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=100 if quick else N_WARM_UP,
        num_samples=100 if quick else N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(SEED), data, y, extra_fields=("diverging",))
    draws = {key: np.asarray(value) for key, value in sampler.get_samples(group_by_chain=True).items()}
    columns = fit._encoding.columns
    view = InUnits(None, columns.centre, columns.scale, n_second=fit._encoding.n_second)
    found = np.concatenate([view.lifted(draws["weights"]), np.abs(draws["std"])[..., None]], axis=-1)
    names = [*fit._column_names(), "intercept", f"std({case.groups}, intercept)"]
    if "dispersion" in draws:
        found, names = np.concatenate([found, draws["dispersion"][..., None]], axis=-1), [*names, "dispersion"]
    quality = moments(found)
    stored = {key: dict(zip(names, quality[key].tolist(), strict=True)) for key in ("mean", "sd", "mean_error")}
    return stored, {
        "set": case.data,
        "model": case.model,
        "largest R-hat": float(quality["r_hat"].max()),
        "smallest ESS": float(quality["ess"].min()),
        "divergences": int(np.asarray(sampler.get_extra_fields()["diverging"]).sum()),
        "CPU s": time.process_time() - start,
    }


def main(quick: bool = False) -> None:
    import jax
    import numpyro

    jax.config.update("jax_enable_x64", True)
    found, rows = {}, []
    for case in [case for case in cases() if case.by_nuts][: 1 if quick else None]:
        found[f"{case.data}, {case.model}"], quality = run(case, quick)
        rows.append(quality)
        progress(quality)
        if not quick:
            RUNS.write_text(json.dumps(rounded(found), indent=None) + "\n")
    notes = [
        f"NUTS of NumPyro {numpyro.__version__}, 64 bit, {N_CHAINS} chains of {N_DRAWS} draws after {N_WARM_UP}, "
        f"seed {SEED}; the deviation between levels and the dispersion sampled too."
    ]
    report("truth/two_latents_mixed_runs", "Reference runs of mixed models of two latents", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
