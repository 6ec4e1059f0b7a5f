"""One connection's state: queues, bounds, sessions."""

from __future__ import annotations

import pytest

from zcsyncd.bus.codec import Request
from zcsyncd.bus.connection import Connection, Session, session_of
from zcsyncd.bus.limits import WAITING
from zcsyncd.errors import InvalidParams, NotFound, Overloaded


@pytest.fixture
def connection() -> Connection:
    """Give a connection that writes nowhere."""
    return Connection(lambda _data: None, lambda: None)


def line(number: int) -> bytes:
    """Give a request."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number


def test_one_request_at_a_time(connection: Connection) -> None:
    """The next request is given when the answer to the one before has been written."""
    connection.receive(line(1) + line(2))
    first = connection.next_request()
    assert isinstance(first, Request)
    connection.answer(b"x", 0)
    assert connection.next_request() is None
    connection.answer_written()
    second = connection.next_request()
    assert isinstance(second, Request)
    assert (first.id, second.id) == (1, 2)
    assert connection.next_request() is None


def test_requests_beyond_the_bound_stay_bytes(connection: Connection) -> None:
    """A flood is full at 64, and nothing of it is lost."""
    connection.receive(b"".join(line(n) for n in range(200)))
    assert connection.full
    assert len(connection._waiting) == WAITING
    for n in range(200):
        message = connection.next_request()
        assert isinstance(message, Request)
        assert message.id == n
    assert not connection.full


def test_nothing_after_the_last_answer(connection: Connection) -> None:
    """Once the last line is written no request is begun."""
    connection.receive(line(1))
    connection.answer(b"x", 0, last=True)
    connection.answer_written()
    assert connection.finished
    assert not connection.ready
    assert connection.next_request() is None


def test_subscriptions_are_numbered_and_bounded(connection: Connection) -> None:
    """Numbers are never used twice; the 65th at a time is refused; an unknown number is not-found."""
    for number in range(1, 65):
        assert connection.subscribe(lambda _: True, lambda _: True, 0, 0, None).number == number
    with pytest.raises(Overloaded):
        connection.subscribe(lambda _: True, lambda _: True, 0, 0, None)
    connection.unsubscribe(64)
    assert connection.subscribe(lambda _: True, lambda _: True, 0, 0, None).number == 65
    with pytest.raises(NotFound):
        connection.unsubscribe(64)


def test_drop_held_takes_only_the_new(connection: Connection) -> None:
    """Taking back what a failed request subscribed to leaves older subscriptions alone."""
    connection.subscribe(lambda _: True, lambda _: True, 0, 0, None)
    connection.answer(b"x", 0)
    connection.answer_written()
    connection.subscribe(lambda _: True, lambda _: True, 0, 0, None)
    connection.drop_held()
    assert list(connection.subscriptions) == [1]


def test_session_of() -> None:
    """The session of `hello` becomes a record; what was not given has its default."""
    assert session_of({"host": "pi", "id": "1", "cwd": "/x"}) == Session("pi", "1", "/x")
    full = {
        "host": "pi", "id": "2", "cwd": "/x", "reason": "fork", "parent": "1", "dirs": ["/m"], "env": {"A": "b"}, "scope": "all",
    }  # fmt: skip
    assert session_of(full) == Session("pi", "2", "/x", "fork", "1", ("/m",), {"A": "b"}, "all")


def test_a_fork_names_its_parent() -> None:
    """A fork without a parent is a mistake that is told with the parameter's name."""
    with pytest.raises(InvalidParams, match=r"session\.parent"):
        session_of({"host": "pi", "id": "2", "cwd": "/x", "reason": "fork"})
