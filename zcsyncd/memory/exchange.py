"""The pen's two renames that lose nothing: swap two names, take a name only if it is free. Door: ctypes.

A plain rename destroys whatever lies under the new name, also what came there since the last look. Swapped out, it
can still be looked at and put back; and a name that is only taken when it is free destroys nothing at all.

Rule 1: both are one step for the system: nobody sees a moment without a file under the name.
Rule 2: where they are missing (an old kernel or C library, a file system that cannot, a sandbox that forbids) it is
said by `Unsupported`, and the caller goes another way.

Linux: renameat2(2), in glibc since 2.28. macOS: renameatx_np(2), on APFS and HFS+ (read, not run).
Python's `os` has neither.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable

_Rename = Callable[[int, bytes, int, bytes, int], int]

_SWAP = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS: the same figure by chance."""
_NEW = 1 if sys.platform == "linux" else 4
"""RENAME_NOREPLACE of Linux, RENAME_EXCL of macOS."""
_CANNOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM})
"""What is said where the call, or the flag on this file system, is missing; EPERM by sandboxes. Where it is meant
in earnest, the caller's other way says it again."""


class Unsupported(Exception):
    """This system or this file system has no such rename."""


def exchange(folder: int, one: str, other: str) -> None:
    """Swap what lies under two names of a directory (an open descriptor); symlinks are not followed.

    Raises:
        FileNotFoundError: one of them is not there.
        Unsupported: not here.
        OSError: what the system says.
    """
    _rename(folder, one, other, _SWAP)


def rename_new(folder: int, source: str, target: str) -> None:
    """Rename within a directory (an open descriptor) to a name that is free.

    Raises:
        FileExistsError: something lies there, be it a dangling symlink.
        Unsupported: not here.
        OSError: what the system says.
    """
    _rename(folder, source, target, _NEW)


def _rename(folder: int, source: str, target: str, flag: int) -> None:
    call = _system_call()
    if call is None:
        raise Unsupported
    failed = call(folder, os.fsencode(source), folder, os.fsencode(target), flag)
    if failed in _CANNOT:
        raise Unsupported
    if failed:
        raise OSError(failed, os.strerror(failed), source, None, target)


@functools.cache
def _system_call() -> _Rename | None:
    """Give the system's call, as a function that returns an errno, 0 for success; None when there is none."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if name is None:
        return None
    try:
        import ctypes

        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(from_folder: int, source: bytes, to_folder: int, target: bytes, flag: int) -> int:
        return ctypes.get_errno() if function(from_folder, source, to_folder, target, flag) else 0

    return call
