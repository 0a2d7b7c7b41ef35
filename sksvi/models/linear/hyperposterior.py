"""The posterior of the hyperparameters of a linear model, from the messages of one fit.

What the data said of the weights is a Gaussian factor t(w), the fit over its prior. Under other hyperparameters h the
evidence ∫ p(w | h) t(w) dw is a determinant and a quadratic form, in every structure that a precision has; times p(h)
it is the density that nodes are placed by. It is exact where the noise is Gaussian, whose variance scales the factor,
and of first order about the fit otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sksvi.families import NotPositiveDefinite, Point
from sksvi.families.gaussian.dense import gaussian
from sksvi.families.gaussian.mixture import NodeBlocks
from sksvi.integrals.nodes import STEP, Nodes, nodes_about, scattered, shape_about
from sksvi.integrals.unbounded import NEGLIGIBLE
from sksvi.models.linear.scales import log_half_cauchy

Array = np.ndarray

#: A standard deviation in logarithms below which a point is as good: it moves a predictive variance by its square.
SHARP = 0.1
#: The same where levels' effects are integrated: behind a link coefficients grow with what these vary.
SHARP_OF_LEVELS = 0.04
#: What a parameter may move weights by, in their deviations, where it has no nodes.
FOLLOWED = 0.3
#: Unit of the search for the highest density, which its first step moves by at most, in logarithms; in these units the
#: step of differences, the slope and the relative gain at which it ends, and its trials along a line.
UNIT, SEARCH = 0.2, {"eps": 0.25, "gtol": 0.02, "ftol": 1e-5, "maxls": 5}
#: Deviation of effects, in the unit of f, of levels that are as good as alike; share of what the density may fall by
#: towards an end that matters; and how far from the mode, in logarithms, that end is at least.
LEAST_GROUP_STD, SHARE_OF_END, CLEARLY_APART = 1e-3, 0.95, 2.0
#: Rows for each weight, of which fewer are looked at under the weights that a node has, whose bound they give: to first
#: order about others the density of parameters of their likelihood may grow without end.
FEW_ROWS = 5.0


@dataclass
class LinearHyperposterior:
    """Posterior of the hyperparameters that have a prior, as one vector h of the values of their blocks.

    Parameters
    ----------
    model : LinearModel
    q : dict
        The fitted blocks.
    bound : float
        Of the fit, nats.
    n : float
        Weight of the rows that the fit stands for.
    looks : Looked, optional
        Unconstrained parameters of a likelihood other than a Gaussian to what rows say there, at the best weights;
        None: the rows are not at hand, and these parameters are a point.
    levels : IntegratedLevels, optional
        Log density of hyperparameters, and weights, where rows tell more than messages do.
    """

    model: Any
    q: dict[str, Any]
    bound: float
    n: float
    looks: Any = None
    levels: Any = None

    def __post_init__(self) -> None:
        block = self.q[self.model.main]
        self.block = block if block.natural_coordinates else block.natural_form()
        self.q = {**self.q, self.model.main: self.block}
        scales = self.model.scales
        if scales is not None and "prior_precision" in self.q:
            point = self.q["prior_precision"]
            self.q["prior_precision"] = Point(np.clip(point.value, scales.lowest, scales.highest))
        self.prior = self.model.prior(self.q)[self.model.main]
        self.message = self.block.over(self.prior)

    # ---- the vector
    @cached_property
    def names(self) -> list[str]:
        """Blocks whose values are hyperparameters with a prior."""
        model, q = self.model, self.q
        names = ["prior_precision"] if "prior_precision" in q and model.scales is not None else []
        names += ["group_std"] if "group_std" in q else []
        learned = "likelihood" in q and (self.noise is not None or self.looks is not None)
        return names + (["likelihood"] if learned else [])

    @cached_property
    def noise(self) -> float | None:
        """The learned variance of Gaussian noise, None where there is none."""
        likelihood = self.model.current_likelihood(self.q)
        return likelihood.noise_variance if "likelihood" in self.q else None

    @cached_property
    def mode(self) -> Array:
        """h of the fit, (H,)."""
        return np.concatenate([np.ravel(self.q[name].value) for name in self.names]) if self.names else np.empty(0)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Slices of h that hold the values of each block."""
        ends = np.cumsum([self.q[name].value.size for name in self.names]).tolist()
        return {n: slice(end - self.q[n].value.size, end) for n, end in zip(self.names, ends, strict=True)}

    @cached_property
    def free(self) -> Array:
        """Which of them may move, (H,): not a scale between limits that meet, nor cut points as the intercept does."""
        free = np.ones(len(self.mode), bool)
        if "likelihood" in self.places and self.model.fit_intercept and self.model.likelihood.scales.collinear:
            free[self.places["likelihood"].start] = False
        if "prior_precision" in self.places:
            free[self.places["prior_precision"]] = self.model.scales.free
        return free

    def limits(self) -> tuple[Array, Array]:
        """Ends of the support, (H,) each."""
        low, high = np.full(len(self.mode), -np.inf), np.full(len(self.mode), np.inf)
        if "prior_precision" in self.places:
            at = self.places["prior_precision"]
            low[at], high[at] = self.model.scales.lowest, self.model.scales.highest
        if "group_std" in self.places:
            low[self.places["group_std"]] = self._lowest_group_std()
        return low, high

    def _lowest_group_std(self) -> Array:
        """Where the support of each log deviation of effects ends, (V,): -inf where they clearly vary.

        Towards none the density falls as slowly as the deviation itself: it ends where it has fallen enough to be left
        out, and little enough that nodes follow it up to there.
        """
        groups, at = self.model.groups, self.places["group_std"]
        mode, top, out = self.mode[at], self(self.mode), np.full(groups.n_values, -np.inf)
        for k in range(groups.n_scales):
            h = self.mode.copy()
            h[at][k] = least = min(np.log(LEAST_GROUP_STD * self.model.unit), mode[k])
            end = least + max(top - self(h) - SHARE_OF_END * NEGLIGIBLE, 0.0)
            out[k] = end if end < mode[k] - CLEARLY_APART else -np.inf
        return out

    def blocks_at(self, h: Array) -> dict[str, Any]:
        """The blocks of q with the hyperparameters h."""
        values = {name: Point(h[at].reshape(self.q[name].value.shape)) for name, at in self.places.items()}
        return {**self.q, **values}

    def information(self, q: dict[str, Any]) -> float:
        """What the data weigh under the hyperparameters of q, over what they weigh in the fit."""
        if "likelihood" not in self.places or self.noise is None:
            return 1.0
        return float(self.noise / self.model.current_likelihood(q).noise_variance)

    # ---- the density
    def _expected_message(self, weights: Any, message: Any) -> float:
        """E under some weights of a message about them, the log of t(w), nats."""
        linear, precision = message.added()
        quadratic = weights.structure.expected_quadratic(precision, weights.mean, weights)
        return float(np.sum(linear * weights.mean) - 0.5 * quadratic)

    @cached_property
    def _squares(self) -> float:
        """Σ (y - offset)² in units of the fitted noise, from the bound of the fit."""
        value = self.bound + self.block.kl(self.prior) - self._log_prior(self.q)
        value += sum(self.q[name].penalty() for name in ("likelihood",))
        residual = -2.0 * value - self.n * np.log(2.0 * np.pi * self.noise)  # type: ignore[operator]
        return float(residual + 2.0 * self._expected_message(self.block, self.message))

    def _log_prior(self, q: dict[str, Any]) -> float:
        return float(sum(rule.log_density(q) for rule in self.model.hyper.values()))

    def _noise_outside_bound(self, q: dict[str, Any]) -> float:
        """Log density of noise where the bound of the fit has none, nats."""
        apart = "likelihood" in self.places and self.noise is not None and "prior_precision" not in self.model.hyper
        return float(self.model.noise_density(q)[0]) if apart else 0.0

    def _log_evidence(self, q: dict[str, Any], power: float = 1.0, prior_power: Array | None = None) -> float:
        """Log evidence of the data under the hyperparameters of q, nats, weights and noise integrated out, up to a
        constant.

        `power`: of the likelihood. `prior_power`: of the prior of every weight.
        """
        prior, information = self.model.prior(q)[self.model.main], self.information(q)
        if prior_power is not None:
            prior = gaussian(prior.mean, prior.structure.scaled(prior.precision, prior_power))
        share = power * information
        if "likelihood" in self.places and self.noise is None:
            theta = q["likelihood"].value
            rows = self.looks(theta)
            if self.n < FEW_ROWS * self.block.mean.size:
                rows = self.looks.look(theta, prior.times(rows.message.faded(share)))._replace(message=rows.message)
            spared = rows.value - self._expected_message(rows.block, rows.message)
            return float(prior.log_evidence(rows.message, share) + power * spared)
        total = prior.log_evidence(self.message, share)
        if "likelihood" in self.places:
            total += 0.5 * power * self.n * np.log(information) - 0.5 * share * self._squares
        return float(total)

    @cached_property
    def _reference(self) -> float:
        return self._log_evidence(self.q)

    @cached_property
    def _prior_paid(self) -> float:
        return self._log_prior(self.q)

    def __call__(self, h: Array) -> float:
        """log evidence + log prior at h, nats: at the mode the bound of the fit."""
        if self.levels is None:
            return self._by_messages(h)
        here = self.blocks_at(np.where(self._from_rows, h, self.mode))
        return self._by_messages(np.where(self._from_rows, self.mode, h)) - self.bound + self.levels.log_density(here)

    @cached_property
    def _from_rows(self) -> Array:
        """Which hyperparameters rows are asked of where messages do not tell, (H,)."""
        found = np.ones(len(self.mode), bool)
        found[self.places.get("prior_precision", slice(0))] = False
        return found

    def _by_messages(self, h: Array) -> float:
        """The density as the messages of the fit have it."""
        q = self.blocks_at(h)
        try:
            moved = self._log_evidence(q) - self._reference
        except NotPositiveDefinite:  # messages of a fit that has not settled, under a prior too flat for them
            return -np.inf
        return self.bound + moved + self._log_prior(q) + self._noise_outside_bound(q) - self._prior_paid

    def log_stated_prior(self, h: Array) -> float:
        """Log density of the hyperparameters in the coordinates of their prior, deviations, nats, up to a constant.

        A power of a density depends on its coordinates, and those of h are logarithms.
        """
        q = self.blocks_at(h)
        log_jacobian = self.model.current_likelihood(q).scales.log_jacobian if "likelihood" in self.places else 0.0
        log_jacobian -= 0.5 * float(np.sum(h[self.places.get("prior_precision", slice(0))]))
        if "group_std" in self.places:
            log_jacobian += self.model.groups.log_jacobian(h[self.places["group_std"]])
        return self._log_prior(q) + self._noise_outside_bound(q) - log_jacobian

    def log_ratio(self, h: Array, prior: float, likelihood: float, scaled: Array) -> float:
        """Log of the density at h under powers of prior and likelihood over that without, nats, up to a constant.

        `scaled`: which weights have a prior that the power is of, bool of their shape.
        """
        q = self.blocks_at(h)
        moved = self._log_evidence(q, likelihood, np.where(scaled, prior, 1.0)) - self._log_evidence(q)
        return moved + (prior - 1.0) * self.log_stated_prior(h)

    # ---- nodes
    def nodes(self, settled: Callable[[Array], float] | None = None) -> Nodes | None:
        """Few nodes; None where no hyperparameter is free.

        Parameters
        ----------
        settled : callable, optional
            Log standard deviations of the groups to the bound of the best q of the weights there, nats: what the
            messages of the fit alone make too narrow.
        """
        free = self.free
        if not free.any():
            return None
        low, high = self.limits()

        def along(part: Array) -> float:
            h = self._whole(part)
            stayed = h.copy()
            stayed[self.places["group_std"]] = self.mode[self.places["group_std"]]
            # Messages say how the other hyperparameters fall.
            return self(stayed) - self.bound + settled(h[self.places["group_std"]])  # type: ignore[misc]

        found = nodes_about(
            lambda part: self(self._whole(part)),
            self.mode[free],
            None,
            low[free],
            high[free],
            self._sharp()[free],
            None if settled is None else along,
        ).few()
        values = np.stack([self._whole(part) for part in found.values])
        within = np.zeros(len(free))
        within[free] = 0.0 if found.within is None else found.within
        return Nodes(values, found.weights, found.log_integral, within)

    def _sharp(self) -> Array:
        """Standard deviations (H,) below which a point is as good; of parameters that weights follow they are small."""
        sharp = np.full(len(self.mode), SHARP if self.levels is None else SHARP_OF_LEVELS)
        if self.levels is None and self.noise is None and "likelihood" in self.places:
            at = self.places["likelihood"]
            for k in range(at.start, at.stop):
                there = self._weights_at(self.blocks_at(self.mode + STEP * (np.arange(len(sharp)) == k)))
                moved = np.max(np.abs(there.mean - self.block.mean) / self.block.std)
                sharp[k] /= max(1.0, moved * SHARP / (STEP * FOLLOWED))
        return sharp

    def _weights_at(self, q: dict[str, Any]) -> Any:
        """The weights where rows are looked at for hyperparameters."""
        if self.levels is not None:
            return self.levels.weights(q)
        return self.model.prior(q)[self.model.main].times(self.looks(q["likelihood"].value).message)

    def highest(self) -> Array:
        """h of the highest density among those that rows are asked of, from the mode of the fit."""
        own = np.flatnonzero(self._from_rows)

        def at(z: Any) -> Array:
            h = self.mode.copy()
            h[own] += UNIT * z
            return h

        return at(minimize(lambda z: -self(at(z)), np.zeros(len(own)), method="L-BFGS-B", options=SEARCH).x)  # type: ignore[call-overload]

    def _whole(self, part: Array) -> Array:
        """h of those of its values that are free."""
        h = self.mode.copy()
        h[self.free] = part
        return h

    def points(self, n: int) -> Nodes:
        """n points that follow the density, tails and narrow axes too, where `nodes` are a few of wide ones."""
        free = self.free
        low, high = (end[free] for end in self.limits())
        shape = shape_about(lambda part: self(self._whole(part)), self.mode[free], None, low, high)
        found = shape.nodes(scattered(shape.axes.shape[1], n))
        return Nodes(np.stack([self._whole(part) for part in found.values]), found.weights)

    def log_evidence(self, nodes: Nodes | None) -> float:
        """Log evidence of the data, nats, integrated over the nodes and over each column's own scale."""
        model, total = self.model, self.bound if nodes is None else nodes.log_integral
        if "prior_precision" not in self.q or model.prior_precision != "ard" or not model.n_fixed:
            return float(total)
        d, relative_scale = model.n_fixed, model.relative_scale
        mean, variance = (model.by_latent(part)[:, :d] for part in (self.block.mean, self.block.variance))
        unit = model.unit * model.likelihood.link_unit
        h = self.q["prior_precision"].value
        return float(total + integrated_gain(h, relative_scale * mean, np.square(relative_scale) * variance, unit))

    def under(self, nodes: Nodes) -> NodeBlocks:
        """The weights' block under every node."""
        blocks = [self.blocks_at(h) for h in nodes.values]
        priors = [self.model.prior(q)[self.model.main].precision for q in blocks]
        shares = np.array([self.information(q) for q in blocks])
        precision, mean = self.prior.precision, self.prior.mean
        by_node = np.array(priors) if isinstance(precision, np.ndarray) else priors
        by_rows = self.levels is not None or ("likelihood" in self.places and self.noise is None)
        found = [self._weights_at(q) for q in blocks] if by_rows else None
        return NodeBlocks(
            self.block, mean, precision, by_node, shares, nodes.weights, found, self.model.widening(self.q)
        )


# ---- the log evidence of scales that each column has for itself
# With the other scales at theirs, the data say of coefficient w_j a Gaussian factor of precision P_j and linear term
# b_j, and log ∫ N(w_j | 0, exp(-h)) exp(b_j w_j - P_j w_j² / 2) dw_j = ½ log(δ / (δ + P_j)) + ½ b_j² / (δ + P_j), δ =
# exp(h) (Tipping & Faul 2003, eq. 20). Integrated over a prior of h this says what the choice of δ_j costs, a column
# at a time.
#: Scale of the half-Cauchy prior of the deviation of f that a column makes, in units of f, over √D: measured
#: (`benchmarks glm.ranks`).
SCALE = 0.3
#: Logarithms of a scale between which the prior has all of its mass but a ten thousandth, and their step.
REACH, APART = 9.5, 0.25


def integrated_gain(h: Array, mean: Array, variance: Array, unit: float) -> float:
    """Log of the integral over the columns' scales, over the value at those of the fit, nats.

    Parameters
    ----------
    h : ndarray of shape (D,)
        Log precisions of the fit, of coefficients on the spread of their columns.
    mean, variance : ndarray of shape (K, D)
        Of these coefficients under q, for each latent.
    unit : float
        Unit of f.

    Returns
    -------
    float
        Below 0 where h is the best: what an average over the prior loses to it.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.hyperposterior import integrated_gain
    >>> h, information = np.full(1, 20.0), 50.0  # of a column that the fit has no use for
    >>> variance = np.full((1, 1), 1.0 / (np.exp(20.0) + information))
    >>> print(round(integrated_gain(h, np.zeros((1, 1)), variance, 1.0), 2))
    -1.11
    """
    information, linear = np.maximum(1.0 / variance - np.exp(h), 0.0), mean / variance

    def value(at: Array) -> Array:
        precision = np.exp(at) + information
        return 0.5 * np.sum(at - np.log(precision) + np.square(linear) / precision, axis=0)

    # A standard deviation of a column, half of its spread, gives f this deviation under the median of the prior.
    middle = np.log(2.0 * unit * SCALE / np.sqrt(len(h)))
    moves = np.arange(-REACH, REACH + APART / 2.0, APART)
    weight = np.exp(log_half_cauchy(np.exp(2.0 * moves)))
    fitted, total = value(h), np.full(len(h), -np.inf)
    for move, share in zip(moves, weight / weight.sum(), strict=True):
        total = np.logaddexp(total, np.log(share) + value(np.full(len(h), -2.0 * (middle + move))))
    return float(np.sum(total - fitted))
