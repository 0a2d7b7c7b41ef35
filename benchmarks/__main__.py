"""``make bench`` (``python -m benchmarks [--quick] [name ...]``): every table, or those named."""

from __future__ import annotations

import argparse
import importlib
import time
import traceback

#: Timing first, while the machine is quiet.
NAMES = ("startup", "speed", "table3", "memory", "algorithms", "small_sets", "coverage", "coverage_models", "figure1")
NAMES += ("gme_insteval", "gme_nuts", "gme_counts", "gme_figure2")
NAMES += ("gp_housing", "gp_stream", "gp_regression", "gp_figure3", "gp_classification")
NAMES += ("pmf_speed", "pmf_movielens", "pmf_variants", "pmf_lastfm", "pmf_figures", "pmf_figures_end")
NAMES += ("bpfa_speed", "bpfa_inpainting", "bpfa_algorithms", "bpfa_denoising", "bpfa_synthetic", "bpfa_genomics")
NAMES += ("bpfa_start",)
NAMES += ("ctm_recovery", "ctm_nips", "ctm_large", "ctm_figure7", "ctm_figure8", "ctm_importance", "ctm_coverage")
NAMES += ("ctm_start",)
#: Long runs of other packages, whose results are stored: they need those packages and are rerun only when named.
REFERENCES = ("reference", "mixed_reference", "gp_reference", "pmf_peers", "ctm_peers")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small versions, printed and not stored")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"among {', '.join((*NAMES, *REFERENCES))}; default: all but {' and '.join(REFERENCES)}",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - {*NAMES, *REFERENCES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    failed = []
    for name in options.names or NAMES:
        start = time.perf_counter()
        try:
            importlib.import_module(f"benchmarks.{name}").main(options.quick)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"\n[{name}: {time.perf_counter() - start:.0f} s]\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
