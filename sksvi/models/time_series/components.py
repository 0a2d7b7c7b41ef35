"""Components of a latent in time: level, slope, seasons, cycle and coefficients as states of one chain.

Each component adds states, their rows of the transition, its share of f_t = h_tᵀx_t and its parameters. A parameter is
a number on the real line: log of a variance, logit of a damping, log of a period.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sksvi.families.gaussian.chain import Chain, Swept

Array = np.ndarray

#: Prior variance of the first states, in squared units of f.
WIDE = 100.0
#: Longest season by dummies or by all of its waves; a longer one is a sum of so many waves.
LONGEST, WAVES = 31, 6
#: Where learned variances begin, in squared units of f, and how far from there a search may take their logarithm.
FIRST = {"level": 0.05, "trend": 1e-4, "seasonal": 1e-3, "cycle": 0.05, "coefficient": 1e-3}
LEAST, MOST = 1e-12, 1e2
#: A variance that is all but none: where a finished search looks whether the data can do without.
ALMOST_NONE = 1e-9
#: Where learned dampings begin, and the logits between which they lie.
FIRST_DAMPING, DAMPINGS = 0.9, (-4.0, 9.0)
#: A damping that lasts: where a finished search looks too.
LASTING = 0.99
#: By how many e-folds less a cycle changes where it is looked for in differences.
STILL = 5.0
#: How much finer than that of the series is the grid of frequencies that periods are looked for on.
FINER = 8
#: Shortest learned period of a cycle.
SHORTEST = 2.5


@dataclass(frozen=True)
class Parameter:
    """A learned number: its name, where it begins on the real line, and between what."""

    name: str
    start: float
    low: float
    high: float


@dataclass(frozen=True)
class Amount:
    """A variance: a number, or a parameter's place in the vector."""

    value: float
    learned: int = -1

    def at(self, theta: Array) -> float:
        """The variance."""
        return self.value if self.learned < 0 else float(np.exp(theta[self.learned]))


@dataclass(frozen=True)
class Damping:
    """A damping in (0, 1): a number, or a parameter's place in the vector."""

    value: float
    learned: int = -1

    def at(self, theta: Array) -> float:
        """The damping."""
        return self.value if self.learned < 0 else float(1.0 / (1.0 + np.exp(-theta[self.learned])))


@dataclass(frozen=True)
class Damped:
    """One state that returns to zero, or two that turn by 2π/period while they do, stationary from the first."""

    states: tuple[int, ...]
    amount: Amount
    damping: Damping
    period: float = np.inf
    learned_period: int = -1

    def angle(self, theta: Array) -> float:
        """Angle by which the states turn per step, radians; 0 of a single state."""
        if len(self.states) == 1:
            return 0.0
        return float(2.0 * np.pi / (self.period if self.learned_period < 0 else np.exp(theta[self.learned_period])))

    def block(self, theta: Array) -> Array:
        """Its block of the transition matrix."""
        return self.damping.at(theta) * turn(self.angle(theta))[: len(self.states), : len(self.states)]

    def variance(self, theta: Array) -> float:
        """Stationary variance of each state: amount / (1 - damping²)."""
        return self.amount.at(theta) / (1.0 - self.damping.at(theta) ** 2)


def dominant_period(several: list[Array]) -> float:
    """The period, of 3 to half of the points, that explains most of series about their lines."""
    usable = [values for values in several if len(values) >= 8 and np.ptp(values) > 0]
    if not usable:
        return 3.0
    size = FINER * max(map(len, usable))
    periods = size / np.maximum(np.arange(size // 2 + 1), 0.5)
    return float(periods[int(np.argmax(sum(explained(values, periods, size) for values in usable)))])


def explained(values: Array, periods: Array, size: int) -> Array:
    """Power of a series about its line at these periods, those of a Fourier transform of this size."""
    n = len(values)
    t = np.linspace(-1.0, 1.0, n)
    slope, level = np.polyfit(t, values, 1)
    power = np.square(np.abs(np.fft.rfft(values - level - slope * t, size))) / n
    power[(periods < 3.0) | (periods > n / 2.0)] = 0.0
    return np.asarray(power)


def turn(angle: float) -> Array:
    """The matrix (2, 2) of a rotation by an angle in radians."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, s], [-s, c]])


def part_of_step(transition: Array, part: float) -> Array:
    """The matrix (n, n) by which states that turn, at distinct angles, have turned in a part of a step, in (0, 1).

    Of a wave of two points, whose sine no point shows, it is the cosine.
    """
    values, vectors = np.linalg.eig(transition.astype(complex))
    return np.real(vectors * values**part @ np.linalg.inv(vectors))


@dataclass
class Dynamics:
    """The states of a latent, and how they depend on a vector of parameters.

    names (n,): of states. h (S,): structural states' share in f. amounts (n,): the noise variance of each. first (n,):
    prior variance of the first states, NaN where a `Damped` says it. groups: name of a component to its states.
    unit: what f varies by. spreads (E,): prior variance and drift of coefficients are for columns that spread over 1.
    """

    unit: float = 1.0
    names: list[str] = field(default_factory=list)
    h: list[float] = field(default_factory=list)
    amounts: list[Amount] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    damped: list[Damped] = field(default_factory=list)
    transition: dict[int, dict[int, float]] = field(default_factory=dict)
    n_coefficients: int = 0
    #: Other periods that a learned cycle may have.
    turns: list[float] = field(default_factory=list)
    #: Periods of the waves of seasons.
    turning: list[float] = field(default_factory=list)
    #: Components whose share in f depends on the clock, and comes with the columns.
    by_clock: list[str] = field(default_factory=list)

    # ---- building
    def learned(self, name: str, start: float, low: float, high: float) -> int:
        """A new parameter's place."""
        self.parameters.append(Parameter(name, start, low, high))
        return len(self.parameters) - 1

    def amount(self, name: str, kind: str, given: Any) -> Amount:
        """A variance as the user gave it, or a new parameter."""
        if not isinstance(given, str):
            return Amount(float(given))
        log_unit = 2.0 * float(np.log(self.unit))
        low, high = np.log(LEAST) + log_unit, np.log(MOST) + log_unit
        return Amount(0.0, self.learned(f"{name}_variance", self._first(kind), low, high))

    def _first(self, kind: str) -> float:
        """Logarithm of the variance that states of a kind begin with."""
        return float(np.log(FIRST[kind])) + 2.0 * float(np.log(self.unit))

    def share(self, name: str, given: Any) -> Damping:
        """A damping as the user gave it, or a new parameter."""
        if not isinstance(given, str):
            return Damping(float(given))
        start = float(np.log(FIRST_DAMPING / (1.0 - FIRST_DAMPING)))
        return Damping(0.0, self.learned(f"{name}_damping", start, *DAMPINGS))

    def state(self, group: str, name: str, h: float, amount: Amount, first: float) -> int:
        """A new state's place."""
        place = len(self.names)
        self.names.append(name)
        self.h.append(h)
        self.amounts.append(amount)
        self.first.append(first)
        self.groups.setdefault(group, []).append(place)
        return place

    def add_level(self, given: Any, trend: bool, trend_given: Any, first: float, damping: Any = None) -> None:
        """A level that walks at random, with `trend` by a slope that does; with a damping it returns to a line."""
        walks = self.amount("level", "level", given) if damping is None else Amount(0.0)
        level = self.state("level", "level" if damping is None else "mean", 1.0, walks, first)
        if trend:
            slope = self.state("trend", "trend", 0.0, self.amount("trend", "trend", trend_given), first)
            self.transition[level] = {level: 1.0, slope: 1.0}
        if damping is not None:
            self.add_damped("level", "level", given, damping)

    def add_damped(self, group: str, kind: str, given: Any, damping: Any, period: Any = None, most: float = 0) -> None:
        """A state that returns to zero; with a period (a number, or the start of a learned one) two that turn."""
        amount, share = self.amount(group, kind, given), self.share(group, damping)
        turning = period is not None
        names = [kind, f"{kind}*"][: 1 + turning]
        states = tuple(self.state(group, name, float(i == 0), amount, np.nan) for i, name in enumerate(names))
        place = -1
        if turning and most:
            place = self.learned(f"{group}_period", float(np.log(period)), float(np.log(SHORTEST)), float(np.log(most)))
        self.damped.append(Damped(states, amount, share, period if turning else np.inf, place))

    def add_seasonal(self, period: float, kind: str, given: Any, first: float) -> None:
        """A season of zero mean: dummies, or waves of period, period / 2, ..."""
        name = f"seasonal_{period:g}"
        amount = self.amount(name, "seasonal", given)
        if kind == "dummy" and period <= LONGEST and period == int(period):
            places = [
                self.state(name, f"{name}[{j}]", float(j == 0), amount if j == 0 else Amount(0.0), first)
                for j in range(int(period) - 1)
            ]
            self.transition[places[0]] = dict.fromkeys(places, -1.0)
            for before, place in pairwise(places):
                self.transition[place] = {before: 1.0}
            return
        waves = int(period // 2)
        self._add_waves(name, period, range(1, 1 + (waves if period <= LONGEST else min(waves, WAVES))), amount, first)

    def add_waves(self, period: float, waves: int, given: Any, first: float) -> None:
        """A season of so many waves, period, period / 2, ..., without those of the seasons before it."""
        name = f"seasonal_{period:g}"
        own = [j for j in range(1, 1 + waves) if not any(np.isclose(period / j, turn) for turn in self.turning)]
        self._add_waves(name, period, own, self.amount(name, "seasonal", given), first)
        self.turning += [period / j for j in own]

    def _add_waves(self, name: str, period: float, waves: Iterable[int], amount: Amount, first: float) -> None:
        for j in waves:
            a = self.state(name, f"{name}[cos {j}]", 1.0, amount, first)
            if 2 * j == period:
                self.transition[a] = {a: -1.0}
                continue
            b = self.state(name, f"{name}[sin {j}]", 0.0, amount, first)
            block = turn(2.0 * np.pi * j / period)
            self.transition[a], self.transition[b] = ({a: row[0], b: row[1]} for row in block)

    def add_coefficients(self, names: list[str], given: Any, spreads: Array, first: Any) -> None:
        """Coefficients of columns divided by `spreads`: constant, or walking at random."""
        shared = self.amount("coefficient", "coefficient", given) if isinstance(given, str) else None
        for name, spread in zip(names, spreads, strict=True):
            amount = Amount(float(given) * spread**2) if shared is None else shared
            self.state("regression", name, 0.0, amount, float(first) * (1.0 if isinstance(first, Wide) else spread**2))
        del self.h[len(self.names) - len(names) :]
        self.n_coefficients = len(names)

    # ---- the chain at a vector of parameters
    @property
    def start(self) -> Array:
        """Parameters that a search begins with, (P,)."""
        return np.array([parameter.start for parameter in self.parameters])

    def moving(self, theta: Array) -> Array:
        """Parameters to begin a search with: `theta`, but the start of each that a search would not leave.

        That is one near an end of its box, or a variance that is all but none.
        """
        none = float(np.log(ALMOST_NONE)) + 2.0 * float(np.log(self.unit))
        low, high = np.array([(p.low, p.high) for p in self.parameters]).reshape(-1, 2).T
        low = np.where([p.name.endswith("_variance") for p in self.parameters], none, low)
        return np.where((theta > low + 1.0) & (theta < high - 1.0), theta, self.start)

    @property
    def others(self) -> list[dict[int, float]]:
        """Alternative starts of a search: each maps places of parameters to their values there.

        As many, of the same places in the same order, for whatever series: some may say the same.
        """
        none = float(np.log(ALMOST_NONE)) + 2.0 * float(np.log(self.unit))
        named = [(place, p.name) for place, p in enumerate(self.parameters)]
        variances = [{place: none} for place, name in named if name.endswith("_variance")]
        together = [{place: none for one in variances for place in one}] if len(variances) > 1 else []
        slopes = [{place: self._first("level")} for place, name in named if name == "trend_variance"]
        lasting, dampings = float(np.log(LASTING / (1.0 - LASTING))), []
        for part in self.damped:
            if part.damping.learned < 0:
                continue
            lasts, at, own = {part.damping.learned: lasting}, part.learned_period, part.amount.learned
            if at < 0:
                dampings.append(lasts)
                continue
            turns = [{at: float(np.log(turn))} for turn in self.turns]
            small, off = ({own: self.parameters[own].start - STILL}, {own: none}) if own >= 0 else ({}, {})
            dampings += [lasts | {at: self.parameters[at].start}, *(lasts | turn | small for turn in turns)]
            dampings += [turn | off for turn in turns if off]
        return variances + together + slopes + dampings

    @property
    def periods(self) -> list[int]:
        """Places of learned periods."""
        return [part.learned_period for part in self.damped if part.learned_period >= 0]

    @property
    def box(self) -> list[tuple[float | None, float | None]]:
        """Lower and upper bound of each parameter."""
        return [(parameter.low, parameter.high) for parameter in self.parameters]

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.names)

    @property
    def first_column(self) -> int:
        """Place of the first state whose share in f comes with the columns: a coefficient, or one by the clock."""
        return min([self.n_states - self.n_coefficients, *(self.groups[name][0] for name in self.by_clock)])

    def clock_columns(self, shifts: Array) -> Array:
        """Shares in f (T, K) of the states before the coefficients whose share comes with the columns.

        Parameters
        ----------
        shifts : ndarray of shape (T,)
            By how many steps, or parts of one, the clock is ahead of the count of points.
        """
        distinct, place = np.unique(shifts, return_inverse=True)
        rows = [np.array(self.h) @ self.advanced(float(shift))[: len(self.h), : len(self.h)] for shift in distinct]
        return np.array(rows).reshape(len(distinct), len(self.h))[:, self.first_column :][place]

    def advanced(self, steps: float) -> Array:
        """The matrix (n, n) that moves the states of seasons by the clock so many steps on, and no other."""
        out, template = np.eye(self.n_states), self.template.transition()
        whole, part = divmod(steps, 1.0)
        for name in self.by_clock:
            own = np.ix_(self.groups[name], self.groups[name])
            out[own] = np.linalg.matrix_power(template[own], int(whole))
            out[own] = out[own] @ part_of_step(template[own], part) if part else out[own]
        return out

    def diffuse(self) -> Array:
        """Which first states have a wide prior, (n,)."""
        return np.isfinite(self.first)

    @cached_property
    def diffuse_log_sd(self) -> float:
        """Half of the logarithms of the wide variances."""
        return 0.5 * float(np.log(np.array(self.first)[self.diffuse()]).sum())

    @cached_property
    def template(self) -> Chain:
        """The chain without points, with zeros in the place of all that depends on the parameters."""
        moves = {row: dict(entries) for row, entries in self.transition.items()}
        for part in self.damped:
            moves |= {row: dict.fromkeys(part.states, 0.0) for row in part.states}
        rows = sorted(moves)
        columns = [column for row in rows for column in moves[row]]
        values = [value for row in rows for value in moves[row].values()]
        starts = list(accumulate((len(moves[row]) for row in rows), initial=0))
        followed = [state for part in self.damped for state in part.states if part.damping.learned >= 0]
        followed = sorted({*followed, *(s for part in self.damped if part.learned_period >= 0 for s in part.states)})
        n, first = self.n_states, self.first_column
        return Chain(
            np.zeros((0, n - first)),
            np.array(self.h[:first]),
            np.array(rows, dtype=np.int64),
            np.array(starts, dtype=np.int64),
            np.array(columns, dtype=np.int64),
            np.array(values, dtype=float),
            np.zeros(n),
            np.zeros(n),
            np.diag(self.first),
            np.array(followed, dtype=np.int64),
        )

    def chain(self, theta: Array, X: Array) -> Chain:
        """The prior at these parameters of rows X of `clock_columns` and of the coefficients' columns."""
        at, values, cov = self.template, self.template.values, self.template.cov
        if self.damped:
            values, cov = values.copy(), cov.copy()
            for part in self.damped:
                block, first = part.block(theta), part.variance(theta)
                for i, row in enumerate(part.states):
                    begin = at.starts[np.searchsorted(at.rows, row)]
                    values[begin : begin + len(part.states)] = block[i]
                    cov[row, row] = first
        noise = np.array([amount.at(theta) for amount in self.amounts])
        return Chain(X, at.h, at.rows, at.starts, at.columns, values, noise, at.mean, cov, at.damped)

    def slope(self, theta: Array, chain: Chain, swept: Swept) -> Array:
        """Slope of the log evidence of the messages in the parameters."""
        out = np.zeros(len(theta))
        for state, amount in enumerate(self.amounts):
            if amount.learned >= 0:
                out[amount.learned] += 0.5 * chain.noise[state] * swept.score[state]
        if not self.damped:
            return out
        in_first = 0.5 * (np.square(swept.first) - np.diagonal(swept.information))
        place = {int(state): k for k, state in enumerate(chain.damped)}
        for part in self.damped:
            states, share, angle = list(part.states), part.damping.at(theta), part.angle(theta)
            size = len(states)
            stationary = part.variance(theta) * float(in_first[states].sum())
            if part.amount.learned >= 0:
                out[part.amount.learned] += stationary
            pull = np.array([[swept.pull[i, place[j]] for j in states] for i in states]) if states[0] in place else None
            if part.damping.learned >= 0:
                turned = float(np.sum(pull * turn(angle)[:size, :size]))
                inner = turned + stationary * 2.0 * share / (1.0 - share**2)
                out[part.damping.learned] += share * (1.0 - share) * inner
            if part.learned_period >= 0:
                c, s = np.cos(angle), np.sin(angle)
                turned = share * float(np.sum(pull * np.array([[-s, c], [-c, -s]])))
                out[part.learned_period] += -angle * turned
        return out


class Wide(float):
    """A prior variance of first states that is ours."""
