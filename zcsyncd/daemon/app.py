"""Builds, wires, starts and stops the daemon, in the written order.

Start: lock → database → socket (it answers from here on) → endpoint file → watches live → first scan → ready.
Stop: no new connections → looks end → `daemon/stopping`, the last commit → watches down → endpoint file gone → other
connections closed → the answer → socket gone → database closed → lock let go.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from zcsyncd import __version__
from zcsyncd.bus.connection import Session
from zcsyncd.bus.endpoint import Endpoint, remove_endpoint, write_endpoint
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.hub import Hub
from zcsyncd.bus.limits import PROTOCOL
from zcsyncd.bus.server import Server
from zcsyncd.bus.unix import activated_socket, bind_socket, remove_socket, socket_inode
from zcsyncd.config import Settings
from zcsyncd.daemon.database import CHECKPOINT_ROWS, Database, check_point, drop_events, plan_retention
from zcsyncd.daemon.desk import Desk
from zcsyncd.daemon.forgetting import purge, tidy
from zcsyncd.daemon.grounds import Grounds
from zcsyncd.daemon.handlers import Handlers
from zcsyncd.daemon.keeping import Keeping
from zcsyncd.daemon.lock import StateLock, hold_lock
from zcsyncd.daemon.logs import LogPlace, log_by, place_of_log
from zcsyncd.daemon.notify import Notifier
from zcsyncd.daemon.pipeline import Pipeline, wall_clock_ms
from zcsyncd.daemon.reloading import Changed, reload
from zcsyncd.daemon.remembering import file_of
from zcsyncd.daemon.report import package_skew, status
from zcsyncd.daemon.schedule import Schedule
from zcsyncd.daemon.store import Store
from zcsyncd.daemon.supervisor import Supervisor
from zcsyncd.daemon.territory import MOST_TOLD, Territory
from zcsyncd.errors import AlreadyRunning, ConfigError, ZcsyncdError
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.memory.answers import time_text
from zcsyncd.memory.audit import RULES
from zcsyncd.memory.pen import sweep
from zcsyncd.places import default_address, private_directory, socket_directory, state_dir
from zcsyncd.settings import MOVING_VARIABLES, read_settings
from zcsyncd.watching.stream import Watch

if TYPE_CHECKING:
    import socket

    from zcsyncd.bus.server import Link

log = logging.getLogger(__name__)

HOUR_S = 3600.0
MINUTE_S = 60.0
DAY_MS = 86_400_000
EXIT_AT_ONCE = 130
GC_ALLOCATIONS = 10_000
"""Objects between two collections: about a hundred changes. The default stops the loop every few changes."""


class Daemon:
    """Everything that runs, and nothing global."""

    def __init__(
        self,
        env: Mapping[str, str],
        settings: Settings,
        database: Database,
        state: str,
        address: str,
        *,
        notifier: Notifier,
        is_service: bool,
        logs: LogPlace | None,
        lock: StateLock,
    ) -> None:
        """`is_service`: a manager starts us anew when we leave with a failure. `logs`: None: this one does not log."""
        self.env = env
        self.is_service = is_service
        self.lock = lock
        self._logs = logs
        self.settings = settings
        self.database = database
        self.address = address
        self.started_ms = wall_clock_ms()
        self.started_monotonic = time.monotonic()
        self.ready = asyncio.Event()
        self.when_ready: list[Callable[[], None]] = []
        """What waits for the first scan."""
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        """Why the daemon stops by itself."""
        self.told_environment: dict[tuple[str, str], str] = {}
        self.grounds = Grounds()
        self.territory = Territory(env, settings, self.grounds, database.allowed(), database.cwds())
        self.hub = Hub(database, wall_clock_ms)
        self.store = Store(
            database,
            {layout.name: layout for layout in LAYOUTS},
            self._announce,
            clock_ms=wall_clock_ms,
            grace_ms=int(settings.audit_grace_s * 1000),
            muted=self._muted,
            refused=self._look_again,
            keeps_history=settings.history_enabled,
            most_versions=settings.history_max_versions,
            searches=settings.search_enabled,
        )
        self.watch = Watch(
            self.territory.refresh(),
            quiet_s=settings.settle_quiet_ms / 1000,
            longest_s=settings.settle_longest_ms / 1000,
            canary_dir=os.path.join(state, "canary"),
            ending=_is_memory_file,
            mode=settings.watch_mode,
            poll_s=settings.watch_poll_s,
        )
        self.pipeline = Pipeline(
            self.watch,
            self.store,
            self.grounds,
            quiet_s=settings.settle_quiet_ms / 1000,
            ignored=self._ignored,
            still_ours=self.territory.still_ours,
        )
        self.desk = Desk(self.store, self.pipeline)
        self.keeping = Keeping(self.store, self._is_full)
        self.pipeline.telling.behind = self._behind
        self.schedule = Schedule(wall_clock_ms)
        self.server = Server(Handlers(self).answer, self.hub)
        self.supervisor = Supervisor(self, notifier)
        self.state = state
        self._river: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[tuple[Changed, ...]] | None = None
        self.socket_inode: int | None = None
        self._going_down: asyncio.Task[None] | None = None
        self._check_pointing: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._history_full = False

    # -- starting

    async def start(self) -> None:
        """Bind, watch, scan; ready when it returns."""
        await self._listen()
        write_endpoint(self.state, self.endpoint())
        self.sweep()
        self.store.tell("daemon/started", {"version": __version__, "pid": os.getpid()})
        self.store.commit()
        log.info("daemon started version=%s pid=%d address=%r", __version__, os.getpid(), self.address)
        await self.watch.start()
        self._river = asyncio.create_task(self.pipeline.run())
        self.supervisor.start()
        self._river.add_done_callback(self._river_ended)
        gc.disable()  # a first scan makes records that stay: nothing to collect, and much to walk
        await self.pipeline.scan("start")
        self.store.work.note_adopted()
        self.store.commit()
        self.pipeline.ready = True
        self.ready.set()
        waiting, self.when_ready = self.when_ready, []
        for act in waiting:
            act()
        # What is kept from here on lives as long as the daemon: the collector need not walk it at every change.
        gc.freeze()
        gc.set_threshold(GC_ALLOCATIONS, 20, 50)
        gc.enable()
        log.info("daemon ready directories=%d", len(self.store.kept))
        self.keeping.start()
        self.schedule.every("check-point", MINUTE_S, self._check_point)
        self.schedule.every("retention", HOUR_S, self._retain)
        self.schedule_rescans()
        self.schedule.start()
        self.supervisor.notifier.ready()
        self.supervisor.tell()

    def schedule_rescans(self) -> None:
        """Look at everything as often as the settings say."""
        self.schedule.drop("rescan")
        if self.settings.rescan_every_s:
            self.schedule.every("rescan", self.settings.rescan_every_s, self._rescan)

    def set_up_logs(self) -> None:
        """Log as the settings say, if this daemon logs."""
        if self._logs is not None:
            log_by(self.settings, self._logs)

    async def _listen(self) -> None:
        if sys.platform == "win32":
            self.server.serve_pipe(self.address)
            return
        listening = activated_socket(os.environ)
        if listening is None:
            listening = bind_socket(self.address)
            self.socket_inode = socket_inode(self.address)  # ours to remove, as long as it is this one
        else:
            self.address = str(listening.getsockname())
        await self.server.serve(listening)

    async def listen_at(self, listening: socket.socket) -> None:
        """Accept connections at another socket from now on; those that there are go on."""
        self.server.stop_accepting()
        self.socket_inode = socket_inode(self.address)
        await self.server.serve(listening)

    def sweep(self) -> None:
        """Take away temporary files that a pen of ours left when it was killed."""
        for path, directory, file in self.database.temps():

            def keep(content: bytes, directory: str = directory, file: str = file) -> None:
                # A kill in the midst of a write may have left another pen's bytes here and nowhere else.
                now_ms = wall_clock_ms()
                self.store.memory.history.put_aside(
                    self.store.work, directory, file, content, mtime_ns=now_ms * 1_000_000, at_ms=now_ms
                )

            if sweep(path, keep=keep):
                log.info("leftover removed path=%r", path)
            if not os.path.lexists(path):
                self.store.work.drop_temp(path)

    async def look_once(self, params: Mapping[str, object]) -> None:
        """Look at what a request is about, without a watch: at one directory, or at all of them."""
        self.grounds.survey()
        directories = self.grounds.directories()
        if isinstance(params.get("dir"), str):
            directories = [self.grounds.kept_as(str(params["dir"]))]
        elif isinstance(params.get("cwd"), str):
            directories = [self.territory.resolve(str(params["cwd"])).dir or ""]
        elif isinstance(params.get("saved"), int):
            version = self.store.memory.history.version(cast("int", params["saved"]))
            directories = [version.directory] if version else []
        for directory in dict.fromkeys([*directories, *(self.store.kept.keys() & {*directories})]):
            tree = self.grounds.tree_of(directory)
            if tree is not None:
                await self.pipeline.look_inside(directory, self.store.layouts[tree.layout])
        self.pipeline.telling.tell_now()
        self.pipeline.ready = True
        self.ready.set()

    def _river_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("river ended", exc_info=error)
            self.failure = error
            self.stopped.set()  # better a restart by the service manager than a daemon that hears nothing

    def endpoint(self) -> Endpoint:
        """Give the note that tells others where we are."""
        return Endpoint(
            self.address,
            pid=os.getpid(),
            host=platform.node(),
            started_at=time_text(self.started_ms),
            protocol=PROTOCOL,
            version=__version__,
        )

    def _announce(self, events: Sequence[StoredEvent]) -> None:
        self.hub.announce(events)
        if self.database.rows_written > CHECKPOINT_ROWS and self._check_pointing is None:
            self._check_pointing = asyncio.create_task(self._check_point())

    def _behind(self) -> None:
        if self.pipeline.ready and self.store.memory.unkept:
            self.keeping.wake()
        if self.store.memory.history.stored_bytes > self.settings.history_max_bytes and self._tidying is None:
            self._tidying = asyncio.create_task(self._tidy())

    def _is_full(self) -> bool:
        return self._history_full

    def _look_again(self, directories: Sequence[str]) -> None:
        self.pipeline.look_again(directories)

    def _ignored(self, file: str) -> bool:
        return self.settings.ignored(file)

    def _muted(self, directory: str) -> frozenset[str]:
        return self.settings.muted_in(directory)

    # -- for the handlers

    def cursor(self) -> str:
        """Give the head's cursor."""
        return self.hub.cursor

    def server_words(self) -> dict[str, object]:
        """Say who answers."""
        return {
            "name": "zcsyncd",
            "version": __version__,
            "pid": os.getpid(),
            "startedAt": time_text(self.started_ms),
            "packageSkew": package_skew(),
        }

    def note_session(self, session: Session) -> None:
        """Learn from a session: its working directory, and how its environment differs from ours."""
        self.learn_cwd(session.cwd)
        for variable in MOVING_VARIABLES:
            told = session.env.get(variable)
            differs = told is not None and told != self.env.get(variable, "")
            if told is not None and differs and len(self.told_environment) < MOST_TOLD:
                self.told_environment[session.host, variable] = told
            else:
                self.told_environment.pop((session.host, variable), None)

    def learn_cwd(self, cwd: str) -> None:
        """Remember a working directory, also over a restart."""
        if self.territory.learn(cwd):
            self.store.work.learn_cwd(cwd, wall_clock_ms())
            self.store.commit()

    async def reload(self) -> tuple[Changed, ...]:
        """Read the configuration again, go by it, and tell what is another now.

        Raises: ConfigError, and nothing is changed.
        """
        self.supervisor.notifier.reloading()
        try:
            changed = await reload(self, self.env)
        except ConfigError as error:
            log.warning("reload refused reason=%r", str(error))
            raise
        finally:
            self.supervisor.notifier.ready()
        for one in changed:
            log.info("setting changed key=%s restart=%s", one.key, one.needs_restart)
        log.info("reloaded changed=%d", len(changed))
        return changed

    def reload_soon(self) -> None:
        """Read the configuration again; what is wrong with it goes to the log."""
        if self.ready.is_set():
            self._reloading = asyncio.create_task(self.reload())
            self._reloading.add_done_callback(_heard)
        else:
            self.when_ready.append(self.reload_soon)

    async def watch_named(self) -> None:
        """Watch directories that a settings file has just named."""
        if self.territory.new_trees():
            await self.retree()

    async def retree(self) -> None:
        """Watch what the settings, and what was named, make of it now."""
        self.watch.set_trees(self.territory.refresh())
        await self.pipeline.scan("directories")

    async def allow(self, directory: str, *, allowed: bool) -> None:
        """Take in (or let go of) a directory that a person allowed."""
        self.store.work.allow(directory, wall_clock_ms(), allowed=allowed)
        self.store.commit_or_raise()
        (self.territory.allowed.add if allowed else self.territory.allowed.discard)(directory)
        await self.retree()

    async def look(self, directories: Iterable[str]) -> None:
        """Look at directories on the disk now, and audit them."""
        await self.pipeline.look_at(directories)

    async def flush(self, *, rescan: bool) -> None:
        """Wait until everything on disk before the call has been told."""
        await self.ready.wait()
        if rescan:
            await self.pipeline.scan("asked")
        await self.watch.barrier()
        self.store.raise_refusal()
        for directory, why in self.pipeline.put_off.items():
            raise ZcsyncdError(
                f"{directory} cannot be looked at: {why}", hint="what changed there is told once it can"
            )

    async def probe(self, token: str) -> dict[str, object]:
        """Send a canary the way of an event; tell it to subscribers once it has come through."""
        begun = time.monotonic()
        alive = await self.watch.alive()
        seen = {
            "token": token,
            "wrote": self.watch.has_canary,
            "ms": round((time.monotonic() - begun) * 1000, 3),
        }
        if alive:
            self.store.tell("daemon/probed", seen)
            self.store.commit_or_raise()
        return {**seen, "alive": alive}

    def status(self, scope: frozenset[str] | None) -> dict[str, object]:
        """Tell how the daemon is."""
        return status(self, scope)

    # -- jobs

    async def _check_point(self) -> None:
        if self.database.rows_written:
            self.database.rows_written = 0
            try:
                await asyncio.to_thread(check_point, self.database.path)
            finally:
                self._check_pointing = None

    async def _rescan(self) -> None:
        await self.pipeline.scan("schedule")

    async def _tidy(self) -> None:
        settings = self.settings
        try:
            tidied = await asyncio.to_thread(
                tidy,
                self.database.path,
                most_bytes=settings.history_max_bytes,
                oldest_ms=wall_clock_ms() - int(settings.history_max_age_days * DAY_MS),
            )
            self.store.memory.history.stored_bytes = tidied.stored_bytes
            self._history_full = tidied.is_full
        finally:
            self._tidying = None

    def check_state(self) -> None:
        """See that what is kept is where it seems to be, before something is to be gone from there.

        Raises: ZcsyncdError, when the database was taken away.
        """
        if not self.database.is_in_place():
            raise ZcsyncdError(
                f"{self.database.path} was taken away from under the daemon",
                hint="restart it, then try again",
            )

    async def purge(self, directory: str, file: str | None, *, before_ms: int | None = None) -> int:
        """Remove saved versions for good, and what else is kept of them; give how many there were."""
        self.check_state()
        self.pipeline.telling.tell_now()
        kept = self.store.kept.get(directory)
        is_gone = kept is None or (file is not None and file_of(kept.snapshot, file) is None)
        self.store.forget_losses(directory, file)
        self.store.readers.begin().forget_file(directory, file)
        self.store.commit_or_raise()
        return await asyncio.to_thread(
            purge,
            self.database.path,
            directory,
            file,
            before_ms=before_ms,
            current=is_gone and before_ms is None,
            index_name=kept.layout.index_name if kept else "MEMORY.md",
        )

    async def _retain(self) -> None:
        await self._tidy()
        self.store.readers.begin().lapse(wall_clock_ms())
        settings = self.settings
        self.store.forget_gone_before(wall_clock_ms() - int(settings.history_max_age_days * DAY_MS))
        self.store.commit()
        upto = await asyncio.to_thread(
            plan_retention,
            self.database.path,
            max_events=settings.journal_max_events,
            max_bytes=settings.journal_max_bytes,
            oldest_ms=wall_clock_ms() - int(settings.journal_max_age_days * DAY_MS),
        )
        if upto:
            self.database.forget_upto(upto)
            await asyncio.to_thread(drop_events, self.database.path, upto)

    # -- stopping

    async def shut_down(self, but: Link | None = None) -> None:
        """Leave in the written order; `but` is the connection that still gets an answer."""
        if self._going_down is None:
            self._going_down = asyncio.create_task(self._leave(but))
        await asyncio.shield(self._going_down)

    async def _leave(self, but: Link | None) -> None:
        log.info("daemon stopping")
        self.supervisor.notifier.stopping()
        await self.supervisor.stop()
        self.server.stop_accepting()
        self.schedule.stop()
        if self._river is not None:
            self._river.cancel()
            await asyncio.gather(self._river, return_exceptions=True)
        await self.keeping.stop()
        await self.pipeline.stop()
        self.store.tell("daemon/stopping", {"pid": os.getpid()})
        self.store.commit()
        await self.watch.stop()
        remove_endpoint(self.state, self.endpoint())
        await self.server.close_all(but=but)
        self.stopped.set()

    async def close(self) -> None:
        """Give the last answer, then let go of everything."""
        remove_socket(self.address, self.socket_inode)
        await self.server.close()
        self.database.close()
        log.info("daemon stopped")


async def _run(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    signals = 0

    def told_to_stop() -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(EXIT_AT_ONCE)
        daemon.stopped.set()

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told_to_stop)
        had_terminal = os.isatty(2)

        def hung_up() -> None:
            # A terminal that closes takes with it what runs in it; a service is asked to read its configuration.
            if had_terminal and not os.isatty(2):
                _leave_terminal()
                told_to_stop()
            else:
                daemon.reload_soon()

        loop.add_signal_handler(signal.SIGHUP, hung_up)
    else:
        for number in (signal.SIGINT, signal.SIGBREAK):  # Ctrl-C and Ctrl-Break; there is no SIGTERM
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(told_to_stop))
    starting = asyncio.create_task(daemon.start())
    stopping = asyncio.create_task(daemon.stopped.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if starting.done():
            starting.result()
            await stopping
        else:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
    finally:
        stopping.cancel()
        await daemon.shut_down()
        await daemon.close()
    if daemon.failure is not None:
        raise daemon.failure


def _leave_terminal() -> None:
    """Write to nowhere from now on: a terminal that is gone gives an error for every line."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _heard(task: asyncio.Task[tuple[Changed, ...]]) -> None:
    """Take what a reload failed of: it is in the log."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, ConfigError):
        log.error("reload failed", exc_info=error)


def run_daemon(env: Mapping[str, str], *, as_service: bool = False) -> int:
    """Run the daemon until it is told to stop; give the exit code.

    `as_service`: a service manager starts it. That another one runs is no failure then: the manager would only try
    again and again.

    Raises:
        ConfigError: the configuration holds mistakes.
        AlreadyRunning: another daemon serves this state directory.
        Refused: a place that must be private is not.
        Replaced: another version of the package was installed meanwhile.
    """
    if sys.platform != "win32":
        # Until the loop listens: the configuration is about to be read anyway.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    notifier = Notifier(os.environ)
    as_service = as_service or notifier.is_managed
    try:
        with opened(env, logs=True, notifier=notifier, is_service=as_service) as make:

            async def main() -> None:
                await _run(make())

            asyncio.run(main())
    except AlreadyRunning as error:
        if not as_service:
            raise
        notifier.ready()  # the manager waits for it, and that is a good end
        sys.stderr.write(f"zcsyncd: {error}; nothing to do\n")
    return 0


@contextmanager
def opened(
    env: Mapping[str, str], *, logs: bool, notifier: Notifier | None = None, is_service: bool = False
) -> Iterator[Callable[[], Daemon]]:
    """Hold the lock and open the database; give what makes the daemon, once a loop runs.

    Raises: as `run_daemon`.
    """
    settings = read_settings(env, codes=RULES)
    state = state_dir(env)
    private_directory(state)
    with hold_lock(state) as lock:
        log_place = place_of_log(env, os.environ) if logs else None
        if log_place is not None:
            log_by(settings, log_place)
        address = default_address(env, settings.bus_address)
        own_directory = socket_directory(env, settings.bus_address)
        if own_directory is not None:
            private_directory(own_directory)
        database = Database(os.path.join(state, "state.db"), _boot_id(), __version__)
        if database.recovered_from:
            log.error("database broken kept_as=%r", database.recovered_from)
        yield lambda: Daemon(
            env,
            settings,
            database,
            state,
            address,
            notifier=notifier or Notifier({}),
            is_service=is_service,
            logs=log_place,
            lock=lock,
        )


def _boot_id() -> str:
    """Tell one boot of the machine from another; empty where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # Elsewhere the time at which the machine started, to the minute, serves.
        return f"{round((time.time() - time.monotonic()) / 60)}"


_ENDINGS = tuple({layout.ending for layout in LAYOUTS})


def _is_memory_file(name: str) -> bool:
    return name.endswith(_ENDINGS)
