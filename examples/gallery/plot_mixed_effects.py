"""
Mixed-effects Poisson regression with GMERegressor
==================================================

In a trial of epilepsy 59 patients counted their seizures four times. :class:`sksvi.GMERegressor` gives every patient an
effect of its own, and shares what it learns among them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sksvi import BayesianGLMRegressor, GMERegressor, GroupEffectsDisplay
from sksvi.datasets import load_epilepsy

trial = load_epilepsy()
X = pd.DataFrame(
    {
        "log baseline": np.log(trial.data["baseline"] / 4),
        "progabide": (trial.data["treatment"] == "progabide").astype(float),
    }
)
with_patient = X.assign(patient=trial.data["subject"].astype(int))
first = (trial.data["period"].astype(int) < 4).to_numpy()

model = GMERegressor(likelihood="poisson", groups="patient").fit(with_patient[first], trial.target[first])
print(model.summary()[["mean", "lower", "upper"]].round(2))

# %%
# The effects of the patients, on the log rate.
GroupEffectsDisplay.from_estimator(model)

# %%
# The last visit of each patient, predicted from the first three: by the columns alone, and with the patient's effect.
plain = BayesianGLMRegressor(likelihood="negative-binomial").fit(X[first], trial.target[first])
came = trial.target[~first]
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
for ax, name, fit, rows in ((axes[0], "columns alone", plain, X), (axes[1], "with patients", model, with_patient)):
    low, high = fit.predict_interval(rows[~first]).T
    mean = fit.predict(rows[~first])
    density = fit.log_predictive_density(rows[~first], came).mean()
    ax.errorbar(came, mean, [mean - np.minimum(low, mean), np.maximum(high, mean) - mean], fmt="o", ms=3, lw=0.7)
    ax.plot([0, 100], [0, 100], color="0.7", lw=1)
    ax.set(title=f"{name}: {density:.2f} nats a visit", xlabel="seizures that came")
    ax.set(xscale="symlog", yscale="symlog", xlim=(-0.5, 120), ylim=(-0.5, 250))
axes[0].set_ylabel("predicted, with 90 % interval")
plt.show()

# sphinx_gallery_thumbnail_number = 2
