"""
Factor analysis with GammaFactorModel
=====================================

:class:`sksvi.GammaFactorModel` is factor analysis whose loadings are not negative. Its factors can be named: each is a
cause that moves several columns in one direction.
"""

# %%
# Thirteen measurements of 178 wines, in units that have nothing to do with each other.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import FactorAnalysis

from sksvi import GammaFactorModel

wine = load_wine(as_frame=True).data
model = GammaFactorModel(3, noise_variance="per-feature", random_state=0).fit(wine)
signed = FactorAnalysis(3, random_state=0).fit((wine - wine.mean()) / wine.std())

# %%
# Loadings in standard deviations of their columns, beside scikit-learn's, whose signs mix.
tables = {"sksvi: none negative": model.components_ / wine.std().to_numpy(), "FactorAnalysis": signed.components_}
fig, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True, layout="constrained")
for ax, (name, loadings) in zip(axes, tables.items(), strict=True):
    image = ax.imshow(loadings.T, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    ax.set(title=name, xlabel="factor", xticks=range(3))
axes[0].set_yticks(range(wine.shape[1]), wine.columns)
fig.colorbar(image, ax=axes, label="loading")
plt.show()

# %%
for k, loading in enumerate(tables["sksvi: none negative"]):
    print(f"factor {k}:", ", ".join(wine.columns[np.argsort(-loading)[:4]]))
