"""
Streaming classification under drift with BayesianGLMClassifier
===============================================================

``partial_fit`` takes one chunk at a time. With ``half_life`` old rows fade, so that the model follows a world that
changes.
"""

# %%
# The slope jumps from 1 to -1 after the twentieth chunk.
import matplotlib.pyplot as plt
import numpy as np

from sksvi import BayesianGLMClassifier

rng = np.random.default_rng(0)
slopes = np.repeat([1.0, -1.0], 20)
models = {"all rows count": BayesianGLMClassifier(), "half_life=300": BayesianGLMClassifier(half_life=300)}
paths = {name: [] for name in models}
for slope in slopes:
    x = rng.standard_normal((100, 1))
    y = rng.random(100) < 1 / (1 + np.exp(-2 * slope * x[:, 0]))
    for name, model in models.items():
        model.partial_fit(x, y, classes=[False, True])
        paths[name].append((model.coef_[0, 0], model.coef_std_[0, 0]))

# %%
# Without forgetting the two halves cancel; with it the coefficient turns within a few chunks.
fig, ax = plt.subplots(layout="constrained")
ax.step(range(len(slopes)), 2 * slopes, where="mid", color="0.4", linestyle="--", label="truth")
for name, path in paths.items():
    mean, std = np.array(path).T
    ax.plot(mean, label=name)
    ax.fill_between(range(len(mean)), mean - 1.645 * std, mean + 1.645 * std, alpha=0.2)
ax.set(xlabel="chunk of 100 rows", ylabel="coefficient, with 90 % interval")
ax.legend(frameon=False)
plt.show()
