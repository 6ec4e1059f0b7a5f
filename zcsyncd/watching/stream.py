"""The end of stage 1: one async stream of what has settled, from whatever kind of watcher each tree has.
Door: asyncio, the file system (canaries).

    kernel ─► linux ────┐
    observer ─► portable ├─► touched / whole / unsure ─► Settler ─► settled() ─► daemon.pipeline
    polling ─────────────┘

Rule 1: nothing is put off that is due: an event wakes the consumer in the same turn of the loop, without a timer.
Rule 2: while nothing waits there is no timer at all.
Rule 3: due paths are taken when the consumer asks, so what it is too busy for is merged, and bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.linux import Inotify
from zcsyncd.watching.polling import Drift, Poller
from zcsyncd.watching.portable import Portable
from zcsyncd.watching.reports import Names, TreeState
from zcsyncd.watching.settle import Degraded, Settled, Settler, Unsure

T = TypeVar("T")

Mode = Literal["auto", "inotify", "observer", "poll"]
"""`auto`: inotify on Linux, watchdog's observer elsewhere; polling for what they refuse."""

TURN_S = 0.005
"""A consumer that never waits gives the loop a turn this often: the kernel's queue has to be drained meanwhile."""
CANARY_S = 5.0
"""An event takes 0.3 ms; if the canary's has not come after this, the watcher is not to be relied on."""
STEPS_A_TURN = 32
"""Directories that are walked before the loop gets a turn: about 1 ms."""


class Barrier:
    """A mark in the stream. Whoever has dealt with everything before it calls `done`."""

    def __init__(self, on_done: Callable[[Barrier], None]) -> None:
        self.passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held: frozenset[tuple[str, str]] | None = None
        """Set at the first `done`: the holds of that moment are waited for, later ones are not."""
        self.deadline = 0.0
        """Up to here: a path that is held again and again must not keep whoever waits."""
        self._on_done = on_done

    def done(self) -> None:
        """Say that all earlier items are dealt with. The mark comes once more if something is still held."""
        self._on_done(self)


@dataclass(slots=True, eq=False)
class Ping:
    """A question to the consumer: does it still take what comes? It answers at once, by `heard`."""

    answered: asyncio.Future[bool]

    def heard(self) -> None:
        """Say yes."""
        _resolve(self.answered, True)


class Watch:
    """Watches trees and tells what has settled in their memory directories.

    `quiet_s` and `longest_s` are the settler's bounds. `ending` tells the names whose content matters, `beside`
    those that only matter by being there (locks, temporary files); all others are passed over. `canary_dir` is
    made, private to us, and must not lie in a tree. `poll_s` is the pause between two polls.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        *,
        canary_dir: str,
        ending: Callable[[str], bool],
        beside: Callable[[str], bool] = lambda _: False,
        quiet_s: float = 0.05,
        longest_s: float = 1.0,
        mode: Mode = "auto",
        poll_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._trees = tuple(trees)
        self._canary_dir = canary_dir
        self._names = Names(ending, beside)
        self._mode = mode
        self._poll_s = poll_s
        self._longest_s = longest_s
        self._settler = Settler(quiet_s=quiet_s, longest_s=longest_s)
        self._items: deque[Settled | Unsure | Degraded | Barrier | Ping] = deque()
        self._barriers: set[Barrier] = set()
        self._held: list[Barrier] = []
        self._inotify: Inotify | None = None
        self._portable: Portable | None = None
        self._poller: Poller | None = None
        self._polled: dict[Tree, TreeState] = {}
        self._retried: set[Tree] = set()
        """Polled trees for which watches are asked for again at each `rewatch`."""
        self._first_pass: dict[Tree, asyncio.Future[None]] = {}
        self._canaries: dict[str, asyncio.Future[bool]] = {}
        self._canary_serial = 0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._no_inotify = ""
        self._started = False
        self._stopped = False

    # -- life

    async def start(self) -> None:
        """Watch. When this returns all watches live (or the first poll is done): what changes from now on is told."""
        self._loop = asyncio.get_running_loop()
        self._poller = Poller(self._loop, self._names, self._poll_s, self._on_drift)
        self._open()
        for tree in self._trees:
            self._watch(tree, tell=False)
        if self._first_pass:
            await asyncio.wait(self._first_pass.values())
        self._started = True

    async def stop(self) -> None:
        """Give everything back to the system, end `settled()`, and let go of who waits at a barrier."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._inotify is not None:
            self._close_inotify(self._inotify)
        if self._portable is not None:
            await asyncio.to_thread(self._portable.close)
        if self._poller is not None:
            await asyncio.to_thread(self._poller.stop)
        for heard in self._canaries.values():
            _resolve(heard, False)
        for passed in list(self._first_pass.values()):
            _resolve(passed, None)
        for barrier in self._barriers:
            _resolve(barrier.passed, None)
        self._wake()

    async def settled(self) -> AsyncIterator[Settled | Unsure | Degraded | Barrier | Ping]:
        """Give what is due, in order, until `stop`. One consumer.

        On `Unsure` it calls `rewatch` and then looks at everything below the base, in this order.
        """
        turn = self.clock()
        while not self._stopped:
            if not self._items:
                self._items.extend(self._settler.due(self.clock()))
                self._recall()
            if not self._items:
                await self._wait()
                turn = self.clock()
                continue
            yield self._items.popleft()
            if self.clock() - turn > TURN_S:
                await asyncio.sleep(0)
                turn = self.clock()

    @property
    def has_more(self) -> bool:
        """Whether an item is ready already, behind the one that the consumer deals with."""
        if self._items:
            return True
        due = self._settler.next_due()
        return due is not None and due <= self.clock()

    @property
    def has_canary(self) -> bool:
        """Whether `alive` puts a file on the disk and waits for the system's event of it."""
        return self._inotify is not None

    # -- what the consumer may ask for

    def is_current(self, directory: str) -> bool:
        """Tell whether all that happened in a directory before the call was delivered; False where nobody knows.

        Only the kernel's own queue can tell, and only for a tree of which events are known to come.
        """
        inotify = self._inotify
        return (
            inotify is not None
            and not self._polled
            and not self._items
            and not self._settler.waits_for(directory)
            and inotify.has_told(directory)
            and not inotify.kernel.queued_bytes()
        )

    def hold(self, directory: str, path: str, until: float) -> None:
        """Deliver `path` again at `until` (of `clock`): it is not believed yet, such as an index of size 0.

        An event of the path before that delivers it too, and ends the hold: who still doubts holds again.
        """
        self._settler.hold(directory, path, until)
        self._pulse()

    async def barrier(self) -> None:
        """Return once everything on disk before the call has been through the stream and was dealt with.

        Quiet times are skipped; what is held is waited for. Bases whose events have no order (polled, or watched
        by watchdog's observer) are put into the stream as `Unsure("flush")`: only a scan can tell.
        """
        if self._stopped:
            return
        if self._inotify is not None and not await self._sing():
            self._say(Unsure("canary"))
        unordered = [state.base for state in self.state() if state.kind != "inotify"]
        if unordered:
            self._say(Unsure("flush", unordered[0] if len(unordered) == 1 else None))
        self._settler.expedite(self.clock())
        self._items.extend(self._settler.due(self.clock()))
        barrier = Barrier(self._dealt_with)
        self._barriers.add(barrier)
        self._items.append(barrier)
        self._pulse()
        try:
            if not self._stopped:
                await barrier.passed
        finally:
            self._barriers.discard(barrier)

    async def rewatch(self) -> None:
        """Bring all watches in line with the disk, in slices; part of every scan, before it reads.

        Trees that are polled for want of watches try to get some.
        """
        if self._stopped:
            return
        self._open()
        for tree in list(self._retried & self._polled.keys()):
            self._try_again(tree)
        for source in (self._inotify, self._portable):
            if source is None:
                continue
            for number, _ in enumerate(source.look_again()):
                if number % STEPS_A_TURN == STEPS_A_TURN - 1:
                    await asyncio.sleep(0)
                if self._stopped:
                    return
        self._pulse()

    def settle_by(self, quiet_s: float, longest_s: float) -> None:
        """Wait so long for quiet from now on; what waits already keeps its time."""
        self._longest_s = longest_s
        self._settler.settle_by(quiet_s, longest_s)

    async def silent_in(self, directories: Collection[str]) -> list[str]:
        """Give those directories of which nothing waits, once every event before the call has come in.

        Of what a scan found changed in them, and no event has told by now, no event will.
        """
        if self._inotify is None or not await self._sing():
            return []
        return [directory for directory in directories if not self._settler.waits_for(directory)]

    def distrust(self, base: str, reason: str) -> None:
        """Poll a base from now on: a scan found changes in it that no event had told."""
        last = {(state.layout, state.base): state.last_event_at for state in self.state()}
        for tree in self._trees:
            if tree.base == base and tree not in self._polled and self._poller is not None:
                for source in (self._inotify, self._portable):
                    if source is not None:
                        source.remove(tree)
                self._poll(tree, reason, last.get((tree.layout, tree.base)))
        self._pulse()

    def set_trees(self, trees: Sequence[Tree]) -> None:
        """Watch these trees instead; one is known by its layout and base. What comes or goes is told as `Unsure`."""
        wanted = {(tree.layout, tree.base): tree for tree in trees}
        former = {(tree.layout, tree.base): tree for tree in self._trees}
        self._trees = tuple(former.get(key, tree) for key, tree in wanted.items())
        for key, tree in former.items():
            if key not in wanted:
                self._unwatch(tree)
                self._say(Unsure("base-removed", tree.base))
        for key, tree in wanted.items():
            if key not in former:
                self._watch(tree, tell=True)
        self._pulse()

    def state(self) -> tuple[TreeState, ...]:
        """Tell how each tree is watched, in the order of the trees."""
        states: dict[tuple[str, str], TreeState] = {}
        for source in (self._inotify, self._portable):
            if source is not None:
                states |= {(state.layout, state.base): state for state in source.states()}
        states |= {(tree.layout, tree.base): state for tree, state in self._polled.items()}
        return tuple(
            states[tree.layout, tree.base] for tree in self._trees if (tree.layout, tree.base) in states
        )

    async def alive(self) -> bool:
        """Tell whether an event still finds its way to the consumer, and the consumer takes it."""
        if self._stopped or (self._poller is not None and not self._poller.is_alive()):
            return False
        if self._portable is not None and not self._portable.is_alive():
            return False
        if self._inotify is not None and not await self._sing():
            return False
        ping = Ping(self._loop.create_future())
        self._items.append(ping)
        self._pulse()
        try:
            async with asyncio.timeout(CANARY_S):  # not wait_for: Python 3.11's may swallow a cancellation
                return await ping.answered
        except TimeoutError:
            return False

    def rearm(self) -> None:
        """Give all watches up and take new ones: the former do not answer. What they may have missed is scanned for."""
        if self._inotify is None or self._stopped:
            return
        self._close_inotify(self._inotify)
        self._open()
        for tree in self._trees:
            if tree not in self._polled:
                self._watch(tree, tell=True)
        self._say(Unsure("rearmed"))

    def distrust_all(self, reason: str) -> None:
        """Poll every base from now on: no watch can be relied on."""
        for tree in self._trees:
            self.distrust(tree.base, reason)

    # -- what watchers report (the `Reports` surface)

    def touched(self, directory: str, path: str, *, final: bool = False, weak: bool = False) -> None:
        """Take an event of a path."""
        self._settler.touch(directory, path, self.clock(), final=final, weak=weak)

    def whole(self, directory: str, *, lost: bool = False) -> None:
        """Take that a directory is to be looked at as a whole."""
        self._settler.whole(directory, self.clock(), lost=lost)

    def unsure(self, reason: str, base: str | None) -> None:
        """Take that a base is to be scanned."""
        self._say(Unsure(reason, base, self.clock()))

    def all_told(self) -> None:
        """Take that a batch of events is over."""
        self._pulse()

    def refused(self, base: str, reason: str) -> None:
        """Take that a base gets no watches: poll it."""
        for tree in self._trees:
            if tree.base == base and tree not in self._polled:
                self._retried.add(tree)
                self._poll(tree, reason)

    def overflowed(self) -> None:
        """Take that events were lost."""
        self._say(Unsure("overflow"))
        # What was written before now is found by the scan, so nobody waits for a canary that may be lost too.
        self._heard(list(self._canaries))

    # -- sources

    def _open(self) -> None:
        kind = self._mode
        if kind == "auto":
            kind = "inotify" if sys.platform == "linux" else "observer"
        if kind == "observer" and self._portable is None:
            self._portable = Portable(self, self._names, self._loop)
        if kind != "inotify" or self._inotify is not None:
            return
        try:
            inotify = Inotify(self, self._names)
        except OSError as error:
            self._no_inotify = f"the system gives no inotify instance ({error.strerror or error})"
            return
        try:
            self._make_canary_dir()
            inotify.watch_canary(self._canary_dir)
        except OSError as error:
            inotify.close()
            self._no_inotify = f"{self._canary_dir} cannot be watched ({error.strerror or error})"
            return
        self._inotify = inotify
        self._loop.add_reader(inotify.kernel.fileno(), self._readable)

    def _close_inotify(self, inotify: Inotify) -> None:
        self._loop.remove_reader(inotify.kernel.fileno())
        inotify.close()
        self._inotify = None
        with contextlib.suppress(OSError):
            for name in os.listdir(self._canary_dir):
                os.unlink(os.path.join(self._canary_dir, name))
            os.rmdir(self._canary_dir)

    def _readable(self) -> None:
        inotify = self._inotify
        if inotify is None:
            return
        try:
            inotify.drain()
        except OSError as error:
            # The descriptor is broken: nothing will ever come from it again.
            self._close_inotify(inotify)
            for tree in self._trees:
                self.refused(tree.base, f"inotify failed ({error.strerror or error})")
        if inotify.canary_seen:
            self._heard(inotify.canary_seen)
            inotify.canary_seen.clear()
        self._pulse()

    def _watch(self, tree: Tree, *, tell: bool) -> None:
        if self._mode == "poll":
            self._poll(tree, "polling was asked for")
        elif (source := self._inotify or self._portable) is not None:
            source.add(tree, tell=tell)
        else:
            self.refused(tree.base, self._no_inotify)

    def _unwatch(self, tree: Tree) -> None:
        for source in (self._inotify, self._portable):
            if source is not None:
                source.remove(tree)
        self._stop_polling(tree)

    def _try_again(self, tree: Tree) -> None:
        source = self._inotify or self._portable
        if source is None:
            return
        source.add(tree, tell=False)  # a refusal of what is polled already says nothing new
        if tree in source:
            self._stop_polling(tree)

    # -- polling

    def _poll(self, tree: Tree, reason: str, last_event_at: float | None = None) -> None:
        poller = self._poller
        assert poller is not None
        self._polled[tree] = TreeState(tree.layout, tree.base, "polling", 0, last_event_at, reason)
        if self._mode != "poll":
            self._say(Degraded(tree.base, reason))
        self._first_pass[tree] = self._loop.create_future()
        self._first_pass[tree].add_done_callback(lambda _: self._first_pass.pop(tree, None))
        poller.add(tree)

    def _stop_polling(self, tree: Tree) -> None:
        self._retried.discard(tree)
        if self._polled.pop(tree, None) is not None and self._poller is not None:
            self._poller.remove(tree)
            _resolve(self._first_pass.get(tree), None)

    def _on_drift(self, drift: Drift) -> None:
        state = self._polled.get(drift.tree)
        if state is None or self._stopped:
            return
        if drift.first:
            _resolve(self._first_pass.get(drift.tree), None)
            if self._started:
                self._say(Unsure("polling", drift.tree.base))
        else:
            self._polled[drift.tree] = replace(state, last_event_at=time.time())
        for directory, path in drift.paths:
            self.touched(directory, path)
        for directory in drift.whole:
            self.whole(directory)
        if drift.base is not None:
            self._say(Unsure(drift.base, drift.tree.base))
        self._pulse()

    # -- canaries

    def _make_canary_dir(self) -> None:
        # Not its parents: the directory above is the caller's, with the caller's mode.
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._canary_dir, mode=0o700)
        os.chmod(self._canary_dir, 0o700)

    async def _sing(self) -> bool:
        """Put a canary on the disk, and tell whether its event came: then all earlier events have."""
        self._canary_serial += 1
        name = f"{os.getpid()}-{self._canary_serial}"
        path = os.path.join(self._canary_dir, name)
        heard: asyncio.Future[bool] = self._loop.create_future()
        self._canaries[name] = heard
        try:
            self._put_canary(path)
            async with asyncio.timeout(CANARY_S):
                return await heard
        except (OSError, TimeoutError):
            return False
        finally:
            del self._canaries[name]
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _put_canary(self, path: str) -> None:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            os.close(os.open(path, flags, 0o600))
        except FileNotFoundError:
            # Somebody swept our directory away: make it and its watch again.
            self._make_canary_dir()
            if self._inotify is not None:
                self._inotify.watch_canary(self._canary_dir)
            os.close(os.open(path, flags, 0o600))

    def _heard(self, names: Sequence[str] | set[str]) -> None:
        for name in names:
            _resolve(self._canaries.get(name), True)

    # -- the stream

    def _say(self, item: Unsure | Degraded) -> None:
        if item in self._items:  # a scan that has not begun finds this too
            self._items[self._items.index(item)] = item  # it was noticed later
        else:
            self._items.append(item)
        self._pulse()

    def _dealt_with(self, barrier: Barrier) -> None:
        holds = self._settler.holds
        if barrier.held is None:
            barrier.held = frozenset(holds)
            barrier.deadline = max(holds.values(), default=0.0) + self._longest_s
        if self._is_held(barrier):
            self._held.append(barrier)
        else:
            _resolve(barrier.passed, None)

    def _recall(self) -> None:
        """Put barriers into the stream again whose holds have been delivered just now."""
        for barrier in [barrier for barrier in self._held if not self._is_held(barrier)]:
            self._held.remove(barrier)
            self._items.append(barrier)

    def _is_held(self, barrier: Barrier) -> bool:
        holds = self._settler.holds
        return any(holds[key] <= barrier.deadline for key in barrier.held or () if key in holds)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        self._pulse()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _pulse(self) -> None:
        """Wake the consumer if there is something for it, or set the timer for when there will be."""
        if self._waiter is None or self._waiter.done():
            return  # it is at work, and looks for itself before it waits
        if self._items:
            self._wake()
            return
        due = self._settler.next_due()
        if due is None:
            return
        wait_s = due - self.clock()
        if wait_s <= 0:
            self._wake()
        elif self._timer is None or due < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._pulse()

    def _wake(self) -> None:
        _resolve(self._waiter, None)


def _resolve(future: asyncio.Future[T] | None, result: T) -> None:
    if future is not None and not future.done():
        future.set_result(result)
