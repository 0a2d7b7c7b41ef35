"""Bayesian estimators with scikit-learn's interface, fitted by stochastic variational inference.

Public names are imported on first use, so that ``import sksvi`` costs little more than scikit-learn itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see in the place of __getattr__
    # isort: off
    from sksvi import (
        algorithms as algorithms,
        callbacks as callbacks,
        datasets as datasets,
        decomposition as decomposition,
        displays as displays,
        expectations as expectations,
        families as families,
        formulas as formulas,
        gaussian_process as gaussian_process,
        images as images,
        inspection as inspection,
        likelihoods as likelihoods,
        linear_model as linear_model,
        mixed_effects as mixed_effects,
        mixture as mixture,
        network as network,
        persistence as persistence,
        predictive as predictive,
        preprocessing as preprocessing,
        priors as priors,
        schedules as schedules,
        testing as testing,
        time_series as time_series,
        topics as topics,
    )
    from sksvi._versions import show_versions as show_versions
    from sksvi.decomposition import (
        BetaProcessFA as BetaProcessFA,
        GammaFactorModel as GammaFactorModel,
        GammaPoissonFactorization as GammaPoissonFactorization,
        GammaProcessNMF as GammaProcessNMF,
        GeneralizedPMF as GeneralizedPMF,
        PoissonFactorization as PoissonFactorization,
    )
    from sksvi.displays import (
        BeforeAfterDisplay as BeforeAfterDisplay,
        ClassProfileDisplay as ClassProfileDisplay,
        CoefficientDisplay as CoefficientDisplay,
        ContrastDisplay as ContrastDisplay,
        DictionaryDisplay as DictionaryDisplay,
        FactorDisplay as FactorDisplay,
        GroupEffectsDisplay as GroupEffectsDisplay,
        IntervalCoverageDisplay as IntervalCoverageDisplay,
        LooDisplay as LooDisplay,
        LowerBoundDisplay as LowerBoundDisplay,
        NComponentsDisplay as NComponentsDisplay,
        PITDisplay as PITDisplay,
        PartialEffectDisplay as PartialEffectDisplay,
        PosteriorPredictiveDisplay as PosteriorPredictiveDisplay,
        PredictionBandDisplay as PredictionBandDisplay,
        RankDisplay as RankDisplay,
        TimeSeriesDisplay as TimeSeriesDisplay,
        TopicGraphDisplay as TopicGraphDisplay,
        TopicWordsDisplay as TopicWordsDisplay,
    )
    from sksvi.formulas import from_formula as from_formula
    from sksvi.gaussian_process import (
        GPClassifier as GPClassifier,
        SparseGPClassifier as SparseGPClassifier,
        SparseGPRegressor as SparseGPRegressor,
    )
    from sksvi.linear_model import (
        BayesianGLMClassifier as BayesianGLMClassifier,
        BayesianGLMRegressor as BayesianGLMRegressor,
    )
    from sksvi.mixed_effects import GMEClassifier as GMEClassifier, GMERegressor as GMERegressor
    from sksvi.mixture import BernoulliMixture as BernoulliMixture, CategoricalMixture as CategoricalMixture
    from sksvi.persistence import load as load
    from sksvi.predictive import (
        log_predictive_density as log_predictive_density,
        predict_interval as predict_interval,
        predict_quantiles as predict_quantiles,
        predict_std as predict_std,
        sample_y as sample_y,
        save as save,
        summary as summary,
        summary_text as summary_text,
    )
    from sksvi.time_series import DynamicGLM as DynamicGLM
    from sksvi.topics import CorrelatedTopicModel as CorrelatedTopicModel, StructuredLDA as StructuredLDA

__version__ = "0.1.0.dev0"

#: Public names by the module that defines them.
_DEFINED = {
    "linear_model": "BayesianGLMClassifier BayesianGLMRegressor",
    "mixture": "BernoulliMixture CategoricalMixture",
    "decomposition": (
        "BetaProcessFA GammaFactorModel GammaPoissonFactorization GammaProcessNMF GeneralizedPMF PoissonFactorization"
    ),
    "time_series": "DynamicGLM",
    "mixed_effects": "GMEClassifier GMERegressor",
    "formulas": "from_formula",
    "gaussian_process": "GPClassifier SparseGPClassifier SparseGPRegressor",
    "topics": "CorrelatedTopicModel StructuredLDA",
    "displays": (
        "ClassProfileDisplay CoefficientDisplay ContrastDisplay DictionaryDisplay BeforeAfterDisplay FactorDisplay "
        "GroupEffectsDisplay IntervalCoverageDisplay LooDisplay LowerBoundDisplay NComponentsDisplay "
        "PartialEffectDisplay PITDisplay PosteriorPredictiveDisplay PredictionBandDisplay RankDisplay "
        "TimeSeriesDisplay TopicGraphDisplay TopicWordsDisplay"
    ),
    "persistence": "load",
    "predictive": (
        "log_predictive_density predict_interval predict_quantiles predict_std sample_y save summary summary_text"
    ),
    "_versions": "show_versions",
}
_ATTRIBUTES = {name: f"sksvi.{module}" for module, names in _DEFINED.items() for name in names.split()}
_SUBMODULES = tuple(
    (
        "algorithms callbacks datasets decomposition displays expectations families formulas gaussian_process "
        "images inspection likelihoods linear_model mixed_effects mixture network persistence predictive preprocessing "
        "priors schedules testing time_series topics"
    ).split()
)

__all__ = ["__version__", *_ATTRIBUTES, *_SUBMODULES]


if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name in _ATTRIBUTES:
            value = getattr(importlib.import_module(_ATTRIBUTES[name]), name)
        elif name in _SUBMODULES:
            value = importlib.import_module(f"sksvi.{name}")
        else:
            raise AttributeError(f"module 'sksvi' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(set(globals()) | set(__all__))
