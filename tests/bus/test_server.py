"""The server on real sockets: garbage, order, slow readers, hang-ups, bounds, leaving."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import subprocess
import sys
import time
from typing import Self

import pytest

from tests.bus.bus_thread import BusThread
from zcsyncd.bus.client import Client
from zcsyncd.bus.limits import CONNECTIONS, LINE_BYTES, SUBSCRIPTIONS
from zcsyncd.bus.server import GRACE_S
from zcsyncd.errors import NoDaemon, NotFound, Overloaded, TooLarge, UnknownMethod, ZcsyncdError


class Raw:
    """A socket that speaks bytes."""

    def __init__(self, address: str, timeout_s: float = 20.0) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(address)
        self.socket.settimeout(timeout_s)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, number: object, method: str, **params: object) -> None:
        self.send(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        )

    def read(self) -> dict | None:
        line = self._file.readline()
        return json.loads(line) if line else None

    def read_all(self) -> list[dict]:
        return [json.loads(line) for line in self._file]

    def subscribe(self, **params: object) -> dict:
        self.ask("sub", "events.subscribe", **params)
        answer = self.read()
        assert answer is not None
        return answer["result"]

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def word(answer: dict | None) -> str:
    """Give the stable word of an error."""
    assert answer is not None
    return answer["error"]["data"]["code"]


GARBAGE = [
    (b"\x00\xff\xfe garbage\n", "parse-error"),
    (b"{\n", "parse-error"),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}\n', "parse-error"),
    (b"GET / HTTP/1.1\r\n", "parse-error"),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', "batch-refused"),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}\n', "invalid-request"),
    (b'{"jsonrpc":"2.0","id":1,"method":"nothing.there"}\n', "unknown-method"),
    (b'{"jsonrpc":"2.0","id":1,"method":"memory.read"}\n', "invalid-params"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n", "invalid-request"),
]


@pytest.mark.parametrize(
    ("line", "code"), GARBAGE, ids=[f"{code}-{place}" for place, (_, code) in enumerate(GARBAGE)]
)
def test_garbage_is_told_and_the_connection_goes_on(bus: BusThread, line: bytes, code: str) -> None:
    """A line that makes no sense is one error; the next request is answered."""
    with Raw(bus.address) as raw:
        raw.send(line)
        assert word(raw.read()) == code
        raw.ask(2, "ping")
        assert raw.read() == {"jsonrpc": "2.0", "id": 2, "result": {"cursor": "j1:0"}}


def test_a_line_of_two_mebibytes_is_told_and_closed(bus: BusThread) -> None:
    """A client that sends 2 MiB in one line before it reads gets `line-too-long`, then the end."""
    with Raw(bus.address) as raw:
        raw.send(b"x" * (2 * LINE_BYTES) + b"\n")
        assert word(raw.read()) == "line-too-long"
        assert raw.read() is None


def test_half_a_line_and_nothing_harm_nobody(bus: BusThread) -> None:
    """Clients that send half a line, or nothing, and stay or leave, keep nobody else from being answered."""
    with Raw(bus.address) as half, Raw(bus.address):
        half.send(b'{"jsonrpc":"2.0","id":1,"met')
        with Raw(bus.address) as leaving:
            leaving.send(b'{"jsonrpc"')
        with Client(bus.address) as client:
            assert client.call("ping") == {"cursor": "j1:0"}
        half.send(b'hod":"ping"}\n')
        assert half.read() == {"jsonrpc": "2.0", "id": 1, "result": {"cursor": "j1:0"}}


def test_byte_by_byte(bus: BusThread) -> None:
    """A request that comes one byte at a time is a request."""
    with Raw(bus.address) as raw:
        for byte in b'{"jsonrpc":"2.0","id":"b","method":"ping"}\r\n':
            raw.send(bytes([byte]))
        assert raw.read() == {"jsonrpc": "2.0", "id": "b", "result": {"cursor": "j1:0"}}


def test_a_thousand_pipelined_requests_are_answered_in_order(bus: BusThread) -> None:
    """Requests sent at once, far more than may wait, are all answered, in the order asked."""
    with Raw(bus.address) as raw:
        raw.send(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(1000)))
        assert [raw.read()["id"] for _ in range(1000)] == list(range(1000))


def test_reading_pauses_while_requests_wait(bus: BusThread) -> None:
    """Behind a slow request 64 may wait; then the client's own buffer fills, and nothing is lost."""
    with Raw(bus.address) as raw:
        raw.ask("slow", "daemon.flush")
        raw.socket.setblocking(False)
        line = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"padding":"' + b"p" * 4000 + b'"}}\n'
        sent = 0
        rest = b""
        # A full socket that stays full: the server has stopped reading.
        while select.select([], [raw.socket], [], 0.3)[1]:
            rest = rest or line
            took = raw.socket.send(rest)
            rest = rest[took:]
            sent += not rest
            assert sent < 5000
        raw.socket.settimeout(20)
        bus.release.set()
        assert raw.read()["id"] == "slow"
        for _ in range(sent):
            assert raw.read()["id"] == 1


def test_connections_do_not_wait_for_each_other(bus: BusThread) -> None:
    """While one connection's request takes its time, another connection is answered."""
    with Raw(bus.address) as slow, Client(bus.address) as quick:
        slow.ask(1, "daemon.flush")
        bus.until(lambda: "daemon.flush" in bus.calls)
        assert quick.call("ping") == {"cursor": "j1:0"}
        bus.release.set()
        assert slow.read()["id"] == 1


def test_a_bug_of_a_handler_is_an_internal_error(bus: BusThread, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that raises costs its request an internal-error; the log has the traceback; the daemon goes on."""
    with Client(bus.address) as client:
        with pytest.raises(ZcsyncdError) as caught:
            client.call("dirs.resolve", cwd="/x")
        assert type(caught.value) is ZcsyncdError
        assert "bug of the test" not in caught.value.message
        assert client.call("ping") == {"cursor": "j1:0"}
    assert "a bug of the test's own" in caplog.text
    assert "method=dirs.resolve" in caplog.text


def test_errors_come_back_as_what_they_were(bus: BusThread) -> None:
    """An error on the wire is the same class of error at the client, with its members."""
    with Client(bus.address) as client:
        with pytest.raises(UnknownMethod):
            client.call("memory.unheard", name="x")
        with pytest.raises(ZcsyncdError) as caught:
            client.call("dirs.resolve", cwd="relative")
        assert (caught.value.word, caught.value.exit_code) == ("invalid-params", 2)
        assert caught.value.data["parameter"] == "cwd"
        with pytest.raises(NotFound):
            client.call("events.unsubscribe", subscription=7)
        with pytest.raises(TooLarge):
            client.call("memory.index")
        with pytest.raises(ZcsyncdError, match="`since`: expected a cursor"):
            client.call("events.subscribe", since="no cursor")


def test_session_and_client_are_kept_per_connection(bus: BusThread) -> None:
    """What `hello` says holds for its connection only."""
    session = {"host": "pi", "id": "1", "cwd": "/x"}
    with Client(bus.address) as one, Client(bus.address) as other:
        assert one.hello("test", "1", session)["host"] == "pi"
        assert other.hello("test", "1")["host"] is None


# -- events ---------------------------------------------------------------------------------------------------


def test_the_answer_to_subscribe_comes_before_its_events(bus: BusThread) -> None:
    """With a backlog to replay, the first line is still the answer that tells the subscription's number."""
    bus.publish(*({"n": n} for n in range(5)))
    with Raw(bus.address) as raw:
        raw.ask(1, "events.subscribe", since="j1:2")
        assert raw.read()["result"] == {"subscription": 1, "cursor": "j1:2"}
        assert [raw.read()["params"]["data"]["n"] for _ in range(3)] == [2, 3, 4]
        bus.publish({"n": 5})
        assert raw.read()["params"]["cursor"] == "j1:6"


def test_an_event_published_before_an_answer_comes_before_it(bus: BusThread) -> None:
    """Each answer follows the events that its own handler published, many times over, pipelined."""
    with Raw(bus.address) as raw:
        raw.subscribe()
        for n in range(200):
            raw.ask(n, "audit.dismiss", key=f"k{n}")
        for n in range(200):
            event, answer = raw.read(), raw.read()
            assert event["params"]["data"] == {"key": f"k{n}"}
            assert answer == {"jsonrpc": "2.0", "id": n, "result": {}}


def test_an_answer_waits_for_a_backlog_that_the_socket_does_not_take(bus: BusThread) -> None:
    """Asked in the middle of 5,000 unread events, a ping is answered after all of them, and names the last."""
    with Raw(bus.address) as raw:
        raw.subscribe()
        bus.publish(*({"n": n, "pad": "p" * 200} for n in range(5000)))
        raw.ask(1, "ping")
        messages = [raw.read() for _ in range(5001)]
        assert [message["params"]["data"]["n"] for message in messages[:-1]] == list(range(5000))
        assert messages[-1] == {"jsonrpc": "2.0", "id": 1, "result": {"cursor": "j1:5000"}}


def test_a_slow_reader_gets_everything_and_delays_nobody(bus: BusThread) -> None:
    """20,000 events reach a reader that sleeps through them in order, while others get each at once."""
    count = 20_000
    with Raw(bus.address) as slow, Client(bus.address) as quick:
        slow.subscribe()
        quick.call("events.subscribe")
        for start in range(0, count, 1000):
            bus.publish(*({"n": n} for n in range(start, start + 1000)))
            for n in range(start, start + 1000):
                event = quick.next_event(20)
                assert event is not None
                assert event["data"] == {"n": n}
        assert bus.server.counters.dropped == 0
        assert [slow.read()["params"]["data"]["n"] for _ in range(count)] == list(range(count))


def test_a_slow_reader_costs_no_memory(bus: BusThread) -> None:
    """What waits for a reader that sleeps is in the journal: its transport holds at most one write."""
    with Raw(bus.address) as slow:
        slow.subscribe()
        for start in range(0, 5000, 500):
            bus.publish(*({"n": n, "pad": "p" * 500} for n in range(start, start + 500)))
        (wire,) = bus.server._wires
        assert wire._transport is not None
        assert wire._transport.get_write_buffer_size() <= 65_536 + 2_000


def test_filters(bus: BusThread) -> None:
    """A subscription gets the topics and directories that it asked for, and nothing else."""
    with Client(bus.address) as client:
        client.call("events.subscribe", topics=["memory/*"], dirs=["/a"])
        bus.publish({"n": 1}, directory="/b")
        bus.publish({"n": 2}, topic="daemon/started", directory=None)
        bus.publish({"n": 3}, directory="/a")
        event = client.next_event(20)
        assert event is not None
        assert event["data"] == {"n": 3}
        assert event["cursor"] == "j1:3"
        assert event["dir"] == "/a"


def test_unsubscribe_ends_the_events(bus: BusThread) -> None:
    """After the answer to unsubscribe nothing of that subscription comes any more."""
    with Client(bus.address) as client:
        first = client.call("events.subscribe", topics=["memory/*"])["subscription"]
        second = client.call("events.subscribe", topics=["memory/*"])["subscription"]
        client.call("events.unsubscribe", subscription=first)
        bus.publish({"n": 1})
        client.call("ping")
        assert [client.next_event(0), client.next_event(0)][1] is None
        assert first != second
        assert bus.server.counters.subscriptions == 1


def test_a_subscription_of_a_request_that_failed_is_taken_back(bus: BusThread) -> None:
    """A handler that subscribes and then fails leaves no subscription behind."""
    with Client(bus.address) as client:
        with pytest.raises(ZcsyncdError):
            client.call("audit.get")
        bus.publish({"n": 1})
        client.call("ping")
        assert client.next_event(0) is None
        assert bus.server.counters.subscriptions == 0


def test_sixty_four_subscriptions(bus: BusThread) -> None:
    """The 65th subscription of a connection is refused; ending one makes room."""
    with Client(bus.address) as client:
        for _ in range(SUBSCRIPTIONS):
            client.call("events.subscribe")
        with pytest.raises(Overloaded):
            client.call("events.subscribe")
        client.call("events.unsubscribe", subscription=1)
        assert client.call("events.subscribe")["subscription"] == SUBSCRIPTIONS + 1


def test_gap_expired_comes_before_the_next_event(bus: BusThread) -> None:
    """`since` behind the journal's oldest event: the gap with its count and place, then what there is."""
    bus.publish(*({"n": n} for n in range(1, 11)))
    bus.journal.forget_to(4)
    with Raw(bus.address) as raw:
        assert raw.subscribe(since="j1:1", topics=["none/*"])["cursor"] == "j1:4"
        gap = raw.read()["params"]
        assert (gap["topic"], gap["cursor"], gap["dir"]) == ("bus/gap", "j1:4", None)
        assert gap["data"] == {"reason": "expired", "missed": 3}
    assert bus.server.counters.dropped == 3


@pytest.mark.parametrize("since", ["j1:11", "other:3"])
def test_gap_journal_reset_then_live(bus: BusThread, since: str) -> None:
    """`since` ahead of the head or of another journal: a gap of unknown size, then live."""
    bus.publish(*({"n": n} for n in range(1, 11)))
    with Raw(bus.address) as raw:
        assert raw.subscribe(since=since)["cursor"] == "j1:10"
        gap = raw.read()["params"]
        assert (gap["topic"], gap["cursor"]) == ("bus/gap", "j1:10")
        assert gap["data"] == {"reason": "journal-reset", "missed": None}
        bus.publish({"n": 11})
        assert raw.read()["params"]["cursor"] == "j1:11"


def test_a_slow_reader_that_falls_behind_the_journal_is_told(bus: BusThread) -> None:
    """Retention overtakes a sleeping reader: what it still gets is in order, with one gap where events are gone."""
    with Raw(bus.address) as slow:
        slow.subscribe()
        bus.publish(*({"n": n, "pad": "p" * 1000} for n in range(1, 3001)))
        bus.journal.forget_to(2900)
        seen: list[int] = []
        missed = 0
        while not seen or seen[-1] < 3000:
            params = slow.read()["params"]
            if params["topic"] == "bus/gap":
                missed = params["data"]["missed"]
                assert params["cursor"] == "j1:2900"
                assert seen[-1] + missed == 2900
            else:
                seen.append(params["data"]["n"])
        assert len(seen) + missed == 3000
        assert seen == sorted(seen)
        assert bus.server.counters.dropped == missed > 0


def test_an_event_reaches_a_hundred_subscribers(bus: BusThread) -> None:
    """Fan-out: everybody gets it, each with its own subscription number."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(bus.address)) for _ in range(100)]
        for client in clients:
            client.call("events.subscribe")
        bus.publish({"n": 1})
        for client in clients:
            event = client.next_event(20)
            assert event is not None
            assert event["data"] == {"n": 1}


# -- coming and going -----------------------------------------------------------------------------------------


def test_a_hang_up_is_noticed_at_once(bus: BusThread) -> None:
    """A subscriber that goes away is no longer counted, without an event having to be sent to it."""
    with Raw(bus.address) as raw:
        raw.subscribe()
        assert bus.server.counters.connections == 1
    bus.until(lambda: bus.server.counters.connections == 0)
    assert bus.server.counters.subscriptions == 0


def test_a_hang_up_with_a_full_socket_is_noticed(bus: BusThread) -> None:
    """A subscriber that never read and then goes away is no longer counted either."""
    with Raw(bus.address) as raw:
        raw.subscribe()
        bus.publish(*({"n": n, "pad": "p" * 1000} for n in range(2000)))
    bus.until(lambda: bus.server.counters.connections == 0)


def test_half_close_gets_its_answers(bus: BusThread) -> None:
    """`printf … | nc -N`: a client that shuts down its writing side is answered, then closed."""
    with Raw(bus.address) as raw:
        raw.ask(1, "ping")
        raw.ask(2, "ping")
        # No newline at the end: what is whole is taken.
        raw.send(b'{"jsonrpc":"2.0","id":3,"method":"ping"}')
        raw.socket.shutdown(socket.SHUT_WR)
        assert [answer["id"] for answer in raw.read_all()] == [1, 2, 3]


def test_half_close_waits_for_a_slow_answer(bus: BusThread) -> None:
    """A client that shut down its writing side gets the answer to a request that is still at work."""
    with Raw(bus.address) as raw:
        raw.ask(1, "daemon.flush")
        raw.socket.shutdown(socket.SHUT_WR)
        bus.until(lambda: "daemon.flush" in bus.calls)
        bus.release.set()
        assert [answer["id"] for answer in raw.read_all()] == [1]


def test_half_close_with_since_gets_the_backlog(bus: BusThread) -> None:
    """A subscription asked for and half-closed at once gives everything up to now, then ends."""
    bus.publish(*({"n": n, "pad": "p" * 500} for n in range(3000)))
    with Raw(bus.address) as raw:
        raw.ask(1, "events.subscribe", since="j1:0")
        raw.socket.shutdown(socket.SHUT_WR)
        messages = raw.read_all()
        assert messages[0]["result"]["subscription"] == 1
        assert [message["params"]["data"]["n"] for message in messages[1:]] == list(range(3000))


def test_a_request_of_a_client_that_left_is_carried_out(bus: BusThread) -> None:
    """A hook that reports and leaves without reading has reported."""
    with Raw(bus.address) as raw:
        raw.subscribe()
        raw.ask(1, "audit.dismiss", key="a")
        raw.ask(2, "audit.dismiss", key="b")
    bus.until(lambda: bus.journal.head == 2)
    bus.until(lambda: bus.server.counters.connections == 0)


def test_questions_of_a_client_that_left_are_not_asked(bus: BusThread) -> None:
    """Nobody hears their answers, and the others would wait for them; an act behind them is done."""
    with Raw(bus.address) as raw:
        raw.ask(1, "daemon.flush")
        bus.until(lambda: "daemon.flush" in bus.calls)
        for number in range(20):
            raw.ask(2 + number, "memory.index", dir="/m")
        raw.ask(99, "audit.dismiss", key="a")
    bus.release.set()  # only the first answer shows that nobody is there: a closed end looks like one that is half closed
    bus.until(lambda: bus.journal.head == 1)
    bus.until(lambda: bus.server.counters.connections == 0)
    assert "memory.index" not in bus.calls


def test_the_257th_connection_is_told_and_closed(bus: BusThread) -> None:
    """One connection too many gets an `overloaded` line and the end; when one goes there is room again."""
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(bus.address)) for _ in range(CONNECTIONS)]
        bus.until(lambda: bus.server.counters.connections == CONNECTIONS)
        with Raw(bus.address) as late:
            late.ask(1, "ping")
            answer = late.read()
            assert word(answer) == "overloaded"
            assert answer is not None
            assert answer["id"] is None
            assert late.read() is None
        with pytest.raises(Overloaded), Client(bus.address) as client:
            client.call("ping")
        raws[0].ask(1, "ping")
        assert raws[0].read()["id"] == 1
        raws[1].close()
        bus.until(lambda: bus.server.counters.connections == CONNECTIONS - 1)
        with Client(bus.address) as client:
            client.call("ping")


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect("bus.sock")
try:
    s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
    data = s.recv(100)
except (BrokenPipeError, ConnectionResetError):
    data = b""
sys.exit(0 if data == b"" else 1)
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_closed_at_once(bus: BusThread, caplog: pytest.LogCaptureFixture) -> None:
    """A process of another uid is cut off without an answer, even where the file's mode would let it in."""
    directory = os.path.dirname(bus.address)
    os.chmod(directory, 0o755)
    os.chmod(bus.address, 0o666)
    done = subprocess.run([sys.executable, "-c", STRANGER], cwd=directory, timeout=30, check=False)
    assert done.returncode == 0
    assert "reason=another-user" in caplog.text
    assert bus.calls == []


def test_who_is_not_admitted_is_closed_and_logged(short_path, caplog: pytest.LogCaptureFixture) -> None:
    """The check on accept decides: nothing is read from whoever it turns away."""
    made = BusThread(short_path, admits=lambda _socket: False)
    made.start()
    try:
        with pytest.raises(NoDaemon), Client(made.address) as client:
            client.call("ping")
        assert made.calls == []
        assert "event=refused reason=another-user" in caplog.text
    finally:
        made.stop()


# -- leaving --------------------------------------------------------------------------------------------------


def test_stop_answers_last(bus: BusThread) -> None:
    """`daemon.stop` is answered when every other connection is closed and nobody is let in any more."""
    with Raw(bus.address) as other, Raw(bus.address) as stopping:
        other.subscribe()
        bus.publish({"n": 1})
        stopping.ask(1, "daemon.stop")
        assert stopping.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert bus.server.counters.connections == 1
        assert other.read()["params"]["data"] == {"n": 1}
        assert other.read() is None
        with pytest.raises(NoDaemon), Client(bus.address):
            pass


def test_close_lets_a_request_finish(bus: BusThread) -> None:
    """A request at work when the daemon leaves gets its answer; those that wait do not begin."""
    with Raw(bus.address) as raw:
        raw.ask(1, "daemon.flush")
        raw.ask(2, "audit.dismiss", key="late")
        bus.until(lambda: "daemon.flush" in bus.calls)
        closing = bus.begin(bus.server.close(grace_s=20))
        bus.release.set()
        assert raw.read()["id"] == 1
        assert raw.read() is None
        closing.result(20)
    assert "audit.dismiss" not in bus.calls


def test_close_does_not_wait_for_ever(bus: BusThread) -> None:
    """A request that never ends and a reader that never reads are cut off after the grace."""
    with Raw(bus.address) as stuck, Raw(bus.address) as sleeping:
        stuck.ask(1, "daemon.flush")
        bus.until(lambda: "daemon.flush" in bus.calls)
        sleeping.subscribe()
        bus.publish(*({"n": n, "pad": "p" * 1000} for n in range(2000)))
        began = time.monotonic()
        bus.run(bus.server.close(grace_s=0.1))
        assert time.monotonic() - began < GRACE_S * 5
        assert stuck.read() is None
        assert bus.server.counters.connections == 0


def test_nothing_is_logged_for_ordinary_traffic(bus: BusThread, caplog: pytest.LogCaptureFixture) -> None:
    """Requests, events and hang-ups leave no line in the log."""
    caplog.set_level(logging.DEBUG, logger="zcsyncd")
    with Client(bus.address) as client:
        client.call("events.subscribe")
        bus.publish({"n": 1})
        client.next_event(20)
    bus.until(lambda: bus.server.counters.connections == 0)
    bus.publish(*({"n": n} for n in range(10)))
    assert [record for record in caplog.records if record.name.startswith("zcsyncd")] == []
