"""
Missing pixels with GammaPoissonFactorization
=============================================

:class:`sksvi.GammaPoissonFactorization` explains images as sums of parts. A third of the pixels is missing, and comes
back with a standard deviation.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sksvi import GammaPoissonFactorization

digits = load_digits().data
lost = np.random.default_rng(0).random(digits.shape) < 1 / 3
holes = np.where(lost, np.nan, digits)
model = GammaPoissonFactorization(16, random_state=0).fit(holes)
filled, std = model.impute(holes[:8], return_std=True)

# %%
# The parts.
fig, axes = plt.subplots(2, 8, figsize=(8, 2.3), layout="constrained")
for ax, part in zip(axes.flat, model.components_, strict=True):
    ax.imshow(part.reshape(8, 8), cmap="Greys")
    ax.set_axis_off()

# %%
# Digits with holes (blue), filled in, the truth, and how unsure each pixel is.
fig, axes = plt.subplots(4, 8, figsize=(8, 4.2), layout="constrained")
for row, (name, images) in enumerate((("holes", holes), ("filled", filled), ("truth", digits), ("± std", std))):
    for ax, image in zip(axes[row], images, strict=False):
        colours = plt.get_cmap("magma" if row == 3 else "Greys").with_extremes(bad="tab:blue")
        ax.imshow(image.reshape(8, 8), cmap=colours, vmin=0, vmax=4 if row == 3 else 16)
        ax.set(xticks=[], yticks=[])
    axes[row, 0].set_ylabel(name)
plt.show()

# sphinx_gallery_thumbnail_number = 2
