"""Claims of Hoffman and Blei's paper on structured stochastic variational inference (SSVI), and what became of them."""

from __future__ import annotations

from benchmarks.papers._claim import Claims, Outcome, judged, stored

CLAIMS = Claims()

CLAIMS.tested(
    "(8)",
    "V follows the gradient of the structured bound; without it gradients are biased.",
    "tests/models/mixture/test_model.py::test_v_follows_the_structured_bound_and_without_it_gradients_are_biased",
)
CLAIMS.tested(
    "(22), (23), (28)",
    "The corrected counts are right on average.",
    "tests/models/topics/test_correlated.py::test_corrected_counts_are_right_on_average",
)
CLAIMS.tested(
    "algorithm 1",
    "The structured gradient of latent Dirichlet allocation is that of the bound.",
    "tests/models/topics/test_lda.py::test_structured_gradient_is_that_of_the_bound",
)
CLAIMS.tested(
    "appendix D",
    "Draws of a document's topics are those of enumeration.",
    "tests/models/topics/test_lda.py::test_gibbs_is_the_enumeration",
)


@CLAIMS.add("fig. 2", "On a large corpus SSVI and SSVI-A predict better than SVI.", "topics.lda_stream")
def a_large_corpus() -> Outcome:
    rows = stored("topics/lda_stream")
    most = max(row["documents"] for row in rows)
    svi, corrected, simple = (
        rows.value("perplexity", algorithm=name, documents=most) for name in ("svi", "ssvi", "ssvi-a")
    )
    text = f"perplexity after {most:,} documents: ssvi {corrected:.0f}, ssvi-a {simple:.0f}, svi {svi:.0f}"
    return judged([corrected < svi, simple < svi], text)


@CLAIMS.add("fig. 2", "SSVI is at least as good as SSVI-A.", "topics.lda_stream, topics.lda_grid")
def with_and_without_v() -> Outcome:
    stream, grid = stored("topics/lda_stream"), stored("topics/lda_grid").where(local_step="gibbs")
    most = max(row["documents"] for row in stream)
    pairs = {
        "300,000 documents": [
            -stream.value("perplexity", algorithm=name, documents=most) for name in ("ssvi", "ssvi-a")
        ]
    }
    for corpus in grid.values("corpus"):
        pairs[corpus] = [grid.end("log p per word", corpus=corpus, algorithm=name) for name in ("ssvi", "ssvi-a")]
    text = "; ".join(f"{corpus}, {a:.4g} and {b:.4g}" for corpus, (a, b) in pairs.items())
    return judged([a >= b for a, b in pairs.values()], f"minus perplexity, log p per word: {text}")


@CLAIMS.add("fig. 2", "SVI depends on the prior of words more than SSVI does.", "topics.lda_grid")
def priors_of_words() -> Outcome:
    rows = stored("topics/lda_grid_priors").where(alpha=0.1)

    def spread(name: str) -> float:
        found = [row["log p per word"] for row in rows.where(algorithm=name) if row["eta"] <= 0.3]
        return max(found) - min(found)

    svi, corrected, simple = map(spread, ("svi", "ssvi", "ssvi-a"))
    text = (
        f"range of log p per word over eta from 0.01 to 0.3: svi {svi:.4f}, ssvi {corrected:.4f}, ssvi-a {simple:.4f}"
    )
    return judged([svi > corrected, svi > simple], text)


@CLAIMS.add(
    "fig. 3",
    "SVI begun where the structured algorithms ended finds a better optimum of its own bound.",
    "topics.lda_figure3",
)
def starts_of_mean_field() -> Outcome:
    rows = stored("topics/lda_figure3")
    gains = {
        name: [
            rows.value("after svi", split=split, algorithm=name) - rows.value("after svi", split=split, algorithm="svi")
            for split in rows.values("split")
        ]
        for name in ("ssvi", "ssvi-a")
    }
    text = "; ".join(f"{name} " + ", ".join(f"{gain:+.4f}" for gain in found) for name, found in gains.items())
    return judged([gain > 0 for found in gains.values() for gain in found], f"nats per word, by split: {text}")


@CLAIMS.add("fig. 6", "Mean-field rows predict worse than CVB0 and draws.", "topics.lda_grid")
def rows_of_topics() -> Outcome:
    rows = stored("topics/lda_grid").where(algorithm="ssvi-a")
    ends = {
        (corpus, step): rows.end("log p per word", corpus=corpus, local_step=step)
        for corpus in rows.values("corpus")
        for step in ("mean-field", "cvb0", "gibbs")
    }
    text = "; ".join(
        f"{corpus}, " + ", ".join(f"{ends[corpus, step]:.3f}" for step in ("mean-field", "cvb0", "gibbs"))
        for corpus in rows.values("corpus")
    )
    holds = [ends[c, "mean-field"] < ends[c, step] for c in rows.values("corpus") for step in ("cvb0", "gibbs")]
    return judged(holds, f"log p per word of ssvi-a with mean field, cvb0, gibbs: {text}")


CLAIMS.not_run(
    "section 4.1",
    "SGRLD beats SVI for any hyperparameters, and is about as good as SSVI.",
    "SGRLD samples, which no estimator here does; document completion takes the place of Chib's score.",
)


@CLAIMS.add("section 4.2", "Mean field finds 17 of 56 components, SSVI-A 54.", "mixture.bernoulli")
def components_of_a_mixture() -> Outcome:
    rows = stored("mixture/bernoulli")

    def used(method: str) -> list[tuple[int, int]]:
        (row,) = rows.where(method=method)
        return [tuple(map(int, pair.split("/"))) for pair in row["Dirichlet: used / true"].split(", ")]  # type: ignore[misc]

    mean, structured = used("svi"), used("ssvi-a")
    text = "; ".join(
        f"{name} " + ", ".join(f"{found} of {true}" for found, true in pairs)
        for name, pairs in (("svi", mean), ("ssvi-a", structured))
    )
    holds = [found < 0.5 * true for found, true in mean] + [found > 0.9 * true for found, true in structured]
    return judged(holds, f"{text}: mean field begun by EM does not collapse")


@CLAIMS.add("section 4.2", "SSVI-A is nearer to the truth than mean field, as near as Gibbs.", "mixture.bernoulli")
def divergence_of_a_mixture() -> Outcome:
    rows = stored("mixture/bernoulli")
    svi, structured, gibbs = (
        rows.value("Dirichlet: KL", method=name) for name in ("svi", "ssvi-a", "collapsed Gibbs, 100 sweeps")
    )
    text = f"divergence in nats: svi {svi:.3f}, ssvi-a {structured:.3f}, Gibbs {gibbs:.3f}"
    return judged([structured < svi - 0.05, structured < gibbs + 0.1], text)


@CLAIMS.add("section 4.3, fig. 5", "SSVI-A recovers nearly all bases of GaP-KL-NMF, mean field few.", "nmf.recovery")
def bases_of_spectra() -> Outcome:
    rows = stored("nmf/recovery").where(mean_count=50.0)
    found = {
        name: [row["found > 0.9"] for row in rows.where(method=name)]
        for name in ("mean field, random start", "mean field, rows", "150 passes of draws, then mean field")
    }
    text = "; ".join(f"{name} {min(count)} to {max(count)}" for name, count in found.items())
    holds = [min(found["150 passes of draws, then mean field"]) > 45]
    holds += [max(found[name]) < 25 for name in ("mean field, random start", "mean field, rows")]
    return judged(holds, f"of 50 bases: {text}")
