"""The bus's edge: bytes from sockets to requests, answers and events to sockets. Door: asyncio.

Rule 1: whatever a client sends or does, only its own connection suffers; a bug in a handler is one `internal-error`.
Rule 2: requests of one connection are answered in the order asked, one at a time; connections do not wait for each
other.
Rule 3: a request that has arrived is carried out even if its client hangs up: a hook may report and leave.
Rule 4: every task is owned here and is over when `close` returns.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from zcsyncd.bus import unix
from zcsyncd.bus.codec import Rejected, Request, encode_answer, encode_error
from zcsyncd.bus.connection import Connection, Session
from zcsyncd.bus.limits import BACKLOG, CONNECTIONS
from zcsyncd.bus.pipe_server import PipeListener
from zcsyncd.bus.requests import ACTS, check_params
from zcsyncd.errors import Overloaded, ZcsyncdError

if TYPE_CHECKING:
    import socket

    from zcsyncd.bus.events import StoredEvent
    from zcsyncd.bus.hub import Hub

_log = logging.getLogger("zcsyncd.bus")

LINGER_S = 0.5
"""How long we go on swallowing what a refused client still sends, so that it can read why."""

LINGERING = 64
"""Refused connections that may linger at a time; further ones are cut off."""

GRACE_S = 0.7
"""How long a connection that is to be closed may take to get its last bytes."""


class Link:
    """A handler's handle on the connection that asked."""

    __slots__ = ("_connection", "_hub", "number")

    def __init__(self, number: int, connection: Connection, hub: Hub) -> None:
        self.number = number
        """Tells connections apart in the log; never used twice."""
        self._connection = connection
        self._hub = hub

    @property
    def session(self) -> Session | None:
        """The session that `hello` named; None for the CLI, scripts and whoever has not said hello."""
        return self._connection.session

    @session.setter
    def session(self, session: Session | None) -> None:
        self._connection.session = session

    @property
    def client(self) -> Mapping[str, object]:
        """`hello`'s `client`, empty before."""
        return self._connection.client

    @client.setter
    def client(self, client: Mapping[str, object]) -> None:
        self._connection.client = client

    @property
    def hub_cursor(self) -> str:
        """The cursor of the last event announced."""
        return self._hub.cursor

    def subscribe(
        self, topics: Sequence[str], wants: Callable[[StoredEvent], bool], since: str | None = None
    ) -> tuple[int, str]:
        """Subscribe; give the number and the cursor to answer with. Events begin after that answer.

        If the handler fails after this, the subscription is taken back.

        Raises: InvalidParams for a `since` that is no cursor; Overloaded.
        """
        return self._hub.subscribe(self._connection, topics, wants, since)

    def unsubscribe(self, number: int) -> None:
        """End a subscription of this connection.

        Raises: NotFound.
        """
        self._connection.unsubscribe(number)


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way to a handler."""

    method: str
    params: dict[str, Any]
    """Checked, defaults filled in, unknown members left out."""
    link: Link


Answering = Callable[[Call], Awaitable[dict[str, object]]]
"""What answers: gives the result, or raises a ZcsyncdError for the client."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What `status` tells of the bus."""

    connections: int
    subscriptions: int
    published: int
    dropped: int


class Server:
    """All connections of the daemon."""

    def __init__(
        self,
        answering: Answering,
        hub: Hub,
        *,
        admits: Callable[[socket.socket], bool] = unix.same_user,
    ) -> None:
        """Take what answers, the hub, and who is let in (by default this user's processes)."""
        self._answering = answering
        self._hub = hub
        self._admits = admits
        self._wires: dict[_Wire, None] = {}
        self._refused: dict[_Wire, None] = {}
        self._numbers = 0
        self._accepting: list[asyncio.Server | PipeListener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections from a bound socket from now on; the server owns the socket then."""
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 13):
            # The name in the file system is the lock holder's business, not asyncio's.
            accepting = await loop.create_unix_server(
                self._wire, sock=listening, backlog=BACKLOG, cleanup_socket=False
            )
        else:
            accepting = await loop.create_unix_server(self._wire, sock=listening, backlog=BACKLOG)
        self._accepting.append(accepting)

    def serve_pipe(self, address: str) -> None:
        """Accept connections at a named pipe of Windows from now on.

        Raises: AlreadyRunning, Refused, as PipeListener does.
        """
        self._accepting.append(PipeListener(address, self._wire))

    @property
    def counters(self) -> Counters:
        """Count what there is, and what there has been since the start."""
        return Counters(len(self._wires), self._hub.subscriptions, self._hub.published, self._hub.dropped)

    # -- leaving ----------------------------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Close the listening sockets and pipes; connections go on."""
        for accepting in self._accepting:
            accepting.close()
        self._accepting.clear()

    async def close_all(self, but: Link | None = None, grace_s: float = GRACE_S) -> None:
        """Close every connection but one.

        A request that is being answered gets its answer and subscribers what they take, within `grace_s`; requests
        that still wait are dropped.
        """
        leaving = [wire for wire in (*self._wires, *self._refused) if wire.link is not but]
        for wire in leaving:
            wire.leave()
        await _all_over((wire.closed for wire in leaving), grace_s)
        for wire in leaving:
            wire.abort()
        await _all_over((wire.closed for wire in leaving), grace_s)
        tasks = [task for wire in leaving if (task := wire.task) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Stop accepting, close every connection, end every task. Not to be called by a handler."""
        self.stop_accepting()
        self._closing = True
        await self.close_all(grace_s=grace_s)
        # Those whose clients left while they were at work.
        await _all_over(self._tasks, grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- for the connections ----------------------------------------------------------------------------------

    def _wire(self) -> _Wire:
        self._numbers += 1
        return _Wire(self, self._numbers)

    def admit(self, wire: _Wire, transport: asyncio.Transport) -> bool:
        """Take a new connection in, or send it away."""
        if self._closing:
            transport.abort()
            return False
        peer = transport.get_extra_info("socket")
        if peer is not None and not self._admits(peer):
            _log.warning("connection=%d event=refused reason=another-user", wire.link.number)
            transport.abort()
            return False
        if len(self._wires) >= CONNECTIONS:
            _log.warning(
                "connection=%d event=refused reason=overloaded limit=%d", wire.link.number, CONNECTIONS
            )
            transport.write(
                encode_error(
                    None,
                    Overloaded(
                        f"{CONNECTIONS} connections are open already",
                        hint="close some, or use one connection for several requests",
                        limit=CONNECTIONS,
                    ),
                )
            )
            return False
        self._wires[wire] = None
        return True

    def dismiss(self, wire: _Wire) -> None:
        """Let a connection go."""
        self._wires.pop(wire, None)
        self._refused.pop(wire, None)

    def may_linger(self, wire: _Wire) -> bool:
        """Tell whether a connection that is through may be heard out; it is counted no longer."""
        self._wires.pop(wire, None)
        if len(self._refused) >= LINGERING:
            return False
        self._refused[wire] = None
        return True

    def own(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Start a task that is over when the server is."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("event=internal-error where=connection", exc_info=error)

    @property
    def hub(self) -> Hub:
        """The hub that the connections listen to."""
        return self._hub

    async def answer(self, request: Request, link: Link) -> tuple[bytes, bool]:
        """Give the line that answers a request, and whether it tells a success."""
        try:
            params = check_params(request.method, request.params)
            result = await self._answering(Call(request.method, params, link))
            return encode_answer(request.id, result), True
        except ZcsyncdError as error:
            return encode_error(request.id, error), False
        except Exception:  # noqa: BLE001 - a bug of one handler is one answer; the daemon goes on
            _log.exception("connection=%d event=internal-error method=%s", link.number, request.method)
            mistake = ZcsyncdError("the daemon made a mistake and goes on", hint="its log has the traceback")
            return encode_error(request.id, mistake), False


async def _all_over(waited_for: Iterable[asyncio.Future[None]], timeout_s: float) -> None:
    futures = [each for each in waited_for if not each.done()]
    if futures:
        await asyncio.wait(futures, timeout=timeout_s)


class _Wire(asyncio.Protocol):
    """One connection between its socket and its state.

    A task exists only while there is a request to answer: subscribers, most of the connections, cost none.
    """

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._hub = server.hub
        self._connection = Connection(self._write, self._pump)
        self._connection.writable = False
        self.link = Link(number, self._connection, self._hub)
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._ended = False
        self._leaving = False
        self._swallowing = False
        self._pump_planned = False
        self._cut_off: asyncio.TimerHandle | None = None

    # -- asyncio calls these ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = stream = cast("asyncio.Transport", transport)
        # Told as soon as the socket is full: from then on the journal is the buffer.
        stream.set_write_buffer_limits(high=0)
        if not self._server.admit(self, stream):
            if not stream.is_closing():
                self._linger()
            return
        self._connection.writable = True
        self._hub.attach(self._connection)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._swallowing or self._leaving:
            return
        self._connection.receive(data)
        self._go_on()

    def eof_received(self) -> bool:
        """Take note that the client sends no more; True: it may still read."""
        self._ended = True
        if self._swallowing:
            return False
        if not self._leaving:
            self._connection.receive_eof()
        self._go_on()
        return True

    def pause_writing(self) -> None:
        """Stop: the socket is full."""
        self._connection.writable = False

    def resume_writing(self) -> None:
        """Go on where the subscriptions are, in the next turn: asyncio does not bear to be closed from in here."""
        self._connection.writable = not self._swallowing
        self._plan_pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the client has gone, or we closed. What has arrived is still done, but not answered."""
        del exc  # a reset is how clients leave
        self._transport = None
        self._connection.writable = False
        self._hub.detach(self._connection)
        self._server.dismiss(self)
        if self._cut_off is not None:
            self._cut_off.cancel()
        if not self.closed.done():
            self.closed.set_result(None)
        self._connection.lost()
        self._go_on()

    # -- the daemon leaves ------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Answer what is being answered, then close."""
        self._leaving = True
        self._connection.forget_requests()
        if self._swallowing and self._transport is not None:
            self._transport.close()
        self._go_on()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside -----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Start what can be started: the next request, reading, or the end."""
        connection = self._connection
        if self.task is None and connection.ready:
            self.task = self._server.own(self._work())
        elif self._at_end and self.task is None and connection.idle and not connection.finished:
            self._hub.answer(connection, b"", last=True)
        self._pace_reading()

    @property
    def _at_end(self) -> bool:
        return (self._ended or self._leaving) and self._transport is not None

    async def _work(self) -> None:
        """Answer requests until none waits or the socket is full."""
        connection = self._connection
        try:
            while (message := connection.next_request()) is not None:
                self._pace_reading()
                if isinstance(message, Rejected):
                    self._reply(encode_error(message.id, message.error), last=message.fatal)
                elif self._is_unheard() and message.method not in ACTS:
                    continue  # nobody hears the answer
                else:
                    line, well = await self._server.answer(message, self.link)
                    if not well:
                        connection.drop_held()
                    self._reply(line)
                if connection.ready:
                    # Handlers that never wait must not keep the loop from the other connections.
                    await asyncio.sleep(0)
        finally:
            self.task = None
        self._go_on()

    def _is_unheard(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _reply(self, line: bytes, *, last: bool = False) -> None:
        if self._transport is not None:
            self._hub.answer(self._connection, line, last=last)

    def _pace_reading(self) -> None:
        transport = self._transport
        if transport is None or self._swallowing:
            return
        wanted = not self._connection.full
        if wanted and not self._reading:
            self._reading = True
            transport.resume_reading()
        elif not wanted and self._reading:
            self._reading = False
            transport.pause_reading()

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            self._connection.writable = False
        else:
            transport.write(data)

    def _pump(self) -> None:
        connection = self._connection
        waited = connection.pending is not None
        try:
            more = self._hub.pump(connection)
        except Exception:  # noqa: BLE001 - a bug costs one connection; the daemon goes on
            _log.exception("connection=%d event=internal-error where=events", self.link.number)
            self.abort()
            return
        if connection.finished:
            self._finish()
        elif more:
            self._plan_pump()
        elif waited and connection.pending is None and self.task is None:
            self._go_on()

    def _plan_pump(self) -> None:
        if not self._pump_planned:
            self._pump_planned = True
            self._loop.call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._pump_planned = False
        self._pump()

    def _finish(self) -> None:
        """Close once everything is written; a client that still sends is heard out for a moment."""
        if self._transport is None or self._swallowing:
            return
        if self._ended or self._leaving:
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        # Closing a Unix socket with unread bytes resets it, and some clients then never read our last line.
        transport = self._transport
        if transport is None:
            return
        if not self._server.may_linger(self):
            transport.close()
            return
        self._swallowing = True
        self._connection.writable = False
        self._hub.detach(self._connection)
        if transport.can_write_eof():
            transport.write_eof()
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        self._cut_off = self._loop.call_later(LINGER_S, transport.abort)
