"""Benchmarks of mean-field networks."""
