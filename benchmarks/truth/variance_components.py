"""Nested and crossed Gaussian effects of published sets beside a random walk under the same prior.

Given the standard deviations of effects and noise, the coefficients under a flat prior are Gaussian and everything but
these deviations is integrated in closed form: a Metropolis walk over their logarithms, with the priors that the library
has, is the exact posterior, where restricted maximum likelihood is a best value. Needs the folder of the sets, as
`truth.responses` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.groups import fitted, models
from benchmarks.truth.responses import Frame, read
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE

#: Names of the sets, columns whose values together name a level, those of fixed effects, and what we call each level's.
SETS = {
    "Pastes": ((("batch",), ("batch", "cask")), None, ("batch", "batch:cask")),
    "Machines": ((("Worker",), ("Worker", "Machine")), "Machine", ("Worker", "Worker:on")),
    "Penicillin": ((("plate",), ("sample",)), None, ("plate", "sample")),
}
STEPS, BURN_IN, WALK = 20_000, 2_000, np.array([0.35, 0.25, 0.12])


class Marginal:
    """Log density of log deviations (two of effects, noise) with the coefficients integrated under a flat prior."""

    def __init__(self, data: Frame, y: Array, levels: Any, factor: str | None) -> None:
        self.y, self.unit = y, float(np.std(y))
        keys = [data[list(names)].astype(str).agg("/".join, axis=1).to_numpy() for names in levels]
        self.same = [(key[:, None] == key).astype(float) for key in keys]
        names = [] if factor is None else sorted(data[factor].unique())[1:]
        self.A = np.column_stack([np.ones(len(y)), *[(data[factor] == name).to_numpy(float) for name in names]])

    def __call__(self, h: Array) -> tuple[float, Array, Array]:
        """The density, and mean and variance of the coefficients there."""
        variance = np.exp(2.0 * h)
        V = variance[0] * self.same[0] + variance[1] * self.same[1] + variance[2] * np.eye(len(self.y))
        C = np.linalg.cholesky(V)
        both = np.linalg.solve(C, np.column_stack([self.A, self.y]))
        A, y = both[:, :-1], both[:, -1]
        precision = A.T @ A
        b = np.linalg.solve(precision, A.T @ y)
        value = -np.sum(np.log(np.diag(C))) - 0.5 * np.sum((y - A @ b) ** 2) - 0.5 * np.linalg.slogdet(precision)[1]
        ratio = np.sqrt(variance) / self.unit
        prior = np.sum(h) - 2.0 * np.sum(np.log1p(np.square(ratio[:2] / GROUP_PRIOR_SCALE) / 3.0))
        return float(value + prior - np.log1p(ratio[2] ** 2)), b, np.diag(np.linalg.inv(precision))

    def walked(self, steps: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Deviations (n, 3), and means and variances of the coefficients, along the walk."""
        rng, h = np.random.default_rng(seed), np.log(self.unit * np.array([0.5, 0.5, 0.5]))
        here, found = self(h), []
        for step in range(steps):
            proposed = h + WALK * rng.standard_normal(3) * rng.choice([0.4, 1.0, 2.0])
            there = self(proposed)
            if np.log(rng.random()) < there[0] - here[0]:
                h, here = proposed, there
            if step >= min(BURN_IN, steps // 2):
                found.append((np.exp(h), *here[1:]))
        deviations, means, variances = (np.array(part) for part in zip(*found, strict=True))
        return deviations, means, variances


def compared(name: str, steps: int) -> list[dict[str, Any]]:
    """A row for each standard deviation and coefficient of a set."""
    model = next(
        one for one in models() if one.data == name and one.judge.split(",")[0].split()[0] in {"nested", "crossed"}
    )
    levels, factor, groups = SETS[name]
    data = read(name)
    y = data[model.target].to_numpy(float)
    table = fitted(model, model.design(data), data[model.target]).summary(effects="joint")
    deviations, means, variances = Marginal(data, y, levels, factor).walked(steps)
    names = [f"std({group}, intercept)" for group in groups] + ["std(residual)", *model.coefficients]
    mean = np.r_[deviations.mean(0), means.mean(0)]
    std = np.r_[deviations.std(0), np.sqrt(variances.mean(0) + means.var(0))]
    return [
        {"set": name, "quantity": own, "mean": table.loc[own, "mean"], "walk's": mean[k], "sd": table.loc[own, "std"],
         "sd of the walk": std[k], "off in sd": (table.loc[own, "mean"] - mean[k]) / std[k],
         "sd / sd": table.loc[own, "std"] / std[k]}
        for k, own in enumerate(names)
    ]  # fmt: skip


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name in SETS:
        rows += compared(name, 400 if quick else STEPS)
        progress(rows[-1])
    title = "Gaussian effects of levels beside a walk under the same prior"
    report("truth/variance_components", title, rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
