"""Files that are replaced as a whole: after a crash either the old one or the new one is there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not POSIX: nothing says whether the writer of a temporary file is still alive
    fcntl = None  # type: ignore[assignment]


#: A disk, or what a user may have of it, is full.
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}


@contextlib.contextmanager
def replacing(path: str | bytes | os.PathLike) -> Iterator[BinaryIO]:
    """A file to write to; at the end it takes the place of `path`, an error leaves `path` as it was.

    What a symbolic link points to is replaced, not the link; a file that is replaced passes on its mode. Temporary
    files that killed processes left beside `path` for the same file are removed.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    OSError
        Of the kind that the system gave, naming `path` and what to do where no file can be made beside it, or no room
        is left.
    TypeError
        For what is no path.
    """
    path = path_of(path)
    target = Path(os.path.realpath(path))
    _sweep(target)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        descriptor, lock, temporary = _temporary(target)
    except OSError as error:
        raise type(error)(error.errno, _why_not(error, target), path) from error
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise type(error)(error.errno, _why_not_written(error, target), path) from error
        raise
    finally:
        if lock is not None:
            os.close(lock)
    _sync_folder(target.parent)


def _why_not(error: OSError, target: Path) -> str:
    """What stands in the way of a file, and what to do."""
    folder = target.parent
    if isinstance(error, IsADirectoryError):
        return "this is a folder: give the name of a file in it"
    if isinstance(error, FileNotFoundError):
        return f"the folder {str(folder)!r} does not exist: make it first, as by os.makedirs, or give another path"
    if isinstance(error, NotADirectoryError):
        return f"{str(folder)!r} is a file and no folder: give another path"
    if isinstance(error, PermissionError):
        return f"no file may be made in the folder {str(folder)!r}: give a path where you may write"
    return f"no file can be made in the folder {str(folder)!r} ({error.strerror})"


def _why_not_written(error: OSError, target: Path) -> str:
    """What stopped the writing of a file, and what to do; the file that was there is there still."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        folder = str(target.parent)
        return f"no room is left for it in the folder {folder!r} ({reason}): make room there, or give another path"
    return f"the file could not be written ({reason}); what was there before stays"


def _prefix(target: Path) -> str:
    """How names of temporary files begin: short, whatever the length of the file's own."""
    return f".sksvi-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _temporary(target: Path) -> tuple[int, int | None, Path]:
    """A new file beside `target`: its descriptor, one that holds its lock, its path."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = None
    while True:
        path = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
        if not _locked(descriptor):
            return descriptor, None, path
        if path.exists():  # else swept before it was locked
            return descriptor, os.dup(descriptor), path
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether this process has now locked the file: a lock goes with the process that holds it."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else's, or a file system without locks
        return False
    return True


def _sweep(target: Path) -> None:
    """Remove temporary files for the same target that nobody holds the lock of."""
    with contextlib.suppress(OSError):  # a folder that cannot be read; writing says what is wrong
        for stale in target.parent.glob(f"{_prefix(target)}*.tmp"):
            # another process swept it, or may do so and we may not, or it is a pipe and none of ours
            with contextlib.suppress(OSError, ValueError):
                descriptor = opened(stale, follow=False)
                try:
                    if _locked(descriptor):
                        stale.unlink()
                finally:
                    os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # only there can a folder be opened, and only there does a rename need it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- opening: regular files only, never waited for; a pipe of the right name would hold up whoever opens it
def path_of(path: str | bytes | os.PathLike) -> str:
    """A path as text.

    Raises
    ------
    TypeError
        For what is no path; an open file among it.
    """
    try:
        return os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"path must be a str or path-like, such as 'model.sksvi'; found {path!r}.") from error


def opened(path: str | os.PathLike, follow: bool = True) -> int:
    """Descriptor of a regular file, to be read.

    Parameters
    ----------
    path : str or path-like
    follow : bool, default=True
        Whether the path may be a symbolic link.

    Raises
    ------
    OSError
        Where it cannot be opened; for a folder.
    ValueError
        For a pipe, a socket or a device.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "this is a folder: give the name of a file in it", os.fspath(path))
        raise ValueError(f"{os.fspath(path)!r} is no regular file: give the path of one that save wrote.")
    return descriptor
