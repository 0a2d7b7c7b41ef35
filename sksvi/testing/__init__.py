"""Checks for one's own likelihoods, families and models: the same that the package's tests run on its own."""

from sksvi.testing.families import check_family
from sksvi.testing.likelihoods import check_likelihood
from sksvi.testing.models import check_model

__all__ = ["check_family", "check_likelihood", "check_model"]
