"""How expectations over latents are taken."""

from sksvi.expectations.latents import NAMES, Auto, Expectation, GaussHermite, MonteCarlo, Quadrature, resolve

__all__ = ["NAMES", "Auto", "Expectation", "GaussHermite", "MonteCarlo", "Quadrature", "resolve"]
