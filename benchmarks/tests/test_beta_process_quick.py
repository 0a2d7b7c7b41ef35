"""Small versions of the benchmarks of sparse factors that need no data of their own."""

from __future__ import annotations

import pytest

from benchmarks.beta_process import small, synthetic

CASES = [
    (small, ("MF-SVI", "held-out rmse")),
    pytest.param(synthetic, ("burn-in 25", "Gibbs sampler"), marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("module, texts", CASES)
def test_a_quick_run_prints_its_table(module, texts, capsys):
    module.main(quick=True)
    printed = capsys.readouterr().out
    assert all(text in printed for text in texts)
    assert "nan" not in printed
