"""Both clients against a real bus, and against none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bus.bus_thread import BusThread
from zcsyncd.bus.async_client import WAITING_EVENTS, AsyncClient
from zcsyncd.bus.client import Client
from zcsyncd.errors import NoDaemon, NotFound, ProtocolError, UnknownMethod

ROOT = str(Path(__file__).parents[2])

HEAVY = {
    "asyncio", "argparse", "logging", "dataclasses", "typing", "inspect", "platformdirs", "yaml", "watchdog", "sqlite3",
    "subprocess", "threading", "tempfile", "shutil", "hashlib", "pathlib", "datetime", "traceback", "random",
}  # fmt: skip


@pytest.mark.parametrize(
    "module", ["zcsyncd.bus.client", "zcsyncd.bus.endpoint", "zcsyncd.bus.address", "zcsyncd.errors"]
)
def test_the_fast_path_is_light(module: str) -> None:
    """The control client's imports bring socket and json, and none of what costs milliseconds."""
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import {module}; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, ROOT], capture_output=True, text=True, check=True, timeout=30
    )
    assert HEAVY & set(done.stdout.split()) == set()


# -- nobody there ---------------------------------------------------------------------------------------------


@pytest.fixture
def silent_address(short_path: Path) -> Iterator[str]:
    """Give a socket where connections are taken and nothing is ever answered."""
    address = str(short_path / "silent.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        yield address


def speaking(address: str, *lines: bytes) -> threading.Thread:
    """Something at the address that says fixed lines to the first who comes, then hangs up."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()

    def speak() -> None:
        with listening:
            connected, _ = listening.accept()
            with connected, contextlib.suppress(OSError):
                connected.recv(65_536)
                connected.sendall(b"".join(lines))

    thread = threading.Thread(target=speak)
    thread.start()
    return thread


def test_no_socket(short_path: Path) -> None:
    """Where nothing is, one line tells what was probed and how to start a daemon; the exit code is 3."""
    address = str(short_path / "none.sock")
    with pytest.raises(NoDaemon) as caught, Client(address):
        pass
    assert (
        caught.value.message
        == f"no daemon at {address} (there is no such socket); start it with `zcsyncd run`"
    )
    assert caught.value.exit_code == 3


def test_a_stale_socket(short_path: Path) -> None:
    """A file that a killed daemon left is told as such."""
    address = str(short_path / "stale.sock")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(address)
    with pytest.raises(NoDaemon, match="nobody listens there any more"), Client(address):
        pass


@pytest.mark.parametrize("address", ["/tmp/" + "x" * 200, "/tmp/a\0b", ""])
def test_an_address_that_cannot_be(address: str) -> None:
    """Nonsense for an address is no daemon, not a traceback."""
    with pytest.raises(NoDaemon), Client(address):
        pass


def test_no_permission(short_path: Path, as_ordinary_user) -> None:
    """A socket that may not be opened is told as such."""
    address = str(short_path / "closed.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()

        def check() -> None:
            os.chmod(address, 0)
            with pytest.raises(NoDaemon, match="may not be opened"), Client(address):
                pass

        as_ordinary_user(check, short_path)


@pytest.mark.parametrize("method", ["status", "memory.list", "daemon.flush"])
def test_a_daemon_that_does_not_answer(silent_address: str, method: str) -> None:
    """A daemon that hangs is told as one that does not answer, for patient methods just as soon."""
    with Client(silent_address, timeout_s=0.1) as client, pytest.raises(NoDaemon) as caught:
        client.call(method)
    assert caught.value.message == f"the daemon at {silent_address} does not answer within 0.1 s"


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([b"HTTP/1.1 400 Bad Request\r\n"], ProtocolError),
        ([b"[]\n"], ProtocolError),
        ([b'{"jsonrpc":"2.0","id":1}\n'], ProtocolError),
        ([b"\xff\n"], ProtocolError),
        ([b"x" * 1_200_000], ProtocolError),
        ([], NoDaemon),
        ([b'{"jsonrpc":"2.0","id":1,"res'], NoDaemon),
    ],
    ids=["http", "array", "neither", "not utf-8", "endless", "nothing", "half"],
)
def test_something_else_at_the_address(short_path: Path, lines: list[bytes], error: type[Exception]) -> None:
    """What is no daemon of ours gives an error of ours, from both clients."""

    async def ask_blocking(address: str) -> None:
        with Client(address) as asking:
            asking.call("ping")

    async def ask_asynchronously(address: str) -> None:
        async with AsyncClient(address) as asking:
            await asking.call("ping")

    for ask in (ask_blocking, ask_asynchronously):
        address = str(short_path / f"{ask.__name__}.sock")
        thread = speaking(address, *lines)

        with pytest.raises(error):
            asyncio.run(ask(address))
        thread.join(20)


def test_a_client_that_is_not_connected() -> None:
    """Calling without connecting is told, not crashed on."""
    with pytest.raises(ProtocolError):
        Client("/x").call("ping")


def test_too_many_at_the_door(short_path: Path) -> None:
    """While a busy daemon's door is full a client knocks again; let in late it is answered, not let in it is told so."""
    address = str(short_path / "busy.sock")
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(address)
        listening.listen(0)
        stack.enter_context(Client(address, timeout_s=0.05))
        with (
            pytest.raises(NoDaemon, match=r"does not answer within 0\.05 s"),
            Client(address, timeout_s=0.05),
        ):
            pass

        async def knock() -> None:
            async with AsyncClient(address, timeout_s=0.05):
                pass

        with pytest.raises(NoDaemon, match=r"does not answer within 0\.05 s"):
            asyncio.run(knock())
        timer = threading.Timer(0.1, lambda: stack.enter_context(listening.accept()[0]))
        timer.start()
        with Client(address, timeout_s=20):
            timer.join()


# -- the blocking client --------------------------------------------------------------------------------------


def test_call_takes_params_both_ways(bus: BusThread) -> None:
    """Parameters as a mapping, by name, or both."""
    with Client(bus.address) as client:
        assert client.call("events.subscribe", {"topics": ["a"]}, dirs=["/x"])["subscription"] == 1
        assert client.call("events.subscribe", topics=["a"])["subscription"] == 2


def test_events_between_answers_are_kept(bus: BusThread) -> None:
    """Events that arrive while an answer is awaited come out of `events` afterwards, in order."""
    with Client(bus.address) as client:
        client.call("events.subscribe")
        bus.publish(*({"n": n} for n in range(3)))
        client.call("audit.dismiss", key="k")
        bus.publish({"n": 3})
        events = client.events()
        data = [next(events)["data"] for _ in range(5)]
        assert data == [{"n": 0}, {"n": 1}, {"n": 2}, {"key": "k"}, {"n": 3}]
        assert client.next_event(0) is None


def test_patient_methods_wait(bus: BusThread) -> None:
    """A flush may take longer than the client's own time, as long as the daemon lives."""
    with Client(bus.address, timeout_s=1.0) as client:
        timer = threading.Timer(1.5, bus.release.set)
        timer.start()
        assert client.call("daemon.flush") == {"cursor": "j1:0"}
        timer.join()


def test_an_explicit_time_is_the_whole_time(bus: BusThread) -> None:
    """A flush with a time of its own is given up then, and the late answer does not confuse the next question."""
    with Client(bus.address) as client:
        with pytest.raises(NoDaemon):
            client.call("daemon.flush", timeout_s=0.05)
        bus.release.set()
        assert client.call("events.subscribe") == {"subscription": 1, "cursor": "j1:0"}


def test_the_daemon_leaves_while_we_listen(bus: BusThread) -> None:
    """Whoever follows events learns that the daemon has gone."""
    with Client(bus.address) as client:
        client.call("events.subscribe")
        bus.publish({"n": 1})
        bus.run(bus.server.close())
        assert client.next_event(20)["data"] == {"n": 1}
        with pytest.raises(NoDaemon, match="closed the connection"):
            client.next_event(20)
        with pytest.raises(NoDaemon):
            client.call("ping")


def test_names_that_are_not_utf8_go_both_ways(bus: BusThread) -> None:
    """A path with undecodable bytes reaches the daemon and comes back as it was."""
    name = "/caf\udce9"
    with Client(bus.address) as client:
        client.call("events.subscribe", dirs=[name])
        bus.publish({"file": name}, directory=name)
        event = client.next_event(20)
        assert event is not None
        assert (event["dir"], event["data"]) == (name, {"file": name})


# -- the asynchronous client ----------------------------------------------------------------------------------


def test_async_verbs(bus: BusThread) -> None:
    """The same verbs: hello, call, errors, events; several questions at a time."""

    async def go() -> None:
        async with AsyncClient(bus.address) as client:
            assert (await client.hello("t", "1", {"host": "pi", "id": "1", "cwd": "/x"}))["host"] == "pi"
            await client.call("events.subscribe")
            answers = await asyncio.gather(*(client.call("audit.dismiss", key=str(n)) for n in range(20)))
            assert answers == [{}] * 20
            async for event in client.events():
                if event["data"] == {"key": "19"}:
                    break
            with pytest.raises(UnknownMethod):
                await client.call("nothing")
            with pytest.raises(NotFound):
                await client.call("events.unsubscribe", subscription=9)
            assert await client.next_event(0.01) is None

    asyncio.run(go())


def test_async_nobody_there(short_path: Path, silent_address: str) -> None:
    """No socket, or no answer: the same one line as from the blocking client."""

    async def go() -> None:
        with pytest.raises(NoDaemon, match="there is no such socket"):
            async with AsyncClient(str(short_path / "none.sock")):
                pass
        async with AsyncClient(silent_address, timeout_s=0.1) as client:
            with pytest.raises(NoDaemon, match=r"does not answer within 0\.1 s"):
                await client.call("status")
            with pytest.raises(NoDaemon, match=r"does not answer within 0\.1 s"):
                await client.call("daemon.flush")

    asyncio.run(go())


def test_async_events_that_nobody_takes(bus: BusThread) -> None:
    """A program that does not take its events keeps a bounded number of them, may still ask, and loses none."""
    count = WAITING_EVENTS * 3

    async def go() -> None:
        async with AsyncClient(bus.address) as client:
            await client.call("events.subscribe")
            await asyncio.to_thread(bus.publish, *({"n": n, "pad": "p" * 300} for n in range(count)))
            async with asyncio.timeout(20):
                while len(client._events) < WAITING_EVENTS:  # noqa: ASYNC110 - the fact has no event of its own
                    await asyncio.sleep(0.001)
            assert len(client._events) == WAITING_EVENTS
            assert await client.call("ping", timeout_s=20) == {"cursor": f"j1:{count}"}
            got = [(await client.next_event(20))["data"]["n"] for _ in range(count)]
            assert got == list(range(count))

    asyncio.run(go())


def test_async_the_daemon_leaves(bus: BusThread) -> None:
    """Whoever waits, for an event or an answer, learns that the daemon has gone."""

    async def go() -> None:
        async with AsyncClient(bus.address) as client, AsyncClient(bus.address) as other:
            await client.call("events.subscribe")
            waiting = asyncio.create_task(client.next_event(20))
            asking = asyncio.create_task(other.call("daemon.flush"))
            await asyncio.to_thread(bus.until, lambda: "daemon.flush" in bus.calls)
            await asyncio.to_thread(bus.run, bus.server.close(grace_s=0.05))
            with pytest.raises(NoDaemon):
                await waiting
            with pytest.raises(NoDaemon):
                await asking
            with pytest.raises(NoDaemon):
                await client.call("ping")

    asyncio.run(go())


def test_any_json_rpc_client_will_do(bus: BusThread) -> None:
    """A few lines of plain sockets and JSON, as a plugin in another language has them, are enough."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(20)
        plain.connect(bus.address)
        plain.sendall(b'{ "id": "a", "params": {}, "method": "ping", "jsonrpc": "2.0" }\r\n')
        with plain.makefile("rb") as file:
            assert json.loads(file.readline()) == {"jsonrpc": "2.0", "id": "a", "result": {"cursor": "j1:0"}}
