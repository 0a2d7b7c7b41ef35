"""
A map of disease risk with Neighbours
=====================================

Counts of a rare disease in small districts are mostly chance. :class:`sksvi.preprocessing.Neighbours` lets districts
learn from those that they touch, beside effects of their own, as Besag, York and Mollié proposed in 1991: the map of
estimated risks shows the pattern that the ratios of observed to expected cases hide.
"""

# %%
# A simulated county of 15 by 15 districts, with a smooth pattern of risk and a little of each district's own. In the
# grey districts nobody has counted.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from sksvi import GMERegressor
from sksvi.preprocessing import Neighbours

side = 15
rng = np.random.default_rng(0)
row, column = np.divmod(np.arange(side**2), side)
touching = (np.abs(np.subtract.outer(row, row)) + np.abs(np.subtract.outer(column, column)) == 1).astype(float)
districts = [f"{i}-{j}" for i, j in zip(row, column, strict=True)]
adjacency = pd.DataFrame(touching, index=districts, columns=districts)

log_risk = 0.6 * np.sin(row / 3) * np.cos(column / 4) + 0.1 * rng.standard_normal(side**2)
expected = rng.uniform(2, 12, side**2)
cases = rng.poisson(expected * np.exp(log_risk))
counted = rng.random(side**2) < 0.9
X = pd.DataFrame({"district": districts})

# %%
# Two effects of a district: one that resembles its neighbours', in the columns ``district_1``, ``district_2``, …, and
# one of its own, from ``groups``. Each has a standard deviation that the counts decide.
columns = make_column_transformer(
    (Neighbours(adjacency), ["district"]), ("passthrough", ["district"]), verbose_feature_names_out=False
)
effects = GMERegressor(
    likelihood="poisson", groups="district", noise=False, prior_precision={"district_*": "auto"}, on_unseen="ignore"
)
model = make_pipeline(columns.set_output(transform="pandas"), effects)
model.fit(X[counted], cases[counted], gmeregressor__exposure=expected[counted])
nodes = effects.hyperparameter_posterior_
for name in ("scale(district_*)", "std(district, intercept)"):
    print(f"{name}: {nodes['weight'] @ nodes[name]:.2f}")

# %%
# The risks, those of districts without counts too, and where they are likely to be high.
mean, variance = effects.predict_latent(model[:-1].transform(X), offset=np.zeros(side**2))
ratio = np.where(counted, cases / expected, np.nan)
panels = [
    ("cases / expected", ratio),
    ("estimated risk", np.exp(mean)),
    ("true risk", np.exp(log_risk)),
    (
        "probability of a risk above 1.2",
        np.mean(mean + np.sqrt(variance) * rng.standard_normal((2000, side**2)) > np.log(1.2), axis=0),
    ),
]
fig, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
for ax, (title, values) in zip(axes.flat, panels, strict=True):
    share = title.startswith("probability")
    scale = {"cmap": "Purples", "vmin": 0, "vmax": 1} if share else {"cmap": "RdBu_r", "vmin": 0.3, "vmax": 1.7}
    picture = ax.imshow(values.reshape(side, side), **scale)
    ax.set(title=title, xticks=[], yticks=[], facecolor="0.6")
    fig.colorbar(picture, ax=ax, shrink=0.8)
error = {name: np.sqrt(np.nanmean((values - np.exp(log_risk)) ** 2)) for name, values in panels[:2]}
print(", ".join(f"error of {name}: {value:.2f}" for name, value in error.items()))
plt.show()
