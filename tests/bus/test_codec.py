"""The codec: bytes to messages, records to lines; nothing raises for content."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.bus.codec import (
    Decoder,
    Message,
    Rejected,
    Request,
    data_text,
    encode_answer,
    encode_error,
    encode_event,
    encode_gap,
    parse_line,
)
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.limits import ID_CHARACTERS, LINE_BYTES, NESTING
from zcsyncd.errors import NotFound, ZcsyncdError


def decoded(*chunks: bytes, end: bool = False) -> list[Message]:
    """Decode bytes that come in these pieces."""
    decoder = Decoder()
    found: list[Message] = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        while (message := decoder.next_message()) is not None:
            found.append(message)
    if end:
        decoder.receive_eof()
        while (message := decoder.next_message()) is not None:
            found.append(message)
    return found


def seen(messages: list[Message]) -> list[tuple[object, str]]:
    """Shorten messages to id and method, or id and error word."""
    return [(each.id, each.method if isinstance(each, Request) else each.error.word) for each in messages]


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

LINES = [
    ("a request", PING, [(1, "ping")]),
    ("carriage return", PING + b"\r", [(1, "ping")]),
    ("space around", b" \t" + PING + b"  ", [(1, "ping")]),
    ("blank", b"", []),
    ("blank with spaces", b" \t\r", []),
    ("string id", b'{"jsonrpc":"2.0","id":"x","method":"ping"}', [("x", "ping")]),
    ("empty string id", b'{"jsonrpc":"2.0","id":"","method":"ping"}', [("", "ping")]),
    ("zero id", b'{"jsonrpc":"2.0","id":0,"method":"ping"}', [(0, "ping")]),
    ("negative id", b'{"jsonrpc":"2.0","id":-5,"method":"ping"}', [(-5, "ping")]),
    ("unknown members", b'{"jsonrpc":"2.0","id":1,"method":"ping","extra":[1]}', [(1, "ping")]),
    ("null params", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', [(1, "ping")]),
    ("notification", b'{"jsonrpc":"2.0","method":"ping"}', []),
    ("notification with an array", b'{"jsonrpc":"2.0","method":"ping","params":[1]}', []),
    ("null id", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', [(None, "invalid-request")]),
    ("float id", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', [(None, "invalid-request")]),
    ("true id", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', [(None, "invalid-request")]),
    ("object id", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', [(None, "invalid-request")]),
    (
        "endless id",
        b'{"jsonrpc":"2.0","id":"' + b"i" * (ID_CHARACTERS + 1) + b'","method":"ping"}',
        [(None, "invalid-request")],
    ),
    ("no version", b'{"id":1,"method":"ping"}', [(1, "invalid-request")]),
    ("other version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', [(1, "invalid-request")]),
    ("no method", b'{"jsonrpc":"2.0","id":1}', [(1, "invalid-request")]),
    ("method is a number", b'{"jsonrpc":"2.0","id":1,"method":7}', [(1, "invalid-request")]),
    ("bad notification", b'{"jsonrpc":"2.0","method":7}', [(None, "invalid-request")]),
    ("params by place", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', [(1, "invalid-params")]),
    (
        "params is a string",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}',
        [(1, "invalid-request")],
    ),
    ("batch", b"[" + PING + b"]", [(None, "batch-refused")]),
    ("empty batch", b"[]", [(None, "batch-refused")]),
    ("string", b'"ping"', [(None, "invalid-request")]),
    ("null", b"null", [(None, "invalid-request")]),
    ("not JSON", b"ping", [(None, "parse-error")]),
    ("two values", PING + PING, [(None, "parse-error")]),
    ("half", PING[:-1], [(None, "parse-error")]),
    ("BOM", b"\xef\xbb\xbf" + PING, [(None, "parse-error")]),
    ("not UTF-8", PING.replace(b"ping", b"p\xffng"), [(None, "parse-error")]),
    ("UTF-16", PING.decode().encode("utf-16-le"), [(None, "parse-error")]),
    ("NaN", b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"a":NaN}}', [(4, "invalid-request")]),
    (
        "infinity",
        b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"a":-Infinity}}',
        [(4, "invalid-request")],
    ),
    (
        "float overflow",
        b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"a":1e999}}',
        [(4, "invalid-request")],
    ),
    (
        "NaN in a notification",
        b'{"jsonrpc":"2.0","method":"ping","params":{"a":NaN}}',
        [(None, "invalid-request")],
    ),
    (
        "endless integer",
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
        [(None, "invalid-request")],
    ),
    ("control character", b'{"jsonrpc":"2.0","id":1,"method":"p\x01"}', [(None, "parse-error")]),
]


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
@pytest.mark.parametrize("way", ["whole", "byte by byte", "with more behind", "at the end without a newline"])
def test_lines(line: bytes, expected: list[tuple[object, str]], way: str) -> None:
    """Each line gives the message or the error that the protocol names, however it arrives."""
    if way == "whole":
        found = decoded(line + b"\n")
    elif way == "byte by byte":
        found = decoded(*(bytes([byte]) for byte in line + b"\n"))
    elif way == "with more behind":
        found = decoded(line + b"\n" + PING)
    else:
        found = decoded(line, end=True)
    assert seen(found) == expected


def nested(levels: int) -> bytes:
    """Give a request that is nested so deep."""
    inner = b"[" * (levels - 2) + b"]" * (levels - 2)
    return b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":' + inner + b"}}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (nested(NESTING), [(9, "ping")]),
        (nested(NESTING + 1), [(9, "invalid-request")]),
        (b'{"jsonrpc":"2.0","id":9,"method":"' + b"[" * 200 + b'"}', [(9, "[" * 200)]),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":[' + b"[]," * 200 + b"[]]}}", [(9, "ping")]),
    ],
    ids=["as deep as allowed", "one deeper", "brackets in a string", "wide, not deep"],
)
def test_nesting(line: bytes, expected: list[tuple[object, str]]) -> None:
    """Depth is what counts, not how many brackets there are."""
    assert seen(decoded(line + b"\n")) == expected


@pytest.mark.parametrize("levels", [900, 3_000, 100_000])
def test_absurd_nesting(levels: int) -> None:
    """Far deeper than Python's own parser goes (versions differ): refused, whether or not the id could be read."""
    (message,) = decoded(nested(levels) + b"\n")
    assert isinstance(message, Rejected)
    assert message.error.word == "invalid-request"


def test_longest_line() -> None:
    """A line of exactly the limit, its newline included, is read; one byte more is not."""
    fits = PING + b" " * (LINE_BYTES - 1 - len(PING))
    assert seen(decoded(fits + b"\n")) == [(1, "ping")]
    assert seen(decoded(fits + b" \n" + PING + b"\n")) == [(None, "line-too-long")]


def test_nothing_is_read_behind_a_line_too_long() -> None:
    """After the fatal rejection the decoder stays silent whatever comes, and keeps none of it."""
    decoder = Decoder()
    decoder.receive_data(b"x" * LINE_BYTES)
    message = decoder.next_message()
    assert isinstance(message, Rejected)
    assert message.fatal
    decoder.receive_data(b"\n" + PING + b"\n")
    decoder.receive_eof()
    assert decoder.next_message() is None


def test_a_long_line_in_small_pieces_takes_linear_time() -> None:
    """What has been searched for a newline is not searched again."""
    decoder = Decoder()
    for _ in range(100_000):
        decoder.receive_data(b"          ")
        assert decoder.next_message() is None
    decoder.receive_data(PING + b"\n")
    assert seen([m for m in [decoder.next_message()] if m]) == [(1, "ping")]


@given(st.lists(st.sampled_from([row[1] for row in LINES]), max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_any_chunks_give_the_same_messages(lines: list[bytes], data: st.DataObject) -> None:
    """How the bytes are cut changes nothing."""
    stream = b"\n".join([*lines, b""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    places = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(places)]
    assert seen(decoded(*chunks)) == seen(decoded(stream))


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_messages_or_errors(stream: bytes) -> None:
    """Nothing raises, and every rejection can be put on a line."""
    for message in decoded(stream, end=True):
        if isinstance(message, Rejected):
            json.loads(encode_error(message.id, message.error))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
surrogates = st.text(st.characters(codec=None, categories=None), max_size=20)


@given(st.dictionaries(st.text(), json_values, max_size=5), surrogates)
@settings(max_examples=150, deadline=None)
def test_answers_come_back_as_they_were(result: dict[str, object], text: str) -> None:
    """An answer's line is UTF-8, one line for every kind of reader, and reads back as it was, lone surrogates too."""
    line = encode_answer("i", {**result, "text": text})
    assert line.endswith(b"\n")
    assert len(line.decode("utf-8").splitlines()) == 1
    back = json.loads(line)["result"]["text"]
    # A pair of surrogates is one character to every reader of JSON.
    assert back == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def test_a_file_name_that_is_not_utf8_survives() -> None:
    """Bytes that are no UTF-8 (surrogateescape) come out as an escape that gives the same bytes back."""
    name = b"caf\xe9.md".decode("utf-8", "surrogateescape")
    line = encode_answer(1, {"file": name})
    assert b"\\udce9" in line
    assert json.loads(line)["result"]["file"].encode("utf-8", "surrogateescape") == b"caf\xe9.md"


def test_text_is_written_as_utf8() -> None:
    """Chinese stays Chinese: three bytes a character, not six."""
    assert "记忆".encode() in encode_answer(1, {"text": "记忆"})


def test_an_answer_that_is_too_long_is_too_large() -> None:
    """The biggest answer goes out; one byte more becomes an error under the same id."""
    frame = len(encode_answer("id", {"text": ""}))
    fits = encode_answer("id", {"text": "x" * (LINE_BYTES - frame)})
    assert len(fits) == LINE_BYTES
    assert "result" in json.loads(fits)
    line = encode_answer("id", {"text": "x" * (LINE_BYTES - frame + 1)})
    assert len(line) < LINE_BYTES
    told = json.loads(line)
    assert told["id"] == "id"
    assert told["error"]["data"]["code"] == "too-large"


@pytest.mark.parametrize("result", [{"a": float("nan")}, {"a": {1, 2}}, {"a": b"x"}])
def test_a_result_that_is_not_json_raises(result: dict[str, object]) -> None:
    """A handler's mistake is noticed here, not by the client's parser."""
    with pytest.raises((TypeError, ValueError)):
        encode_answer(1, result)


def test_errors_on_the_wire() -> None:
    """An error has code, message, the stable word, the hint and its own members."""
    line = encode_error(3, NotFound("no such fact", hint="list them", file="a.md"))
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "id": 3,
        "error": {
            "code": -32000,
            "message": "no such fact",
            "data": {"code": "not-found", "file": "a.md", "hint": "list them"},
        },
    }


def test_an_endless_error_is_cut() -> None:
    """An error is told whatever it carries: too long a message is cut, what is no JSON is written as text."""
    line = encode_error(None, ZcsyncdError("x" * (2 * LINE_BYTES), more="y" * LINE_BYTES))
    assert len(line) <= LINE_BYTES
    assert json.loads(line)["error"]["data"] == {"code": "internal-error"}
    assert json.loads(encode_error(1, ZcsyncdError("x", what={1})))["error"]["data"]["what"] == "{1}"


EVENT = StoredEvent(1813, 1_796_055_660_123, "memory/changed", "/home/u/记/memory", None, '{"changes":[]}')


def test_an_event_is_spliced() -> None:
    """The line of an event has every member of the envelope, and the data as the journal has it."""
    line = encode_event(3, "9f2c", EVENT)
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "method": "event",
        "params": {
            "subscription": 3,
            "cursor": "9f2c:1813",
            "time": "2026-11-30T16:21:00.123Z",
            "topic": "memory/changed",
            "dir": "/home/u/记/memory",
            "data": {"changes": []},
        },
    }
    assert line.count(b"\n") == 1


@pytest.mark.parametrize("data", ["{}", '{"kind":"full"}'])
def test_a_replayed_event_is_marked(data: str) -> None:
    """A replayed event says so in the envelope and in the data."""
    event = StoredEvent(1, 0, "read-state/read", "/m", ("pi", "1"), data)
    params = json.loads(encode_event(1, "j", event, replayed=True))["params"]
    assert params["replayed"] is True
    assert params["data"] == {**json.loads(data), "replayed": True}
    assert "replayed" not in json.loads(encode_event(1, "j", event))["params"]


def test_an_event_with_odd_names() -> None:
    """Separators of lines and lone surrogates in directory and data are escaped."""
    odd = "/m\u2028\x85\udcff"
    line = encode_event(1, "j", StoredEvent(1, 0, "memory/changed", odd, None, data_text({"file": odd})))
    assert len(line.decode("utf-8").splitlines()) == 1
    params = json.loads(line)["params"]
    assert (params["dir"], params["data"]["file"]) == (odd, odd)


def test_a_gap() -> None:
    """A gap is an event without directory."""
    params = json.loads(encode_gap(2, "j", 7, 0, {"reason": "expired", "missed": 3}))["params"]
    assert params == {
        "subscription": 2,
        "cursor": "j:7",
        "time": "1970-01-01T00:00:00.000Z",
        "topic": "bus/gap",
        "dir": None,
        "data": {"reason": "expired", "missed": 3},
    }


def test_parse_line_keeps_the_params() -> None:
    """Parameters reach the request as they were written."""
    message = parse_line(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"b":[1,"x"]}}}')
    assert message == Request(1, "m", {"a": {"b": [1, "x"]}})
