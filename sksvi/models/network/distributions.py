"""Distributions: of a node given other nodes, or of data; each says the expectation of its log density and no more."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln

from sksvi import families, likelihoods
from sksvi._typing.parameters import LikelihoodLike
from sksvi.expectations import Auto, Expectation
from sksvi.models.base import Blocks, Gradient
from sksvi.models.network.model import Factor
from sksvi.models.network.slots import Given, Link, ShapeSlot, Slot, VarianceSlot

Array = np.ndarray
#: By parameter the moments of its elements, or the gradient in them.
Moments = dict[str, Array]

LOG_2PI = float(np.log(2.0 * np.pi))


class Distribution:
    """What a node, or data, are distributed as given their parameters: numbers, arrays, names of nodes or links.

    ``kinds`` : by parameter the family of a node in its place, "gaussian", "gamma", "rayleigh", "beta" or "dirichlet".
    ``latent`` : the family of a node that is distributed so; None: only data are. ``not_conjugate`` : parameters whose
    node has to be stepped to more than once. ``per_row`` : what may be a name in the data of a fit.
    """

    #: Nodes are parameters of a network, checked where they are used.
    LAYOUT: ClassVar[str] = ""

    kinds: Mapping[str, str] = {}
    latent: ClassVar[str | None] = None
    observed: ClassVar[bool] = True
    not_conjugate: ClassVar[frozenset[str]] = frozenset()
    per_row: ClassVar[tuple[str, ...]] = ()
    size: int | str | None = None
    #: Whether the node is integrated out given its parents, rather than having a q of its own.
    integrated: bool = False
    #: Axes that a parameter has for one element.
    own_axes: ClassVar[int] = 0

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters by name as the user gave them: numbers, names or links."""
        return {name: getattr(self, name) for name in self.kinds}

    @property
    def links(self) -> dict[str, Link]:
        """Links of the parameters that are nodes, by parameter."""
        found = {name: Link(given) if isinstance(given, str) else given for name, given in self.parameters.items()}
        return {name: given for name, given in found.items() if isinstance(given, Link)}

    @property
    def data_names(self) -> list[str]:
        """Names in the data of a fit that the distribution takes rows, or its size, from."""
        own = [getattr(self, name) for name in (*self.per_row, "size")]
        links = [name for link in self.links.values() for name in link.data_names]
        return [one for one in own if isinstance(one, str)] + links

    def with_data(self, data: Mapping[str, Any]) -> Self:
        """The distribution with rows of the data in the place of their names."""
        new = copy.copy(self)
        for name in self.per_row:
            if isinstance(getattr(self, name), str):
                setattr(new, name, data[getattr(self, name)])
        if isinstance(self.size, str):
            new.size = len(np.atleast_1d(np.asarray(data[self.size])))
        for name, link in self.links.items():
            setattr(new, name, link.with_data(data))
        return new

    def slot(self, name: str) -> Slot:
        """The slot of a parameter."""
        links = self.links
        return Slot(links[name]) if name in links else Slot(None, as_moments(self.kinds[name], self.parameters[name]))

    def constant(self, name: str, moments: Array) -> Array:
        """Numbers for a parameter from its moments (n, d): its mean, and of a node of probabilities their statistic."""
        return np.asarray(moments[:, 0 if self.kinds[name] == "gaussian" else 1])

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, Array | None, Moments]:
        """E log density by element, and its gradients in the moments of the child and of each parameter.

        `of` are the child's moments; `y` the data themselves where it is observed.
        """
        raise AttributeError(f"{type(self).__name__} has no expected log density")

    def complaint(self, y: Array) -> str | None:
        """Why data cannot be values of the distribution, as the end of an error's text; None where they can."""
        return None

    def encoded(self, y: Array) -> Array:
        """The data as moments of the child, (n, d)."""
        return as_moments(str(self.latent), y)


def as_moments(kind: str, value: Any) -> Array:
    """Moments of constants, (n, d)."""
    value = np.asarray(value, float)
    if kind == "gaussian":
        value = np.atleast_1d(value)
        return np.stack([value, np.zeros_like(value)], -1)
    if kind == "dirichlet":
        return np.log(np.atleast_2d(value))
    family = families.Gamma if kind == "gamma" else families.Beta
    return family.statistics(np.atleast_1d(value))


class Gaussian(Distribution):
    """x ~ N(mean, 1/precision) or N(mean, variance): a node of real numbers, or data.

    Parameters
    ----------
    mean : float, array-like of shape (n,), str or Link
        A Gaussian node in its place may come through a design.
    precision : float, array-like of shape (n,), str or Link
        1 / variance; a Gamma node in its place.
    size : int or str, optional
        Elements of the node; by default as many as the parameters have. A string is a name in the data: one element for
        each of these rows, local to them.
    covariance : {"diag", "full"}, default="diag"
        Of q where it is a latent node.
    variance : float, array-like of shape (n,) or str, optional
        In the place of a precision; a Rayleigh node in its place.
    integrated : bool, default=False
        Whether the node has no q of its own: each element is integrated out by quadrature given mean and spread, which
        makes the bound the best one for the q of these (Sheth and Khardon 2016, equations 6 and 8). It takes an
        observed `Likelihood`, a row for each element or an index, and nothing else that depends on the node.

    Examples
    --------
    >>> from sksvi.network import Gaussian
    >>> effects = Gaussian("centre", "precision", size=8)
    """

    latent = "gaussian"

    def __init__(
        self,
        mean: Given | None = None,
        precision: Given | None = None,
        size: int | str | None = None,
        covariance: str = "diag",
        variance: Given | None = None,
        integrated: bool = False,
    ) -> None:
        self.mean, self.precision, self.size, self.covariance = mean, precision, size, covariance
        self.variance, self.integrated = variance, integrated

    @property
    def kinds(self) -> dict[str, str]:  # type: ignore[override]
        """Families of nodes in the place of the parameters: of a variance where it is given, else of a precision."""
        return {"mean": "gaussian", self.spread: {"variance": "rayleigh", "precision": "gamma"}[self.spread]}

    @property
    def spread(self) -> str:
        """Name of the parameter that says how wide it is, variance or precision."""
        return "precision" if self.variance is None else "variance"

    @property
    def not_conjugate(self) -> frozenset[str]:  # type: ignore[override]
        """A variance, whose node has to be stepped to more than once."""
        return frozenset({"variance"} & {self.spread})

    def slot(self, name: str) -> Slot:
        """The slot of a parameter; that of a variance has the moments of a precision."""
        if name != "variance":
            return super().slot(name)
        link = self.links.get(name)
        return VarianceSlot(link, None if link else np.atleast_1d(np.asarray(self.variance, float)))

    def constant(self, name: str, moments: Array) -> Array:
        """Numbers for a parameter from its moments; a variance from that of the precision."""
        return 1.0 / moments[:, 1] if name == "variance" else super().constant(name, moments)

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, Array, Moments]:
        """½ (E log τ - log 2π - E τ E (x - μ)²)."""
        mean, (log_tau, tau) = given["mean"], given[self.spread].T
        away = of[:, 0] - mean[:, 0]
        square = np.square(away) + of[:, 1] + mean[:, 1]
        value = 0.5 * (log_tau - LOG_2PI - tau * square)
        slope, bend = tau * away, np.broadcast_to(-0.5 * tau, square.shape)
        in_spread = np.stack([np.full(square.shape, 0.5), -0.5 * square], -1)
        return value, np.stack([-slope, bend], -1), {"mean": np.stack([slope, bend], -1), self.spread: in_spread}


class Gamma(Distribution):
    """x ~ Gamma(shape, rate), of mean shape/rate: a node of positive numbers, or data.

    The density is rate^shape x^(shape - 1) exp(-rate x) / Γ(shape).

    Parameters
    ----------
    shape, rate : float, array-like of shape (n,), str or Link
        Gamma nodes in their place; a rate is conjugate, a shape is not.
    size : int or str, optional
        Elements of the node; by default as many as the parameters have. A string is a name in the data: one element for
        each of these rows, local to them.

    Examples
    --------
    >>> from sksvi.network import Gamma, Link
    >>> lives = Gamma(Link("shapes", index=[0, 0, 1]), "rate")
    """

    kinds = {"shape": "gamma", "rate": "gamma"}
    latent = "gamma"
    not_conjugate = frozenset({"shape"})

    def __init__(self, shape: Given | None = None, rate: Given | None = None, size: int | str | None = None) -> None:
        self.shape, self.rate, self.size = shape, rate, size

    def slot(self, name: str) -> Slot:
        """The slot of a parameter; that of a shape has E log Γ among its moments."""
        slot = super().slot(name)
        return slot if name != "shape" else ShapeSlot(slot.link, slot.constant)

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, Array, Moments]:
        """E a E log b - E log Γ(a) + (E a - 1) E log x - E b E x."""
        (_, a, log_gamma), (log_b, b), (log_x, x) = given["shape"].T, given["rate"].T, of.T
        value = a * log_b - log_gamma + (a - 1.0) * log_x - b * x
        like = np.ones(value.shape)
        in_shape = np.stack([0.0 * like, like * (log_b + log_x), -like], -1)
        return (
            value,
            np.stack([like * (a - 1.0), -b * like], -1),
            {"shape": in_shape, "rate": np.stack([a * like, -x * like], -1)},
        )

    def complaint(self, y: Array) -> str | None:
        """Why data are no positive numbers; None where they are."""
        return None if np.all(y > 0) else "has numbers that are not positive"


class Beta(Distribution):
    """x ~ Beta(a, b), of mean a/(a + b): a node of probabilities.

    Parameters
    ----------
    a, b : float or array-like of shape (n,)
    size : int or str, optional
        Elements of the node; by default as many as the parameters have. A string is a name in the data: one element for
        each of these rows, local to them.

    Examples
    --------
    >>> from sksvi.network import Beta
    >>> sensitivity = Beta(18.0, 2.0)
    """

    latent, observed = "beta", False

    def __init__(self, a: Given | None = None, b: Given | None = None, size: int | str | None = None) -> None:
        self.a, self.b, self.size = a, b, size

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters a and b by name, which are numbers."""
        return {"a": self.a, "b": self.b}


class Rayleigh(Distribution):
    """x ~ Rayleigh(scale), density (x / scale²) exp(-x² / (2 scale²)): a node of one variance.

    Parameters
    ----------
    scale : float
        Mode of x.

    Examples
    --------
    >>> from sksvi.network import Gaussian, Rayleigh
    >>> nodes = {"noise": Rayleigh(5.0), "f": Gaussian("line", variance="noise", size=20)}
    """

    latent, observed = "rayleigh", False

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameter scale by name, which is a number."""
        return {"scale": self.scale}


class Dirichlet(Distribution):
    """x ~ Dirichlet(concentration), of mean concentration / its sum: a node of probability vectors.

    Parameters
    ----------
    concentration : array-like of shape (V,) or (K, V)
        K vectors, which links may choose by index.

    Examples
    --------
    >>> from sksvi.network import Dirichlet
    >>> shares = Dirichlet([1.0, 1.0, 1.0])
    """

    latent, observed, own_axes = "dirichlet", False, 1

    def __init__(self, concentration: Given | None = None) -> None:
        self.concentration = concentration

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameter concentration by name, which is numbers."""
        return {"concentration": self.concentration}


class Poisson(Distribution):
    """Counts y ~ Poisson(rate × exposure).

    Parameters
    ----------
    rate : str or Link
        A Gamma node.
    exposure : float, array-like of shape (n,) or str, default=1.0
        Positive numbers, or their name in the data.

    See Also
    --------
    Likelihood : counts whose log rate is a Gaussian node.

    Examples
    --------
    >>> from sksvi.network import Poisson
    >>> counts = Poisson("rate", exposure=[1.0, 0.5])
    """

    kinds = {"rate": "gamma"}
    per_row = ("exposure",)

    def __init__(self, rate: Given | None = None, exposure: Given = 1.0) -> None:
        self.rate, self.exposure = rate, exposure

    def encoded(self, y: Array) -> Array:
        """Counts, exposures, and what no node changes."""
        exposure = np.broadcast_to(np.asarray(self.exposure, float), y.shape)
        return np.stack([y, exposure, y * np.log(exposure) - gammaln(y + 1.0)], -1)

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, None, Moments]:
        """y E log r - e E r + y log e - log y!."""
        (count, exposure, constant), (log_rate, rate) = of.T, given["rate"].T
        return count * log_rate - exposure * rate + constant, None, {"rate": np.stack([count, -exposure], -1)}

    def complaint(self, y: Array) -> str | None:
        """Why data are no counts, or not of positive exposures; None where they are."""
        exposure = np.asarray(self.exposure, float)
        if not np.all((exposure > 0) & np.isfinite(exposure)):
            return f"has exposure={self.exposure!r}, of which some are not positive"
        return None if np.all((y >= 0) & (y == np.floor(y))) else "has numbers that are no counts"


class Binomial(Distribution):
    """Counts y of n trials, each with the probability of a Beta node.

    Parameters
    ----------
    p : str or Link
        A Beta node.
    trials : int, array-like of shape (n,) or str, default=1
        Numbers of trials, or their name in the data.

    Examples
    --------
    >>> from sksvi.network import Binomial
    >>> heads = Binomial("p", trials=10)
    """

    kinds = {"p": "beta"}
    per_row = ("trials",)

    def __init__(self, p: Given | None = None, trials: Given = 1) -> None:
        self.p, self.trials = p, trials

    def encoded(self, y: Array) -> Array:
        """Successes, failures, and the log of the binomial coefficient of each element."""
        n = np.broadcast_to(np.asarray(self.trials, float), y.shape)
        return np.stack([y, n - y, gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)], -1)

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, None, Moments]:
        """y E log p + (n - y) E log(1 - p) + log (n over y)."""
        return (of[:, :2] * given["p"]).sum(-1) + of[:, 2], None, {"p": of[:, :2]}

    def complaint(self, y: Array) -> str | None:
        """Why data are no counts of successes among the trials; None where they are."""
        fine = np.all((y >= 0) & (y == np.floor(y)) & (y <= np.asarray(self.trials)))
        return None if fine else "has numbers that are no counts between 0 and the number of trials"


class Categorical(Distribution):
    """Categories 0, ..., V - 1 with the probabilities of a Dirichlet node.

    Parameters
    ----------
    p : str or Link
        A Dirichlet node.

    Examples
    --------
    >>> from sksvi.network import Categorical
    >>> colours = Categorical("shares")
    """

    kinds = {"p": "dirichlet"}

    def __init__(self, p: Given | None = None) -> None:
        self.p = p

    def encoded(self, y: Array) -> Array:
        """Codes of the categories, as the data's moments."""
        return y[:, None]

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, None, Moments]:
        """E log p of each category."""
        counts = np.zeros((len(of), given["p"].shape[-1]))
        counts[np.arange(len(of)), of[:, 0].astype(int)] = 1.0
        return (counts * given["p"]).sum(-1), None, {"p": counts}

    def complaint(self, y: Array) -> str | None:
        """Why data are no categories; None where they are."""
        return None if np.all((y >= 0) & (y == np.floor(y))) else "has numbers that are no categories 0, 1, ..."


def _given_whole(spec: LikelihoodLike) -> likelihoods.Likelihood:
    """The likelihood of one number per row, of which nothing is to be learned.

    Raises
    ------
    ValueError
        Where it is another.
    """
    likelihood = likelihoods.resolve(spec)
    if likelihood.traits.paired:
        raise ValueError(f"{spec!r} has y of shape (n, 2), and data are one number per row: use Binomial(p, trials).")
    if likelihood.n_latents > 1:
        raise ValueError(f"{spec!r} has a latent for every class, and f is one: use Categorical(p).")
    scales = likelihood._automatic()
    if scales:
        given = ", ".join(f"{name}=..." for name in scales)
        raise ValueError(
            f"{spec!r} has scales to be learned, and a network learns nodes alone: give an instance with numbers, "
            f"sksvi.likelihoods.{type(likelihood).__name__}({given})."
        )
    return likelihood


class Likelihood(Distribution):
    """Data under any of the package's likelihoods, whose latent f is a Gaussian node plus an offset.

    Parameters
    ----------
    likelihood : str or Likelihood
        See `sksvi.likelihoods`; its scale must be a number, which a name has not: "gaussian", "student-t",
        "negative-binomial" and "ordinal" are instances with theirs, as ``likelihoods.Gaussian(variance=1.0)``.
    f : str or Link
        A Gaussian node; through a design it is a generalized linear model.
    offset : float, array-like of shape (n,) or str, default=0.0
        Log exposure of counts, or its name in the data.

    Raises
    ------
    ValueError
        For a likelihood that has no such name, has a scale to be learned, pairs for targets or several latents.

    Examples
    --------
    >>> from sksvi.network import Likelihood
    >>> counts = Likelihood("poisson", "log_rate")
    """

    kinds = {"f": "gaussian"}
    per_row = ("offset",)
    not_conjugate = frozenset({"f"})

    def __init__(self, likelihood: LikelihoodLike, f: Given | None = None, offset: Given = 0.0) -> None:
        self.likelihood, self.f, self.offset = _given_whole(likelihood), f, offset

    def encoded(self, y: Array) -> Array:
        """Target and offset of each row, (n, 2)."""
        return np.stack([y, np.broadcast_to(np.asarray(self.offset, float), y.shape)], -1)

    def expected(
        self, of: Array, given: Moments, y: Array | None, expect: Expectation | None
    ) -> tuple[Array, None, Moments]:
        """E log p(y | f) under N(m, v), and its derivatives in m and v."""
        m, v = (np.broadcast_to(part, len(of)) for part in given["f"].T)
        target = np.ascontiguousarray(of[:, 0])
        value, dm, dv = (Auto() if expect is None else expect)(self.likelihood, target, m + of[:, 1], np.array(v))
        return value, None, {"f": np.stack([dm, dv], -1)}

    def complaint(self, y: Array) -> str | None:
        """Why data are no targets of the likelihood; None where they are."""
        try:
            self.likelihood.check_target(y)
        except ValueError as error:
            return f"is no target: {str(error).rstrip('.')}"
        return None


class DistributionFactor(Factor):
    """The factor of a distribution and its child, which is a latent node or data."""

    def __init__(self, child: str, distribution: Distribution, y: Array | None, n_rows: int, sign: float = 1.0) -> None:
        self.child, self.distribution, self.y, self.n_rows, self.sign = child, distribution, y, n_rows, sign
        self.slots = {name: distribution.slot(name) for name in distribution.kinds}
        self.own = Slot(Link(child)) if y is None else Slot(None, distribution.encoded(y))
        links = [slot.name for slot in self.slots.values() if slot.name is not None]
        self.nodes = tuple(dict.fromkeys([*links, *([child] if y is None else [])]))

    def terms(self, q: Blocks, rows: Any, expect: Expectation | None = None) -> tuple[Array, Gradient]:
        """Expected log density by element of the child, and its gradients in the moments of the nodes."""
        given = {name: slot.moments(q, rows) for name, slot in self.slots.items()}
        of = self.own.moments(q, rows)
        value, in_child, in_given = self.distribution.expected(of, given, self.y, expect)
        messages: Gradient = {}
        pairs = [(self.slots[name], gradient) for name, gradient in in_given.items()]
        if in_child is not None:
            pairs.append((self.own, in_child))
        for slot, gradient in pairs:
            if slot.name is not None:
                gradient = np.broadcast_to(gradient, (len(value), gradient.shape[-1]))
                parts = slot.pulled(q[slot.name], self.sign * gradient, rows)
                before = messages.get(slot.name)
                messages[slot.name] = (
                    parts if before is None else tuple(a + b for a, b in zip(before, parts, strict=True))
                )
        return self.sign * value, messages

    def conjugate_to(self, name: str) -> bool:
        """Whether the node stands in the place of conjugate parameters alone, and in one place only."""
        places = [place for place, slot in self.slots.items() if slot.name == name]
        return not self.distribution.not_conjugate.intersection(places) and len(places) + (self.child == name) <= 1
