"""Non-negative matrix factorization of counts."""
