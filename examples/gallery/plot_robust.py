"""
Robust regression with BayesianGLMRegressor
===========================================

One word makes a regression robust: ``likelihood="student-t"``. Width and weight of the tails are learned.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sksvi import BayesianGLMRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 80))[:, None]
y = 1.0 + 0.5 * x[:, 0] + 0.4 * rng.standard_normal(80)
y[60::5] -= 8  # a sensor that failed

models = {name: BayesianGLMRegressor(likelihood=name).fit(x, y) for name in ("gaussian", "student-t")}
for name, model in models.items():
    print(f"{name:10} slope {model.coef_[0]:.2f} ± {model.coef_std_[0]:.2f}, bound {model.lower_bound_:.0f} nats")

# %%
# The true slope is 0.5. The bound prefers the heavy tails by far.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(x, coverage=0.9).T
    ax.fill_between(x[:, 0], low, high, alpha=0.25, label="90 % interval")
    ax.plot(x[:, 0], model.predict(x), label="mean")
    ax.plot(x[:, 0], y, ".", color="0.3")
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(frameon=False, loc="lower left")
plt.show()
