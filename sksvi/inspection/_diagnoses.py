"""Parts of a diagnosis: what each looks at, what it found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

Array = np.ndarray

#: Probability under the model below which a test statistic is an alarm; there are about six of them in a diagnosis.
RARE = 0.001
#: Skewness and excess kurtosis of normal scores of y below which a shape costs predictions little.
SKEWED, TAILED = 0.5, 1.0
#: Rows below which shapes of residuals are not looked at.
LEAST_ROWS = 20
#: Share of draws that they must be worth, and where q leaves out covariances.
WORTH, WORTH_DIAGONAL = 0.1, 0.25
#: Share of plates whose k-hat is above 0.7 from which on it is an alarm.
OFTEN = 0.25
#: Cells per component in the median of a side, at least.
PER_COMPONENT = 2.0
#: Normal scores beyond which a residual is an outlier, and at which shapes are cut.
OUTLIER, CUT = 4.0, 2.5
#: Standard deviation of normal scores, cut, from which on counts are overdispersed.
SPREAD_OUT = 1.1
#: Nats and share of all influence above which a fit hangs on a row.
LEADING, LEADING_SHARE = 4.0, 0.5
#: Lag-1 autocorrelation that matters; turning points a row below which values are in order (2/3 of independent ones).
FOLLOWING, TURNING = 0.2, 0.25
#: Simulated targets behind a reference distribution.
SIMULATED = 400


@dataclass(frozen=True)
class Finding:
    """What one part of a diagnosis found.

    Parameters
    ----------
    part : str
        Its name.
    text : str
        Its numbers, in words; begins with "not applicable" where it does not apply.
    alarm : str
        What is wrong, in words; empty: nothing.
    remedy : str
        What to do about an alarm.
    """

    part: str
    text: str
    alarm: str = ""
    remedy: str = ""

    @property
    def state(self) -> str:
        """ "alarm", "fine" or "not applicable"."""
        return "alarm" if self.alarm else "not applicable" if self.text.startswith("not applicable") else "fine"


def absent(part: str, why: str) -> Finding:
    """A part that does not apply."""
    return Finding(part, f"not applicable: {why}")


def convergence(model: Any) -> Finding:
    """Whether the fit ended by its tolerance."""
    ended = getattr(model, "converged_", None)
    if ended is None:
        return absent("convergence", "the fit holds no converged_")
    if ended:
        return Finding("convergence", f"ended by its tolerance after {getattr(model, 'n_iter_', '?')} iterations")
    if getattr(model, "state_", None) is not None and model.state_.counted:
        return absent("convergence", "a stream sees no row twice")
    return Finding("convergence", "cut off", "The fit did not converge", "raise max_iter, or fit again from here")


def posterior(check: Any, diagonal: bool) -> Finding:
    """k-hat of q as a whole."""
    worth = check.effective_sample_size / check.n_draws
    text = f"k-hat {check.k_hat:.2f}, {check.n_draws} draws worth {check.effective_sample_size:.0f}"
    size = len(check.coefficients)
    fine = worth > WORTH_DIAGONAL if diagonal else check.k_hat <= 0.7 or worth > WORTH
    if fine:
        return Finding("posterior", text)
    if size > 100 and not diagonal:
        return Finding("posterior", f"{text}; of {size} coordinates together, each may still be right")
    remedy = 'fit with covariance="full"' if diagonal else "read corrected_mean and corrected_std of check_posterior"
    return Finding("posterior", text, "The variational posterior is not the posterior", remedy)


def plates(k_hats: dict[str, Array], cells: dict[str, Array], n_components: int) -> Finding:
    """k-hat per plate, such as users, items, documents, and how many cells each has, where these are counted."""
    text = "; ".join(f"k-hat of q above 0.7 in {np.mean(k > 0.7):.0%} of {name}" for name, k in k_hats.items())
    few = {name: float(np.median(count)) for name, count in cells.items()}
    text += "".join(f"; {count:.0f} cells in the median of {name}" for name, count in few.items())
    scarce = [name for name, count in few.items() if count < PER_COMPONENT * n_components]
    if scarce:
        alarm = f"Too few cells in the median of {scarce[0]} for {n_components} components: the prior places them"
        return Finding("plates", text, alarm, "fewer components, or more cells")
    often = [name for name, k in k_hats.items() if np.mean(k > 0.7) > OFTEN]
    if often and not cells:
        return Finding("plates", text, f"q is not the posterior in many {often[0]}", 'uncertainty="corrected"')
    return Finding("plates", text)


def groups(proba: Array) -> Finding:
    """Whether the groups of a mixture can be told apart."""
    certain = float(np.mean(proba.max(1)))
    text = f"mean probability of a row's group {certain:.2f}"
    if certain >= 0.85 or proba.shape[1] == 1:
        return Finding("plates", text)
    return Finding("plates", text, "The groups of the mixture overlap", "fewer components; weights are not exact")


def dispersion(y: Array, mean: Array, variance: Array, draws: Array, count: bool, kind: str) -> Finding:
    """Pearson statistic and zeros beside those of simulated targets, (n, S)."""
    good = np.isfinite(variance) & (variance > 0)
    if not good.any():
        return absent("dispersion", "predictions have no variance")
    y, mean, variance, draws = y[good], mean[good], variance[good], draws[good]
    found, simulated = (np.sum(np.square(v - mean[:, None]) / variance[:, None], axis=0) for v in (y[:, None], draws))
    p, ratio = _tail(found[0], simulated), found[0] / simulated.mean()
    text = f"Pearson statistic {ratio:.2f} of what the model expects ({_shown(p)})"
    zeros, none = float(np.mean(y == 0)), np.mean(draws == 0, axis=0)
    if not count:
        return Finding("dispersion", text)
    text += f"; zeros {zeros:.3f}, expected {none.mean():.3f}"
    excess = max(float(np.sum(np.square(y - mean) - mean) / np.sum(np.square(mean))), 1e-9)
    nb = (1.0 + excess * mean) ** (-1.0 / excess)
    z = (zeros - nb.mean()) / np.sqrt(np.sum(nb * (1 - nb)) + 1e-12) * len(y)
    more_zeros = _z(zeros, none) > 4.0
    if more_zeros and z > 4.0:
        remedy = f'likelihood="zero-inflated-{"poisson" if kind == "Poisson" else "negative-binomial"}"'
        return Finding("dispersion", text, "More zeros than the model can make: zero inflation", remedy)
    if ratio > 1.2 and _z(found[0], simulated) > 4.0:
        remedy = 'likelihood="negative-binomial"' if kind == "Poisson" else "columns or groups that are missing"
        return Finding("dispersion", text, "y is overdispersed", remedy)
    if ratio < 0.7 and _z(found[0], simulated) < -4.0:
        return Finding("dispersion", text, "y is underdispersed: intervals are too wide", "another likelihood")
    return Finding("dispersion", text)


def _tail(found: float, simulated: Array) -> float:
    """Two-sided share of simulated statistics that are as extreme."""
    above = (np.sum(simulated >= found) + 1.0) / (len(simulated) + 1.0)
    below = (np.sum(simulated <= found) + 1.0) / (len(simulated) + 1.0)
    return float(min(1.0, 2.0 * min(above, below)))


def _shown(p: float) -> str:
    """A p-value to three digits, which none is zero to."""
    return f"p {p:.3f}" if p >= 0.001 else "p < 0.001"


def _z(found: float, simulated: Array) -> float:
    """Distance of a statistic from simulated ones, in their standard deviations."""
    return float((found - simulated.mean()) / (simulated.std() + 1e-12))


def normal_scores(pit: Array) -> Array:
    """Standard normal quantiles of probability integral transforms."""
    return np.asarray(stats.norm.ppf(np.clip(pit, 1e-9, 1 - 1e-9)))


def autocorrelation(pit: Array, order: str, remedy: str) -> Finding:
    """Whether residuals follow one another, by probability integral transforms (n,) in some order of the rows.

    Only positive: leaving a row out makes neighbours of a group, or on a smooth curve, negatively correlated.
    """
    n = len(pit)
    if n < LEAST_ROWS:
        return absent("autocorrelation", f"{n} rows are too few")
    z = np.clip(normal_scores(pit), -CUT, CUT)
    z = z - z.mean()
    r, error = float(z[1:] @ z[:-1] / (z @ z)), n**-0.5
    text = f"{r:.2f} between residuals of neighbours in {order} (standard error {error:.2f})"
    if r < max(FOLLOWING, 4.0 * error):
        return Finding("autocorrelation", text)
    return Finding("autocorrelation", text, f"Residuals follow one another in {order}", remedy)


def in_order(values: Array) -> bool:
    """Whether values rise and fall in long runs, as sorted ones do and few series."""
    rises = np.sign(np.diff(values))
    rises = rises[rises != 0]
    return bool(np.sum(rises[1:] != rises[:-1]) < TURNING * (len(values) - 2))


def calibration(pit: Array, source: str, traits: Any) -> Finding:
    """Probability integral transforms beside the uniform distribution, and the shape of their normal scores.

    Parameters
    ----------
    pit : ndarray of shape (n,)
    source : str
        What has them.
    traits : LikelihoodTraits
        Of its likelihood, for the remedies.
    """
    n = len(pit)
    if n < LEAST_ROWS:
        return absent("calibration", f"{n} rows are too few for a shape")
    p = float(stats.kstest(pit, "uniform").pvalue)
    z = normal_scores(pit)
    cut = np.clip(z, -CUT, CUT)  # a heavy tail on one side by chance is no skewness
    skew, tails = float(stats.skew(cut)), float(stats.kurtosis(z))
    text = f"{source}: uniform with {_shown(p)}, skewness {skew:.2f}, excess kurtosis {tails:.2f} of normal scores"
    outside = np.abs(z) > OUTLIER
    alone = outside.any() and outside.sum() <= max(2, 0.01 * n) and abs(float(stats.kurtosis(z[~outside]))) < TAILED
    found: list[tuple[bool, str, str]] = [
        (bimodal(z), "Residuals have two clusters: a group or column is missing",
         "a mixture, or the column that tells the clusters apart"),
        (traits.discrete and p < RARE and cut.std() > SPREAD_OUT, "y is overdispersed",
         ('likelihood="beta-binomial"' if traits.paired else "another likelihood")
         + ", or columns or groups that are missing"),
        (alone, f"Rows {np.flatnonzero(outside)[:5].tolist()} are outliers",
         'look at them, or likelihood="student-t"' if traits.additive else "look at them"),
        (stats.skewtest(cut).pvalue < RARE and abs(skew) > SKEWED, "y is skewed where the model is not",
         "the logarithm of y, or another likelihood" if traits.additive else "another likelihood"),
        (stats.kurtosistest(z).pvalue < RARE and tails > TAILED, "Tails of y are heavier than those of the model",
         'likelihood="student-t"' if traits.additive else "another likelihood"),
        (p < RARE, "Predictions are not calibrated", "columns that are missing, another likelihood"),
    ]  # fmt: skip
    return next((Finding("calibration", text, alarm, remedy) for holds, alarm, remedy in found if holds),
                Finding("calibration", text))  # fmt: skip


def bimodal(z: Array) -> bool:
    """Whether two normals of one width fit much better than one: by BIC, well apart, both of some size."""
    from sklearn.mixture import GaussianMixture

    one = GaussianMixture(1).fit(z[:, None])
    two = GaussianMixture(2, covariance_type="tied", n_init=3, random_state=0).fit(z[:, None])
    apart = abs(float(two.means_[0, 0] - two.means_[1, 0])) / np.sqrt(float(two.covariances_[0, 0]))
    return bool(two.bic(z[:, None]) < one.bic(z[:, None]) - 10 and apart > 3.0 and two.weights_.min() > 0.15)


def influence(result: Any) -> Finding:
    """Rows of large k-hat, and of large influence."""
    rows, lost = result.untrusted, result.pointwise["p_loo"].to_numpy()
    text = f"{len(rows)} of {len(lost)} rows with k-hat above 0.7, largest influence {np.nanmax(lost):.2f} nats"
    leading = np.flatnonzero(lost > max(LEADING, LEADING_SHARE * np.nansum(lost)))
    if len(leading):
        named = result.pointwise.index[leading[:5]].tolist()
        return Finding("influence", text, f"The fit hangs on rows {named}", "look at them; compare a fit without them")
    if len(rows) > max(2, 0.05 * len(lost)):
        return Finding("influence", text, f"Leave-one-out cannot be trusted in {len(rows)} rows", "kfold(model, X, y)")
    return Finding("influence", text)


def separation(X: Array, codes: Array) -> Finding:
    """Whether a plane tells two labels apart, so that only the prior says how large coefficients are."""
    A = np.where(codes == 1, 1.0, -1.0)[:, None] * np.column_stack([X, np.ones(len(X))])
    free = (None, None)
    found = optimize.linprog(np.zeros(A.shape[1]), A_ub=-A, b_ub=-np.ones(len(A)), bounds=[free] * A.shape[1])
    if found.status != 0:
        return Finding("separation", "no plane tells the labels apart")
    alarm = "The columns separate the labels: sizes of coefficients are the prior's"
    return Finding("separation", "a plane tells all labels apart", alarm, "state a prior; read directions, not sizes")


#: Parts in the order in which the verdict looks for an alarm.
ORDER = (
    "convergence", "separation", "dispersion", "autocorrelation", "calibration", "influence", "plates", "posterior",
    "hyperparameters",
)  # fmt: skip
