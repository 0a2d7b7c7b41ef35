"""What a fitted model says of its columns, on the scale of y."""

from sksvi.inspection._effects import marginal_effects

__all__ = ["marginal_effects"]
