"""Fits and predictions with Dask collections: more data than memory, or more than one machine.

A fit is passes over rows followed by small steps. Here the rows lie in partitions, on the workers of a cluster or in
files: q is sent out once a pass, one task per partition runs what a pass in memory runs, and sums come back.
"""
