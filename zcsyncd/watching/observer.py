"""The system's file events, as watchdog gives them: its threads, its quirks and its private names end here.
Door: watchdog.

Rule 1: nothing here knows trees or memory directories; it hands on what the system said.
Rule 2: on Linux there is no thread: the event loop watches the descriptor of watchdog's reader (`Kernel`).
Elsewhere watchdog's threads only enqueue, and the loop is woken once for all that they have (`Observing`).
Rule 3: on Windows its bindings of the system's call are used, not its `Observer`: that one delivers nothing before a
directory has been silent for a second, so that a steady writer starves it, and says nothing when events were lost.
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

OVERFLOW = "overflow"
"""The word for events that the system had no room for: nobody knows which paths they were about."""


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

    def queued_bytes(self) -> int:
        """Tell how many bytes of events wait to be handed on."""
        return _queued_bytes(self._descriptor)

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


class Source(Protocol):
    """What watches directories in threads of its own, and puts what it sees into a queue."""

    def start(self) -> None:
        """Begin."""

    def watch(self, path: str, recursive: bool) -> Any:
        """Watch a directory; give what `unwatch` takes. Raises: OSError."""

    def unwatch(self, watch: Any) -> None:
        """Watch it no longer. One that has ended by itself is fine."""

    def is_alive(self) -> bool:
        """Tell whether what must run runs."""

    def stop(self) -> None:
        """End all threads and wait for them."""


class Observing:
    """The system's own watching (FSEvents, ReadDirectoryChangesW, …) through watchdog, seen from the event loop.

    A path may be watched for several reasons; it is given up when nobody needs it any more.
    """

    def __init__(self, loop: AbstractEventLoop, on_seen: Callable[[list[Seen]], None]) -> None:
        self._loop = loop
        self._on_seen = on_seen
        self._source: Source = (
            _Readers(self._enqueue) if sys.platform == "win32" else _Observer(self._enqueue)
        )
        self._watches: dict[tuple[str, bool], tuple[Any, int]] = {}
        self._seen: deque[Seen] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def start(self) -> None:
        """Start the threads."""
        self._source.start()

    def watch(self, path: str, *, recursive: bool) -> None:
        """Watch a directory, once more when it is watched already.

        Raises: OSError, when the system refuses or nothing is there.
        """
        watch, users = self._watches.get((path, recursive), (None, 0))
        if watch is None:
            watch = self._source.watch(path, recursive)
        self._watches[path, recursive] = watch, users + 1

    def unwatch(self, path: str, *, recursive: bool) -> None:
        """Take back one `watch`."""
        watch, users = self._watches.pop((path, recursive), (None, 0))
        if users > 1:
            self._watches[path, recursive] = watch, users - 1
        elif watch is not None:
            self._source.unwatch(watch)

    def is_alive(self) -> bool:
        """Tell whether the threads run."""
        return self._source.is_alive()

    def stop(self) -> None:
        """End the threads and wait for them; this blocks for a moment."""
        self._source.stop()

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


class _Observer:
    """watchdog's `Observer` of this system."""

    def __init__(self, enqueue: Callable[[Seen], None]) -> None:
        from watchdog.observers import Observer

        self._enqueue = enqueue
        self._observer: Any = Observer()

    def start(self) -> None:
        """Start watchdog's threads."""
        self._observer.start()

    def watch(self, path: str, recursive: bool) -> Any:
        """Watch a directory. Raises: OSError."""
        return self._observer.schedule(_Enqueue(self._enqueue, path, recursive), path, recursive=recursive)

    def unwatch(self, watch: Any) -> None:
        """Watch it no longer."""
        with contextlib.suppress(KeyError, OSError):  # watchdog forgets by itself what it failed to watch
            self._observer.unschedule(watch)

    def is_alive(self) -> bool:
        """Tell whether watchdog's dispatching thread runs."""
        return bool(self._observer.is_alive())

    def stop(self) -> None:
        """End watchdog's threads and wait for them."""
        self._observer.stop()
        self._observer.join()


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


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    from watchdog.observers import winapi

    _WORDS = {
        winapi.FILE_ACTION_CREATED: "created",
        winapi.FILE_ACTION_DELETED: "deleted",
        winapi.FILE_ACTION_RENAMED_OLD_NAME: "moved",
        winapi.FILE_ACTION_RENAMED_NEW_NAME: "moved",
    }
    _APPEARING = frozenset({winapi.FILE_ACTION_CREATED, winapi.FILE_ACTION_RENAMED_NEW_NAME})
    _WANTED = winapi.WATCHDOG_FILE_NOTIFY_FLAGS & ~winapi.FILE_NOTIFY_CHANGE_LAST_ACCESS
    """Not that somebody has read: we do."""
    _OPENING = winapi.WATCHDOG_FILE_FLAGS | winapi.FILE_FLAG_OVERLAPPED
    _LOST = 1022
    """ERROR_NOTIFY_ENUM_DIR: there was no room for all; said by an empty answer too."""

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.GetOverlappedResult.argtypes = [
        wintypes.HANDLE,
        ctypes.POINTER(winapi.OVERLAPPED),
        ctypes.POINTER(wintypes.DWORD),
        wintypes.BOOL,
    ]

    class _Reader:
        """One watched directory: ReadDirectoryChangesW by watchdog's bindings, and a thread that waits for it.

        Not watchdog's own reader: it says that it watches before it has asked the system for anything, passes over
        lost events in silence, and may miss that it is to stop. Its parser, a private name, is used.

        Raises: OSError.
        """

        def __init__(self, path: str, recursive: bool, enqueue: Callable[[Seen], None]) -> None:
            self._path = path
            self._recursive = recursive
            self._enqueue = enqueue
            self._lock = threading.Lock()
            self._stopping = False
            self._ended = False
            self._buffer = ctypes.create_string_buffer(winapi.BUFFER_SIZE)
            self._handle = winapi.CreateFileW(
                path,
                winapi.FILE_LIST_DIRECTORY,
                winapi.WATCHDOG_FILE_SHARE_FLAGS,
                None,
                winapi.OPEN_EXISTING,
                _OPENING,
                None,
            )
            self._event = winapi.CreateEvent(None, True, False, None)
            self._under_way = winapi.OVERLAPPED(hEvent=self._event)
            try:
                self._ask()
            except BaseException:
                self._close()
                raise
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

        def is_well(self) -> bool:
            """Tell whether it reads, or has ended because its directory has gone."""
            return self._ended or self._thread.is_alive()

        def stop(self) -> None:
            """End the thread and give everything back."""
            with self._lock:
                self._stopping = True
                if not self._ended:
                    with contextlib.suppress(OSError):  # it has just ended by itself
                        winapi.CancelIoEx(self._handle, ctypes.byref(self._under_way))
            self._thread.join()

        def _ask(self) -> None:
            """Have the system collect from now on; it goes on collecting between two questions."""
            winapi.ReadDirectoryChangesW(
                self._handle,
                ctypes.byref(self._buffer),
                len(self._buffer),
                self._recursive,
                _WANTED,
                None,
                ctypes.byref(self._under_way),
                None,
            )

        def _run(self) -> None:
            size = wintypes.DWORD()
            failed = 0
            while not failed:
                well = _kernel.GetOverlappedResult(
                    self._handle, ctypes.byref(self._under_way), ctypes.byref(size), True
                )
                failed = 0 if well else ctypes.get_last_error()
                told = self._buffer.raw[: size.value] if well else b""
                failed = 0 if failed == _LOST else failed
                with self._lock:
                    if self._stopping:
                        break
                    if not failed:
                        try:
                            self._ask()
                        except OSError as error:
                            failed = error.winerror
                # The next question is on its way already: while we tell, nothing is missed.
                if told:
                    self._hand_on(told)
                elif well or not failed:
                    self._tell(self._path, OVERFLOW)
            if failed and not self._stopping:
                # Most often the directory has gone; whoever listens looks.
                self._tell(self._path, "deleted")
            with self._lock:
                self._ended = True
                self._close()

        def _hand_on(self, told: bytes) -> None:
            parse: Any = winapi._parse_event_buffer
            for action, name in parse(told):
                path = os.path.join(self._path, name)
                self._tell(path, _WORDS.get(action, "modified"), action in _APPEARING and os.path.isdir(path))

        def _tell(self, path: str, word: str, is_directory: bool = False) -> None:
            if not self._stopping:
                self._enqueue((self._path, self._recursive, path, is_directory or path == self._path, word))

        def _close(self) -> None:
            winapi.CloseHandle(self._handle)
            winapi.CloseHandle(self._event)

    class _Readers:
        """One reader and one thread for each directory."""

        def __init__(self, enqueue: Callable[[Seen], None]) -> None:
            self._enqueue = enqueue
            self._readers: set[_Reader] = set()

        def start(self) -> None:
            """Nothing runs before there is something to watch."""

        def watch(self, path: str, recursive: bool) -> _Reader:
            """Watch a directory: what happens from now on is told. Raises: OSError."""
            reader = _Reader(path, recursive, self._enqueue)
            self._readers.add(reader)
            return reader

        def unwatch(self, watch: _Reader) -> None:
            """Watch it no longer."""
            self._readers.discard(watch)
            watch.stop()

        def is_alive(self) -> bool:
            """Tell whether every thread runs."""
            return all(reader.is_well() for reader in self._readers)

        def stop(self) -> None:
            """End all threads and wait for them."""
            for reader in list(self._readers):
                self.unwatch(reader)

else:

    class _Readers(_Observer):
        """Nothing: only Windows is watched this way."""
