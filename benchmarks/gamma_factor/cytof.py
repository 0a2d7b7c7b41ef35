"""Khan and Lin's Table 4: the gamma factor model of single cells, K = 40, and what their comparison comes to.

From one random start: their iterations (natural steps of one rate, ten draws each, and the paper's 50), Knowles'
(AdaDelta on log shape and log rate), Adam and AdaGrad on the same; and the package's own, natural steps over fixed
points, judged, from the same start and from the mode. Test score by iteration and CPU second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.gamma_factor._data import NOISE, averaged_nll, cytof, gaussian_nll

K = 40
#: Iterations after which a fit is scored.
LOOKED = (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)
#: Draws of a score on the way, and the paper's, of a last one; rows that are scored on the way.
FEW_DRAWS, DRAWS, FEW_ROWS = 50, 2000, 5000
TITLE = "Gamma factor model of single cells: test NLL per row"
NOTES = [
    "66,925 rows of 30 z-scored markers for training, 49,670 for testing; K = 40, noise variance 0.1 known, prior "
    "Gamma(0.1, 1). NLL: -log of a mean over draws of q, 50 draws and 5,000 rows on the way, 200 draws and all rows in "
    "the table of ends; plug-in: at the posterior mean. CPU seconds of one thread, scatter and start included. "
    "Steps of Adam (0.1 in log shape and log rate), AdaDelta (rate 1 there, ε = 1e-4 per row) and AdaGrad (0.3) are "
    "the best of a few; CVI at rate 0.05 and beyond diverges (with the paper's 50 draws at 0.1)."
]


class Adam(BaseEstimator):
    """Kingma and Ba's steps in the place of AdaGrad's: a mean, a mean square and how many there were."""

    of_gaussians = False

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def begin(self, values: Array) -> Array:
        """Nothing seen."""
        return np.zeros((*values.shape, 3))

    def step(self, gradient: Array, memory: Array) -> tuple[Array, Array]:
        """Step and memory."""
        mean, square, t = memory[..., 0], memory[..., 1], memory[..., 2] + 1
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        step = self.rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-12)
        return step, np.stack([mean, square, t], -1)


@dataclass
class Fit:
    """A way to fit: algorithm, expectation, first q, iterations."""

    algorithm: Any
    expect: Any
    init: str
    passes: int


def fits(passes: int) -> dict[str, Fit]:
    """By name."""
    from sksvi.algorithms import CVI, SDSVI
    from sksvi.expectations import Auto, MonteCarlo
    from sksvi.schedules import AdaDelta, Constant

    draws = MonteCarlo(10)
    return {
        "CVI, rate 0.02, 50 draws": Fit(CVI(schedule=Constant(0.02)), MonteCarlo(50), "random", passes),
        "CVI, rate 0.02": Fit(CVI(schedule=Constant(0.02)), draws, "random", passes),
        "CVI, rate 0.05": Fit(CVI(schedule=Constant(0.05)), draws, "random", passes),
        "CVI, rate 0.01": Fit(CVI(schedule=Constant(0.01)), draws, "random", passes),
        "Knowles (AdaDelta)": Fit(SDSVI(adagrad=AdaDelta(rate=10.0, epsilon=1e-4)), draws, "random", passes),
        "Adam": Fit(SDSVI(adagrad=Adam()), draws, "random", passes),
        "AdaGrad": Fit(SDSVI(), draws, "random", passes),
        "fixed points, judged": Fit(CVI(), Auto(), "random", passes),
        "default: mode, then judged": Fit(CVI(), Auto(), "map", min(passes, 100)),
    }


def course(train: Array, fit: Fit, seed: int, tol: float = 0.0) -> list[tuple[int, float, Any]]:
    """(iteration, CPU seconds, q) at `LOOKED`, the start (0) and the end."""
    from sksvi.inference import plan
    from sksvi.inference.start import first_state
    from sksvi.models.gamma_factor.density import scatter_of
    from sksvi.models.gamma_factor.model import GammaFactors

    started, found = time.process_time(), []
    data = scatter_of(train, False, 1)
    model = GammaFactors(K, train.shape[1], noise=np.full(train.shape[1], NOISE), init=fit.init, seed=seed)
    problem = plan.problem(model, data, fit.algorithm, fit.expect)
    state = first_state(problem, seed)
    found.append((0, time.process_time() - started, state.q["loadings"]))

    def look(state: Any) -> bool:
        if state.passes in LOOKED or state.passes == fit.passes:
            found.append((state.passes, time.process_time() - started, state.q["loadings"]))
        return False

    plan.run(problem, state, fit.passes, tol, look)
    return found


def peers(train: Array, test: Array) -> list[dict[str, Any]]:
    """Gaussians that need no loadings of one sign."""
    from sklearn.decomposition import FactorAnalysis

    rows = []
    start = time.process_time()
    full = float(gaussian_nll(test, train.T @ train / len(train)).mean())
    rows.append({"method": "Gaussian, full covariance", "plug-in": full, "CPU seconds": time.process_time() - start})
    start = time.process_time()
    peer = FactorAnalysis(20, tol=100.0, max_iter=100, svd_method="lapack").fit(train)  # nats of all rows
    rows.append({"method": "FactorAnalysis, K = 20", "plug-in": -float(peer.score(test))})
    rows[-1]["CPU seconds"] = time.process_time() - start
    return rows


def main(quick: bool = False) -> None:
    from sksvi._runtime.parallel import working

    train, test = cytof()
    if quick:
        train, test = train[:5000], test[:2000]
    course(train[:500], fits(2)["CVI, rate 0.02"], 0)  # compiles
    on_the_way: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    with working():
        for name, fit in fits(20 if quick else 500).items():
            for passes, seconds, q in course(train, fit, 0):
                nll = averaged_nll(test[:FEW_ROWS], q, FEW_DRAWS)
                on_the_way.append({"method": name, "iteration": passes, "CPU seconds": seconds, "test NLL": nll})
                progress(on_the_way[-1])
            mean = q.mean
            plain = float(gaussian_nll(test, mean.T @ mean + NOISE * np.eye(len(mean[0]))).mean())
            ends.append({"method": name, "iterations": passes, "CPU seconds": seconds, "plug-in": plain})
            ends[-1]["test NLL"] = averaged_nll(test, q, 20 if quick else 200)
            progress(ends[-1])
        ends += peers(train, test)
    report("gamma_factor/cytof", TITLE, on_the_way, NOTES, quick)
    report("gamma_factor/cytof_ends", f"{TITLE}, at the end", ends, NOTES, quick)
    if not quick:
        store_figure("gamma_factor/cytof", drawn(on_the_way))


def drawn(rows: list[dict[str, Any]]) -> Any:
    """Test NLL against iterations and against seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        ours = "judged" in name
        style = {"linewidth": 2.2 if ours else 1.2, "marker": "o", "markersize": 3, "label": name}
        for axis, by in zip(axes, ("iteration", "CPU seconds"), strict=True):
            part = [row for row in own if row[by] > 0]
            axis.plot([row[by] for row in part], [row["test NLL"] for row in part], **style)
            axis.set(xscale="log", xlabel=by, ylim=(32.8, 45))
    axes[0].set_ylabel("test NLL per row, nats")
    axes[1].legend(fontsize=8)
    return figure


if __name__ == "__main__":
    main(arguments(__doc__))
