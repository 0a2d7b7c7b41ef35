"""Save fitted estimators and load them again, without pickle: a file can never run code.

A file is an uncompressed zip archive: ``.npy`` members for the arrays and ``manifest.json`` for the rest. Classes are
named by the keys of ``REGISTRY``; no other class can be written or read. Every size is checked before memory is taken,
every array against its SHA-256.
"""

from __future__ import annotations

import functools
import os
import struct
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, overload

import numpy as np
from sklearn.base import BaseEstimator

from sksvi.persistence import container
from sksvi.persistence.container import opened, path_of, replacing
from sksvi.persistence.reader import Decoder
from sksvi.persistence.states import check_parts, is_estimator
from sksvi.persistence.writer import Encoder, class_key

if TYPE_CHECKING:
    from sksvi._typing.parameters import Estimator

Expected = TypeVar("Expected")

#: What is written and read; files of another format are refused.
FORMAT = 3
#: Most characters of a message that tells what a file holds.
LONGEST = 500

# The closed table: key in the file -> class. A new class is one line; a key, once released, keeps its meaning.
REGISTRY: dict[str, str] = {
    "BayesianGLMClassifier": "sksvi.linear_model:BayesianGLMClassifier",
    "BernoulliMixture": "sksvi.mixture:BernoulliMixture",
    "BetaProcessFA": "sksvi.decomposition:BetaProcessFA",
    "CategoricalMixture": "sksvi.mixture:CategoricalMixture",
    "CorrelatedTopicModel": "sksvi.topics:CorrelatedTopicModel",
    "DynamicGLM": "sksvi.time_series:DynamicGLM",
    "GMEClassifier": "sksvi.mixed_effects:GMEClassifier",
    "GMERegressor": "sksvi.mixed_effects:GMERegressor",
    "GPClassifier": "sksvi.gaussian_process:GPClassifier",
    "GammaFactorModel": "sksvi.decomposition:GammaFactorModel",
    "GammaPoissonFactorization": "sksvi.decomposition:GammaPoissonFactorization",
    "GammaProcessNMF": "sksvi.decomposition:GammaProcessNMF",
    "GeneralizedPMF": "sksvi.decomposition:GeneralizedPMF",
    "PoissonFactorization": "sksvi.decomposition:PoissonFactorization",
    "SparseGPClassifier": "sksvi.gaussian_process:SparseGPClassifier",
    "SparseGPRegressor": "sksvi.gaussian_process:SparseGPRegressor",
    "StructuredLDA": "sksvi.topics:StructuredLDA",
    "FormulaModel": "sksvi.formulas:FormulaModel",
    "FormulaTransformer": "sksvi.formulas:FormulaTransformer",
    "FixedColumns": "sksvi.formulas._expressions:FixedColumns",
    "SmoothTransformer": "sksvi.preprocessing:SmoothTransformer",
    "Smooth": "sksvi.preprocessing._bends:Smooth",
    "Interaction": "sksvi.preprocessing._bends:Interaction",
    "HilbertGPTransformer": "sksvi.preprocessing:HilbertGPTransformer",
    "Box": "sksvi.preprocessing._hilbert:Box",
    "Neighbours": "sksvi.preprocessing:Neighbours",
    "BayesianGLMRegressor": "sksvi.linear_model:BayesianGLMRegressor",
    "Bernoulli": "sksvi.likelihoods:Bernoulli",
    "Binomial": "sksvi.likelihoods:Binomial",
    "Poisson": "sksvi.likelihoods:Poisson",
    "NegativeBinomial": "sksvi.likelihoods:NegativeBinomial",
    "GaussianLikelihood": "sksvi.likelihoods:Gaussian",
    "StudentT": "sksvi.likelihoods:StudentT",
    "Ordinal": "sksvi.likelihoods:Ordinal",
    "AsymmetricLaplace": "sksvi.likelihoods:AsymmetricLaplace",
    "Softmax": "sksvi.likelihoods:Softmax",
    "Multinomial": "sksvi.likelihoods:Multinomial",
    "GammaLikelihood": "sksvi.likelihoods:Gamma",
    "InverseGaussian": "sksvi.likelihoods:InverseGaussian",
    "Tweedie": "sksvi.likelihoods:Tweedie",
    "LogNormal": "sksvi.likelihoods:LogNormal",
    "Weibull": "sksvi.likelihoods:Weibull",
    "LogLogistic": "sksvi.likelihoods:LogLogistic",
    "Exponential": "sksvi.likelihoods:Exponential",
    "BetaLikelihood": "sksvi.likelihoods:Beta",
    "BetaBinomial": "sksvi.likelihoods:BetaBinomial",
    "ZeroInflatedPoisson": "sksvi.likelihoods:ZeroInflatedPoisson",
    "ZeroInflatedNegativeBinomial": "sksvi.likelihoods:ZeroInflatedNegativeBinomial",
    "HurdlePoisson": "sksvi.likelihoods:HurdlePoisson",
    "Censored": "sksvi.likelihoods:Censored",
    "Distributional": "sksvi.likelihoods.distributional:Distributional",
    "HurdleNegativeBinomial": "sksvi.likelihoods:HurdleNegativeBinomial",
    "MCSSVI": "sksvi.algorithms:MCSSVI",
    "HybridMCSSVI": "sksvi.algorithms:HybridMCSSVI",
    "SDSVI": "sksvi.algorithms:SDSVI",
    "CVI": "sksvi.algorithms:CVI",
    "FixedPoint": "sksvi.algorithms:FixedPoint",
    "SVI": "sksvi.algorithms:SVI",
    "SSVIA": "sksvi.algorithms:SSVIA",
    "SSVI": "sksvi.algorithms:SSVI",
    "MAP": "sksvi.algorithms:MAP",
    "Constant": "sksvi.schedules:Constant",
    "RobbinsMonro": "sksvi.schedules:RobbinsMonro",
    "AdaGrad": "sksvi.schedules:AdaGrad",
    "AdaDelta": "sksvi.schedules:AdaDelta",
    "Auto": "sksvi.expectations:Auto",
    "Quadrature": "sksvi.expectations:Quadrature",
    "GaussHermite": "sksvi.expectations:GaussHermite",
    "MonteCarlo": "sksvi.expectations:MonteCarlo",
    "Gaussian": "sksvi.families.gaussian.dense:Gaussian",
    "DiagonalGaussian": "sksvi.families.gaussian.dense:DiagonalGaussian",
    "StandardGaussian": "sksvi.families.gaussian.normal:StandardGaussian",
    "ProjectedGaussian": "sksvi.families.gaussian.views:ProjectedGaussian",
    "ClassGaussian": "sksvi.families.gaussian.views:ClassGaussian",
    "LowRankGaussian": "sksvi.families.gaussian.low_rank:LowRankGaussian",
    "Point": "sksvi.families.point:Point",
    "InUnits": "sksvi.families.gaussian.normal:InUnits",
    "ColumnScaling": "sksvi.linear_model._columns:ColumnScaling",
    "CategoricalColumns": "sksvi.estimators.categories:CategoricalColumns",
    "ColumnStats": "sksvi.linear_model._columns:ColumnStats",
    "Marginal": "sksvi.families.gaussian.views:Marginal",
    "LevelEffects": "sksvi.families.gaussian.level_blocks:LevelEffects",
    "ArrowGaussian": "sksvi.families.gaussian.arrow:ArrowGaussian",
    "ArrowMatrix": "sksvi.families.gaussian.arrow:ArrowMatrix",
    "LevelBlocks": "sksvi.families.gaussian.level_blocks:LevelBlocks",
    "Dirichlet": "sksvi.families.dirichlet:Dirichlet",
    "Simplex": "sksvi.families.dirichlet:Simplex",
    "Population": "sksvi.families.population:Population",
    "RegressedPopulation": "sksvi.families.population:RegressedPopulation",
    "GaussianPlates": "sksvi.families.gaussian.plates:GaussianPlates",
    "Scatter": "sksvi.models.gamma_factor.density:Scatter",
    "Message": "sksvi.families.base:Message",
    "PlateMessages": "sksvi.families.gaussian.plates:PackedMessage",
    "DrawnBlock": "sksvi.estimators.posterior:DrawnBlock",
    "TopicDraws": "sksvi.models.topics.chain:TopicDraws",
    "JointDraws": "sksvi.decomposition._joint_draws:JointDraws",
    "IdFeatures": "sksvi.decomposition._ids:Features",
    "BetaProcessEncoding": "sksvi.decomposition._beta_process_encoding:BetaProcessEncoding",
    "CountEncoding": "sksvi.decomposition._gamma_counts:CountEncoding",
    "ScatterEncoding": "sksvi.decomposition._gamma_factor_encoding:ScatterEncoding",
    "FactorRecord": "sksvi.decomposition._beta_process_methods:FactorRecord",
    "Rayleigh": "sksvi.families.rayleigh:Rayleigh",
    "Beta": "sksvi.families.dirichlet:Beta",
    "Gamma": "sksvi.families.gamma:Gamma",
    "AdaGradMemory": "sksvi.algorithms.steps:AdaGradMemory",
    "GradientSums": "sksvi.algorithms.steps:GradientSums",
    "FlatMemory": "sksvi.algorithms.steps:FlatMemory",
    "State": "sksvi.inference.state:State",
    "Sites": "sksvi.inference.messages:Sites",
    "LatentSites": "sksvi.inference.messages:LatentSites",
    "NoFactors": "sksvi.inference.messages:NoFactors",
    "BlockFactors": "sksvi.inference.messages:BlockFactors",
    "StreamState": "sksvi.inference.stream_state:StreamState",
    "Sample": "sksvi.inference.sample:Sample",
    "Table": "sksvi.models.data:Table",
    "ValueCells": "sksvi.models.mixture.cells:MixtureRows",
    "CountCells": "sksvi.models.nmf.cells:CountMatrix",
    "LinearTerms": "sksvi.models.base:LinearTerms",
    "GroupedDesign": "sksvi.models.mixed.levels:GroupedDesign",
    "NoLocals": "sksvi.inference.state:NoLocals",
    "Locals": "sksvi.inference.state:Locals",
    "PlateMemory": "sksvi.inference.state:PlateMemory",
    "Progress": "sksvi.inference.records:Progress",
    "LineSearchState": "sksvi.inference.records:LineSearchState",
    "AveragingState": "sksvi.inference.records:AveragingState",
    "AlternatingState": "sksvi.inference.records:AlternatingState",
    "PathPoint": "sksvi.models.linear.low_rank:PathPoint",
    "PathState": "sksvi.inference.passes.path:PathState",
    "WideStream": "sksvi.inference.wide_stream:WideStream",
    "Compared": "sksvi.inference.wide_stream:Compared",
    "SamplingState": "sksvi.inference.records:SamplingState",
    "Evaluation": "sksvi.inference.records:Evaluation",
    "Iterate": "sksvi.inference.passes.subspace:Iterate",
    "GibbsDraw": "sksvi.models.beta_process.sampler:BetaProcessDraw",
    "MixtureDraw": "sksvi.models.mixture.sampler:MixtureDraw",
    "Gibbs": "sksvi.algorithms:Gibbs",
    "Posterior": "sksvi.estimators.posterior:Posterior",
    "BinaryEncoding": "sksvi.mixture._encoding:BinaryEncoding",
    "CategoricalEncoding": "sksvi.mixture._encoding:CategoricalEncoding",
    "CountRecord": "sksvi.decomposition._pair_count_encoding:CountRecord",
    "PairCountEncoding": "sksvi.decomposition._pair_count_encoding:PairCountEncoding",
    "PairEncoding": "sksvi.decomposition._pmf_encoding:PairEncoding",
    "Vocabulary": "sksvi.topics._encoding:Vocabulary",
    "TypedVocabulary": "sksvi.topics._encoding:TypedVocabulary",
    "StructuralVocabulary": "sksvi.topics._covariates:StructuralVocabulary",
    "Covariates": "sksvi.topics._covariates:Covariates",
    "InducingRecord": "sksvi.gaussian_process._process:InducingRecord",
    "ProcessFit": "sksvi.gaussian_process._process:ProcessFit",
    "ValueProcessEncoding": "sksvi.gaussian_process._encoding:ValueProcessEncoding",
    "LabelProcessEncoding": "sksvi.gaussian_process._encoding:LabelProcessEncoding",
    "FullProcessEncoding": "sksvi.gaussian_process._encoding:FullProcessEncoding",
    "ValueTarget": "sksvi.estimators.targets:ValueTarget",
    "LabelTarget": "sksvi.estimators.targets:LabelTarget",
    "SeriesPanel": "sksvi.time_series:SeriesPanel",
    "GLMEncoding": "sksvi.linear_model._encoding:GLMEncoding",
    "SecondPredictor": "sksvi.linear_model._second:SecondPredictor",
    "PrecisionGroups": "sksvi.linear_model._groups:PrecisionGroups",
    "Normal": "sksvi.priors:Normal",
    "priors.StudentT": "sksvi.priors:StudentT",
    "Horseshoe": "sksvi.priors:Horseshoe",
    "MultivariateNormal": "sksvi.priors:MultivariateNormal",
    "JointPrior": "sksvi.models.linear.named:JointPrior",
    "NamedPriors": "sksvi.models.linear.named:NamedPriors",
    "LinearPrior": "sksvi.linear_model._prior:LinearPrior",
    "SpectralPrior": "sksvi.models.linear.scales:SpectralPrior",
    "FittedWeights": "sksvi.linear_model._integrated:FittedWeights",
    "GroupedEncoding": "sksvi.mixed_effects._encoding:GroupedEncoding",
    "GroupingColumn": "sksvi.mixed_effects._encoding:GroupingColumn",
    "SeriesEncoding": "sksvi.time_series._encoding:SeriesEncoding",
    "SeriesFit": "sksvi.time_series._fit:SeriesFit",
    "FitRecord": "sksvi.estimators.refit:FitRecord",
    "Nodes": "sksvi.integrals.nodes:Nodes",
    "LogScales": "sksvi.models.mixed.covariances:LogScales",
    "NodeBlocks": "sksvi.families.gaussian.mixture:NodeBlocks",
    "NodeMixture": "sksvi.families.gaussian.mixture:NodeMixture",
    "SiteGaussian": "sksvi.families.gaussian.dual:SiteGaussian",
    "Chain": "sksvi.families.gaussian.chain:Chain",
    "ChainGaussian": "sksvi.families.gaussian.chain:ChainGaussian",
    "ChosenRows": "sksvi.families.gaussian.views:ChosenRows",
    "Network": "sksvi.network:Network",
    "network.Link": "sksvi.models.network.slots:Link",
    "network.Gaussian": "sksvi.models.network.distributions:Gaussian",
    "network.Gamma": "sksvi.models.network.distributions:Gamma",
    "network.Rayleigh": "sksvi.models.network.distributions:Rayleigh",
    "network.Beta": "sksvi.models.network.distributions:Beta",
    "network.Dirichlet": "sksvi.models.network.distributions:Dirichlet",
    "network.Poisson": "sksvi.models.network.distributions:Poisson",
    "network.Binomial": "sksvi.models.network.distributions:Binomial",
    "network.Categorical": "sksvi.models.network.distributions:Categorical",
    "network.Likelihood": "sksvi.models.network.distributions:Likelihood",
    "kernel.ConstantKernel": "sklearn.gaussian_process.kernels:ConstantKernel",
    "kernel.RBF": "sklearn.gaussian_process.kernels:RBF",
    "kernel.Matern": "sklearn.gaussian_process.kernels:Matern",
    "kernel.RationalQuadratic": "sklearn.gaussian_process.kernels:RationalQuadratic",
    "kernel.ExpSineSquared": "sklearn.gaussian_process.kernels:ExpSineSquared",
    "kernel.DotProduct": "sklearn.gaussian_process.kernels:DotProduct",
    "kernel.PairwiseKernel": "sklearn.gaussian_process.kernels:PairwiseKernel",
    "kernel.WhiteKernel": "sklearn.gaussian_process.kernels:WhiteKernel",
    "kernel.Sum": "sklearn.gaussian_process.kernels:Sum",
    "kernel.Product": "sklearn.gaussian_process.kernels:Product",
    "kernel.Exponentiation": "sklearn.gaussian_process.kernels:Exponentiation",
}


class VersionWarning(UserWarning):
    """A file was written by another version of sksvi than the one that reads it."""


def save(estimator: BaseEstimator, path: str | os.PathLike, training_rows: bool = True) -> None:
    """Write an estimator to a file, fitted or not, with the state that ``partial_fit`` and ``warm_start`` go on from.

    The file is written beside ``path`` and renamed when it is complete and on disk, so that a crash leaves either the
    old file or the new one; what a symbolic link points to is replaced, and the mode of a file that is replaced stays.
    It holds training rows only where they are the model, those of a full Gaussian process, and those that a stream
    looks at again (``stream_sample``) or begins with, what some models find of each row, and the least and the greatest
    value of each column. Callbacks are not saved.

    Parameters
    ----------
    estimator : estimator of sksvi
        Its parameters and attributes are all saved.

    path : str or path-like
        File to write; an existing file is replaced.

    training_rows : bool, default=True
        Whether the file has what belongs to single training rows.

    Raises
    ------
    TypeError
        If the estimator, or something in one of its attributes, is of a class that files cannot hold. No file is
        written then.
    ValueError
        ``training_rows=False`` of an estimator whose posterior is that of its rows, or of a fit that was cut off.
    OSError
        Where no file can be made at `path`.

    See Also
    --------
    load : The way back.
    """
    if not is_estimator(type(estimator)):
        raise TypeError(f"estimator must be an estimator of sksvi; found {type(estimator).__name__}.")
    encoder = Encoder(REGISTRY)
    estimator = estimator._without_rows() if not training_rows else estimator
    tree = encoder.encode(estimator, type(estimator).__name__)
    with replacing(path) as file:
        container.write(file, {**_head(), "estimator": tree}, encoder.arrays)


def can_save(estimator: BaseEstimator) -> bool:
    """Return whether files can hold estimators of this class (their attributes are looked at only by ``save``).

    Parameters
    ----------
    estimator : object
        Any object.

    Returns
    -------
    listed : bool
        Whether its very class, not a base of it, is in ``REGISTRY``.
    """
    return is_estimator(type(estimator)) and class_key(REGISTRY, type(estimator)) is not None


@overload
def load(path: str | os.PathLike) -> Estimator: ...


@overload
def load(path: str | os.PathLike, expected: type[Expected]) -> Expected: ...


def load(path: str | os.PathLike, expected: type[Expected] | None = None) -> Expected | Estimator:
    """Read an estimator that ``save`` wrote; safe for files from anywhere.

    Parameters
    ----------
    path : str or path-like
        File to read.

    expected : class, default=None
        What the file should hold, such as ``BayesianGLMRegressor``: type checkers and editors then know its methods,
        and another estimator is an error.

    Returns
    -------
    estimator : estimator of sksvi
        Equal to the one that was saved, to the same bits; it continues with ``partial_fit`` or, with
        ``warm_start=True``, ``fit``.

    Raises
    ------
    TypeError
        If `expected` is no class, or `path` no path.
    ValueError
        If the file is not one that ``save`` wrote, is damaged, asks for anything that such files may not hold, or holds
        another estimator than `expected`.

    OSError
        If the file cannot be opened.

    Warns
    -----
    VersionWarning
        If another version of sksvi wrote the file.

    Examples
    --------
    >>> import os, tempfile, sksvi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.sksvi")
    ...     sksvi.BayesianGLMRegressor(likelihood="poisson").save(path)
    ...     sksvi.load(path)
    BayesianGLMRegressor(likelihood='poisson')
    """
    if not (expected is None or isinstance(expected, type)):
        raise TypeError(f"expected must be a class, such as BayesianGLMRegressor; found {expected!r}.")
    path = path_of(path)
    with open(opened(path), "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(f"{os.fspath(path)!r} is not a file of sksvi: it does not begin as one.")
        try:
            estimator, version = _read(file)
        except (zipfile.BadZipFile, struct.error, EOFError, OSError) as error:
            raise ValueError(_printable(f"{os.fspath(path)!r} is damaged: {error}")) from error
        except MemoryError as error:
            raise ValueError(f"{os.fspath(path)!r} cannot be loaded: it does not fit into memory") from error
        # Whatever a file makes NumPy, SciPy or pandas say.
        except Exception as error:
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(_printable(f"{os.fspath(path)!r} cannot be loaded: {reason}")) from error
    if expected is not None and not isinstance(estimator, expected):
        raise ValueError(
            f"{os.fspath(path)!r} holds a {type(estimator).__name__}, not the {expected.__name__} that was expected: "
            "name its class, or leave out expected."
        )
    if version != _version():
        warnings.warn(
            _printable(
                f"{os.fspath(path)!r} was written by sksvi {version} and is read by {_version()}; results may differ."
            ),
            VersionWarning,
            stacklevel=2,
        )
    return estimator


def _version() -> str:
    from sksvi import __version__

    return __version__


def _printable(text: str) -> str:
    """A message without the control characters that a file may hold, and not longer than one is read."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _head() -> dict[str, Any]:
    import sklearn

    versions = {"sksvi": _version(), "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    return {"format": "sksvi", "format_version": FORMAT, "versions": versions}


def _read(file: BinaryIO) -> tuple[Any, str]:
    budget = container.Budget(container.check_end(file))
    with zipfile.ZipFile(file) as archive:
        container.check_directory(archive, os.fstat(file.fileno()).st_size)
        manifest = container.read_manifest(archive, budget)
        found = manifest["format_version"]
        members, version = manifest["sha256"], manifest["versions"]["sksvi"]
        if type(found) is not int or found != FORMAT:
            raise ValueError(
                f"it has format version {found!r} and was written by sksvi {_printable(str(version))}, and this sksvi "
                f"({_version()}) reads format {FORMAT}: load it with the version that wrote it, or fit again"
            )
        if set(members) != set(archive.namelist()) - {container.MANIFEST}:
            raise ValueError("its members and its manifest do not agree")
        if not isinstance(version, str):
            raise ValueError("its version is no text")
        decoder = Decoder(REGISTRY, lambda name: container.read_array(archive, name, members[name]), budget.spend)
        estimator = decoder.decode(manifest["estimator"])
    if not is_estimator(type(estimator)):
        raise ValueError("it holds no estimator")
    _check_state(estimator)
    return estimator, version


def _check_state(estimator: Any) -> None:
    """Refuse a fit whose arrays do not fit each other."""
    key_of = functools.cache(functools.partial(class_key, REGISTRY))
    check_parts(estimator, "", key_of)
