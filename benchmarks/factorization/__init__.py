"""Matrix factorization."""
