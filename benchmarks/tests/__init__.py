"""Tests of the benchmarks: small runs agree with stored results, and stored runs with the estimators."""
