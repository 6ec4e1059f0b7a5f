"""The daemon as the verbs see it: where it is, one question, all pages of a list, events. Door: the bus.

Rule 1: once it was not there, it is not looked for again in the same run: nobody waits twice for a daemon that hangs.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from zcsyncd.bus.client import Client, encode_request
from zcsyncd.bus.endpoint import read_endpoint
from zcsyncd.bus.limits import LINE_BYTES, PAGE
from zcsyncd.cli.answer import number_of, rows_of
from zcsyncd.errors import NoDaemon, TooLarge
from zcsyncd.places import SOCKET_VARIABLE, default_address, state_dir
from zcsyncd.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zcsyncd.cli.answer import Answer

EXIT_S = 5.0
"""How long a daemon that has answered `daemon.stop` may take until its process is gone."""
MOST_PAGES = 2_000
"""A million rows: a list that never ends is a fault of the other side, not a reason to ask for ever."""


class Daemon:
    """The daemon of this environment; nothing is asked before a question is."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.is_absent = False
        """Nobody listens at its address, as a question has shown. One that listens in silence is not absent."""
        self._address: str | None = None
        self._lost: NoDaemon | None = None

    @property
    def address(self) -> str:
        """Where it listens: what the environment says, else what the running one wrote down, else its usual place.

        Raises:
            ConfigError: a variable or the configuration is wrong.
        """
        if self._address is None:
            self._address = self._find()
        return self._address

    def _find(self) -> str:
        if self.env.get(SOCKET_VARIABLE):
            return default_address(self.env)
        endpoint = read_endpoint(state_dir(self.env))
        return (
            endpoint.address if endpoint else default_address(self.env, read_settings(self.env).bus_address)
        )

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, object]:
        """Ask one question on a connection of its own.

        Raises:
            NoDaemon: it is not there, or does not answer within 2 s.
            TooLarge: the question does not fit on a line.
            ZcsyncdError: what it says is wrong with the question.
        """
        with self._connected() as client:
            size = len(encode_request(0, method, params or {}))
            if size > LINE_BYTES:
                raise TooLarge(
                    f"as one line of JSON this takes {size:,} bytes, and the daemon takes {LINE_BYTES:,}",
                    hint="shorten it, or stop the daemon for it",
                )
            try:
                return client.call(method, params)
            except NoDaemon as error:
                self._lost = error
                raise

    def ask_all(self, method: str, params: Mapping[str, object], member: str) -> dict[str, object]:
        """Ask for a list page by page; give one answer with all its rows in `member`.

        A list that grows or shrinks between two pages gives a row twice or not at all: each page is its moment's.
        Raises as `ask` does.
        """
        rows: list[Answer] = []
        with self._connected() as client:
            for _ in range(MOST_PAGES):
                answer = client.call(method, {**params, "limit": PAGE, "offset": len(rows)})
                page = rows_of(answer, member)
                rows += page
                if not page or len(rows) >= number_of(answer, "total"):
                    break
        return {**answer, member: rows}

    def follow(
        self, params: Mapping[str, object], *, begun: Callable[[str], None] = lambda _cursor: None
    ) -> Iterator[dict[str, object]]:
        """Subscribe and give events as they come; `begun` hears the cursor once the subscription stands.

        Raises:
            NoDaemon: it is not there, or went away; the hint tells from which cursor to go on.
        """
        with self._connected() as client:
            cursor = str(client.call("events.subscribe", params).get("cursor"))
            begun(cursor)
            try:
                for event in client.events():
                    cursor = str(event.get("cursor", cursor))
                    yield event
            except NoDaemon as error:
                raise NoDaemon(
                    f"the daemon at {self.address} went away after event {cursor}",
                    hint=f"once it runs again, go on with `zcsyncd events --since {cursor}`",
                ) from error

    def stop(self, *, wait_for_exit: bool = True) -> None:
        """Stop it; return once it is down and, so that a new one can start at once, its process is gone.

        Raises as `ask` does.
        """
        with self._connected() as client:
            pid = _pid(client.call("status")) if wait_for_exit else 0
            client.call("daemon.stop")
            with suppress(NoDaemon):
                client.next_event(EXIT_S)  # it hangs up when it is really down
        if pid:
            _wait_for_exit(pid)

    def _connected(self) -> Client:
        if self._lost is not None:
            raise self._lost
        client = Client(self.address)
        try:
            client.connect()
        except NoDaemon as error:
            self._lost = error
            self.is_absent = True
            raise
        return client


def _pid(status: Mapping[str, object]) -> int:
    daemon = status.get("daemon")
    pid = daemon.get("pid") if isinstance(daemon, dict) else None
    return pid if isinstance(pid, int) and pid > 0 and pid != os.getpid() else 0


def _wait_for_exit(pid: int) -> None:
    if sys.platform == "win32":
        _wait_for_process(pid)
        return
    until = time.monotonic() + EXIT_S
    while time.monotonic() < until and _runs(pid):
        time.sleep(0.01)


def _wait_for_process(pid: int) -> None:
    """Wait on Windows, where `kill` with 0 would end the process."""
    if sys.platform != "win32":
        return
    import _winapi

    synchronize = 0x00100000
    try:
        process = _winapi.OpenProcess(synchronize, False, pid)
    except OSError:
        return  # it has ended, or is nobody whom we may ask
    try:
        _winapi.WaitForSingleObject(process, int(EXIT_S * 1000))
    finally:
        _winapi.CloseHandle(process)


def _runs(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and whose parent has not asked after it yet does not."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] != [b"Z"]
    except OSError:
        return True  # this system has no such file
