"""Small real data sets (``load_*``) and simulators (``make_*``), in scikit-learn's conventions."""

from sksvi.datasets._load import load_bike_sharing, load_census_income, load_epilepsy, load_inaugural
from sksvi.datasets._make import make_beta_process, make_glm, make_gme, make_pmf, make_wide_logistic
from sksvi.datasets._make_counts import make_ctm, make_lda, make_spectra

__all__ = [
    "load_bike_sharing",
    "load_census_income",
    "load_epilepsy",
    "load_inaugural",
    "make_beta_process",
    "make_ctm",
    "make_glm",
    "make_gme",
    "make_lda",
    "make_pmf",
    "make_spectra",
    "make_wide_logistic",
]
