"""Questions of a session beside a ping, and one event to a hundred subscribers beside a bare fan-out of its bytes."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Self

from benchmarks.home import Home
from benchmarks.processes import Process, Zcsyncd
from benchmarks.result import Row, median, ms, percentile
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
    subscribe = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "events.subscribe",
        "params": {"topics": ["memory/changed"]},
    }
    question = json.dumps(subscribe).encode() + b"\n"
    ours, bare = [], []
    with (
        _BareFanOut(home) as peer,
        closing(_Crowd(daemon.address, question)) as crowd,
        closing(_Crowd(peer.address)) as other_crowd,
        Client(daemon.address, timeout_s=30) as client,
    ):
        peer.wait_until_full()
        for number in range(-1, events):  # the first turn warms both up
            took, line = crowd.spread(lambda number=number: _save(home, number))
            # What the daemon still does for the save must disturb neither the other's turn nor its own next one.
            client.call("daemon.flush")
            other_took, _ = other_crowd.spread(lambda line=line: peer.send(line))
            if number >= 0:
                ours.append(took)
                bare.append(other_took)
    return Row(
        f"one event to {SUBSCRIBERS} subscribers, from the first one's receipt to the last one's, median of {events}",
        f"{ms(median(ours))}, p90 {ms(percentile(ours, 0.9))}",
        f"bare asyncio fan-out of the same bytes: {ms(median(bare))}, p90 {ms(percentile(bare, 0.9))}",
        median(ours) / median(bare),
        "≤ 2×",
        median(ours) <= 2 * median(bare),
    )


def _save(home: Home, number: int) -> None:
    path = os.path.join(home.directories[0], home.names[0])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    temporary = f"{path}.tmp.{os.getpid()}.0123456789ab"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{text.partition('Turn ')[0]}Turn {number}\n")
    os.rename(temporary, path)


class _Crowd:
    """A hundred subscribers that wait for a line each; one process, which sees to whoever has got something."""

    def __init__(self, address: str, question: bytes = b"") -> None:
        self._selector = selectors.DefaultSelector()
        for _ in range(SUBSCRIBERS):
            self._selector.register(_subscriber(address, question), selectors.EVENT_READ)

    def spread(self, cause: Callable[[], None]) -> tuple[float, bytes]:
        """Cause one line; give the milliseconds between its first receipt and its last, and the line."""
        got: dict[int, bytes] = {}
        whole = 0
        first = 0.0
        cause()
        while whole < SUBSCRIBERS:
            ready = self._selector.select(10)
            if not ready:
                raise RuntimeError(f"only {whole} of {SUBSCRIBERS} subscribers were told")
            first = first or time.perf_counter()
            for key, _ in ready:
                got[key.fd] = got.get(key.fd, b"") + key.fileobj.recv(65_536)
                whole += got[key.fd].endswith(b"\n")
        took = (time.perf_counter() - first) * 1000
        if len({line.partition(b'"topic"')[2] for line in got.values()}) != 1:
            raise RuntimeError("they were not told the same")
        return took, next(iter(got.values()))

    def close(self) -> None:
        for key in tuple(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()


def _subscriber(address: str, question: bytes) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(address)
    if question:
        made.sendall(question)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += made.recv(65_536)
    return made


class _BareFanOut(Process):
    """A loop of asyncio in a process of its own that writes what it is sent to whoever is connected, and no more."""

    kind = "bare-fan-out"

    def __init__(self, home: Home) -> None:
        self.address = os.path.join(home.run, "bare.sock")
        argv = [sys.executable, "-m", "benchmarks.bare_fan_out", self.address, str(SUBSCRIBERS)]
        super().__init__(home, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._expect(b"ready\n")

    def wait_until_full(self) -> None:
        """Wait until all are connected."""
        self._expect(b"full\n")

    def send(self, line: bytes) -> None:
        """Have a line written to all."""
        self.child.stdin.write(line)
        self.child.stdin.flush()

    def _expect(self, word: bytes) -> None:
        if self.child.stdout.readline() != word:
            self.end()
            raise RuntimeError(f"the bare fan-out did not start: {self.words()}")

    def end(self) -> None:
        self.child.stdin.close()
        super().end()
        self.child.stdout.close()

    def __enter__(self) -> Self:
        return self
