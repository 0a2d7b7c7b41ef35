"""
Zero-inflated counts in groups with GMERegressor
================================================

Salamanders are counted fifteen times in each of 24 streams, half of them below mines. On some visits none can be found
whatever lives there. A zero-inflated Poisson learns how often; :class:`sksvi.GMERegressor` has an effect for each
stream. The counts are simulated, so that the truth is there to compare with.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import GMERegressor, PosteriorPredictiveDisplay

rng = np.random.default_rng(0)
stream = np.repeat(np.arange(24), 15)
mined = stream < 12
cover = rng.standard_normal(24)[stream]
log_rate = 1.2 - 1.0 * mined + 0.3 * cover + 0.5 * rng.standard_normal(24)[stream]
hidden = rng.random(len(stream)) < 0.35
counts = np.where(hidden, 0, rng.poisson(np.exp(log_rate)))
X = pd.DataFrame(
    {"mined": np.where(mined, "yes", "no"), "cover": cover, "stream": [f"stream {number:02d}" for number in stream]}
)

# %%
# Two models of the same columns. The Poisson is fitted first: it warns that counts vary more than it lets them.
# ``noise=False`` leaves out effects of single rows, which would have to stand for the zeros. In the picture observed
# counts hang from the expected ones, and should end at the line.
models = {
    name: GMERegressor(likelihood=name, noise=False, groups="stream").fit(X, counts)
    for name in ("poisson", "zero-inflated-poisson")
}
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    PosteriorPredictiveDisplay.from_estimator(model, X, counts, ax=ax)
    ax.set_title(f"{name}: bound {model.lower_bound_:.0f} nats")
plt.show()

# %%
# The bound, an estimate of the log evidence, and the picture agree on the second. Its ``odds(zero)`` are the odds that
# a visit has a zero whatever the rate: 0.35 / 0.65 = 0.54 in truth. Mines take 1.0 from the log rate, cover adds 0.3,
# and streams spread by 0.5.
print(models["zero-inflated-poisson"].summary()[["mean", "lower", "upper"]].round(2))

# %%
# A visit to a stream that nobody has seen yet: ``include_groups="marginal"`` averages over streams as these are. The
# dots are the counts of the 180 visits of either kind.
values = np.arange(13)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for ax, kind in zip(axes, ("no", "yes"), strict=True):
    new = pd.DataFrame({"mined": kind, "cover": 0.0, "stream": "a new one"}, index=values)
    density = models["zero-inflated-poisson"].log_predictive_density(new, values, include_groups="marginal")
    ax.bar(values, np.exp(density), color="C0", alpha=0.4, label="predicted, at average cover")
    rows = counts[X["mined"] == kind]
    ax.plot(values, [np.mean(rows == value) for value in values], "o", color="0.2", ms=4, label="observed")
    ax.set(title=f"mined: {kind}", xlabel="salamanders on a visit")
axes[0].set_ylabel("share of visits")
axes[0].legend(frameon=False)
plt.show()
