"""Settling: which paths of which memory directory may be believed by now. Time is an argument. Pure.

Rule 1: the last event of a path decides. A final one (renamed into place, closed after a write) is due at once;
a bare one (modified, created by a link, deleted, moved away) waits its own quiet time, at most `longest_s` since
the first event that has not been delivered.
Rule 2: paths do not wait for one another; a look at a whole directory waits for every path in it, within the
same bounds, since it would read the half-written ones too.
Rule 3: bounded. Over `most_paths` waiting paths of one directory become one look at the whole directory.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MOST_PATHS = 4096
"""Waiting paths of one directory; beyond it one stat scan of the directory is cheaper than the list of names."""

_SPARE = 1024  # out-of-date heap entries that are borne before the heap is built anew


@dataclass(frozen=True, slots=True)
class Settled:
    """A memory directory in which something is due.

    `paths` are absolute; `whole` asks for a look at the whole directory (it appeared, vanished, a subdirectory
    moved): the disk tells what became of it.
    """

    directory: str
    paths: frozenset[str] = frozenset()
    whole: bool = False
    lost: bool = False
    """The directory that was there is gone, whatever is there now: one removed and made again is another."""
    lost_at: float = field(default=float("inf"), compare=False)
    """When that was noticed, on the settler's clock; what was first seen after it is the one that came since."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """Events may have been lost: everything below `base` (None: everywhere) is to be scanned."""

    reason: str
    """`overflow`; `watch-lost`; `base-added` and `base-removed` (a base appeared, vanished, or was made again);
    `polling` (a base is polled from now on); `directories` (above the memory directories something was made or
    moved, and the system does not tell what lies in it); `flush` (a barrier over a base whose events have no
    order); `canary` (the watcher did not answer in time)."""
    base: str | None = None
    noticed_at: float = field(default=float("inf"), compare=False)
    """On the watch's clock; what was first seen after it was not there then."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """A base is polled from now on, since the system refuses watches or they stay silent."""

    base: str
    reason: str


@dataclass(slots=True, eq=False)
class _Wait:
    """One path that waits, or the whole directory (path None)."""

    directory: str
    path: str | None
    first: float
    """When the first undelivered event came."""
    due: float = float("inf")
    queued: float = float("inf")
    """The lowest key under which the heap holds it: never above `due`."""
    over: bool = False
    """Delivered, or taken up by a look at the whole directory."""


@dataclass(slots=True, eq=False)
class _Area:
    """What waits in one memory directory."""

    paths: dict[str, _Wait] = field(default_factory=dict)
    whole: _Wait | None = None
    lost: bool = False
    lost_at: float = 0.0


class Settler:
    """What the events say, until it may be believed. All times are seconds of one monotonic clock."""

    def __init__(
        self, *, quiet_s: float = 0.05, longest_s: float = 1.0, most_paths: int = MOST_PATHS
    ) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._most_paths = most_paths
        self._areas: dict[str, _Area] = {}
        self._heap: list[tuple[float, int, _Wait]] = []
        self._serial = itertools.count()
        self._alive = 0
        self._holds: dict[tuple[str, str], float] = {}

    @property
    def holds(self) -> Mapping[tuple[str, str], float]:
        """Give what is held: (directory, path) → when it comes due."""
        return MappingProxyType(self._holds)

    def __len__(self) -> int:
        """Count what waits: paths and whole directories, without holds."""
        return self._alive

    def settle_by(self, quiet_s: float, longest_s: float) -> None:
        """Go by other quiet times from now on."""
        self._quiet_s, self._longest_s = quiet_s, longest_s

    def waits_for(self, directory: str) -> bool:
        """Tell whether anything in a directory waits, or is held."""
        area = self._areas.get(directory)
        waits = area is not None and bool(area.paths or area.whole)
        return waits or any(held == directory for held, _ in self._holds)

    def touch(
        self, directory: str, path: str, now: float, *, final: bool = False, weak: bool = False
    ) -> None:
        """Note an event of `path`.

        `final`: the file is complete now. `weak`: attributes changed, which postpones nothing that waits already.
        """
        area = self._areas.setdefault(directory, _Area())
        if area.lost and area.whole is not None:
            # It belongs to the directory that came in place of the lost one, and is told with all of that.
            self._put(area.whole, self._later(area.whole, now))
            return
        wait = area.paths.get(path)
        if wait is None:
            if len(area.paths) >= self._most_paths:
                self._collapse(directory, area)
            wait = area.paths[path] = self._begin(directory, path, now)
        elif weak:
            return
        self._put(wait, now if final else self._later(wait, now))
        if area.whole is not None:
            self._put(area.whole, self._later(area.whole, now))

    def whole(self, directory: str, now: float, *, lost: bool = False) -> None:
        """Note that the directory itself, or one below it, appeared, moved or vanished.

        `lost`: the memory directory that was there is gone.
        """
        area = self._areas.setdefault(directory, _Area())
        if lost:
            area.lost, area.lost_at = True, now
        if area.whole is None:
            area.whole = self._begin(directory, None, now)
        if lost:
            for wait in area.paths.values():
                wait.over = True
            self._alive -= len(area.paths)
            area.paths.clear()
        self._put(area.whole, self._later(area.whole, now))

    def hold(self, directory: str, path: str, until: float) -> None:
        """Have `path` delivered again at `until`; the latest call counts.

        A delivery before that, because of an event, ends the hold: who still doubts then holds again.
        """
        self._holds[directory, path] = until

    def expedite(self, now: float) -> None:
        """Skip all quiet times: whatever waits is due now. Holds are kept."""
        for area in self._areas.values():
            for wait in area.paths.values():
                self._put(wait, min(wait.due, now))
            if area.whole is not None:
                self._put(area.whole, min(area.whole.due, now))

    def due(self, now: float) -> list[Settled]:
        """Take what may be believed at `now`, one record per directory, longest waiting first."""
        paths: dict[str, set[str]] = {}
        wholes: set[str] = set()
        lost: dict[str, float] = {}
        for wait in self._ripe(now):
            found = paths.setdefault(wait.directory, set())
            area = self._areas[wait.directory]
            if wait.path is None:
                wholes.add(wait.directory)
                area.whole = None
                if area.lost:
                    lost[wait.directory] = area.lost_at
                    area.lost = False
            else:
                found.add(wait.path)
                del area.paths[wait.path]
                self._holds.pop((wait.directory, wait.path), None)
            if not area.paths and area.whole is None:
                del self._areas[wait.directory]
        for directory, path in [key for key, until in self._holds.items() if until <= now]:
            busy = self._areas.get(directory)
            writing = busy.paths.get(path) if busy is not None else None
            if writing is None:
                del self._holds[directory, path]
                paths.setdefault(directory, set()).add(path)
            else:
                # It is being written, and comes in its own time; until then the hold stands for it.
                self._holds[directory, path] = writing.due
        return [
            Settled(
                directory,
                frozenset(found),
                directory in wholes,
                directory in lost,
                lost.get(directory, float("inf")),
            )
            for directory, found in paths.items()
        ]

    def next_due(self) -> float | None:
        """Tell when `due` will have something to give; None: nothing waits."""
        while self._heap:
            key, _, wait = self._heap[0]
            if not wait.over and wait.due <= key:
                break
            heapq.heappop(self._heap)
            self._requeue(wait)
        first = [self._heap[0][0]] if self._heap else []
        return min([*first, *self._holds.values()], default=None)

    def _ripe(self, now: float) -> Iterator[_Wait]:
        while self._heap and self._heap[0][0] <= now:
            wait = heapq.heappop(self._heap)[2]
            if wait.over or wait.due > now:
                self._requeue(wait)
                continue
            wait.over = True
            self._alive -= 1
            yield wait

    def _requeue(self, wait: _Wait) -> None:
        # The heap keeps the earliest time that a path ever had; a later one is found out when that time has come.
        if not wait.over:
            wait.queued = wait.due
            heapq.heappush(self._heap, (wait.due, next(self._serial), wait))

    def _begin(self, directory: str, path: str | None, now: float) -> _Wait:
        self._alive += 1
        return _Wait(directory, path, now)

    def _later(self, wait: _Wait, now: float) -> float:
        return min(now + self._quiet_s, wait.first + self._longest_s)

    def _put(self, wait: _Wait, due: float) -> None:
        wait.due = due
        if due < wait.queued:
            wait.queued = due
            heapq.heappush(self._heap, (due, next(self._serial), wait))
            if len(self._heap) > 2 * self._alive + _SPARE:
                self._compact()

    def _compact(self) -> None:
        alive = {id(wait): wait for _, _, wait in self._heap if not wait.over}
        self._heap = []
        for wait in alive.values():
            self._requeue(wait)

    def _collapse(self, directory: str, area: _Area) -> None:
        first = min(wait.first for wait in area.paths.values())
        soonest = min(wait.due for wait in area.paths.values())
        for wait in area.paths.values():
            wait.over = True
        self._alive -= len(area.paths)
        area.paths.clear()
        if area.whole is None:
            area.whole = self._begin(directory, None, first)
        # Nothing that waited is told later than its own bound: the look inherits the earliest first event.
        area.whole.first = min(area.whole.first, first)
        self._put(area.whole, min(area.whole.due, soonest))
