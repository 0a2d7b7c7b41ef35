"""Long NUTS runs (NumPyro, 64 bit) of three small models, stored as moments with their Monte Carlo errors.

``python -m benchmarks glm.reference`` rewrites results/glm/reference.json (needs numpyro); it is read by
benchmarks/tests/test_glm_reference.py. Priors: coefficients N(0, 1), intercept N(0, 1e4), ordinal cut points flat over
increasing values.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.draws import moments
from benchmarks._lib.loaders import RANDHIE, standardised
from benchmarks._lib.tables import RESULTS, arguments, report

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 2500, 1000, 20240501
INTERCEPT_PRECISION = 1e-4


def logistic_data() -> tuple[Array, Array]:
    """Wisconsin diagnostic breast cancer: six of the mean columns, 569 rows; y = 1 benign."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    names = ["mean texture", "mean area", "mean smoothness", "mean symmetry", "mean fractal dimension", "texture error"]
    return standardised(bunch.data[:, [list(bunch.feature_names).index(n) for n in names]]), bunch.target


def poisson_data() -> tuple[Array, Array]:
    """RAND health insurance experiment: outpatient visits of 500 persons, nine columns (benchmarks/data)."""
    table = np.loadtxt(RANDHIE, delimiter=",", skiprows=1)
    return standardised(table[:, 1:]), table[:, 0].astype(int)


def ordinal_data() -> tuple[Array, Array]:
    """scikit-learn's diabetes, progression cut at its quartiles into levels 0..3."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    return standardised(bunch.data), np.digitize(bunch.target, np.quantile(bunch.target, [0.25, 0.5, 0.75]))


DATA = {"logistic": logistic_data, "poisson": poisson_data, "ordinal": ordinal_data}


def make_models() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def linear(X: Any) -> Any:
        w = numpyro.sample("coef", dist.Normal(jnp.zeros(X.shape[1]), 1.0).to_event(1))
        b = numpyro.sample("intercept", dist.Normal(0.0, INTERCEPT_PRECISION**-0.5))
        return X @ w + b

    def logistic(X: Any, y: Any) -> None:
        numpyro.sample("y", dist.Bernoulli(logits=linear(X)), obs=y)

    def poisson(X: Any, y: Any) -> None:
        numpyro.sample("y", dist.Poisson(jnp.exp(linear(X))), obs=y)

    def ordinal(X: Any, y: Any) -> None:
        w = numpyro.sample("coef", dist.Normal(jnp.zeros(X.shape[1]), 1.0).to_event(1))
        flat = dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,))
        cuts = jnp.concatenate([jnp.array([-jnp.inf]), numpyro.sample("cut_points", flat), jnp.array([jnp.inf])])
        upper, lower = cuts[y + 1] - X @ w, cuts[y] - X @ w
        # log(sigmoid(u) - sigmoid(l)) without cancellation; the end levels have an infinite bound
        middle = jnp.isfinite(upper) & jnp.isfinite(lower)
        gap = jnp.where(middle, jnp.where(middle, lower, 0.0) - jnp.where(middle, upper, 1.0), -1.0)
        value = jax.nn.log_sigmoid(jnp.where(jnp.isfinite(upper), upper, 1e6))
        value += jax.nn.log_sigmoid(jnp.where(jnp.isfinite(lower), -lower, 1e6))
        numpyro.factor("y", jnp.sum(value + jnp.where(middle, jnp.log(-jnp.expm1(gap)), 0.0)))

    return {"logistic": logistic, "poisson": poisson, "ordinal": ordinal}


def run(name: str, model: Any) -> dict[str, Any]:
    import jax
    from numpyro.infer import MCMC, NUTS

    X, y = DATA[name]()
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=N_WARM_UP,
        num_samples=N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(SEED), X, y, extra_fields=("diverging",))
    samples = {k: np.asarray(v) for k, v in sampler.get_samples(group_by_chain=True).items()}
    blocks = [samples["coef"]]
    if "intercept" in samples:
        blocks.append(samples["intercept"][..., None])
    found: dict[str, Any] = moments(np.concatenate(blocks, axis=-1))
    if "cut_points" in samples:
        found["cut_points"] = moments(samples["cut_points"])
    found["rows"], found["columns"] = X.shape
    found["divergences"] = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    return found


def save_randhie() -> None:
    """Write the 500 rows of statsmodels' public-domain ``randhie`` that poisson_data reads."""
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    frame.sample(500, random_state=0).round(6).to_csv(RANDHIE, index=False)


def main(quick: bool = False) -> None:
    import jax
    import numpyro

    jax.config.update("jax_enable_x64", True)
    if not RANDHIE.exists():
        save_randhie()
    found = {name: run(name, model) for name, model in make_models().items()}
    rows = [
        {
            "model": name,
            "rows": r["rows"],
            "coefficients": len(r["mean"]),
            "largest R-hat": float(np.max(r["r_hat"])),
            "smallest ESS": float(np.min(r["ess"])),
            "largest error of a mean / sd": float(np.max(r["mean_error"] / r["sd"])),
            "divergences": r["divergences"],
        }
        for name, r in found.items()
    ]
    notes = [
        f"NUTS of NumPyro {numpyro.__version__}, 64 bit, {N_CHAINS} chains of {N_DRAWS} draws after {N_WARM_UP}, "
        f"seed {SEED}."
    ]
    report("glm/reference_quality", "Reference runs", rows, notes, quick)
    if not quick:
        text = json.dumps(found, indent=1, default=lambda v: v.tolist() if isinstance(v, np.ndarray) else v.item())
        (RESULTS / "glm/reference.json").write_text(text + "\n")


if __name__ == "__main__":
    main(arguments(__doc__))
