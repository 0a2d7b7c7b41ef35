"""The Jacobians of ``fixed_point._maps`` against differences of their maps, the certificate, and quick commands."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fixed_point import certificate as study
from benchmarks.fixed_point import cycle, mean, monotonicity, speed, streams
from benchmarks.fixed_point._data import LIKELIHOODS, design, likelihood
from benchmarks.fixed_point._maps import GLM, Jacobian, certificate, curvature, iterated, optimum

KINDS = ("fixed", "solved", "natural")


def small(name: str, seed: int, n: int = 12, columns: int = 6) -> GLM:
    rng = np.random.default_rng([seed, 1])
    return GLM(rng.standard_normal((n, columns)), (rng.random(n) < 0.5).astype(int), likelihood(name), 0.5)


def image(glm: GLM, kind: str, u: np.ndarray, m: np.ndarray, S: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The map itself at sites moved by u from those of (m, S), by its own definition."""
    n, x = len(glm.y), glm.X
    if kind == "natural":
        moved_w = w + u[n:]
        there = glm.covariance(moved_w)
        # c: the change of the linear part less m times that of w, all beside the sites b that make m.
        b = np.linalg.lstsq(x.T, np.linalg.inv(S) @ m, rcond=None)[0]
        mean_there = there @ (x.T @ (b + u[:n] + glm.linear(m) * u[n:]))
        here = curvature(glm.likelihood, glm.y, x @ mean_there, glm.variance(there))
        new_b = here.slope + here.g * (x @ mean_there)
        return np.r_[new_b - glm.linear(m) * here.g, here.g]
    there = glm.covariance(w + u)
    if kind == "solved":
        for _ in range(50):  # Newton for the mean at that covariance
            here = glm.at(m, there)
            m = m + glm.covariance(here.g) @ (x.T @ here.slope - glm.precision * m)
    return glm.at(m, there).g


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_jacobians_are_differences_of_the_maps(name: str, kind: str) -> None:
    glm = small(name, 0)
    m, S, _ = optimum(glm, gain=0.0)
    for _ in range(200):  # to the fixed point itself: a bound is flat where sites still move
        S = glm.covariance(glm.at(m, S).g)
        m = m + S @ (glm.X.T @ glm.at(m, S).slope - glm.precision * m)
    here = glm.at(m, S)
    J, size, step = Jacobian(glm, S, here).dense(kind), len(glm.y) * (2 if kind == "natural" else 1), 1e-5
    for number in range(size):
        u = np.zeros(size)
        u[number] = step
        found = (image(glm, kind, u, m, S, here.g) - image(glm, kind, -u, m, S, here.g)) / (2 * step)
        if kind == "natural":  # c is defined up to what X' does not feel
            np.testing.assert_allclose(glm.X.T @ found[: len(glm.y)], glm.X.T @ J[: len(glm.y), number], atol=2e-6)
            found, expected = found[len(glm.y) :], J[len(glm.y) :, number]
        else:
            expected = J[:, number]
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_derivatives_of_the_curvature_are_its_differences(name: str) -> None:
    rng, step = np.random.default_rng(3), 1e-5
    m, v, y = rng.normal(0, 2, 20), rng.uniform(0.1, 9, 20), (rng.random(20) < 0.5).astype(int)
    here = curvature(likelihood(name), y, m, v)
    in_mean = curvature(likelihood(name), y, m + step, v).g - curvature(likelihood(name), y, m - step, v).g
    in_variance = curvature(likelihood(name), y, m, v + step).g - curvature(likelihood(name), y, m, v - step).g
    np.testing.assert_allclose(here.in_mean, in_mean / (2 * step), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(here.in_variance, in_variance / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("number", range(4))
def test_spectra_are_real_below_one_and_ordered(number: int) -> None:
    glm = design(number, 40)[2]
    m, S, _ = optimum(glm)
    jacobian, least = Jacobian(glm, S, glm.at(m, S)), {}
    for kind in KINDS:
        values = np.linalg.eigvals(jacobian.dense(kind))
        assert np.abs(values.imag).max() < 1e-6
        assert values.real.max() < 1.0
        least[kind] = values.real.min()
        size = len(glm.y) * (2 if kind == "natural" else 1)
        found = certificate(getattr(jacobian, kind), size, tol=1e-7, most=2000)
        assert found.mu == pytest.approx(-least[kind], abs=0.01)
    assert least["natural"] <= least["fixed"] + 1e-9
    assert least["fixed"] <= least["solved"] + 1e-9


def test_the_limit_of_the_rate_is_sharp_where_half_a_step_is_too_long() -> None:
    glm = GLM(np.ones((1, 1)), np.zeros(1), likelihood("poisson"), 1.0 / 40.0, -10.0)
    m, S, _ = optimum(glm)
    here = glm.at(m, S)
    found = certificate(Jacobian(glm, S, here).fixed, 1)
    assert found.safe < 0.5
    for rate, end in ((0.97 * found.safe, "converged"), (found.rate, "converged")):
        assert iterated(glm, m, rate, start=1.01 * here.g).end == end
    for rate in (0.5, 1.03 * found.safe):
        assert iterated(glm, m, rate, start=1.01 * here.g).end != "converged"


@pytest.mark.exhaustive
def test_quick_commands_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    for module in (monotonicity, cycle, study, mean, speed, streams):
        module.main(quick=True)
    printed = capsys.readouterr().out
    assert "| logit " in printed
    assert "certificate" in printed
    assert "product, FPb" in printed


@pytest.mark.costly
def test_predictions_of_a_few_designs_are_right() -> None:
    for number in range(4):
        row = study.row(number, 50)
        assert row["right"], row
        assert row["at every q"] == row["at every q, prior"] == "converged", row


def test_data_that_are_absent_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    from benchmarks.fixed_point._data import SETS, available

    monkeypatch.setenv("SKSVI_DATA", f"{tmp_path}/nowhere")
    assert not list(available({name: SETS[name] for name in ("a9a", "abalone", "cahousing")}))
