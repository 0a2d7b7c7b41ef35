"""How a fit is told as text: what its header says of how it ended, how its table is rounded and cut."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GeneralizedPMF,
    GMERegressor,
    load,
)
from sksvi.callbacks import Checkpoint
from sksvi.estimators.summary_text import counted, lines_of, rounded
from sksvi.network import Gamma, Network
from sksvi.network import Poisson as Counts
from tests.cases import header
from tests.test_callbacks import Recorder


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def X(rng):
    return pd.DataFrame(rng.standard_normal((120, 3)), columns=["age", "dose", "weight"])


# ---- the table
@pytest.mark.parametrize(
    ("values", "std", "text"),
    [
        ([50123.4, -4742.1, 6.0], [293.1, 292.8, 297.0], ["50123", "-4742", "6"]),
        ([1.23456, -0.0501], [0.071, 0.45], ["1.235", "-0.050"]),
        ([0.000301, 0.0012], [0.000023, 0.00061], ["0.000301", "0.001200"]),
        ([1.5, 2.5e-7, 3.0], [0.21, 1e-8, 0.31], ["1.50", "2.5e-07", "3.00"]),
        ([1.5e12, 1.0], [1e10, 0.1], ["1.5e+12", "1.00"]),
        ([-0.0001, 1.0], [0.31, 0.31], ["0.00", "1.00"]),
        ([12.3456, 0.5], [np.nan, 0.12], ["12.35", "0.50"]),
        ([np.nan, np.inf], [np.nan, np.nan], ["-", "inf"]),
        ([0.0, 0.0], [0.0, 0.0], ["0", "0"]),
        ([], [], []),
    ],
)
def test_numbers_of_a_column_share_decimals_that_their_spread_asks_for(values, std, text):
    assert rounded(np.array(values, float)[:, None], np.array(std, float), ["mean"])["mean"] == text


def test_columns_are_aligned(X, rng):
    y = 50_000.0 + 10_000.0 * X["age"] + 5_000.0 * rng.standard_normal(120)
    lines = BayesianGLMRegressor().fit(X, y).summary_text().partition("\n\n")[2].split("\n")
    assert [line.split()[0] for line in lines] == ["coefficient", "age", "dose", "weight", "intercept", "std(residual)"]
    assert len({len(line) for line in lines}) == 1
    assert all("." not in line.rpartition(" ")[0] for line in lines[1:])  # whole numbers, but for the direction


def test_long_tables_are_cut_in_the_middle(rng):
    X = rng.standard_normal((300, 95))
    model = BayesianGLMRegressor().fit(X, X[:, 0] + rng.standard_normal(300))
    lines = model.summary_text().partition("\n\n")[2].split("\n")
    assert len(lines) == 1 + 40 + 1 and lines[31] == "… 57 more: summary()" and len(model.summary()) == 97
    assert lines[30].startswith("x29 ") and lines[32].startswith("x87 ") and lines[-1].startswith("std(residual)")
    short = lines_of(model.summary().iloc[:40])
    assert len(short) == 41 and not any("…" in line for line in short)


def test_labels_are_cut_and_flags_are_told():
    table = pd.DataFrame({"mean": [1.0, 2.0], "std": [0.1, 0.1], "switched_off": [True, False]}, index=["a" * 99, "b"])
    assert lines_of(table) == [
        f"{'':40}  mean   std  switched_off",
        f"{'a' * 26}…{'a' * 13}  1.00  0.10           yes",
        f"{'b':40}  2.00  0.10",
    ]


def test_long_labels_stay_apart():
    names = [f"onehotencoder__occupation_of_the_household_{name}" for name in ("Craft-repair", "Exec-managerial")]
    told = lines_of(pd.DataFrame({"mean": [1.0, 2.0], "std": [0.1, 0.1]}, index=[*names]))
    assert [line.split()[0] for line in told[1:]] == [
        "onehotencoder__occupation_o…Craft-repair",
        "onehotencoder__occupatio…Exec-managerial",
    ]


# ---- the header
def test_the_header_says_how_a_fit_ended(X, rng, tmp_path):
    y = np.where(X["age"] + rng.logistic(size=120) > 0, "yes", "no")
    model = BayesianGLMClassifier()
    with pytest.raises(NotFittedError, match="BayesianGLMClassifier"):
        model.summary_text()
    assert header(model.fit(X, y).summary_text())["converged"] == "yes"
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=1).fit(X, y)
    assert header(model.summary_text())["converged"] == "no, ended by the most passes (1)"
    cut = BayesianGLMClassifier(max_iter=2, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        cut.set_callbacks(Checkpoint(tmp_path / "cut", every=1)).fit(X, y)
    told = header(load(tmp_path / "cut").summary_text())
    assert told["converged"].startswith("no, cut off: a checkpoint") and told["passes"] == "2"
    stopped = BayesianGLMClassifier(tol=0.0).set_callbacks(Recorder(stop_after=2)).fit(X, y)
    assert header(stopped.summary_text())["converged"] == "no, stopped before"
    stream = BayesianGLMClassifier()
    for part in (slice(0, 60), slice(60, 120)):
        stream.partial_fit(X[part], y[part], classes=["no", "yes"])
    told = header(stream.summary_text())
    assert told["chunks"] == "2" and told["converged"] == "in the last chunk" and told["rows"] == "120"
    steps = BayesianGLMClassifier(algorithm="s-dsvi").partial_fit(X, y, classes=["no", "yes"])
    assert header(steps.summary_text())["converged"] == "not in the last chunk"


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_scores_are_called_by_their_names(X, rng):
    rate = np.exp(0.3 * X["age"].to_numpy() + 1.0)
    y = rng.poisson(rate)
    counts, offset, weight = BayesianGLMRegressor(likelihood="poisson"), np.full(120, 0.5), rng.uniform(0.5, 1.5, 120)
    counts.fit(X, y, sample_weight=weight, offset=offset)
    told = header(counts.summary_text(0.5, X, y, offset=offset, sample_weight=weight, exponentiate=True))
    assert told["D²"] == f"{counts.score(X, y, offset=offset, sample_weight=weight):.4f}"
    assert told["intervals"] == "50 %" and told["rows"] == f"{counts.n_samples_seen_:,.1f}"
    measured = BayesianGLMRegressor().fit(X, rate)
    assert header(measured.summary_text(X=X, y=rate))["R²"] == f"{measured.score(X, rate):.4f}"
    labels = np.where(y > 2, "many", "few")
    told = header(BayesianGLMClassifier().fit(X, labels).summary_text(X=X, y=labels))
    assert 0.5 < float(told["accuracy"]) <= 1
    ordered = pd.Categorical(np.where(y > 4, "many", labels), categories=["few", "many"], ordered=True)
    assert "D² of levels" in header(
        BayesianGLMRegressor(likelihood="ordinal").fit(X, ordered).summary_text(X=X, y=ordered)
    )
    with pytest.raises(TypeError, match="nonsense"):
        measured.summary_text(nonsense=1)


def test_a_fit_has_a_score_of_its_own_rows(global_random_seed):
    """Of those that count; of many a sample says it to four standard errors."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((20_000, 2))
    y, weight = X[:, 0] + rng.standard_normal(20_000), np.r_[np.ones(3000), np.zeros(17_000)]
    model = BayesianGLMRegressor().fit(X, y, sample_weight=weight)
    assert header(model.summary_text())["R²"] == f"{model.score(X[:3000], y[:3000]):.4f}"
    told, of = header(model.fit(X, y).summary_text())["R²"].split(" ", 1)
    # The standard error of R² = 1/2 from 4,096 rows: 1 - R² is a ratio of variances with correlation of squares 1/2.
    assert of == "(of 4,096 of the rows)" and abs(float(told) - model.score(X, y)) < 4 * 0.5 * np.sqrt(2.0 / 4096)
    assert "R²" not in header(model.partial_fit(X[:100], y[:100]).summary_text())


@pytest.mark.parametrize(
    ("value", "text"), [(178.0, "178"), (178 - 3e-14, "178"), (1 + 4e-16, "1"), (0.3, "0.3"), (1234.56, "1,234.6")]
)
def test_sums_of_weights_are_whole_up_to_rounding(value, text):
    assert counted(value) == text


def test_what_data_are_made_of_is_told(X, rng):
    grouped = X.assign(school=np.arange(120) % 6, town=np.array(list("abc"))[rng.integers(0, 3, 120)])
    y = X["age"] + 0.5 * (grouped["school"] % 3) + rng.standard_normal(120)
    model = GMERegressor(groups=["school", "town"], random_slopes={"school": ["dose"]}).fit(grouped, y)
    told = header(model.summary_text())
    assert told["groups"] == "school (6 levels: intercept, dose), town (3 levels: intercept)"
    assert told["columns"] == "5" and told["likelihood"] == f"Gaussian(variance={model.noise_:.4g})"
    pairs = np.column_stack([rng.integers(0, 9, 200), rng.integers(0, 7, 200)])
    told = header(GeneralizedPMF(2, random_state=0).fit(pairs, rng.standard_normal(200)).summary_text())
    assert (told["ratings"], told["users"], told["items"], told["factors"]) == ("200", "9", "7", "2")


def test_series_are_told_together(rng):
    y = rng.poisson(4.0, 60)
    table = pd.DataFrame({"shop": np.repeat(["north", "south"], 30)})
    model = DynamicGLM(groups="shop", trend=False).fit(table, y)
    told = header(model.summary_text(X=table, y=y, exponentiate=True))
    assert told["series"] == "2" and told["lower bound"] == f"{model.lower_bound_:,.2f} nats"
    assert float(told["D²"]) == pytest.approx(model.score(table, y), abs=1e-4)
    one = DynamicGLM().fit(None, y)
    assert header(one.summary_text(y=y))["D²"] == f"{one.score(None, y):.4f}"


def test_collections_are_told_as_their_rows_in_memory(X, rng):
    array = pytest.importorskip("dask.array", reason="needs the extra dask")
    import dask

    y = X["age"].to_numpy() + rng.standard_normal(120)
    with dask.config.set(scheduler="synchronous"):
        rows, targets = (array.from_array(part, chunks=(60, *part.shape[1:])) for part in (X.to_numpy(), y))
        model = BayesianGLMRegressor().fit(rows, targets)
        text = model.summary_text(X=rows, y=targets)
    here = BayesianGLMRegressor().fit(X.to_numpy(), y).summary_text(X=X.to_numpy(), y=y)
    assert text.partition("\n\n")[2] == here.partition("\n\n")[2] and header(text)["R²"] == header(here)["R²"]


def test_a_pipeline_tells_the_names_of_its_columns(X, rng):
    data = X.assign(sex=np.array(["female", "male"])[rng.integers(0, 2, 120)])
    y = np.where(X["age"] - (data["sex"] == "male") + rng.logistic(size=120) > 0, "survived", "died")
    columns = make_column_transformer((OneHotEncoder(drop="first"), ["sex"]), (StandardScaler(), ["age", "dose"]))
    columns.set_output(transform="pandas").set_params(onehotencoder__sparse_output=False)
    model = make_pipeline(columns, BayesianGLMClassifier()).fit(data, y)[-1]
    assert "onehotencoder__sex_male " in model.summary_text(exponentiate=True)


def test_networks_are_told_too():
    network = Network({"rate": Gamma(1.0, 1.0), "y": Counts("rate")})
    with pytest.raises(NotFittedError):
        network.summary_text()
    told = header(network.fit({"y": [3.0, 5.0]}).summary_text())
    assert told == {
        "lower bound": f"{network.lower_bound_:,.2f} nats",
        "passes": str(network.n_iter_),
        "converged": "yes",
    }


def test_the_texts_in_the_guide_are_what_its_code_prints(capsys):
    """Words to the letter; numbers to two per cent, small ones to 0.1, as passes and platforms go."""
    page = (Path(__file__).resolve().parents[2] / "doc" / "glm.md").read_text(encoding="utf-8")
    section = page.partition("## A fit as a table and as text")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    for code, shown in blocks:
        exec(code, names)
        printed = capsys.readouterr().out
        number = r"-?\d[\d,]*(?:\.\d+)?"
        assert re.sub(rf"{number}| +", " ", printed).split() == re.sub(rf"{number}| +", " ", shown).split()
        found, wanted = ([float(x.replace(",", "")) for x in re.findall(number, text)] for text in (printed, shown))
        np.testing.assert_allclose(found, wanted, rtol=0.02, atol=0.1)
    assert len(blocks) == 2
