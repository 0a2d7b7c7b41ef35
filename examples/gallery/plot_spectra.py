"""
Spectral decomposition with GammaProcessNMF
===========================================

Frames of a recording are sums of a few sounds. :class:`sksvi.GammaProcessNMF` finds the sounds and when each is heard.
``python -m examples.unmix_sounds`` does it with notes that are played.
"""

# %%
# Counts of energy in 300 frames, from four sounds.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from sksvi import GammaProcessNMF
from sksvi.datasets import make_spectra

bunch = make_spectra(300, 80, n_components=4, mean_count=20.0, random_state=0)
model = GammaProcessNMF(6, search_passes=20, tol=1e-3, random_state=0).fit(bunch.data)
print("shares of all counts:", model.component_shares_.round(2))

# %%
# Each true sound with the component that is most like it.
unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (bunch.components, model.components_)]
rows, columns = linear_sum_assignment(-(unit[0] @ unit[1].T))
fig, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, layout="constrained")
for ax, true, found in zip(axes.flat, rows, columns, strict=True):
    ax.fill_between(bunch.frequencies, unit[0][true], alpha=0.3, label="true")
    ax.plot(bunch.frequencies, unit[1][found], color="C3", lw=1, label="found")
    ax.set(title=f"cosine {unit[0][true] @ unit[1][found]:.2f}", yticks=[])
axes[0, 0].legend(frameon=False)
fig.supxlabel("frequency")
fig.supylabel("energy")
plt.show()
