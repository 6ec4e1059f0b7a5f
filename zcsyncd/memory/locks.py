"""Locks that other programs lay into a memory directory: while one lives, repairs wait. Door: os.

Rule 1: `*.lock` files are read and never touched.
Rule 2: a pid decides, wherever it stands: `"pid"` in JSON, a number after `pid`, the first number in the text (or in
the target of a symlink), a number at the end of the name (`MEMORY.md.4711.lock`). Numbers that no pid can be (a time
stamp) are passed over.
Rule 3: a lock without any pid (an empty file, a directory as some lock libraries make it) lives as long as it is
younger than `YOUNG_S`: their holders touch it every few seconds, and a forgotten one must not hold up repairs for ever.
Rule 4: bounded: `MOST_LOCKS` locks, `MAX_DEPTH` levels, `MOST_ENTRIES` names.
Locks by flock(2) alone leave no trace that can be seen without taking part in them; they are not looked for.
Source: docs/format.md ("Writing").
"""

from __future__ import annotations

import contextlib
import os
import re
import stat as stat_bits
import sys
import time
from collections.abc import Iterator

from zcsyncd.opening import entry_is_link, open_to_read

ENDING = ".lock"
MOST_LOCKS = 200
MOST_ENTRIES = 50_000
MAX_DEPTH = 3
"""Levels below the memory directory."""
YOUNG_S = 600.0
_READ_BYTES = 4096
_MOST_PID = 0xFFFFFFFF if sys.platform == "win32" else 1 << 22
"""Linux counts up to 2^22, macOS and the BSDs less far."""

_NAMED_PID = re.compile(r"\bpid\b\W{0,5}(\d+)", re.IGNORECASE)
_NUMBERS = re.compile(r"\d+")
_PID_IN_NAME = re.compile(r"(?:^|[._-])(\d{1,10})$")


def living_lock(directory: str) -> str | None:
    """Give the path of a lock in a memory directory whose holder lives; None: there is none.

    What cannot be listed holds no lock that could be honoured.
    """
    for path in _locks(directory):
        if _is_held(path):
            return path
    return None


def _locks(directory: str) -> Iterator[str]:
    places = [(directory, 0)]
    entries = locks = 0
    while places:
        place, depth = places.pop()
        try:
            with os.scandir(place) as listing:
                names = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in names:
            entries += 1
            if entries > MOST_ENTRIES:
                return
            if entry.name.endswith(ENDING):
                locks += 1
                yield entry.path
                if locks >= MOST_LOCKS:
                    return
            elif depth < MAX_DEPTH and _is_directory(entry):
                places.append((entry.path, depth + 1))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and not entry_is_link(entry)
    except OSError:
        return False


def _is_held(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False  # gone by now
    pid = pid_in(_text(path, status)) or _pid_in_name(path)
    if pid is not None:
        return lives(pid)
    # A time in the future beyond clocks that differ a little is nobody's last sign of life.
    return abs(time.time() - status.st_mtime) < YOUNG_S


def _text(path: str, status: os.stat_result) -> str:
    with contextlib.suppress(OSError):
        if stat_bits.S_ISLNK(status.st_mode):
            return os.readlink(path)
        if stat_bits.S_ISREG(status.st_mode):
            descriptor = open_to_read(path, follow=False)
            try:
                if stat_bits.S_ISREG(os.fstat(descriptor).st_mode):
                    return os.read(descriptor, _READ_BYTES).decode("utf-8", "replace")
            finally:
                os.close(descriptor)
    return ""


def pid_in(text: str) -> int | None:
    """Find the pid in what a lock says; None: there is none."""
    for found in (*_NAMED_PID.findall(text), *_NUMBERS.findall(text)):
        if len(found) <= 10 and 0 < int(found) <= _MOST_PID:  # Python refuses to turn thousands of digits
            return int(found)
    return None


def _pid_in_name(path: str) -> int | None:
    found = _PID_IN_NAME.search(os.path.basename(path)[: -len(ENDING)])
    return int(found[1]) if found and 0 < int(found[1]) <= _MOST_PID else None


if sys.platform == "win32":
    import ctypes

    _QUERY_LIMITED = 0x1000
    _STILL_ACTIVE = 259
    _ERROR_ACCESS_DENIED = 5

    def lives(pid: int) -> bool:
        """Tell whether a process runs; one that we may not ask about does."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(_QUERY_LIMITED, False, ctypes.c_uint32(pid)))
        if not handle:
            return ctypes.get_last_error() == _ERROR_ACCESS_DENIED
        code = ctypes.c_uint32()
        try:
            return not kernel.GetExitCodeProcess(handle, ctypes.byref(code)) or code.value == _STILL_ACTIVE
        finally:
            kernel.CloseHandle(handle)

else:

    def lives(pid: int) -> bool:
        """Tell whether a process runs; another user's does, one that has ended and waits for its parent does not."""
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            return False
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[:1] != [b"Z"]
        except OSError:
            return True  # this system has no such file
