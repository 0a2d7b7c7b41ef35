"""Long NUTS runs (NumPyro, 64 bit) of three mixed models, stored as moments with their Monte Carlo errors.

``python -m benchmarks mixed.reference`` rewrites results/mixed/reference.json (needs numpyro); it is read by
benchmarks/tests/test_mixed_reference.py. Priors: coefficients N(0, 10), intercept N(0, 100), the standard deviation of
every group half-Student-t with 3 degrees of freedom and scale 2.5, the variance w2 of the noise per row Rayleigh(5).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.draws import rounded, summary
from benchmarks._lib.loaders import RANDHIE, STORED_DATA, data_folder, epil_data, standardised
from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.mixed._data import salamander_data

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 10_000, 2000, 20261121
PRIOR_PRECISION, INTERCEPT_PRECISION = 0.1, 1e-2
GROUP_DF, GROUP_SCALE, NOISE_PRIOR_SCALE = 3.0, 2.5, 5.0


def noise_data() -> tuple[Any, Array]:
    """Outpatient visits of 500 persons as in benchmarks/glm/reference.py, for noise per row instead of groups."""
    import pandas as pd

    with RANDHIE.open() as stream:
        names = stream.readline().strip().split(",")[1:]
    table = np.loadtxt(RANDHIE, delimiter=",", skiprows=1)
    return pd.DataFrame(standardised(table[:, 1:]), columns=names), table[:, 0].astype(int)


DATA: dict[str, Callable[[], tuple[Any, Array]]] = {
    "epil": epil_data,
    "salamander": salamander_data,
    "noise": noise_data,
}
GROUPS: dict[str, list[str]] = {"epil": ["subject"], "salamander": ["female", "male"], "noise": []}


def make_models() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def linear(X: Any) -> Any:
        w = numpyro.sample("coef", dist.Normal(jnp.zeros(X.shape[1]), PRIOR_PRECISION**-0.5).to_event(1))
        return X @ w + numpyro.sample("intercept", dist.Normal(0.0, INTERCEPT_PRECISION**-0.5))

    def grouped(X: Any, codes: dict[str, Any]) -> Any:
        """Non-centred: effects = sd * standard normal draws."""
        f = linear(X)
        for name, code in codes.items():
            sd = numpyro.sample(f"{name}: sd", dist.FoldedDistribution(dist.StudentT(GROUP_DF, 0.0, GROUP_SCALE)))
            raw = numpyro.sample(f"{name}: raw", dist.Normal(jnp.zeros(int(code.max()) + 1), 1.0).to_event(1))
            f = f + numpyro.deterministic(f"{name}: effects", sd * raw)[code]
        return f

    def epil(X: Any, codes: dict[str, Any], y: Any) -> None:
        numpyro.sample("y", dist.Poisson(jnp.exp(grouped(X, codes))), obs=y)

    def salamander(X: Any, codes: dict[str, Any], y: Any) -> None:
        numpyro.sample("y", dist.Bernoulli(logits=grouped(X, codes)), obs=y)

    def noise(X: Any, codes: dict[str, Any], y: Any) -> None:
        half_square = numpyro.sample("half square", dist.Exponential(1.0))  # w2 = scale sqrt(2 e) is Rayleigh(scale)
        w2 = numpyro.deterministic("noise variance", NOISE_PRIOR_SCALE * jnp.sqrt(2 * half_square))
        raw = numpyro.sample("raw", dist.Normal(jnp.zeros(X.shape[0]), 1.0).to_event(1))
        f = linear(X) + jnp.sqrt(w2) * raw
        # log(softplus(f)) without underflow: it is f for very negative f
        low = f < -30.0
        log_rate = jnp.where(low, f, jnp.log(jax.nn.softplus(jnp.where(low, 0.0, f))))
        numpyro.factor("y", jnp.sum(y * log_rate - jax.nn.softplus(f)))

    return {"epil": epil, "salamander": salamander, "noise": noise}


def sample(name: str, model: Any, quick: bool) -> tuple[dict[str, Array], int, dict[str, list[Any]]]:
    """Draws by name (chains, draws, ...), divergences, and the levels of each group in the order of the effects."""
    import jax
    from numpyro.infer import MCMC, NUTS

    frame, y = DATA[name]()
    levels = {group: np.unique(frame[group]) for group in GROUPS[name]}
    codes = {group: np.searchsorted(values, frame[group]) for group, values in levels.items()}
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=200 if quick else N_WARM_UP,
        num_samples=200 if quick else N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    X = frame.drop(columns=GROUPS[name]).to_numpy(float)
    sampler.run(jax.random.PRNGKey(SEED), X, codes, y, extra_fields=("diverging",))
    draws = {key: np.asarray(value) for key, value in sampler.get_samples(group_by_chain=True).items()}
    diverging = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    return draws, diverging, {group: values.tolist() for group, values in levels.items()}


def run(name: str, model: Any, quick: bool) -> dict[str, Any]:
    draws, diverging, levels = sample(name, model, quick)
    frame, y = DATA[name]()
    weights = summary(np.concatenate([draws["coef"], draws["intercept"][..., None]], axis=-1))
    found: dict[str, Any] = {
        "rows": len(y),
        "divergences": diverging,
        "columns": [*frame.columns.drop(GROUPS[name]), "intercept"],
        "weights": weights,
    }
    for group in GROUPS[name]:
        found[f"{group}: sd"] = summary(draws[f"{group}: sd"][..., None])
        found[f"{group}: effects"] = {"levels": levels[group], **summary(draws[f"{group}: effects"])}
    if name == "noise":
        found["noise variance"] = summary(draws["noise variance"][..., None])
    return found


def save_data() -> None:
    """Write the published columns of the two tables that epil_data and salamander_data read."""
    import pandas as pd

    counts = data_folder() / "tabular" / "counts"
    epil = pd.read_csv(counts / "MASS_epil.csv.xz")
    epil[["subject", "trt", "base", "age", "period", "y"]].to_csv(STORED_DATA / "epil.csv", index=False)
    salamander = pd.read_csv(counts / "lme4_salamander.csv.xz")
    salamander.columns = salamander.columns.str.lower()
    salamander[["cross", "female", "male", "mate"]].to_csv(STORED_DATA / "salamander.csv", index=False)


def quality(name: str, found: dict[str, Any], seconds: float) -> dict[str, Any]:
    """One line of the table: how good the run is."""
    parts = [part for part in found.values() if isinstance(part, dict)]
    every = {key: np.concatenate([part[key] for part in parts]) for key in ("r_hat", "ess", "mean_error", "sd")}
    return {
        "model": name,
        "rows": found["rows"],
        "coordinates": len(every["ess"]),
        "largest R-hat": float(every["r_hat"].max()),
        "smallest ESS": float(every["ess"].min()),
        "largest error of a mean / sd": float((every["mean_error"] / every["sd"]).max()),
        "divergences": found["divergences"],
        "seconds": seconds,
    }


def main(quick: bool = False) -> None:
    import time

    import jax
    import numpyro

    jax.config.update("jax_enable_x64", True)
    if not (STORED_DATA / "epil.csv").exists():
        save_data()
    found, rows = {}, []
    for name, model in make_models().items():
        start = time.perf_counter()
        found[name] = run(name, model, quick)
        rows.append(quality(name, found[name], time.perf_counter() - start))
        progress(rows[-1])
    notes = [
        f"NUTS of NumPyro {numpyro.__version__}, 64 bit, non-centred, {N_CHAINS} chains of {N_DRAWS} draws after "
        f"{N_WARM_UP}, seed {SEED}. epil: Poisson, exp link, patients; salamander: logit, females and males crossed; "
        "noise: 500 rows of randhie, Poisson with softplus rate, Gaussian noise of variance w2 per row.",
    ]
    report("mixed/reference_quality", "Reference runs of mixed models", rows, notes, quick)
    if not quick:
        (RESULTS / "mixed/reference.json").write_text(json.dumps(rounded(found), indent=None) + "\n")


if __name__ == "__main__":
    main(arguments(__doc__))
