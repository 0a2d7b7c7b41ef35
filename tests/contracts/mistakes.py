"""What users do wrong: what, by whom, how, and the words that the error must have (``{cls}``: the estimator's name)."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.utils._param_validation import InvalidParameterError

import sksvi
from sksvi.likelihoods import Gaussian, Ordinal
from sksvi.persistence.writer import saved_state

N = 24
NAMES = [name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")]
CHEAP = {"max_iter": 2, "random_state": 0, "n_inducing": 5, "n_components": 2, "n_jobs": 1}


def having(parameter: str) -> list[str]:
    return [name for name in NAMES if parameter in getattr(sksvi, name)().get_params()]


# ---- who: estimators by what they take
GFM = ["GammaFactorModel"]
COUNTED = ["PoissonFactorization"]
PMF, BPFA, NMF = ["GeneralizedPMF"], ["BetaProcessFA"], ["GammaPoissonFactorization", "GammaProcessNMF"]
SERIES = ["DynamicGLM"]
CTM, MIXTURES = ["CorrelatedTopicModel", "StructuredLDA"], ["BernoulliMixture", "CategoricalMixture"]
CLASSIFIERS = [name for name in NAMES if name.endswith("Classifier")]
REGRESSORS = [name for name in NAMES if name.endswith("Regressor")]
MEASURED, SUPERVISED = REGRESSORS + PMF, CLASSIFIERS + REGRESSORS
WITH_Y, TABLES, DENSE = (
    SUPERVISED + PMF,
    SUPERVISED + BPFA + CTM + NMF + GFM + MIXTURES[:1],
    having("kernel") + BPFA + GFM,
)
CATEGORICAL = having("categorical_features")
LINEAR, MIXED, GP = having("prior_precision"), having("random_slopes"), having("kernel")
STREAMS = [name for name in NAMES if hasattr(getattr(sksvi, name), "partial_fit")]
STREAMED_LABELS = [name for name in CLASSIFIERS if name in STREAMS]
FIXED_COLUMNS = SUPERVISED + BPFA + GFM + NMF + MIXTURES  # words may be new


def data(name: str) -> tuple[Any, Any]:
    """X and y that the estimator takes; y None for those that have none."""
    rng = np.random.default_rng(1)
    if name in PMF:
        return pd.DataFrame({"user": np.arange(N) % 6, "film": rng.integers(0, 5, N)}), rng.standard_normal(N)
    if name in COUNTED:
        return pd.DataFrame({"user": np.arange(N) % 6, "film": rng.integers(0, 5, N)}), None
    if name in CTM:
        return pd.DataFrame(rng.poisson(2.0, (N, 5)), columns=list("abcde")), None
    if name in NMF:
        return pd.DataFrame(rng.poisson(2.0, (N, 2)), columns=["age", "dose"]), None
    X = pd.DataFrame(rng.standard_normal((N, 2)), columns=["age", "dose"])
    if name in MIXTURES:
        return (X > 0).astype(float), None
    y = X["age"].to_numpy() + 0.5 * rng.standard_normal(N)
    if name in SERIES:
        return X, rng.poisson(np.exp(y)).astype(float)
    return X, None if name in BPFA + GFM else (y > 0).astype(int) if name in CLASSIFIERS else y


def bare(name: str) -> Any:
    """An estimator with few passes."""
    known = getattr(sksvi, name)().get_params()
    return getattr(sksvi, name)(**{key: value for key, value in CHEAP.items() if key in known})


@lru_cache
def fitted_model(name: str) -> Any:
    X, y = data(name)
    return bare(name).fit(X, y) if y is not None else bare(name).fit(X)


def fingerprint(model: Any) -> str:
    """Of every attribute, arrays and all that hangs on them."""
    return hashlib.sha256(pickle.dumps(saved_state(model))).hexdigest()


class At:
    """Where a mistake happens: an estimator as it was before, and data that it takes."""

    def __init__(self, name: str, fitted: bool) -> None:
        self.X, self.y = data(name)
        self.model = copy.deepcopy(fitted_model(name)) if fitted else bare(name)
        self.before = fingerprint(self.model)

    def set(self, **parameters: Any) -> At:
        self.model.set_params(**parameters)
        self.before = fingerprint(self.model)
        return self

    def run(self, method: str, X: Any = None, y: Any = None, **arguments: Any) -> Any:
        """The method, with the right X and y for those that are not given."""
        y = self.y if y is None else y
        return getattr(self.model, method)(self.X if X is None else X, *([] if y is None else [y]), **arguments)

    def fit(self, X: Any = None, y: Any = None, **arguments: Any) -> Any:
        return self.run("fit", X, y, **arguments)

    def more(self, X: Any = None, y: Any = None, **arguments: Any) -> Any:
        return self.run("partial_fit", X, y, **arguments)

    def fit_as(self, likelihood: Any, y: Any, X: Any = None) -> Any:
        return self.set(likelihood=likelihood).fit(X, y)

    def ask(self, X: Any = None, **arguments: Any) -> Any:
        """A prediction, or what transformers have instead."""
        method = "predict" if hasattr(self.model, "predict") else "transform"
        return getattr(self.model, method)(self.X if X is None else X, **arguments)


class Mistake(NamedTuple):
    what: str
    who: list[str]
    call: Callable[[At], Any]
    words: str
    error: type[Exception] = ValueError
    fitted: bool = False


def by(who: list[str], rows: dict[str, tuple[Any, str]], **options: Any) -> list[Mistake]:
    """Mistakes that the same estimators make."""
    return [Mistake(what, who, call, words, **options) for what, (call, words) in rows.items()]


def bad(parameter: str, value: Any, words: str, who: list[str] | None = None) -> list[Mistake]:
    """A wrong parameter of a first fit, and of more data, before which scikit-learn looks at none."""
    text = f"'{parameter}' parameter of {{cls}} must be.*{words}"
    who = having(parameter) if who is None else who
    first = Mistake(
        f"{parameter}={value!r}", who, lambda at: at.set(**{parameter: value}).fit(), text, InvalidParameterError
    )
    streams = [name for name in who if name in STREAMS]
    later = {"who": streams, "call": lambda at: at.set(**{parameter: value}).more(), "fitted": True}
    return [first, first._replace(what=f"{first.what}, later", **later)]


def changed(parameter: str, before: Any, after: Any, who: list[str], words: str) -> Mistake:
    """A fit that goes on with what it cannot change."""

    def call(at: At) -> Any:
        at.set(**{parameter: before}).fit()
        return at.set(**{parameter: after}, warm_start=True).fit()

    what = f"warm start: {parameter} from {before!r} to {after!r}"
    return Mistake(what, who, call, f"{parameter} was {words}: a fit that goes on.*fit a clone")


def third(values: Any, wrong: Any) -> Any:
    """A copy whose row 3 is wrong."""
    values = np.array(values, dtype=object if isinstance(wrong, str) else float)
    values[3] = wrong
    return values


def text(at: At) -> pd.DataFrame:
    return at.X.assign(colour=["red", "blue"] * (N // 2))


def dates(n: int = N) -> Any:
    return pd.date_range("2020", periods=n)


HALF = np.array(["low", "high"] * (N // 2))
ONES = np.ones(N)

PARAMETERS = [
    *bad(
        "algorithm",
        "adam",
        "'mc-ssvi'.*'s-dsvi'",
        [n for n in NAMES if n not in ("GPClassifier", *MIXTURES, *NMF, *COUNTED, *GFM, *SERIES)],
    ),
    *bad("algorithm", "adam", "{{'cvi', 'mc-ssvi', 's-dsvi'}}", GFM),
    *bad("algorithm", "adam", "{{'cvi', 'mc-ssvi', 'ssvi-a', 'svi'}}", NMF + COUNTED),
    *bad("algorithm", "adam", "{{'cvi', 'gibbs', 'map', 'mc-ssvi', 'ssvi', 'ssvi-a', 'svi'}}", MIXTURES),
    *bad("moves", "merging", "{{'all', 'merge', 'none'}}"),
    *bad("concentration", 0.0, "float"),
    *bad("probability_prior", -1.0, "float"),
    *bad("algorithm", "adam", "{{'cvi', 'fp', 'mc-ssvi'}}", ["GPClassifier", *SERIES]),
    *bad("expectation", "laplace", "'auto'.*'quadrature'"),
    *bad("covariance", "spherical", "'diag', 'full'"),
    *bad("batch_size", 0, "'auto'"),
    *bad("max_iter", 0, "int"),
    *bad("tol", -1.0, "float"),
    *bad("total_samples", 0, "float"),
    *bad("n_jobs", 1.5, "int"),
    *bad("warm_start", "yes", "bool"),
    *bad("random_state", "seed", "int"),
    *bad("likelihood", "gama", "'.*'probit'"),
    *bad("prior_precision", "learn", "{{'ard', 'auto'"),
    *bad("intercept_precision", -1.0, "float"),
    *bad("fit_intercept", "no", "bool"),
    *bad("noise_prior_scale", 0.0, "float"),
    *bad("noise", "yes", "{{'auto'}}", MIXED),
    *bad("categorical_features", "colour", "{{'from_dtype'}}"),
    *bad("bound", "tight", "'optimal'.*'simple'", [name for name in having("bound") if name not in NMF]),
    *bad("bound", "loose", "{{'auxiliary', 'tight'}}", NMF[:1]),
    *bad("n_inducing", 0, "int"),
    *bad("inducing", "grid", "{{'kmeans', 'random'}}"),
    *bad("noise_variance", -1.0, "{{'auto'}}", [name for name in having("noise_variance") if name not in GFM]),
    *bad("noise_variance", -1.0, "{{'auto', 'per-feature'}}", GFM),
    *bad("kernel", "rbf", "Kernel"),
    *bad("n_components", 0, "int"),
    *bad("biases", "no", "bool"),
    *bad("prior_covariance", "full", "{{'diag', 'spherical'}}"),
    *bad("topics", "gauss", "{{'adagrad', 'dirichlet', 'point', 'sampled'}}"),
    *bad("local_step", "vb", "{{'gibbs', 'mean-field', 'spike-slab'}}", BPFA),
    *bad("local_step", "vb", "{{'cvb0', 'gibbs', 'mean-field'}}", ["StructuredLDA"]),
    *bad("init", "pca", "{{'data', 'gibbs', 'random'}}", BPFA),
    *bad("init", "pca", "{{'map', 'random'}}", GFM),
    *bad("init", "pca", "{{'random', 'rows'}}", NMF[1:]),
    *bad("init", "pca", "{{'groups', 'random', 'rows'}}", NMF[:1] + COUNTED),
]

CALLS = [
    Mistake("an unknown parameter", NAMES, lambda at: type(at.model)(nonsense=1), "{cls}.*'nonsense'", TypeError),
    Mistake("fit without data", NAMES, lambda at: at.model.fit(), r"{cls}\.fit\(\).*'X'", TypeError),
    Mistake("set an unknown parameter", NAMES, lambda at: at.set(nonsense=1), "'nonsense' for estimator {cls}"),
    Mistake("fit without y", WITH_Y, lambda at: at.model.fit(at.X), r"{cls}\.fit\(\).*'y'", TypeError),
    *by(
        NAMES,
        {
            "predict before fit": (lambda at: at.ask(), "{cls}.*not fitted"),
            "summary before fit": (lambda at: at.model.summary(), "{cls}.*not fitted"),
        },
        error=NotFittedError,
    ),
    *by(
        NAMES,
        {
            "an unknown argument": (lambda at: at.ask(nonsense=1), "{cls}.*'nonsense'"),
            "save without a path": (lambda at: at.model.save(), r"{cls}\.save\(\).*'path'"),
        },
        error=TypeError,
        fitted=True,
    ),
    *by(
        SUPERVISED,
        {
            "predict without data": (lambda at: at.model.predict(), r"{cls}\.predict\(\).*'X'"),
            "score without y": (lambda at: at.model.score(at.X), r"{cls}\.score\(\).*'y'"),
        },
        error=TypeError,
        fitted=True,
    ),
]

X_FORMS = [
    *by(
        TABLES,
        {
            "X is None": (lambda at: at.model.fit(None, at.y), "X is None"),
            "X is a file name": (lambda at: at.fit("data.csv"), "X is 'data.csv'"),
            "X is a column": (lambda at: at.fit(at.X.iloc[:, 0]), "X: Expected"),
            "X has three dimensions": (lambda at: at.fit(np.zeros((N, 2, 2))), "X: .*dim 3.*{cls}"),
            "X has no rows": (lambda at: at.fit(at.X[:0], None if at.y is None else at.y[:0]), "X: .*0 sample.*{cls}"),
            "X has no columns": (lambda at: at.fit(at.X.iloc[:, :0]), "X has 0 feature"),
            "X has rows of two lengths": (lambda at: at.fit([[1.0, 2.0], [1.0]]), "X: .*inhomogeneous"),
            "X is infinite": (lambda at: at.fit(third(at.X, np.inf)), "column 0 of X, row 3: .*X contains inf"),
            "X is an array with text": (lambda at: at.fit(text(at).to_numpy()), "column [25] of X has 'red' in row 0"),
            "X has dates": (lambda at: at.fit(at.X.assign(when=dates())), "column 'when' of X has the date 2020-01-01"),
            "X has dates alone": (lambda at: at.fit(pd.DataFrame({"when": dates()})), "column 'when' .* the date"),
            "X is complex": (lambda at: at.fit(at.X.to_numpy() * 1j), "X: Complex"),
        },
    ),
    *by(
        [name for name in TABLES if name not in CATEGORICAL],
        {"X has text": (lambda at: at.fit(text(at)), "column 'colour' of X has 'red' in row 0.*OneHotEncoder")},
    ),
    *by(
        CATEGORICAL,
        {
            "text that is not to be categorical": (
                lambda at: at.set(categorical_features=None).fit(text(at)),
                "column 'colour' of X has 'red' in row 0.*OneHotEncoder.*categorical_features",
            ),
            "a word among numbers": (
                lambda at: at.fit(at.X.assign(colour=["12", "?"] * (N // 2))),
                r"column 'colour' of X has '\?' in row 1, which is no number, beside '12'",
            ),
            "a categorical column that is not there": (
                lambda at: at.set(categorical_features=["color"]).fit(text(at)),
                "categorical_features names the column 'color', which X does not have",
            ),
            "a mask of other columns": (
                lambda at: at.set(categorical_features=[False, True]).fit(text(at)),
                "categorical_features is a mask of 2 values, and X has 3 columns",
            ),
        },
    ),
    *by(
        CATEGORICAL,
        {
            "levels of two types": (
                lambda at: at.set(categorical_features=["colour"]).fit(at.X.assign(colour=[1, "red"] * (N // 2))),
                r"column 'colour' of X mixes \['int', 'str'\]",
            )
        },
        error=TypeError,
    ),
    *by(
        SERIES,
        {
            "X is a file name": (lambda at: at.fit("data.csv"), "X is 'data.csv'"),
            "X is infinite": (lambda at: at.fit(third(at.X, np.inf)), "column 0 of X, row 3: .*X contains inf"),
            "X has text": (lambda at: at.fit(text(at)), "column 'colour' of X has 'red' in row 0.*OneHotEncoder"),
            "X has dates": (lambda at: at.fit(at.X.assign(when=dates())), "column 'when' of X has the date 2020-01-01"),
            "X is shorter than y": (lambda at: at.fit(at.X.iloc[:-1]), "23.*24|24.*23"),
        },
    ),
    *by(
        FIXED_COLUMNS,
        {
            "other columns": (lambda at: at.ask(at.X.rename(columns={"age": "years"})), "(?s)years.*age"),
            "score of fewer columns": (lambda at: at.run("score", at.X.to_numpy()[:, :1]), "1 feature.*{cls}"),
        },
        fitted=True,
    ),
    *by(
        TABLES,
        {
            "fewer columns": (lambda at: at.ask(at.X.to_numpy()[:, :1]), "X has 1 feature.*{cls}.*expecting"),
            "a column of text now": (
                lambda at: at.ask(text(at).iloc[:, 1:]),
                "column 'colour' .* 'red' in row 0|names",
            ),
        },
        fitted=True,
    ),
    Mistake("X is sparse", DENSE, lambda at: at.fit(sp.csr_matrix(at.X)), "Sparse.* X", TypeError),
    *by(SUPERVISED + CTM, {"X has NaN": (lambda at: at.fit(third(at.X, np.nan)), "column 0 of X, row 3: .*NaN")}),
]

TARGETS = [
    *by(
        MEASURED,
        {
            "a row without a level": (
                lambda at: at.fit_as(
                    "ordinal", pd.Categorical.from_codes([0, -1] * (N // 2), ["low", "top"], ordered=True)
                ),
                "y contains NaN: row 1",
            ),
        },
    ),
    *by(
        WITH_Y,
        {
            "y is None": (lambda at: at.model.fit(at.X, None), "y is None"),
            "y is too short": (lambda at: at.fit(y=at.y[:-1]), "X and y differ in length.*24, 23"),
            "y has NaN": (lambda at: at.fit(y=third(at.y, np.nan)), "y contains NaN"),
            "y has two columns": (lambda at: at.fit(y=np.column_stack([at.y, at.y])), "y should be a 1d array"),
        },
    ),
    *by(
        MEASURED + SERIES,
        {
            "y is infinite": (lambda at: at.fit(y=third(at.y, np.inf)), "y contains inf"),
            "y is text": (lambda at: at.fit(y=HALF), "y has 'low' in row 0"),
            "y has a word": (lambda at: at.fit(y=third(at.y, "none")), "y has 'none' in row 3"),
            "y has dates": (lambda at: at.fit(y=dates()), "y has '2020-01-01.*' in row 0"),
            "counts below zero": (lambda at: at.fit_as("poisson", third(ONES, -1)), "y >= 0; found -1 in row 3"),
            "labels beyond 0 and 1": (lambda at: at.fit_as("logit", third(ONES, 2)), "y in .* found 2 in row 3"),
            "levels without an order": (lambda at: at.fit_as("ordinal", HALF), "'ordinal'.*'low'.*ordered=True"),
            "levels of an unordered type": (
                lambda at: at.fit_as("ordinal", pd.Categorical(HALF)),
                "'ordinal'.*'.*'.*ordered=True",
            ),
            "one level": (lambda at: at.fit_as("ordinal", ONES), "two levels; it contains only 1"),
            "cut points for other levels": (
                lambda at: at.fit_as(Ordinal(cut_points=[0.0, 1.0]), np.arange(N) % 2),
                "cut_points.* has 3 levels; y has 2",
            ),
        },
    ),
    *by(
        REGRESSORS,
        {
            "measured levels": (
                lambda at: at.fit_as("ordinal", np.linspace(0, 1, 3 * N), pd.concat([at.X] * 3)),
                "'ordinal'.*72 of them that are no integers.*'gaussian'",
            ),
            "no pairs": (lambda at: at.fit_as("binomial", ONES), r"shape \(n, 2\).*found shape \(24,\)"),
            "a likelihood of classifiers": (lambda at: at.fit_as("softmax", ONES), "'likelihood' parameter of {cls}"),
        },
    ),
    *by(
        CLASSIFIERS,
        {
            "labels are measured": (lambda at: at.fit(y=at.X["age"]), "continuous"),
            "one label": (lambda at: at.fit(y=np.full(N, "a")), "{cls} needs.*one class: 'a'"),
            "a likelihood of regressors": (lambda at: at.fit_as(Gaussian(), at.y), "Gaussian.*labels.*'logit'"),
        },
    ),
    *by(
        COUNTED,
        {
            "counts below zero": (lambda at: at.fit(y=third(ONES, -1)), "y >= 0; found -1 in row 3"),
            "counts are text": (lambda at: at.fit(y=HALF), "y has 'low' in row 0"),
            "counts are NaN": (lambda at: at.fit(y=third(ONES, np.nan)), "y contains NaN"),
            "too few counts": (lambda at: at.fit(y=ONES[:-1]), "X and y differ in length.*24, 23"),
            "no user": (
                lambda at: at.fit(at.X.assign(user=third(at.X["user"], np.nan))),
                "user id in row 3 .* missing",
            ),
            "no weight at all": (lambda at: at.fit(sample_weight=0 * ONES), "sample_weight is zero in every row"),
            "infinite counts": (lambda at: at.fit(y=third(ONES, np.inf)), "y contains inf"),
            "counts in two columns": (lambda at: at.fit(y=np.ones((N, 2))), "y should be a 1d array"),
            "a negative weight": (lambda at: at.fit(sample_weight=third(ONES, -2)), "`sample_weight`: .*-2 in row 3"),
            "three columns": (lambda at: at.fit(at.X.assign(day=1)), "X has 3 columns; {cls} takes two"),
            "X has no rows": (lambda at: at.fit(at.X[:0]), "n_samples=0.*{cls}"),
        },
    ),
    *by(
        COUNTED,
        {
            "score of negative counts": (lambda at: at.run("score", y=third(ONES, -1)), "found -1 in row 3"),
            "nobody to recommend to": (lambda at: at.model.recommend([]), "users is empty"),
            "no items": (lambda at: at.model.recommend([1], n=0), "n must be an integer >= 1; found 0"),
            "a quantile of 2": (lambda at: at.model.predict_quantiles(at.X, 2), "q must"),
        },
        fitted=True,
    ),
    *by(STREAMED_LABELS, {"a first chunk without classes": (lambda at: at.more(), "classes must be passed")}),
    *by(
        STREAMED_LABELS,
        {
            "other classes later": (lambda at: at.more(classes=[0, 1, 2]), "classes=.*first call"),
            "a new label later": (lambda at: at.more(y=third(at.y, 7)), "labels.*7"),
            "labels of another kind later": (lambda at: at.more(y=HALF), "labels.*'high', 'low'"),
        },
        fitted=True,
    ),
    *by(
        CLASSIFIERS,
        {
            "density of another label": (lambda at: at.run("log_predictive_density", y=third(at.y, 7)), "labels.*7"),
            "an interval of labels": (lambda at: sksvi.predict_interval(at.model, at.X), "{cls} has no predict_int"),
        },
        error=(TypeError, ValueError),
        fitted=True,
    ),
    *by(WITH_Y, {"score of a short y": (lambda at: at.run("score", y=at.y[:-1]), "X and y differ")}, fitted=True),
]

SHORT = r".shape == \(3,\), expected \(24,\): one number per row"
ROW_VALUES = [
    *by(
        WITH_Y,
        {
            "too few weights": (lambda at: at.fit(sample_weight=np.ones(3)), f"sample_weight{SHORT}"),
            "a negative weight": (lambda at: at.fit(sample_weight=third(ONES, -2)), "`sample_weight`: .*-2 in row 3"),
            "a weight is NaN": (lambda at: at.fit(sample_weight=third(ONES, np.nan)), "sample_weight contains NaN"),
            "no weight at all": (lambda at: at.fit(sample_weight=0 * ONES), "sample_weight is zero in every row"),
            "a weight is text": (lambda at: at.fit(sample_weight=third(ONES, "two")), "sample_weight must be .*'two'"),
        },
    ),
    *by(WITH_Y, {"negative in score": (lambda at: at.run("score", sample_weight=-ONES), "sample_weight")}, fitted=True),
    *by(
        SUPERVISED,
        {
            "too few offsets": (lambda at: at.fit(offset=np.ones(3)), f"offset{SHORT}"),
            "an offset is NaN": (lambda at: at.fit(offset=third(ONES, np.nan)), "offset contains NaN"),
            "an offset is a name": (lambda at: at.fit(offset="exposure"), "offset must be numbers.*'exposure'"),
        },
    ),
    *by(SUPERVISED, {"too few to predict": (lambda at: at.ask(offset=np.ones(3)), f"offset{SHORT}")}, fitted=True),
]

QUESTIONS = [
    *by(
        NAMES,
        {
            "summary of coverage 1.5": (lambda at: at.model.summary(coverage=1.5), "coverage must.*found 1.5"),
            "summary of coverage 'x'": (lambda at: at.model.summary(coverage="x"), "coverage must.*found 'x'"),
        },
        fitted=True,
    ),
    *by(
        MEASURED,
        {
            "coverage in percent": (lambda at: at.model.predict_interval(at.X, coverage=90), "coverage must.*found 90"),
            "coverage is text": (lambda at: at.model.predict_interval(at.X, coverage="x"), "coverage must.*found 'x'"),
            "coverage of the function": (lambda at: sksvi.predict_interval(at.model, at.X, "x"), "coverage.*'x'"),
            "quantiles in percent": (lambda at: at.model.predict_quantiles(at.X, [5, 95]), "q must.*found .5, 95"),
            "no quantiles": (lambda at: at.model.predict_quantiles(at.X, []), "q must.*at least one"),
            "quantiles are text": (lambda at: at.model.predict_quantiles(at.X, "median"), "q must.*'median'"),
            "no draws": (lambda at: at.model.sample_y(at.X, n_samples=0), "n_samples.*found 0"),
            "half a draw": (lambda at: at.model.sample_y(at.X, n_samples=1.5), "n_samples.*found 1.5"),
            "a seed that is none": (lambda at: at.model.sample_y(at.X, random_state="x"), "random_state must.*'x'"),
        },
        fitted=True,
    ),
]

WARM = [
    changed("prior_precision", 1.0, "auto", LINEAR, "a number .* is 'auto' now"),
    changed("prior_precision", "auto", "ard", LINEAR, "'auto' .* is 'ard' now"),
    changed("covariance", "full", "diag", [n for n in WITH_Y if n != "GPClassifier"], "'full' .* is 'diag' now"),
    changed("fit_intercept", True, False, LINEAR, "True .* is False now"),
    changed("likelihood", "gaussian", "student-t", MEASURED, "'gaussian' .* is 'student-t' now"),
    changed("likelihood", "logit", "probit", CLASSIFIERS, "'logit' .* is 'probit' now"),
    changed("n_components", 2, 3, having("n_components"), "2 .* is 3 now"),
    changed("kernel", RBF(1.0), RBF(2.0), GP, ".*RBF.* is .*RBF.* now"),
    changed("noise", False, True, MIXED, "False .* is True now"),
]

OWN = [
    *by(
        LINEAR,
        {
            "too few priors": (
                lambda at: at.set(prior_precision=[1.0]).fit(),
                r"prior_precision.shape == \(1,\), expect",
            ),
            "a negative prior": (
                lambda at: at.set(prior_precision=[1.0, -1.0]).fit(),
                "prior_prec.*-1 for column 'dose'",
            ),
            "fp in batches": (lambda at: at.set(algorithm="fp", batch_size=4).fit(), "algorithm='fp'.*batch_size=4"),
        },
    ),
    *by(
        MIXED,
        {
            "text that could be a group": (
                lambda at: at.set(categorical_features=None).fit(text(at)),
                "'colour'.*or in groups",
            ),
            "text beside a group": (
                lambda at: at.set(groups="dose", categorical_features=None).fit(text(at)),
                "'colour'.*in groups",
            ),
            "a group that is categorical": (
                lambda at: at.set(groups="colour", categorical_features=["colour"]).fit(text(at)),
                "categorical_features=.*colour.* has a column that groups names",
            ),
            "groups nested in no column": (lambda at: at.set(groups="age/ward").fit(), "groups .* 'ward'.*'age'"),
            "groups that are no column": (lambda at: at.set(groups="ward").fit(), "groups .* 'ward'.*'age'"),
            "groups beyond the columns": (lambda at: at.set(groups=7).fit(), "groups=7 is no column of X"),
            "groups of an array": (lambda at: at.set(groups="ward").fit(at.X.to_numpy()), "'ward'.*no column names"),
            "slopes of no column": (lambda at: at.set(groups="age", random_slopes="w").fit(), "random_slopes.*'w'"),
            "slopes of the group": (lambda at: at.set(groups="age", random_slopes="age").fit(), "'age' names a group"),
        },
    ),
    *by(
        GP,
        {
            "a kernel with noise": (lambda at: at.set(kernel=RBF() + WhiteKernel()).fit(), "kernel.*WhiteKernel"),
            "a kernel of three columns": (lambda at: at.set(kernel=RBF([1.0] * 3)).fit(), "kernel.*3 length scales"),
        },
    ),
    *by(
        having("n_inducing"),
        {
            "points of three columns": (lambda at: at.set(inducing=np.eye(3)).fit(), "inducing has 3 columns, X has 2"),
            "constant columns": (lambda at: at.fit(at.X * 0.0 + 1.0), "every column of X is constant"),
        },
    ),
    *by(
        ["SparseGPRegressor"],
        {
            "noise of counts": (
                lambda at: at.set(noise_variance=1.0).fit_as("poisson", ONES),
                "noise_variance=1.0.*'poi",
            ),
            "no exact bound": (
                lambda at: at.set(bound="optimal").fit_as("poisson", ONES),
                "bound='optimal'.*'poisson'",
            ),
        },
    ),
    *by(
        PMF,
        {
            "ratings in three columns": (
                lambda at: at.fit(at.X.assign(rating=1.0)),
                "X has 3 columns; {cls} takes two",
            ),
            "a table is None": (lambda at: at.model.fit(None, at.y), "X is None; {cls} takes"),
            "a table is a file name": (lambda at: at.fit("data.csv"), "X is 'data.csv'; {cls} takes"),
            "no pairs of ids": (lambda at: at.fit(at.X[:0], at.y[:0]), "X has no rows"),
            "no ids at all": (lambda at: at.fit(at.X.assign(user=None)), "every user id of X is missing"),
            "features that are text": (
                lambda at: at.set(item_features=pd.DataFrame({"genre": ["a"] * 5})).fit(),
                "item_features has column 'genre'.*get_dummies",
            ),
        },
    ),
    *by(
        PMF,
        {
            "a sparse table": (lambda at: at.fit(sp.csr_matrix(np.eye(N))), "X is a sparse matrix; {cls} takes"),
            "ids that are lists": (lambda at: at.fit(at.X.assign(user=[[1]] * N)), "user ids.*list.*not hashable"),
            "features in an array": (lambda at: at.set(user_features=np.eye(6)).fit(), "user_features must be a Data"),
        },
        error=TypeError,
    ),
    *by(
        PMF,
        {
            "no recommendations": (lambda at: at.model.recommend([1], n=0), "n must be.*found 0"),
            "an unknown strategy": (lambda at: at.model.recommend([1], strategy="best"), "strategy must.*'best'"),
            "nobody to recommend to": (lambda at: at.model.recommend([]), "users is empty"),
            "fold_in of nobody": (lambda at: at.run("fold_in", at.X.assign(user=None)), "user id in row 0 of X"),
        },
        fitted=True,
    ),
    *by(
        CTM,
        {
            "negative counts": (lambda at: at.fit(-at.X), "Negative values.*{cls}"),
            "seeds that are no column": (
                lambda at: at.set(prior_words={0: ["z"]}).fit(),
                "prior_words of topic 0.*'z'",
            ),
            "seeds of no topic": (lambda at: at.set(prior_words={9: ["a"]}).fit(), "prior_words has topic 9"),
            "no prior of words": (lambda at: at.set(topic_word_prior=0).fit(), "topic_word_prior.*0"),
            "no chunks": (lambda at: at.fit(iter([])), "X is an iterator without chunks"),
        },
    ),
    *by(
        ["CorrelatedTopicModel"],
        {"nodes for documents": (lambda at: at.set(expectation="gauss-hermite").fit(), "expectation=.gauss-hermite")},
    ),
    *by(CTM, {"too few names": (lambda at: at.model.top_words(["a"]), r"feature_names .* \(1,\)")}, fitted=True),
    *by(BPFA, {"nothing seen": (lambda at: at.fit(at.X.assign(dose=np.nan)), "column 'dose' of X has no observed")}),
    *by(
        BPFA,
        {
            "too many factors": (lambda at: at.model.inverse_transform(np.eye(9)), "X has 9 columns.*2 factors"),
            "other rows": (lambda at: at.run("log_predictive_density", y=at.X[:3]), r"held_out.shape == \(3, 2\)"),
        },
        fitted=True,
    ),
]

MISTAKES = [*PARAMETERS, *CALLS, *X_FORMS, *TARGETS, *ROW_VALUES, *QUESTIONS, *WARM, *OWN]
