"""Loops are compiled where numba has no place for them on disk, and ahead of time where it has."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import event

import sksvi
from sksvi import precompile
from sksvi._runtime import compiled

SOURCE = Path(sksvi.__file__).parent


@pytest.fixture
def nowhere(monkeypatch):
    """numba as it is in a read-only folder without a home."""
    found = numba.njit

    def njit(*args, cache=False, **options):
        if cache:

            def refuse(loop):
                raise RuntimeError(f"cannot cache function {loop.__name__!r}: no locator available for file 'loops.py'")

            return refuse
        return found(*args, **options)

    monkeypatch.setattr(compiled.numba, "njit", njit)
    monkeypatch.setattr(compiled, "_WARNED", [])


def test_loops_are_compiled_without_a_cache_with_one_warning(nowhere):
    with pytest.warns(UserWarning, match="Set NUMBA_CACHE_DIR") as caught:
        loops = [compiled.njit()(lambda x: x + 1.0), compiled.njit()(lambda x: 1.0 / x)]
        assert loops[0](1.0) == 2.0 and loops[1](0.0) == float("inf")
    assert len(caught) == 1


def test_other_errors_of_the_compiler_are_not_hidden(monkeypatch):
    def broken(**options):
        raise RuntimeError("out of registers")

    monkeypatch.setattr(compiled.numba, "njit", broken)
    with pytest.raises(RuntimeError, match="registers"):
        compiled.njit()(lambda x: x)(1.0)


def test_functions_of_numpy_are_compiled_once_for_all_loops():
    """Whatever options these differ in; and Python collects garbage again."""
    part = compiled.njit()(lambda n: np.empty((n, n, n, n, n)))  # of a shape that no loop has
    loop = compiled.njit(nogil=False)(lambda n: part(n).size + np.empty((n, n, n, n, n)).size)
    with event.install_recorder("numba:compile") as record:
        assert numba.njit(lambda n: loop(n))(2) == 64
    names = [one.data["dispatcher"].py_func.__qualname__ for _, one in record.buffer if one.is_end]
    assert sum("empty" in name for name in names) == 1, names
    assert gc.isenabled()


def test_every_loop_is_compiled_by_the_one_decorator():
    named = re.compile(r"numba\.(njit|jit|vectorize|guvectorize|cfunc)\(|from numba import")
    files = [path for path in SOURCE.rglob("*.py") if named.search(path.read_text())]
    assert [path.name for path in files] == ["compiled.py"]


def test_precompile_names_what_it_knows(capsys):
    assert precompile.main(["GMERegressor", "BayesianGLMRegressor"]) == 0
    assert re.fullmatch(r"GMERegressor: .* CPU s\nBayesianGLMRegressor: .* CPU s\n", capsys.readouterr().out)
    assert precompile.main(["Lasso"]) == 2
    assert "Lasso: no estimator of sksvi. There are" in capsys.readouterr().err


@pytest.mark.parametrize("name", precompile.estimators())
def test_precompile_knows_a_table_for_every_estimator(name):
    assert precompile.compile_loops(name) > 0
