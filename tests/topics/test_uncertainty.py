"""`uncertainty` of topic models: what the joint posterior's draws change, and what they leave."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from sksvi import CorrelatedTopicModel, StructuredLDA, load
from sksvi.datasets import make_ctm, make_lda
from sksvi.estimators.completion import halved

BOTH = pytest.mark.parametrize("cls", [StructuredLDA, CorrelatedTopicModel])
X = make_lda(60, 30, n_components=3, n_words=20, random_state=0).data.toarray().astype(float)


def fitted(cls, uncertainty="corrected", rows=X, **options):
    return cls(3, max_iter=100, tol=1e-2, random_state=0, uncertainty=uncertainty, **options).fit(rows)


@BOTH
def test_variational_has_the_fit_without_draws(cls):
    plain, corrected = fitted(cls, "variational"), fitted(cls)
    np.testing.assert_array_equal(plain.components_, corrected.state_.q["topics"].mean)
    assert plain.lower_bound_ == corrected.lower_bound_
    assert plain.posterior_["topics"] is plain.state_.q["topics"]
    assert not np.array_equal(plain.transform(X, return_std=True)[1], corrected.transform(X, return_std=True)[1])
    model = plain._fitted_model
    found = model.with_local("cvb0").documents(plain.state_.q, plain._counts(X), 1) if cls is StructuredLDA else None
    mean = plain.transform(X)
    if found is not None:
        total = plain.doc_topic_prior_ + found.local
        np.testing.assert_array_equal(mean, total / total.sum(1, keepdims=True))


@BOTH
def test_draws_are_the_same_for_any_number_of_threads_and_from_files(cls, tmp_path, small_chunks_of_documents):
    model, other = fitted(cls, n_jobs=1), fitted(cls, n_jobs=2)
    np.testing.assert_array_equal(model._draws.topics, other._draws.topics)
    interval = model.proportion_interval(X[:5])
    assert np.all(interval[..., 0] < interval[..., 1])
    np.testing.assert_array_equal(interval, model.proportion_interval(sp.csr_matrix(X))[:5])
    model.save(tmp_path / "model.sksvi")
    np.testing.assert_array_equal(load(tmp_path / "model.sksvi").proportion_interval(X[:5]), interval)
    np.testing.assert_array_equal(load(tmp_path / "model.sksvi").summary(), model.summary())


@BOTH
def test_a_summary_and_samples_are_those_of_the_draws(cls):
    model = fitted(cls)
    block, table = model.posterior_["topics"], model.summary(coverage=0.5, n=4)
    name, word = table.index[0]
    k = list(model.get_feature_names_out()).index(name)
    own = model._draws.topics[:, k, int(word[1:])]
    low, high = np.quantile(own, [0.25, 0.75], method="weibull")
    expected = [model.components_[k, int(word[1:])], own.std(ddof=1), low, high]
    np.testing.assert_allclose(table.iloc[0], expected, rtol=1e-5)
    drawn = block.sample(50, random_state=0)
    assert drawn.shape == (50, 3, 30) and {tuple(t.ravel()) for t in drawn} <= {
        tuple(t.ravel()) for t in model._draws.topics.astype(float)
    }


@BOTH
def test_streams_single_topics_and_points_have_no_draws(cls):
    model = fitted(cls)
    model.partial_fit(X[:10])
    assert model._draws is None and model.proportion_interval(X[:2]).shape == (2, 3, 2)
    assert cls(1, tol=1e-2).fit(X)._draws is None
    if cls is CorrelatedTopicModel:
        assert fitted(cls, topics="point")._draws is None


@pytest.mark.parametrize("alpha", [None, 0.3, "auto"])
@pytest.mark.parametrize("eta", [None, 0.2, "auto"])
def test_a_prior_that_nobody_gave_spreads(alpha, eta):
    prior = fitted(StructuredLDA, doc_topic_prior=alpha, topic_word_prior=eta)._draws.prior
    assert np.all((np.ptp(prior["alpha"], axis=0) > 0) == (alpha != 0.3)) and ("eta" in prior) == (eta != 0.2)
    assert alpha != 0.3 or np.all(prior["alpha"] == 0.3)
    assert eta == 0.2 or np.all(np.ptp(prior["eta"], axis=0) > 0)


@BOTH
def test_words_have_the_prior_that_was_given(cls):
    assert "eta" in fitted(cls)._draws.prior
    for given in ({"topic_word_prior": 0.3}, {"prior_words": {0: [1, 2]}}):
        assert "eta" not in fitted(cls, **given)._draws.prior


@BOTH
def test_k_hat_of_a_document(cls):
    rows = sp.csr_matrix(np.vstack([X[:4], np.zeros(30)]))
    model = fitted(cls)
    found = model.proportion_k_hat(rows)
    assert found.shape == (5,) and np.all(found < 1.5)
    np.testing.assert_allclose(found[2], model.proportion_k_hat(rows[2:3])[0], atol=1e-6)
    with pytest.raises(ValueError, match="n_draws"):
        model.proportion_k_hat(rows, n_draws=5)


# ---- what intervals hold
def corpus(cls, n_words, rng):
    if cls is CorrelatedTopicModel:
        data = make_ctm(150, 100, n_components=3, n_words=n_words, random_state=rng)
    else:
        data = make_lda(150, 100, n_components=3, n_words=n_words, random_state=rng)
    return data.data, data.proportions, data.components


def covered(model, counts, proportions, topics):
    own = linear_sum_assignment(np.abs(topics[:, None] - model.components_).sum(-1))[1]
    low, high = np.moveaxis(model.proportion_interval(counts)[:, own], -1, 0)
    return np.mean((low <= proportions) & (proportions <= high))


@pytest.mark.costly
@BOTH
def test_intervals_of_proportions_hold_what_they_say(cls, global_random_seed):
    """0.9 within four standard errors of the sets: three of 150 documents, whose topics are learned from them."""
    found = []
    for number in range(3):
        rng = np.random.RandomState(1000 * number + global_random_seed)
        counts, proportions, topics = corpus(cls, 30, rng)
        found.append(covered(cls(3, random_state=0).fit(counts), counts, proportions, topics))
    assert abs(np.mean(found) - 0.9) < 4 * 0.02


@pytest.mark.costly
def test_intervals_hold_where_topics_are_smoother_than_their_prior_begins(global_random_seed):
    """Words of concentration 0.5, where q has 0.1: given that number alone intervals are about a wrong place."""
    found, alone, fitted_q = [], [], []
    for number in range(3):
        rng = np.random.default_rng([number, global_random_seed])
        topics, proportions = rng.dirichlet(np.full(150, 0.5), 3), rng.dirichlet(np.full(3, 0.3), 200)
        counts = np.stack([rng.multinomial(30, p / p.sum()) for p in proportions @ topics])
        for eta, uncertainty, hits in (
            (None, "corrected", found),
            (0.1, "corrected", alone),
            (None, "variational", fitted_q),
        ):
            model = StructuredLDA(3, topic_word_prior=eta, uncertainty=uncertainty, random_state=0).fit(counts)
            hits.append(covered(model, counts, proportions, topics))
    assert abs(np.mean(found) - 0.9) < 4 * 0.02
    assert max(np.mean(alone), np.mean(fitted_q)) < np.mean(found) - 0.05


@BOTH
def test_attributes_are_means_of_the_draws(cls):
    """What is shown, scored and transformed by are one and the same point, inside of its own intervals."""
    model = fitted(cls)
    draws = model._draws
    found = draws.topics[:, model.components_ > 0.01].astype(float)  # of others draws are too skewed for their mean
    off = model.components_[model.components_ > 0.01] - found.mean(0)
    assert np.all(np.abs(off) < 5.0 * found.std(0) / np.sqrt(len(draws)))
    np.testing.assert_array_equal(model.components_, model.posterior_["topics"].mean)
    low, high = model.posterior_["topics"].quantiles([0.05, 0.95])
    assert np.mean((low <= model.components_) & (model.components_ <= high)) > 0.9
    if cls is StructuredLDA:
        assert model.doc_topic_prior_ == pytest.approx(draws.prior["alpha"].mean(0))
        assert model.topic_word_prior_ == pytest.approx(draws.prior["eta"].mean())
    else:
        np.testing.assert_allclose(model.topic_log_odds_, draws.prior["location"].mean(0))
        np.testing.assert_allclose(model.topic_covariance_, np.linalg.inv(draws.prior["precision"]).mean(0))
    observed, held_out = halved(sp.csr_matrix(X))
    words = np.log(np.maximum(model.transform(observed) @ model.components_, 1e-300))
    assert model.score(X) == pytest.approx(held_out.multiply(words).sum() / held_out.sum())
    np.testing.assert_allclose(model.topic_prevalence_, draws.words / draws.words.sum())
    assert draws.words.sum() == pytest.approx(X.sum())


@pytest.mark.costly
@BOTH
def test_means_of_draws_are_nearer_to_the_truth(cls, global_random_seed):
    """Topics of short documents: q, which has them independent of proportions, is farther off in every set."""
    off = np.zeros(2)
    for number in range(3):
        counts, _, topics = corpus(cls, 30, np.random.RandomState(1000 * number + global_random_seed))
        model = cls(3, random_state=0).fit(counts)
        for at, found in enumerate((model.components_, model.state_.q["topics"].mean)):
            distances = np.abs(topics[:, None] - found).sum(-1)
            off[at] += distances[linear_sum_assignment(distances)].mean()
    assert off[0] < off[1]
