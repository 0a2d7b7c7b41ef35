"""What tests of collections share."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture
def sigint_enabled():
    """Ctrl-C raises KeyboardInterrupt, also where the suite runs in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def local_scheduler():
    """Partitions one after another in this process, whatever client another test left open."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
