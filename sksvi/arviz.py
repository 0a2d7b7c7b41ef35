"""Draws of a fit in the containers of ArviZ."""

from sksvi.estimators.arviz_groups import to_arviz

__all__ = ["to_arviz"]
