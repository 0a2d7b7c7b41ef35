"""Files are replaced as a whole: modes, links, long names, full disks, and what killed processes leave behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import sksvi
from sksvi.callbacks import Checkpoint
from sksvi.persistence import container
from sksvi.persistence.container import replacing as replaced

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and locks of POSIX")


def written(path, text=b"new"):
    with replaced(path) as file:
        file.write(text)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_passes_on_its_mode(tmp_path, mode):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(mode)
    written(path)
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == mode


@posix
def test_what_a_link_points_to_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "model", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    written(link)
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["disk", "link"] and os.listdir(tmp_path / "disk") == ["model"]


@pytest.mark.parametrize(
    ("place", "kind", "told"),
    [
        ("missing/model", FileNotFoundError, "the folder '.*missing' does not exist: make it first"),
        ("file/model", NotADirectoryError, "is a file and no folder"),
        ("folder", IsADirectoryError, "this is a folder: give the name of a file in it"),
    ],
)
def test_a_place_for_no_file_is_told_by_the_path_that_was_given(tmp_path, monkeypatch, place, kind, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for save in (sksvi.BayesianGLMRegressor().save, lambda path: sksvi.save(sksvi.BayesianGLMRegressor(), path)):
        with pytest.raises(kind, match=told) as caught:
            save(place)
        assert caught.value.filename == place and ".tmp" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and not os.listdir(tmp_path / "folder")


@posix
def test_a_folder_without_permission_is_told_by_the_path_that_was_given(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "temporary")

    monkeypatch.setattr(container.os, "open", refused)
    with pytest.raises(PermissionError, match="no file may be made in the folder") as caught:
        sksvi.BayesianGLMRegressor().save(tmp_path / "model")
    assert caught.value.filename == str(tmp_path / "model")


def test_names_as_long_as_a_folder_takes(tmp_path):
    path = tmp_path / ("m" * 255)
    written(path)
    sksvi.BayesianGLMRegressor().save(tmp_path / ("n" * 240))
    assert path.read_bytes() == b"new" and len(os.listdir(tmp_path)) == 2


@pytest.mark.costly
@posix
def test_what_a_killed_save_left_is_swept_and_nothing_else(tmp_path):
    path, root = tmp_path / "model", Path(sksvi.__file__).parents[1]
    code = (
        "import os, signal, sys; from sksvi.persistence.container import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 1
    (tmp_path / "other.tmp").write_bytes(b"")
    (tmp_path / f"{container._prefix(tmp_path / 'another')}0.tmp").write_bytes(b"")
    with replaced(path) as file:  # one that is being written stays
        file.write(b"slow")
        alive = [name for name in os.listdir(tmp_path) if name.startswith(container._prefix(path))]
        written(path, b"quick")
        assert len(alive) == 1 and alive[0] in os.listdir(tmp_path)
    assert path.read_bytes() == b"slow"
    assert len(os.listdir(tmp_path)) == 3


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    written(path, b"old")
    with pytest.raises(KeyboardInterrupt), replaced(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def problem():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 2)), rng.standard_normal(60)


def test_a_checkpoint_that_cannot_be_written_warns_once_and_the_fit_goes_on(tmp_path, monkeypatch):
    X, y = problem()
    settings = {"algorithm": "mc-ssvi", "batch_size": 20, "tol": 0.0, "max_iter": 6, "random_state": 0}
    plain = sksvi.BayesianGLMRegressor(**settings).fit(X, y)
    checkpoint = Checkpoint(tmp_path / "model")
    model = sksvi.BayesianGLMRegressor(**settings).set_callbacks(checkpoint)
    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.warns(
        RuntimeWarning, match=r"of pass 1 could not be written .*No space.*none yet.*fit goes on"
    ) as told:
        model.fit(X, y)
    assert [one.filename for one in told if one.category is RuntimeWarning] == [__file__]
    assert checkpoint.saved is None and os.listdir(tmp_path) == []
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_a_checkpoint_is_written_again_once_it_can_be(tmp_path, monkeypatch):
    X, y = problem()
    calls = []

    def at_first(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:  # file and folder of the first checkpoint came before
            full()

    monkeypatch.setattr(container.os, "fsync", at_first)
    checkpoint = Checkpoint(tmp_path / "model")
    settings = {"algorithm": "mc-ssvi", "batch_size": 20, "tol": 0.0, "max_iter": 4, "random_state": 0}
    model = sksvi.BayesianGLMRegressor(**settings).set_callbacks(checkpoint)
    if os.name == "posix":
        with pytest.warns(RuntimeWarning, match="of pass 2 could not be written .* that of pass 1 stays"):
            model.fit(X, y)
        assert checkpoint.saved == 4 and sksvi.load(tmp_path / "model").n_iter_ == 4


def test_a_folder_that_is_not_there_is_an_error_before_the_fit(tmp_path):
    model = sksvi.BayesianGLMRegressor().set_callbacks(Checkpoint(tmp_path / "none" / "model"))
    with warnings.catch_warnings(), pytest.raises(FileNotFoundError, match="no folder that exists"):
        model.fit(*problem())
    assert not hasattr(model, "coef_")
