"""The asynchronous client: the verbs of the blocking one for programs with a loop. Door: asyncio.

    async with AsyncClient() as client:             # where this environment's daemon listens
        found = await client.call("dirs.resolve", cwd="/home/u/app")

    async for event in follow("memory/*"):          # over restarts of the daemon, too
        print(event["topic"], event["data"])

Rule 1: a task of its own reads, so that answers and events reach whoever waits for them in any order.
Rule 2: reading stops while many events wait to be taken and nobody waits for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from zcsyncd import __version__
from zcsyncd.bus.client import (
    AWAY,
    FOLLOWER,
    PATIENCE_S,
    PULSE_S,
    RETRY_S,
    TIMEOUT_S,
    Trail,
    at_most,
    decode_message,
    encode_request,
    find_address,
    gone,
    result_of,
    silent,
    unreachable,
)
from zcsyncd.bus.limits import LINE_BYTES, PROTOCOL
from zcsyncd.bus.pipe import PipeBusy, open_handle
from zcsyncd.bus.pipe_server import pipe_transport
from zcsyncd.errors import ProtocolError, ZcsyncdError

WAITING_EVENTS = 1_024
"""Events that are kept for a program that does not take them; the daemon's journal keeps the rest."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connected(address: str) -> Streams:
    """Connect; asyncio's own way takes a daemon with too many at its door for connected."""
    if sys.platform == "win32":
        return await _connected_pipe(address)
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.connect(address)
        except BlockingIOError:
            made.close()
            await asyncio.sleep(RETRY_S)
        except BaseException:
            made.close()
            raise
        else:
            return await asyncio.open_unix_connection(sock=made, limit=LINE_BYTES)


async def _connected_pipe(address: str) -> Streams:
    """Connect a pipe; asyncio's own way lets whoever made the pipe act as us, and asks nobody whose it is."""
    while True:
        try:
            handle = open_handle(address)
        except PipeBusy:
            await asyncio.sleep(RETRY_S)
        else:
            break
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    return reader, asyncio.StreamWriter(pipe_transport(handle, protocol), protocol, reader, loop)


class AsyncClient:
    """One connection to the daemon, as an asynchronous context manager."""

    def __init__(self, address: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Take the address (without one what `find_address` tells), and how long the daemon may take, in seconds."""
        self.address = find_address() if address is None else address
        self.timeout_s = timeout_s
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._events: deque[dict[str, object]] = deque()
        self._changed = asyncio.Condition()
        self._failure: ZcsyncdError | None = None
        self._number = 0

    async def connect(self) -> None:
        """Connect; `async with` does it.

        Raises: NoDaemon.
        """
        if self._writer is not None:
            return
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, self._writer = await _connected(self.address)
        except (OSError, ValueError) as error:
            raise unreachable(self.address, error, self.timeout_s) from error
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))

    async def close(self) -> None:
        """Hang up. Twice is harmless."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def hello(
        self, name: str, version: str, session: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Say who we are; `session` as docs/protocol.md tells. Raises as `call` does."""
        client = {"name": name, "version": version, "pid": os.getpid()}
        return await self.call("hello", protocol=[PROTOCOL], client=client, session=session)

    async def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float | None = None,
        **named: object,
    ) -> dict[str, object]:
        """Ask and give the result, as the blocking client's `call` does; several may wait at a time.

        Raises: the error that the daemon tells; NoDaemon when it is not there or does not answer.
        """
        given = {**(params or {}), **named}
        if timeout_s is not None or method not in PATIENCE_S:
            wait_s = self.timeout_s if timeout_s is None else timeout_s
            return await self._answer(self._ask(method, given), wait_s)
        alive, question = self._ask("ping", {}), self._ask(method, given)
        try:
            await self._answer(alive, self.timeout_s)
        except BaseException:
            self._answers.pop(question, None)
            raise
        patience_s = PATIENCE_S[method]
        return await self._answer(question, None if patience_s is None else self.timeout_s + patience_s)

    async def next_event(self, timeout_s: float | None = None) -> dict[str, object] | None:
        """Give the next event's params; None when `timeout_s` has passed.

        Raises: NoDaemon when the daemon has gone and no event is left.
        """
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                while not self._events:
                    if self._failure is not None:
                        raise self._failure
                    await self._changed.wait()
                self._changed.notify_all()
                return self._events.popleft()
        except TimeoutError:
            return None

    @property
    def has_events(self) -> bool:
        """Events have come that `next_event` has not given yet: it would not wait."""
        return bool(self._events)

    async def events(self) -> AsyncIterator[dict[str, object]]:
        """Give events as they come.

        Raises: NoDaemon when the daemon has gone.
        """
        while (event := await self.next_event()) is not None:
            yield event

    # -- inside -----------------------------------------------------------------------------------------------

    def _ask(self, method: str, params: Mapping[str, object]) -> int:
        if self._writer is None:
            raise ProtocolError("the client is not connected: use it in an `async with` block")
        if self._failure is not None:
            raise self._failure
        self._number += 1
        self._answers[self._number] = asyncio.get_running_loop().create_future()
        self._writer.write(encode_request(self._number, method, params))
        return self._number

    async def _answer(self, number: int, wait_s: float | None) -> dict[str, object]:
        async with self._changed:
            self._changed.notify_all()
        try:
            async with asyncio.timeout(wait_s):
                message = await self._answers[number]
        except TimeoutError as error:
            raise silent(self.address, wait_s or 0.0) from error
        finally:
            self._answers.pop(number, None)
        return result_of(message)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        failure = gone(self.address)
        try:
            # What has no newline is half a line: the daemon has gone in the middle of it.
            while (line := await reader.readline()).endswith(b"\n"):
                await self._take(decode_message(line))
        except OSError:
            pass
        except ValueError:
            failure = ProtocolError(f"{self.address} sent a line of more than {LINE_BYTES} bytes")
        except ZcsyncdError as error:
            failure = error
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(failure)
                # Whoever gave up waiting does not ask any more.
                waiting.exception()

    async def _take(self, message: dict[str, object]) -> None:
        params, number = message.get("params"), message.get("id")
        if message.get("method") == "event" and isinstance(params, dict):
            async with self._changed:
                self._events.append(params)
                self._changed.notify_all()
                while len(self._events) >= WAITING_EVENTS and not self._answers:
                    await self._changed.wait()
        elif isinstance(number, int):
            waiting = self._answers.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif "error" in message:
            result_of(message)


class AsyncFollower:
    """Events over any number of connections, as an asynchronous iterator; `follow` makes one.

    For one task at a time.
    """

    def __init__(
        self,
        trail: Trail,
        *,
        address: str | None,
        timeout_s: float,
        on_away: Callable[[ZcsyncdError], object] | None,
    ) -> None:
        self._trail = trail
        self._address = address
        self._timeout_s = timeout_s
        self._on_away = on_away
        self._client: AsyncClient | None = None
        self._knock_at = 0.0
        self._heard_at = 0.0
        self.pulse_s = PULSE_S

    @property
    def cursor(self) -> str | None:
        """The place after the last event that was given, as the blocking follower has it."""
        return self._trail.cursor

    async def next_event(self, timeout_s: float | None = None) -> dict[str, object] | None:
        """Give the next event's params; None when `timeout_s` has passed.

        With 0 it only takes what has come. A question to the daemon that is under way by then is heard out first.

        Raises: as the blocking `follow` tells.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while True:
            try:
                client = self._client or await self._knock(deadline)
                if client is None:
                    return None
                pulse_at = self._heard_at + self.pulse_s
                event = await client.next_event(at_most(pulse_at - monotonic(), deadline))
                if event is not None:
                    self._heard_at = monotonic()
                    self._trail.passed(event)
                    return event
                if monotonic() >= pulse_at:
                    await self._pulse(client)
                elif deadline is not None and monotonic() >= deadline:
                    return None
            except AWAY as error:
                await self.close()
                self._knock_at = monotonic() + self._trail.pause_s(error)
                if self._on_away is not None:
                    self._on_away(error)

    async def close(self) -> None:
        """Hang up; a later `next_event` would go on where this one ended. Twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, object]:
        event = await self.next_event()
        assert event is not None  # without a timeout it waits
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- inside -----------------------------------------------------------------------------------------------

    async def _knock(self, deadline: float | None) -> AsyncClient | None:
        """Connect and subscribe once it is time to; None: the deadline comes first."""
        await asyncio.sleep(at_most(self._knock_at - monotonic(), deadline))
        if deadline is not None and deadline < self._knock_at:
            return None
        client = AsyncClient(self._address, self._timeout_s)
        try:
            await client.connect()
            await client.hello(FOLLOWER, __version__, self._trail.session)
            self._trail.greeted()
            self._trail.stands(await client.call("events.subscribe", self._trail.subscription))
        except BaseException:
            await client.close()
            raise
        self._heard_at = monotonic()
        self._client = client
        return client

    async def _pulse(self, client: AsyncClient) -> None:
        told = await client.call("ping")
        self._heard_at = monotonic()
        if not client.has_events:
            self._trail.passed(told)


def follow(
    *topics: str,
    address: str | None = None,
    since: str | None = None,
    dirs: Sequence[str] | None = None,
    cwd: str | None = None,
    session: Mapping[str, object] | None = None,
    patience_s: float | None = None,
    timeout_s: float = TIMEOUT_S,
    on_away: Callable[[ZcsyncdError], object] | None = None,
) -> AsyncFollower:
    """Give events as they come, over restarts of the daemon: all as the blocking client's `follow` tells.

    Who leaves an `async for` early closes the follower: `async with follow(…) as events` does.
    """
    trail = Trail(topics, since=since, dirs=dirs, cwd=cwd, session=session, patience_s=patience_s)
    return AsyncFollower(trail, address=address, timeout_s=timeout_s, on_away=on_away)
