"""Following: events over restarts of the daemon, each once; back-off, patience, gaps, sessions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bus.bus_thread import BusThread
from tests.cli.fake_daemon import ScriptedDaemon, error
from tests.transcripts.machine import Machine, fact_text, new_machine, save, until
from zcsyncd.bus import async_client, client
from zcsyncd.bus.async_client import AsyncFollower
from zcsyncd.bus.client import BACK_OFF_S, Follower, Trail, find_address
from zcsyncd.errors import ConfigError, InvalidParams, NoDaemon, Overloaded, ProtocolError

WAIT_S = 20.0


class FromLoop:
    """The asynchronous follower, asked from a test without a loop: one test serves both."""

    def __init__(self, *topics: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._inner: AsyncFollower = async_client.follow(*topics, **options)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)

    @property
    def cursor(self) -> str | None:
        return self._inner.cursor

    def next_event(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        return self._runner.run(self._inner.next_event(timeout_s))

    def close(self) -> None:
        self._runner.run(self._inner.close())

    def end(self) -> None:
        self.close()
        self._runner.close()


Follow = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def follow(request: pytest.FixtureRequest) -> Iterator[Follow]:
    """Give `follow` of one of the two clients; what it made is closed with the test."""
    made: list[Any] = []

    def go(*topics: str, **options: Any) -> Any:
        made.append((client.follow if request.param == "blocking" else FromLoop)(*topics, **options))
        return made[-1]

    yield go
    for each in made:
        each.end() if isinstance(each, FromLoop) else each.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A home and a real daemon's places."""
    made = new_machine()
    yield made
    made.close()


def files(event: dict[str, Any] | None) -> list[tuple[str, str]]:
    assert event is not None
    return [(change["kind"], change["file"]) for change in event["data"]["changes"]]


def test_over_a_kill_and_a_stop_each_change_comes_once(machine: Machine, follow: Follow) -> None:
    """What happens while the daemon is killed, or stopped, comes once it runs again: once, and in order."""
    project = machine.project().make({"old.md": fact_text("old")})
    daemon = machine.start()
    away: list[str] = []
    events = follow("memory/changed", address=machine.address, on_away=lambda error: away.append(str(error)))
    assert events.next_event(0.05) is None
    project.fact("a.md")
    assert files(events.next_event(WAIT_S)) == [("added", "a.md")]
    for end, name in ((daemon.kill, "b.md"), (None, "c.md")):
        if end is None:
            daemon.stop()
        else:
            end()
        project.fact(name)
        assert events.next_event(0.3) is None
        daemon = machine.start()
        assert files(events.next_event(WAIT_S)) == [("added", name)]
    save(project.memory / "a.md", fact_text("a", "Otherwise"))
    assert files(events.next_event(WAIT_S)) == [("updated", "a.md")]
    daemon.call("daemon.flush")
    assert events.next_event(0.05) is None
    assert len(away) >= 2
    daemon.stop()


def test_a_place_that_was_kept(machine: Machine, follow: Follow) -> None:
    """A program that ends and begins again gives the cursor that it kept, and misses nothing."""
    project = machine.project().make({"old.md": fact_text("old")})
    daemon = machine.start()
    first = follow("memory/changed", address=machine.address, dirs=[project.dir])
    assert first.next_event(0.05) is None
    assert first.cursor == daemon.call("ping")["cursor"]
    project.fact("a.md")
    first.next_event(WAIT_S)
    first.close()
    project.fact("b.md")
    daemon.call("daemon.flush")
    second = follow("memory/changed", address=machine.address, since=first.cursor, cwd=str(project.cwd))
    assert files(second.next_event(WAIT_S)) == [("added", "b.md")]
    assert files(first.next_event(WAIT_S)) == [("added", "b.md")]
    daemon.stop()


def test_the_address_is_found_anew(machine: Machine, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that comes back at another address is found there."""
    for name, value in machine.env.items():
        if name.startswith(("ZCSYNCD_", "HOME")):
            monkeypatch.setenv(name, value)
    events = follow("daemon/started")
    assert events.next_event(0.05) is None
    daemon = machine.start()
    events.next_event(0.5)
    daemon.stop()
    other = str(machine.place / "other.sock")
    daemon = machine.launch(ZCSYNCD_SOCKET=other)
    event = events.next_event(WAIT_S)
    while event is not None and event["data"]["pid"] != daemon.pid:
        event = events.next_event(WAIT_S)
    assert event is not None
    assert find_address(machine.env) == other
    daemon.stop()


def test_where_the_daemon_is(machine: Machine) -> None:
    """The environment goes before what a daemon wrote down, and that before the usual place."""
    assert find_address(machine.env) == machine.address
    machine.endpoint.write_text(json.dumps({"address": "/x/bus.sock", "pid": 1, "protocol": 1}))
    assert find_address(machine.env) in {"/x/bus.sock", machine.address}
    assert find_address({**machine.env, "ZCSYNCD_SOCKET": "/y"}) == "/y"
    with pytest.raises(ConfigError):
        find_address({**machine.env, "ZCSYNCD_SOCKET": "y"})


# -- gaps -----------------------------------------------------------------------------------------------------


def test_gaps_come_through(bus: BusThread, follow: Follow) -> None:
    """Events that are gone are told in their place, whatever the topics; then it goes on."""
    bus.publish(*({"n": n} for n in range(5)))
    bus.journal.forget_to(3)
    events = follow("memory/*", address=bus.address, since="j1:1")
    told = [events.next_event(WAIT_S) for _ in range(3)]
    assert [(event["topic"], event["cursor"]) for event in told] == [
        ("bus/gap", "j1:3"),
        ("memory/changed", "j1:4"),
        ("memory/changed", "j1:5"),
    ]
    other = follow(address=bus.address, since="another:9")
    gap = other.next_event(WAIT_S)
    assert (gap["data"]["reason"], other.cursor) == ("journal-reset", "j1:5")


def test_a_gap_that_was_on_its_way_is_not_lost() -> None:
    """Cut off between the answer and the gap, the next subscription asks from the old place, so the gap comes again."""
    trail = Trail(["a"], since="old:1", dirs=None, cwd=None, session=None, patience_s=None)
    trail.stands({"subscription": 1, "cursor": "new:7"})
    assert trail.subscription == {"topics": ["a"], "since": "old:1"}
    trail.passed({"cursor": "new:7", "topic": "bus/gap"})
    assert trail.subscription == {"topics": ["a"], "since": "new:7"}


def test_a_quiet_follower_moves_on(bus: BusThread, follow: Follow) -> None:
    """When nothing that it wants happens, its cursor goes along with what else happens."""
    events = follow("daemon/*", address=bus.address)
    assert events.next_event(0.05) is None
    bus.publish({}, {}, topic="memory/changed")
    events.pulse_s = 0.01
    until(lambda: events.next_event(0.05) is None and events.cursor == "j1:2", "the cursor")


def test_an_event_that_came_before_the_pulse_is_given(bus: BusThread, follow: Follow) -> None:
    """With a pulse as short as can be, events keep their order and the cursor never runs ahead of them."""
    events = follow(address=bus.address)
    assert events.next_event(0.05) is None
    events.pulse_s = 0.0
    thread = threading.Thread(target=lambda: [bus.publish({"n": n}) for n in range(50)])
    thread.start()
    for n in range(50):
        event = events.next_event(WAIT_S)
        assert event["data"] == {"n": n}
        assert events.cursor == event["cursor"]
    thread.join(WAIT_S)


# -- nobody there ---------------------------------------------------------------------------------------------


def test_patience_ends(short_path: Path, follow: Follow) -> None:
    """Without patience the first failure is told, with some of it the last; meanwhile each is heard of."""
    address = str(short_path / "none.sock")
    away: list[Exception] = []
    with pytest.raises(NoDaemon):
        follow(address=address, patience_s=0, on_away=away.append).next_event(WAIT_S)
    assert away == []
    with pytest.raises(NoDaemon, match="there is no such socket"):
        follow(address=address, patience_s=0.25, on_away=away.append).next_event()
    assert [type(each) for each in away] == [NoDaemon, NoDaemon]


def test_the_pauses_grow() -> None:
    """From a tenth of a second to five, twice as long each time; a subscription that stands begins anew."""
    trail = Trail([], since=None, dirs=None, cwd=None, session=None, patience_s=None)
    told = NoDaemon("no")
    pauses = [trail.pause_s(told) for _ in range(8)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    trail.stands({"cursor": "a:1"})
    assert trail.pause_s(told) == BACK_OFF_S[0]


def test_a_time_out_is_kept_while_the_daemon_is_away(short_path: Path, follow: Follow) -> None:
    """Whoever gives a time gets it, and the next call goes on waiting where this one ended."""
    events = follow(address=str(short_path / "none.sock"))
    assert [events.next_event(0.01) for _ in range(5)] == [None] * 5


def scripted(path: Path, **script: Any) -> ScriptedDaemon:
    return ScriptedDaemon(
        str(path / "scripted.sock"), {name.replace("_", "."): told for name, told in script.items()}
    )


def test_a_session_begins_once(short_path: Path, follow: Follow) -> None:
    """The reason of a session is said on the first connection; the others attach to it."""
    daemon = scripted(short_path, events_subscribe={"subscription": 1, "cursor": "a:1"})
    try:
        session = {"host": "pi", "id": "1", "cwd": "/x", "reason": "start"}
        events = follow("a", address=daemon.path, session=session)
        for _ in range(2):
            assert events.next_event(0.1) is None
            events.close()
        hellos = [params["session"]["reason"] for method, params in daemon.asked if method == "hello"]
        assert hellos == ["start", "attach"]
        asked = [params for method, params in daemon.asked if method == "events.subscribe"]
        assert asked == [{"topics": ["a"]}, {"topics": ["a"], "since": "a:1"}]
        assert session["reason"] == "start"
    finally:
        daemon.close()


@pytest.mark.parametrize(
    ("told", "raised"),
    [
        (error("invalid-params", -32602), InvalidParams),
        ({"error": "odd"}, ProtocolError),
    ],
)
def test_what_does_not_end_by_itself_is_raised(
    short_path: Path, follow: Follow, told: dict[str, Any], raised: type[Exception]
) -> None:
    """A mistake of the caller's, or something else at the address, is no reason to knock for ever."""
    daemon = scripted(short_path, events_subscribe=told)
    try:
        with pytest.raises(raised):
            follow(address=daemon.path).next_event(WAIT_S)
    finally:
        daemon.close()


def test_a_full_daemon_is_waited_for(short_path: Path, follow: Follow) -> None:
    """Too many connections end some day: it knocks again."""
    full = error("overloaded", -32006)
    daemon = scripted(short_path, events_subscribe=[full, {"subscription": 1, "cursor": "a:1"}])
    away: list[Exception] = []
    try:
        events = follow(address=daemon.path, on_away=away.append)
        until(lambda: events.next_event(0.05) is None and events.cursor, "a subscription")
        assert [type(each) for each in away] == [Overloaded]
    finally:
        events.close()
        daemon.close()


def test_a_hung_daemon_is_noticed(short_path: Path, follow: Follow) -> None:
    """A daemon that falls silent is asked whether it lives, and counts as away when it does not answer."""
    answer = {"subscription": 1, "cursor": "a:1"}
    daemon = scripted(short_path, events_subscribe=answer, ping=None)
    away: list[Exception] = []
    try:
        events = follow(address=daemon.path, timeout_s=0.05, on_away=away.append)
        events.pulse_s = 0.01
        until(lambda: events.next_event(0.05) is None and away, "the silence")
        assert "does not answer" in str(away[0])
    finally:
        events.close()
        daemon.close()


def test_as_iterators(bus: BusThread) -> None:
    """Both can be looped over, within a `with` that hangs up at its end."""
    bus.publish({"n": 1}, {"n": 2})
    with client.follow(address=bus.address, since="j1:0") as events:
        assert isinstance(events, Follower)
        assert [next(events)["data"], next(events)["data"]] == [{"n": 1}, {"n": 2}]

    async def go() -> list[object]:
        told = []
        async with async_client.follow(address=bus.address, since="j1:0") as following:
            async for event in following:
                told.append(event["data"])
                if len(told) == 2:
                    break
        return told

    assert asyncio.run(go()) == [{"n": 1}, {"n": 2}]
    bus.until(lambda: bus.server.counters.connections == 0)
