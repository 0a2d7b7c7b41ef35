"""Dask collections: more data than memory, or than a machine."""
