"""
Ordinal regression with BayesianGLMRegressor
============================================

"None", "some", "full" have an order and no distances. ``likelihood="ordinal"`` learns where one level ends and the next
begins, from names that a pandas ``Categorical`` puts in order.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import BayesianGLMRegressor

rng = np.random.default_rng(0)
dose = rng.uniform(0, 6, 400)
names = ["none", "some", "full"]
relief = pd.Categorical(
    np.array(names)[np.digitize(dose + 1.2 * rng.logistic(size=400), [2.0, 4.5])], names, ordered=True
)
model = BayesianGLMRegressor(likelihood="ordinal").fit(pd.DataFrame({"dose": dose}), relief)

# %%
# The probability of each level by dose, and how often each was seen.
grid = pd.DataFrame({"dose": np.linspace(0, 6, 100)})
share = model.predict_proba(grid)
bins = np.arange(0.5, 6)
seen = pd.crosstab(np.digitize(dose, np.arange(1, 6)), relief, normalize="index")[names].to_numpy()

fig, ax = plt.subplots(layout="constrained")
for level, name in enumerate(model.levels_):
    (line,) = ax.plot(grid["dose"], share[:, level], label=name)
    ax.plot(bins, seen[:, level], "o", color=line.get_color())
ax.set(xlabel="dose", ylabel="probability of the level", ylim=(0, 1))
ax.legend(title="relief", frameon=False)
plt.show()

# %%
# Predictions are levels too.
print(model.predict(grid.iloc[[0, 50, 99]]))
