"""
Gaussian-process regression with SparseGPRegressor
==================================================

:class:`sksvi.SparseGPRegressor` learns a smooth function with its kernel, noise and inducing points. Its band widens
where there are no data, and counts are as easy as measurements.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sksvi import SparseGPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 250)
x = x[(x < 4.5) | (x > 7)]
grid = np.linspace(-0.5, 10.5, 200)


def curve(at):
    return np.sin(1.3 * at) + 0.1 * at


targets = {
    "gaussian": curve(x) + 0.3 * rng.standard_normal(len(x)),
    "poisson": rng.poisson(np.exp(curve(x) + 1)).astype(float),
}

# %%
# The same curve, measured and counted.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, (likelihood, y) in zip(axes, targets.items(), strict=True):
    model = SparseGPRegressor(likelihood=likelihood, n_inducing=15, random_state=0).fit(x[:, None], y)
    low, high = model.predict_interval(grid[:, None], coverage=0.9).T
    ax.fill_between(grid, low, high, alpha=0.25, label="90 % of the observations")
    ax.plot(grid, model.predict(grid[:, None]), label="mean")
    ax.plot(x, y, ".", color="0.3", markersize=3)
    ax.plot(model.inducing_points_[:, 0], np.full(len(model.inducing_points_), ax.get_ylim()[0]), "|", color="C3")
    ax.set(title=likelihood, xlabel="x", ylabel="y")
axes[0].legend(frameon=False, loc="upper left")
plt.show()
