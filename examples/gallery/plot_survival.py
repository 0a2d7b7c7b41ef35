"""
Survival times and frailties with GMERegressor
==============================================

Patients of twelve clinics are followed until an event, or until the study ends: then the time is censored, known
to be longer. :class:`sksvi.GMERegressor` takes such times, and has an effect for each clinic, a frailty. The times are
simulated.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import CensoredData, ecdf, norm

from sksvi import GMERegressor, GroupEffectsDisplay

rng = np.random.default_rng(0)
clinic = np.repeat(np.arange(12), 20)
treated = rng.integers(0, 2, len(clinic))
frailty = 0.5 * rng.standard_normal(12)
months = 12 * np.exp(0.5 * treated + frailty[clinic]) * rng.weibull(1.5, len(clinic))
end = rng.uniform(6, 36, len(clinic))
X = pd.DataFrame(
    {"arm": np.where(treated, "treated", "control"), "clinic": [f"clinic {number:02d}" for number in clinic]}
)
y = pd.DataFrame({"time": np.minimum(months, end), "event": months <= end})
print(f"{np.mean(~y['event']):.0%} of the times are censored")

# %%
# y is a frame with columns ``time`` and ``event``. Coefficients multiply times, as in R's ``survreg``: here the
# treatment makes them exp(0.5) = 1.65 times as long, clinics spread by 0.5, and the scale is 1 / 1.5.
model = GMERegressor(likelihood="weibull", groups="clinic").fit(X, y)
print(model.summary()[["mean", "lower", "upper"]].round(2))
print(f"concordance {model.score(X, y):.2f}")
GroupEffectsDisplay.from_estimator(model)

# %%
# Left: both arms, averaged over clinics like these, beside the Kaplan-Meier estimate of all patients, which has no
# model. Right: treated patients of the two clinics with the shortest and the longest times. A band is the 90 % interval
# of P(time > t) under the posterior of f, at the mean of the scale; dashed are the curves that the times came from.
times = np.linspace(0, 36, 37)
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for color, arm in (("C0", "control"), ("C1", "treated")):
    new = pd.DataFrame({"arm": [arm], "clinic": ["a new one"]})
    axes[0].plot(times, model.predict_survival(new, times, include_groups="marginal")[0], color=color, label=arm)
    rows = y[X["arm"] == arm]
    seen = CensoredData(uncensored=rows["time"][rows["event"]], right=rows["time"][~rows["event"]])
    step = ecdf(seen).sf
    axes[0].step(step.quantiles, step.probabilities, where="post", color=color, lw=0.8, ls="--")
axes[0].set(title="a new clinic; dashed: Kaplan-Meier", xlabel="months", ylabel="P(time > t)", ylim=(0, 1))

order = model.group_effects_["mean"].droplevel(["group", "effect"]).sort_values().index
for color, name in (("C3", order[0]), ("C2", order[-1])):
    patient = pd.DataFrame({"arm": ["treated"], "clinic": [name]})
    mean, variance = model.predict_latent(patient)
    low, high = (1 - model.likelihood_.cdf(times, mean + sign * norm.ppf(0.95) * variance**0.5) for sign in (-1, 1))
    axes[1].fill_between(times, low, high, color=color, alpha=0.2, lw=0)
    axes[1].plot(times, model.predict_survival(patient, times)[0], color=color, label=name)
    truth = 12 * np.exp(0.5 + frailty[int(name.removeprefix("clinic "))])
    axes[1].plot(times, np.exp(-((times / truth) ** 1.5)), color=color, lw=0.8, ls="--")
axes[1].set(title="treated, in two clinics; dashed: truth", xlabel="months")
for ax in axes:
    ax.legend(frameon=False)
plt.show()

# sphinx_gallery_thumbnail_number = 2
