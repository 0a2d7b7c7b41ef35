"""Streams of wide sparse rows: what they choose, how close they come to a fit of all rows, and hostile chunks."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import sksvi
from sksvi import BayesianGLMClassifier
from sksvi.inference import wide_stream
from tests.linear_model.test_low_rank import documents, in_partitions

#: Rows of a stream, its chunks, and words.
N, CHUNK, D = 600, 100, 900


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 43])


@pytest.fixture
def few_first_rows(monkeypatch):
    """Rows are gone after the second chunk, and scales are compared on a fit alone after the fourth."""
    monkeypatch.setattr(wide_stream, "ENOUGH", 2 * CHUNK)
    monkeypatch.setattr(wide_stream, "ALONE", 4 * CHUNK)


def streamed(X, y, size=CHUNK, weight=None, **options):
    model = BayesianGLMClassifier(**options)
    classes = np.unique(y)
    for i in range(0, len(y), size):
        own = None if weight is None else weight[i : i + size]
        model.partial_fit(X[i : i + size], y[i : i + size], classes=classes, sample_weight=own)
    return model


def loss(model, X, y):
    return -np.log(model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)])


# ---- what is chosen
def test_wide_sparse_chunks_are_fitted_at_the_mode_and_others_are_not(rng):
    X, y, *_ = documents(rng, n=CHUNK, d=D)
    model = BayesianGLMClassifier().partial_fit(X, y, classes=[0, 1])
    assert "low-rank, by the shape of the rows" in model.summary_text()
    assert np.isfinite(BayesianGLMClassifier().partial_fit(X[:, :300], y, classes=[0, 1]).lower_bound_)
    assert np.isfinite(BayesianGLMClassifier().partial_fit(X[:, :300].toarray(), y, classes=[0, 1]).lower_bound_)
    with pytest.raises(ValueError, match="covariance was 'auto'"):
        model.set_params(covariance="diag").partial_fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("precision", "close"), [(0.1, 1e-3), ("auto", 0.05)])
def test_one_chunk_is_the_fit(precision, close, classes, rng):
    X, y, new, _ = documents(rng, classes, n=CHUNK, d=2 * D)
    there = np.diff(X.tocsc().indptr) > 0  # empty columns move the random start of the directions
    X, new = X[:, there], new[:, there]
    fit = BayesianGLMClassifier(covariance="low-rank", prior_precision=precision).fit(X, y)
    stream = BayesianGLMClassifier(prior_precision=precision).partial_fit(X, y, classes=np.arange(classes))
    assert stream.loo_ == pytest.approx(fit.loo_, rel=close)
    assert stream.temperature_ == pytest.approx(fit.temperature_, abs=close)
    np.testing.assert_allclose(stream.coef_, fit.coef_, atol=close * np.abs(fit.coef_).max())
    np.testing.assert_allclose(stream.coef_std_, fit.coef_std_, rtol=close)
    np.testing.assert_allclose(stream.predict_proba(new), fit.predict_proba(new), atol=close)


# ---- beside a fit of all rows
@pytest.mark.parametrize(("likelihood", "classes"), [("logit", 2), ("probit", 2), ("logit", 4)])
def test_a_stream_comes_close_to_a_fit_of_all_rows(likelihood, classes, few_first_rows, rng):
    X, y, new, labels = documents(rng, classes, n=N, d=D)
    fit = BayesianGLMClassifier(covariance="low-rank", likelihood=likelihood).fit(X, y)
    stream = streamed(X, y, likelihood=likelihood)
    more = loss(stream, new, labels) - loss(fit, new, labels)
    assert more.mean() < 0.1 + 4 * more.std() / len(labels) ** 0.5
    first = BayesianGLMClassifier(covariance="low-rank", likelihood=likelihood).fit(X[:CHUNK], y[:CHUNK])
    gained = loss(first, new, labels) - loss(stream, new, labels)
    assert gained.mean() > -4 * gained.std() / len(labels) ** 0.5
    assert stream.n_samples_seen_ == N and stream.converged_ and 0.0 < stream.loo_ < np.log(classes)


def test_the_order_of_rows_in_a_chunk_is_none(few_first_rows, rng):
    X, y, *_ = documents(rng, n=N, d=D)
    order = np.concatenate([rng.permutation(np.arange(i, i + CHUNK)) for i in range(0, N, CHUNK)])
    model, other = streamed(X, y), streamed(X[order], y[order])
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-3 * np.abs(model.coef_).max())


@pytest.mark.costly
def test_the_order_of_chunks_hardly_matters(few_first_rows, rng):
    X, y, new, labels = documents(rng, n=N, d=D)
    late = np.concatenate([np.arange(2 * CHUNK), np.arange(2 * CHUNK, N).reshape(-1, CHUNK)[::-1].ravel()])
    more = loss(streamed(X, y), new, labels) - loss(streamed(X[late], y[late]), new, labels)
    assert abs(more.mean()) < 0.05 + 4 * more.std() / len(labels) ** 0.5


def test_a_weight_is_so_many_rows(few_first_rows, rng):
    X, y, *_ = documents(rng, n=3 * CHUNK, d=D)
    weight = np.tile([1.0, 3.0], 3 * CHUNK // 2)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    model = BayesianGLMClassifier()
    for part in np.split(repeated, 3):
        assert len(part) == 2 * CHUNK
        model.partial_fit(X[part], y[part], classes=[0, 1])
    weighted = streamed(X, y, weight=weight)
    np.testing.assert_allclose(weighted.coef_, model.coef_, atol=1e-3 * np.abs(model.coef_).max())
    np.testing.assert_allclose(weighted.coef_std_, model.coef_std_, rtol=1e-3)
    assert weighted.n_samples_seen_ == model.n_samples_seen_


def test_a_fit_goes_on_with_chunks(rng):
    X, y, new, labels = documents(rng, n=N, d=D)
    model = BayesianGLMClassifier(covariance="low-rank").fit(X[: N // 2], y[: N // 2])
    before = loss(model, new, labels)
    model.partial_fit(X[N // 2 :], y[N // 2 :])
    gained = before - loss(model, new, labels)
    assert gained.mean() > -4 * gained.std() / len(labels) ** 0.5 and model.n_samples_seen_ == N


@pytest.mark.costly
@pytest.mark.parametrize("classes", [2, 3])
def test_many_rows_after_a_fit_of_few_are_learned(classes, rng):
    """The scale that few rows choose may be a long way off: a long chunk has its own, and their message joins it."""
    X, y, new, labels = documents(rng, classes, n=N, d=D)
    few = N // 10
    model = BayesianGLMClassifier(covariance="low-rank").fit(X[:few], y[:few])
    model.partial_fit(X[few:], y[few:])
    whole = BayesianGLMClassifier(covariance="low-rank").fit(X, y)
    more = loss(model, new, labels) - loss(whole, new, labels)
    assert more.mean() < 0.1 * loss(whole, new, labels).mean() + 4 * more.std() / len(more) ** 0.5
    assert model.n_samples_seen_ == N
    weighted = BayesianGLMClassifier(covariance="low-rank").fit(X[:few], y[:few])
    weighted.partial_fit(X[few:], y[few:], sample_weight=np.ones(N - few))
    np.testing.assert_array_equal(weighted.coef_, model.coef_)


@pytest.mark.costly
@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_leaves_what_the_first_rows_of_a_stream_leave(classes, few_first_rows, rng):
    X, y, new, labels = documents(rng, classes, n=N, d=D)
    half = N // 2
    fit = BayesianGLMClassifier(covariance="low-rank").fit(X[:half], y[:half])
    stream = streamed(X[:half], y[:half], size=half)
    stream.state_.messages.rivals[:-1] = []  # those under narrower priors
    stream.state_.messages.scales = wide_stream.Compared.of(1)
    assert stream.state_.messages.rows is None
    first = loss(fit, new, labels)
    for model in (fit, stream):
        model.partial_fit(X[half:], y[half:])
    np.testing.assert_allclose(fit.coef_, stream.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(fit.coef_std_, stream.coef_std_, rtol=1e-3)
    more = loss(fit, new, labels) - first  # twice the rows are no worse
    assert more.mean() < 4 * more.std() / len(more) ** 0.5


def test_what_is_forgotten_leaves_the_prior(few_first_rows, rng):
    X, y, *_ = documents(rng, n=N, d=D)
    empty = sp.csr_matrix((CHUNK, D))
    for forgetting, share in ((1.0, 1.0), (0.5, 0.5)):
        model = streamed(X, y, forgetting=forgetting, prior_precision=1.0)
        before = model.coef_std_[0] ** -2.0 - 1.0
        model.partial_fit(empty, y[:CHUNK])
        np.testing.assert_allclose(model.coef_std_[0] ** -2.0 - 1.0, share * before, atol=1e-9 * before.max())


# ---- few rows a chunk
def test_the_temperature_stays_that_of_leave_one_out_while_all_rows_are_there(rng):
    X, y, *_ = documents(rng, 3, n=CHUNK, d=D)
    model = BayesianGLMClassifier().partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    first = model.temperature_
    for i in range(40, 78, 2):  # before they have doubled
        model.partial_fit(X[i : i + 2], y[i : i + 2])
        assert model.temperature_ == first


def test_a_temperature_is_judged_by_enough_rows(few_first_rows, rng):
    X, y, *_ = documents(rng, n=2 * N, d=D)
    model = streamed(X[: 2 * CHUNK], y[: 2 * CHUNK])
    first, judged = model.temperature_, []
    assert model.state_.messages.rows is None
    for i in range(2 * CHUNK, 2 * N, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
        judged.append(model.state_.messages.temperatures.weight >= wide_stream.FEW_ROWS)
        assert model.temperature_ in (wide_stream.TEMPERATURES if judged[-1] else [first])
    assert not judged[0] and judged[-1]


def test_the_loss_of_a_chunk_joins_that_of_rows_left_out(rng):
    X, y, *_ = documents(rng, n=CHUNK, d=D)
    model = BayesianGLMClassifier().partial_fit(X[:30], y[:30], classes=[0, 1])
    first = model.loo_
    f = (X[[30]] @ model.coef_[0] + model.intercept_)[0]
    new = np.logaddexp(0.0, -(2.0 * y[30] - 1.0) * f)
    model.partial_fit(X[[30]], y[[30]])
    earlier = 30 * 30 / 31  # rows that count less, the more have come since
    assert model.loo_ == pytest.approx((earlier * first + new) / (earlier + 1.0))


def test_first_rows_are_fitted_together_before_they_are_gone(few_first_rows, rng):
    X, y, *_ = documents(rng, n=2 * CHUNK, d=D)
    stream = BayesianGLMClassifier().partial_fit(X[: CHUNK + 50], y[: CHUNK + 50], classes=[0, 1])
    stream.partial_fit(X[CHUNK + 50 :], y[CHUNK + 50 :])
    together = BayesianGLMClassifier().partial_fit(X, y, classes=[0, 1])
    assert stream.state_.messages.rows is None
    np.testing.assert_allclose(stream.coef_, together.coef_, atol=0.02 * np.abs(together.coef_).max())


# ---- memory, files, types
def test_memory_stays_once_the_first_rows_are_gone(few_first_rows, rng):
    X, y, *_ = documents(rng, n=2 * N, d=D)
    sizes, model = [], BayesianGLMClassifier()
    for i in range(0, 2 * N, CHUNK):
        model.partial_fit(X[i : i + CHUNK], y[i : i + CHUNK], classes=[0, 1])
        sizes.append(len(pickle.dumps((model.state_.messages, model.state_.q, model.state_.progress))))
    assert model.state_.messages.rows is None and not model.state_.messages.rivals
    assert np.ptp(sizes[5:]) < 100 and sizes[-1] < sizes[0]


def test_no_rows_are_stored_where_none_may_be(rng):
    X, y, *_ = documents(rng, n=N, d=D)
    model = streamed(X[:CHUNK], y[:CHUNK], stream_sample=0)
    assert model.state_.messages.rows is None
    model.partial_fit(X[CHUNK:], y[CHUNK:])
    assert model.loo_ < np.log(2)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_stream_goes_on_from_its_file(after, few_first_rows, rng, tmp_path):
    X, y, *_ = documents(rng, 3, n=N, d=D)
    model = streamed(X[: after * CHUNK], y[: after * CHUNK])
    model.save(tmp_path / "stream.sksvi")
    again = sksvi.load(tmp_path / "stream.sksvi")
    for one in (model, again):
        one.partial_fit(X[-CHUNK:], y[-CHUNK:])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    model.save(tmp_path / "bare.sksvi", training_rows=False)
    assert sksvi.load(tmp_path / "bare.sksvi").state_.messages.rows is None


def test_single_precision_stays(few_first_rows, rng):
    X, y, *_ = documents(rng, n=N, d=D)
    single, double = streamed(X.astype(np.float32), y), streamed(X, y)
    assert single.coef_.dtype == single.predict_proba(X[:2].astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=0.02 * np.abs(double.coef_).max())


def test_partitions_are_chunks(few_first_rows, rng):
    X, y, *_ = documents(rng, n=N, d=D)
    model = BayesianGLMClassifier().partial_fit(*in_partitions(X, y, CHUNK), classes=[0, 1])
    np.testing.assert_array_equal(model.coef_, streamed(X, y).coef_)


# ---- hostile chunks
@pytest.mark.costly
def test_one_class_in_every_chunk(few_first_rows, rng):
    X, y, new, labels = documents(rng, 3, n=N, d=D)
    halves = [np.array_split(np.flatnonzero(y == c), 2) for c in range(3)]
    rows = np.concatenate([halves[c][turn] for turn in range(2) for c in range(3)])  # chunks of 0, 1, 2, 0, 1, 2
    model = streamed(X[rows], y[rows])
    right = np.mean(model.predict(new) == labels)
    assert right > 1 / 3 + 4 * (2 / 9 / len(labels)) ** 0.5  # more than one chance in three gets
    alone = BayesianGLMClassifier().partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    p = alone.predict_proba(new)
    assert np.all(p[:, 0] > 0.5) and np.all(p[:, 1] > 0)


def test_rows_without_entries(few_first_rows, rng):
    X, y, new, labels = documents(rng, n=N, d=D)
    empty = sp.csr_matrix((CHUNK, D))
    model = BayesianGLMClassifier().partial_fit(empty, y[:CHUNK], classes=[0, 1])
    np.testing.assert_allclose(model.coef_, 0.0)
    assert model.predict_proba(new[:1])[0, 1] == pytest.approx(y[:CHUNK].mean(), abs=0.2)
    for i in range(0, N, CHUNK):
        model.partial_fit(X[i : i + CHUNK], y[i : i + CHUNK]).partial_fit(empty, y[i : i + CHUNK])
    assert loss(model, new, labels).mean() < np.log(2)


def test_words_that_no_chunk_had_before(few_first_rows, rng):
    X, y, *_ = documents(rng, n=N, d=D)
    old = sp.csr_matrix(X.toarray() * (np.arange(D) < D // 2))
    model = streamed(old, y)
    prior = model.prior_precision_[0] ** -0.5
    np.testing.assert_allclose(model.coef_[0, D // 2 :], 0.0)
    np.testing.assert_allclose(model.coef_std_[0, D // 2 :], prior)
    model.partial_fit(X[:CHUNK], y[:CHUNK])
    came = np.flatnonzero(np.diff(X[:CHUNK].tocsc().indptr))
    came = came[came >= D // 2]
    assert np.all(model.coef_[0, came] != 0)
    assert np.all(model.coef_std_[0, came] < model.prior_precision_[0] ** -0.5)


def test_duplicate_documents_are_weights(few_first_rows, rng):
    X, y, *_ = documents(rng, n=CHUNK // 4, d=D)
    copies, labels, weight = sp.vstack([X] * 4).tocsr(), np.tile(y, 4), np.full(len(y), 4.0)
    model, weighted = BayesianGLMClassifier(), BayesianGLMClassifier()
    for _ in range(5):
        model.partial_fit(copies, labels, classes=[0, 1])
        weighted.partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    np.testing.assert_allclose(weighted.coef_, model.coef_, atol=1e-3 * np.abs(model.coef_).max())


def test_a_prior_without_one_scale_is_refused_before_rows_are_read(rng):
    X, y, *_ = documents(rng, n=CHUNK, d=D)
    model = BayesianGLMClassifier(covariance="low-rank", prior_precision="ard")
    with pytest.raises(ValueError, match="prior_precision='ard' with covariance='low-rank'"):
        model.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(model, "classes_")
