"""Topic models of counts."""

from sksvi.topics._correlated import CorrelatedTopicModel

__all__ = ["CorrelatedTopicModel"]
