"""Mixed effects."""
