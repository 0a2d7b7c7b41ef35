"""Gaussian processes."""
