"""The file: a zip archive whose members are checked before memory is taken for them, and which is replaced as a whole.

After a crash either the old file or the new one is there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import struct
import tokenize
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sksvi._typing.arrays import FILED

# ---- members of the archive
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 32 * 2**20
#: Arrays of one file.
MAX_MEMBERS = 100_000
#: What a file may take beside its arrays: this, and so many times its own size.
FREE_BYTES, TIMES = 48 * 2**20, 6
_MEMBER = re.compile(r"\d{1,9}\.npy")
#: The record that ends an archive, the longest that may stand before it, and the shortest entry of the directory.
_END, _END64, _ENTRY = 22, 76, 46
#: Bytes that Python takes at most for an object, a list or an item of JSON and for the value that it becomes.
_OBJECT, _LIST, _ITEM = 500, 180, 72


class Budget:
    """Bytes that a file may still take beside its arrays."""

    def __init__(self, file_bytes: int) -> None:
        self.left = FREE_BYTES + TIMES * file_bytes

    def spend(self, n_bytes: float) -> None:
        """Count bytes; ValueError where they are too many."""
        self.left -= n_bytes  # type: ignore[assignment]
        if self.left < 0:
            raise ValueError("its contents would take far more memory than the file is long")


class _HashingWriter:
    """Passes bytes on to a member of the archive and hashes them on the way, so that no array is copied whole."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._member.write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def write(file: BinaryIO, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and manifest; the manifest is given the arrays' checksums.

    Parameters
    ----------
    file : binary file
    manifest : dict
    arrays : dict of str to ndarray
        By the name of their member.
    """
    if len(arrays) > MAX_MEMBERS:
        raise ValueError(f"The estimator has {len(arrays)} arrays; at most {MAX_MEMBERS} can be saved.")
    members = {}
    # Stored, not compressed: what a member declares is then what the file holds, so there is nothing to inflate.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                writer = _HashingWriter(member)
                np.lib.format.write_array(writer, array, allow_pickle=False)
            members[name] = writer.hexdigest()
        whole = {**manifest, "sha256": members}
        text = json.dumps(whole, allow_nan=False, indent=None, separators=(",", ":")).encode("ascii")
        if len(text) > MAX_MANIFEST_BYTES:
            raise ValueError(
                f"The estimator's attributes other than arrays take {len(text)} bytes; "
                f"at most {MAX_MANIFEST_BYTES} can be saved."
            )
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)


def check_end(file: BinaryIO) -> int:
    """Size of the file; ValueError where it does not end as one of ours, or has a directory of too many members."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - _END - _END64))
    tail = file.read()
    end = tail[-_END:]
    if len(end) < _END or end[:4] != b"PK\x05\x06" or end[-2:] != b"\0\0":
        raise zipfile.BadZipFile("it does not end as a file of sksvi")
    directory = struct.unpack("<L", end[12:16])[0]
    if tail[-_END - 20 : -_END - 16] == b"PK\x06\x07":
        directory = max(
            directory if directory != 2**32 - 1 else 0, struct.unpack("<Q", tail[-_END - 36 : -_END - 28])[0]
        )
    if directory // _ENTRY > MAX_MEMBERS + 1:
        raise ValueError(f"it declares more than {MAX_MEMBERS} members")
    return size


def check_directory(archive: zipfile.ZipFile, file_bytes: int) -> None:
    """Refuse foreign names, compressed members and sizes that the file cannot hold, before anything is read."""
    names = archive.namelist()
    for name in names:
        if name != MANIFEST and not _MEMBER.fullmatch(name):
            raise ValueError(f"member name {name!r} is not allowed")
    if len(set(names)) != len(names):
        raise ValueError("two members have the same name")
    if MANIFEST not in names:
        raise ValueError(f"{MANIFEST} is missing")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"member {info.filename!r} is compressed; files of sksvi never are")
        if info.filename == MANIFEST and info.file_size > MAX_MANIFEST_BYTES:
            raise ValueError(f"{MANIFEST} declares {info.file_size} bytes; at most {MAX_MANIFEST_BYTES} are allowed")
    declared = sum(info.file_size for info in archive.infolist())
    if declared > file_bytes:
        raise ValueError(f"its members declare {declared} bytes, the file has {file_bytes}")


def read_manifest(archive: zipfile.ZipFile, budget: Budget) -> dict[str, Any]:
    """The manifest, whose lists and objects are counted before one is made."""
    text = archive.read(MANIFEST)
    budget.spend(_OBJECT * text.count(b"{") + _LIST * text.count(b"[") + _ITEM * text.count(b",") + 4 * len(text))
    manifest = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(manifest, dict) or manifest.get("format") != "sksvi":
        raise ValueError("its manifest is not one of sksvi")
    return manifest


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed in the manifest")


def read_array(archive: zipfile.ZipFile, name: str, checksum: Any) -> np.ndarray:
    """The array of a member, after its checksum, header and size have been found right."""
    data = archive.read(name)
    if hashlib.sha256(data).hexdigest() != checksum:
        raise ValueError(f"checksum of member {name!r} does not match")
    stream = io.BytesIO(data)
    shape, fortran, dtype = _read_header(stream, name)
    if dtype.kind not in FILED or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"member {name!r} has dtype {dtype}, which is not allowed")
    if any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
        raise ValueError(f"member {name!r} has shape {shape}, which is not allowed")
    expected, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if expected != found:
        raise ValueError(f"member {name!r} declares {expected} bytes of data and has {found}")
    flat = np.frombuffer(data, dtype=np.uint8, offset=stream.tell())
    # Bytes that are no character or no truth value would be undefined behaviour in whoever reads them.
    if dtype.kind == "b" and flat.size and flat.max() > 1:
        raise ValueError(f"member {name!r} holds bytes that are no truth values")
    if dtype.kind == "U" and flat.size and flat.view(np.dtype("u4").newbyteorder(dtype.byteorder)).max() > 0x10FFFF:
        raise ValueError(f"member {name!r} holds numbers that are no characters")
    array = flat.view(dtype) if flat.size else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="), order="K", copy=True)


def _read_header(stream: io.BytesIO, name: str) -> tuple[tuple, bool, np.dtype]:
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        return headers[np.lib.format.read_magic(stream)](stream)
    # All that the parser of a hostile header was seen to raise; a header is at most 10,000 characters long.
    except (ValueError, KeyError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"member {name!r} has no valid npy header: {error}") from error


# ---- files that are replaced as a whole
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
