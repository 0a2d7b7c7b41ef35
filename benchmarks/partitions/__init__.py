"""Fits to Dask collections: the same answer, faults, memory, cost, network, a real table."""
