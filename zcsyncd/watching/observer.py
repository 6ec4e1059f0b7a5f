"""The system's file events, as watchdog gives them: its threads, its quirks and its private names end here.
Door: watchdog.

Rule 1: nothing here knows trees or memory directories; it hands on what the system said.
Rule 2: on Linux there is no thread: the event loop watches the descriptor of watchdog's reader (`Kernel`).
Elsewhere watchdog's threads only enqueue, and the loop is woken once for all that they have (`Observing`).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

SLICE_S = 0.005
"""So long at most the loop is kept from its other work by a burst; the kernel's queue holds what is left."""
CHUNK_BYTES = 16384
"""One read: about 350 events, 2 ms of work."""
LARGEST_EVENT = 16 + 256
"""A read with more room left than this has taken all there was."""

_BOOK_KEEPING = 0x2000 | 0x4000 | 0x8000 | 0x40000000
"""inotify(7): unmount, overflow, a dropped watch, and what happens to directories: watchdog keeps account of these."""

OBSERVER_TIMEOUT_S = 0.01
"""watchdog's Windows emitter delivers nothing before a directory was silent so long (its default is 1 s)."""


class KernelEvent(Protocol):
    """One inotify event. `name` is empty when it is about the watched directory itself."""

    @property
    def wd(self) -> int:
        """The watch."""

    @property
    def mask(self) -> int:
        """What happened, in the bits of inotify(7)."""

    @property
    def cookie(self) -> int:
        """What the two halves of a rename share."""

    @property
    def name(self) -> bytes:
        """The entry of the directory."""


class KernelListener(Protocol):
    """Who takes inotify events. The names but `on_entry` are watchdog's, so that no call lies between."""

    def on_entry(self, wd: int, mask: int, cookie: int, name: bytes, /) -> None:
        """Take an event about a file of a watched directory."""

    def on_event(self, event: KernelEvent, /) -> None:
        """Take one event."""

    def on_watch_deleted(self, wd: int, /) -> None:
        """Learn that the kernel has dropped a watch: its directory is gone or was unmounted."""

    def on_queue_overflow(self) -> None:
        """Learn that events were lost."""


class Kernel:
    """inotify through watchdog's reader, without its thread.

    Raises: OSError, when the system has no instance left (EMFILE: `fs.inotify.max_user_instances`).
    """

    def __init__(self, listener: KernelListener) -> None:
        self._listener = listener
        self._serial = itertools.count()
        self._numbers: dict[int, int] = {}
        self._reader, self._event = _new_reader()
        # Three private names; tests/watching/test_observer.py says so when a new watchdog changes them. The
        # descriptor is what the loop watches. The flag says that a thread sits in read(), which it would have to
        # leave before the descriptors can be closed: there is none. The parser takes the kernel's bytes apart.
        self._descriptor: int = self._reader._inotify_fd
        self._parse = self._reader._parse_event_buffer
        self._reader._is_reading = False
        os.set_inheritable(self._descriptor, False)

    def fileno(self) -> int:
        """Give the descriptor for the loop to watch."""
        return self._descriptor

    def add(self, path: str, mask: int) -> int:
        """Watch a directory and give the watch's number: the former one while it is still the same directory.

        Raises: OSError; PermissionError too, which watchdog passes over in silence.
        """
        number = next(self._serial)
        wd: int = self._reader.add_callback(os.fsencode(path), mask, self._listener, number)
        if wd < 0:
            self._reader.remove_callbacks([(wd, number)])
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if wd in self._numbers:
            # The directory is watched already. One registration stays, or each event would come twice.
            self._reader.remove_callbacks([(wd, number)])
        else:
            self._numbers[wd] = number
        return wd

    def drop(self, wd: int) -> None:
        """Stop watching; a watch that the kernel dropped meanwhile is fine."""
        number = self._numbers.pop(wd, None)
        if number is not None:
            self._reader.remove_callbacks([(wd, number)])

    def forget(self, wd: int) -> None:
        """Note that the kernel has dropped a watch by itself."""
        self._numbers.pop(wd, None)

    def drain(self) -> None:
        """Hand on what the kernel has queued, for `SLICE_S` at most. At least one event must be there.

        What happens to files, nearly all there is, goes straight to the listener: watchdog's own way makes an
        object of each event and takes a lock, which is a tenth of the time from a save to its subscriber.
        """
        until = time.monotonic() + SLICE_S
        listener, known = self._listener, self._numbers
        while True:
            buffer = os.read(self._descriptor, CHUNK_BYTES)
            for wd, mask, cookie, name in self._parse(buffer):
                if not name or mask & _BOOK_KEEPING:
                    self._reader.handle_event(self._event(wd, mask, cookie, name))
                elif wd in known:
                    listener.on_entry(wd, mask, cookie, name)
            if (
                len(buffer) < CHUNK_BYTES - LARGEST_EVENT
                or time.monotonic() >= until
                or not _queued_bytes(self._descriptor)
            ):
                return

    def close(self) -> None:
        """Give everything back to the system. The listener hears of every watch that is dropped."""
        self._reader.close()


if sys.platform == "linux":
    import fcntl
    import termios

    def _queued_bytes(descriptor: int) -> int:
        """Tell how many bytes of events wait."""
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)

else:

    def _queued_bytes(_descriptor: int) -> int:
        """Tell that none wait: only Linux has inotify."""
        return 0


def _new_reader() -> tuple[Any, Any]:
    # Any: watchdog has types of its own for masks, watches and callbacks; all are integers, or have our methods.
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system has no inotify")
    from watchdog.observers.inotify_c import InotifyEvent, InotifyFD

    return InotifyFD(), InotifyEvent


Seen = tuple[str, bool, str, bool, str]
"""(watched path, watched recursively, path of the event, whether it is a directory, watchdog's word for it)."""


class Observing:
    """watchdog's `Observer` of this system (FSEvents, ReadDirectoryChangesW, …), seen from the event loop.

    A path may be watched for several reasons; it is given up when nobody needs it any more.
    """

    def __init__(self, loop: AbstractEventLoop, on_seen: Callable[[list[Seen]], None]) -> None:
        from watchdog.observers import Observer

        self._loop = loop
        self._on_seen = on_seen
        self._observer: Any = Observer(timeout=OBSERVER_TIMEOUT_S)
        self._watches: dict[tuple[str, bool], tuple[Any, int]] = {}
        self._seen: deque[Seen] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def start(self) -> None:
        """Start watchdog's threads."""
        self._observer.start()

    def watch(self, path: str, *, recursive: bool) -> None:
        """Watch a directory, once more when it is watched already.

        Raises: OSError, when the system refuses or nothing is there.
        """
        watch, users = self._watches.get((path, recursive), (None, 0))
        if watch is None:
            watch = self._observer.schedule(
                _Enqueue(self._enqueue, path, recursive), path, recursive=recursive
            )
        self._watches[path, recursive] = watch, users + 1

    def unwatch(self, path: str, *, recursive: bool) -> None:
        """Take back one `watch`."""
        watch, users = self._watches.pop((path, recursive), (None, 0))
        if users > 1:
            self._watches[path, recursive] = watch, users - 1
        elif watch is not None:
            with contextlib.suppress(KeyError, OSError):  # watchdog forgets by itself what it failed to watch
                self._observer.unschedule(watch)

    def is_alive(self) -> bool:
        """Tell whether watchdog's dispatching thread runs."""
        return bool(self._observer.is_alive())

    def stop(self) -> None:
        """End watchdog's threads and wait for them; this blocks for a moment."""
        self._observer.stop()
        self._observer.join()

    def _enqueue(self, seen: Seen) -> None:
        with self._lock:
            self._seen.append(seen)
            if self._woken:
                return
            self._woken = True
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            seen = list(self._seen)
            self._seen.clear()
            self._woken = False
        self._on_seen(seen)


class _Enqueue:
    """A watchdog handler that only enqueues, on watchdog's thread."""

    def __init__(self, enqueue: Callable[[Seen], None], watched: str, recursive: bool) -> None:
        self._enqueue = enqueue
        self._watched = watched
        self._recursive = recursive

    def dispatch(self, event: FileSystemEvent) -> None:
        """Take one event of watchdog's."""
        if event.event_type in ("opened", "closed_no_write"):
            return  # readers, our own included
        for path in (event.src_path, event.dest_path):
            if path:
                self._enqueue(
                    (self._watched, self._recursive, os.fsdecode(path), event.is_directory, event.event_type)
                )
