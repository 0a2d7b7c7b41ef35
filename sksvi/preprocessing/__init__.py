"""Transformers whose columns have a prior: smooth terms and maps for any pipeline."""

from sksvi.preprocessing._hilbert import HilbertGPTransformer
from sksvi.preprocessing._neighbours import Neighbours
from sksvi.preprocessing._smooth import SmoothTransformer

__all__ = ["HilbertGPTransformer", "Neighbours", "SmoothTransformer"]
