"""Two latents of a row, f of the mean with the effects of levels, g of a scale or of zeros with fixed effects alone."""

from sksvi.models.linear.two_predictors import TwoPredictors
from sksvi.models.mixed.glm import MixedModel


class MixedTwoPredictors(TwoPredictors, MixedModel):
    """Mixed model of two latents: coordinates are those of f, of g, of the levels, and the intercept of f.

    Parameters are those of both; there is no noise per datum.
    """
