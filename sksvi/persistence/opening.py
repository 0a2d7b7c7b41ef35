"""Files as they are opened: regular ones only, and never waited for.

A pipe or a device of the right name in a folder that others write to would hold up whoever opens it.
"""

from __future__ import annotations

import errno
import os
import stat


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
