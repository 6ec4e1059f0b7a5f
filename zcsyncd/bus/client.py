"""The blocking client: requests and events over the daemon's socket, for the CLI and for scripts. Door: socket.

    with Client() as client:                        # where this environment's daemon listens
        found = client.call("dirs.resolve", cwd="/home/u/app")

    for event in follow("memory/*"):                # over restarts of the daemon, too
        print(event["topic"], event["data"])

`call` gives an answer's `result`, or raises the error that it tells (zcsyncd.errors); `follow` gives events. What can
be asked and what is told is in docs/protocol.md; docs/clients.md has longer examples. `zcsyncd.bus.async_client` has
the same for programs with a loop.

Rule 1: this is the fast path of `zcsyncd status`: socket, json and what they bring along, nothing else.
Rule 2: whoever waits is told within `timeout_s` that nobody answers.
Rule 3: who follows asks for what came after the last event that it gave: over a restart of the daemon nothing is lost
and nothing comes twice.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from time import monotonic, sleep

from zcsyncd import __version__
from zcsyncd.bus.limits import LINE_BYTES, PROTOCOL, READY_WAIT_S
from zcsyncd.errors import NoDaemon, NotReady, Overloaded, ProtocolError, ZcsyncdError, from_wire

# typing costs a few milliseconds; type checkers take this name for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from zcsyncd.bus.pipe import Pipe

TIMEOUT_S = 2.0
"""How long a daemon may take before it counts as not there."""

START_HINT = "start it with `zcsyncd run`"

PATIENCE_S: dict[str, float | None] = {
    "daemon.reload": READY_WAIT_S,
    "daemon.probe": READY_WAIT_S + 10.0,
    "dirs.list": READY_WAIT_S,
    "memory.list": READY_WAIT_S,
    "memory.read": READY_WAIT_S,
    "memory.index": READY_WAIT_S,
    "memory.write": READY_WAIT_S,
    "memory.forget": READY_WAIT_S,
    "memory.search": READY_WAIT_S,
    "memory.repair": READY_WAIT_S,
    "history.list": READY_WAIT_S,
    "history.show": READY_WAIT_S,
    "history.restore": READY_WAIT_S,
    "history.undo": READY_WAIT_S,
    "history.purge": READY_WAIT_S,
    "audit.get": READY_WAIT_S,
    "audit.dismiss": READY_WAIT_S,
    "session.list": READY_WAIT_S,
    "session.news": READY_WAIT_S,
    "readState.report": READY_WAIT_S,
    "readState.check": READY_WAIT_S,
    "write.intent": READY_WAIT_S,
    "daemon.flush": None,
    "daemon.stop": 30.0,
}
"""How much longer an answer may take once the daemon has shown that it lives; None: as long as it takes."""

RETRY_S = 0.01
"""Pause before knocking again at a daemon that has too many at its door."""

BACK_OFF_S = (0.1, 5.0)
"""First and longest pause before a follower knocks again; each is twice the one before."""

PULSE_S = 30.0
"""After so much silence a follower asks whether the daemon lives: that also moves its cursor on."""

AWAY = (NoDaemon, NotReady, Overloaded)
"""Errors that end by themselves: a follower waits for it."""

_READ_BYTES = 65_536


def find_address(env: Mapping[str, str] | None = None) -> str:
    """Tell where the daemon listens: `ZCSYNCD_SOCKET`, else what a running one wrote down, else its usual place.

    `env` stands in for this process's environment. Nothing is asked: nobody may listen there.

    Raises: ConfigError for a variable that makes no sense.
    """
    from zcsyncd.bus.endpoint import read_endpoint
    from zcsyncd.places import SOCKET_VARIABLE, default_address, state_dir

    env = os.environ if env is None else env
    endpoint = None if env.get(SOCKET_VARIABLE) else read_endpoint(state_dir(env))
    return endpoint.address if endpoint else default_address(env)


class Client:
    """One connection to the daemon, as a context manager.

    Not for several threads at once.
    """

    def __init__(self, address: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Take the address (without one what `find_address` tells), and how long the daemon may take, in seconds."""
        self.address = find_address() if address is None else address
        self.timeout_s = timeout_s
        self._socket: socket.socket | Pipe | None = None
        self._unread = bytearray()
        self._scanned = 0
        self._events: deque[dict[str, object]] = deque()
        self._number = 0

    def connect(self) -> None:
        """Connect; `with` does it.

        Raises: NoDaemon.
        """
        if self._socket is None:
            self._socket = _connect(self.address, self.timeout_s)

    def close(self) -> None:
        """Hang up. Twice is harmless."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def hello(
        self, name: str, version: str, session: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Say who we are; `session` as docs/protocol.md tells. Raises as `call` does.

        Whose daemon it is stands in the answer's `server`: its `version`, and `packageSkew`.
        """
        client = {"name": name, "version": version, "pid": os.getpid()}
        return self.call("hello", protocol=[PROTOCOL], client=client, session=session)

    def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float | None = None,
        **named: object,
    ) -> dict[str, object]:
        """Ask and give the result. Parameters come as a mapping, by name, or both.

        `timeout_s` bounds the whole wait; without it the client's own holds, and methods that may have to wait
        (PATIENCE_S) get their time as long as the daemon answers a ping within the client's own.

        Raises: the error that the daemon tells; NoDaemon when it is not there or does not answer.
        """
        given = {**(params or {}), **named}
        if timeout_s is not None or method not in PATIENCE_S:
            wait_s = self.timeout_s if timeout_s is None else timeout_s
            number = self._ask((method, given))[-1]
            return self._answer(number, monotonic() + wait_s, wait_s)
        alive, number = self._ask(("ping", {}), (method, given))
        self._answer(alive, monotonic() + self.timeout_s, self.timeout_s)
        patience_s = PATIENCE_S[method]
        if patience_s is None:
            return self._answer(number, None, 0.0)
        return self._answer(number, monotonic() + self.timeout_s + patience_s, self.timeout_s + patience_s)

    def next_event(self, timeout_s: float | None = None) -> dict[str, object] | None:
        """Give the next event's params (cursor, time, topic, dir, data, …); None when `timeout_s` has passed.

        Raises: NoDaemon when the daemon has gone.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while not self._events:
            message = self._message(deadline)
            if message is None:
                return None
            self._take_event(message)
        return self._events.popleft()

    @property
    def has_events(self) -> bool:
        """Events have come that `next_event` has not given yet: it would not wait."""
        return bool(self._events)

    def events(self) -> Iterator[dict[str, object]]:
        """Give events as they come, first those that came between answers.

        Raises: NoDaemon when the daemon has gone.
        """
        while (event := self.next_event()) is not None:
            yield event

    # -- inside -----------------------------------------------------------------------------------------------

    def _ask(self, *questions: tuple[str, Mapping[str, object]]) -> list[int]:
        numbers, lines = [], b""
        for method, params in questions:
            self._number += 1
            numbers.append(self._number)
            lines += encode_request(self._number, method, params)
        connected = self._connected()
        connected.settimeout(self.timeout_s)
        try:
            connected.sendall(lines)
        except TimeoutError as error:
            raise silent(self.address, self.timeout_s) from error
        except OSError:
            # It may have told us why before it hung up: that is still to be read.
            pass
        return numbers

    def _answer(self, number: int, deadline: float | None, wait_s: float) -> dict[str, object]:
        while True:
            message = self._message(deadline)
            if message is None:
                raise silent(self.address, wait_s)
            if self._take_event(message):
                continue
            if message.get("id") not in (number, None):
                continue  # the late answer to a question that was given up
            return result_of(message)

    def _take_event(self, message: dict[str, object]) -> bool:
        params = message.get("params")
        if message.get("method") == "event" and isinstance(params, dict):
            self._events.append(params)
            return True
        if "id" in message and message["id"] is None:
            result_of(message)
        return False

    def _message(self, deadline: float | None) -> dict[str, object] | None:
        """Read one message; None when the deadline has passed and nothing lies there to be read."""
        while True:
            end = self._unread.find(b"\n", self._scanned)
            if end >= 0:
                line = bytes(self._unread[:end])
                del self._unread[: end + 1]
                self._scanned = 0
                return decode_message(line)
            self._scanned = len(self._unread)
            if self._scanned > LINE_BYTES:
                raise ProtocolError(f"{self.address} sent a line of more than {LINE_BYTES} bytes")
            left_s = None if deadline is None else deadline - monotonic()
            connected = self._connected()
            connected.settimeout(None if left_s is None else max(left_s, 0.0))
            try:
                data = connected.recv(_READ_BYTES)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                raise gone(self.address) from error
            if not data:
                raise gone(self.address)
            self._unread += data

    def _connected(self) -> socket.socket | Pipe:
        if self._socket is None:
            raise ProtocolError("the client is not connected: use it in a `with` block")
        return self._socket


class Trail:
    """A follower's place in the stream of events, and what it says on each new connection.

    The part of following that is the same with and without a loop.
    """

    def __init__(
        self,
        topics: Sequence[str],
        *,
        since: str | None,
        dirs: Sequence[str] | None,
        cwd: str | None,
        session: Mapping[str, object] | None,
        patience_s: float | None,
    ) -> None:
        self.cursor = since
        self._asked: dict[str, object] = {"topics": list(topics) or ["*"]}
        self._asked |= {} if dirs is None else {"dirs": list(dirs)}
        self._asked |= {} if cwd is None else {"cwd": cwd}
        self._session = session
        self._patience_s = patience_s
        self._pause_s = BACK_OFF_S[0]
        self._away_since: float | None = None

    @property
    def session(self) -> Mapping[str, object] | None:
        """Hello's `session`. Once it was said, later connections only attach: they begin nothing anew."""
        return self._session

    @property
    def subscription(self) -> dict[str, object]:
        """What to subscribe to now."""
        return self._asked if self.cursor is None else {**self._asked, "since": self.cursor}

    def greeted(self) -> None:
        """Take note that the daemon knows of the session."""
        if self._session is not None:
            self._session = {**self._session, "reason": "attach"}

    def stands(self, answer: Mapping[str, object]) -> None:
        """Take the answer to `subscription`."""
        if self.cursor is None:
            # A `since` stays until an event has come: were we cut off now, a gap that is on its way would be lost.
            self.cursor = str(answer.get("cursor"))
        self._pause_s, self._away_since = BACK_OFF_S[0], None

    def passed(self, told: Mapping[str, object]) -> None:
        """Take an event that was given, or a ping's answer when none is left to be given."""
        if told.get("cursor") is not None:
            self.cursor = str(told["cursor"])

    def pause_s(self, error: ZcsyncdError) -> float:
        """Tell how long to wait before knocking again.

        Raises: `error`, when the daemon has been away for longer than the follower's patience.
        """
        now_s = monotonic()
        self._away_since = now_s if self._away_since is None else self._away_since
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, BACK_OFF_S[1])
        if self._patience_s is None:
            return pause_s
        left_s = self._away_since + self._patience_s - now_s
        if left_s <= 0:
            raise error
        return min(pause_s, left_s)


class Follower:
    """Events over any number of connections, as an iterator; `follow` makes one.

    Not for several threads at once.
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
        self._client: Client | None = None
        self._knock_at = 0.0
        self._heard_at = 0.0
        self.pulse_s = PULSE_S

    @property
    def cursor(self) -> str | None:
        """The place after the last event that was given: kept and given as `since`, it goes on from there.

        None before the first connection. In quiet times it moves on by itself.
        """
        return self._trail.cursor

    def next_event(self, timeout_s: float | None = None) -> dict[str, object] | None:
        """Give the next event's params (cursor, time, topic, dir, data, …); None when `timeout_s` has passed.

        With 0 it only takes what has come. A question to the daemon that is under way by then is heard out first.

        Raises: as `follow` tells.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while True:
            try:
                client = self._client or self._knock(deadline)
                if client is None:
                    return None
                pulse_at = self._heard_at + self.pulse_s
                event = client.next_event(at_most(pulse_at - monotonic(), deadline))
                if event is not None:
                    self._heard_at = monotonic()
                    self._trail.passed(event)
                    return event
                if monotonic() >= pulse_at:
                    self._pulse(client)
                elif deadline is not None and monotonic() >= deadline:
                    return None
            except AWAY as error:
                self.close()
                self._knock_at = monotonic() + self._trail.pause_s(error)
                if self._on_away is not None:
                    self._on_away(error)

    def close(self) -> None:
        """Hang up; a later `next_event` would go on where this one ended. Twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, object]:
        event = self.next_event()
        assert event is not None  # without a timeout it waits
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _knock(self, deadline: float | None) -> Client | None:
        """Connect and subscribe once it is time to; None: the deadline comes first."""
        sleep(at_most(self._knock_at - monotonic(), deadline))
        if deadline is not None and deadline < self._knock_at:
            return None
        client = Client(self._address, self._timeout_s)
        try:
            client.connect()
            client.hello(FOLLOWER, __version__, self._trail.session)
            self._trail.greeted()
            self._trail.stands(client.call("events.subscribe", self._trail.subscription))
        except BaseException:
            client.close()
            raise
        self._heard_at = monotonic()
        self._client = client
        return client

    def _pulse(self, client: Client) -> None:
        told = client.call("ping")
        self._heard_at = monotonic()
        if not client.has_events:
            self._trail.passed(told)


FOLLOWER = "zcsyncd.bus.client"
"""What a follower calls itself in `hello`."""


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
) -> Follower:
    """Give events as they come, over restarts of the daemon, each once and in order.

    `topics` are globs (none: all topics); `since` is the cursor after which to begin, without it now; `dirs` and
    `cwd` name the only memory directories of interest; `session` is that of `hello`, whose `reason` is said once.
    Without an `address` it is found anew for each connection.

    While the daemon is away it is looked for again after 0.1 s, then after twice as long each time, at most 5 s. That
    goes on for ever, or as long as `patience_s`; 0 gives up at once. `on_away` hears of each time it is not there.

    Events that the daemon no longer has are told by one of topic `bus/gap`: what is known may be old, read it anew.

    Raises, while events are awaited: NoDaemon after `patience_s`; InvalidParams for a `since` that is no cursor;
    Refused for a directory that the session does not reach; UnsupportedProtocol; ProtocolError when something else
    listens at the address.
    """
    trail = Trail(topics, since=since, dirs=dirs, cwd=cwd, session=session, patience_s=patience_s)
    return Follower(trail, address=address, timeout_s=timeout_s, on_away=on_away)


def at_most(span_s: float, deadline: float | None) -> float:
    """Give a span in seconds that ends with the deadline (of `monotonic`; None: never), at least 0."""
    return max(span_s if deadline is None else min(span_s, deadline - monotonic()), 0.0)


def _connect(address: str, timeout_s: float) -> socket.socket | Pipe:
    if sys.platform == "win32":
        return _connect_pipe(address, timeout_s)
    deadline = monotonic() + timeout_s
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(timeout_s)
        try:
            made.connect(address)
        except BlockingIOError as error:
            # Too many wait to be let in; with a timeout Linux does not queue up, so we do.
            made.close()
            if monotonic() >= deadline:
                raise silent(address, timeout_s) from error
            sleep(RETRY_S)
        except (OSError, ValueError) as error:
            made.close()
            raise unreachable(address, error, timeout_s) from error
        else:
            return made


def _connect_pipe(address: str, timeout_s: float) -> Pipe:
    from zcsyncd.bus.pipe import Pipe

    try:
        return Pipe.connect(address, timeout_s)
    except (OSError, ValueError) as error:
        raise unreachable(address, error, timeout_s) from error


def encode_request(number: int, method: str, params: Mapping[str, object]) -> bytes:
    """Give a request's line. UTF-8, so that a long body fits; a file name that is none survives as an escape."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
    # Within a JSON string, Python's own way to write a lone surrogate is JSON's.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def decode_message(line: bytes) -> dict[str, object]:
    """Read a line of the daemon's.

    Raises: ProtocolError.
    """
    try:
        message: object = json.loads(line)
    except ValueError as error:
        raise ProtocolError("what answers at the address does not speak our protocol") from error
    if not isinstance(message, dict):
        raise ProtocolError("what answers at the address does not speak our protocol")
    return message


def result_of(message: Mapping[str, object]) -> dict[str, object]:
    """Give an answer's result.

    Raises: the error that it tells.
    """
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict):
        raise from_wire(error)
    if isinstance(result, dict):
        return result
    raise ProtocolError("an answer had neither result nor error")


def unreachable(address: str, error: Exception, timeout_s: float) -> ZcsyncdError:
    """Say in one line that nobody could be reached, where, and how to start one."""
    if isinstance(error, TimeoutError):
        return silent(address, timeout_s)
    if isinstance(error, FileNotFoundError):
        why = "there is no such pipe" if sys.platform == "win32" else "there is no such socket"
    elif isinstance(error, ConnectionRefusedError):
        why = "nobody listens there any more"
    elif isinstance(error, PermissionError):
        why = "it may not be opened by this user"
    else:
        why = getattr(error, "strerror", None) or str(error)
    return NoDaemon(f"no daemon at {address} ({why}); {START_HINT}", address=address)


def silent(address: str, timeout_s: float) -> ZcsyncdError:
    """Say in one line that a daemon is there but does not answer."""
    return NoDaemon(f"the daemon at {address} does not answer within {timeout_s:g} s", address=address)


def gone(address: str) -> ZcsyncdError:
    """Say in one line that the daemon has hung up."""
    return NoDaemon(f"the daemon at {address} has closed the connection; {START_HINT}", address=address)
