"""
Logistic regression with BayesianGLMClassifier
==============================================

:class:`sksvi.BayesianGLMClassifier` averages its probabilities over the posterior of the coefficients. A classifier
that plugs in one set of coefficients is too sure of itself, above all where rows are few.
"""

# %%
# Forty tumours to learn from, the others to test on.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sksvi import BayesianGLMClassifier, CoefficientDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()  # for the last figure alone: the fit does not need it
X, X_test, y, y_test = train_test_split(X, y, train_size=40, stratify=y, random_state=0)
model = BayesianGLMClassifier()
model.fit(X, y)

# %%
# The same coefficients, plugged in at their mean: the log odds without what is not known of them.
integrated = model.predict_proba(X_test)[:, 1]
mean, _ = model.predict_latent(X_test)
plugged_in = 1 / (1 + np.exp(-mean))
print(f"log loss: integrated {log_loss(y_test, integrated):.3f}, plugged in {log_loss(y_test, plugged_in):.3f}")

# %%
# Every integrated probability is nearer to one half.
fig, ax = plt.subplots(layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for label, name in enumerate(load_breast_cancer().target_names):
    own = (y_test == label).to_numpy()
    ax.plot(plugged_in[own], integrated[own], "o", markersize=4, alpha=0.6, label=name)
ax.set(xlabel="probability of benign, plugged in", ylabel="probability of benign, integrated")
ax.legend(frameon=False)

# %%
# Coefficients with 90 % intervals. Forty rows say little about thirty columns.
CoefficientDisplay.from_estimator(model)
plt.show()
