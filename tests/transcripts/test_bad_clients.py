"""Clients that send garbage, too much, half of it, or nothing: they are told, and nobody else notices."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transcripts.machine import Asking, Project, Running, entry, fact_text, save


def _lines(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Give what comes on a plain socket, until it is closed."""
    with connection.makefile("rb") as file:
        for line in file:
            yield json.loads(line)


def _word(answer: dict[str, Any]) -> str:
    return str(answer["error"]["data"]["code"])


def _ping(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number


@pytest.mark.parametrize(
    ("sent", "word", "code"),
    [
        (b"garbage\n", "parse-error", -32700),
        (b"\xff\xfe\x00\n", "parse-error", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"\n', "parse-error", -32700),
        (b"[]\n", "batch-refused", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', "batch-refused", -32600),
        (b"17\n", "invalid-request", -32600),
        (b'{"id":1,"method":"ping"}\n', "invalid-request", -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', "invalid-request", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', "invalid-request", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}\n', "invalid-params", -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}\n', "invalid-request", -32600),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
            None,
            None,
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.unheard","params":{}}\n', "unknown-method", -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"__class__"}\n', "unknown-method", -32601),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"memory.read","params":{"dir":"x","name":"y"}}\n',
            "invalid-params",
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"memory.read","params":{"dir":"/x\\u0000","name":"y"}}\n',
            "invalid-params",
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"memory.read","params":{"dir":"/x\\ud800","name":"y"}}\n',
            None,
            None,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"memory.list","params":{"dir":"/nowhere/at/all"}}\n',
            "not-found",
            -32000,
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.list"}\n', "invalid-params", -32602),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":[]}}\n',
            "invalid-params",
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"events.unsubscribe","params":{"subscription":99}}\n',
            "not-found",
            -32000,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"audit.dismiss","params":{"key":"no-such"}}\n',
            "not-found",
            -32000,
        ),
    ],
)
def test_a_bad_line_gets_an_error_and_the_connection_goes_on(
    shared: Running, sent: bytes, word: str | None, code: int | None
) -> None:
    """Every mistake has its word and number, and the next question on the same connection is answered."""
    connection = shared.plain_socket()
    connection.sendall(sent + _ping(7))
    lines = _lines(connection)
    first = next(lines)
    assert "error" in first
    if word is not None:
        assert (_word(first), first["error"]["code"]) == (word, code)
    assert _word(first) != "internal-error"
    second = next(lines)
    assert (second["id"], "result" in second) == (7, True)


def test_a_line_of_two_mebibytes(shared: Running, project: Project) -> None:
    """A line over the bound is answered with `line-too-long` and ends that connection; others go on."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    connection = shared.plain_socket()
    connection.sendall(_ping(1))
    lines = _lines(connection)
    assert next(lines)["id"] == 1
    try:
        connection.sendall(b'{"jsonrpc":"2.0","id":2,"method":"' + b"x" * (2 * 1024 * 1024) + b'"}\n')
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was cut off before all was sent
    assert _word(next(lines)) == "line-too-long"
    assert next(lines, None) is None
    project.fact("one.md", body="Changed.")
    listener.flush()
    assert listener.kinds() == ["updated"]


def test_half_a_line_and_nothing_at_all(shared: Running, project: Project) -> None:
    """Clients that say nothing, or stop in the middle of a word, or hang up there, keep nobody waiting."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    for sent in (b"", b'{"jsonrpc":"2.0","id":1,"meth', b"\n\n\r\n"):
        shared.plain_socket().sendall(sent)
        with shared.plain_socket() as hasty:
            hasty.sendall(sent)
    half = shared.plain_socket()
    half.sendall(_ping(1)[:20])
    project.fact("one.md", body="Changed.")
    listener.flush()
    assert listener.kinds() == ["updated"]
    half.sendall(_ping(1)[20:])
    assert next(_lines(half))["id"] == 1, "the other half came late, and was waited for"


def test_a_client_that_never_reads_loses_nothing_and_delays_nobody(shared: Running, project: Project) -> None:
    """A subscriber that does not read is fed from the journal when it reads at last; others hear at once."""
    project.make({"one.md": fact_text("one")})
    slow = shared.listen(project)
    quick = shared.listen(project)
    quick.forget()
    slow.forget()
    for number in range(12):
        save(
            project.memory / "MEMORY.md",
            "".join(entry(f"{number}-{n}.md", hook="h" * 100) for n in range(190)),
        )
        quick.flush()
    assert quick.kinds("MEMORY.md") == ["updated"] * 12
    slow.flush()
    assert [event["cursor"] for event in slow.heard] == [event["cursor"] for event in quick.heard]


def test_requests_are_answered_in_the_order_asked(shared: Running, project: Project) -> None:
    """Pipelined questions, a slow one among them, come back in order with their own ids; notifications get nothing."""
    project.make({"one.md": fact_text("one")})
    connection = shared.plain_socket()
    asked = [
        {"jsonrpc": "2.0", "id": "first", "method": "daemon.flush", "params": {"rescan": True}},
        {"jsonrpc": "2.0", "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "no.such"},
        *({"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(3, 150)),
    ]
    connection.sendall(b"".join(json.dumps(one).encode() + b"\r\n" for one in asked))
    lines = _lines(connection)
    answered = [next(lines)["id"] for _ in range(len(asked) - 1)]
    assert answered == [one["id"] for one in asked if "id" in one]


def test_who_hangs_up_takes_no_subscription_along(shared: Running) -> None:
    """Connections and subscriptions that are gone are not counted any more."""
    client = shared.client()
    before = client.call("status")["bus"]
    for _ in range(20):
        with Asking(shared.machine.address) as passing:
            passing.call("events.subscribe")
    client.call("daemon.flush")
    after = client.call("status")["bus"]
    assert (after["connections"], after["subscriptions"]) == (before["connections"], before["subscriptions"])
