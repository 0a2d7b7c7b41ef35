"""Long NUTS runs (NumPyro, 64 bit) of Gaussian processes with a fixed kernel, stored as moments of f at the rows.

``python -m benchmarks gp.reference`` rewrites results/gp/reference.json (needs numpyro); it is read by
benchmarks/tests/test_gp_reference.py. Sampled are independent standard normals, f is a Cholesky factor of the kernel
times them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.draws import rounded, summary
from benchmarks._lib.loaders import STORED_DATA, epil_data, load_npz
from benchmarks._lib.tables import RESULTS, arguments, progress, report

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 5000, 1500, 20261122
N_ROWS = 120
#: Added to the diagonal, in units of the prior variance, for the Cholesky factor alone.
JITTER = 1e-10
IONOSPHERE = STORED_DATA / "ionosphere_120.csv"


def ionosphere_data() -> tuple[Array, Array]:
    """120 rows of the UCI ionosphere data, raw columns without the constant one; y = 1 a bad return."""
    table = np.loadtxt(IONOSPHERE, delimiter=",", skiprows=1)
    return table[:, 1:], table[:, 0].astype(int)


def epil_rows() -> tuple[Array, Array]:
    """Seizures of 59 patients in the fourth period; columns log base and log age, centred, and the treatment."""
    frame, y = epil_data()
    last = frame["V4"].to_numpy() == 1
    return frame.loc[last, ["base", "age", "trt"]].to_numpy(), y[last]


#: Name: data, standard deviation of f a priori, length scale. "steep" is the kernel of Khan and Lin (2017).
SETTINGS: dict[str, tuple[Callable[[], tuple[Array, Array]], float, float]] = {
    "moderate": (ionosphere_data, float(np.exp(1.0)), float(np.exp(1.0))),
    "steep": (ionosphere_data, float(np.exp(2.5)), float(np.exp(1.0))),
    "counts": (epil_rows, 2.0, 1.5),
}


def kernel_of(name: str) -> Any:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    _, std, length = SETTINGS[name]
    return ConstantKernel(std**2) * RBF(length)


def make_model(name: str) -> Any:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def model(root: Any, y: Any) -> None:
        white = numpyro.sample("white", dist.Normal(jnp.zeros(root.shape[0]), 1.0).to_event(1))
        f = numpyro.deterministic("f", root @ white)
        numpyro.sample("y", dist.Poisson(jnp.exp(f)) if name == "counts" else dist.Bernoulli(logits=f), obs=y)

    return model


def run(name: str, quick: bool) -> dict[str, Any]:
    import jax
    from numpyro.infer import MCMC, NUTS

    data, std, _ = SETTINGS[name]
    X, y = data()
    K = kernel_of(name)(X)
    root = np.linalg.cholesky(K + JITTER * std**2 * np.eye(len(X)))
    sampler = MCMC(
        NUTS(make_model(name), target_accept_prob=0.9),
        num_warmup=200 if quick else N_WARM_UP,
        num_samples=200 if quick else N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(SEED), root, y, extra_fields=("diverging",))
    found = summary(np.asarray(sampler.get_samples(group_by_chain=True)["f"]))
    found["divergences"] = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    return {"rows": len(X), **found}


def save_ionosphere() -> None:
    """Write the 120 of the training rows of the CVI authors' split that ionosphere_data reads."""
    arrays = load_npz("ionosphere_cvi_split")
    chosen = np.sort(np.random.default_rng(0).permutation(len(arrays["X_train"]))[:N_ROWS])
    X, y = arrays["X_train"][chosen], arrays["y_train"][chosen] > 0
    columns = np.flatnonzero(np.ptp(X, axis=0) > 0)
    header = ",".join(["y", *(f"x{j}" for j in columns)])
    lines = [f"{label:d}," + ",".join(f"{x:.6g}" for x in row) for row, label in zip(X[:, columns], y)]
    IONOSPHERE.write_text("\n".join([header, *lines]) + "\n")


def main(quick: bool = False) -> None:
    import time

    import jax
    import numpyro

    jax.config.update("jax_enable_x64", True)
    if not IONOSPHERE.exists():
        save_ionosphere()
    found, rows = {}, []
    for name, (_, std, length) in SETTINGS.items():
        start = time.perf_counter()
        found[name] = run(name, quick)
        r = found[name]
        rows.append(
            {
                "model": name,
                "rows": r["rows"],
                "prior sd": std,
                "length scale": length,
                "largest R-hat": float(r["r_hat"].max()),
                "smallest ESS": float(r["ess"].min()),
                "largest error of a mean / sd": float((r["mean_error"] / r["sd"]).max()),
                "divergences": r["divergences"],
                "seconds": time.perf_counter() - start,
            }
        )
        progress(rows[-1])
    notes = [
        f"NUTS of NumPyro {numpyro.__version__}, 64 bit, white latents, {N_CHAINS} chains of {N_DRAWS} draws after "
        f"{N_WARM_UP}, seed {SEED}. moderate, steep: {N_ROWS} rows of ionosphere, logit; counts: the fourth period of "
        "epil, Poisson with exp rate."
    ]
    report("gp/reference_quality", "Reference runs of Gaussian processes", rows, notes, quick)
    if not quick:
        (RESULTS / "gp/reference.json").write_text(json.dumps(rounded(found), indent=None) + "\n")


if __name__ == "__main__":
    main(arguments(__doc__))
