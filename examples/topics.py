"""Topics of documents, and which go together. `python -m examples.topics [--path FOLDER] [--components K]`.

FOLDER holds a folder of text files per group of documents, as 20 newsgroups is distributed
(`sklearn.datasets.fetch_20newsgroups` downloads it). Without one, 1,000 documents are simulated from topics in pairs
that go together; a word is named after the topic that uses it most. Prints the held-out score beside LDA's, the words
of the topics and the strongest correlations; draws `topic_graph.png` and `topic_words.png` into `demo-output/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_files
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sksvi import CorrelatedTopicModel, TopicGraphDisplay, TopicWordsDisplay
from sksvi.datasets import make_ctm
from sksvi.estimators.completion import halved

#: Topics of the simulated documents: each goes with its neighbour.
NAMES = ("health", "diet", "space", "rocket", "team", "league", "market", "law")
#: Documents that are simulated, passes of both models at most.
DOCUMENTS, PASSES = 1000, 30


def simulated() -> tuple[Any, np.ndarray]:
    """Counts and words of documents whose topics are known."""
    bunch = make_ctm(DOCUMENTS, 400, n_components=len(NAMES), n_words=200, random_state=0)
    owner = bunch.components.argmax(0)
    return bunch.data, np.array([f"{NAMES[k]}{j}" for j, k in enumerate(owner)], dtype=object)


def newsgroups(folder: Path) -> tuple[Any, np.ndarray]:
    """Counts of the words of at least twenty documents."""
    files = load_files(folder, encoding="latin-1")
    vectorizer = CountVectorizer(stop_words="english", min_df=20, max_df=0.3, token_pattern=r"(?u)\b[a-z]{3,}\b")
    return vectorizer.fit_transform(files.data), vectorizer.get_feature_names_out()


def completion(components: np.ndarray, proportions: np.ndarray, held: Any) -> float:
    """Mean log probability of the held-out words under the mixtures of topics."""
    rows = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    probability = np.einsum("ik,ki->i", proportions[rows], components[:, held.indices])
    return float(held.data @ np.log(probability) / held.sum())


def scores(model: CorrelatedTopicModel, train: Any, test: Any) -> pd.Series:
    """Held-out log probability per word: half of a test document's distinct words given the other half."""
    observed, held = halved(test)
    lda = LatentDirichletAllocation(model.n_components, max_iter=PASSES, random_state=0).fit(train)
    topics = lda.components_ / lda.components_.sum(1, keepdims=True)
    shares = (np.asarray(train.sum(0), float) + 0.01) / (train.sum() + 0.01 * train.shape[1])
    found = {
        "words' shares alone": completion(shares, np.ones((held.shape[0], 1)), held),
        "LatentDirichletAllocation": completion(topics, lda.transform(observed), held),
        "CorrelatedTopicModel": model.score(test),
    }
    return pd.Series(found, name="log p per word")


def strongest(model: CorrelatedTopicModel, words: np.ndarray, n: int = 6) -> pd.Series:
    """The pairs of topics whose log proportions are the most correlated, either way, by their first words."""
    names = [" ".join(row) for row in model.top_words(words, 2).to_numpy()]
    first, second = np.triu_indices(len(names), 1)
    values = model.topic_correlation_[first, second]
    order = np.argsort(-np.abs(values))[:n]
    index = [f"{names[first[i]]}, {names[second[i]]}" for i in order]
    return pd.Series(values[order], index=index, name="correlation")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, help="folder of folders of text files")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--components", type=int, default=None, help="topics; default: 8 simulated ones, else 30")
    options = parser.parse_args(argv)
    X, words = simulated() if options.path is None else newsgroups(options.path)
    train, test = train_test_split(X, random_state=0)
    K = options.components or (len(NAMES) if options.path is None else 30)
    model = CorrelatedTopicModel(K, max_iter=PASSES, tol=1e-3, random_state=0).fit(train)
    print(f"{train.shape[0]} documents, {train.shape[1]} words; {model.n_iter_} passes\n")
    print(scores(model, train, test).round(3).to_string(), "\n")
    print(model.top_words(words, 6).to_string(header=False), "\n")
    print(strongest(model, words).round(2).to_string())
    options.output.mkdir(parents=True, exist_ok=True)
    for name, display in {"topic_graph": TopicGraphDisplay, "topic_words": TopicWordsDisplay}.items():
        shown = display.from_estimator(model, feature_names=words)
        shown.figure_.savefig(options.output / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
