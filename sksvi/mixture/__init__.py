"""Mixtures of tables: latent classes of zeros and ones, and of categories."""

from sksvi.mixture._bernoulli import BernoulliMixture
from sksvi.mixture._categorical import CategoricalMixture

__all__ = ["BernoulliMixture", "CategoricalMixture"]
