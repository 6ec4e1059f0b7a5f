"""inotify by hand, for what is measured against and for counting who opens what. Door: ctypes.

Nothing of zcsyncd is used here: the bare relay must owe it nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

IN_CLOSE_WRITE = 0x8
IN_OPEN = 0x20
IN_MOVED_TO = 0x80
IN_Q_OVERFLOW = 0x4000
IN_ISDIR = 0x4000_0000

_HEAD = struct.Struct("iIII")
_READ_BYTES = 262_144


class Seen(NamedTuple):
    """One event; `path` is empty when the queue ran over."""

    path: str
    mask: int


class Inotify:
    """One inotify instance over a tree that exists already."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._places: dict[int, str] = {}

    def watch_tree(self, base: str, mask: int) -> int:
        """Watch every directory from `base` down; give their number."""
        for place, _, _ in os.walk(base):
            watch = self._libc.inotify_add_watch(self.descriptor, os.fsencode(place), mask)
            if watch < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", place)
            self._places[watch] = place
        return len(self._places)

    def read(self) -> list[Seen]:
        """Take what is queued now, at most one buffer of it."""
        try:
            buffer = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        seen, at = [], 0
        while at < len(buffer):
            watch, mask, _, length = _HEAD.unpack_from(buffer, at)
            at += _HEAD.size
            name = os.fsdecode(buffer[at : at + length].rstrip(b"\0"))
            at += length
            place = self._places.get(watch)
            seen.append(Seen(f"{place}/{name}" if place else "", mask))
        return seen

    def close(self) -> None:
        """Let go of the instance."""
        os.close(self.descriptor)


def count_opens(queue: Inotify, ending: str) -> int:
    """Count how often files with this ending were opened since the last call; -1 when the queue ran over."""
    opens = 0
    while seen := queue.read():
        for event in seen:
            if event.mask & IN_Q_OVERFLOW:
                return -1
            opens += bool(event.mask & IN_OPEN and not event.mask & IN_ISDIR and event.path.endswith(ending))
    return opens
