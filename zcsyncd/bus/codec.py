r"""Records to lines of bytes and back: the framing of the wire. Pure.

Bytes go in by `Decoder.receive_data`, messages come out of `Decoder.next_message`; nothing here waits or writes.

Rule 1: any bytes give a request, a rejection or nothing; nothing raises for content.
Rule 2: a line of ours is UTF-8 and free of every character that some reader takes for the end of a line (U+0085,
U+2028, U+2029 are escaped) and of lone surrogates (a file name that is not UTF-8 has them): those are written as
JSON's `\uXXXX`, which both ends read back as they were.
Rule 3: no line of ours is longer than what we accept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from zcsyncd.bus.events import StoredEvent, cursor, rfc3339
from zcsyncd.bus.limits import ID_CHARACTERS, LINE_BYTES, NESTING
from zcsyncd.errors import (
    BatchRefused,
    InvalidParams,
    InvalidRequest,
    LineTooLong,
    ParseError,
    ProtocolError,
    TooLarge,
    ZcsyncdError,
)

RequestId = int | str

_BOM = b"\xef\xbb\xbf"
_MESSAGE_CHARACTERS = 4_000
"""What is left of an error's message that would not fit on a line."""

_LINE_ENDS = ("\x85", "\u2028", "\u2029")
"""Ends of lines to some readers that are none to JSON."""
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_dump_error = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True)
class Request:
    """A question that wants an answer; its parameters are not checked yet."""

    id: RequestId
    method: str
    params: dict[str, object]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no request; the error is to be answered in its place."""

    id: RequestId | None
    """The request's id if it could be told, else None (JSON-RPC's null)."""
    error: ProtocolError
    fatal: bool = False
    """The connection is to be closed after the answer."""


Message = Request | Rejected


class _NotFinite(ValueError):
    """NaN or an infinity: Python's parser takes them, JSON has none."""


def _refuse_constant(name: str) -> object:
    raise _NotFinite(name)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _NotFinite(text)
    return value


_strict = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
_lenient = json.JSONDecoder().decode


class Decoder:
    """One connection's incoming bytes.

    At most one line and what arrived with it is kept. After a fatal rejection whatever comes is dropped.
    """

    __slots__ = ("_buffer", "_ended", "_fatal", "_scanned")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._ended = False
        self._fatal = False

    def receive_data(self, data: bytes) -> None:
        """Take bytes as they came."""
        if not self._fatal:
            self._buffer += data

    def receive_eof(self) -> None:
        """Take note that nothing more comes: what is left over counts as a line."""
        self._ended = True

    def next_message(self) -> Message | None:
        """Give the next message; None: more bytes are needed."""
        while (line := self._next_line()) is not None:
            message = LINE_TOO_LONG if self._fatal else parse_line(line)
            if message is not None:
                return message
        return None

    def _next_line(self) -> bytes | None:
        buffer = self._buffer
        end = buffer.find(b"\n", self._scanned, LINE_BYTES)
        if end >= 0:
            line = bytes(memoryview(buffer)[:end])
            del buffer[: end + 1]
            self._scanned = 0
            return line
        if len(buffer) >= LINE_BYTES:
            self._fatal = True
            buffer.clear()
            return b""
        self._scanned = len(buffer)
        if not self._ended or not buffer:
            return None
        line = bytes(buffer)
        buffer.clear()
        self._scanned = 0
        return line


LINE_TOO_LONG = Rejected(
    None,
    LineTooLong(
        f"the line is longer than {LINE_BYTES} bytes", hint="the connection is closed", limit=LINE_BYTES
    ),
    fatal=True,
)


def parse_line(line: bytes) -> Message | None:
    """Read one line without its newline; None: there is nothing to answer (a blank line, a notification)."""
    if not line.strip():
        return None
    if line.startswith(_BOM):
        return Rejected(
            None, ParseError("the line begins with a byte order mark", hint="send UTF-8 without one")
        )
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return Rejected(None, ParseError(f"the line is not UTF-8 (byte {error.start})"))
    try:
        value: object = _strict(text)
    except json.JSONDecodeError as error:
        return Rejected(None, ParseError(f"the line is not JSON: {error.msg} at character {error.pos}"))
    except _NotFinite as error:
        return Rejected(_id_in(text), InvalidRequest(f"{error} is no JSON number"))
    except RecursionError:
        return Rejected(None, _too_deep())
    except ValueError:
        # Python refuses to read integers of more than 4,300 digits.
        return Rejected(None, InvalidRequest("a number has too many digits"))
    deep = line.count(b"{") + line.count(b"[") > NESTING and _is_deep(value)
    return _message(value, deep)


def _message(value: object, deep: bool) -> Message | None:
    if isinstance(value, list):
        return Rejected(None, BatchRefused("batches are refused: send one request per line"))
    if not isinstance(value, dict):
        return Rejected(None, InvalidRequest("a request is a JSON object"))
    identifier = _valid_id(value.get("id"))
    if deep:
        return Rejected(identifier, _too_deep())
    if "id" in value and identifier is None:
        return Rejected(
            None, InvalidRequest(f"`id` must be a string of at most {ID_CHARACTERS} characters or an integer")
        )
    if value.get("jsonrpc") != "2.0":
        return Rejected(identifier, InvalidRequest('`jsonrpc` must be "2.0"'))
    method = value.get("method")
    if not isinstance(method, str):
        return Rejected(identifier, InvalidRequest("`method` must be a string"))
    if identifier is None:
        return None  # a notification
    params = value.get("params")
    if params is None:
        params = {}
    if isinstance(params, list):
        return Rejected(
            identifier, InvalidParams("parameters go by name: `params` must be an object, not an array")
        )
    if not isinstance(params, dict):
        return Rejected(identifier, InvalidRequest("`params` must be an object"))
    return Request(identifier, method, params)


def _valid_id(value: object) -> RequestId | None:
    if isinstance(value, str):
        return value if len(value) <= ID_CHARACTERS else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id_in(text: str) -> RequestId | None:
    """Find the id of a request that is refused for something else in it."""
    try:
        value: object = _lenient(text)
    except (ValueError, RecursionError):
        return None
    return _valid_id(value.get("id")) if isinstance(value, dict) else None


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"nested deeper than {NESTING} levels")


def _is_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(NESTING):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _to_bytes(text: str) -> bytes:
    # isascii() is a flag look-up, and looking for one character is ten times as fast as looking for a class of them.
    if not text.isascii() and any(end in text for end in _LINE_ENDS):
        text = _UNSAFE.sub(_escape, text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates
        return _UNSAFE.sub(_escape, text).encode("utf-8")


def data_text(data: Mapping[str, object]) -> str:
    """Give an event's data as the journal keeps it: JSON on one line."""
    return _dump(data)


def encode_answer(identifier: RequestId, result: Mapping[str, object]) -> bytes:
    """Give the line that answers a request; one that would be too long becomes a `too-large` error.

    Raises: TypeError or ValueError when the result is not made of JSON's types (a bug of the handler).
    """
    line = _to_bytes(f'{{"jsonrpc":"2.0","id":{_dump(identifier)},"result":{_dump(result)}}}\n')
    if len(line) <= LINE_BYTES:
        return line
    return encode_error(
        identifier,
        TooLarge(
            f"the answer has {len(line)} bytes and a line holds {LINE_BYTES}",
            hint="ask for fewer with `limit`, or for the short form",
            sizeBytes=len(line),
            limit=LINE_BYTES,
        ),
    )


def encode_error(identifier: RequestId | None, error: ZcsyncdError) -> bytes:
    """Give the line that tells an error; never longer than a line may be, never raising."""
    members = error.to_wire()
    line = _error_line(identifier, members)
    if len(line) <= LINE_BYTES:
        return line
    message = error.message[:_MESSAGE_CHARACTERS] + "…"
    return _error_line(
        identifier, {"code": error.wire_code, "message": message, "data": {"code": error.word}}
    )


def _error_line(identifier: RequestId | None, members: Mapping[str, object]) -> bytes:
    return _to_bytes(f'{{"jsonrpc":"2.0","id":{_dump(identifier)},"error":{_dump_error(members)}}}\n')


def event_head(subscription: int) -> bytes:
    """Give the part of an event's line that differs between subscribers."""
    return b'{"jsonrpc":"2.0","method":"event","params":{"subscription":%d,' % subscription


def event_tail(journal_id: str, event: StoredEvent, *, replayed: bool = False) -> bytes:
    """Give the part of an event's line that is the same for all subscribers."""
    data, mark = event.data, ""
    if replayed:
        # In the envelope, and in the data for a consumer that is handed nothing else.
        mark = '"replayed":true,'
        data = '{"replayed":true' + ("}" if data == "{}" else "," + data[1:])
    return _to_bytes(
        f'"cursor":{_dump(cursor(journal_id, event.sequence))},"time":"{rfc3339(event.time_ms)}",'
        f'"topic":{_dump(event.topic)},"dir":{_dump(event.directory)},{mark}"data":{data}}}}}\n'
    )


def encode_event(subscription: int, journal_id: str, event: StoredEvent, *, replayed: bool = False) -> bytes:
    """Give an event's line: the data is spliced in as the journal has it."""
    return event_head(subscription) + event_tail(journal_id, event, replayed=replayed)


def encode_gap(
    subscription: int, journal_id: str, sequence: int, time_ms: int, data: Mapping[str, object]
) -> bytes:
    """Give the line that tells one subscriber that events are gone; `sequence` is the last of those."""
    return encode_event(
        subscription, journal_id, StoredEvent(sequence, time_ms, "bus/gap", None, None, data_text(data))
    )
