r"""How files are opened to be read: never waiting, never in the way of others, followed or not. Door: os, _winapi.

Rule 1: on Windows, whoever reads a file keeps nobody from renaming over it or deleting it: an agent's atomic save
must not fail because we were looking. Python's own `open` does keep them from it there.
Rule 2: what is not to be followed is not followed, in one step with the opening: a symlink, a junction.
Rule 3: on Windows a path of 248 characters and more goes to the system in its long form (`\\?\`), whatever the
machine's registry says about long paths; people are shown the usual form.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

LONG_FROM = 248
"""Characters: directories may have 247, files 259 (MAX_PATH less the drive's and the final NUL)."""

_LONG = "\\\\?\\"
_LINK_TAGS = frozenset({0xA000000C, 0xA0000003})
"""IO_REPARSE_TAG_SYMLINK and IO_REPARSE_TAG_MOUNT_POINT (a junction); other tags are files of cloud drives."""


def is_link(status: os.stat_result) -> bool:
    """Tell whether what `lstat` found leads elsewhere: a symlink, on Windows a junction too."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) in _LINK_TAGS


def long_form(path: str) -> str:
    r"""Give an absolute path of Windows in the form that has no limit: `\\?\C:\…`, `\\?\UNC\server\share\…`.

    One that is relative, short, or in that form already stays as it is.
    """
    path = path.replace("/", "\\")
    if len(path) < LONG_FROM or path.startswith(("\\\\?\\", "\\\\.\\")):
        return path
    if path.startswith("\\\\"):
        return _LONG + "UNC\\" + path[2:]
    return _LONG + path if path[1:3] == ":\\" else path


if sys.platform == "win32":
    import _winapi
    import msvcrt

    _GENERIC_READ = 0x80000000
    _SHARED = 0x1 | 0x2 | 0x4
    """FILE_SHARE_READ, _WRITE, _DELETE."""
    _OPEN_EXISTING = 3
    _NOT_FOLLOWED = 0x00200000
    """FILE_FLAG_OPEN_REPARSE_POINT."""

    def system_path(path: str) -> str:
        """Give a path as the system takes it at any length."""
        return long_form(path) if len(path) >= LONG_FROM else path

    def open_to_read(path: str, *, follow: bool = True) -> int:
        """Open an existing file to read its bytes; give the descriptor.

        Raises: OSError with ELOOP for a link that is not to be followed; OSError.
        """
        flags = 0 if follow else _NOT_FOLLOWED
        handle = _winapi.CreateFile(system_path(path), _GENERIC_READ, _SHARED, 0, _OPEN_EXISTING, flags, 0)
        try:
            descriptor = msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)
        except BaseException:
            _winapi.CloseHandle(handle)
            raise
        if follow or not os.fstat(descriptor).st_file_attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT:
            return descriptor
        try:
            return _behind(path, descriptor)
        finally:
            os.close(descriptor)

    def _behind(path: str, descriptor: int) -> int:
        """Open what a reparse point stands for if that is the same file (a cloud drive's), and no other."""
        if not is_link(os.lstat(system_path(path))):
            opened = open_to_read(path)
            if os.path.samestat(os.fstat(opened), os.fstat(descriptor)):
                return opened
            os.close(opened)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def entry_stat(entry: os.DirEntry[str], *, follow: bool = False) -> os.stat_result:
        """Give the stat of a listed entry: asked anew, as a listing has no inode, and old times of open files.

        Raises: OSError.
        """
        return os.stat(system_path(entry.path), follow_symlinks=follow)

    def entry_is_link(entry: os.DirEntry[str]) -> bool:
        """Tell whether a listed entry leads elsewhere, be it a junction."""
        return entry.is_symlink() or is_link(entry.stat(follow_symlinks=False))

    def full_names(path: str) -> str | None:
        """Give a path with its short names (`MEMORY~1.MD`) written out; None when nothing is there."""
        import ctypes
        from ctypes import wintypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.GetLongPathNameW.argtypes = [wintypes.LPCWSTR, wintypes.LPWSTR, wintypes.DWORD]
        kernel.GetLongPathNameW.restype = wintypes.DWORD
        room = 32_768  # the longest path that there is
        answer = ctypes.create_unicode_buffer(room)
        if not kernel.GetLongPathNameW(path, answer, room):
            return None
        return str(answer.value)

else:
    _PLAIN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

    def system_path(path: str) -> str:
        """Give the path back: only Windows has short limits."""
        return path

    def open_to_read(path: str, *, follow: bool = True) -> int:
        """Open an existing file to read its bytes; give the descriptor.

        Raises: OSError with ELOOP for a symlink that is not to be followed; OSError.
        """
        return os.open(path, _PLAIN if follow else _PLAIN | os.O_NOFOLLOW)

    def entry_stat(entry: os.DirEntry[str], *, follow: bool = False) -> os.stat_result:
        """Give the stat of a listed entry. Raises: OSError."""
        return entry.stat(follow_symlinks=follow)

    def entry_is_link(entry: os.DirEntry[str]) -> bool:
        """Tell whether a listed entry is a symlink."""
        return entry.is_symlink()

    def full_names(path: str) -> str | None:
        """Give the path back: only Windows has short names."""
        return path
