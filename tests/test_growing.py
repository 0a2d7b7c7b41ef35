"""Arrays that rows are appended to."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sksvi._runtime.memory import extended


@pytest.mark.parametrize("shape", [(), (2,), (0,)])
def test_rows_follow_each_other(shape):
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((n, *shape)) for n in (3, 1, 0, 7, 1, 1, 200, 1)]
    whole = parts[0]
    for part in parts[1:]:
        whole = extended(whole, part)
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert type(whole) is np.ndarray
    assert whole.flags.writeable


def test_memory_is_taken_now_and_then():
    whole, places = np.zeros(100), set()
    for i in range(400):
        whole = extended(whole, np.array([float(i)]))
        places.add(whole.ctypes.data)
    assert len(places) < 15
    np.testing.assert_array_equal(whole[100:], np.arange(400.0))


def test_two_that_go_on_from_one_array_do_not_see_each_other():
    first = extended(np.arange(10.0), np.array([10.0]))
    one, other = extended(first, np.array([1.0])), extended(first, np.array([2.0]))
    copied = [extended(like, np.array([3.0])) for like in (copy.deepcopy(first), pickle.loads(pickle.dumps(first)))]
    assert [one[-1], other[-1], first[-1], *(each[-1] for each in copied)] == [1.0, 2.0, 10.0, 3.0, 3.0]
    np.testing.assert_array_equal(one[:-1], first)


def test_threads_that_go_on_from_one_array_do_not_see_each_other():
    first = extended(np.zeros(1000), np.zeros(1))

    def grown(value):
        whole = first
        for _ in range(50):
            whole = extended(whole, np.array([value]))
        return whole[1001:]

    with ThreadPoolExecutor(8) as pool:
        for value, found in enumerate(pool.map(grown, np.arange(8.0))):
            np.testing.assert_array_equal(found, np.full(50, float(value)))


def test_a_part_of_an_array_is_not_its_end():
    whole = extended(np.arange(10.0), np.arange(10.0, 12.0))
    for part in (whole[2:], whole[:5], whole[::2], whole[:12].astype(np.float32)):
        np.testing.assert_array_equal(extended(part, np.array([7.0])), [*part, 7.0])
    np.testing.assert_array_equal(whole, np.arange(12.0))
