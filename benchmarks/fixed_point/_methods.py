"""FPb, FPi, GRAD and others by the letter of Sheth and Khardon (2016), with their stopping rules, in numpy.

Under the prior N(0, I), from m = 0 and V = I / max x'x: V = I, the paper's, leaves E exp(f) without a number. They end
at ||gradient||_inf <= 1e-5, a fall of the objective of at most 1e-9 (also a rise), or 500 iterations; a limit of
seconds is ours. Nothing is damped but where it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks._lib import Array

GRADIENT, FALL, ITERATIONS = 1e-5, 1e-9, 500


class Ended(Exception):
    """An iteration has ended by one of the rules; its text says by which."""


class Objective:
    """Minus the bound of a GLM under the prior N(0, I), its gradients, and a trace of (CPU seconds, iteration, bound).

    Parameters
    ----------
    X, y, likelihood : rows, targets and a likelihood whose parameters are numbers
    limit : float
        CPU seconds.
    patient : bool, default=False
        A rise of the objective ends nothing: figure 3 shows where it leads.
    """

    def __init__(self, X: Array, y: Array, likelihood: Any, limit: float, patient: bool = False) -> None:
        from sksvi.expectations import Auto

        self.X, self.y, self.likelihood, self.limit, self.patient, self.expect = (
            X,
            y,
            likelihood,
            limit,
            patient,
            Auto(),
        )
        self.trace: list[tuple[float, int, float]] = []
        self.evaluations = 0
        self.rows(np.zeros(X.shape[1]), np.ones(len(y)))  # compiled code is loaded before the clock starts
        self.evaluations, self.began = 0, process_time()
        self.start = np.eye(X.shape[1]) / np.square(X).sum(1).max()

    def rows(self, m: Array, v: Array) -> tuple[float, Array, Array]:
        """Sum of E log p, E l' and -E l'' of the rows."""
        self.evaluations += 1
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope, half = self.expect(self.likelihood, self.y, self.X @ m, v)
        return float(value.sum()), slope, -2.0 * half

    def variance(self, L: Array) -> Array:
        """diag(X V X') for V = L L'."""
        return np.square(self.X @ L).sum(1)

    def kl(self, m: Array, L: Array) -> float:
        """KL(N(m, L L') || N(0, I)), nats."""
        return float(0.5 * (np.sum(L * L) + m @ m - len(m)) - np.log(np.abs(np.diagonal(L))).sum())

    def precision(self, g: Array) -> Array:
        """I + X' diag(g) X."""
        P = (self.X * g[:, None]).T @ self.X
        P[np.diag_indices_from(P)] += 1.0
        return P

    def look(self, bound: float, gradient: float, before: float | None = None) -> None:
        """A line of the trace; `Ended` where a rule says so. `before`: the bound one iteration earlier."""
        seconds = process_time() - self.began
        self.trace.append((seconds, len(self.trace), bound))
        if not np.isfinite(bound):
            raise Ended("no number")
        if gradient <= GRADIENT:
            raise Ended("gradient")
        if before is not None and before - FALL <= bound <= before + FALL:
            raise Ended("fall")
        if before is not None and bound < before and not self.patient:
            raise Ended("rise")
        if len(self.trace) > ITERATIONS:
            raise Ended("iterations")
        if seconds > self.limit:
            raise Ended("seconds")


def root_of(P: Array) -> Array:
    """L, lower triangular, with L L' = P⁻¹; `Ended` where P is not positive definite."""
    if not np.all(np.isfinite(P)):
        raise Ended("no number")
    try:
        C = np.linalg.cholesky(P[::-1, ::-1])[::-1, ::-1]  # P = C C' with C upper triangular
    except np.linalg.LinAlgError as error:
        raise Ended("not positive definite") from error
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(C, np.eye(len(P)), lower=False).T)


def _best_mean(problem: Objective, m: Array, L: Array) -> Array:
    """The mean that is best at V = L L', by L-BFGS in coordinates in which q is standard."""
    from scipy.optimize import minimize

    v = problem.variance(L)

    def negative(u: Array) -> tuple[float, Array]:
        mean = m + L @ u
        value, slope, _ = problem.rows(mean, v)
        return 0.5 * float(mean @ mean) - value, L.T @ (mean - problem.X.T @ slope)

    options = {"gtol": GRADIENT, "ftol": 1e-15, "maxiter": ITERATIONS}
    return m + L @ minimize(negative, np.zeros(len(m)), jac=True, method="L-BFGS-B", options=options).x


def _gradient(problem: Objective, m: Array, P: Array, slope: Array, target: Array) -> float:
    """Largest element of the gradient in m and V."""
    return float(max(np.abs(problem.X.T @ slope - m).max(), 0.5 * np.abs(P - target).max()))


def fixed_point(problem: Objective, incremental: bool) -> None:
    """FPi: a step of V, then the best m. FPb: steps of V until they end by the rules, then the best m."""
    m, P = np.zeros(problem.X.shape[1]), np.linalg.inv(problem.start)
    L, before = root_of(P), None
    while True:
        inner = None
        for _ in range(1 if incremental else ITERATIONS):
            value, _, g = problem.rows(m, problem.variance(L))
            bound, target = value - problem.kl(m, L), problem.precision(g)
            if inner is not None and (bound - inner <= FALL or 0.5 * np.abs(P - target).max() <= GRADIENT):
                break
            inner, P = bound, target
            L = root_of(P)
        m = _best_mean(problem, m, L)
        value, slope, g = problem.rows(m, problem.variance(L))
        bound = value - problem.kl(m, L)
        problem.look(bound, _gradient(problem, m, P, slope, problem.precision(g)), before)
        before = bound


def natural(problem: Objective, halved: bool) -> None:
    """Natural steps of size 1 on m and V (eqs. 17 and 18); `halved`: shortened while the bound falls ("cvi")."""
    m, P = np.zeros(problem.X.shape[1]), np.linalg.inv(problem.start)
    L, before = root_of(P), None
    value, slope, g = problem.rows(m, problem.variance(L))
    bound = value - problem.kl(m, L)
    while True:
        target, in_mean = problem.precision(g), problem.X.T @ slope - m
        problem.look(bound, float(max(np.abs(in_mean).max(), 0.5 * np.abs(P - target).max())), before)
        before, rate = bound, 1.0
        while True:
            P_new = (1.0 - rate) * P + rate * target
            try:
                L_new = root_of(P_new)
            except Ended:
                if not halved or rate < 1e-6:
                    raise
                rate *= 0.5
                continue
            m_new = m + rate * (L_new @ (L_new.T @ in_mean))
            value, slope, g = problem.rows(m_new, problem.variance(L_new))
            bound = value - problem.kl(m_new, L_new)
            if not halved or bound >= before or rate < 1e-6:
                break
            rate *= 0.5
        m, P, L = m_new, P_new, L_new


def _objective(problem: Objective, lower: tuple[Array, Array]) -> Callable[[Array], tuple[float, Array]]:
    D = problem.X.shape[1]

    def negative(x: Array) -> tuple[float, Array]:
        m, L = x[:D], np.zeros((D, D))
        L[lower] = x[D:]
        half = problem.X @ L
        value, slope, g = problem.rows(m, np.square(half).sum(1))
        with np.errstate(over="ignore", invalid="ignore"):
            in_root = L + problem.X.T @ (g[:, None] * half)
        in_root[np.diag_indices(D)] -= 1.0 / np.diagonal(L)
        with np.errstate(divide="ignore"):
            out = problem.kl(m, L) - value
        if process_time() - problem.began > problem.limit:
            raise Ended("seconds")
        return (out if np.isfinite(out) else 1e300), np.r_[m - problem.X.T @ slope, in_root[lower]]

    return negative


def gradient_based(problem: Objective, newton: bool) -> None:
    """GRAD: L-BFGS on m and the Cholesky factor of V; `newton`: Newton with conjugate gradients in a trust region.

    Newton's products with the Hessian are differences of gradients.
    """
    from scipy.optimize import minimize

    D = problem.X.shape[1]
    lower = np.tril_indices(D)
    negative = _objective(problem, lower)
    x = np.r_[np.zeros(D), np.sqrt(problem.start)[lower]]
    last: dict[str, Any] = {"x": x, "gradient": negative(x)[1], "bound": None}

    def after(x: Array) -> None:
        if last["bound"] is not None and np.array_equal(x, last["x"]):
            return  # a step that the trust region took back
        out, gradient = negative(x)
        problem.evaluations -= 1  # for the record alone
        last["x"], last["gradient"], before = x.copy(), gradient, last["bound"]
        last["bound"] = -out
        problem.look(-out, float(np.abs(gradient).max()), before)

    def hessian(x: Array, direction: Array) -> Array:
        size = 1e-5 / max(float(np.linalg.norm(direction)), 1e-300)
        here = last["gradient"] if np.array_equal(x, last["x"]) else negative(x)[1]
        return (negative(x + size * direction)[1] - here) / size

    if newton:
        minimize(negative, x, jac=True, hessp=hessian, method="trust-ncg", callback=after, options={"gtol": 0.0})
    else:
        # ftol and gtol are ours, in `look`: scipy's are relative.
        options = {"maxiter": 10**6, "maxfun": 10**7, "ftol": 0.0, "gtol": 0.0}
        minimize(negative, x, jac=True, method="L-BFGS-B", callback=after, options=options)
    raise Ended("line search")


METHODS: dict[str, Callable[[Objective], None]] = {
    "FPi": lambda problem: fixed_point(problem, True),
    "FPb": lambda problem: fixed_point(problem, False),
    "FP for the mean": lambda problem: natural(problem, False),
    "cvi": lambda problem: natural(problem, True),
    "GRAD": lambda problem: gradient_based(problem, False),
    "Newton": lambda problem: gradient_based(problem, True),
}


def run(method: str, X: Array, y: Array, likelihood: Any, limit: float, patient: bool = False) -> tuple[Objective, str]:
    """A method on a set: its trace, and the rule that ended it."""
    problem = Objective(X, y, likelihood, limit, patient)
    try:
        METHODS[method](problem)
    except Ended as end:
        return problem, str(end)
    raise AssertionError("a method ends by a rule")
