"""One daemon per state directory: a lock that is held for life, taken before anything else. Door: fcntl, ctypes.

Rule 1: the system lets go of the lock when its holder is gone, however it went; the file itself stays for ever, for
removing it would let two processes hold two files of one name.
Rule 2: what the file says (the holder's pid) is for people; the lock is what counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from types import TracebackType
from typing import Self

from zcsyncd.errors import AlreadyRunning, Refused

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes
else:
    import fcntl

NAME = "daemon.lock"

_LOCKED_BYTE = 1 << 30
"""Windows locks forbid reading: the locked byte lies far behind the pid."""

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_PID_TRIES = 20
_PID_PAUSE_S = 0.01


class StateLock:
    """A held lock; let go by `release`, or with the process."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def is_in_place(self) -> bool:
        """Tell whether the file at the path is still the one that is held: else it keeps nobody out."""
        return self._descriptor is not None and _is_still(self.path, self._descriptor)

    def release(self) -> None:
        """Let go. Twice is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            # A pid that is no more would only mislead.
            os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):
            _unlock(descriptor)
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold_lock(state_dir: str) -> StateLock:
    """Take the lock of a state directory and write our pid into it.

    The directory exists and is private (the caller has seen to it).

    Raises: AlreadyRunning with `data["pid"]` of the holder (None when it does not tell); Refused when the directory
    cannot be written to or its file system knows no locks.
    """
    path = os.path.join(state_dir, NAME)
    try:
        descriptor = _open_locked(path)
    except _Busy as error:
        raise _already_running(state_dir, path) from error
    except OSError as error:
        raise Refused(
            f"cannot lock {path}: {error.strerror or error}",
            hint="the state directory must be writable and on a file system with locks (ZCSYNCD_STATE_DIR moves it)",
        ) from error
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, b"%d\n" % os.getpid())
    return StateLock(path, descriptor)


class _Busy(OSError):
    """Somebody else holds the lock."""


def _open_locked(path: str) -> int:
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if sys.platform != "win32":
                os.fchmod(descriptor, 0o600)
            _lock(descriptor)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Somebody removed the file between our opening and locking it: what we hold keeps nobody out.
        os.close(descriptor)


def _is_still(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    # Not msvcrt.locking: it turns the system's reason into an errno that does not always tell "held" from "broken".
    _EXCLUSIVE_AT_ONCE = 0x2 | 0x1
    """LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY."""
    _HELD = (33, 997)
    """ERROR_LOCK_VIOLATION, ERROR_IO_PENDING."""

    class _Place(ctypes.Structure):
        """OVERLAPPED: where the locked byte lies."""

        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.LockFileEx.argtypes = [wintypes.HANDLE, *[wintypes.DWORD] * 4, ctypes.POINTER(_Place)]
    _kernel.UnlockFileEx.argtypes = [wintypes.HANDLE, *[wintypes.DWORD] * 3, ctypes.POINTER(_Place)]

    def _lock(descriptor: int) -> None:
        place = _Place(offset=_LOCKED_BYTE)
        handle = msvcrt.get_osfhandle(descriptor)
        if not _kernel.LockFileEx(handle, _EXCLUSIVE_AT_ONCE, 0, 1, 0, ctypes.byref(place)):
            number = ctypes.get_last_error()
            if number in _HELD:
                raise _Busy(errno.EACCES, "held by another process")
            raise ctypes.WinError(number)

    def _unlock(descriptor: int) -> None:
        place = _Place(offset=_LOCKED_BYTE)
        if not _kernel.UnlockFileEx(msvcrt.get_osfhandle(descriptor), 0, 1, 0, ctypes.byref(place)):
            raise ctypes.WinError(ctypes.get_last_error())

else:

    def _lock(descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _BUSY:
                raise _Busy(error.errno, "held by another process") from error
            raise

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _already_running(state_dir: str, path: str) -> AlreadyRunning:
    pid = _holder(path)
    who = f"pid {pid}" if pid is not None else "its pid is not known"
    return AlreadyRunning(
        f"zcsyncd is already running for {state_dir} ({who})", hint="`zcsyncd stop` stops it", pid=pid
    )


def _holder(path: str) -> int | None:
    for _ in range(_PID_TRIES):
        try:
            with open(path, "rb") as file:
                text = file.read(32).strip()
        except OSError:
            return None
        if text:
            return int(text) if text.isdigit() else None
        # It has just taken the lock and is about to write.
        time.sleep(_PID_PAUSE_S)
    return None
