"""Hostile calls: 20,000 wrong arguments to every method of every estimator, and what came of them."""

from __future__ import annotations

import collections
import os
import signal
from typing import Any

from benchmarks._lib.tables import arguments, report
from support.call_outcomes import Outcome, evaluate_call
from support.estimator_cases import NAMES
from support.random_calls import Call, random_calls

CALLS, QUICK, SEED, SHOWN = 20_000, 500, 15, 10
KINDS = ("refused", "answered", "vague", "mishandled")
#: CPU seconds after which a call is ended: one for a list of 1e30 entries would take all memory first.
LONGEST = 60
#: Of all calls, that may be refused without naming the argument.
VAGUE = 0.01


def ended(signum: int, frame: Any) -> None:
    raise TimeoutError(f"no answer after {LONGEST} CPU seconds")


def within_time(call: Call) -> Outcome:
    """What came of a call that is ended where it goes on and on."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        return evaluate_call(call)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(quick: bool = False) -> int:
    signal.signal(signal.SIGPROF, ended)
    n = QUICK if quick else int(os.environ.get("HOSTILE_CALLS", CALLS))
    counts = {name: collections.Counter[str]() for name in NAMES}
    slowest = dict.fromkeys(NAMES, 0.0)
    found = collections.Counter[str]()
    for call in random_calls(n, SEED):
        outcome = within_time(call)
        counts[call.name][outcome.kind] += 1
        slowest[call.name] = max(slowest[call.name], outcome.seconds)
        if outcome.kind == "mishandled":
            print(f"  {call}: {outcome.why}", flush=True)
            found[f"{call.method}({call.argument}): {outcome.why[:120]}"] += 1
    rows = [
        {"estimator": name, "calls": sum(counts[name][kind] for kind in KINDS)}
        | {kind: counts[name][kind] for kind in KINDS}
        | {"slowest, CPU s": slowest[name]}
        for name in NAMES
    ]
    total = {kind: sum(row[kind] for row in rows) for kind in ("calls", *KINDS)}
    rows.append({"estimator": "all", **total, "slowest, CPU s": max(slowest.values())})
    notes = [
        f"{n} calls drawn with seed {SEED}: estimator in turn, variant, new or fitted, method, argument and what "
        "stands in its place at random. Refused: a ValueError or TypeError that names the argument and leaves every "
        "array of the estimator as it was; vague: one that does not name it; answered: finite numbers, and after a "
        "fit an estimator that predicts them; mishandled: anything else, a call of more than 5 CPU seconds among it.",
    ]
    notes += [f"Mishandled {times} times: {what}" for what, times in found.most_common(SHOWN)]
    report("hostile/calls", "Hostile calls", rows, notes, quick)
    return int(total["mishandled"] > 0) + int(total["vague"] > VAGUE * total["calls"])


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
