"""Draws of the topics of all words of a cell at once: the numbers they are made of, and the sampler against sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

from sksvi.models.topics.lda import DocumentVisit, LatentDirichlet, LDADocuments, LDAView
from sksvi.models.topics.loops import cells

DRAWS = 40_000


def streams(seed):
    return np.array([seed], np.uint64), np.zeros(1)


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.5, 1e6, 1e15])
def test_gamma_numbers_have_their_distribution(shape, global_random_seed):
    drawn = [cells.gamma_of(shape, *given) for given in [streams(global_random_seed)] for _ in range(DRAWS)]
    # What is smaller than any number came out as 0, where it came.
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > 1e-5


@pytest.mark.parametrize("p", [0.003, 0.3, 0.5, 0.94])
@pytest.mark.parametrize("n", [1, 30, 2000, 50_000, 10_000_000])
def test_binomial_numbers_have_their_distribution(n, p, global_random_seed):
    """Added up, rejected and normal: shares of some twenty groups of values are those of the exact law."""
    given = streams(global_random_seed)
    drawn = np.array([cells.binomial_of(float(n), p, *given) for _ in range(DRAWS)])
    law = stats.binom(n, p)
    edges = np.unique(law.ppf(np.linspace(0.0, 1.0, 22)[1:-1]))
    wanted = np.diff(np.r_[0.0, law.cdf(edges), 1.0])
    found = np.bincount(np.searchsorted(edges, drawn), minlength=len(wanted))
    assert np.all((drawn == np.rint(drawn)) & (drawn >= 0) & (drawn <= n)) and not np.any(found[wanted < 1e-12])
    kept = wanted >= 1e-12
    assert stats.chisquare(found[kept], DRAWS * wanted[kept] / wanted[kept].sum()).pvalue > 1e-5


@pytest.mark.parametrize(("n", "mean"), [(1e13, 3.0), (1e13, 500.0), (1e18, 4e17), (1e26, 2e25)])
def test_binomial_numbers_of_any_size(n, mean, global_random_seed):
    given = streams(global_random_seed)
    drawn = np.array([cells.binomial_of(n, mean / n, *given) for _ in range(DRAWS)])
    scaled = (drawn - mean) / np.sqrt(mean * (1.0 - mean / n))
    np.testing.assert_allclose([scaled.mean(), np.square(scaled).mean()], [0.0, 1.0], atol=0.05)


@pytest.mark.costly
@pytest.mark.parametrize("few", [[0], [3, 8]])
def test_the_sampler_is_the_sum_over_all_counts(few, global_random_seed):
    """A document of one cell of many words, alone and with few others, of two topics: E N, E N² of either."""
    rng = np.random.default_rng(global_random_seed)
    alpha, counts = np.array([0.4, 1.1]), np.array([cells.TOGETHER + 60, *few])
    topics = rng.dirichlet(np.full(len(counts), 3.0), 2).T
    first = np.indices(counts + 1).reshape(len(counts), -1)  # how many words of each cell have the first topic
    logs = betaln(alpha[0] + first.sum(0), alpha[1] + counts.sum() - first.sum(0))
    for n, m, row in zip(counts, first, topics, strict=True):
        logs = (
            logs + gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1) + m * np.log(row[0]) + (n - m) * np.log(row[1])
        )
    weight = np.exp(logs - np.logaddexp.reduce(logs))
    wanted = [weight @ first.sum(0), weight @ np.square(first.sum(0)), *(first @ weight)]
    model, runs = LatentDirichlet(2, len(counts), alpha=alpha, eta=np.ones((2, len(counts))), local_step="gibbs"), []
    batch = LDADocuments(
        np.array([0, len(counts)]), np.arange(len(counts)), counts * 1.0, np.array([5]), np.zeros((1, 2))
    )
    for key in range(60):
        terms = model.settled(
            LDAView(topics, np.zeros(len(counts)), alpha), batch, DocumentVisit(0, 0.0, 50, 1000), key, True, True
        )
        np.testing.assert_allclose(terms.counts.sum(0), terms.local[0])
        np.testing.assert_allclose(terms.counts.sum(1), counts)
        runs.append([terms.local[0, 0], terms.squares[0, 0], *terms.counts[:, 0]])
    error = np.std(runs, 0, ddof=1) / np.sqrt(len(runs))
    np.testing.assert_array_less(np.abs(np.mean(runs, 0) - wanted), 5.0 * error + 1e-9)
