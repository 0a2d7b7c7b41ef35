"""Generalized linear models."""
