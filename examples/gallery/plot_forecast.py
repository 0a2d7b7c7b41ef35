"""
Forecasting daily counts with DynamicGLM
========================================

Bike rentals by day: a level that moves and a week, under a negative binomial. :class:`sksvi.DynamicGLM` forecasts on
the continued index, and its fan says how far ahead it can be trusted.
"""

# %%
# Hours become days. Some days were not measured in full; they are left as they are.
import matplotlib.pyplot as plt
import pandas as pd

from sksvi import DynamicGLM, TimeSeriesDisplay
from sksvi.datasets import load_bike_sharing

bikes = load_bike_sharing()
weekday = bikes.data["weekday"].astype(str)
day = (weekday != weekday.shift()).cumsum() - 1
rentals = bikes.target.groupby(day.to_numpy()).sum().astype(float)
rentals.index = pd.date_range("2011-01-01", periods=len(rentals), freq="D")
known, came = rentals[200:400], rentals[400:428]

model = DynamicGLM(likelihood="negative-binomial", seasonal=7).fit(None, known)
table = model.forecast(28, coverage=0.9)
inside = came.between(table["lower"], table["upper"]).mean()
print(f"{inside:.0%} of the next {len(came)} days lie inside their 90 % interval")
print(table.head(3).round())

# %%
# The fan, and what came.
display = TimeSeriesDisplay.from_estimator(model, steps=28, last=70)
display.ax_.plot(came.index, came, "x", color="C3", markersize=5, label="what came")
display.ax_.set_ylabel("rentals per day")
display.ax_.legend(frameon=False)

# %%
# The parts: the level in the log, and the week.
TimeSeriesDisplay.from_estimator(model, kind="components")
plt.show()
