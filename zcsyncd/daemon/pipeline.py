"""The whole way of a change: settled directory → look → what changed → journal → subscribers → audit.

    Settled ─► _settled ─► disk.look ─► store.take ─┐
                                                     ├─► store.commit ─► (journal, then hub)
                      (when the stream is empty) audit ┘

Rule 1: one directory is looked at by one at a time; what comes meanwhile is looked at after.
Rule 2: a small look (paths that an event named) is done at once; a look at everything is cut into slices, beside
which other directories go on.
Rule 3: commits are gathered: all that the stream holds at one moment is one transaction.
Rule 4: the audit follows the news of a change, never delays it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zcsyncd.daemon.grounds import Grounds, translate
from zcsyncd.errors import Unreadable
from zcsyncd.memory.disk import YOUNG_NS, Reading, look
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index
from zcsyncd.memory.snapshot import Snapshot, Stray
from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier, Watch

if TYPE_CHECKING:
    from zcsyncd.daemon.store import Store
    from zcsyncd.layouts.layout import Layout

_Slices = Generator[None, None, Reading | None]
log = logging.getLogger(__name__)

INLINE_PATHS = 64
"""A look at more paths than this is sliced."""
GROUP_LOOKS = 64
"""Looks in one transaction at most: a burst must not keep its first subscriber waiting."""
EMPTY_INDEX_S = 1.0
"""An index of size 0 is believed this long after it was first seen so."""
AGAIN_S = 1.0
"""After this a look is tried again that the system was too short of something for."""


@dataclass(slots=True)
class _Due:
    """What is to be looked at in one directory."""

    paths: set[str] = field(default_factory=set)
    whole: bool = False
    by_event: bool = False
    """False: only a scan asked for it, so what it finds no event has told."""


class Pipeline:
    """Runs the river; the daemon's only writer of snapshots."""

    def __init__(
        self,
        watch: Watch,
        store: Store,
        grounds: Grounds,
        *,
        quiet_s: float,
        ignored: Callable[[str], bool],
    ) -> None:
        self.watch = watch
        self.store = store
        self.grounds = grounds
        self.ready = False
        self.last_scan_ms: int | None = None
        self.drift_found = 0
        self._quiet_ns = int(quiet_s * 1e9)
        self._ignored = ignored
        self._due: dict[str, _Due] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._scans: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_audit: set[str] = set()
        self._empty_since: dict[str, float] = {}
        self._closing_group: asyncio.Handle | None = None
        self._looks_in_group = 0
        self._audit_asked = False
        self._grace_timer: asyncio.TimerHandle | None = None
        self._young_timer: asyncio.TimerHandle | None = None
        self._drift = 0

    # -- the whole way of a change

    async def run(self) -> None:
        """Take what the watch settles, for ever."""
        async for item in self.watch.settled():
            match item:
                case Settled():
                    self._settled(item)
                case Unsure():
                    self._begin_scan(item.reason, item.base)
                case Degraded():
                    self._degraded(item)
                case Barrier():
                    self._keep(asyncio.create_task(self._finish(item)))

    def _settled(self, item: Settled) -> None:
        directory = self.grounds.chief.get(item.directory)
        if directory is None or item.whole:
            directory = self.grounds.note(item.directory)
        due = self._due.setdefault(directory, _Due())
        due.by_event = True
        due.paths.update(translate(item.paths, item.directory, directory))
        due.whole |= item.whole or directory not in self.store.kept
        self._begin(directory)
        if item.whole:
            self._follow_names()

    def _follow_names(self) -> None:
        """Look at directories that are kept under another path from now on."""
        there = set(self.grounds.directories())
        for directory in there ^ set(self.store.kept):
            if directory not in self._busy:
                due = self._due.setdefault(directory, _Due())
                due.whole = due.by_event = True
                self._begin(directory)

    def _begin(self, directory: str) -> None:
        if directory in self._busy:
            return
        due = self._due.get(directory)
        if due is None:
            return
        if not due.whole and len(due.paths) <= INLINE_PATHS:
            del self._due[directory]
            self._look_now(directory, frozenset(due.paths))
        else:
            task = asyncio.create_task(self._look_in_slices(directory))
            self._busy[directory] = task
            task.add_done_callback(lambda done: self._ended(directory, done))

    def _ended(self, directory: str, task: asyncio.Task[None]) -> None:
        del self._busy[directory]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("look failed dir=%r", directory, exc_info=error)
        elif directory in self._due and not task.cancelled():
            self._begin(directory)

    def _look_now(self, directory: str, named: frozenset[str]) -> None:
        slices = self._slices(directory, named)
        if slices is None:
            self._due.setdefault(directory, _Due()).whole = True
            self._begin(directory)
            return
        try:
            while True:
                next(slices)
        except StopIteration as done:
            self._take(directory, done.value, by_event=True)
        except (Unreadable, OSError) as error:
            self._in_vain(directory, error)

    async def _look_in_slices(self, directory: str) -> None:
        while (due := self._due.pop(directory, None)) is not None:
            named = None if due.whole else frozenset(due.paths)
            slices = self._slices(directory, named) or self._slices(directory, None)
            assert slices is not None
            try:
                while True:
                    next(slices)
                    await asyncio.sleep(0)
            except StopIteration as done:
                self._take(directory, done.value, by_event=due.by_event)
            except (Unreadable, OSError) as error:
                self._in_vain(directory, error)

    def _slices(self, directory: str, named: frozenset[str] | None) -> _Slices | None:
        """Begin a look; None when a look at named paths needs a snapshot before, and there is none."""
        kept = self.store.kept.get(directory)
        if kept is not None:
            layout = kept.layout
        elif named is not None:
            return None
        elif (tree := self.grounds.tree_of(directory)) is not None:
            layout = self.store.layouts[tree.layout]
        else:
            return _nothing()
        return look(
            directory,
            layout,
            kept.snapshot if kept else None,
            named=named,
            settled_ns=self._quiet_ns if kept else 0,
            believe_empty=self._believes_empty,
            ignored=self._ignored,
        )

    def _take(self, directory: str, reading: Reading | None, *, by_event: bool) -> None:
        kept = self.store.kept.get(directory)
        if reading is None or self.grounds.chief.get(directory, directory) != directory:
            found = self.store.gone(directory)
            self._to_audit.discard(directory)
        else:
            layout = kept.layout if kept else self.store.layouts[reading.snapshot.layout]
            adopt = not self.ready and self.store.database.is_new
            found = self.store.take(reading.snapshot, layout, adopt=adopt)
            self._to_audit.add(directory)
            self._hold(directory, layout, reading)
        self._drift += 0 if by_event else found
        self._close_group_soon()

    def _hold(self, directory: str, layout: Layout, reading: Reading) -> None:
        """Have what was not believed yet looked at again."""
        now = self.watch.clock()
        for path in reading.held:
            empty_since = self._empty_since.get(path)
            believed = now + self._quiet_ns / 1e9 if empty_since is None else empty_since + EMPTY_INDEX_S
            self.watch.hold(directory, path, believed)
        if layout.index_name is not None and self._empty_since:
            index = os.path.join(directory, layout.index_name)
            if index not in reading.held:
                self._empty_since.pop(index, None)

    def _believes_empty(self, path: str) -> bool:
        now = self.watch.clock()
        since = self._empty_since.setdefault(path, now)
        return now - since >= EMPTY_INDEX_S

    def _in_vain(self, directory: str, error: Unreadable | OSError) -> None:
        """Take that a look failed: what was known stays, for a read error is never "empty"."""
        if isinstance(error, Unreadable):
            self._closed(directory)
        else:
            log.warning("look put off dir=%r error=%r", directory, str(error))
            self.watch.hold(directory, directory, self.watch.clock() + AGAIN_S)

    def _closed(self, directory: str) -> None:
        """Take that a directory cannot be listed; the audit says so. It is looked at again when its mode changes."""
        kept = self.store.kept.get(directory)
        tree = self.grounds.tree_of(directory)
        if kept is not None:
            known = kept.snapshot
        elif tree is not None:
            known = Snapshot(directory, tree.layout)
        else:
            return
        closed = replace(known, strays={**known.strays, "": Stray("", "unreadable-directory")})
        self._take(directory, Reading(closed), by_event=True)

    # -- one transaction for all that is there at a moment

    def _close_group_soon(self) -> None:
        self._looks_in_group += 1
        if not self.watch.has_more:
            self._close_group()
        elif self._looks_in_group >= GROUP_LOOKS:
            self._tell()
        elif self._closing_group is None:
            self._closing_group = asyncio.get_running_loop().call_soon(self._close_group)

    def _close_group(self) -> None:
        if self._closing_group is not None:
            self._closing_group.cancel()
            self._closing_group = None
        self._tell()
        if self._to_audit and not self._audit_asked:
            self._audit_asked = True
            asyncio.get_running_loop().call_soon(self._audit)

    def _tell(self) -> None:
        self._looks_in_group = 0
        self.store.commit()

    def _audit(self) -> None:
        self._audit_asked = False
        if self._looks_in_group:
            return  # a look came in between: its own closing asks for the audit
        due, self._to_audit = self._to_audit, set()
        for directory in sorted(due):
            self.store.audit(directory)
        self.store.commit()
        self.watch_graces()

    # -- time passes

    def watch_graces(self) -> None:
        """Ask for an audit when the next grace period ends."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
        ends = [kept.next_due_ms for kept in self.store.kept.values() if kept.next_due_ms is not None]
        if ends:
            wait_s = max(0.0, (min(ends) - self.store.clock_ms()) / 1000) + 0.002
            self._grace_timer = asyncio.get_running_loop().call_later(wait_s, self._grace_ended)

    def _grace_ended(self) -> None:
        now_ms = self.store.clock_ms()
        self._to_audit.update(
            directory
            for directory, kept in self.store.kept.items()
            if kept.next_due_ms is not None and kept.next_due_ms <= now_ms
        )
        self._audit()

    # -- looking at everything

    def _begin_scan(self, reason: str, base: str | None) -> None:
        task = asyncio.create_task(self.scan(reason, base))
        self._scans.add(task)
        task.add_done_callback(self._scans.discard)
        self._keep(task)

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task until it is done, and say when it failed."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_say_failure)

    async def scan(self, reason: str, base: str | None = None) -> None:
        """Look at every directory (of one base); tell what is found. `start`, `schedule`, `asked`, or a lost event."""
        await self.watch.rewatch()
        self.grounds.survey()
        self._drift = 0
        wanted = [*self.grounds.directories(), *self.store.kept]
        for directory in dict.fromkeys(wanted):
            tree = self.grounds.tree_of(directory)
            if tree is None:
                self.store.forget(directory)  # its root is no longer watched
            elif base is None or tree.base == base:
                await self._look_whole(directory)
        self._close_group_soon()
        await self._quiet()
        drift, self._drift = self._drift, 0
        self.last_scan_ms = self.store.clock_ms()
        if reason != "start" and (reason != "schedule" or drift):
            self.drift_found += drift
            self.store.tell("daemon/rescanned", {"reason": reason, "base": base, "drift": drift})
            self.store.commit()
        self._watch_young()

    async def look_at(self, directories: Iterable[str]) -> None:
        """Look at these directories now and audit them; what is found is told."""
        for directory in directories:
            await self._look_whole(directory)
        await self._quiet()

    async def _look_whole(self, directory: str) -> None:
        """Look at one directory, and wait until it was looked at."""
        self._due.setdefault(directory, _Due()).whole = True
        self._begin(directory)
        while directory in self._busy:
            await asyncio.wait({self._busy[directory]})

    def _watch_young(self) -> None:
        """Hash again what was too young at this scan for its time to tell, once it is old enough."""
        young = {
            directory: paths
            for directory, kept in self.store.kept.items()
            if (paths := {os.path.join(directory, *file.split("/")) for file in _young(kept.snapshot)})
        }
        if young:
            wait_s = YOUNG_NS / 1e9 + 0.1
            self._young_timer = asyncio.get_running_loop().call_later(wait_s, self._look_at_young, young)

    def _look_at_young(self, young: Mapping[str, set[str]]) -> None:
        for directory, paths in young.items():
            if directory in self.store.kept:
                self._due.setdefault(directory, _Due()).paths.update(paths)
                self._begin(directory)

    async def _quiet(self) -> None:
        """Wait until nothing is being looked at, and all that was found is told and audited."""
        while self._busy:
            await asyncio.wait(set(self._busy.values()))
        self._tell()
        self._looks_in_group = 0
        self._audit()

    async def _finish(self, barrier: Barrier) -> None:
        while self._scans:
            await asyncio.wait(set(self._scans))
        await self._quiet()
        barrier.done()

    def _degraded(self, item: Degraded) -> None:
        log.warning("watch degraded base=%r reason=%r", item.base, item.reason)
        self.store.tell("daemon/degraded", {"base": item.base, "reason": item.reason})
        self.store.commit()

    def look_again(self, directories: Iterable[str]) -> None:
        """Look again, later, at directories whose changes could not be written."""
        for directory in directories:
            self.watch.hold(directory, directory, self.watch.clock() + AGAIN_S)

    async def stop(self) -> None:
        """End all looks and tell what was found so far."""
        for timer in (self._grace_timer, self._young_timer, self._closing_group):
            if timer is not None:
                timer.cancel()
        tasks = {*self._tasks, *self._busy.values()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.store.commit()


def _nothing() -> _Slices:
    """Give the empty look at a directory that is nobody's."""
    return None
    yield


def _young(snapshot: Snapshot) -> Iterator[str]:
    files: list[Index | Fact] = list(snapshot.facts.values())
    if snapshot.index is not None:
        files.append(snapshot.index)
    for file in files:
        stat = file.stat
        if 0 <= file.read_at_ns - max(stat.mtime_ns, stat.ctime_ns) < YOUNG_NS:
            yield file.file


def _say_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("pipeline failed", exc_info=error)


def wall_clock_ms() -> int:
    """Give the time of day in epoch milliseconds."""
    return time.time_ns() // 1_000_000
