"""
Topic modelling with StructuredLDA
==================================

:class:`sksvi.StructuredLDA` on the descriptions of scikit-learn's data sets, cut into paragraphs: words go in by name,
and every probability has an interval.
"""

# %%
import matplotlib.pyplot as plt
from sklearn import datasets
from sklearn.feature_extraction.text import CountVectorizer

from sksvi import StructuredLDA, TopicWordsDisplay

names = ("iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud")
texts = [getattr(datasets, f"load_{name}")().DESCR for name in names]
paragraphs = [part for text in texts for part in text.split("\n\n") if len(part.split()) > 8]
vectorizer = CountVectorizer(stop_words="english", token_pattern=r"[a-z]{4,}", min_df=2)
counts = vectorizer.fit_transform(paragraphs)
words = vectorizer.get_feature_names_out()
model = StructuredLDA(4, random_state=0).fit(counts, feature_names=words)
print(f"{len(paragraphs)} paragraphs, {len(words)} words")
print(model.top_words(words, 5))

# %%
# The words of each topic. So few paragraphs leave much open.
TopicWordsDisplay.from_estimator(model, n_words=6)

# %%
# What one paragraph is about, with 90 % intervals.
interval = model.proportion_interval(counts[:1], coverage=0.9, feature_names=words)[0]
share = model.transform(counts[:1], feature_names=words)[0]
fig, ax = plt.subplots(layout="constrained")
ax.errorbar(range(4), share, [share - interval[:, 0].clip(max=share), interval[:, 1].clip(min=share) - share], fmt="o")
ax.set(xlabel="topic", ylabel="share of the first paragraph", xticks=range(4), ylim=(-0.02, 1.02))
plt.show()
