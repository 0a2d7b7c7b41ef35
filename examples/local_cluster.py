"""A logistic and a Poisson regression on rows that lie in partitions, on two worker processes of this machine.

The same lines fit to a cluster of many machines: only the client's address changes. Without a client they are an
out-of-core fit on this process. ``python -m examples.local_cluster [--rows 200000]``
"""

from __future__ import annotations

import argparse

import numpy as np

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

#: Effects that the rows are made with.
EFFECTS = np.array([1.0, -0.5, 0.25, 0.0])


def made(n: int, seed: int):
    """A partition: it is made where it is read, as a file would be read there."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(EFFECTS)))
    f = X @ EFFECTS
    names = [f"x{j}" for j in range(len(EFFECTS))]
    bought = np.where(rng.random(n) < 1 / (1 + np.exp(-f)), "yes", "no")
    return pd.DataFrame(X, columns=names).assign(visits=rng.poisson(np.exp(f)), bought=bought)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=8)
    options = parser.parse_args(arguments)

    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    here = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**here) as cluster, Client(cluster) as client:
        size = options.rows // options.partitions
        frame = dd.from_map(made, [size] * options.partitions, range(options.partitions), meta=made(1, 0).iloc[:0])
        X = frame[[f"x{j}" for j in range(len(EFFECTS))]]
        print(f"{frame.npartitions} partitions on {len(client.scheduler_info()['workers'])} workers")

        bought = BayesianGLMClassifier(random_state=0).fit(X, frame["bought"])
        print(f"bought: {bought.n_iter_} passes, accuracy {bought.score(X, frame['bought']):.3f}")
        print(bought.summary().round(3))

        visits = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(X, frame["visits"])
        intervals = visits.predict_interval(X, coverage=0.9)  # a collection, computed where its rows lie
        inside = (intervals["lower"] <= frame["visits"]) & (frame["visits"] <= intervals["upper"])
        print(f"visits: D² {visits.score(X, frame['visits']):.3f}, 90 % intervals hold {inside.mean().compute():.1%}")


if __name__ == "__main__":
    main()
