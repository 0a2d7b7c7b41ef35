"""The zip archive that a file is: its members, each of which is checked before memory is taken for it."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import tokenize
import zipfile
from typing import Any, BinaryIO

import numpy as np

from sksvi._typing.arrays import FILED

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
