"""What tests and benchmarks share and no user needs: damaged files, interrupted fits, networks of known bounds."""
