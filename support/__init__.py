"""What tests and benchmarks share and no user needs: damaged files, interrupted fits, random calls, memory cases."""
