"""
Image inpainting with BetaProcessFA
===================================

Half of the pixels are lost. :func:`sksvi.images.inpaint` learns small patterns from the pixels that are left, by
:class:`sksvi.BetaProcessFA`, and fills the others in, with a standard deviation for each.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from sksvi import BetaProcessFA
from sksvi.images import inpaint

truth = load_sample_image("china.jpg").mean(2)[100:148, 200:248]
mask = np.random.default_rng(0).random(truth.shape) < 0.5  # True where a pixel is missing
patterns = BetaProcessFA(32, init_factors=10, max_iter=30, tol=0.1, random_state=0)
filled, std = inpaint(truth, mask, estimator=patterns, return_std=True, random_state=0)

# %%
fig, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
error = np.sqrt(np.mean((filled - truth)[mask] ** 2))
for ax, picture, title in zip(
    axes,
    (np.where(mask, np.nan, truth), filled, truth, std),
    ("half is lost", f"filled in, off by {error:.0f}", "truth", "standard deviation"),
    strict=True,
):
    colours = plt.get_cmap("magma" if picture is std else "gray").with_extremes(bad="tab:blue")
    ax.imshow(picture, cmap=colours)
    ax.set(title=title, xticks=[], yticks=[])
plt.show()
