"""Other packages' Gaussian processes: scikit-learn's, and GPyTorch's and GPflow's where they are installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib.timing import Clock
from benchmarks.gp._data import Split, scores, timed_fit

# ---------------------------------------------------------------- data


# ---------------------------------------------------------------- measures


# ---------------------------------------------------------------- peers


def sklearn_gpr(split: Split, rows: int = 2000, seed: int = 0) -> dict[str, float]:
    """scikit-learn's exact GP on at most `rows` random training rows: ARD, learned noise, no restarts."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, y, Xt, yt = split
    part = np.random.default_rng(seed).permutation(len(X))[:rows]
    kernel = ConstantKernel(1.0) * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=0)
    spent = timed_fit(model, X[part], y[part])
    mean, sd = model.predict(Xt, return_std=True)
    return {**scores(yt, mean, sd**2), **spent}


def gpytorch_svgp(
    split: Split, n_inducing: int, epochs: int, every: int = 0, seed: int = 0
) -> Iterator[dict[str, float]]:
    """GPyTorch's SVGP as its tutorial on natural gradients has it: NGD 0.1 for q, Adam 0.01 for the rest, batch 1024.

    Inducing inputs start at random training rows and are learned. Scores every `every` epochs (0: at the end), their
    own time left out.
    """
    import gpytorch
    import torch

    torch.manual_seed(seed)
    X, y, Xt = (torch.from_numpy(part).float() for part in split[:3])
    start = torch.from_numpy(np.random.default_rng(seed).permutation(len(X))[:n_inducing])

    class SVGP(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, points: Any) -> None:
            q = gpytorch.variational.NaturalVariationalDistribution(points.size(0))
            strategy = gpytorch.variational.VariationalStrategy(self, points, q, learn_inducing_locations=True)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=points.size(1)))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = SVGP(X[start].clone()), gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(y), lr=0.1)
    adam = torch.optim.Adam([*model.hyperparameters(), *likelihood.parameters()], lr=0.01)
    clock, batch = Clock(), 1024
    for epoch in range(1, epochs + 1):
        model.train(), likelihood.train()
        with clock:
            for rows in torch.randperm(len(y)).split(batch):
                natural.zero_grad(), adam.zero_grad()
                loss = -bound(model(X[rows]), y[rows])
                loss.backward()
                natural.step(), adam.step()
        if epoch == epochs or (every and epoch % every == 0):
            model.eval(), likelihood.eval()
            with torch.no_grad():
                parts = [likelihood(model(rows)) for rows in Xt.split(4096)]
                mean = torch.cat([part.mean for part in parts]).double().numpy()
                variance = torch.cat([part.variance for part in parts]).double().numpy()
            yield {"epochs": epoch, **scores(split[3], mean, variance), **clock.spent}


def gpflow_sgpr(split: Split, n_inducing: int, iterations: list[int], seed: int = 0) -> Iterator[dict[str, float]]:
    """GPflow's SGPR (the simple bound, collapsed) by L-BFGS, inducing inputs learned; scores after so many steps each.

    Each number is a run of its own from the same start; its seconds include the compilation, as in any first fit.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import gpflow

    X, y, Xt, yt = split
    start = X[np.random.default_rng(seed).permutation(len(X))[:n_inducing]]

    def fitted(steps: int) -> tuple[Any, dict[str, float]]:
        kernel = gpflow.kernels.SquaredExponential(lengthscales=np.ones(X.shape[1]))
        model = gpflow.models.SGPR((X, y[:, None]), kernel, inducing_variable=start.copy(), noise_variance=0.1)
        with Clock() as clock:
            gpflow.optimizers.Scipy().minimize(
                model.training_loss, model.trainable_variables, options={"maxiter": steps}, compile=True
            )
        return model, clock.spent

    for steps in iterations:
        model, spent = fitted(steps)
        mean, variance = (part.numpy().ravel() for part in model.predict_y(Xt))
        yield {"steps": steps, **scores(yt, mean, variance), **spent}
