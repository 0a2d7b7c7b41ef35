"""R packages as peers: a script with data in and a table out; CPU seconds are R's own, of the fit alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

#: What every script begins with: `train` and `test` as data frames, `fitted(expression)` for its CPU seconds.
BEFORE = """
suppressMessages({{ {libraries} }})
train <- read.csv("train.csv", stringsAsFactors = FALSE); test <- read.csv("test.csv", stringsAsFactors = FALSE)
for (g in strsplit("{groups}", ",")[[1]]) {{
  train[[g]] <- factor(train[[g]]); test[[g]] <- factor(test[[g]], levels = levels(train[[g]]))
}}
seconds <- 0
timed <- function(expression) {{
  before <- proc.time(); value <- force(expression); after <- proc.time()
  seconds <<- sum((after - before)[c("user.self", "sys.self")]); value
}}
say <- function(x) paste0("[", paste(format(as.numeric(x), digits = 15), collapse = ","), "]")
"""
AFTER = """
cat(sprintf('{"seconds": %f, "prediction": %s, "extra": %s}', seconds, say(prediction), say(extra)),
    file = "answer.json")
"""


def installed(*packages: str) -> str:
    """Why an R peer is left out; empty where R and its packages are there."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    for name in packages:
        found = subprocess.run(["Rscript", "-e", f'q(status = !requireNamespace("{name}"))'], capture_output=True)
        if found.returncode:
            return f"R has no {name}"
    return ""


def asked(script: str, packages: tuple[str, ...], train: Any, test: Any, groups: tuple[str, ...] = ()) -> Any:
    """Seconds, predictions of the test rows and what else the script says (`prediction`, `extra`)."""
    before = BEFORE.format(libraries="; ".join(f"library({name})" for name in packages), groups=",".join(groups))
    with tempfile.TemporaryDirectory() as place:
        train.to_csv(Path(place) / "train.csv", index=False)
        test.to_csv(Path(place) / "test.csv", index=False)
        done = subprocess.run(["Rscript", "-e", before + script + AFTER], capture_output=True, text=True, cwd=place)
        if done.returncode:
            raise RuntimeError(f"the R script failed: {done.stderr[-2000:]}")
        answer = json.loads((Path(place) / "answer.json").read_text().replace("NA", "null"))
    return float(answer["seconds"]), np.array(answer["prediction"], float), np.array(answer["extra"], float)
