"""Topic models of counts."""

from sksvi.topics._correlated import CorrelatedTopicModel
from sksvi.topics._structured import StructuredLDA

__all__ = ["CorrelatedTopicModel", "StructuredLDA"]
