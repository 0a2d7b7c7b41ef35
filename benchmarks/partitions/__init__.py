"""Fits to Dask collections: the same answer, faults, memory, cost, network, ratings, a real table."""
