"""Checks of fitted topic models."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sksvi.families import Dirichlet, Point
from sksvi.families.base import Family
from sksvi.inference.memory.locals import Locals
from sksvi.models.base import Table
from sksvi.persistence.fitted.shared import shown
from sksvi.persistence.validator import Validator


def check_topics(look: Validator) -> None:
    """Check topics, and the population of documents."""
    v = look.at("n_features_in_").count(1)
    k = int(look.at("_record").at("choices").a(dict).value["n_components"])
    for place in (look.at("state_").at("q"),):
        place.require({"topics", "population"} <= place.a(dict).value.keys(), "has not the blocks of a topic model")
        topics, population = place.item("topics").a(Family), place.item("population").a(Family)
        topics.require(np.shape(topics.value.mean) == (k, v), f"has shape {np.shape(topics.value.mean)}, not {(k, v)}")
        population.at("sums").array((k, k))
    shown(look, "topics", (k, v))
    _check_first_documents(look, v)
    look.at("components_").array((k, v), least=0.0)
    look.at("topic_log_odds_").array((k - 1,))
    look.at("topic_covariance_").array((k - 1, k - 1))
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        w = k - 1
        widths = {w + more for square in (w, w * w) for more in (w, 2 * w, w + 2 * square, w + square)}
        found = local.at("values").array((None, None)).shape[1]
        local.require(found in widths, f"has {found} numbers for a document of {k} topics")


def _check_first_documents(look: Validator, words: int) -> None:
    """Check that documents that a stream stores have no more words than the model."""

    def ask(rows: Validator) -> None:
        counts = rows.a(Table).at("X").a(sp.csr_matrix)
        counts.require(counts.value.shape[1] <= words, f"has {counts.value.shape[1]} words, of {words}")

    look.unless_none("_first_rows", ask)


def check_lda(look: Validator) -> None:
    """Check topics, and the hyperparameters that are learned."""
    v = look.at("n_features_in_").count(1)
    k = int(look.at("_record").at("choices").a(dict).value["n_components"])
    dtype = look.at("_encoding").at("dtype")
    dtype.require(dtype.a(str).value in ("float32", "float64"), "is no type of floats")
    for place in (look.at("state_").at("q"),):
        place.require("topics" in place.a(dict).value, "has not the block of a topic model")
        topics = place.item("topics").a(Dirichlet)
        topics.require(np.shape(topics.value.mean) == (k, v), f"has shape {np.shape(topics.value.mean)}, not {(k, v)}")
        for name, sizes in (("alpha", (1, k)), ("eta", (1,))):
            if name in place.value:
                size = len(place.item(name).a(Point).at("value").array((None,)))
                place.item(name).require(size in sizes, f"has {size} numbers")
    shown(look, "topics", (k, v))
    _check_first_documents(look, v)
    look.at("components_").array((k, v), least=0.0)
    look.at("doc_topic_prior_").array((k,), least=0.0)
    look.at("topic_word_prior_").number(above=0.0)
    local = look.at("state_").at("locals")
    if isinstance(local.value, Locals):
        local.at("values").array((None, k), least=0.0)
    if look.has("_of_documents"):
        look.at("_of_documents").array((k, k))
