"""Questions of a session beside a ping, and one event to a hundred subscribers beside a bare fan-out of its bytes."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.home import Home
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median, ms
from zcsyncd.bus.client import Client

DIRECTORIES, FACTS = 10, 50
ROUNDS = 2_000
SUBSCRIBERS = 100
EVENTS = 60


def measure(*, quick: bool) -> Iterator[Row]:
    rounds = 200 if quick else ROUNDS
    events = 10 if quick else EVENTS
    with ExitStack() as stack:
        home = stack.enter_context(Home(DIRECTORIES, FACTS))
        home.grow_old()
        daemon = stack.enter_context(Zcsyncd(home))
        yield _check(daemon, home, rounds)
        yield _fan_out(daemon, home, events)


def _check(daemon: Zcsyncd, home: Home, rounds: int) -> Row:
    place = home.directories[0]
    path = os.path.join(place, home.names[0])
    session = {"host": "bench", "id": "1", "cwd": home.path, "scope": "all"}
    with Client(daemon.address, timeout_s=30) as client:
        client.call("hello", session=session)
        client.call("memory.read", dir=place, name=home.names[0])
        checks, pings = [], []
        for _ in range(rounds):
            pings.append(_took(client, "ping", {}))
            checks.append(_took(client, "readState.check", {"paths": [path]}))
        answer = client.call("readState.check", paths=[path])
    if answer["states"][0]["state"] != "current":
        raise RuntimeError(f"the read is not current: {answer}")
    ours, bare = median(checks), median(pings)
    return Row(
        f"`readState.check` of one path on a warm connection, median of {rounds}",
        ms(ours),
        f"`ping`: {ms(bare)}",
        ours / bare,
        "≤ 2×",
        ours <= 2 * bare,
    )


def _took(client: Client, method: str, params: dict[str, object]) -> float:
    begin = time.perf_counter()
    # With a time of its own: without one the client asks two questions at once.
    client.call(method, params, timeout_s=30)
    return (time.perf_counter() - begin) * 1000


def _fan_out(daemon: Zcsyncd, home: Home, events: int) -> Row:
    """Measure from the first subscriber's receipt to the last one's: what comes before is the way of the save."""
    lines: list[bytes] = []
    ours = _spread(daemon.address, home, events, lines)
    bare = _bare_spread(lines)
    return Row(
        f"one event to {SUBSCRIBERS} subscribers, from the first one's receipt to the last one's, median of {events}",
        ms(median(ours)),
        f"bare asyncio fan-out of the same bytes: {ms(median(bare))}",
        median(ours) / median(bare),
        "≤ 2×",
        median(ours) <= 2 * median(bare),
    )


def _spread(address: str, home: Home, events: int, lines: list[bytes]) -> list[float]:
    subscribe = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "events.subscribe",
        "params": {"topics": ["memory/changed"]},
    }
    sockets = [_subscriber(address, json.dumps(subscribe).encode() + b"\n") for _ in range(SUBSCRIBERS)]
    path = os.path.join(home.directories[0], home.names[0])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = []
    for number in range(events):
        temporary = f"{path}.tmp.{os.getpid()}.0123456789ab"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(f"{text}\n{number}\n")
        os.rename(temporary, path)
        took, line = _receive(sockets)
        found.append(took)
        lines.append(line)
    for each in sockets:
        each.close()
    return found


def _subscriber(address: str, line: bytes) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(address)
    made.sendall(line)
    answer = b""
    while not answer.endswith(b"\n"):
        answer += made.recv(65_536)
    return made


def _receive(sockets: list[socket.socket]) -> tuple[float, bytes]:
    """Take one line from each; give the milliseconds between the first receipt and the last, and a line."""
    selector = selectors.DefaultSelector()
    waiting: dict[socket.socket, bytes] = dict.fromkeys(sockets, b"")
    for each in sockets:
        selector.register(each, selectors.EVENT_READ)
    first = line = None
    while waiting:
        for key, _ in selector.select(10):
            each = key.fileobj
            first = first or time.perf_counter()
            waiting[each] += each.recv(65_536)
            if waiting[each].endswith(b"\n"):
                line = waiting.pop(each)
                selector.unregister(each)
    selector.close()
    assert first is not None
    assert line is not None
    return (time.perf_counter() - first) * 1000, line


def _bare_spread(lines: list[bytes]) -> list[float]:
    """The same bytes by a loop that does nothing else, to as many connections."""
    with tempfile.TemporaryDirectory() as place:
        address = os.path.join(place, "s")
        ready, go = threading.Event(), threading.Semaphore(0)
        thread = threading.Thread(target=asyncio.run, args=(_serve(address, lines, ready, go),))
        thread.start()
        ready.wait(10)
        sockets = []
        for _ in range(SUBSCRIBERS):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.connect(address)
            sockets.append(made)
        found = []
        for _ in lines:
            go.release()
            found.append(_receive(sockets)[0])
        for each in sockets:
            each.close()
        thread.join(10)
        return found


async def _serve(address: str, lines: list[bytes], ready: threading.Event, go: threading.Semaphore) -> None:
    writers: list[asyncio.StreamWriter] = []
    full = asyncio.Event()

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if len(writers) == SUBSCRIBERS:
            full.set()

    server = await asyncio.start_unix_server(connected, address, backlog=SUBSCRIBERS)
    ready.set()
    await full.wait()
    for line in lines:
        await asyncio.to_thread(go.acquire)
        for writer in writers:
            writer.write(line)
    for writer in writers:
        await writer.drain()
    server.close()
    for writer in writers:
        writer.close()
