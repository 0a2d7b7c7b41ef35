"""Claims of Shah, Knowles and Ghahramani on variational algorithms of the beta process, and what became of them."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.papers._claim import Claims, Outcome, judged, stored

CLAIMS = Claims()
DRAWS, FACTORIZED = ("Gibbs-SSVI", "Mimno-SVI"), ("Titsias-SSVI", "MF-SSVI", "MF-SVI")

CLAIMS.tested(
    "(7)",
    "The structured gradient is that of the bound.",
    "tests/models/beta_process/test_model.py::test_gradient_against_finite_differences_of_the_bound",
)
CLAIMS.tested(
    "section 4.2",
    "The Gibbs conditional of a row's features.",
    "tests/models/beta_process/test_model.py::test_gibbs_conditional_against_enumeration",
)
CLAIMS.tested(
    "section 5.3",
    "Two equal features of which one is needed: what mean field does with them.",
    "tests/models/beta_process/test_model.py::test_two_equal_features_of_which_one_is_needed",
)


@CLAIMS.add("fig. 1", "Gibbs-SSVI predicts better than MF-SSVI.", "beta_process.synthetic")
def synthetic_data() -> Outcome:
    rows = stored("beta_process/synthetic")
    pairs = {
        data: [rows.end("log density", data=data, method=name) for name in ("Gibbs-SSVI", "MF-SSVI")]
        for data in rows.values("data")
    }
    text = "; ".join(f"{data}, {a:.3f} and {b:.3f}" for data, (a, b) in pairs.items())
    return judged([a > b for a, b in pairs.values()], f"held-out log density per entry: {text}")


@CLAIMS.add("fig. 1", "Gibbs-SSVI's squared error is near the sampler's.", "beta_process.synthetic")
def errors_on_synthetic_data() -> Outcome:
    rows = stored("beta_process/synthetic")
    pairs = {
        data: [rows.end("MSE", data=data, method=name) for name in ("Gibbs-SSVI", "Gibbs sampler")]
        for data in rows.values("data")
    }
    text = "; ".join(f"{data}, {a:.3f} and {b:.3f}" for data, (a, b) in pairs.items())
    return judged([a < 1.1 * b for a, b in pairs.values()], f"squared error: {text}; near is within 10 %")


@CLAIMS.add("fig. 2", "Predictions improve with the burn-in, and lose severely below 3.", "beta_process.synthetic")
def lengths_of_the_burn_in() -> Outcome:
    rows = stored("beta_process/synthetic")
    names = [name for name in rows.values("method") if "burn-in" in name]
    ends = {data: [rows.end("log density", data=data, method=name) for name in names] for data in rows.values("data")}
    text = "; ".join(f"{data}, " + ", ".join(f"{end:.3f}" for end in found) for data, found in ends.items())
    rises = [later > earlier for found in ends.values() for earlier, later in pairwise(found)]
    steps = ", ".join(name.rsplit(" ", 1)[-1] for name in names)
    return judged(rises, f"log density at burn-ins {steps}: {text}")


def _best(name: str, image: str, method: str, **more: str) -> float:
    return max(row["PSNR"] for row in stored(name).where(image=image, method=method, **more))


@CLAIMS.add("table 1", "Gibbs-SSVI and Mimno-SVI restore images better than the others.", "beta_process.algorithms")
def images() -> Outcome:
    cases = {}
    for image in stored("beta_process/algorithms").values("image"):
        for init in ("random", "gibbs"):
            best = {m: _best("beta_process/algorithms", image, m, init=init) for m in (*DRAWS, *FACTORIZED)}
            cases[f"inpainting {image}, {init} start"] = best
    for image in stored("beta_process/denoising_algorithms").values("image"):
        cases[f"denoising {image}"] = {
            m: _best("beta_process/denoising_algorithms", image, m) for m in (*DRAWS, *FACTORIZED)
        }
    text = "; ".join(
        f"{case}, {min(b[m] for m in DRAWS):.1f} and {max(b[m] for m in FACTORIZED):.1f}" for case, b in cases.items()
    )
    holds = [min(b[m] for m in DRAWS) > max(b[m] for m in FACTORIZED) for b in cases.values()]
    return judged(holds, f"PSNR, the worse of the two and the best of the others: {text}")


@CLAIMS.add(
    "section 6.2", "A start by MCMC matters more to factorized rows than to drawn ones.", "beta_process.algorithms"
)
def sensitivity_to_the_start() -> Outcome:
    name = "beta_process/algorithms"
    images = stored(name).values("image")

    def gain(methods: tuple[str, ...]) -> float:
        gains = [_best(name, i, m, init="gibbs") - _best(name, i, m, init="random") for i in images for m in methods]
        return sum(gains) / len(gains)

    drawn, factorized = gain(DRAWS), gain(FACTORIZED)
    return judged(
        [factorized > drawn], f"mean gain of PSNR: {factorized:.1f} and {drawn:.1f} (4.8 and 1.0 in the paper)"
    )


@CLAIMS.add("section 7", "Titsias-SSVI is hardly better than MF-SSVI.", "beta_process.algorithms")
def spike_and_slab() -> Outcome:
    name = "beta_process/algorithms"
    pairs = {
        (image, init): [_best(name, image, m, init=init) for m in ("Titsias-SSVI", "MF-SSVI")]
        for image in stored(name).values("image")
        for init in ("random", "gibbs")
    }
    text = "; ".join(f"{image}, {init} start, {a:.1f} and {b:.1f}" for (image, init), (a, b) in pairs.items())
    return judged([abs(a - b) < 1 for a, b in pairs.values()], f"PSNR: {text}; hardly is by less than 1")


@CLAIMS.add("fig. 5", "Gibbs-SSVI, then Mimno-SVI, predict gene expression best.", "beta_process.genomics")
def cells() -> Outcome:
    text, holds = [], []
    for name, data, k in (
        ("genomics", "cytof", 500),
        ("genomics_genes", "nci60", 100),
        ("genomics_genes", "leukemia", 100),
    ):
        rows = stored(f"beta_process/{name}").where(data=data, K=k)
        gibbs, mimno = (rows.end("log density", method=method) for method in DRAWS)
        rest = max(row["log density"] for row in rows if row["method"] in FACTORIZED)
        holds += [gibbs > mimno, mimno > rest]
        text.append(f"{data}, {gibbs:.3f}, {mimno:.3f}, {rest:.3f}")
    return judged(holds, f"log density of Gibbs-SSVI, Mimno-SVI, best of the others: {'; '.join(text)}")
