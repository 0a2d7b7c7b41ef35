"""
A hierarchical Poisson model with network.Network
=================================================

Counts in 40 places, whose log rates vary about a common centre. :class:`sksvi.network.Network` takes nodes and what
they are distributed as.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sksvi.network import Gamma, Gaussian, Likelihood, Network

rng = np.random.default_rng(0)
rates = rng.normal(1.0, 0.7, 40)
y = rng.poisson(np.exp(rates))
network = Network(
    {
        "centre": Gaussian(0.0, 0.01),
        "precision": Gamma(1.0, 1.0),
        "log_rate": Gaussian("centre", "precision", size=40),
        "y": Likelihood("poisson", "log_rate"),
    }
).fit({"y": y})
centre, precision = network.posterior_["centre"], network.posterior_["precision"]
print(f"centre {centre.mean[0]:.2f} ± {centre.std[0]:.2f}; bound {network.lower_bound_:.1f} nats")

# %%
# Rates are drawn towards the centre, those of small counts the most.
rate = network.posterior_["log_rate"]
order = np.argsort(y, kind="stable")
fig, ax = plt.subplots(layout="constrained")
ax.errorbar(range(40), rate.mean[order], 1.645 * rate.std[order], fmt="o", markersize=4, lw=1, label="posterior, 90 %")
ax.plot(range(40), rates[order], "x", color="C3", label="truth")
ax.axhline(centre.mean[0], color="0.6", lw=1, linestyle="--", label="centre")
ax.set(xlabel="place, by its count", ylabel="log rate")
ax.legend(frameon=False)
plt.show()
