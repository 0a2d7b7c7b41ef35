"""
Topics that depend on covariates
================================

:class:`sksvi.CorrelatedTopicModel` with ``covariates``: how the share of each topic moves with the year and the party
of a document.
"""

# %%
# Simulated speeches: one topic grows over the years, one is twice as common in one of the parties.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import CorrelatedTopicModel

rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(80, 0.1), 3)
frame = pd.DataFrame({"year": rng.integers(1990, 2021, 300), "party": rng.choice(["left", "right"], 300)})
log_odds = np.column_stack([0.1 * (frame["year"] - 2005), 1.2 * (frame["party"] == "right"), np.zeros(300)])
shares = np.exp(log_odds + 0.5 * rng.standard_normal((300, 3)))
shares /= shares.sum(1, keepdims=True)
counts = np.array([rng.multinomial(200, share @ topics) for share in shares])

model = CorrelatedTopicModel(3, random_state=0).fit(counts, covariates=frame)
print(model.effects_.round(2))

# %%
# Expected proportions by year and party, with 90 % intervals; dots are the means of the true proportions of five years.
years = pd.DataFrame({"year": np.arange(1990, 2021, 3.0)})
order = np.argmin(np.abs(model.components_[:, None] - topics).sum(-1), axis=1)
span = frame["year"] // 5 * 5
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for party, colour in (("left", "C0"), ("right", "C1")):
    expected = model.expected_proportions(years.assign(party=party))
    true = pd.DataFrame(shares).assign(year=frame["year"])[frame["party"] == party].groupby(span).mean()
    for k, (ax, name) in enumerate(zip(axes, model.get_feature_names_out(), strict=True)):
        own = expected.loc[name]
        ax.plot(years["year"], own["mean"], color=colour, label=party)
        ax.fill_between(years["year"], own["lower"], own["upper"], color=colour, alpha=0.25, lw=0)
        ax.plot(true["year"], true[order[k]], "o", ms=3, color=colour)
        ax.set(title=f"topic {k}", xlabel="year")
axes[0].set_ylabel("expected proportion")
axes[0].legend()
plt.show()
