"""
Rating prediction with GeneralizedPMF
=====================================

:class:`sksvi.GeneralizedPMF` factorizes a table of (user, item, rating). Users with few ratings have wide intervals.
"""

# %%
# Simulated ratings in five levels, unevenly spread over users.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import GeneralizedPMF, PoissonFactorization
from sksvi.datasets import make_pmf

matrix = make_pmf(150, 80, 2, likelihood="gaussian", observed=0.6, random_state=0)
rng = np.random.default_rng(0)
pairs = pd.DataFrame(matrix.data, columns=["user", "film"])
rating = np.digitize(matrix.latent + 0.7 * rng.standard_normal(len(pairs)), [-2, -0.7, 0.7, 2]) + 1
keep = rng.random(len(pairs)) < np.linspace(0.05, 0.9, 150)[pairs["user"]]
seen, unseen = pairs[keep], pairs[~keep]

model = GeneralizedPMF(4, likelihood="ordinal", random_state=0).fit(seen, rating[keep])
print(f"R² on unseen pairs: {model.score(unseen, rating[~keep]):.2f}")

# %%
# The latent score of a film is the surer the more its user has rated.
_, variance = model.predict_latent(unseen)
counts = unseen["user"].map(seen["user"].value_counts()).fillna(0)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
axes[0].plot(counts + rng.uniform(-0.3, 0.3, len(counts)), np.sqrt(variance), ".", markersize=2, alpha=0.4)
axes[0].set(xlabel="ratings of the user", ylabel="standard deviation of the latent score")
share = model.predict_proba(unseen)
axes[1].bar(model.levels_ - 0.2, share.mean(0), 0.4, label="predicted")
axes[1].bar(model.levels_ + 0.2, np.bincount(rating[~keep], minlength=6)[1:] / len(unseen), 0.4, label="came")
axes[1].set(xlabel="rating", ylabel="share of the unseen pairs")
axes[1].legend(frameon=False)
plt.show()

# %%
# What to show to whom.
print(model.recommend([3, 140], n=3).round(2))

# %%
# Where nothing but what was liked is recorded, pairs that are absent are zeros: :class:`sksvi.PoissonFactorization`.
liked = seen[rating[keep] >= 4]
clicks = PoissonFactorization(4, random_state=0).fit(liked)
print(clicks.recommend([3, 140], n=3).round(2))
