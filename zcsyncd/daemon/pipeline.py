"""The whole way of a change: settled directory → look → what changed → journal → subscribers → audit.

    Settled ─► _settled ─► disk.look ─► store.take ─► telling (commit: journal, then hub; later: audit, commit)

Rule 1: one directory is looked at by one at a time; what comes meanwhile is looked at after.
Rule 2: a small look (paths that an event named) is done at once; a larger one is cut into slices, beside which other
directories go on.
Rule 3: one scan of everything at a time.
Rule 4: an act of our own pen is to its directory what a look is: while it runs nobody looks, and acts queue up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zcsyncd.daemon.grounds import Grounds, translate
from zcsyncd.daemon.telling import Telling
from zcsyncd.errors import Unreadable
from zcsyncd.memory.disk import YOUNG_NS, Reading, look, look_at_named, shows_changes
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index
from zcsyncd.memory.snapshot import Snapshot, Stray
from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier, Ping, Watch

if TYPE_CHECKING:
    from zcsyncd.daemon.store import Kept, Store
    from zcsyncd.layouts.layout import Layout

_Slices = Generator[None, None, Reading | None]
_Result = TypeVar("_Result")
log = logging.getLogger(__name__)

INLINE_PATHS = 64
"""A look at more paths than this is sliced."""
INLINE_FACTS = 200
"""So many facts' stats are asked after in one go, 1 ms; more of them by a look, in slices."""
EMPTY_INDEX_S = 1.0
"""An index of size 0 is believed this long after it was first seen so."""
FILLING_S = 1.0
"""A new directory is told this long after it was first seen, however many of its files are still being written."""
DISTRUSTING = ("schedule",)
"""The scan that nothing lost and nobody asked for: what it finds, and no event told, the system keeps silent about."""
SILENT = "changes were found here that the system had not told of"
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
        still_ours: Callable[[str], bool] = lambda _directory: True,
    ) -> None:
        """`still_ours` is asked before a look at everything: what a name leads to may have changed."""
        self.watch = watch
        self.store = store
        self.grounds = grounds
        self.telling = Telling(store, watch)
        self.ready = False
        self.last_scan_ms: int | None = None
        self.drift_found = 0
        self.scanned_ms: dict[str, int] = {}
        """When the tree of a base was scanned last, epoch milliseconds."""
        self.drift_of: Counter[str] = Counter()
        """`drift_found`, by the tree's base."""
        self.quiet_s = quiet_s
        self._ignored = ignored
        self._still_ours = still_ours
        self.put_off: dict[str, str] = {}
        """Directories that could not be looked at for want of something, and why."""
        self._due: dict[str, _Due] = {}
        self._busy: dict[str, asyncio.Task[Any]] = {}
        self._acts: dict[str, list[asyncio.Future[None]]] = {}
        """Acts that run or wait, by directory; the first one runs."""
        self._scans: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty_since: dict[str, float] = {}
        self._filling: dict[str, float] = {}
        self._first_seen: dict[str, float] = {}
        """When the look began by which a directory became known, on the watch's clock; none: before this start."""
        self._young_timer: asyncio.TimerHandle | None = None
        self._drift: Counter[str] = Counter()
        """Changes that a scan found and no event had told, by directory."""
        self._heard_of: set[str] = set()
        """Directories that events named since the scan began."""
        self._one_scan = asyncio.Lock()
        self._stopped = False

    # -- the whole way of a change

    async def run(self) -> None:
        """Take what the watch settles, for ever."""
        async for item in self.watch.settled():
            match item:
                case Settled():
                    self._settled(item)
                case Unsure():
                    self._unsure(item)
                case Degraded():
                    self._degraded(item)
                case Ping():
                    item.heard()
                case Barrier():
                    self._keep(asyncio.create_task(self._finish(item)))

    def _settled(self, item: Settled) -> None:
        directory = self.grounds.chief.get(item.directory)
        if directory is None or item.whole:
            directory = self.grounds.note(item.directory)
        if item.lost and item.directory in self.store.kept and self._was_there(item.directory, item.lost_at):
            self._lose(item.directory)
        self._heard_of.add(directory)
        due = self._due.setdefault(directory, _Due())
        due.by_event = True
        due.paths.update(translate(item.paths, item.directory, directory))
        due.whole |= item.whole or directory not in self.store.kept
        self._begin(directory)
        if item.whole:
            self._follow_names()

    def _unsure(self, item: Unsure) -> None:
        if item.reason == "base-removed":
            # Removed, and perhaps made again at once: what was there is gone in any case.
            for directory in tuple(self.store.kept):
                tree = self.grounds.tree_of(directory)
                if (
                    tree is not None
                    and tree.base == item.base
                    and self._was_there(directory, item.noticed_at)
                ):
                    self._lose(directory)
        self._begin_scan(item.reason, item.base)

    def _was_there(self, directory: str, time_s: float) -> bool:
        """Tell whether a directory that is kept was known at a time.

        A scan may have seen one gone, and the one that came in its place, before the loss was due.
        """
        return self._first_seen.get(directory, float("-inf")) <= time_s

    def _lose(self, directory: str) -> None:
        """Tell that a directory is gone; what lies in its place now is another one."""
        self.store.gone(directory)
        self._let_go(directory, is_gone=True)

    def _follow_names(self) -> None:
        """Look at directories that are kept under another path from now on."""
        there = set(self.grounds.directories())
        for directory in there ^ set(self.store.kept):
            if directory not in self._busy:
                self._look_at_all(directory)
                self._begin(directory)

    def _begin(self, directory: str) -> None:
        due = self._due.get(directory)
        if due is None or directory in self._busy or self._stopped:
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
        kept = self.store.kept.get(directory)
        reading = None
        try:
            if kept is not None:
                reading = look_at_named(
                    kept.snapshot,
                    kept.layout,
                    named,
                    believe_empty=self._believes_empty,
                    ignored=self._ignored,
                )
        except OSError as error:
            self._in_vain(directory, error)
            return
        if reading is not None:
            self._take(directory, reading, by_event=True)
        else:
            self._look_at_all(directory)
            self._begin(directory)

    def _look_at_all(self, directory: str) -> None:
        """Note that only a look at everything can tell."""
        due = self._due.setdefault(directory, _Due())
        due.whole = due.by_event = True

    async def _look_in_slices(self, directory: str) -> None:
        while (due := self._due.pop(directory, None)) is not None:
            named = None if due.whole else frozenset(due.paths)
            slices = self._slices(directory, named) or self._slices(directory, None)
            assert slices is not None
            try:
                reading = await _looked(slices)
            except (Unreadable, OSError) as error:
                self._in_vain(directory, error)
            else:
                self._take(directory, reading, by_event=due.by_event)

    def _slices(self, directory: str, named: frozenset[str] | None) -> _Slices | None:
        """Begin a look; None when a look at named paths needs a snapshot before, and there is none."""
        if named is None and not self._still_ours(directory):
            return _nothing()
        kept = self.store.kept.get(directory)
        if kept is None:
            self._first_seen[directory] = self.watch.clock()
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
            settled_ns=int(self.quiet_s * 1e9) if kept or self.ready else 0,
            believe_empty=self._believes_empty,
            ignored=self._ignored,
        )

    def _take(self, directory: str, reading: Reading | None, *, by_event: bool) -> None:
        kept = self.store.kept.get(directory)
        self.put_off.pop(directory, None)
        if self.grounds.tree_of(directory) is None:
            found = 0
            self._let_go(directory)
        elif kept is None and reading is not None and reading.files is not None:
            # What the look was compared with has been let go of meanwhile: only a look at everything can tell.
            self._look_at_all(directory)
            return
        elif kept is None and reading is not None and self.ready and self._still_comes(directory, reading):
            return
        elif reading is None or self.grounds.chief.get(directory, directory) != directory:
            found = self.store.gone(directory)
            self._let_go(directory, is_gone=reading is None)
        else:
            layout = kept.layout if kept else self.store.layouts[reading.snapshot.layout]
            adopt = not self.ready and self.store.database.is_new
            # Before the daemon is ready, what a look brings along would be in the way: it is saved in slices after.
            contents = reading.contents if self.ready else None
            found = self.store.take(
                reading.snapshot, layout, files=reading.files, adopt=adopt, contents=contents
            )
            self.telling.found(directory)
            self._hold(directory, layout, reading)
        if found and not by_event:
            self._drift[directory] += found

    def _still_comes(self, directory: str, reading: Reading) -> bool:
        """Tell whether a new directory is being filled just now: it is told when its files are whole, in one batch."""
        now = self.watch.clock()
        since = self._filling.setdefault(directory, now)
        if reading.held and now - since < FILLING_S:
            self.watch.hold(directory, directory, now + self.quiet_s)
            return True
        del self._filling[directory]
        return False

    def _let_go(self, directory: str, *, is_gone: bool = False) -> None:
        """Forget what is remembered of a directory that is gone, or no longer ours to keep."""
        self.store.forget(directory, is_gone=is_gone)
        self.put_off.pop(directory, None)
        self._filling.pop(directory, None)
        self._first_seen.pop(directory, None)
        self.telling.forget(directory)
        self.telling.close_soon()
        for path in [path for path in self._empty_since if path.startswith(directory + os.sep)]:
            del self._empty_since[path]

    def _hold(self, directory: str, layout: Layout, reading: Reading) -> None:
        """Have what was not believed yet looked at again."""
        now = self.watch.clock()
        for path in reading.held:
            empty_since = self._empty_since.get(path)
            believed = now + self.quiet_s if empty_since is None else empty_since + EMPTY_INDEX_S
            self.watch.hold(directory, path, believed)
        if layout.index_name is not None and self._empty_since:
            index = os.path.join(directory, layout.index_name)
            if index not in reading.held:
                self._empty_since.pop(index, None)

    def _believes_empty(self, path: str, mtime_ns: int) -> bool:
        if time.time_ns() - mtime_ns > EMPTY_INDEX_S * 1e9 and not self.ready:
            return True  # it has been so since before we started: nobody is at it
        now = self.watch.clock()
        since = self._empty_since.setdefault(path, now)
        return now - since >= EMPTY_INDEX_S

    def _in_vain(self, directory: str, error: Unreadable | OSError) -> None:
        """Take that a look failed: what was known stays, for a read error is never "empty"."""
        if isinstance(error, Unreadable):
            self._closed(directory)
        else:
            log.warning("look put off dir=%r error=%r", directory, str(error))
            self.put_off[directory] = error.strerror or str(error)
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

    # -- our own pen

    async def alone(self, directory: str, act: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run an act on a directory behind all others on it, while nobody looks at it; an act is never cut short."""
        queue = self._acts.setdefault(directory, [])
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = queue[-1] if queue else None
        queue.append(over)
        task = asyncio.create_task(self._act(directory, before, act))
        task.add_done_callback(lambda done: self._act_ended(directory, over, done))
        return await asyncio.shield(task)

    async def _act(
        self,
        directory: str,
        before: asyncio.Future[None] | None,
        act: Callable[[], Coroutine[Any, Any, _Result]],
    ) -> _Result:
        if before is not None:
            await before
        while directory in self._busy:
            await asyncio.wait({self._busy[directory]})
        this = asyncio.current_task()
        assert this is not None
        self._busy[directory] = this
        return await act()

    def _act_ended(self, directory: str, over: asyncio.Future[None], task: asyncio.Task[Any]) -> None:
        queue = self._acts[directory]
        queue.remove(over)
        over.set_result(None)
        if queue:
            self._act_over(directory, task)
        else:
            del self._acts[directory]
            # Whoever asked for the act gets the answer first; then what was seen meanwhile is looked at.
            asyncio.get_running_loop().call_later(0, self._act_over, directory, task)

    def _act_over(self, directory: str, task: asyncio.Task[Any]) -> None:
        if self._busy.get(directory) is task:
            del self._busy[directory]
        if directory not in self._acts:
            self._begin(directory)

    def shows_changes(self, kept: Kept) -> bool:
        """Tell whether a directory's facts are not as its snapshot says; True also where that takes long to say."""
        directory = kept.snapshot.directory
        one_name = len(self.grounds.aliases(directory)) == 0
        if one_name and directory not in self._due and self.watch.is_current(directory):
            return False
        return len(kept.snapshot.facts) > INLINE_FACTS or shows_changes(
            kept.snapshot, kept.layout, self._ignored
        )

    async def look_inside(self, directory: str, layout: Layout, files: Iterable[str] | None = None) -> None:
        """Look at a directory from within an act on it: at these files, or at everything. What is found is told.

        Raises: Unreadable, when it cannot be listed.
        """
        kept = self.store.kept.get(directory)
        named = None
        if kept is not None and files is not None:
            named = frozenset(os.path.join(directory, *file.split("/")) for file in files)
        if directory not in self.grounds.chief:
            self.grounds.note(directory)
        if kept is None:
            self._first_seen[directory] = self.watch.clock()
        reading = await _looked(
            look(
                directory,
                layout,
                kept.snapshot if kept else None,
                named=named,
                believe_empty=self._believes_empty,
                ignored=self._ignored,
            )
        )
        if reading is None:
            self.store.gone(directory)
            self._let_go(directory, is_gone=True)
        else:
            adopt = kept is None and not self.ready and self.store.database.is_new
            self.store.take(
                reading.snapshot, layout, files=reading.files, adopt=adopt, contents=reading.contents
            )
            self._hold(directory, layout, reading)
            self.telling.found(directory)

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
        async with self._one_scan:
            if self._stopped:
                return
            await self.watch.rewatch()
            self.grounds.survey()
            self._drift.clear()
            self._heard_of.clear()
            known = [*self.grounds.directories(), *self.store.kept, *self.store.gone_before]
            for directory in dict.fromkeys(known):
                tree = self.grounds.tree_of(directory)
                if tree is None:
                    self._let_go(directory)  # its root is no longer watched
                elif base is None or tree.base == base:
                    await self._look_whole(directory)
            await self._quiet()
            drift = self._drift.total()
            if drift and reason in DISTRUSTING:
                await self._distrust()
            self._note_scan(base)
            if self._stopped:
                return
            if reason != "start" and (reason != "schedule" or drift):
                self.drift_found += drift
                self._note_drift()
                self.store.tell("daemon/rescanned", {"reason": reason, "base": base, "drift": drift})
                self.store.commit()
            self._watch_young()

    def _note_scan(self, base: str | None) -> None:
        self.last_scan_ms = self.store.clock_ms()
        bases = {tree.base for tree in self.grounds.trees}
        scanned = bases if base is None else {base}
        self.scanned_ms = {
            one: self.last_scan_ms if one in scanned else self.scanned_ms[one]
            for one in bases
            if one in scanned or one in self.scanned_ms
        }

    def _note_drift(self) -> None:
        for directory, found in self._drift.items():
            tree = self.grounds.tree_of(directory)
            if tree is not None:
                self.drift_of[tree.base] += found

    async def _distrust(self) -> None:
        """Have polled from now on what changes in silence: some file systems take a watch and never tell."""
        silent = await self.watch.silent_in(tuple(self._drift))
        trees = [self.grounds.tree_of(directory) for directory in silent if directory not in self._heard_of]
        for base in dict.fromkeys(tree.base for tree in trees if tree is not None):
            self.watch.distrust(base, SILENT)

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
        if self._young_timer is not None:
            self._young_timer.cancel()
        if young:
            wait_s = YOUNG_NS / 1e9 + 0.1
            self._young_timer = asyncio.get_running_loop().call_later(wait_s, self._look_at_young, young)

    def _look_at_young(self, young: Mapping[str, set[str]]) -> None:
        for directory, paths in young.items():
            if directory in self.store.kept:
                self._due.setdefault(directory, _Due()).paths.update(paths)
                self._begin(directory)

    async def _quiet(self) -> None:
        """Wait until nothing is being looked at or written, and all that was found is told and audited."""
        while self._busy:
            await asyncio.wait(set(self._busy.values()))
        self.telling.tell_now()

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
        """End all looks, tell what was found so far, and begin no more."""
        self._stopped = True
        while self._acts:
            await asyncio.wait([over for queue in self._acts.values() for over in queue])
        if self._young_timer is not None:
            self._young_timer.cancel()
        tasks = {*self._tasks, *self._busy.values()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.telling.stop()


async def _looked(slices: _Slices) -> Reading | None:
    """Go through the slices of a look, and let others have their turn between them."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return cast("Reading | None", done.value)
        await asyncio.sleep(0)


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
