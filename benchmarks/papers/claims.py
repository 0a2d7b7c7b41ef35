"""What of the papers holds: every claim, the command that judges it, and its figures in the stored tables.

Nothing is fitted here. Verdicts are computed from the tables that the other commands stored, and from the tests.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, report
from benchmarks.papers import _bpfa, _cvi, _fixed_point, _mcssvi, _ssvi
from benchmarks.papers._claim import HOLDS, IN_PART, NOT, NOT_RUN, Claim, Claims

#: Papers by the name of their table.
PAPERS: dict[str, tuple[str, Claims]] = {
    "mcssvi": ("Sheth and Khardon, Monte Carlo structured SVI for two-level non-conjugate models", _mcssvi.CLAIMS),
    "cvi": ("Khan and Lin, conjugate-computation variational inference", _cvi.CLAIMS),
    "bpfa": ("Shah, Knowles and Ghahramani, stochastic variational algorithms for the beta process", _bpfa.CLAIMS),
    "ssvi": ("Hoffman and Blei, structured stochastic variational inference", _ssvi.CLAIMS),
    "fixed_point": ("Sheth and Khardon, a fixed-point operator (supplement)", _fixed_point.CLAIMS),
}


def line(claim: Claim) -> dict[str, Any]:
    """A claim as a row of its table."""
    outcome = claim.judge()
    return {
        "where": claim.where,
        "claim": claim.text,
        "verdict": outcome.verdict,
        "figures": outcome.figures,
        "command": f"`{claim.command}`" if claim.command else "",
    }


def main(quick: bool = False) -> None:
    counts = []
    for name, (title, claims) in PAPERS.items():
        rows = [line(claim) for claim in claims]
        report(f"papers/claims_{name}", title, rows, quick=quick)
        verdicts = [row["verdict"] for row in rows]
        counts.append({"paper": title} | {v: verdicts.count(v) for v in (HOLDS, IN_PART, NOT, NOT_RUN)})
    report("papers/claims", "Claims by verdict", counts, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
