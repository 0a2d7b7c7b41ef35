"""
Text classification with BayesianGLMClassifier
==============================================

A few hundred documents, thousands of words: with ``covariance="low-rank"`` :class:`sksvi.BayesianGLMClassifier` costs
little more than a point estimate, and its probabilities mean what they say.
"""

# %%
# Descriptions of SciPy's functions, which lie on every machine that runs this. To which part does each belong?
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sksvi import BayesianGLMClassifier, CoefficientDisplay


def described(part):
    module = importlib.import_module(f"scipy.{part}")
    found = (inspect.getdoc(getattr(module, name)) or "" for name in module.__all__)
    return [text.replace(f"scipy.{part}", "") for text in found if len(text) > 100]


parts = ["linalg", "ndimage", "optimize", "signal", "special", "stats"]
texts = [text for part in parts for text in described(part)]
labels = np.array([part for part in parts for _ in described(part)])
train, test, y, y_test = train_test_split(texts, labels, train_size=300, stratify=labels, random_state=0)
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=3)
X, X_test = vectorizer.fit_transform(train), vectorizer.transform(test)

# %%
# Nothing is tuned, in either.
models = {
    'BayesianGLMClassifier(covariance="low-rank")': BayesianGLMClassifier(covariance="low-rank"),
    "LogisticRegression()": LogisticRegression(),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name}: log loss {log_loss(y_test, model.predict_proba(X_test)):.3f} of {len(y_test)} new documents")

# %%
# Of the documents to which a class is given with some probability, what share has it? Every class of every document
# counts; points are tenths of the range of probabilities.
fig, ax = plt.subplots(layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for name, model in models.items():
    p = model.predict_proba(X_test).ravel()
    own = (y_test[:, None] == model.classes_).ravel()
    bins = np.minimum((10 * p).astype(int), 9)
    at = [b for b in range(10) if np.sum(bins == b) >= 10]
    ax.plot([p[bins == b].mean() for b in at], [own[bins == b].mean() for b in at], "o-", markersize=5, label=name)
ax.set(xlabel="probability of the class", ylabel="share of the class")
ax.legend(frameon=False)

# %%
# The words that speak most for each class, with 90 % intervals of their coefficients. A document's probabilities are
# certain long before a single word's coefficient is: the intervals hold 0, and the ranking still makes sense.
model = models['BayesianGLMClassifier(covariance="low-rank")']
fitted = make_pipeline(vectorizer, model)
fig, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained", sharex=True)
for ax, part in zip(axes.ravel(), parts, strict=True):
    CoefficientDisplay.from_estimator(fitted, class_name=part, max_features=6, ax=ax)
    ax.get_legend().remove()
    ax.set_title(part)
    ax.set_title("", loc="left")
    ax.set_xlabel("")
fig.supxlabel("coefficient, 90 % interval")

# %%
# Documents of a class that the fit never had: the largest probability is lower than usual. That is a hint to look at
# them; label some and fit again.
new = model.predict_proba(vectorizer.transform(described("sparse"))).max(axis=1)
fig, ax = plt.subplots(layout="constrained")
for p, name in ((model.predict_proba(X_test).max(axis=1), "classes of the fit"), (new, "scipy.sparse, a new class")):
    ax.hist(p, np.linspace(0, 1, 21), density=True, alpha=0.5, label=name)
ax.set(xlabel="largest probability", ylabel="density")
ax.legend(frameon=False)
plt.show()
