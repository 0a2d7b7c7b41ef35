"""Two sets of the vignettes of R's emmeans.

warpbreaks: Tippett (1950), Technological Applications of Statistics; R's package datasets. Breaks of yarn a loom, nine
looms for each of two wools by three tensions. pigs: Windels (1964), Journal of Animal Science 23, 461; emmeans, free
plasma leucine of pigs by source and percentage of protein in their diet.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

BREAKS = """26 30 54 25 70 52 51 26 67 18 21 29 17 12 18 35 30 36 36 21 24 18 10 43 28 15 26
27 14 29 19 29 31 41 20 44 42 26 19 16 39 28 21 39 29 20 21 24 17 13 15 15 16 28"""
CONC = """27.8 23.7 31.5 28.5 32.8 34 28.3 30.6 32.7 33.7 39.3 34.8 29.8 39.8 40 39.1 38.5 39.2 40 42.9 40.6 31 34.6
42.9 50.1 37.4 59.5 41.4 59.8"""
PERCENT = {"fish": [9, 9, 12, 12, 12, 15, 15, 18, 18, 18], "soy": [9, 9, 9, 12, 12, 12, 15, 15, 15, 18]}
PERCENT["skim"] = [9, 9, 9, 12, 12, 12, 15, 15, 18]


def warpbreaks() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame({"wool": np.repeat(["A", "B"], 27), "tension": np.tile(np.repeat(["L", "M", "H"], 9), 2)})
    return X, np.array(BREAKS.split(), float)


def pigs() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame([(source, percent) for source, own in PERCENT.items() for percent in own])
    X = X.set_axis(["source", "percent"], axis=1).astype({"percent": "category"})
    return X, np.array(CONC.split(), float)
