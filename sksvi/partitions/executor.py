"""Tasks over partitions: a function is sent once, runs on each partition, and results are combined in a tree.

The tree's shape depends on the number of partitions alone, and BLAS is held to one thread within a task, so that bits
depend neither on the number of workers nor on who does what.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sksvi._runtime import memory, parallel
from sksvi.models.data import Lost

if TYPE_CHECKING:
    from distributed import Client

#: Answers that a task of the tree joins: a power of two, so that the whole is a tree of pairs.
FAN_IN = 8
#: How often a round is begun again after workers were lost with what only they had.
ATTEMPTS = 5


class Broadcast:
    """Object that is sent to a worker once, as a node of the graph: no collection, and mere bytes for the scheduler.

    Workers hand it to each other, and where one dies with it the scheduler has it still.
    """

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._packed: bytes | None = None

    @property
    def thing(self) -> Any:
        """The object that was sent."""
        packed = self._packed
        if packed is not None:
            self._thing, self._packed = pickle.loads(packed), None
        return self._thing

    def packed(self) -> bytes:
        """The object as bytes."""
        if self._packed is not None:
            return self._packed
        import cloudpickle

        return cloudpickle.dumps(self._thing)

    def __getstate__(self) -> bytes:
        return self.packed()

    def __setstate__(self, packed: bytes) -> None:
        self._thing, self._packed = None, packed


def run_broadcast(sent: Broadcast, *args: Any) -> Any:
    """Call the function that was sent, with BLAS limited to one thread."""
    with parallel.working():
        return sent.thing(*args)


def combined(combine: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Combine a few results pairwise; none of them is written to, since a task may run twice."""
    while len(parts) > 1:
        pairs = (combine(copy.deepcopy(a), b) for a, b in zip(parts[::2], parts[1::2]))
        parts = [*pairs, *parts[len(parts) - len(parts) % 2 :]]
    return parts[0]


def _item(values: Any, *at: int) -> Any:
    for k in at:
        values = values[k]
    return values


class Executor:
    """Runs tasks by the Dask scheduler at the beginning of a fit: that of the active client, else the local one."""

    def __init__(self) -> None:
        from dask.base import get_scheduler

        self._client: Client | None = getattr(get_scheduler(), "__self__", None)
        self._bytes_sent = 0

    def round(self, function: Callable[..., Any], parts: list[tuple[Any, ...]], combine: Any = None) -> Any:
        """Results of `function` for every part, summed or combined in a tree."""
        return self._answer(lambda: self._tree(self._tasks(function, parts), combine or parallel.add))

    def step(self, function: Callable[..., Any], parts: list[tuple[Any, ...]]) -> tuple[Any, tuple[list[Any], ...]]:
        """Sums of the first of two results of `function`; the second, a tuple, is stored on the workers, item by item.

        What is lost is made again, step by step; where workers go on being lost the fit begins anew (`Lost`).
        """
        import dask
        from dask import delayed

        item = delayed(_item, pure=False)
        tasks = self._tasks(function, parts)
        total = self._tree([item(task, 0) for task in tasks], parallel.add)
        stored = [[item(task, 1, k) for task in tasks] for k in range(2)]
        if self._client is None:
            total, *flat = dask.persist(total, *(task for row in stored for task in row))
            sums = total.compute()
        else:
            total, *flat = self.persisted([total, *(task for row in stored for task in row)])
            try:
                sums = self._result(total)
            except self._lost as error:
                self._check_open()
                raise Lost(str(error)) from error
        return sums, tuple(list(flat[k * len(tasks) : (k + 1) * len(tasks)]) for k in range(2))

    def fetched(self, part: tuple[Any, ...]) -> tuple[Any, ...]:
        """One partition, brought to this process."""
        from dask import delayed

        return self._answer(lambda: delayed(tuple, pure=False)(list(part)))

    def mapped(self, function: Callable[..., Any], parts: list[tuple[Any, ...]]) -> list[Any]:
        """Handles of the results of `function` for every part, stored on the workers and computed again if lost."""
        return self.persisted(self._tasks(function, parts))

    def together(self, function: Callable[[Any], Any], parts: list[Any], combine: Any) -> Any:
        """Handle of the result of `function` for all parts combined, stored on a worker."""
        (found,) = self.mapped(function, [(self._tree(parts, combine),)])
        return found

    @property
    def memory(self) -> float:
        """Bytes that all workers may hold, or that this process may still get."""
        if self._client is None:
            return memory.available()
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return float(sum(worker["memory_limit"] or 0 for worker in workers))

    def persisted(self, tasks: list[Any]) -> list[Any]:
        """Compute tasks and store their results on the workers; the handles of these."""
        import dask

        if self._client is None:
            return list(dask.persist(*tasks))
        self._check_open()
        with self._quiet():
            return list(self._client.persist(tasks))

    def _tasks(self, function: Callable[..., Any], parts: list[tuple[Any, ...]]) -> list[Any]:
        """One task per part; the function is a node of the graph: sent once, and again where a worker is lost.

        Not scattered: a broadcast waits for ever where a worker dies under it, and what was scattered has no past.
        """
        from dask import delayed

        task, sent = delayed(run_broadcast, pure=False), self.sent(function)
        return [task(sent, *part) for part in parts]

    def sent(self, thing: Any) -> Any:
        """Node of the graph for an object that tasks share; its bytes are not to be warned of as a large graph."""
        from dask import delayed

        there = Broadcast(thing)
        if self._client is not None:
            there.__setstate__(there.packed())
            self._bytes_sent = len(there.packed())
        return delayed(there, pure=False, traverse=False)

    @staticmethod
    def _tree(tasks: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
        """Task that combines the results of others, in the order of `parallel.tree_sum`."""
        from dask import delayed

        task = delayed(combined, pure=False)
        while len(tasks) > 1:
            tasks = [task(combine, tasks[i : i + FAN_IN]) for i in range(0, len(tasks), FAN_IN)]
        return tasks[0]

    def _answer(self, build: Callable[[], Any]) -> Any:
        """Result of the graph that `build` makes, which is built again where workers are lost with what they had."""
        import dask

        if self._client is None:
            return dask.compute(build())[0]
        for attempt in range(ATTEMPTS):
            self._check_open()
            try:
                return self._result(build())
            except self._lost as error:
                self._check_open()
                if attempt == ATTEMPTS - 1:
                    raise RuntimeError(
                        f"workers of the Dask cluster were lost {ATTEMPTS} times in one pass, the last time with "
                        f"{type(error).__name__}: {error}. Look whether partitions fit the workers' memory."
                    ) from error
        raise AssertionError

    def _result(self, task: Any) -> Any:
        client = self._client
        assert client is not None  # only a cluster is waited for
        with self._quiet():
            future = client.compute(task)
        try:
            return future.result()
        except BaseException:
            if client.status == "running":
                client.cancel(future, force=True)
            raise

    def _quiet(self) -> Any:
        """Context that raises the size of Dask's warning of large graphs by what is sent here."""
        import dask
        from dask.utils import parse_bytes

        name = "distributed.admin.large-graph-warning-threshold"
        return dask.config.set({name: parse_bytes(dask.config.get(name)) + self._bytes_sent})

    @property
    def _lost(self) -> tuple[type[BaseException], ...]:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        return (KilledWorker, CancelledError, CommClosedError, TimeoutError)

    def _check_open(self) -> None:
        """Raise where the client that the fit began with is closed: the rest must not run elsewhere."""
        client = self._client
        assert client is not None  # only a cluster can close
        if client.status != "running":
            raise RuntimeError(
                f"the Dask client of this fit is {client.status}: the fit has ended, and the estimator is as it "
                "was before. Open a client and fit again."
            )
