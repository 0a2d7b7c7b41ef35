"""The gamma factor model: Gaussian rows whose covariance has non-negative loadings."""
