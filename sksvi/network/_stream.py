"""Streams of a network: each portion has rows with local nodes of their own, and global nodes go on.

What rows say of the global nodes is natural parameters, the messages of the factors that belong to them. They stay as
they were found, and the posterior of one portion is the prior of the next: exact where every message to a node is
conjugate and depends on no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from sksvi.estimators.posterior import Posterior
from sksvi.families.base import Message
from sksvi.inference.records import START, replace
from sksvi.inference.state import State
from sksvi.inference.stream_state import StreamState
from sksvi.models.base import Blocks
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.integrated import IntegratedFactor
from sksvi.models.network.model import Factor
from sksvi.network._build import Built
from sksvi.network._structure import local_nodes

#: Messages of each node by factor.
Messages = dict[str, dict[str, Message]]


class Portion:
    """The rows of one call: the network with them, and which nodes and factors are theirs.

    Parameters
    ----------
    nodes, factors : dict
        Of the network, as the user gave them.
    data : dict
    before : State, optional
        Of the rows that came before, whose global nodes go on.

    Raises
    ------
    ValueError
        Naming the node: for what `Built` refuses, and for global nodes that are not those before.
    """

    def __init__(
        self,
        nodes: Mapping[str, Distribution],
        factors: Mapping[str, Factor],
        data: Mapping[str, Any],
        before: State | None = None,
    ) -> None:
        self.local = local_nodes(nodes)
        centres = {} if before is None else {name: q for name, q in before.q.items() if name not in self.local}
        self.built = Built(nodes, factors, data, centres)
        self.priors = self.built.priors
        own = {name for name, factor in factors.items() if factor.data_names or self.local.intersection(factor.nodes)}
        with_rows = {*data, *self.local, *(f"{name}/prior" for name in self.local), *own}
        self.row_factors = [name for name in self.built.factors if name in with_rows]
        self.n_rows = sum(np.size(values) for name, values in data.items() if name in nodes)
        if before is not None:
            self._check_globals(centres)
        self.first = centres

    def _check_globals(self, q: Blocks) -> None:
        """Raise ValueError where the nodes of earlier rows are not those of the network."""
        here = {name for name in self.priors if name not in self.local}
        for name in sorted(here.symmetric_difference(q)):
            has, had = ("is unknown", "had data") if name in here else ("has data", "was unknown")
            raise ValueError(f"node {name!r} {has} here and {had} before: give data of the same nodes in every call.")
        for name in here:
            found, wanted = ((type(block).__name__, block.mean.shape) for block in (q[name], self.priors[name]))
            if found != wanted:
                raise ValueError(
                    f"node {name!r} is a {wanted[0]} of shape {wanted[1]} and was a {found[0]} of shape {found[1]} "
                    "before: begin anew with fit."
                )

    def ended(self, state: State, before: Messages, earlier: StreamState) -> tuple[State, Messages]:
        """The state with the messages of all rows so far, and by factor every message to the nodes at its end."""
        q, value = state.q, 0.0
        found: Messages = {name: {} for name in q}
        for key, factor in self.built.factors.items():
            each, gradients = factor.terms(q, slice(None))
            value += float(np.sum(each)) if key in self.row_factors else 0.0
            for name, gradient in gradients.items():
                message = q[name].message_from_gradient(gradient)
                goes_on = key in self.row_factors and name not in self.local and key in before.get(name, {})
                found[name][key] = before[name][key].plus(message) if goes_on else message
        value -= sum(q[name].kl(self.priors[name]) for name in self.local if name in q)
        by_block = {**earlier.by_block, **{name: self._row_message(found[name]) for name in q.keys() - self.local}}
        now = StreamState({name: m for name, m in by_block.items() if m}, 0.0, earlier.weight + self.n_rows)
        now.constant = value + earlier.expected_log_message(q)[1] - now.expected_log_message(q)[1]
        return replace(state, messages=now, memory={}, progress=START), found

    def posterior(self, q: Blocks) -> Posterior:
        """The blocks of q, and of each integrated node a Gaussian with its mean and variance given its row."""
        factors = [factor for factor in self.built.factors.values() if isinstance(factor, IntegratedFactor)]
        return Posterior({**q, **{factor.name: factor.local(q) for factor in factors}})

    def _row_message(self, messages: Mapping[str, Message]) -> Message | None:
        """Sum of the messages that rows send; None where they send none."""
        parts = [messages[key] for key in self.row_factors if key in messages]
        return reduce(lambda total, part: total.plus(part), parts) if parts else None


def faded(messages: Messages, share: float) -> Messages:
    """Messages that count less, by `share`."""
    return {name: {key: message.faded(share) for key, message in each.items()} for name, each in messages.items()}
