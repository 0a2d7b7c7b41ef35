"""Claims of Khan and Lin's paper on conjugate-computation variational inference (CVI), and what became of them here."""

from __future__ import annotations

from benchmarks.papers._claim import Claims, Outcome, judged, stored

CLAIMS = Claims()

CLAIMS.tested(
    "theorem 1",
    "CVI is mirror descent in the mean parameters: with all rows its iterates are those of natural gradients.",
    "tests/contracts/test_exact.py::test_cvi_and_mc_ssvi_have_the_same_iterates",
)
CLAIMS.tested(
    "algorithm 2",
    "With conjugate factors alone and a rate of one it is variational message passing.",
    "tests/algorithms/test_steps.py::test_natural_step_reaches_a_conjugate_optimum_at_once",
)
CLAIMS.tested(
    "(15), (72) to (74)",
    "Gradients in the mean parameters follow from draws by a solve with the Fisher information of the same draws.",
    "tests/families/test_gamma.py::test_gradients_at_nodes",
)


@CLAIMS.add("section 4", "The updates converge under mild conditions.", "network.ends")
def plain_steps_converge() -> Outcome:
    rows = stored("network/ends")
    ends = [row["plain: gap"] is not None and abs(row["plain: gap"]) < 1e-3 for row in rows]
    own = max(row["gap"] for row in rows)
    return judged(
        ends, f"networks end at the optimum by plain steps; by judged ones all do (gap at most {own:.1e} nats)"
    )


@CLAIMS.add("table 3", "CVI reaches the optimum of Bayesian logistic regression on every set.", "glm.table3")
def optima_of_table_3() -> Outcome:
    rows = stored("glm/table3").where(algorithm="cvi", expectation="quadrature")
    excess = {row["data"]: row["excess"] for row in rows}
    text = ", ".join(f"{data} {value:.0e}" for data, value in excess.items())
    return judged([value < 1e-3 for value in excess.values()], f"bound's relative distance to the optimum: {text}")


@CLAIMS.add("table 3", "Its log loss is the paper's.", "glm.table3")
def log_losses_of_table_3() -> Outcome:
    rows = stored("glm/table3").where(algorithm="cvi", expectation="quadrature")
    pairs = {row["data"]: (row["log loss (bits)"], row["paper's"]) for row in rows}
    text = ", ".join(f"{data} {own:.3f} ({theirs:.3f})" for data, (own, theirs) in pairs.items())
    return judged(
        [abs(own - theirs) < 0.01 for own, theirs in pairs.values()], f"bits, the paper's in brackets: {text}"
    )


@CLAIMS.add(
    "fig. (b), table 4",
    "CVI converges faster than Knowles's algorithm on the gamma factor model.",
    "gamma_factor.cytof",
)
def gamma_factors() -> Outcome:
    rows = stored("gamma_factor/cytof_ends")
    rates = {row["method"]: row["test NLL"] for row in rows if row["method"].startswith("CVI")}
    knowles, own = (
        rows.value("test NLL", method=name) for name in ("Knowles (AdaDelta)", "default: mode, then judged")
    )
    least, most = min(rates.values()), max(rates.values())
    text = f"test NLL after 500 iterations: CVI {least:.1f} to {most:.1f} by its rate, Knowles {knowles:.1f}"
    return judged([least < knowles], f"{text}; this package's default {own:.1f}")


@CLAIMS.add("fig. (d), table 5", "CVI gains faster than Adam on gamma matrix factorization.", "nmf.poisson")
def gamma_matrices() -> Outcome:
    rows = [row for row in stored("nmf/table5") if row.get("bound") is not None]
    best = {
        (name, iteration): max(
            row["bound"] for row in rows if row["method"].startswith(name) and row["iteration"] == iteration
        )
        for name in ("CVI", "Adam")
        for iteration in (3, 10, 30, 100, 200)
    }
    text = "; ".join(f"{i}, {best['CVI', i]:.0f} and {best['Adam', i]:.0f}" for i in (3, 10, 30, 100, 200))
    return judged(
        [best["CVI", i] > best["Adam", i] for i in (3, 10, 30, 100, 200)],
        f"best bound by iterations, CVI and Adam, 1,437 digits of 64 pixels: {text}",
    )


@CLAIMS.add("fig. 2", "CVI classifies by Gaussian processes as well as expectation propagation.", "gp.classification")
def processes_beside_ep() -> Outcome:
    rows = stored("gp/classification")
    pairs = {
        data: [rows.value("test log loss", data=data, method=name) for name in ("cvi", "EP, probit (GPy)")]
        for data in rows.values("data")
    }
    text = "; ".join(f"{data}, {own:.4f} and {ep:.4f}" for data, (own, ep) in pairs.items())
    return judged([own <= ep + 0.005 for own, ep in pairs.values()], f"test log loss: {text}; counted within 0.005")
