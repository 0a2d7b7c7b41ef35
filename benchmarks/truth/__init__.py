"""Simulated truths and real sets, every estimator with nothing set."""
