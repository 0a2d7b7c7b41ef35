"""Mutation testing: small changes to the code of families, steps, likelihoods, quadrature and persistence, by chance.

    python -m pip install cosmic-ray
    SKSVI_MUTANTS=100 python -m benchmarks hostile.mutants      # of each group; 0: the table of what is stored
    SKSVI_GROUPS=steps,families python -m benchmarks hostile.mutants

Every mutant (an operator, a number, a comparison, a keyword, a branch changed in one place; drawn evenly over all of
its group's) is met by its group's own tests, then by others that use the group, until one fails: in a fork of one
process (`_warm`), but for what no fork can be given, which has a process of its own. A mutant whose syntax tree differs
in annotations, docstrings and decorators alone is no mutant and is drawn again.

What came of each is a line of ``results/hostile/mutants.jsonl``: a run that was stopped goes on where it was, another
meets what is new, what stands in files that have changed since, and what survived. Whoever looks at a survivor and
finds that no use of the package could tell it from the code writes the reason into its line's ``why``: it then counts
as equivalent.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.hostile._mutants import ROOT, Mutant, drawn, meaning
from benchmarks.hostile._warm import changed

#: Run by its own name only: a thousand runs of tests.
STORED = True
SEED = 0
STORE = RESULTS / "hostile" / "mutants.jsonl"


class Group(NamedTuple):
    """What is mutated, the tests that should notice, and those of what uses it."""

    folders: Sequence[str]
    own: Sequence[str]
    further: Sequence[str]


EXACT, LINEAR = "tests/contracts/test_exact.py", "tests/models/linear"
GAMMA_NODES = "tests/models/gamma_factor/test_density.py"
GROUPS = {
    "families": Group(
        ["sksvi/families"],
        ["tests/contracts/test_families.py", "tests/families", "tests/contracts/test_properties.py"],
        ["tests/algorithms", LINEAR, EXACT],
    ),
    "steps": Group(
        ["sksvi/algorithms", "sksvi/schedules.py"],
        ["tests/algorithms", "tests/contracts/test_algorithms_x_models.py"],
        [EXACT, LINEAR, "tests/inference"],
    ),
    "likelihoods": Group(
        ["sksvi/likelihoods"],
        ["tests/contracts/test_likelihoods.py", "tests/likelihoods", "tests/contracts/test_properties.py"],
        ["tests/expectations", "tests/predictive", LINEAR],
    ),
    "quadrature": Group(
        ["sksvi/integrals", "sksvi/expectations"],
        ["tests/expectations", GAMMA_NODES, "tests/predictive", "tests/contracts/test_likelihoods.py"],
        ["tests/likelihoods", "tests/contracts/test_properties.py", LINEAR],
    ),
    "persistence": Group(
        ["sksvi/persistence"],
        [f"tests/persistence/test_{name}.py" for name in ("golden", "parts", "archive", "states", "replacing")],
        ["benchmarks/tests/test_hostile_files.py"],
    ),
}
#: Mutants per group, and the same when quick; the groups that are met; how many mutants are met at a time.
MUTANTS, FEW = int(os.environ.get("SKSVI_MUTANTS", "100")), 2
CHOSEN = os.environ.get("SKSVI_GROUPS", ",".join(GROUPS)).split(",")
JOBS = int(os.environ.get("SKSVI_JOBS", str(os.cpu_count())))
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "-n", "0", "-p", "no:cacheprovider")
#: Times what the tests take without a mutant, and seconds more, after which they count as failed: a loop without end is
#: noticed by whoever runs it.
LONGER, MORE = 4, 60
#: Times of changed files: all other than before, so that Python and numba compile them again, and only them.
STAMPS = itertools.count(1)


def environment(tree: Path) -> dict[str, str]:
    """What a run of tests in a copy of the project is told."""
    said = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    said |= {"PYTHONPATH": str(tree), "MPLBACKEND": "Agg"}
    said.setdefault("SKSVI_DATA", str(ROOT.parent / "shared" / "data"))
    return said


def outcome(tree: Path, tests: Sequence[str], limit: float | None) -> str:
    """What noticed, running these tests in a copy of the project: a test, "crash", "time", or "" where all pass."""
    command = [*PYTEST, "-m", "not exhaustive", *tests]
    with tempfile.TemporaryFile("w+") as output:
        run = subprocess.Popen(
            command, cwd=tree, env=environment(tree), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            run.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            return "time"
        output.seek(0)
        text = output.read()
    if run.returncode == 0:
        return ""
    if run.returncode < 0:
        return "crash"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    if run.returncode not in (1, 2) or not found:
        raise RuntimeError(f"pytest did not run: {text[-3000:]}")
    return found[1]


def meet(tree: Path, mutant: Mutant, tests: str, limit: float) -> str:
    """What noticed a mutant, among some tests."""
    path = tree / mutant.path
    path.write_text(mutant.text)
    stamp = next(STAMPS)
    os.utime(path, (stamp, stamp))
    try:
        return outcome(tree, [tests], limit)
    finally:
        shutil.copy2(ROOT / mutant.path, path)


def unmutated(tree: Path, tests: str) -> float:
    """Seconds that tests take, all of which must pass."""
    start = time.perf_counter()
    if noticed := outcome(tree, [tests], None):
        raise RuntimeError(f"{noticed} fails without any mutant")
    return time.perf_counter() - start


# ---- what is stored
def key(record: Mapping[str, Any]) -> tuple[str, str, int]:
    return record["file"], record["operator"], record["place"]


def source(path: str) -> str:
    """What tells whether a file's code has changed; its docstrings may."""
    return hashlib.sha256(meaning((ROOT / path).read_text(), decorators=True).encode()).hexdigest()[:12]


def stored() -> dict[tuple[str, str, int], dict[str, Any]]:
    """Records of mutants, a later line in the place of an earlier one."""
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {key(record): record for record in map(json.loads, lines)}


def current(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those whose file is as it was."""
    return [
        record for record in records if (ROOT / record["file"]).exists() and record["source"] == source(record["file"])
    ]


def settled(record: Mapping[str, Any]) -> bool:
    return bool(record["killed"] or record["why"])


def wanted(group: Group, n: int, records: Mapping[tuple[str, str, int], dict[str, Any]]) -> list[Mutant]:
    """Of the first n mutants those without an outcome; before them, survivors that nobody has explained."""
    known = {key(record): record for record in current(records.values())}
    chosen = list(itertools.islice(drawn(group.folders, SEED), n))
    alive = [mutant for mutant in chosen if mutant[:3] in known and not settled(known[mutant[:3]])]
    return alive + [mutant for mutant in chosen if mutant[:3] not in known]


def record_of(name: str, mutant: Mutant, killed: str, before: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The line of a mutant: a reason stands for as long as the change is the same, wherever it now is."""
    same = [
        r for r in before if (r["file"], r["operator"], r["change"]) == (mutant.path, mutant.operator, mutant.change)
    ]
    return {
        "group": name,
        "file": mutant.path,
        "operator": mutant.operator,
        "place": mutant.place,
        "source": source(mutant.path),
        "change": mutant.change,
        "killed": killed,
        "survived_first": any(r["survived_first"] or not r["killed"] for r in same),
        "why": "" if killed else next((r["why"] for r in same if r["why"]), ""),
    }


# ---- the run
def warm(tests: str, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """What noticed each mutant, of those that a fork can meet, among some tests."""
    read, write = os.pipe()
    task = {"mutants": mutants, "tests": [tests], "jobs": JOBS, "results": write}
    with tempfile.TemporaryFile("w+") as output:
        run = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hostile._warm"],
            cwd=ROOT,
            env=environment(ROOT),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            text=True,
        )
        os.close(write)
        assert run.stdin
        with run.stdin as stdin:
            json.dump(task, stdin)
        with os.fdopen(read) as results:
            for line in results:
                number, killed = json.loads(line)
                yield mutants[number], killed
        if run.wait():
            output.seek(0)
            raise RuntimeError(f"pytest did not run: {output.read()[-3000:]}")


def cold(tests: str, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """What noticed each mutant among some tests, in a copy of the project and a process of its own."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        # With what is compiled: times of files are kept, so that it stays so.
        trees = [Path(folder) / f"tree{k}" for k in range(min(JOBS, len(mutants)))]
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "_build"))
            free.put(tree)
        limit = LONGER * unmutated(trees[0], tests) + MORE

        def one(mutant: Mutant) -> tuple[Mutant, str]:
            tree = free.get()
            try:
                return mutant, meet(tree, mutant, tests, limit)
            finally:
                free.put(tree)

        for ended in as_completed([pool.submit(one, mutant) for mutant in mutants]):
            yield ended.result()


def row(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A line of the table; shares are of the mutants that are not equivalent."""
    equivalent = sum(bool(record["why"]) for record in records)
    survived = sum(not record["killed"] and not record["why"] for record in records)
    since = sum(bool(record["killed"]) and record["survived_first"] for record in records)
    rest = max(len(records) - equivalent, 1)
    return {
        "group": name,
        "mutants": len(records),
        "equivalent": equivalent,
        "killed": len(records) - equivalent - survived - since,
        "killed by a test since": since,
        "survived": survived,
        "survived at first (%)": 100.0 * (survived + since) / rest,
        "survived (%)": 100.0 * survived / rest,
    }


def notes(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Survivors, then what is equivalent and why."""
    alive = [record for record in records if not record["killed"]]
    lines = [f"{r['file']}, {r['operator']}: `{r['change']}`" + f": {r['why']}" * bool(r["why"]) for r in alive]
    survived = [line for line, r in zip(lines, alive, strict=True) if not r["why"]]
    equivalent = [line for line, r in zip(lines, alive, strict=True) if r["why"]]
    return [f"Survived: {line}" for line in survived] + [f"Equivalent: {line}" for line in equivalent]


def main(quick: bool = False) -> None:
    before = {} if quick else stored()
    found = []
    wanted_of = {name: wanted(GROUPS[name], FEW if quick else MUTANTS, before) for name in CHOSEN}
    # Hours of tests, which leave the machine to whoever else uses it.
    os.setpriority(os.PRIO_PROCESS, 0, max(10, os.getpriority(os.PRIO_PROCESS, 0)))

    def keep(name: str, mutant: Mutant, killed: str) -> None:
        record = record_of(name, mutant, killed, before.values())
        progress({"group": name, "change": record["change"], "killed": killed or "NO"})
        found.append(record)
        if not quick:
            with STORE.open("a") as file:
                file.write(json.dumps(record) + "\n")

    for (met, meets), name in itertools.product(((True, warm), (False, cold)), CHOSEN):
        alive = [mutant for mutant in wanted_of[name] if bool(changed(mutant)) is met]
        for tests in [*GROUPS[name].own, *GROUPS[name].further]:
            for mutant, killed in meets(tests, list(alive)) if alive else ():
                if killed:
                    keep(name, mutant, killed)
                    alive.remove(mutant)
        for mutant in alive:
            keep(name, mutant, "")
    if not quick:
        every = sorted(stored().values(), key=lambda record: (list(GROUPS).index(record["group"]), key(record)))
        STORE.write_text("".join(json.dumps(record) + "\n" for record in every))
        found = current(every)
    rows = [row(name, [record for record in found if record["group"] == name]) for name in GROUPS]
    report("hostile/mutants", "Mutants and the tests that met them", rows, notes(found), quick)


if __name__ == "__main__":
    main(arguments(__doc__))
