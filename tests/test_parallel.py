"""Row blocks, streams of indices and numbers, threads, and the fixed tree."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from sksvi._runtime import parallel


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 100])
def test_blocks_cover_every_row_once(n):
    rows = np.concatenate([np.arange(n)[part] for part in parallel.slices(n, 8)])
    np.testing.assert_array_equal(rows, np.arange(n))
    assert len(parallel.slices(n, 8)) == max(1, -(-n // 8))


@pytest.mark.parametrize("width", [1, 5, 100, 1000, 100_000])
def test_block_rows(width):
    assert 64 <= parallel.chunk_rows(width, False) <= 8192
    assert parallel.chunk_rows(width, True) >= min(width, 4096)
    assert parallel.chunk_rows(width, True) >= parallel.chunk_rows(width, False)


@pytest.mark.parametrize("count", range(1, 20))
def test_tree_sum_adds_up(count, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    parts = [
        {"a": (rng.standard_normal(3), rng.standard_normal((2, 2))), "b": float(rng.standard_normal())}
        for _ in range(count)
    ]
    wanted = sum(part["a"][0] for part in parts), sum(part["a"][1] for part in parts), sum(part["b"] for part in parts)
    total = parallel.tree_sum(iter(parts))
    np.testing.assert_allclose(total["a"][0], wanted[0], atol=1e-12)
    np.testing.assert_allclose(total["a"][1], wanted[1], atol=1e-12)
    assert total["b"] == pytest.approx(wanted[2])


class Word(str):
    """Addition as a bracketed string: shows who was added to whom, in which order."""

    def __add__(self, other):
        return Word(f"({str.__str__(self)}{str.__str__(other)})")


@pytest.mark.parametrize(
    ("count", "tree"),
    [(1, "a"), (2, "(ab)"), (3, "((ab)c)"), (4, "((ab)(cd))"), (5, "(((ab)(cd))e)"), (7, "(((ab)(cd))((ef)g))")],
)
def test_the_order_of_the_tree_depends_on_the_count_alone(count, tree):
    assert parallel.tree_sum(Word(letter) for letter in "abcdefg"[:count]) == tree


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 7, 16, 33, 100])
def test_whoever_adds_up_the_tree_is_the_same(count, threads):
    tree = parallel.tree_sum(Word(f"{i} ") for i in range(count))
    assert parallel.summed(lambda i: Word(f"{i} "), list(range(count)), threads) == tree


def test_tree_sum_holds_few_partial_sums():
    alive, most = set(), 0

    class Partial:
        def __init__(self, key):
            nonlocal most
            self.key = key
            alive.add(key)
            most = max(most, len(alive))

        def __add__(self, other):
            alive.discard(other.key)
            return self

    parallel.tree_sum(Partial(i) for i in range(1024))
    assert most <= 12


def test_add_neither_changes_dtypes_nor_constants():
    a = np.ones(2, np.float32)
    assert parallel.add(a, np.ones(2)).dtype == np.float64
    np.testing.assert_array_equal(a, [1, 1])
    frozen = np.ones(2)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(parallel.add(frozen, np.ones(2)), [2, 2])
    assert parallel.add(None, 3.0) == parallel.add(3.0, None) == 3.0
    with pytest.raises(ValueError, match="zip"):
        parallel.add((1.0, 2.0), (1.0,))


def test_scaled():
    gradient = {"a": (np.ones(2), np.ones((2, 2))), "b": 2.0}
    out = parallel.scaled(gradient, 3.0)
    np.testing.assert_array_equal(out["a"][1], 3 * np.ones((2, 2)))
    assert out["b"] == 6.0
    np.testing.assert_array_equal(gradient["a"][0], np.ones(2))
    assert parallel.scaled(gradient, 1.0) is gradient
    assert parallel.scaled(None, 2.0) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_in_order_whoever_is_first(threads):
    def slow(i):
        time.sleep(0.002 * ((7 * i) % 5))
        return i * i

    assert list(parallel.in_order(slow, list(range(20)), threads)) == [i * i for i in range(20)]


def test_in_order_keeps_few_results_waiting():
    running, lock, most = [0], threading.Lock(), [0]

    def one(i):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        return i

    for _ in parallel.in_order(one, list(range(40)), 2):
        time.sleep(0.001)
        with lock:
            running[0] -= 1
    assert most[0] <= 2 * 2 + 1


def test_in_order_passes_errors_on():
    def one(i):
        if i == 3:
            raise ValueError("row block 3")
        return i

    for threads in (1, 2):
        with pytest.raises(ValueError, match="row block 3"):
            list(parallel.in_order(one, list(range(6)), threads))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_of_several_errors_in_a_sum_the_first_is_raised(threads):
    def one(i):
        if i >= 3:
            time.sleep(0.01 if i == 3 else 0.0)
            raise ValueError(f"row block {i}")
        return i

    with pytest.raises(ValueError, match="row block 3"):
        parallel.summed(one, list(range(7)), threads)


def test_threads_are_there_for_the_next_call_until_the_last_is_out():
    def names():
        return {thread.name for thread in threading.enumerate()}

    def one(i):
        time.sleep(0.002)
        return i

    before, found = names(), []
    with parallel.working():
        for _ in range(3):
            assert parallel.summed(one, list(range(8)), 2) == sum(parallel.in_order(one, list(range(8)), 2))
            found.append(names())
        assert len(found[0] - before) == 2 and found[0] == found[1] == found[2]
        # Whoever is called by a thread has others.
        nested = parallel.summed(lambda i: parallel.summed(one, list(range(i)), 2), [2, 3, 4, 5], 2)
        assert nested == 1 + 3 + 6 + 10
    assert names() == before


def test_a_token_that_dies_in_a_thread_that_ends_stops_nobody():
    holder = parallel._HOLDER

    def fit():
        with parallel.working():
            pool = holder.pool(1)
            pool.submit(lambda: (time.sleep(0.05), holder.leave(0)))
            holder.take_back(pool, 1)

    leaving = threading.Thread(target=fit, daemon=True)
    leaving.start()
    leaving.join(10)
    assert not leaving.is_alive()


def test_whoever_leaves_early_leaves_nothing_under_way():
    running = []

    def one(i):
        running.append(i)
        time.sleep(0.01)
        running.remove(i)
        return i

    with parallel.working():
        results = parallel.in_order(one, list(range(20)), 2)
        assert next(results) == 0
        results.close()
        assert not running


def test_shuffled_visits_every_row_once_and_anew_in_every_pass():
    first, second = (parallel.shuffled(103, 10, 5, p) for p in (0, 1))
    for parts in (first, second):
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(103))
        assert [len(part) for part in parts] == [10] * 10 + [3]
        assert all(np.all(np.diff(part) > 0) for part in parts)
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], parallel.shuffled(103, 10, 5, 0)[0])
    assert not np.array_equal(first[0], parallel.shuffled(103, 10, 6, 0)[0])


def test_streams_differ_by_seed_step_and_block_and_repeat():
    draws = {key: parallel.stream(*key).standard_normal() for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}
    assert len(set(draws.values())) == 4
    assert draws[0, 1, 0] == parallel.stream(0, 1, 0).standard_normal()


def test_n_threads():
    assert parallel.n_threads(3) == 3
    assert parallel.n_threads(None) >= 1
    assert parallel.n_threads(-1) >= 1


@pytest.mark.parametrize("said", [None, "1"], ids=["environment is silent", "environment says one"])
def test_blas_is_held_to_one_thread(monkeypatch, said):
    """Whatever the environment says by now: a cluster of this process sets it once BLAS has been loaded with more."""
    import threadpoolctl

    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, said) if said else monkeypatch.delenv(name, raising=False)
    with threadpoolctl.threadpool_limits(2, user_api="blas"), parallel.working():
        blas = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
        assert all(pool["num_threads"] == 1 for pool in blas)


def test_the_limit_of_blas_is_taken_back_by_the_last():
    """Of two that overlap, neither restores the limit of the other."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = parallel.working(), parallel.working()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def test_a_thread_holds_blas_to_one_thread_whoever_controls_it():
    """Also where the main thread has set a limit, and where another thread is the last one out."""
    from threadpoolctl import threadpool_info, threadpool_limits

    found, inside, out = [], threading.Event(), threading.Event()

    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    def first():
        with parallel.working():
            found.append(threads())
            inside.set()
            out.wait(60)

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        thread = threading.Thread(target=first)
        thread.start()
        assert inside.wait(60)
        with parallel.working():
            out.set()
            thread.join()
            assert found == [{1}] and threads() == {1}
        assert threads() == before


FAULTS = """
import resource
import numpy as np
from sksvi._runtime import parallel

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(100_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before = faults()
with parallel.working():
    faults()
    inside = faults()
print(before, inside, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_what_is_let_go_stays_for_the_next_chunk_where_the_environment_gives_it_back():
    """Dask sets its workers so: every temporary costs its pages anew there, but while we work; afterwards as before."""
    env = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True, check=True)
    before, inside, after = map(int, done.stdout.split())
    assert inside < 0.1 * before and after > 0.9 * before
