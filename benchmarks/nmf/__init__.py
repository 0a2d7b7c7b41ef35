"""Benchmarks of non-negative matrix factorization."""
