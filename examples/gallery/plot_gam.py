"""
Smooth curves and groups with SmoothTransformer
===============================================

A generalized additive mixed model: visits to a doctor by age and distance, along curves that the data choose, with an
effect for each village. :class:`sksvi.preprocessing.SmoothTransformer` makes columns of the curves and
:class:`sksvi.GMERegressor` learns how smooth each is. The visits are simulated.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from sksvi import GMERegressor, PartialEffectDisplay
from sksvi.preprocessing import SmoothTransformer

rng = np.random.default_rng(0)
rows, village = 600, rng.integers(0, 20, 600)
X = pd.DataFrame(
    {
        "age": rng.uniform(0, 85, rows),
        "distance": rng.uniform(0, 30, rows),
        "village": [f"village {number:02d}" for number in village],
    }
)
curves = {"age": lambda age: 1.5 * ((age - 35) / 45) ** 2, "distance": lambda distance: 0.8 * np.exp(-distance / 5)}
effects = 0.5 * rng.standard_normal(20)
f = curves["age"](X["age"]) + curves["distance"](X["distance"]) + effects[village]
visits = rng.poisson(np.exp(f))

# %%
# Each pattern of names has a scale of its own, which is learned: "age_s*" are the bends of the curve of age. The
# straight lines, ``age_linear`` and ``distance_linear``, share another. The villages pass by the smooths as they are.
smooth = make_column_transformer(
    (SmoothTransformer(n_basis=10), ["age", "distance"]), remainder="passthrough", verbose_feature_names_out=False
).set_output(transform="pandas")
regressor = GMERegressor(
    likelihood="poisson", noise=False, groups="village", prior_precision={"age_s*": "auto", "distance_s*": "auto"}
)
model = make_pipeline(smooth, regressor).fit(X, visits)
print(regressor.summary().loc[["std(village, intercept)"], ["mean", "lower", "upper"]].round(2))
print(f"standard deviation of the effects of these 20 villages: {effects.std():.2f}")

# %%
# The partial effect of either column: the mean count with all rows set to one value of it, and its 90 % interval.
# Dashed is the curve that the counts were drawn from, averaged in the same way.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, (name, curve) in zip(axes, curves.items(), strict=True):
    display = PartialEffectDisplay.from_estimator(model, X, name, max_rows=None, n_draws=200, ax=ax)
    values, rest = np.array(display.values), np.exp(f - curve(X[name])).mean()
    ax.plot(values, rest * np.exp(curve(values)), "--", color="0.3", lw=1, label="truth")
    ax.set(ylabel="visits, mean and 90 % interval", ylim=(0, None))
axes[0].legend(frameon=False)
plt.show()
