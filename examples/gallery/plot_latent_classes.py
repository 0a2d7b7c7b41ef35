"""
Latent classes of a survey with CategoricalMixture
==================================================

Households answer six questions, and some leave one out. :class:`sksvi.CategoricalMixture` finds the kinds of households
behind the answers, and how many there are.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import CategoricalMixture

rng = np.random.default_rng(3)
answers = {
    "car": ["none", "one", "two"],
    "dwelling": ["flat", "house"],
    "commute": ["walks", "bus", "car"],
    "pet": ["none", "cat", "dog"],
    "garden": ["no", "yes"],
    "holiday": ["home", "train", "flight"],
}
kind = rng.choice(3, 1200, p=[0.5, 0.3, 0.2])
survey = {}
for question, options in answers.items():
    likely = rng.dirichlet(np.full(len(options), 0.3), 3)
    chosen = (rng.random((1200, 1)) > np.cumsum(likely, 1)[kind][:, :-1]).sum(1)
    survey[question] = pd.Categorical.from_codes(np.where(rng.random(1200) < 0.05, -1, chosen), options)
survey = pd.DataFrame(survey)

model = CategoricalMixture(n_components=20, random_state=0).fit(survey)
classes = int(np.sum(model.weights_ > 0.03))
print(f"{classes} classes, with {model.weights_[:classes].round(2)} of the households; true shares 0.5, 0.3, 0.2")

# %%
# What each class answers.
table = model.means_.iloc[:classes].T
fig, ax = plt.subplots(figsize=(5.5, 5.5), layout="constrained")
image = ax.imshow(table.to_numpy(float), aspect="auto", cmap="Blues", vmin=0, vmax=1)
ax.set_yticks(range(len(table)), [f"{question}: {answer}" for question, answer in table.index])
ax.set_xticks(range(classes), [f"class {k}\n{w:.0%}" for k, w in enumerate(model.weights_[:classes])])
fig.colorbar(image, label="probability of the answer")
plt.show()
