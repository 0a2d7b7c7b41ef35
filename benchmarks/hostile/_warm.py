"""Mutants of functions met within one process: tests are collected once, and each mutant is a fork of it.

    python -m benchmarks.hostile._warm     # by `hostile.mutants`, which hands over tests and mutants as JSON

The fork gets the changed functions' code and runs the tests that call one of them, as a run of every test has shown.
What runs while a module is imported (constants, defaults, bodies of classes) and what numba compiles cannot be changed
so: `changed` finds nothing there, and those are met by a process of their own.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from benchmarks.hostile._mutants import ROOT, Mutant

#: Seconds of computing and bytes of addresses that a fork may take beyond what its tests took without a mutant.
LONGER, MORE, BYTES = 5, 30, 8 * 2**30
OURS = ("sksvi", "tests", "benchmarks")


def within(code: CodeType) -> Iterator[CodeType]:
    """A code object and all within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from within(const)


def own(code: CodeType) -> tuple[Any, ...]:
    """What a code object is apart from those within it."""
    consts = tuple(None if isinstance(const, CodeType) else (type(const), const) for const in code.co_consts)
    return code.co_code, repr(consts), code.co_names, code.co_varnames, code.co_freevars


def changed(mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Codes of functions whose own part differs, before and after; none where others differ, too."""
    text = (ROOT / mutant.path).read_text()
    if "import numba" in text or "from numba" in text:
        return []
    before, after = (list(within(compile(t, str(ROOT / mutant.path), "exec"))) for t in (text, mutant.text))
    if len(before) != len(after):
        return []
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if own(old) != own(new)]
    # Functions have local names of their own; modules and classes do not.
    return pairs if all(old.co_flags & 0x2 for old, _ in pairs) else []


def place(code: CodeType) -> tuple[str, str, int]:
    """Where a code stands."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def patch(mutant: Mutant) -> None:
    """Give every function of the file its code with the mutant, and forget what was computed before."""
    path = str(ROOT / mutant.path)
    texts = ((ROOT / mutant.path).read_text(), mutant.text)
    before, after = (list(within(compile(text, path, "exec", dont_inherit=True))) for text in texts)
    new = dict(zip(before, after, strict=True))
    for found in gc.get_objects():
        if type(found) is FunctionType and found.__code__.co_filename == path and found.__code__ in new:
            found.__code__ = new[found.__code__]
        elif type(found) is functools._lru_cache_wrapper and str(found.__module__).startswith(OURS):
            found.cache_clear()


def forget() -> None:
    """Empty the package's caches, so that each test calls what it rests on."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sksvi"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


class Warm:
    """A plugin of pytest: what to do with the tests once they are collected."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, results: int) -> None:
        self.mutants, self.jobs, self.results = mutants, jobs, results
        self.failed: list[str] = []
        self.seconds: list[float] = []
        self.called: dict[tuple[str, str, int], set[int]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, items: Sequence[Any]) -> str:
        """Run tests until one fails: which."""
        for item, following in zip(items, [*items[1:], None][: len(items)], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return self.failed[0]
        return ""

    def pytest_runtestloop(self, session: Any) -> bool:
        """Every test once, noting what it calls; then each mutant in a fork."""
        self.look()
        # A fork in which every file is patched with what it already is must pass, too.
        null = [Mutant(path, "", 0, (ROOT / path).read_text()) for path in {m.path for m in self.mutants}]
        some = sorted(range(len(self.items)), key=lambda k: self.seconds[k])[:200:4]
        for _, verdict in self.forks([(0, null, some)]):
            if verdict:
                raise RuntimeError(f"{verdict} fails in a fork without any mutant")
        tasks = []
        for number, mutant in enumerate(self.mutants):
            tests = {k for old, _ in changed(mutant) for k in self.called.get(place(old), ())}
            tasks.append((number, [mutant], sorted(tests, key=lambda k: self.seconds[k])))
        for number, verdict in self.forks(tasks):
            os.write(self.results, (json.dumps([number, verdict]) + "\n").encode())
        return True

    def look(self) -> None:
        """Run every test, noting what it calls and how long it computes."""
        folder = str(ROOT / "sksvi")

        def trace(frame: Any, event: str, arg: Any) -> None:
            if frame.f_code.co_filename.startswith(folder):
                self.called.setdefault(place(frame.f_code), set()).add(len(self.seconds))

        threading.settrace(trace)
        for item, following in zip(self.items, [*self.items[1:], None], strict=True):
            forget()
            start = time.process_time()
            sys.settrace(trace)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            self.seconds.append(time.process_time() - start)
        threading.settrace(None)  # type: ignore[arg-type]
        if self.failed:
            raise RuntimeError(f"{self.failed[0]} fails without any mutant")

    def forks(self, tasks: Sequence[Any]) -> Iterator[tuple[Any, str]]:
        """Outcomes of tasks, each (number, mutants, tests), several at a time, as they end."""
        waiting, running = list(reversed(tasks)), {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                number, mutants, tests = waiting.pop()
                read, write = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(read)
                    self.child(mutants, tests, write)
                os.close(write)
                running[pid] = number, read
            pid, status = os.wait()
            if pid not in running:  # a process that a test has left
                continue
            number, read = running.pop(pid)
            with os.fdopen(read) as file:
                verdict = file.read()
            if os.WIFSIGNALED(status):
                killed = os.WTERMSIG(status)
                verdict = "time" if killed in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL) else "crash"
            elif os.WEXITSTATUS(status):
                raise RuntimeError(f"a fork failed: {verdict}")
            yield number, verdict

    def child(self, mutants: Sequence[Mutant], tests: Sequence[int], write: int) -> None:
        """A fork: patch, run, write the outcome, end."""
        code = 1
        try:
            signal.alarm(900)
            limit = int(LONGER * sum(self.seconds[k] for k in tests)) + MORE
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            for mutant in mutants:
                patch(mutant)
            os.write(write, self.run([self.items[k] for k in tests]).encode())
            code = 0
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)

    def pytest_collection_finish(self, session: Any) -> None:
        self.items = session.items


def main() -> int:
    import pytest

    task = json.load(sys.stdin)
    mutants = [Mutant(*fields) for fields in task["mutants"]]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not exhaustive"]
    return pytest.main([*options, *task["tests"]], plugins=[Warm(mutants, task["jobs"], task["results"])])


if __name__ == "__main__":
    raise SystemExit(main())
