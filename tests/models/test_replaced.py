"""Nobody writes to a model: `Model.replaced` makes a changed one, and no cached value of the first is stale there."""

import copy

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from sksvi.likelihoods import Gaussian, Poisson
from sksvi.models.beta_process.model import BetaProcess
from sksvi.models.gamma_factor.model import GammaFactors
from sksvi.models.gp.sparse import SparseGPModel
from sksvi.models.mixed.glm import MixedModel
from sksvi.models.nmf.model import GammaProcess
from sksvi.models.topics.lda import LatentDirichlet


def test_the_model_stays_as_it_was_and_arrays_are_shared():
    start = np.ones((2, 3))
    model = GammaProcess(2, 3, start=start)
    before = copy.copy(vars(model))
    other = model.replaced(mean=2.0)
    assert vars(model) == before and other.mean == 2.0 and other.start is start


def test_what_is_computed_once_is_computed_again():
    model = GammaFactors(2, 3, seed=1)
    first = model._order
    other = model.replaced(seed=2)
    assert model._order is first and not np.array_equal(other._order, first)
    np.testing.assert_array_equal(other._order, GammaFactors(2, 3, seed=2)._order)
    counts = GammaProcess(3, 4)
    assert counts._prior and counts.of_components(2)._prior["components"].shape.shape == (2, 4)


def test_rules_of_a_copy_are_about_the_copy():
    options = {"prior_precision": "auto", "intercept_precision": 1.0, "n_features": 1, "fit_intercept": True}
    model = MixedModel(Poisson(), bound="simple", noise_prior_scale=None, full=True, **options)
    assert set(model.hyper) == {"prior_precision"}
    assert set(model.replaced(likelihood=Gaussian().start(np.arange(5.0))).hyper) == {"prior_precision", "likelihood"}


def test_geometry_is_not_shared():
    scale = np.ones(1)
    model = SparseGPModel(Gaussian(variance=1.0), RBF(), n_inducing=2, inducing=np.array([[0.0], [1.0]]), scale=scale)
    other = model.replaced(by="gradient")
    assert other._lock is not model._lock and other._place is None


@pytest.mark.parametrize("step", ["gibbs", "mean-field"])
def test_another_local_step_has_its_own_noise(step):
    other = "mean-field" if step == "gibbs" else "gibbs"
    topics = LatentDirichlet(2, 3, alpha=np.ones(2), eta=np.ones((2, 3)), local_step=other)
    for model in (topics.with_local(step), BetaProcess(2, 3, local_step=other).with_local(step, 1, 1)):
        assert model.traits.bound.noisy == (step == "gibbs")


def test_a_name_that_is_none_is_refused():
    with pytest.raises(TypeError, match="GammaProcess has no attribute 'maen'"):
        GammaProcess(2, 3).replaced(maen=2.0)
