"""What the machine asks of a fit: threads and BLAS, doors of compiled loops, memory, interrupts.

Nothing here knows a model, an estimator or a family.
"""
