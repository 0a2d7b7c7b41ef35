"""Models saved by each version, a folder for each: every later one loads them and predicts the same.

``python -m tests.persistence.golden`` writes those of the present version; those of another are never written again.
"""
