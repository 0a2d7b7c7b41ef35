"""Names for what public signatures take and return, as a user's editor shows them.

The aliases are quoted, so that ``import sksvi`` needs neither pandas nor Dask nor matplotlib for them: annotations are
never evaluated. `tests/contracts/test_typing.py` checks that every public signature uses them.
"""
