"""The blocking client: requests and events over the daemon's socket, for the CLI and for scripts. Door: socket.

Rule 1: this is the fast path of `zcsyncd status`: socket, json and what they bring along, nothing else.
Rule 2: whoever waits is told within `timeout_s` that nobody answers.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from time import monotonic, sleep

from zcsyncd.bus.limits import LINE_BYTES, PROTOCOL, READY_WAIT_S
from zcsyncd.errors import NoDaemon, ProtocolError, ZcsyncdError, from_wire

# typing costs a few milliseconds; type checkers take this name for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

TIMEOUT_S = 2.0
"""How long a daemon may take before it counts as not there."""

NO_WINDOWS = "the bus does not work on Windows yet: its named pipe is not built"

START_HINT = "start it with `zcsyncd run`"

PATIENCE_S: dict[str, float | None] = {
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
    "daemon.flush": None,
    "daemon.stop": 30.0,
}
"""How much longer an answer may take once the daemon has shown that it lives; None: as long as it takes."""

RETRY_S = 0.01
"""Pause before knocking again at a daemon that has too many at its door."""

_READ_BYTES = 65_536


class Client:
    """One connection to the daemon, as a context manager.

    Not for several threads at once.
    """

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._socket: socket.socket | None = None
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
        """Say who we are; `session` as docs/protocol.md tells. Raises as `call` does."""
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

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise ProtocolError("the client is not connected: use it in a `with` block")
        return self._socket


def _connect(address: str, timeout_s: float) -> socket.socket:
    if sys.platform == "win32":
        raise NoDaemon(NO_WINDOWS)
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
        why = "there is no such socket"
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
