"""Effects of areas of a map in formulas: beside mgcv, with the columns of `Neighbours`, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import GMERegressor
from sksvi.preprocessing import Neighbours

pytest.importorskip("formulaic")

#: A grid of 4 by 3 areas.
GRID = {
    f"a{i}{j}": [f"a{p}{q}" for p, q in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)) if 1 <= p <= 4 and 1 <= q <= 3]
    for i in range(1, 5)
    for j in range(1, 4)
}
#: By mgcv 1.8-41, gam(y ~ s(area, bs = "mrf", xt = list(nb = nb)), method = "REML"): fit of each area, its standard
#: error, and the residual standard deviation.
FIT = [3.9497, 4.8707, 4.7293, 4.3209, 4.0208, 5.6615, 1.0493, 2.1002, 4.1162, -1.7959, 0.4755, 0.7113]
ERROR = [0.4244, 0.4178, 0.4244, 0.4178, 0.4115, 0.4178, 0.4178, 0.4115, 0.4178, 0.4244, 0.4178, 0.4244]
SIGMA = 0.98041572


@pytest.fixture(scope="module")
def data():
    i, j, k = (axis.ravel() for axis in np.meshgrid(range(1, 5), range(1, 4), range(5), indexing="ij"))
    y = np.round(3.0 * np.sin(i) + j + 1.5 * np.cos(7.0 * (k + 3 * j + 11 * i)), 3)
    return pd.DataFrame({"area": [f"a{a}{b}" for a, b in zip(i, j, strict=True)], "x": np.cos(3.0 * k), "y": y})


def test_a_map_beside_mgcv(data):
    model = sksvi.from_formula("y ~ mrf(area)", data, maps={"area": GRID}, hyperparameters="point").fit(data)
    mean, variance = model.predict_latent(data.drop_duplicates("area"))
    assert np.max(np.abs(mean - FIT) / ERROR) < 0.02
    # The noise has a prior, which mgcv's has not: it is worth a row of the 48 that effects leave.
    ours = model.summary().loc["std(residual)", "mean"]
    np.testing.assert_allclose(np.sqrt(variance) / ours, np.array(ERROR) / SIGMA, rtol=0.01)
    assert ours * np.sqrt(1.0 - 1.0 / (60 - 12)) == pytest.approx(SIGMA, rel=0.01)


def test_a_map_beside_effects_of_areas_has_the_numbers_of_one_without_a_formula(data):
    """The model of Besag, York and Mollié; the map may have areas without rows."""
    road = {**GRID, "a43": [*GRID["a43"], "new"], "new": ["a43"]}
    model = sksvi.from_formula("y ~ x + mrf(area, k=6) + (1 | area)", data, maps={"area": road}).fit(data)
    columns = Neighbours(road, n_components=6).set_output(transform="pandas").fit_transform(data[["area"]])
    X = pd.concat([data[["x"]], columns, data["area"]], axis=1)
    direct = GMERegressor(groups="area", prior_precision={"area_*": "auto"}).fit(X, data["y"])
    np.testing.assert_allclose(model[-1].coef_, direct.coef_, rtol=1e-10)
    pd.testing.assert_frame_equal(model[-1].group_effects_, direct.group_effects_)
    assert list(model.summary().index[:3]) == ["x", "mrf(area)_1", "mrf(area)_2"]
    assert "scale(mrf(area)_*)" in model[-1].hyperparameter_posterior_
    new = data[:1].assign(area="new")
    assert model.predict_latent(new)[1] > model.predict_latent(data[:1])[1]
    with pytest.raises(
        ValueError, match="column 'area' of X: 'zz' is not on the map, which has 13 areas: 'a11', 'a12'"
    ):
        model.predict(new.assign(area="zz"))


@pytest.mark.parametrize(
    ("maps", "error"),
    [
        ({"area": GRID, "x": GRID}, r"maps has one of 'x', and formula 'y ~ mrf\(area\)' no mrf\(\) of it"),
        ({"area": {"a11": ["a12"], "a12": ["a11"]}}, "column 'area' of X: 'a13' is not on the map, which has 2 areas"),
        (
            {"area": {**GRID, "island": []}},
            r"'mrf\(area\)' of the formula: the map is in 2 parts, areas like 'a11' and like 'island' without",
        ),
        ({"area": {**GRID, "a11": ["a12", "far"]}}, "adjacency: 'far', a neighbour of 'a11', is no area of it"),
    ],
)
def test_maps_that_do_not_fit(data, maps, error):
    with pytest.raises(ValueError, match=error):
        sksvi.from_formula("y ~ mrf(area)", data, maps=maps)
