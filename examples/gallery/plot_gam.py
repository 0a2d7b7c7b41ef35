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
from sksvi.inspection import partial_effect
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
# The partial effect of either column: the mean count with all rows set to one value of it, and its 90 % interval; and
# what both do together, with lines where half the width of the interval is the same. Dashed are the curves that the
# counts were drawn from, averaged in the same way.
display = PartialEffectDisplay.from_estimator(
    model, X, ["age", "distance", ("age", "distance")], max_rows=None, n_draws=200
)
for ax, (name, curve) in zip(display.ax_, curves.items(), strict=False):
    values, rest = np.linspace(*X[name].quantile([0.01, 0.99])), np.exp(f - curve(X[name])).mean()
    ax.plot(values, rest * np.exp(curve(values)), "--", color="0.3", lw=1, label="truth")
display.ax_[0].legend(frameon=False)
plt.show()

# %%
# The numbers of any panel are a table.
print(partial_effect(model, X, ("age", "distance"), grid_resolution=6, n_draws=200).round(2))
