"""Factor analysis with non-negative loadings."""
