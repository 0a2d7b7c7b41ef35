"""Hostile calls, files, moments and neighbours: what the package withstands."""
