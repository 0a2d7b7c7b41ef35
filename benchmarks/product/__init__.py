"""What concerns the package as a whole, or most of its models."""
