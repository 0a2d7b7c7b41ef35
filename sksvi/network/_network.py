"""The network as users see it: structure, fit, posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sksvi import schedules
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import ArrayLike, DataFrame, RandomState, Schedule
from sksvi.algorithms import CVI
from sksvi.estimators import fit_warnings
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.summary_text import counted, page
from sksvi.families.base import Family, Message
from sksvi.inference import plan
from sksvi.inference.engine import exact_bound
from sksvi.inference.passes.line_search import in_whole_nats
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.inference.state import NonFinite, State
from sksvi.models.base import Blocks
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.model import Factor, NetworkModel, NetworkRows
from sksvi.network._build import Built, check_structure
from sksvi.partitions.collections import is_collection

#: By how much Gaussian nodes are narrowed at a time until the first bound is a number, and how often at most.
NARROWING, NARROWINGS = 4.0, 20
#: Least precision that a Gaussian node begins with: exp(f) of a wide one is no number.
LEAST_PRECISION = 1.0


class Decay(NamedTuple):
    """The parameter that makes the density of a node fall: its name, and its values in a family."""

    name: str
    of: Callable[[Any], Any]


#: By family of a node.
DECAY = {
    "gaussian": Decay("precision", lambda block: 1.0 / block.variance),
    "gamma": Decay("rate", lambda block: block.rate),
}
#: Share of its prior's below which factors have undone that.
UNDONE = 1e-6


class Network:
    """A mean-field network: q is a product over nodes, and every factor sends its nodes messages.

    The log joint density of nodes x and data is a sum of terms: of every node, or datum, given its parameters, and of
    `factors`. q(x) = Π q_i(x_i) maximises the bound E_q [Σ terms] - E_q log q on the log evidence. Node i steps to
    natural parameters (1 - ρ) θ_i + ρ Σ (messages), each a gradient of its term's expectation in the node's moments:
    variational message passing where terms are conjugate (Winn and Bishop 2005), else conjugate-computation variational
    inference (Khan and Lin 2017, Algorithm 2).

    Parameters
    ----------
    nodes : dict of str to distribution
        What each node is distributed as, its parameters numbers or names of other nodes: `Gaussian`, `Gamma`, `Beta`,
        `Dirichlet`; of nodes that are observed also `Poisson`, `Binomial`, `Categorical`, `Likelihood`.
    factors : dict of str to Factor, or sequence of them, default=()
        Further terms of the log joint density: a `Function`, or a `Factor` of one's own.

    Attributes
    ----------
    posterior_ : Posterior
        Families of the latent nodes by name: ``posterior_["rate"].mean``, ``.std``, ``.sample(n)``.
    lower_bound_ : float
        The bound on the log evidence at the posterior, nats; an estimate where factors are drawn.
    lower_bounds_ : list of float
        By pass; over all data it never falls.
    converged_ : bool
        False too where the joint density seems to be improper.
    n_iter_ : int
        Passes.

    Raises
    ------
    ValueError
        For parameters that name no node, or one of another family; for nodes without a prior, or that depend on each
        other in a circle; for factors that join no node.
    TypeError
        For nodes that are no distributions, and factors that are no `Factor`.

    See Also
    --------
    sksvi.models.base.Model : larger models, with local variables and streams.

    Examples
    --------
    Numbers of three groups, whose unknown shapes have one unknown rate:

    >>> import numpy as np
    >>> from sksvi.network import Gamma, Link, Network
    >>> group, rng = np.repeat([0, 1, 2], 50), np.random.default_rng(0)
    >>> y = rng.gamma(np.array([1.0, 3.0, 9.0])[group], 0.5)
    >>> network = Network({
    ...     "rate": Gamma(1.0, 1.0),
    ...     "shapes": Gamma(1.0, 0.1, size=3),
    ...     "y": Gamma(Link("shapes", index=group), "rate"),
    ... }).fit({"y": y})
    >>> print(network.posterior_["shapes"].mean.round(1), network.converged_)
    [1.  2.7 8.2] True
    """

    posterior_: Posterior
    lower_bound_: float
    lower_bounds_: list[float]
    converged_: bool
    n_iter_: int

    def __init__(
        self, nodes: Mapping[str, Distribution], factors: Mapping[str, Factor] | Sequence[Factor] = ()
    ) -> None:
        named = (
            dict(factors)
            if isinstance(factors, Mapping)
            else {f"factor {number}": factor for number, factor in enumerate(factors)}
        )
        check_structure(nodes, named)
        self.nodes, self.factors = dict(nodes), named

    def __repr__(self) -> str:
        return f"Network({', '.join([*self.nodes, *self.factors])})"

    def fit(
        self,
        data: Mapping[str, ArrayLike] | None = None,
        *,
        order: str = "in turn",
        rate: float | Schedule | None = None,
        batch_size: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-9,
        start: Mapping[str, Family] | None = None,
        random_state: RandomState = None,
    ) -> Network:
        """Find the posterior of every node that has no data.

        Parameters
        ----------
        data : dict of str to array-like of shape (n,), optional
            Numbers of the observed nodes.
        order : {"in turn", "parallel"}, default="in turn"
            One node after the other, each seeing those before it as they are now, or all at once.
        rate : float or schedule, optional
            Of the steps: ρ. None: 1, that is variational message passing where nodes are conjugate, and for
            mini-batches the rates of `sksvi.algorithms`. Steps that lower the bound are halved whatever it is, and
            in turn nodes that all their factors are conjugate to have rate 1.
        batch_size : int, optional
            Rows of a step, of the factors that are sums over rows; None: all.
        max_iter : int, default=1000
            Passes.
        tol : float, default=1e-9
            Relative gain of a pass at which the fit ends.
        start : dict of str to family, optional
            First blocks of some nodes.
        random_state : int, RandomState or None, default=None
            Of the order of mini-batches.

        Returns
        -------
        network : Network
            Itself.

        Raises
        ------
        ValueError
            For data, shapes or a start that do not fit; the message names the node. For a factor without a finite
            expectation at the first q, and options outside of what they may be. Nothing has changed then.

        Warns
        -----
        ConvergenceWarning
            Where `max_iter` ended the fit.
        UserWarning
            For a node whose prior factors have all but undone: the joint density may be improper.
        """
        schedule, data = _schedule(rate), {} if data is None else data
        _check_call(data, order, max_iter, tol)
        built = Built(self.nodes, self.factors, data)
        starts = {**_starts(built.priors), **_checked_start(start or {}, built.priors)}
        n_rows = 0 if batch_size is None else _rows(built.factors, batch_size)
        model = NetworkModel(built.priors, built.factors.values(), starts, n_rows, order == "in turn")
        problem = plan.problem(model, NetworkRows(np.arange(max(n_rows, 1))), CVI(schedule), batch_size=batch_size)
        first = first_state(problem, drawn_seed(random_state))
        state = plan.run(problem, _initialized(problem, first, built.factors), max_iter, tol)
        if model.traits.bound.noisy:
            finer = NetworkModel(built.priors, [factor.finer() for factor in built.factors.values()])
            state.bound = exact_bound(
                replace(problem, model=finer, data=NetworkRows(np.arange(1)), batch_size=None), state
            )
        self.state_, self._all_factors = state, built.factors
        self.posterior_, self.lower_bound_ = Posterior(state.q), float(state.bound)
        improper = list(_improper(self.factors, self.nodes, built.priors, state.q))
        self.lower_bounds_, self.n_iter_ = list(state.bounds), state.passes
        self.converged_ = state.converged and not improper
        fit_warnings.warn_all(improper)
        if not state.converged and not improper and tol > 0:  # more passes would be no remedy
            warn_user(
                f"Network has not converged after {state.passes} passes: raise max_iter or tol.", ConvergenceWarning
            )
        return self

    def messages(self, name: str) -> dict[str, Message]:
        """The message of each factor to a node at the posterior: natural parameters, which add up to q less its prior.

        Parameters
        ----------
        name : str
            Of a latent node.

        Returns
        -------
        messages : dict of str to Message
            By factor; distributions have the name of their child. A node's own distribution, where that has nodes for
            parameters, is relative to ``<name>/prior``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For a name that is no latent node's.

        Examples
        --------
        >>> from sksvi.network import Gamma, Network, Poisson
        >>> network = Network({"rate": Gamma(1.0, 1.0), "y": Poisson("rate")}).fit({"y": [3.0, 5.0]})
        >>> network.messages("rate")["y"].parts[0]
        array([[ 8., -2.]])
        """
        if not hasattr(self, "posterior_"):
            raise NotFittedError("messages are there after fit.")
        if name not in self.posterior_:
            raise ValueError(f"{name!r} is no latent node; those are {list(self.posterior_)}.")
        q = dict(self.posterior_)
        return {
            key: q[name].message_from_gradient(factor.terms(q, slice(None))[1][name])
            for key, factor in self._all_factors.items()
            if name in factor.nodes
        }

    def summary(self) -> DataFrame:
        """Mean and standard deviation of every element of every latent node.

        Returns
        -------
        summary : DataFrame
            Columns node, element, mean and std.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        import pandas as pd

        if not hasattr(self, "posterior_"):
            raise NotFittedError("a summary is there after fit.")
        rows = [
            (name, ", ".join(map(str, at)), float(block.mean[at]), float(np.asarray(block.std)[at]))
            for name, block in self.posterior_.items()
            for at in np.ndindex(block.mean.shape)
        ]
        return pd.DataFrame(rows, columns=["node", "element", "mean", "std"])

    def summary_text(self) -> str:
        """The fit as text to print: how it ended, and `summary`, rounded.

        Returns
        -------
        str

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> from sksvi.network import Gamma, Network, Poisson
        >>> network = Network({"rate": Gamma(1.0, 1.0), "y": Poisson("rate")}).fit({"y": [3.0, 5.0]})
        >>> print(network.summary_text())
        Network
        lower bound  -5.86 nats
        passes       3
        converged    yes
        <BLANKLINE>
        node  element  mean  std
        rate  0         3.0  1.0
        """
        table = self.summary().set_index(["node", "element"])
        bound, passes = f"{self.lower_bound_:,.2f} nats", counted(self.n_iter_)
        lines = [("lower bound", bound), ("passes", passes), ("converged", "yes" if self.converged_ else "no")]
        return page(type(self).__name__, lines, table)


def _check_call(data: Mapping[str, Any], order: str, max_iter: int, tol: float) -> None:
    """An error for arguments of `fit` that cannot be."""
    if order not in ("in turn", "parallel"):
        raise ValueError(f"order must be 'in turn' or 'parallel', not {order!r}.")
    if max_iter < 1 or not tol >= 0:
        raise ValueError(f"max_iter must be at least 1 and tol at least 0; found {max_iter} and {tol}.")
    if any(is_collection(values) for values in data.values()):
        raise TypeError("Network takes no Dask collection: give it the numbers (.compute()).")


def _schedule(rate: Any) -> Any:
    """The schedule of steps: constant for a number, else the given one."""
    if rate is None or hasattr(rate, "rate"):
        return rate
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be a schedule or lie in (0, 1]; found {rate}.")
    return schedules.Constant(float(rate))


def _rows(factors: Mapping[str, Factor], batch_size: int) -> int:
    """Number of rows that mini-batches are taken of."""
    rows = {name: factor.n_rows for name, factor in factors.items() if factor.n_rows}
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1 or None; found {batch_size}.")
    if not rows:
        raise ValueError(
            f"batch_size={batch_size}: no factor is a sum over rows that are independent given nodes without an "
            "element for each of them. Set batch_size=None."
        )
    if len(set(rows.values())) > 1:
        raise ValueError(f"batch_size={batch_size}: factors have different numbers of rows, {rows}. Set it to None.")
    return next(iter(rows.values()))


def _starts(priors: Blocks) -> Blocks:
    """First blocks of Gaussian nodes: their priors, no wider than standard deviation one."""
    starts = {}
    for name, block in priors.items():
        if block.column == "gaussian":
            precision = np.maximum(1.0 / block.variance, LEAST_PRECISION)
            starts[name] = type(block)(block.mean, np.diag(precision) if block.full else precision)
    return starts


def _checked_start(start: Mapping[str, Any], priors: Blocks) -> Blocks:
    """The user's first blocks, of the families and shapes that the nodes have."""
    for name, block in start.items():
        if name not in priors:
            raise ValueError(f"start names {name!r}, which is no latent node; those are {list(priors)}.")
        if type(block) is not type(priors[name]) or block.mean.shape != priors[name].mean.shape:
            raise ValueError(
                f"start[{name!r}] must be a {type(priors[name]).__name__} of shape {priors[name].mean.shape}."
            )
    return dict(start)


def _bound(problem: Problem, state: State) -> float:
    """The bound, nats; minus infinity where it is no number."""
    try:
        return exact_bound(problem, state)
    except NonFinite:
        return -np.inf


def _initialized(problem: Problem, state: State, factors: Mapping[str, Factor]) -> State:
    """The first state, its Gaussian nodes narrowed until the bound is informative; else an error names the factor."""
    here = _bound(problem, state)
    for _ in range(NARROWINGS):
        if not in_whole_nats(here):
            return state
        blocks = {name: block.narrowed(NARROWING) or block for name, block in state.q.items()}
        narrower = replace(state, q=blocks)
        there = _bound(problem, narrower)
        if np.isfinite(here) and not there > here / 2:
            return state  # it is not that they are wide
        state, here = narrower, there
    if np.isfinite(here):
        return state
    with np.errstate(all="ignore"):
        worth = {name: np.sum(factor.terms(state.q, slice(None))[0]) for name, factor in factors.items()}
    bad = [name for name, value in worth.items() if not np.isfinite(value)]
    raise ValueError(f"{', '.join(map(repr, bad))} has no finite expectation at the first q: pass a start.")


def _improper(
    factors: Mapping[str, Factor], nodes: Mapping[str, Distribution], priors: Blocks, q: Blocks
) -> Iterator[str]:
    """Warnings for nodes whose prior the user's factors have all but cancelled: that density has no finite integral."""
    affected = dict.fromkeys(node for factor in factors.values() for node in factor.nodes)
    for name in affected:
        decay = DECAY.get(str(nodes[name].latent))
        if decay is None or nodes[name].links:
            continue
        left = float(np.min(decay.of(q[name]) / decay.of(priors[name])))
        if left < UNDONE:
            named = ", ".join(repr(key) for key, factor in factors.items() if name in factor.nodes)
            yield (
                f"node {name!r} has {left:.1g} of its prior's {decay.name} left: the joint density may "
                f"be improper, without a finite integral, so that the bound has no top and the posterior no meaning. "
                f"Look whether {named} grows faster than the prior falls."
            )
