"""Mixtures of tables."""
