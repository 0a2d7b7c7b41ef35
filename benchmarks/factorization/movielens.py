"""MovieLens 1M, 80/20: generalized PMF on ordinal, Gaussian and binary ratings, beside other packages.

Every model twice: one fit that ends by itself (seconds of all of it), and the scores by passes. CPU seconds compare.
The peers' rows are those that ``factorization.peers`` stored; the notes say how soon ours is where each of them ended.
Variants are in ``factorization.variants``.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib import Array
from benchmarks._lib.looks import looked
from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.factorization._data import (
    Split,
    count_features,
    movielens,
    scores,
    side_features,
    small,
    stored_peers,
    whole_fit,
)

LIKELIHOODS = {"ordinal": "ordinal", "gaussian": "gaussian", "binary": "logit"}
#: Ours in the main table and figure, by task; "counts": how often each user and each film is rated in the training.
OURS: dict[str, dict[str, dict[str, Any]]] = {
    "ordinal": {
        "K = 20": {},
        "K = 22": {"n_components": 22},
        "K = 32": {"n_components": 32},
    },
    "gaussian": {"K = 32": {"n_components": 32}, "K = 32, diag": {"n_components": 32, "covariance": "diag"}},
    "binary": {"K = 20": {}, "K = 20, counts as features": {"features": "counts"}},
}
PASSES = (1, 2, 3, 5, 8, 12, 20, 30, 45)
COLUMNS: tuple[str, ...] = (
    "task",
    "model",
    "passes",
    "seconds",
    "CPU seconds",
    "rmse",
    "mae",
    "log density",
    "log mass",
)
COLUMNS += ("coverage 90 %", "auc", "error", "bound")


def estimator(task: str, settings: dict[str, Any], pairs: Array) -> Any:
    from sksvi.decomposition import GeneralizedPMF

    settings = dict(settings)
    kind = settings.pop("features", None)
    if kind is not None:
        features = side_features() if kind == "tables" else count_features(pairs)
        settings["user_features"], settings["item_features"] = features
    return GeneralizedPMF(
        **{"likelihood": LIKELIHOODS[task], "uncertainty": "variational", "random_state": 0, **settings}
    )


def fitted(task: str, name: str, settings: dict[str, Any], split: Split) -> dict[str, Any]:
    """The row of one fit that ends by itself."""
    model = estimator(task, settings, split[0])
    spent = whole_fit(model, split[:2])
    row = {"task": task, "model": f"GeneralizedPMF, {name}", **spent, **scores(model, *split[2:], task)}
    progress(row)
    return row


def by_passes(task: str, name: str, settings: dict[str, Any], split: Split, passes: Any) -> list[dict[str, Any]]:
    head = {"task": task, "model": f"GeneralizedPMF, {name}"}
    progress(head)
    model = estimator(task, settings, split[0])
    found = looked(model, split[:2], lambda model: scores(model, *split[2:], task), passes)
    return [{**head, **row} for row in found]


def peers(task: str, name: str = "factorization/peers") -> list[dict[str, Any]]:
    """Stored rows of the peers, named as ours are."""
    rows = [row for row in stored_peers(name) if row["task"] == task]
    return [{**row, "model": row["peer"], "passes": row["iterations"]} for row in rows]


def reached(task: str, paths: list[dict[str, Any]]) -> list[str]:
    """For each peer of the task: CPU seconds of ours to its last log density, beside its own."""
    lines = []
    for peer in peers(task):
        before = [row for row in paths if row["task"] == task and (row.get("log density") or -9) >= peer["log density"]]
        first = min(before, key=lambda row: row["CPU seconds"], default=None)
        found = "not reached" if first is None else f"{first['CPU seconds']:.1f} by {first['model']}"
        spent = f"{peer['CPU seconds']:.1f} CPU seconds"
        lines.append(f"{peer['model']}: {peer['log density']:.4f} in {spent}; ours: {found}.")
    return lines


def draw(paths: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
    for ax, task in zip(axes, LIKELIHOODS, strict=True):
        rows = [row for row in (*paths, *peers(task, "factorization/peers_paths")) if row["task"] == task]
        for name in dict.fromkeys(row["model"] for row in rows):
            mine = [row for row in rows if row["model"] == name and row.get("log density")]
            style = "-o" if name.startswith("Generalized") else "--."
            ax.plot([r["CPU seconds"] for r in mine], [r["log density"] for r in mine], style, markersize=3, label=name)
        best = max((row["log density"] for row in rows if row.get("log density")), default=0.0)
        ax.set(xscale="log", xlabel="CPU seconds", title=task, ylim=(best - 0.15, best + 0.01))
        ax.legend(fontsize=7)
    axes[0].set_ylabel("test log density, nats per rating")
    store_figure("factorization/movielens", figure)


def main(quick: bool = False) -> None:
    splits = {task: movielens("binary" if task == "binary" else "all") for task in LIKELIHOODS}
    if quick:
        splits = {task: small(split) for task, split in splits.items()}
    rows: list[dict[str, Any]] = []
    paths: list[dict[str, Any]] = []
    for task, split in splits.items():
        for name, settings in OURS[task].items():
            rows.append(fitted(task, name, {**settings, "max_iter": 5} if quick else settings, split))
            if not settings.get("covariance"):
                paths += by_passes(task, name, settings, split, PASSES[:3] if quick else PASSES)
        if not quick:
            rows += peers(task)
    notes = [
        "80 % of MovieLens 1M for training. log density: of the level (ordinal, binary), of a real number (Gaussian); "
        "log mass: of the level after rounding. Ours ends by itself; seconds are of the whole fit; CPU seconds compare "
        "(the peers ran on a busy machine). The peers' rows are results/factorization/peers.md, their passes "
        "iterations. The figure is results/factorization/movielens.png. Counts as features: the prior means of a user "
        "and of a film are linear in the logarithm of how often each was rated in the training; the peers were not "
        "given it."
    ]
    if not quick:
        notes += [line for task in LIKELIHOODS for line in reached(task, paths)]
    trimmed = [[{key: row.get(key) for key in COLUMNS} for row in part] for part in (rows, paths)]
    report("factorization/movielens", "MovieLens 1M by generalized PMF", trimmed[0], notes, quick)
    report("factorization/movielens_paths", "MovieLens 1M by passes", trimmed[1], notes[:1], quick)
    if not quick:
        draw(paths)


if __name__ == "__main__":
    main(arguments(__doc__))
