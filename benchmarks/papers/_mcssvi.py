"""Claims of Sheth and Khardon's paper on Monte Carlo structured SVI (MC-SSVI), and what became of them here."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.papers._claim import Claims, Outcome, Rows, judged, stored

CLAIMS = Claims()


def _paper(name: str) -> Rows:
    return stored(name).where(setting="paper")


CLAIMS.tested(
    "(6), (8), (3), (92)",
    "The optimal bound is the highest of the three at any q; simple and mean field follow from it.",
    "tests/models/mixed/test_glm.py::test_at_any_q_the_optimal_bound_is_the_highest",
)
CLAIMS.tested(
    "(19), (24), (25)",
    "MC-SSVI is a natural gradient step: a weighted mean of natural parameters.",
    "tests/algorithms/test_steps.py::test_natural_step_is_the_weighted_mean_of_natural_parameters",
)
CLAIMS.tested(
    "(24), (63)",
    "H-MC-SSVI moves the covariance by the natural gradient, the mean by the standard one.",
    "tests/algorithms/test_steps.py::test_hybrid_step_moves_the_covariance_as_the_natural_step",
)
CLAIMS.tested(
    "section 3",
    "MC-SSVI, H-MC-SSVI and S-DSVI have the same optimum.",
    "tests/algorithms/test_steps.py::test_every_algorithm_climbs_to_the_optimum",
)
CLAIMS.tested(
    "(26) to (44)",
    "The gradients of the GME's optimal, simple and mean-field bounds.",
    "tests/models/mixed/test_noise_bounds.py::test_derivatives_against_finite_differences",
)
CLAIMS.tested(
    "(55) to (59)",
    "The gradients of the CTM's three bounds.",
    "tests/models/topics/test_correlated.py::test_value_and_gradient",
)
CLAIMS.tested(
    "(48) to (53)",
    "The gradients of generalized PMF's bound.",
    "tests/models/factorization/test_gaussian.py::test_plain_route_is_the_gradient_of_the_surrogate",
)


CLAIMS.tested(
    "(24), (63), (64)",
    "The printed steps, from m = 0 and S = 10 I with AdaGrad of rate 1: `literal=True`, to 1e-10 over ten steps.",
    "tests/algorithms/test_literal.py::test_steps_of_a_linear_model_are_those_printed",
)


@CLAIMS.add("fig. 1", "Natural gradients (MC-SSVI, H-MC-SSVI) converge faster than S-DSVI.", "glm.figure1")
def natural_gradients_are_faster() -> Outcome:
    rows, holds, text = stored("glm/figure1").where(passes=8), [], []
    for setting, names in (("literal", ["h-mc-ssvi"]), ("paper", ["mc-ssvi", "h-mc-ssvi"])):
        for data in rows.values("data"):
            short = [rows.value("short", data=data, setting=setting, algorithm=name) for name in (*names, "s-dsvi")]
            holds += [one < short[-1] for one in short[:-1]]
            text.append(f"{data}, {setting}: " + ", ".join(f"{one:.3g}" for one in short))
    return judged(
        holds, f"nats short of H-MC-SSVI and S-DSVI as printed, of MC-SSVI too at the paper's rates: {'; '.join(text)}"
    )


@CLAIMS.add("fig. 1", "MC-SSVI is unstable at first; H-MC-SSVI is not.", "glm.figure1")
def the_first_pass_of_natural_means() -> Outcome:
    rows = _paper("glm/figure1").where(passes=1)
    cases = [
        (data, *(rows.value("short", data=data, algorithm=name) for name in ("mc-ssvi", "h-mc-ssvi")))
        for data in rows.values("data")
    ]
    text = "; ".join(f"{data}, {natural:.0f} and {hybrid:.0f}" for data, natural, hybrid in cases)
    return judged([natural > hybrid for _, natural, hybrid in cases], f"nats short after one pass: {text}")


@CLAIMS.add("fig. 1", "Mini-batches improve on H-MC-SSVI with all rows.", "glm.figure1")
def batches_improve_the_hybrid() -> Outcome:
    rows, holds, text = stored("glm/figure1").where(passes=8), [], []
    for setting in ("literal", "paper"):
        for data in rows.values("data"):
            some, every = (
                rows.value("short", data=data, setting=setting, algorithm=name)
                for name in ("h-mc-ssvi", "h-mc-ssvi, batch")
            )
            holds.append(some < every)
            text.append(f"{data}, {setting}, {some:.3g} and {every:.3g}")
    return judged(holds, f"nats short after 8 passes: {'; '.join(text)}")


@CLAIMS.add("fig. 1", "With all rows H-MC-SSVI is not monotonic.", "glm.figure1")
def all_rows_rise_and_fall() -> Outcome:
    rows, holds, text = stored("glm/figure1").where(setting="literal", algorithm="h-mc-ssvi, batch"), [], []
    for data in rows.values("data"):
        short = [row["short"] for row in rows.where(data=data)]
        holds.append(any(later > earlier for earlier, later in pairwise(short)))
        text.append(f"{data}, " + ", ".join(f"{one:.0f}" for one in short))
    return judged(holds, f"nats short after 1, 2, 4, 8 passes, as printed: {'; '.join(text)}")


@CLAIMS.add("fig. 2", "H-MC-SSVI is best, MC-SSVI second, S-DSVI slow.", "mixed.figure2")
def order_of_the_algorithms_in_the_mixed_model() -> Outcome:
    rows = _paper("mixed/figure2").where(fitted_bound="optimal", passes=8)
    hybrid, natural, gradient = (rows.value("test NLL", algorithm=name) for name in ("h-mc-ssvi", "mc-ssvi", "s-dsvi"))
    text = f"test NLL after 8 passes: {hybrid:.4f}, {natural:.4f}, {gradient:.4f}"
    return judged([hybrid < natural, natural < gradient], text)


@CLAIMS.add("fig. 2", "The optimal bound predicts best, ahead of simple, mean field and the GLM.", "mixed.figure2")
def the_optimal_bound_predicts_best() -> Outcome:
    rows = stored("mixed/figure2_bounds")
    names = ["GME, optimal", "GME, mean-field", "GME, simple", "GLM, poisson-softplus"]
    first, *others = (rows.value("test NLL", model=name) for name in names)
    return judged(
        [first < other for other in others],
        "test NLL: " + ", ".join(f"{name} {nll:.4f}" for name, nll in zip(names, [first, *others], strict=True)),
    )


def _less_simple(bound: str) -> list[float]:
    return [row["less simple"] for row in stored("gp/figure3") if row["bound"] == bound]


@CLAIMS.add("fig. 3", "Optimal, V1 and V2 predict better than the simple bound of a sparse GP.", "gp.figure3")
def bounds_of_the_sparse_gp() -> Outcome:
    differences = {bound: _less_simple(bound) for bound in ("optimal", "v1", "v2")}
    text = "; ".join(
        f"{bound} better at {sum(d < 0 for d in all_)} of {len(all_)} sizes, by at most {-min(all_):.4f} nats"
        for bound, all_ in differences.items()
    )
    return judged([d < 0 for all_ in differences.values() for d in all_], text)


@CLAIMS.add("fig. 3", "The gap to the simple bound shrinks as rows grow.", "gp.figure3")
def the_gap_shrinks() -> Outcome:
    gaps = {
        (grid, bound): [abs(row["less simple"]) for row in stored("gp/figure3").where(grid_on=grid, bound=bound)]
        for grid in stored("gp/figure3").values("grid on")
        for bound in ("v1", "v2")
    }
    text = "; ".join(
        f"{bound}, grid on {grid}: {max(g):.4f} at most, {g[-1]:.4f} last" for (grid, bound), g in gaps.items()
    )
    return judged([gap[-1] < max(gap[:-1]) for gap in gaps.values()], text)


@CLAIMS.add("fig. 3", "The heuristic variants are as good as the optimal bound or better.", "gp.figure3")
def heuristics_compete() -> Outcome:
    optimal = {(row["grid on"], row["rows"]): row for row in stored("gp/figure3") if row["bound"] == "optimal"}
    pairs = [
        (bound, row["less simple"] - optimal[row["grid on"], row["rows"]]["less simple"])
        for bound in ("v1", "v2")
        for row in stored("gp/figure3")
        if row["bound"] == bound and (row["grid on"], row["rows"]) in optimal
    ]
    text = ", ".join(f"{b} at most {max(d for n, d in pairs if n == b):.4f} nats behind it" for b in ("v1", "v2"))
    return judged([difference <= 1e-3 for _, difference in pairs], f"{text}; counted within 0.001")


def _ends(data: str, algorithm: str, column: str) -> float:
    """The better end of the two batch sizes on the matrices that are small enough to be fitted to their end."""
    rows = stored("factorization/figures_settled").where(data=data, algorithm=algorithm)
    found = [rows.end(column, batch=batch) for batch in rows.values("batch")]
    return max(found) if column == "bound" else min(found)


#: Ends that differ by less, relative to them, are one end.
SAME = 5e-4


def _per_likelihood(column: str, pair: tuple[str, str], digits: int) -> tuple[list[bool], str]:
    ends = {data: [_ends(data, name, column) for name in pair] for data in ("binary", "count", "ordinal")}
    sign = 1 if column == "bound" else -1
    holds = [sign * (first - second) > SAME * abs(second) for first, second in ends.values()]
    return holds, "; ".join(f"{data}, {a:.{digits}f} and {b:.{digits}f}" for data, (a, b) in ends.items())


@CLAIMS.add(
    "fig. 4", "H-MC-SSVI reaches a better bound of PMF than S-DSVI in the same passes.", "factorization.figures"
)
def hybrid_in_factorizations() -> Outcome:
    holds, text = _per_likelihood("bound", ("h-mc-ssvi", "s-dsvi"), 0)
    return judged(holds, f"bound after 150 passes: {text}")


@CLAIMS.add("fig. 5", "Its test NLL is better for labels and counts, worse for ordinal data.", "factorization.figures")
def likelihood_of_new_entries() -> Outcome:
    holds, text = _per_likelihood("test NLL", ("h-mc-ssvi", "s-dsvi"), 4)
    return judged([*holds[:2], not holds[2]], f"test NLL at the end: {text}")


@CLAIMS.add("fig. 6", "Its errors are smaller.", "factorization.figures")
def errors_of_new_entries() -> Outcome:
    holds, text = _per_likelihood("error", ("h-mc-ssvi", "s-dsvi"), 4)
    return judged(holds, f"error at the end: {text}")


@CLAIMS.add("section 4.4", "H-MC-SSVI's posterior of PMF is too narrow.", "factorization.figures")
def narrow_posteriors() -> Outcome:
    rows = [row for row in stored("factorization/figures") if row["setting"] == "paper" and row["batch"] == "all"]
    early = {row["data"]: row["coverage 90 %"] for row in rows if row["algorithm"] == "h-mc-ssvi"}
    settled = stored("factorization/figures_settled").where(algorithm="h-mc-ssvi", batch="all")
    late = {data: settled.end("coverage 90 %", data=data) for data in ("binary", "count")}
    text = "; ".join(f"{data}, {early[data]:.0%} after few passes, {late[data]:.0%} at the end" for data in late)
    return judged(
        [share < 0.8 for share in [*(early[data] for data in late), *late.values()]], f"cover of 90 %: {text}"
    )


def _real(column: str, first: str, second: str) -> dict[str, tuple[float, float]]:
    """Ends of two algorithms after the same seconds on real matrices, by data and batch."""
    rows = stored("factorization/batches")
    cases = dict.fromkeys((row["data"], row["batch"]) for row in rows)
    return {
        f"{data}, {batch}": (
            rows.end(column, data=data, batch=batch, algorithm=first),
            rows.end(column, data=data, batch=batch, algorithm=second),
        )
        for data, batch in cases
    }


@CLAIMS.add(
    "fig. 4", "On real matrices H-MC-SSVI converges faster than S-DSVI at every batch size.", "factorization.batches"
)
def hybrid_on_real_matrices() -> Outcome:
    found = _real("bound", "h-mc-ssvi", "s-dsvi")
    text = "; ".join(f"{case}, {a:.4g} and {b:.4g}" for case, (a, b) in found.items())
    return judged([a > b for a, b in found.values()], f"bound after the same seconds: {text}")


@CLAIMS.add("fig. 5", "On real matrices H-MC-SSVI predicts better than S-DSVI.", "factorization.batches")
def hybrid_predicts_real_matrices() -> Outcome:
    found = _real("test NLL", "h-mc-ssvi", "s-dsvi")
    text = "; ".join(f"{case}, {a:.4g} and {b:.4g}" for case, (a, b) in found.items())
    return judged([a < b for a, b in found.values()], f"test NLL after the same seconds: {text}")


@CLAIMS.add("fig. 4", "Which batch size is best depends on the data.", "factorization.batches")
def batches_of_real_matrices() -> Outcome:
    rows = stored("factorization/batches").where(algorithm="h-mc-ssvi")
    best = {}
    for data in rows.values("data"):
        mine = rows.where(data=data)
        best[data] = min(mine.values("batch"), key=lambda batch: mine.end("test NLL", batch=batch))
    text = "; ".join(f"{data}, {batch}" for data, batch in best.items())
    return judged([len(set(best.values())) > 1], f"best test NLL of H-MC-SSVI by batch: {text}")


@CLAIMS.add("section 4.4", "A batch size that grows by itself may be a useful addition.", "factorization.batch_sizes")
def growing_batches() -> Outcome:
    rows = stored("factorization/batch_sizes")
    cases = {
        (row["model"], row["data"], row["algorithm"]): (row["CPU seconds"], other["CPU seconds"])
        for row in rows
        for other in rows.where(model=row["model"], data=row["data"], algorithm=row["algorithm"], batch="all")
        if row["batch"].startswith("growing")
    }
    ratios = sorted(own / every for own, every in cases.values())
    text = f"CPU seconds of growing batches are {ratios[0]:.1f} to {ratios[-1]:.1f} times those of all rows"
    return judged(
        [own < every for own, every in cases.values()], f"{text}, which end at the best bound or within a nat"
    )


@CLAIMS.add("fig. 12", "MC-SSVI is unstable in PMF at the paper's rates.", "factorization.figures")
def natural_means_in_factorizations() -> Outcome:
    rows = _paper("factorization/figures").where(algorithm="mc-ssvi", batch=50)
    ends = {data: rows.end("test NLL", data=data) for data in rows.values("data")}
    return judged(
        [nll > 100 for nll in ends.values()],
        "test NLL: " + ", ".join(f"{data} {nll:.3g}" for data, nll in ends.items()),
    )


@CLAIMS.add("fig. 12", "Tuned, MC-SSVI still does not compete.", "factorization.figures")
def natural_means_with_other_rates() -> Outcome:
    holds, text = _per_likelihood("bound", ("h-mc-ssvi", "mc-ssvi"), 0)
    return judged(holds, f"bound after 150 passes at this package's rates, H-MC-SSVI and MC-SSVI: {text}")


def _figure7(column: str) -> dict[str, float]:
    rows = stored("topics/figure7")
    return {name: rows.end(column, method=name) for name in ("optimal", "s-dsvi", "mean field", "simple")}


@CLAIMS.add("fig. 7", "The simple bound of the CTM is the worst by far.", "topics.figure7")
def the_simple_bound_of_topics() -> Outcome:
    bound, nll = _figure7("bound per word"), _figure7("test NLL")
    text = "; ".join(f"{name}, {bound[name]:.3f} and {nll[name]:.3f}" for name in bound)
    return judged(
        [bound["simple"] == min(bound.values()), nll["simple"] == max(nll.values())],
        f"bound and test NLL per word: {text}",
    )


@CLAIMS.add("fig. 7", "The optimal bound passes mean field's, and predicts best.", "topics.figure7")
def the_optimal_bound_of_topics() -> Outcome:
    bound, nll = _figure7("bound per word"), _figure7("test NLL")
    text = f"bound {bound['optimal']:.3f} and {bound['mean field']:.3f}; test NLL {nll['optimal']:.3f}, best of others "
    best = min(value for name, value in nll.items() if name != "optimal")
    return judged([bound["optimal"] > bound["mean field"], nll["optimal"] < best], f"{text}{best:.3f}")


@CLAIMS.add("fig. 7", "S-DSVI does not pass mean field's bound within the time.", "topics.figure7")
def gradients_of_topics() -> Outcome:
    bound = _figure7("bound per word")
    return judged(
        [bound["s-dsvi"] < bound["mean field"]], f"{bound['s-dsvi']:.3f} and {bound['mean field']:.3f} nats per word"
    )


@CLAIMS.add("fig. 8", "The optimal bound predicts better than mean field for every number of topics.", "topics.figure8")
def numbers_of_topics() -> Outcome:
    rows = stored("topics/figure8")
    pairs = {
        k: [rows.value("test NLL", K=k, bound=bound) for bound in ("optimal", "mean-field")] for k in rows.values("K")
    }
    text = "; ".join(f"K = {k}, {a:.4f} and {b:.4f}" for k, (a, b) in pairs.items())
    return judged([a < b for a, b in pairs.values()], f"test NLL per word: {text}")


@CLAIMS.add("fig. 13", "Estimates by importance sampling from four proposals come to the same.", "topics.importance")
def proposals() -> Outcome:
    rows = stored("topics/importance")
    spreads, text = [], []
    for documents in rows.values("documents"):
        mine = rows.where(documents=documents, samples=max(rows.values("samples")))
        ends = {row["proposal"]: row["log p per word"] for row in mine}
        spreads.append(max(ends.values()) - min(ends.values()))
        text.append(f"{documents}, " + ", ".join(f"{name} {value:.4f}" for name, value in ends.items()))
    return judged(
        [spread < 0.005 for spread in spreads], f"log p per word: {'; '.join(text)}; the same is within 0.005"
    )


@CLAIMS.add(
    "fig. 14", "By every scheme of evaluation the optimal bound is the best, the simple the worst.", "topics.importance"
)
def schemes() -> Outcome:
    rows = stored("topics/importance_schemes")
    columns = [name for name in rows[0] if name not in ("method", "passes", "bound per word")]
    holds, text = [], []
    for column in columns:
        found = {row["method"]: row[column] for row in rows}
        others = min(found[name] for name in ("mean field", "optimal, s-dsvi"))
        holds.append(found["optimal, h-mc-ssvi"] < others and found["simple"] == max(found.values()))
        text.append(f"{column}, {found['optimal, h-mc-ssvi']:.3f}, {others:.3f}, {found['simple']:.3f}")
    return judged(holds, f"NLL per word of H-MC-SSVI, best of mean field and S-DSVI, simple: {'; '.join(text)}")


@CLAIMS.add(
    "fig. 15",
    "The log prior, which (106) leaves out, widens the gap between mean field and H-MC-SSVI.",
    "topics.importance",
)
def prior_of_the_mean() -> Outcome:
    rows = stored("topics/importance_schemes")
    gaps = [
        rows.value(column, method="mean field") - rows.value(column, method="optimal, h-mc-ssvi")
        for column in ("(106)", "(106) + prior")
    ]
    return judged([gaps[1] > gaps[0]], f"{gaps[0]:.3f} without and {gaps[1]:.3f} with it, nats per word")


CLAIMS.not_run(
    "fig. 4 to 6, artificial",
    "The same at 1,000 x 1,000 and 100 factors, to the algorithms' end.",
    "For its time; `factorization.figures` stops after minutes there, and ends at 300 x 300 with 10 factors, one seed.",
)
CLAIMS.not_run(
    "fig. 16",
    "By four schemes of evaluation the optimal bound is ahead for every number of topics.",
    "For its time; `topics.figure8` has the numbers of topics by completion, `topics.importance` one by six schemes.",
)


@CLAIMS.add("fig. 17", "On mail, too, H-MC-SSVI comes to a better bound than mean field.", "topics.figure17")
def bound_of_mail() -> Outcome:
    rows = stored("topics/figure17")
    ours, theirs = (rows.end("bound per word", method=name) for name in ("optimal, h-mc-ssvi", "mean field"))
    return judged([ours > theirs], f"{ours:.3f} and {theirs:.3f} nats per word, postings in the place of Enron")
