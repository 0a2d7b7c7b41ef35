"""A file whose arrays do not fit each other is refused, with the member's name, whatever its checksums say."""

from __future__ import annotations

import warnings
import zlib
from inspect import signature

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import sksvi
from sksvi._runtime.layout import Malformed, rules
from sksvi.families import Point
from sksvi.inference.state import PlateMemory
from sksvi.persistence import REGISTRY
from sksvi.persistence.states import KERNELS
from sksvi.persistence.writer import resolve_class
from support import file_mutations, saved_models

#: One fit of each estimator; the others are asked by the exhaustive test.
FIRST = ("glm-ard", "classes-three", "mixed-slopes", "mixed-classes", "sparse-gp", "sparse-gp-classes", "gp-classes")
FIRST += ("factors-stream", "topics", "lda", "components", "classes-of-bits-gibbs", "latent-classes")
FIRST += ("sparse-factors-gibbs", "poisson-components-tight", "series", "loadings", "pairs", "network")
#: Changes that no array survives: what is left has another size or another kind of numbers.
RESIZED = ("rows doubled", "another axis", "text", "NaN")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sksvi"


def shapes(answers):
    return [(answer.shape, answer.dtype.kind) for answer in answers]


def attacked(name, path, chosen, seed=None):
    """Load and use the file with arrays changed in every way, or in a third of them by a seed; how many are refused."""
    model = saved_models.fit_model(name)
    model.save(path)
    parts, expected, refused = file_mutations.read_members(path), shapes(saved_models.model_answers(name, model)), 0
    # Series of a panel have the same arrays: every third array is of another series and meets each kind.
    for member in list(parts)[:: 3 if name == "series-panel" else 1]:
        if member == file_mutations.MANIFEST:
            continue
        array = file_mutations.read_array(parts[member])
        for what, bad in file_mutations.array_mutations(array):
            if (chosen and what not in chosen) or (bad.dtype == array.dtype and np.array_equal(bad, array)):
                continue
            if seed is not None and (zlib.crc32(f"{member} {what}".encode()) + seed) % 3:
                continue
            path.write_bytes(file_mutations.archive_bytes({**parts, member: file_mutations.npy_bytes(bad)}))
            try:
                loaded = sksvi.load(path)
            except ValueError as error:
                refused += isinstance(error.__cause__, Malformed)
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    answers = shapes(saved_models.model_answers(name, loaded))
                except ValueError as error:  # of other categories than the data have
                    assert "which the first rows fitted did not" in str(error), (member, what)
                    continue
            for (shape, kind), (wanted, its) in zip(answers, expected, strict=True):
                assert shape == wanted and (kind == its or {kind, its} <= set("USOif")), (member, array.shape, what)
    return refused


@pytest.mark.costly
@pytest.mark.parametrize("name", FIRST)
def test_resized_and_retyped_arrays_are_refused_or_do_no_harm(name, path):
    assert attacked(name, path, RESIZED) > 12


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", saved_models.NAMES)
def test_every_change_of_every_array_is_refused_or_does_no_harm(name, path, global_random_seed):
    """Three seeds in a row meet all of them."""
    assert attacked(name, path, None, global_random_seed) > 10


@pytest.mark.costly
def test_the_fits_are_of_every_estimator():
    assert {type(saved_models.fit_model(name)).__name__ for name in FIRST} == {
        name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")
    } | {"Network"}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("topics", lambda m: m.state_.q["topics"].__setattr__("concentration", np.ones((150, 10))), "150, 10"),
        ("factors", lambda m: vars(m.state_.q["users"]).update(mean=np.zeros((200, 3))), r"q\['users'\]\.values"),
        ("factors", lambda m: m.seen_[1].__setitem__(0, 10**6), r"seen_\[1\] has the value 1000000"),
        ("mixed-slopes", lambda m: m._encoding.factors[0].at.__setitem__(0, 7), r"factors\[0\] does not have"),
        ("gp-classes", lambda m: m._rows_of_fit[1].__setitem__(0, -1), "has the value -1, below 0"),
        ("glm", lambda m: m.state_.q["weights"].precision.__setitem__((0, 0), -1.0), "on its diagonal, not above 0"),
        ("glm", lambda m: m.state_.bounds.append(float("nan")), r"lower_bounds_|bounds\[\d+\] is not finite"),
        (
            "sparse-factors",
            lambda m: m._factors.order.__setitem__(0, m._factors.order[1]),
            "order has a value twice",
        ),
        ("classes", lambda m: vars(m).update(classes_=np.array(["a", "b", "c"])), "classes_ does not have"),
        ("glm", lambda m: vars(m).pop("coef_"), "coef_ is missing"),
        ("glm", lambda m: vars(m).update(state_=None), "state_ is a NoneType, not a State"),
        ("glm", lambda m: vars(m).pop("state_"), "state_ is missing"),
        ("glm-levels", lambda m: vars(m).update(levels_=m.levels_[:-1]), "levels_ does not have"),
        ("lda", lambda m: m.state_.q.update(eta=Point(np.zeros(2))), r"q\['eta'\]\.value has shape \(2,\), not \(1,\)"),
        ("glm-stream", lambda m: vars(m.state_.messages.sample).pop("data"), "sample.data is missing"),
        (
            "factors-steps",
            lambda m: m.state_.memory.update(users=PlateMemory.empty(8)),
            r"memory\['users'\] has 8 plates, the block 7",
        ),
        ("series-panel", lambda m: vars(m._panel._members[1]).pop("state_"), r"_members\[1\]\.state_ is missing"),
        ("series-panel", lambda m: vars(m._panel._members[1]).pop("lower_bounds_"), "lower_bounds_ is missing"),
    ],
)
def test_the_error_names_the_member(name, change, message, path):
    model = saved_models.fit_model(name)
    change(model)
    model.save(path)
    with pytest.raises(ValueError, match=message):
        sksvi.load(path)


@pytest.mark.parametrize("name", ["glm-levels", "series-panel", "lda", "factors-stream"])
def test_what_is_right_is_loaded(name, path):
    model = saved_models.fit_model(name)
    model.save(path)
    for ours, its in zip(
        saved_models.model_answers(name, sksvi.load(path)), saved_models.model_answers(name, model), strict=True
    ):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize(
    "model",
    [sksvi.SparseGPRegressor(n_inducing=3, max_iter=2, random_state=0), sksvi.GPClassifier(max_iter=2)],
    ids=["sparse", "full"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_process_of_one_column_is_loaded(model, path):
    X = np.linspace(0.0, 1.0, 20)[:, None]
    model.fit(X, np.arange(20) % 2)
    model.save(path)
    np.testing.assert_array_equal(sksvi.load(path).predict(X), model.predict(X))


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_whatever_is_saved_has_a_layout(key):
    """But parameters, which are the user's own, and kernels of scikit-learn, whose layouts are in a table."""
    cls = resolve_class(REGISTRY[key])
    if key.startswith("kernel.") or (issubclass(cls, BaseEstimator) and not hasattr(cls, "fit")):
        return
    assert rules(cls.LAYOUT) or cls.LAYOUT == ""


def test_every_kernel_with_numbers_has_a_layout():
    for key in (key for key in REGISTRY if key.startswith("kernel.")):
        names = signature(resolve_class(REGISTRY[key])).parameters
        learned = {name.removesuffix("_bounds") for name in names if name.endswith("_bounds")}
        assert learned == set(KERNELS.get(key, ())), key


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_unfinished_fit_is_asked_before_it_goes_on(path):
    data = saved_models.data()
    model = sksvi.BayesianGLMRegressor(algorithm="cvi", batch_size=10, max_iter=3, tol=0.0, random_state=0)
    model.set_callbacks(sksvi.callbacks.Checkpoint(path)).fit(data["X"], data["real"])
    checkpoint = sksvi.load(path)
    assert not checkpoint.state_.finished and len(checkpoint.state_.messages.start) == saved_models.ROWS
    checkpoint.state_.messages.linear = checkpoint.state_.messages.linear[:-1]
    checkpoint.save(path)
    with pytest.raises(ValueError, match=r"state_\.messages\.linear has shape \(39,\), not \(40,\)"):
        sksvi.load(path)
