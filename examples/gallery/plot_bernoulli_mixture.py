"""
Latent classes with BernoulliMixture
====================================

:class:`sksvi.BernoulliMixture` groups binary rows and finds how many groups they need. Here are digits in black and
white, a tenth of whose pixels is missing.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from sksvi import BernoulliMixture

digits = load_digits()
X = (digits.data > 7).astype(float)
X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
model = BernoulliMixture(n_components=40, random_state=0).fit(X)
agreement = adjusted_rand_score(digits.target, model.predict(X))
print(f"{model.n_components_} kinds are used of 40; agreement with the ten digits {agreement:.2f}")

# %%
# Each kind as the probabilities of its pixels: a digit is written in more than one way.
fig, axes = plt.subplots(3, 6, figsize=(8, 4.6), layout="constrained")
for ax, mean, weight in zip(axes.flat, model.means_, model.weights_, strict=False):
    ax.imshow(mean.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    ax.set(title=f"{weight:.0%}", xticks=[], yticks=[])
plt.show()
