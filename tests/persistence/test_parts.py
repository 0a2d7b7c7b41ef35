"""Every question about a part of a fit: what is right passes, and each thing that is not is refused by its name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sksvi._runtime.layout import Malformed, check
from sksvi.families import Gaussian
from sksvi.families.base import Message
from sksvi.families.gaussian.arrow_matrix import ArrowMatrix
from sksvi.families.gaussian.chain import Chain
from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.inference import wide_stream
from sksvi.persistence import REGISTRY
from sksvi.persistence.reader import Decoder
from sksvi.persistence.states import KERNELS, check_parts, layout
from sksvi.persistence.writer import resolve_class

ONE, TWO, EYE = np.ones(1), np.ones(2), np.eye(2)
NEGATIVE, ZERO, POSITIVE = np.array([1.0, -1e-9]), np.array([1.0, 0.0]), np.array([1.0, 1e-300])
HOLLOW, THREE, NUMBER = np.diag([1.0, 0.0]), np.ones(3), np.array(1.0)
BLOCK, ROWS, TABLE = Gaussian(np.zeros(3), np.eye(3)), np.arange(2), np.ones((2, 2))
TRUTH = np.array([True, False])


def arrow(diagonal=1.0):
    return ArrowMatrix(diagonal * np.ones((2, 1, 1)), np.zeros((1, 2)), np.ones((1, 1)), 0)


def low_rank():
    """Two weights along one direction, and an intercept."""
    return LowRankGaussian(THREE, TWO, np.ones((2, 1)), EYE)


def of(**parts):
    return SimpleNamespace(**parts)


def chain():
    """Level and slope of two points, and one column."""
    parts = np.zeros((2, 1)), np.array([1.0, 0.0]), np.zeros(1, int), np.array([0, 2]), ROWS, TWO
    return Chain(*parts, np.ones(3), np.zeros(3), np.eye(3), np.zeros(0, int))


#: Part -> what it holds when it is right; then (name, value): right, too, and wrong.
RIGHT = {
    "Gaussian": {"mean": TWO, "precision": EYE, "_root": EYE},
    "DiagonalGaussian": {"mean": TWO, "precision": TWO, "_root": None},
    "StandardGaussian": {"mean": TWO, "root": EYE},
    "ArrowMatrix": {"diag": np.ones((2, 1, 1)), "corner": np.ones((1, 1)), "border": np.zeros((1, 2)), "start": 0},
    "ArrowGaussian": {"mean": THREE, "precision": arrow()},
    "InUnits": {"scale": TWO, "centre": TWO, "inner": BLOCK},
    "Marginal": {"index": ROWS, "joint": BLOCK},
    "ClassGaussian": {"n_classes": 3, "joint": BLOCK},
    "ProjectedGaussian": {"scale": np.ones(5), "basis": np.ones((5, 2)), "inner": BLOCK, "off_std": 1.0},
    "SpectralPrior": {"squares": TWO},
    "DrawnBlock": {"draws": np.ones((4, 2), np.float32)},
    "TopicDraws": {"topics": np.full((4, 2, 2), 0.5, np.float32), "prior": {"alpha": np.ones((4, 2))}},
    "JointDraws": {
        "users": np.ones((2, 3, 1), np.float32),
        "items": np.ones((1, 3, 1), np.float32),
        "weights": np.ones((3, 1), np.float32),
        "k_hats": {},
    },
    "LowRankGaussian": {"mean": THREE, "diagonal": TWO, "basis": np.ones((2, 1)), "inner": EYE},
    "ChosenRows": {"rows": ROWS, "block": BLOCK},
    "SiteGaussian": {"prior_cov": EYE, "dual": TWO, "weights": TWO},
    "Chain": vars(chain()),
    "ChainGaussian": {"chain": chain(), "linear": TWO, "weights": -TWO},
    "Scatter": {"mean": TWO, "products": EYE, "n": 2.0, "centred": True},
    "GaussianPlates": {"mean": TABLE, "full": True, "values": np.ones((2, 3)), "_log_det": TWO},
    "Point": {"value": TWO, "centre": TWO, "information": EYE},
    "Gamma": {"shape": TWO, "rate": TWO},
    "Rayleigh": {"scale": 1.0},
    "Dirichlet": {"concentration": TWO},
    "Simplex": {"counts": TWO, "by_gradient": True},
    "Population": {"sums": EYE, "_root": np.eye(1)},
    "Message": {"parts": (TWO, EYE)},
    "PlateMessages": {"parts": (TABLE, np.ones((2, 3))), "full": True},
    "AdaGradMemory": {"mean": TWO, "root": EYE, "unit": EYE, "reach": 1.0},
    "GradientSums": {"mean": TWO, "root": EYE},
    "FlatMemory": {"total": TWO, "unit": 1.0},
    "PlateMemory": {"clock": ROWS, "seen": TWO, "rule": of(sums=TWO)},
    "Sites": {"start": TWO, "linear": TABLE, "quadratic": np.ones((2, 2, 2)), "total": [1], "first": [2]},
    "LatentSites": {"start": TWO, "linear": TWO, "quadratic": -TWO, "total": [], "first": []},
    "Locals": {"values": TWO, "repairs": 0},
    "Table": {"X": TABLE, "y": TWO, "weight": TWO, "offset": TWO},
    "ValueCells": {"ones": TABLE, "missing": TABLE},
    "CountCells": {"counts": sp.csr_matrix(TABLE), "seen": TABLE > 0},
    "LinearTerms": {
        "value": TWO,
        "alpha": TABLE,
        "gamma": np.ones((2, 2, 2)),
        "linear": TABLE,
        "points": {"p": (TABLE, np.ones((2, 2, 2)))},
        "scalars": {"s": TWO},
        "variance": None,
    },
    "Sample": {
        "priority": TWO,
        "importance": TWO,
        "share": TWO,
        "dropped": 1.0,
        "data": of(y=TWO),
        "sites": of(value=TWO),
    },
    "StreamState": {"by_block": {}, "constant": -1.0, "weight": 1.0, "waiting": 1.0},
    "GroupedDesign": {
        "codes": np.array([[0, 1], [1, 2]], np.int32),
        "X": TABLE,
        "levels": [2, 3],
        "values": [None, TABLE],
        "arrow": 1,
    },
    "ColumnScaling": {"scale": TWO, "centre": TWO, "varies": TRUTH, "scaled": True, "stats": of(low=TWO)},
    "ColumnStats": {
        "low": TWO,
        "high": TWO,
        "centre": TWO,
        "mean": TWO,
        "square": TWO,
        "two": TRUTH,
        "weight": 1.0,
        "eps": 1.0,
    },
    "CategoricalColumns": {
        "n_columns": 4,
        "columns": [1, 3],
        "levels": [np.array(["a", "b"], object), ROWS],
        "missing": [True, False],
        "reference": False,
    },
    "Nodes": {"values": TABLE, "weights": 0.5 * TWO},
    "LevelBlocks": {"diag": THREE, "places": [(1, 1)], "blocks": [EYE]},
    "NodeBlocks": {
        "block": of(mean=TWO),
        "prior_mean": TWO,
        "precision": TWO,
        "precisions": np.ones((3, 2)),
        "information": np.ones(3),
        "weights": np.ones(3),
    },
    "NodeMixture": {"node_blocks": of(weights=TWO), "prior_std": TWO},
    "LogScales": {"nodes": TABLE, "weights": TWO},
    "IdFeatures": {"values": TABLE, "scale": TWO, "mean": TWO, "ids": ROWS, "columns": ROWS},
    "MixtureDraw": {"rows": TWO, "counts": TABLE, "labels": ROWS},
    "GibbsDraw": {"features": TABLE, "logit": TWO, "noise": ONE, "weight": 1.0, "omega": TABLE},
    "Beta": {"a": TWO, "b": TWO},
    "BlockFactors": {"by_block": {"w": Message((TWO,))}},
    "Progress": {"damping": 1.0},
    "LineSearchState": {"damping": 1.0, "small_changes": 0, "since": 0},
    "AveragingState": {"damping": 1.0, "checks": [0.0], "since": 0, "before": 0},
    "AlternatingState": {"damping": 1.0, "small_changes": 0, "checks": [0.0]},
    "PathState": {
        "damping": 1.0,
        "temperature": 0.0,
        "loo": -1.0,
        "widths": [1.0],
        "losses": [TWO],
        "points": {},
        "selected": None,
        "polished": False,
    },
    "WideStream": {
        "rivals": [(low_rank(), 1.0)],
        "began": 1.0,
        "weight": 1.0,
        "loss": TWO,
        "scales": wide_stream.Compared.of(2),
        "temperatures": wide_stream.Compared.of(2),
    },
    "Compared": {"weight": 1.0, "sums": TWO, "products": np.eye(2)},
    "PathPoint": {
        "precision": 1.0,
        "block": low_rank(),
        "parameters": np.zeros(1),
        "losses": TWO,
        "mean": TABLE,
        "variance": TABLE,
        "settled": True,
    },
    "Evaluation": {"q": {}, "gradient": {}},
    "Posterior": {"_blocks": {}},
    "FitRecord": {"choices": {}, "began_among": 0.0, "one_sided": False, "had_offset": False, "had_exposure": False},
    "InducingRecord": {"learned_rows": 3, "at_rows": 0, "start": None},
    "CountRecord": {"n_rows": 2.0, "counts": TWO, "waiting": 0, "began_with": 2, "prior_shapes": TWO},
    "BetaProcessEncoding": {"dtype": "float64", "mean": TWO, "scale": 1.0, "noise_size": 2, "wide": False},
    "CountEncoding": {"dtype": "float64", "mean": 1.0},
    "FactorRecord": {
        "order": ROWS,
        "sampled": False,
        "draws": {"features": np.ones((3, 2, 4)), "logit": np.ones((3, 2)), "noise": np.ones((3, 1)), "weight": THREE},
    },
    "BinaryEncoding": {"sizes": (2, 2)},
    "CategoricalEncoding": {"sizes": (2, 1), "categories": [ROWS, np.array(["a"], object)]},
    "Vocabulary": {"n_words": 2, "words": ROWS},
    "GroupingColumn": {
        "column": 0,
        "names": ROWS,
        "size": 3,
        "slopes": ["x"],
        "at": [0],
        "correlated": True,
        "within": [1],
    },
    "LinearPrior": {"kind": "auto", "unit": 1.0, "intercept": (0.0, 0.0), "totals": TWO, "weight": 0.0},
    "Normal": {"mean": 0.5, "std": 1.0},
    "priors.StudentT": {"df": 3.0, "loc": 0.5, "scale": 1.0},
    "Horseshoe": {"scale": 1.0, "slab": 2.5},
    "MultivariateNormal": {"names": ["a", "b"], "mean": TWO, "cov": np.eye(2)},
    "JointPrior": {"mean": TWO, "precision": np.eye(2)},
    "NamedPriors": {"mean": TWO, "precision": TWO, "learned": np.ones(2, bool), "flat": np.zeros(2, bool)},
    "SecondPredictor": {"kind": "scale", "of": np.array([0, 1])},
    "PrecisionGroups": {"names": ["a", "b"], "of_columns": np.array([0, 1]), "precisions": TWO},
    "Ordinal": {"cut_points": np.array([0.0, 1.0])},
    "kernel.RBF": {"length_scale": TWO, "length_scale_bounds": np.array([[-1.0, 1.0]])},
}
ALSO_RIGHT = [
    ("DiagonalGaussian", "precision", POSITIVE),
    ("StandardGaussian", "root", TWO),
    ("ArrowMatrix", "start", 1),
    ("InUnits", "inner", Gaussian(np.zeros(2), EYE)),
    ("Marginal", "index", np.array([2])),
    ("ClassGaussian", "n_classes", 1),
    ("ProjectedGaussian", "inner", Gaussian(np.zeros(2), EYE)),
    ("ProjectedGaussian", "off_std", 0.0),
    ("ChosenRows", "rows", np.array([2])),
    ("SiteGaussian", "prior_cov", HOLLOW),
    ("SiteGaussian", "weights", ZERO),
    ("Gamma", "rate", POSITIVE),
    ("Rayleigh", "scale", 1e-300),
    ("Simplex", "counts", ZERO),
    ("AdaGradMemory", "mean", ZERO),
    ("GradientSums", "mean", ZERO),
    ("FlatMemory", "total", ZERO),
    ("PlateMemory", "seen", ZERO),
    ("Sites", "start", ZERO),
    ("Sites", "quadratic", TABLE),
    ("Table", "weight", ZERO),
    ("Table", "y", ROWS),
    ("Table", "X", np.ones((2, 3), np.float32)),
    ("LinearTerms", "gamma", TABLE),
    ("LinearTerms", "variance", np.ones((2, 2, 2))),
    ("Sample", "priority", ZERO),
    ("Sample", "dropped", 0.0),
    ("StreamState", "weight", 0.0),
    ("StreamState", "waiting", 0.0),
    ("ColumnScaling", "stats", None),
    ("CategoricalColumns", "levels", [np.array([], object), ROWS]),
    ("ColumnStats", "square", ZERO),
    ("ColumnStats", "weight", 0.0),
    ("ColumnStats", "eps", 0.0),
    ("LogScales", "weights", ZERO),
    ("GibbsDraw", "omega", np.empty((0, 0))),
    ("Ordinal", "cut_points", 3),
]
WRONG = [
    ("DrawnBlock", "draws", NUMBER),
    ("TopicDraws", "topics", np.ones((4, 2))),
    ("TopicDraws", "prior", {"alpha": np.ones((3, 2))}),
    ("JointDraws", "items", np.ones((1, 2, 1), np.float32)),
    ("JointDraws", "users", np.ones((2, 3))),
    ("Gaussian", "mean", NUMBER),
    ("Gaussian", "precision", HOLLOW),
    ("Gaussian", "precision", TWO),
    ("Gaussian", "precision", np.ones((2, 3))),
    ("Gaussian", "_root", HOLLOW),
    ("DiagonalGaussian", "mean", NUMBER),
    ("DiagonalGaussian", "precision", ZERO),
    ("DiagonalGaussian", "_root", ZERO),
    ("StandardGaussian", "mean", NUMBER),
    ("StandardGaussian", "root", ZERO),
    ("StandardGaussian", "root", HOLLOW),
    ("StandardGaussian", "root", np.ones((2, 3))),
    ("ArrowMatrix", "diag", np.ones((2, 1, 2))),
    ("ArrowMatrix", "corner", np.ones((1, 2))),
    ("ArrowMatrix", "border", np.zeros((1, 3))),
    ("ArrowMatrix", "start", 2),
    ("ArrowGaussian", "mean", TWO),
    ("ArrowGaussian", "precision", arrow(0.0)),
    ("InUnits", "scale", ZERO),
    ("InUnits", "centre", THREE),
    ("InUnits", "inner", Gaussian(np.zeros(1), np.eye(1))),
    ("InUnits", "inner", Gaussian(np.zeros(4), np.eye(4))),
    ("Marginal", "index", np.array([-1])),
    ("Marginal", "index", np.array([3])),
    ("Marginal", "index", TWO),
    ("ClassGaussian", "n_classes", 2),
    ("ClassGaussian", "n_classes", 0),
    ("ClassGaussian", "joint", Gaussian(np.zeros((2, 3)), np.ones((2, 1, 1)) * np.eye(3))),
    ("ProjectedGaussian", "scale", np.append(np.ones(4), 0.0)),
    ("ProjectedGaussian", "basis", np.ones((4, 2))),
    ("ProjectedGaussian", "inner", Gaussian(np.zeros(4), np.eye(4))),
    ("ProjectedGaussian", "inner", Gaussian(np.zeros(1), np.eye(1))),
    ("ProjectedGaussian", "off_std", -1e-9),
    ("SpectralPrior", "squares", ZERO),
    ("LowRankGaussian", "mean", TWO),
    ("LowRankGaussian", "mean", TABLE),
    ("LowRankGaussian", "diagonal", NEGATIVE),
    ("LowRankGaussian", "basis", np.ones((3, 1))),
    ("LowRankGaussian", "inner", np.eye(3)),
    ("LowRankGaussian", "inner", -EYE),
    ("ChosenRows", "rows", np.array([-1])),
    ("ChosenRows", "rows", np.array([3])),
    ("SiteGaussian", "prior_cov", np.ones((2, 3))),
    ("SiteGaussian", "prior_cov", np.diag(NEGATIVE)),
    ("SiteGaussian", "dual", THREE),
    ("SiteGaussian", "weights", NEGATIVE),
    ("GaussianPlates", "full", False),
    ("GaussianPlates", "values", np.ones((2, 4))),
    ("GaussianPlates", "values", np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])),
    ("GaussianPlates", "values", np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])),
    ("GaussianPlates", "_log_det", THREE),
    ("Point", "centre", THREE),
    ("Point", "information", TABLE[:1]),
    ("Gamma", "shape", ZERO),
    ("Gamma", "rate", ZERO),
    ("Gamma", "rate", THREE),
    ("Rayleigh", "scale", 0.0),
    ("Dirichlet", "concentration", ZERO),
    ("Dirichlet", "concentration", NUMBER),
    ("Simplex", "counts", NEGATIVE),
    ("Simplex", "counts", NUMBER),
    ("Simplex", "by_gradient", 1),
    ("Population", "sums", np.diag([0.0, 1.0])),
    ("Population", "sums", np.ones((2, 3))),
    ("Population", "sums", np.ones((0, 0))),
    ("Population", "_root", EYE),
    ("Population", "_root", np.zeros((1, 1))),
    ("Message", "parts", ()),
    ("Message", "parts", (np.array([np.nan]),)),
    ("PlateMessages", "parts", (TABLE,)),
    ("PlateMessages", "parts", (TABLE, np.ones((2, 2)))),
    ("PlateMessages", "parts", (TABLE, np.ones((3, 3)))),
    ("AdaGradMemory", "mean", NEGATIVE),
    ("AdaGradMemory", "root", np.ones((2, 3))),
    ("AdaGradMemory", "root", -EYE),
    ("AdaGradMemory", "unit", TWO),
    ("AdaGradMemory", "reach", 0.0),
    ("GradientSums", "mean", NEGATIVE),
    ("GradientSums", "root", np.ones((2, 3))),
    ("FlatMemory", "total", NEGATIVE),
    ("FlatMemory", "unit", 0.0),
    ("PlateMemory", "clock", np.array([0, -1])),
    ("PlateMemory", "seen", NEGATIVE),
    ("PlateMemory", "seen", THREE),
    ("PlateMemory", "rule", of(sums=THREE)),
    ("Sites", "start", NEGATIVE),
    ("LatentSites", "linear", TABLE),
    ("LatentSites", "first", [1]),
    ("Sites", "linear", np.ones((3, 2))),
    ("Sites", "quadratic", np.ones((2, 2, 3))),
    ("Sites", "linear", np.ones((2, 2, 2))),
    ("Sites", "first", []),
    ("Locals", "values", NUMBER),
    ("Locals", "repairs", -1),
    ("Table", "X", TWO),
    ("ValueCells", "ones", TWO),
    ("ValueCells", "missing", np.ones((5, 1))),
    ("CountCells", "counts", TABLE),
    ("CountCells", "counts", sp.csr_matrix(-TABLE)),
    ("CountCells", "seen", np.ones((5, 1), bool)),
    ("Chain", "noise", np.array([1.0, 1.0, -1e-9])),
    ("Chain", "noise", TWO),
    ("Chain", "rows", np.zeros(2, int)),
    ("Chain", "rows", np.array([3])),
    ("Chain", "starts", np.array([0, 1])),
    ("Chain", "columns", np.array([0, 3])),
    ("Chain", "cov", -np.eye(3)),
    ("Chain", "mean", TWO),
    ("Chain", "damped", np.array([3])),
    ("ChainGaussian", "chain", of(X=TABLE)),
    ("ChainGaussian", "linear", THREE),
    ("ChainGaussian", "weights", THREE),
    ("Scatter", "products", -EYE),
    ("Scatter", "products", np.eye(3)),
    ("Scatter", "n", 0.0),
    ("Scatter", "centred", 1),
    ("Table", "y", THREE),
    ("Table", "weight", NEGATIVE),
    ("Table", "weight", THREE),
    ("Table", "offset", THREE),
    ("LinearTerms", "value", THREE),
    ("LinearTerms", "alpha", np.ones((2, 2, 2))),
    ("LinearTerms", "gamma", np.ones((2, 2, 3))),
    ("LinearTerms", "gamma", np.ones((3, 2, 2))),
    ("LinearTerms", "linear", TWO),
    ("LinearTerms", "points", {"p": (TABLE, TABLE)}),
    ("LinearTerms", "points", {"p": (np.ones((3, 2)), np.ones((3, 2, 2)))}),
    ("LinearTerms", "scalars", {"s": THREE}),
    ("LinearTerms", "variance", TABLE),
    ("Sample", "priority", NEGATIVE),
    ("Sample", "importance", NEGATIVE),
    ("Sample", "share", THREE),
    ("Sample", "dropped", -1e-9),
    ("Sample", "data", of(y=THREE)),
    ("Sample", "sites", of(value=THREE)),
    ("StreamState", "constant", np.inf),
    ("StreamState", "weight", -1e-9),
    ("StreamState", "waiting", -1e-9),
    ("GroupedDesign", "codes", np.array([[0, 1], [1, 2]])),
    ("GroupedDesign", "codes", np.array([[0, 1], [2, 2]], np.int32)),
    ("GroupedDesign", "X", np.ones((3, 2))),
    ("GroupedDesign", "levels", [2, 2]),
    ("GroupedDesign", "levels", [2]),
    ("GroupedDesign", "values", [None, np.ones((3, 2))]),
    ("GroupedDesign", "arrow", 2),
    ("ColumnScaling", "scale", ZERO),
    ("ColumnScaling", "centre", THREE),
    ("ColumnScaling", "varies", TWO),
    ("ColumnScaling", "scaled", None),
    ("ColumnScaling", "stats", of(low=THREE)),
    ("CategoricalColumns", "n_columns", 3),
    ("CategoricalColumns", "columns", [3, 1]),
    ("CategoricalColumns", "columns", [1, 1]),
    ("CategoricalColumns", "columns", []),
    ("CategoricalColumns", "levels", [ROWS]),
    ("CategoricalColumns", "levels", [ROWS, TABLE]),
    ("CategoricalColumns", "levels", [ROWS, np.array(["a", "a"])]),
    ("CategoricalColumns", "levels", [ROWS, np.array([])]),
    ("CategoricalColumns", "missing", [True]),
    ("CategoricalColumns", "missing", [True, None]),
    ("CategoricalColumns", "reference", None),
    ("ColumnStats", "high", THREE),
    ("ColumnStats", "square", NEGATIVE),
    ("ColumnStats", "two", TWO),
    ("ColumnStats", "weight", -1e-9),
    ("ColumnStats", "eps", -1e-9),
    ("Nodes", "weights", TWO),
    ("Nodes", "weights", np.ones(3) / 3),
    ("LevelBlocks", "places", [(2, 1)]),
    ("LevelBlocks", "blocks", [EYE, EYE]),
    ("LevelBlocks", "diag", ZERO),
    ("NodeBlocks", "precision", ZERO),
    ("NodeBlocks", "precisions", np.ones((3, 3))),
    ("NodeBlocks", "information", NEGATIVE),
    ("NodeMixture", "prior_std", ZERO),
    ("LogScales", "weights", NEGATIVE),
    ("LogScales", "weights", THREE),
    ("IdFeatures", "scale", ZERO),
    ("IdFeatures", "mean", THREE),
    ("IdFeatures", "ids", THREE),
    ("IdFeatures", "columns", THREE),
    ("MixtureDraw", "rows", NEGATIVE),
    ("MixtureDraw", "rows", TABLE),
    ("MixtureDraw", "counts", np.ones((2, 3))),
    ("MixtureDraw", "counts", -TABLE),
    ("MixtureDraw", "labels", np.array([0, 2])),
    ("MixtureDraw", "labels", np.array([-1, 0])),
    ("MixtureDraw", "labels", TWO),
    ("GibbsDraw", "logit", THREE),
    ("GibbsDraw", "noise", np.zeros(1)),
    ("GibbsDraw", "weight", 0.0),
    ("GibbsDraw", "omega", np.ones((2, 3))),
    ("Beta", "a", ZERO),
    ("Beta", "b", THREE),
    ("BlockFactors", "by_block", {"w": TWO}),
    ("Progress", "damping", -1e-9),
    ("LineSearchState", "since", -1),
    ("LineSearchState", "small_changes", None),
    ("AveragingState", "checks", [np.nan]),
    ("PathState", "temperature", -1e-9),
    ("PathState", "loo", np.inf),
    ("PathState", "widths", [0.0]),
    ("PathState", "losses", []),
    ("PathState", "selected", -1),
    ("WideStream", "rivals", [(low_rank(), 0.0)]),
    ("WideStream", "began", -1.0),
    ("WideStream", "loss", THREE),
    ("Compared", "products", np.ones((2, 3))),
    ("PathPoint", "precision", 0.0),
    ("PathPoint", "losses", THREE),
    ("PathPoint", "variance", -TABLE),
    ("PathPoint", "mean", np.ones((2, 3))),
    ("AlternatingState", "checks", 1.0),
    ("Evaluation", "q", []),
    ("Posterior", "_blocks", None),
    ("FitRecord", "choices", None),
    ("FitRecord", "began_among", -1e-9),
    ("FitRecord", "one_sided", 1),
    ("InducingRecord", "learned_rows", 0),
    ("InducingRecord", "at_rows", -1),
    ("CountRecord", "n_rows", -1e-9),
    ("CountRecord", "counts", np.zeros(1)),
    ("CountRecord", "waiting", 0.5),
    ("CountRecord", "prior_shapes", THREE),
    ("BetaProcessEncoding", "noise_size", 3),
    ("BetaProcessEncoding", "dtype", "object"),
    ("CountEncoding", "mean", 0.0),
    ("FactorRecord", "sampled", 2),
    ("FactorRecord", "order", np.zeros(2, int)),
    ("FactorRecord", "order", np.array([], int)),
    ("FactorRecord", "draws", {"features": np.ones((3, 2, 4))}),
    ("BinaryEncoding", "sizes", (2, -1)),
    ("CategoricalEncoding", "sizes", (1, 1)),
    ("CategoricalEncoding", "categories", [np.zeros(2), ROWS[:1]]),
    ("Vocabulary", "n_words", 3),
    ("Vocabulary", "words", np.array(["a", "a"])),
    ("GroupingColumn", "size", 1),
    ("GroupingColumn", "names", np.array([1, 1])),
    ("GroupingColumn", "at", []),
    ("GroupingColumn", "at", [-1]),
    ("LinearPrior", "kind", "other"),
    ("LinearPrior", "unit", 0.0),
    ("LinearPrior", "intercept", (0.0, -1.0)),
    ("LinearPrior", "totals", NEGATIVE),
    ("Normal", "std", 0.0),
    ("priors.StudentT", "df", 0.0),
    ("priors.StudentT", "loc", "a"),
    ("priors.StudentT", "scale", -1.0),
    ("Horseshoe", "scale", 0.0),
    ("Horseshoe", "slab", 0.0),
    ("MultivariateNormal", "names", ["a"]),
    ("MultivariateNormal", "mean", THREE),
    ("MultivariateNormal", "cov", TWO),
    ("JointPrior", "mean", THREE),
    ("JointPrior", "precision", TWO),
    ("NamedPriors", "mean", THREE),
    ("NamedPriors", "precision", ZERO),
    ("NamedPriors", "learned", TWO),
    ("SecondPredictor", "kind", "mean"),
    ("SecondPredictor", "of", np.array([-1])),
    ("PrecisionGroups", "of_columns", [2]),
    ("PrecisionGroups", "precisions", NEGATIVE),
    ("Ordinal", "cut_points", TWO),
    ("kernel.RBF", "length_scale", ZERO),
    ("kernel.RBF", "length_scale_bounds", TWO),
]


def ask(key, **parts):
    check(of(**parts), layout(key, resolve_class(REGISTRY[key])), "there")


@pytest.mark.parametrize("key", RIGHT)
def test_what_is_right_passes(key):
    ask(key, **RIGHT[key])


@pytest.mark.parametrize(("key", "name", "value"), ALSO_RIGHT)
def test_what_is_at_a_limit_passes(key, name, value):
    ask(key, **{**RIGHT[key], name: value})


@pytest.mark.parametrize(("key", "name", "value"), WRONG)
def test_what_is_wrong_is_refused(key, name, value):
    assert name in RIGHT[key]
    with pytest.raises(Malformed, match=r"^there"):
        ask(key, **{**RIGHT[key], name: value})


def test_every_layout_is_asked_here():
    """Or of whole fits: in `test_states`, whose files have their arrays changed one by one."""
    of_fits = {"State", "SamplingState", "ProcessFit", "SeriesFit", "FittedWeights"} | set(KERNELS)
    layouts = {key: layout(key, resolve_class(target)) for key, target in REGISTRY.items()}
    alone = {key for key, text in layouts.items() if text}
    within = {key for key in alone if key.endswith(("Encoding", "Target"))} | {"TypedVocabulary"}
    estimators = {key for key in alone if issubclass(resolve_class(REGISTRY[key]), BaseEstimator) and key != "Ordinal"}
    assert alone - within - of_fits - estimators <= set(RIGHT)
    assert {key for key, *_ in WRONG} == set(RIGHT)


@pytest.mark.parametrize("value", [np.array([1.0 + 1.0j]), np.array([1.0, np.nan]), np.array([np.inf])])
def test_no_array_anywhere_is_complex_or_infinite(value):
    for within in (value, [value], {"a": (1, value)}, of(deep=[of(a=value)])):
        with pytest.raises(Malformed, match=r"complex|not finite"):
            check_parts(within, "state_", lambda cls: "key" if cls is SimpleNamespace else None)
    check_parts([of(a=np.array(["text"])), None, 1.5, np.array([1, 2])], "state_", lambda cls: "key")


@pytest.mark.parametrize(("kind", "dtype"), [("extension", "Sparse[float]"), ("sparse", "str")])
def test_columns_are_of_known_kinds_and_types(kind, dtype, monkeypatch):
    reader = Decoder({}, {}.__getitem__, lambda n_bytes: None)
    monkeypatch.setattr(reader, "decode", lambda node: node)
    with pytest.raises(ValueError, match="unknown kind of column"):
        reader._column({"kind": kind, "dtype": dtype, "values": np.ones(2)})
