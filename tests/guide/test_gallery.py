"""The gallery's examples run without sphinx, warn of nothing and draw; together they show every estimator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sksvi

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "gallery"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("plot_*.py"))
#: Those that take a fraction of a second: the others are exhaustive.
QUICK = {"plot_ordinal", "plot_robust", "plot_network"}
TEXT = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in EXAMPLES}


@pytest.mark.costly
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name not in QUICK)) for name in EXAMPLES]
)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # as an example says that its counts do
def test_example_runs_and_draws(name, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    exec(compile(TEXT[name], f"<{name}>", "exec"), {"__name__": "__main__"})
    assert plt.get_fignums()


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_opens_with_a_title_and_a_story(name):
    opening = re.match(r'"""\n(?P<title>.+)\n(?P<line>=+)\n\n(?P<story>.+?)"""\n', TEXT[name], re.DOTALL)
    assert opening and len(opening["title"]) <= len(opening["line"]) and len(opening["story"].split()) > 10
    assert "\n# %%" in TEXT[name]


def test_gallery_shows_every_estimator():
    assert len(EXAMPLES) >= 16 and set(EXAMPLES) > QUICK
    text = "".join(TEXT.values())
    estimators = {name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")}
    # Siblings of one that is there: the same model for labels.
    assert {name for name in estimators if name not in text} <= {"GMEClassifier"}


def test_chooser_and_index_lead_to_examples_that_exist():
    """Every example is reachable from the chooser, and every link of the guide's to an example has one."""
    chooser = (ROOT / "doc/guide/choose.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"/auto_examples/(plot_\w+)", chooser))
    assert linked <= set(EXAMPLES) and set(EXAMPLES) - linked <= {"plot_stream"}
