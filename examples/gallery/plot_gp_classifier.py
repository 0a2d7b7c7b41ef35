"""
Gaussian-process classification
===============================

:class:`sksvi.GPClassifier` is a full Gaussian process for labels. Near the data it is sure; far from them its
probability goes back to one half, where a linear model would be surest.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sksvi import GPClassifier, SparseGPClassifier

X, y = make_moons(200, noise=0.2, random_state=0)
across, up = np.meshgrid(np.linspace(-3, 4, 80), np.linspace(-2.5, 3, 80))
grid = np.column_stack([across.ravel(), up.ravel()])
models = {
    "full: a message per row": GPClassifier(),
    "sparse: 20 inducing points": SparseGPClassifier(n_inducing=20, random_state=0),
}

# %%
# Both learn their kernels. The sparse one costs the same for every further row.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    probability = model.fit(X, y).predict_proba(grid)[:, 1].reshape(across.shape)
    filled = ax.contourf(across, up, probability, np.linspace(0, 1, 11), cmap="RdBu", alpha=0.8)
    for label, marker in ((0, "o"), (1, "s")):
        ax.plot(*X[y == label].T, marker, color="k", markersize=3, markerfacecolor="w", markeredgewidth=0.6)
    ax.set(title=name, xlabel="first column")
axes[0].set_ylabel("second column")
fig.colorbar(filled, ax=axes, label="probability of class 1")
plt.show()
