"""Counts of unseen columns from those seen: images of digits, words of news, MNIST; by this model and by others.

About half of the columns, the same for all test rows, are seen. Every method's components are folded in by the same
rule, this model's posterior of a row at given components; those of other methods are taken as known.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf._data import peer, timed
from sksvi.families import Gamma, Point
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.nmf.density import log_negative_binomial, log_poisson, moments_of
from sksvi.models.nmf.poisson import GammaPoisson

#: Data, components, seeds.
SETS = {"digits": (20, 5), "ap": (20, 5), "mnist": (100, 1)}
#: Shape of a component's cell that is as good as known, and the least that a method's components are taken for.
KNOWN, LEAST = 1e8, 1e-12
SHAPE = 0.3
TITLE = "Completion of counts"
NOTES = [
    "digits: scikit-learn's, 1,437 to fit, 360 to score; ap: Associated Press, 1,800 documents to fit, 446 to score; "
    "mnist: 60,000 images of 784 pixels to fit, 500 to score, in batches of 100. Log probability of the columns that "
    "were not seen, nats per cell (ap: per word). plug-in: Poisson at the posterior mean; averaged: integrated over q "
    "(a negative binomial of its first two moments). NMF: scikit-learn's, Kullback-Leibler, 200 iterations. CPU "
    "seconds of one thread, of the fit; a fit in batches ends with a look at all rows. hpfrec, poismf: where "
    "installed, with their own defaults and 100 iterations (hpfrec)."
]


def counts(name: str, seed: int = 0) -> tuple[Any, Any, Array]:
    """Training rows, test rows, and which columns are seen: the split of every method."""
    rng = np.random.default_rng(seed)
    if name == "digits":
        from sklearn.datasets import load_digits

        X = load_digits().data
        order = rng.permutation(len(X))
        train, test = sp.csr_matrix(X[order[:1437]]), sp.csr_matrix(X[order[1437:]])
    elif name == "ap":
        with np.load(data_folder() / "text" / "ap_blei.npz", allow_pickle=True) as z:
            X = sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"]).astype(float)
        order = rng.permutation(X.shape[0])
        train, test = X[order[:1800]].tocsr(), X[order[1800:]].tocsr()
    else:
        with np.load(data_folder() / "images" / "mnist.npz") as z:
            train, test = (
                sp.csr_matrix(z[key].reshape(len(z[key]), -1).astype(float)) for key in ("x_train", "x_test")
            )
        test = test[:500]
    return train, test, rng.random(train.shape[1]) < 0.5


def known_of(test: Any, seen: Array) -> CountMatrix:
    """The columns of test rows that are seen."""
    counts = sp.csr_matrix(test @ sp.diags_array(seen.astype(float), format="csr"))
    counts.eliminate_zeros()
    return CountMatrix(counts, np.broadcast_to(seen, test.shape))


def scores(
    activations: Array, covariance: Array, components: Gamma, test: Any, seen: Array, per_word: bool
) -> dict[str, float]:
    """Plug-in and averaged log probability of what is not seen, per cell or per word."""
    y = test.toarray()[:, ~seen]
    mean, variance = moments_of(activations, covariance, components[:, ~seen])
    size = y.sum() if per_word else y.size
    averaged = log_negative_binomial(y, mean, variance)
    return {"plug-in": float(log_poisson(y, mean).sum() / size), "averaged": float(averaged.sum() / size)}


def ours(model: Any, test: Any, seen: Array, per_word: bool) -> dict[str, float]:
    """Of a fit of this library."""
    known = known_of(test, seen)
    shape, rate = model._activations(known)
    covariance = model._covariances(known, shape, rate)
    return scores(shape / rate, covariance, model.posterior_["components"], test, seen, per_word)


def folded_in(W: Array, activations: Array, test: Any, seen: Array, per_word: bool) -> dict[str, float]:
    """Of known components (K, F), by the same posterior of rows; the rate of its prior from the training rows."""
    W = np.maximum(W, LEAST * W.max())
    q = {
        "components": Gamma(np.full(W.shape, KNOWN), KNOWN / W),
        "activation_rate": Point(np.log([SHAPE / activations.mean()])),
    }
    model = GammaPoisson(*W.shape, activation_shape=SHAPE)
    known = known_of(test, seen)
    shape, rate = model.rows(q, known, 1)  # type: ignore[arg-type]
    covariance = model.covariances(q, known, shape, rate, 1)  # type: ignore[arg-type]
    return scores(shape / rate, covariance, q["components"], test, seen, per_word)


def hpfrec(K: int, X: Any, seed: int) -> tuple[Array, Array]:
    """Components and activations of hierarchical Poisson factorization."""
    import pandas as pd
    from hpfrec import HPF

    table = sp.coo_matrix(X)
    frame = pd.DataFrame({"UserId": table.row, "ItemId": table.col, "Count": table.data})
    model = HPF(k=K, maxiter=100, ncores=1, random_seed=seed, verbose=False, reindex=True, keep_all_objs=True)
    model.fit(frame)
    W = np.zeros((X.shape[1], K))
    W[np.asarray(model.item_mapping_, int)] = model.Beta
    return W.T, np.asarray(model.Theta)


def poismf(K: int, X: Any, seed: int) -> tuple[Array, Array]:
    """Components and activations of Poisson factorization with penalties."""
    from poismf import PoisMF

    model = PoisMF(k=K, nthreads=1, random_state=seed, reindex=False)
    model.fit(sp.coo_matrix(X))
    return np.asarray(model.B).T, np.asarray(model.A)


def of_peer(name: str, K: int, X: Any, seed: int, iterations: int) -> tuple[Array, Array]:
    """Components and activations of a method."""
    if name == "NMF":
        model = peer(K, iterations).set_params(random_state=seed, init="random")
        return (model.fit(X).components_, model.transform(X))
    return {"hpfrec": hpfrec, "poismf": poismf}[name](K, X, seed)


def main(quick: bool = False) -> None:
    from sksvi import GammaPoissonFactorization

    rows: list[dict[str, Any]] = []
    for name, (K, seeds) in {"digits": SETS["digits"]}.items() if quick else SETS.items():
        train, test, seen = counts(name)
        per_word = name == "ap"
        timed(GammaPoissonFactorization(3, max_iter=2, n_jobs=1), train[:60])
        timed(GammaPoissonFactorization(3, max_iter=2, n_jobs=1, batch_size=30), train[:60])
        for seed in range(1 if quick else seeds):
            fits = [(most, "auxiliary") for most in ((1, 2) if name == "mnist" else (3 if quick else 200,))]
            fits += [(100, "tight")] if name == "digits" and seed < 2 and not quick else []
            for most, bound in fits:
                model = GammaPoissonFactorization(
                    K, bound=bound, max_iter=most, uncertainty="variational", random_state=seed, n_jobs=1
                )
                model.set_params(tol=0.0) if name == "mnist" else None
                method = f"{most} passes at most" + (", tight" if bound == "tight" else "")
                made: dict[str, Any] = {"data": name, "K": K, "method": method, "seed": seed}
                made["CPU seconds"] = timed(model, train)
                made |= ours(model, test, seen, per_word) | {"passes": model.n_iter_, "bound": model.lower_bound_}
                rows.append(made)
                progress(made)
                report("nmf/poisson", TITLE, rows, NOTES, quick)
            for other in () if name == "mnist" else ("NMF",) if quick else ("NMF", "hpfrec", "poismf"):
                made = {"data": name, "K": K, "method": other, "seed": seed}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    start = time.process_time()
                    try:
                        W, H = of_peer(other, K, train, seed, 5 if quick else 200)
                    except ImportError:
                        continue
                    made["CPU seconds"] = time.process_time() - start
                rows.append(made | folded_in(W, H, test, seen, per_word))
                progress(rows[-1])
                report("nmf/poisson", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
