"""Sees to it that the daemon is what it seems to be, every minute, or as often as the service manager asks.
Door: clocks, the socket's file, the service manager.

    is it alive?   watcher ─► stream ─► pipeline answers a canary; else watches are taken anew, else roots are polled
    is it called?  the socket's file is still ours; the endpoint file is there
    what time?     after a sleep, or a jump of the clock, one scan, and the jobs by the new time
    is it itself?  the package on the disk is still the one that runs

Rule 1: a sign of life goes to the manager only behind an answered canary: a daemon that hears nothing is restarted.
Rule 2: what cannot be mended here is told once, in the log and in `status`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zcsyncd.bus.endpoint import read_endpoint, write_endpoint
from zcsyncd.bus.unix import bind_socket, socket_inode
from zcsyncd.daemon.notify import WATCHDOG_SHARE, Notifier
from zcsyncd.daemon.report import package_skew
from zcsyncd.errors import Refused, Replaced, ZcsyncdError
from zcsyncd.places import private_directory, socket_directory

if TYPE_CHECKING:
    from zcsyncd.daemon.app import Daemon

log = logging.getLogger(__name__)

PAUSE_S = 60.0
"""Between two rounds, where no manager asks for more."""
START_S = 30.0
"""So much more time is asked for while the first scan goes on, with each round."""
JUMP_S = 5.0
"""A clock that is set by less than this is being adjusted, which is no news."""
LATE_S = 20.0
"""A round that comes later than this was slept through."""
NO_ANSWER = "the watcher did not answer, even after its watches were taken anew"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by all clocks, in seconds."""

    monotonic: float
    wall: float
    boot: float | None = None
    """Like `monotonic`, but it goes on during a sleep; None where the system has no such clock."""

    @classmethod
    def now(cls) -> Moment:
        """Look at the clocks."""
        boot: float | None = None
        if sys.platform == "linux":
            boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return cls(time.monotonic(), time.time(), boot)


def jump(before: Moment, now: Moment, planned_s: float) -> Literal["woke", "clock"] | None:
    """Tell whether the machine slept, or its time of day was set, between two moments `planned_s` apart.

    A sleep is told by the boot clock, elsewhere by a round that comes much too late; a time of day that ran ahead of
    a clock that sleeps with the machine may be either, and is called a sleep where no boot clock says otherwise.
    """
    passed = now.monotonic - before.monotonic
    if before.boot is not None and now.boot is not None:
        slept = now.boot - before.boot - passed
    else:
        slept = 0.0 if now.wall - before.wall - passed <= JUMP_S else now.wall - before.wall - passed
    if slept > JUMP_S or passed > planned_s + LATE_S:
        return "woke"
    ahead = now.wall - before.wall - passed - max(slept, 0.0)
    return "clock" if abs(ahead) > JUMP_S else None


class Supervisor:
    """Makes the rounds."""

    def __init__(self, daemon: Daemon, notifier: Notifier) -> None:
        self.notifier = notifier
        self.pause_s = PAUSE_S
        if notifier.watchdog_s is not None:
            self.pause_s = min(PAUSE_S, notifier.watchdog_s / WATCHDOG_SHARE)
        self.complaints: dict[str, str] = {}
        """What cannot be mended here, by what it is about; for `status`."""
        self._daemon = daemon
        self._task: asyncio.Task[None] | None = None
        self._last = Moment.now()
        self._other_version = 0
        """Rounds that found another version on the disk, one after the other."""

    def start(self) -> None:
        """Begin the rounds; the watch lives, and somebody consumes its stream."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Make no more rounds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        self._last = Moment.now()
        while True:
            await self.go_round()
            await asyncio.sleep(self.pause_s)

    async def go_round(self, now: Moment | None = None) -> None:
        """Look after everything once; `now` None: by the clocks."""
        now = now or Moment.now()
        if await self._is_alive():
            self.notifier.alive()
        if not self._daemon.ready.is_set():
            self.notifier.needs(START_S + self.pause_s)
        before, self._last = self._last, now
        for part in (
            self._mind_the_clocks(before, now),
            self._mind_the_socket(),
            self._mind_the_endpoint(),
            self._mind_the_state(),
            self._mind_the_package(),
        ):
            try:
                await part
            except Exception:
                # Whatever fails here, the other parts are looked after, and the next round comes.
                log.exception("round failed")
        self.tell()

    def tell(self) -> None:
        """Tell the manager how it goes, without a name of anything of the person's."""
        store, state = self._daemon.store, self._daemon.watch.state()
        counts = [sum(kept.counts[severity] for kept in store.kept.values()) for severity in range(2)]
        kinds = ",".join(sorted({tree.kind for tree in state})) or "none"
        said = f"directories={len(store.kept)} errors={counts[0]} warnings={counts[1]} watcher={kinds}"
        self.notifier.status(" ".join([said, *(f"trouble={what}" for what in self.complaints)]))

    # -- the parts of a round

    async def _is_alive(self) -> bool:
        watch = self._daemon.watch
        if await watch.alive():
            return True
        log.warning("watcher silent, its watches are taken anew")
        watch.rearm()
        if await watch.alive():
            return True
        log.error("watcher silent, everything is polled")
        watch.distrust_all(NO_ANSWER)
        return await watch.alive()

    async def _mind_the_clocks(self, before: Moment, now: Moment) -> None:
        reason = jump(before, now, self.pause_s)
        if reason is None or not self._daemon.ready.is_set():
            return
        log.info("rescan reason=%s", reason)
        self._daemon.schedule.retime()
        await self._daemon.pipeline.scan(reason)

    async def _mind_the_socket(self) -> None:
        """See to it that whoever looks for us finds us: a cleaner, or another program, may have taken the file."""
        daemon = self._daemon
        inode = daemon.socket_inode
        if inode is None or socket_inode(daemon.address) == inode:
            self.complaints.pop("socket", None)
            return
        try:
            own_directory = socket_directory(daemon.env, daemon.settings.bus_address)
            if own_directory is not None:
                private_directory(own_directory)
            bound = bind_socket(daemon.address)
        except ZcsyncdError as error:
            self._complain("socket", f"{daemon.address} was taken from the daemon: {error}")
            return
        await daemon.listen_at(bound)
        self.complaints.pop("socket", None)
        log.warning("socket bound again address=%r", daemon.address)

    async def _mind_the_endpoint(self) -> None:
        """See to it that the endpoint file names us, and nobody else: the lock says that we are the one."""
        daemon = self._daemon
        if read_endpoint(daemon.state) == daemon.endpoint():
            self.complaints.pop("endpoint", None)
            return
        try:
            write_endpoint(daemon.state, daemon.endpoint())
        except (ZcsyncdError, OSError) as error:
            self._complain("endpoint", f"clients do not find the daemon by its endpoint file: {error}")
        else:
            self.complaints.pop("endpoint", None)

    async def _mind_the_state(self) -> None:
        """Find out that the database was removed, or another one put in its place: what we keep goes to nobody then."""
        daemon = self._daemon
        if not daemon.lock.is_in_place():
            # Nobody is kept out any more: two that write one database are worse than none.
            daemon.failure = Refused(
                f"{daemon.lock.path} was removed under the daemon: another one may write the same database",
                hint="start it again; nobody but zcsyncd has anything to remove there",
            )
            daemon.stopped.set()
            return
        if daemon.database.is_in_place():
            self.complaints.pop("state", None)
            return
        told = f"{daemon.database.path} was taken away: what is told and saved from now on is lost when the daemon ends"
        self._complain("state", f"{told}; restart it")
        if daemon.is_service and daemon.failure is None:
            daemon.failure = ZcsyncdError(told)  # the manager starts another one, on what is there now
            daemon.stopped.set()

    def _complain(self, about: str, told: str) -> None:
        """Tell what cannot be mended here, once in the log."""
        if self.complaints.get(about) != told:
            self.complaints[about] = told
            log.warning("trouble about=%s reason=%r", about, told)

    async def _mind_the_package(self) -> None:
        found = package_skew()
        self._other_version = self._other_version + 1 if found is not None else 0
        if found is None:
            self.complaints.pop("package", None)
        elif not self._daemon.is_service:
            self._complain("package", f"zcsyncd {found} is installed, an older one runs: restart it")
        elif self._other_version > 1:  # once more: it may still be being installed
            log.warning("package changed version=%s, leaving to be started anew", found)
            self._daemon.failure = Replaced(f"zcsyncd {found} was installed in place of the one that runs")
            self._daemon.stopped.set()
