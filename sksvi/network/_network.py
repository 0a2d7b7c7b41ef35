"""The network as users see it: structure, fit, posterior."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sksvi import families, schedules
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import ArrayLike, DataFrame, PathLike, RandomState, Schedule
from sksvi.algorithms import CVI
from sksvi.estimators import fit_warnings
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.summary_text import counted, page
from sksvi.families.base import Family, Message
from sksvi.inference import plan
from sksvi.inference.engine import exact_bound
from sksvi.inference.records import replace
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.inference.stream import as_one_pass
from sksvi.inference.stream_state import StreamState
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.model import Factor, NetworkModel, NetworkRows, zero
from sksvi.network._start import checked_start, first_blocks, improper, initialized
from sksvi.network._stream import Messages, Portion, faded
from sksvi.network._structure import check_structure, local_nodes, named
from sksvi.partitions.collections import is_collection

#: What a node of each family of q is called.
FAMILIES: dict[type, str] = {
    families.Gaussian: "gaussian",
    families.DiagonalGaussian: "gaussian",
    families.Gamma: "gamma",
    families.Rayleigh: "rayleigh",
    families.Beta: "beta",
    families.Dirichlet: "dirichlet",
}


class Network(BaseEstimator):
    """A mean-field network: q is a product over nodes, and every factor sends its nodes messages.

    Nodes with ``integrated=True`` have no q: they are integrated out given the others.

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
        Families of the latent nodes by name: ``posterior_["rate"].mean``, ``.std``, ``.sample(n)``. Of an integrated
        node a Gaussian with the mean and variance of each element given its row.
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
    sksvi.load : networks from files.
    sksvi.models.base.Model : larger models, with local variables of any kind.

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

    #: What ties the attributes of a fit to each other, for files.
    LAYOUT = """
        state_ State; state_.messages StreamState; posterior_ Posterior; converged_ flag; n_iter_ count
        lower_bound_ number; lower_bounds_ list; lower_bounds_[*] number
        _messages dict; _messages[*] dict; _messages[*][*] Message
        nodes dict where self._is_consistent
    """

    state_: State
    posterior_: Posterior
    lower_bound_: float
    lower_bounds_: list[float]
    converged_: bool
    n_iter_: int
    _messages: Messages

    def __init__(
        self, nodes: Mapping[str, Distribution], factors: Mapping[str, Factor] | Sequence[Factor] = ()
    ) -> None:
        check_structure(nodes, named(factors))
        self.nodes, self.factors = nodes, factors

    def __repr__(self) -> str:
        return f"Network({', '.join([*self.nodes, *named(self.factors)])})"

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
        data = _checked_call(data, order, max_iter, tol)
        portion, schedule = self._portion(data), _schedule(rate)
        built = portion.built
        starts = {**first_blocks(built.priors, built.factors), **checked_start(start or {}, built.priors)}
        n_rows = 0 if batch_size is None else _rows(built.factors, batch_size)
        model = NetworkModel(built.priors, built.factors.values(), starts, n_rows, order == "in turn")
        problem = plan.problem(model, NetworkRows(np.arange(max(n_rows, 1))), CVI(schedule), batch_size=batch_size)
        first = first_state(problem, drawn_seed(random_state))
        state = plan.run(problem, initialized(problem, first, built.factors), max_iter, tol)
        if model.traits.bound.noisy:
            finer = NetworkModel(built.priors, [factor.finer() for factor in built.factors.values()])
            state.bound = exact_bound(
                replace(problem, model=finer, data=NetworkRows(np.arange(1)), batch_size=None), state
            )
        return self._publish(portion, *portion.ended(state, {}, StreamState({})), tol, f"after {state.passes} passes")

    def partial_fit(
        self,
        data: Mapping[str, ArrayLike],
        *,
        order: str = "in turn",
        rate: float | Schedule | None = None,
        max_iter: int = 1000,
        tol: float = 1e-9,
        forgetting: float = 1.0,
    ) -> Network:
        """Take one portion of rows of a stream: their local nodes are new, global nodes go on from where they are.

        Local are nodes whose size, index or design has a name in the data (``size="y"``), and nodes that depend on
        these; all others are global. What earlier rows said of the global nodes stays as natural parameters, so that
        memory does not grow and the posterior before a portion is its prior. Portions then end where one fit of all
        rows does if each message of theirs is conjugate and depends on no other node; else near it, the nearer the
        more rows a portion has.

        Parameters
        ----------
        data : dict of str to array-like of shape (n,)
            Numbers of the observed nodes, and what distributions and factors name in the data, for the new rows.
        order, rate, max_iter, tol
            As in `fit`, of the passes over the portion.
        forgetting : float, default=1.0
            Share that is left of what earlier rows said, in (0, 1].

        Returns
        -------
        network : Network
            Itself: ``posterior_`` has the global nodes after all rows, and the local nodes of this portion.

        Raises
        ------
        ValueError
            For what `fit` refuses, and for global nodes that are not those before. Nothing has changed then.
        TypeError
            For factors that are drawn: their steps do not end on a portion.

        Warns
        -----
        ConvergenceWarning
            Where `max_iter` ended the passes over the portion.

        Examples
        --------
        >>> from sksvi.network import Gamma, Network, Poisson
        >>> network = Network({"rate": Gamma(1.0, 1.0), "y": Poisson("rate", exposure="hours")})
        >>> for y, hours in (([3.0, 5.0], [1.0, 2.0]), ([4.0], [1.0])):
        ...     network = network.partial_fit({"y": y, "hours": hours})
        >>> print(network.posterior_["rate"].shape, network.posterior_["rate"].rate)
        [13.] [5.]
        """
        data = _checked_call(data, order, max_iter, tol)
        if not 0 < forgetting <= 1:
            raise ValueError(f"forgetting must lie in (0, 1]; found {forgetting}.")
        before = getattr(self, "state_", None)
        drawn = [name for name, factor in named(self.factors).items() if factor.drawn]
        if drawn:
            raise TypeError(f"partial_fit takes no factor that is drawn, which {drawn[0]!r} is: fit all rows.")
        shared = [name for name in self.nodes if self.nodes[name].integrated and name not in local_nodes(self.nodes)]
        if shared:
            raise ValueError(
                f"node {shared[0]!r} is integrated and has no size from the data: what its rows say would be forgotten "
                "with their portion. Set size to a name in the data, one element of it for each of the node's."
            )
        portion, schedule = self._portion(data, before), _schedule(rate)
        earlier = StreamState({}) if before is None else before.messages.faded(forgetting)
        built = portion.built
        starts = {**first_blocks(built.priors, built.factors), **portion.first}
        model = NetworkModel(built.priors, built.factors.values(), starts, 0, order == "in turn")
        problem = plan.problem(model, NetworkRows(np.arange(1)), CVI(schedule), prior_factors=earlier)
        first = first_state(problem, 0 if before is None else before.seed)
        state = as_one_pass(problem, initialized(problem, first, built.factors), before, portion.n_rows, max_iter, tol)
        messages = faded(self._messages, forgetting) if before is not None else {}
        return self._publish(
            portion, *portion.ended(state, messages, earlier), tol, f"on this portion after {max_iter} passes"
        )

    def _portion(self, data: Mapping[str, Any], before: State | None = None) -> Portion:
        """The network with the rows of a call."""
        check_structure(self.nodes, named(self.factors))
        return Portion(self.nodes, named(self.factors), data, before)

    def _publish(self, portion: Portion, state: State, messages: Messages, tol: float, where: str) -> Network:
        """Set the attributes of a fit, all at once, and warn of what it has not reached."""
        undone = list(improper(named(self.factors), self.nodes, portion.priors, state.q))
        found = {
            "state_": state,
            "posterior_": portion.posterior(state.q),
            "lower_bound_": float(state.bound),
            "lower_bounds_": list(state.bounds),
            "n_iter_": state.passes,
            "converged_": state.converged and not undone,
            "_messages": messages,
        }
        self.__dict__.update(found)
        fit_warnings.warn_all(undone)
        if not state.converged and not undone and tol > 0:  # more passes would be no remedy
            warn_user(f"Network has not converged {where}: raise max_iter or tol.", ConvergenceWarning)
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
        if name not in self._messages:
            raise ValueError(f"{name!r} is no latent node with a q; those are {list(self._messages)}.")
        return dict(self._messages[name])

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

    def save(self, path: PathLike, training_rows: bool = True) -> None:
        """Write the network to `path`; ``sksvi.load`` reads it back, and `partial_fit` goes on from there.

        The file has nodes and posterior, and no data but those that nodes have in themselves (arrays in the place of
        names, such as an index).

        Parameters
        ----------
        path : str or path-like
        training_rows : bool, default=True
            Whether the file has the posterior of local nodes.

        Raises
        ------
        TypeError
            For a network with factors that are code, a `Function` or a class of one's own: files hold none.
        OSError
            Where no file can be made at `path`.

        Examples
        --------
        >>> import os, tempfile, sksvi
        >>> from sksvi.network import Gamma, Network, Poisson
        >>> network = Network({"rate": Gamma(1.0, 1.0), "y": Poisson("rate")}).fit({"y": [3.0, 5.0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network.save(os.path.join(folder, "rates.sksvi"))
        ...     print(sksvi.load(os.path.join(folder, "rates.sksvi")).posterior_["rate"].mean)
        [3.]
        """
        from sksvi.persistence import save

        for name in named(self.factors):
            raise TypeError(
                f"factor {name!r} is code, which files do not hold: keep the numbers of summary(), or pickle the "
                "network where you trust the file."
            )
        save(self, path, training_rows)

    def _without_rows(self) -> Network:
        """Copy without what belongs to local nodes, for files without rows."""
        bare = copy.copy(self)
        if hasattr(self, "state_"):
            local = local_nodes(self.nodes)
            q, messages = ({k: v for k, v in x.items() if k not in local} for x in (self.state_.q, self._messages))
            bare.state_, bare._messages = replace(self.state_, q=q), messages
            bare.posterior_ = Posterior({name: block for name, block in self.posterior_.items() if name in q})
        return bare

    @property
    def _is_consistent(self) -> bool:
        """Whether nodes, posterior and messages belong together, as a file may say that they do not."""
        check_structure(self.nodes, named(self.factors))
        q, latent = self.state_.q, {name: getattr(node, "latent", None) for name, node in self.nodes.items()}
        integrated = {name: block for name, block in self.posterior_.items() if name not in q}
        whole = q.keys() == self._messages.keys() and all(
            self.nodes[name].integrated and isinstance(block, families.DiagonalGaussian)
            for name, block in integrated.items()
        )
        return whole and all(
            self.posterior_[name] is block
            and latent.get(name) == FAMILIES.get(type(block))
            and all(
                list(map(np.shape, message.parts)) == list(map(np.shape, zero(block)))
                for message in self._messages[name].values()
            )
            for name, block in q.items()
        )


def _checked_call(data: Any, order: str, max_iter: int, tol: float) -> dict[str, Any]:
    """The data by name; an error for arguments of a fit that cannot be."""
    if order not in ("in turn", "parallel"):
        raise ValueError(f"order must be 'in turn' or 'parallel', not {order!r}.")
    if max_iter < 1 or not tol >= 0:
        raise ValueError(f"max_iter must be at least 1 and tol at least 0; found {max_iter} and {tol}.")
    data = {} if data is None else dict(data)
    if any(is_collection(values) for values in data.values()):
        raise TypeError("Network takes no Dask collection: give it the numbers (.compute()).")
    return data


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
