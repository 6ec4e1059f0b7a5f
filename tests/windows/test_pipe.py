"""The named pipe: whose it is, who gets in, and that a connection over it keeps every promise of the bus."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from tests.bus.bus_thread import BusThread
from zcsyncd.bus import pipe_server
from zcsyncd.bus.async_client import AsyncClient
from zcsyncd.bus.client import Client, follow
from zcsyncd.bus.limits import CONNECTIONS, LINE_BYTES
from zcsyncd.bus.pipe import Pipe, open_handle, owner_sid
from zcsyncd.bus.pipe_server import NoPipes, PipeListener, access_list
from zcsyncd.errors import AlreadyRunning, InvalidParams, NoDaemon, Overloaded, Refused
from zcsyncd.places import default_address, user_sid

WAIT_S = 20.0


def lines_of(pipe, count):
    """Read so many lines, each as JSON."""
    data = b""
    while data.count(b"\n") < count:
        part = pipe.recv(65_536)
        assert part, data[-300:]
        data += part
    return [json.loads(line) for line in data.split(b"\n")[:count]]


def request(number, method="ping", **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


@pytest.fixture
def pipe(bus):
    made = Pipe.connect(bus.address, WAIT_S)
    yield made
    made.close()


# --- whose it is ---------------------------------------------------------------------------------------------------


def test_the_usual_name_holds_the_users_identifier():
    """Two users of one machine never share a name."""
    assert user_sid().startswith("S-1-")
    assert default_address({}) == rf"\\.\pipe\zcsyncd-{user_sid()}"


def test_the_access_list_names_the_user_and_the_system_only():
    """Owner first, protected from inheritance, two grants."""
    assert access_list("S-1-5-21-7") == "O:S-1-5-21-7D:P(A;;GA;;;S-1-5-21-7)(A;;GA;;;SY)"


def test_the_pipe_belongs_to_the_user(bus):
    """A client can make sure of it before it sends a byte."""
    handle = open_handle(bus.address)
    try:
        assert owner_sid(handle) == user_sid()
    finally:
        from _winapi import CloseHandle

        CloseHandle(handle)


def test_a_pipe_of_somebody_else_is_refused(bus, monkeypatch):
    """Whoever squats the name gets nothing."""
    monkeypatch.setattr("zcsyncd.bus.pipe.user_sid", lambda: "S-1-5-21-1-2-3-4")
    with pytest.raises(Refused, match="belongs to another user"):
        Client(bus.address).connect()
    assert bus.calls == []


def test_a_second_daemon_at_the_same_name_is_told(bus):
    """The name is claimed: nobody joins it."""

    async def listen():
        PipeListener(bus.address, asyncio.Protocol)

    with pytest.raises(AlreadyRunning, match="another state directory"):
        asyncio.run(listen())


@pytest.mark.parametrize("name", [r"\\other\pipe\z", r"\\.\pipe\a\b", "C:\\z", "z", "\\\\.\\pipe\\"])
def test_what_is_no_pipe_of_this_machine_is_refused(name):
    """A path, a pipe of another machine, a name with a backslash."""

    async def listen():
        PipeListener(name, asyncio.Protocol)

    with pytest.raises(Refused, match="no pipe"):
        asyncio.run(listen())


def test_the_name_is_free_again_after_the_end(address):
    """A daemon that has stopped leaves nothing that keeps the next from starting."""

    async def listen():
        for _ in range(3):
            listener = PipeListener(address, asyncio.Protocol)
            handle = open_handle(address)
            await asyncio.sleep(0)
            listener.close()
            listener.close()
            from _winapi import CloseHandle

            CloseHandle(handle)
            await asyncio.sleep(0)

    asyncio.run(listen())
    with pytest.raises(NoDaemon, match="no such pipe"):
        Client(address).connect()


def test_a_loop_without_pipes_says_so(address):
    """The selector loop of Windows cannot: one line that says which loop can."""

    async def listen():
        with pytest.raises(NoPipes, match="SelectorEventLoop"):
            PipeListener(address, asyncio.Protocol)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(listen())


def test_the_private_names_of_asyncio_are_there():
    """A Python that changes them is noticed here first."""

    async def look():
        loop = asyncio.get_running_loop()
        assert callable(loop._make_duplex_pipe_transport)
        assert callable(loop._proactor.accept_pipe)

    asyncio.run(look())


# --- connections ---------------------------------------------------------------------------------------------------


def test_round_trips(bus):
    """Two hundred questions, each answered; their time is printed."""
    with Client(bus.address) as client:
        times = []
        for _ in range(200):
            began = time.perf_counter()
            assert client.call("ping") == {"cursor": client.call("ping")["cursor"]}
            times.append((time.perf_counter() - began) / 2)
    print(f"median round trip {sorted(times)[100] * 1000:.2f} ms")  # noqa: T201 - `-rP` shows it


def test_pipelined_requests_are_answered_in_order(pipe):
    """A hundred in one write."""
    pipe.sendall(b"".join(request(number) for number in range(100)))
    assert [message["id"] for message in lines_of(pipe, 100)] == list(range(100))


def test_a_request_in_pieces(pipe):
    """Bytes come as they come."""
    for byte in request(7):
        pipe.sendall(bytes([byte]))
    assert lines_of(pipe, 1)[0]["id"] == 7


def test_a_line_that_is_too_long(pipe):
    """It is answered with an error, and the connection ends."""
    with pytest.raises(OSError):  # noqa: PT012 - the pipe may break while we write, or later
        pipe.sendall(b"x" * (2 * LINE_BYTES))
        assert lines_of(pipe, 1)[0]["error"]["data"]["code"] == "line-too-long"
        while pipe.recv(65_536):
            pass
        pipe.sendall(b"more")


def test_a_large_request_passes(bus):
    """Far more than the system holds of a pipe."""
    with Client(bus.address, WAIT_S) as client:
        with pytest.raises(InvalidParams, match="name"):
            client.call("memory.write", body="x" * 500_000)
        assert client.call("ping")


def test_many_clients_at_once(bus):
    """Sixty connect in the same moment, and each is served."""
    failures = []

    def ask():
        try:
            with Client(bus.address, WAIT_S) as client:
                client.call("ping")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []


def test_too_many_connections(bus):
    """The one beyond the bound is told so, and those that are in go on."""
    clients = [Client(bus.address, WAIT_S) for _ in range(CONNECTIONS + 1)]
    try:
        for client in clients[:-1]:
            client.connect()
        bus.until(lambda: bus.server.counters.connections == CONNECTIONS)
        clients[-1].connect()
        with pytest.raises(Overloaded):
            clients[-1].call("ping")
        assert clients[0].call("ping")
    finally:
        for client in clients:
            client.close()
    bus.until(lambda: bus.server.counters.connections == 0)


def test_a_client_that_hangs_up_is_forgotten(bus):
    """In the midst of an answer, of a request, or of a subscription."""
    for begun in (b"", b'{"half":', request(1, "daemon.flush"), request(1, "events.subscribe", topics=["*"])):
        made = Pipe.connect(bus.address, WAIT_S)
        made.sendall(begun or request(1))
        made.close()
    bus.release.set()
    bus.until(lambda: bus.server.counters.connections == 0)
    with Client(bus.address) as client:
        assert client.call("ping")


def test_events_come_over_the_pipe(bus):
    """A subscriber gets every event, in order, each once."""
    with Client(bus.address, WAIT_S) as client:
        client.call("events.subscribe", topics=["*"])
        for number in range(500):
            bus.publish({"number": number})
        got = [client.next_event(WAIT_S)["data"]["number"] for _ in range(500)]
    assert got == list(range(500))


def test_a_slow_reader_delays_nobody(bus):
    """What one does not read waits in the journal, while another gets its events."""
    slow = Pipe.connect(bus.address, WAIT_S)
    try:
        slow.sendall(request(1, "events.subscribe", topics=["*"]))
        bus.until(lambda: bus.server.counters.subscriptions == 1)
        with Client(bus.address, WAIT_S) as quick:
            quick.call("events.subscribe", topics=["*"])
            for number in range(40):
                bus.publish(*({"number": number, "pad": "x" * 5_000} for _ in range(5)))
            for _ in range(200):
                assert quick.next_event(WAIT_S) is not None
        told = [message for message in lines_of(slow, 201) if message.get("method") == "event"]
        assert [each["params"]["data"]["number"] for each in told] == [n for n in range(40) for _ in range(5)]
    finally:
        slow.close()


def test_a_wait_that_was_given_up_loses_nothing(bus):
    """What came after the time limit is there for the next question."""
    with Client(bus.address, WAIT_S) as client:
        client.call("events.subscribe", topics=["*"])
        assert client.next_event(0.05) is None
        assert client.next_event(0.0) is None
        bus.publish({"number": 1})
        assert client.next_event(WAIT_S)["data"] == {"number": 1}


def test_a_daemon_that_does_not_answer(bus):
    """The time limit holds, and is told."""
    with Client(bus.address, 0.3) as client:
        began = time.monotonic()
        with pytest.raises(NoDaemon, match=r"does not answer within 0\.3 s"):
            client.call("daemon.flush", timeout_s=0.3)
        assert time.monotonic() - began < 5
        bus.release.set()
        assert client.call("ping", timeout_s=WAIT_S)


def test_nobody_there(address):
    """A missing pipe is said in one line, by both clients."""
    with pytest.raises(NoDaemon, match="there is no such pipe"):
        Client(address).connect()

    async def ask():
        async with AsyncClient(address):
            pass

    with pytest.raises(NoDaemon, match="there is no such pipe"):
        asyncio.run(ask())


def test_the_asynchronous_client(bus):
    """Answers and events over one pipe, many questions at a time."""

    async def ask():
        async with AsyncClient(bus.address, WAIT_S) as client:
            await client.call("events.subscribe", topics=["*"])
            answers = await asyncio.gather(*(client.call("ping") for _ in range(50)))
            await asyncio.to_thread(bus.publish, {"number": 1})
            event = await client.next_event(WAIT_S)
            return len(answers), event["data"]

    assert asyncio.run(ask()) == (50, {"number": 1})


def test_the_asynchronous_client_needs_a_loop_with_pipes(bus):
    """Said in one line, and nothing is left open."""

    async def ask():
        async with AsyncClient(bus.address):
            pass

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, pytest.raises(NoPipes):
        runner.run(ask())
    bus.until(lambda: bus.server.counters.connections == 0)


def test_a_follower_finds_a_daemon_that_comes_back(address):
    """Over a new pipe of the same name, from where it was."""
    from pathlib import Path

    first = BusThread(Path(address.rpartition("\\")[2]))
    first.start()
    with follow("*", address=address, timeout_s=WAIT_S) as events:
        assert events.next_event(0.2) is None
        first.publish({"number": 1})
        assert events.next_event(WAIT_S)["data"] == {"number": 1}
        first.stop()
        assert events.next_event(0.2) is None
        second = BusThread(Path(address.rpartition("\\")[2]))
        second.journal = first.journal
        second.start()
        try:
            second.publish({"number": 2})
            assert events.next_event(WAIT_S)["data"] == {"number": 2}
        finally:
            events.close()
            second.stop()


def test_stopping_answers_last(bus):
    """`daemon.stop` comes over the pipe: others are closed, then it is answered, and nobody gets in any more."""
    with Client(bus.address, WAIT_S) as other, Client(bus.address, WAIT_S) as client:
        other.call("ping")
        assert client.call("daemon.stop") == {}
        with pytest.raises(NoDaemon, match="closed the connection"):
            other.next_event(WAIT_S)
        with pytest.raises(NoDaemon, match=r"no such pipe|does not answer"):
            Client(bus.address, 0.3).connect()


def test_the_system_that_gives_no_instance_is_asked_again(address, monkeypatch):
    """Those who are in stay, and clients get in again when it gives one."""
    real = pipe_server._make_instance
    refusing = threading.Event()

    def make(*args, **named):
        if refusing.is_set():
            raise OSError(0, "no more of these", None, 1450)
        return real(*args, **named)

    monkeypatch.setattr(pipe_server, "_make_instance", make)
    monkeypatch.setattr(pipe_server, "RETRY_S", 0.05)
    monkeypatch.setattr(pipe_server, "WAITING_INSTANCES", 2)
    from pathlib import Path

    bus = BusThread(Path(address.rpartition("\\")[2]))
    bus.start()
    try:
        with Client(address, WAIT_S) as client:
            refusing.set()
            assert client.call("ping")
            with Client(address, WAIT_S) as second:
                assert second.call("ping")
                threading.Timer(0.3, refusing.clear).start()
                with Client(address, WAIT_S) as third:
                    assert third.call("ping", timeout_s=WAIT_S)
    finally:
        bus.stop()
