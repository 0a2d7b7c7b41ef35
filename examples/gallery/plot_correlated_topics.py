"""
Topic correlations with CorrelatedTopicModel
============================================

In :class:`sksvi.CorrelatedTopicModel` a document on one topic makes others more or less likely.
"""

# %%
# Simulated documents of five topics, whose truth is known.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from sksvi import CorrelatedTopicModel, TopicGraphDisplay
from sksvi.datasets import make_ctm

bunch = make_ctm(400, 150, n_components=5, random_state=0)
model = CorrelatedTopicModel(5, random_state=0).fit(bunch.data)

# %%
# Topics have no order: match them with the true ones.
unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (bunch.components, model.components_)]
_, order = linear_sum_assignment(-(unit[0] @ unit[1].T))
logs = np.log(bunch.proportions)
true = np.corrcoef((logs - logs.mean(1, keepdims=True)).T)
found = model.topic_correlation_[np.ix_(order, order)]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, matrix, title in ((axes[0], true, "true proportions"), (axes[1], found, "found")):
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(title=title, xlabel="topic", xticks=range(5), yticks=range(5))
axes[0].set_ylabel("topic")
fig.colorbar(image, ax=axes, label="correlation")

# %%
# The same as a display.
TopicGraphDisplay.from_estimator(model, min_correlation=0.1)
plt.show()
