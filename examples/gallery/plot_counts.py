"""
Negative binomial regression with BayesianGLMRegressor
======================================================

Hourly bike rentals vary more than a Poisson lets them. A negative binomial learns by how much, and its intervals hold
what they promise. :class:`sksvi.BayesianGLMRegressor` in a pipeline.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sksvi
from sksvi.datasets import load_bike_sharing

bikes = load_bike_sharing()
week = slice(12_000, 12_168)
train = np.setdiff1d(np.arange(len(bikes.data)), np.arange(12_000, 12_168))


def fitted(likelihood):
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), bikes.categorical_features), remainder=StandardScaler()
    )
    model = make_pipeline(columns, sksvi.BayesianGLMRegressor(likelihood=likelihood))
    return model.fit(bikes.data.iloc[train], bikes.target.iloc[train])


# %%
# A week that neither model has seen, with the intervals that should hold nine hours of ten.
came = bikes.target[week].to_numpy()
fig, axes = plt.subplots(2, 1, figsize=(8, 5.5), sharex=True, sharey=True, layout="constrained")
for ax, likelihood in zip(axes, ("poisson", "negative-binomial"), strict=True):
    low, high = sksvi.predict_interval(fitted(likelihood), bikes.data[week], coverage=0.9).T
    inside = np.mean((low <= came) & (came <= high))
    ax.fill_between(range(len(came)), low, high, step="mid", alpha=0.3, label="90 % interval")
    ax.plot(came, ".", color="0.2", markersize=4, label="rentals")
    ax.set(title=f"{likelihood}: {inside:.0%} of the hours inside", ylabel="rentals in the hour")
axes[0].legend(frameon=False, ncols=2, loc="upper left")
axes[1].set_xlabel("hour of the week")
plt.show()
