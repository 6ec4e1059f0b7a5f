"""The hub with a connection whose socket the test opens and shuts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bus.fake_journal import FakeJournal
from zcsyncd.bus.codec import encode_answer
from zcsyncd.bus.connection import Connection
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.hub import Hub
from zcsyncd.bus.limits import LINE_BYTES
from zcsyncd.errors import InvalidParams

CLOCK_MS = 5_000


class FakeSocket:
    """A connection that keeps what is written, and can be full after a number of writes."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.lines: list[dict] = []
        self.room: int | None = None
        self.connection = Connection(self._write, self._wake)
        hub.attach(self.connection)

    def _write(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]
        if self.room is not None:
            self.room -= 1
            self.connection.writable = self.room > 0

    def _wake(self) -> None:
        while self.hub.pump(self.connection):
            pass

    def drain(self) -> None:
        """Take bytes again, as many as come."""
        self.room = None
        self.connection.writable = True
        self._wake()

    def fill(self) -> None:
        self.connection.writable = False

    def subscribe(self, *topics: str, since: str | None = None, wants=lambda _event: True) -> tuple[int, str]:
        made = self.hub.subscribe(self.connection, topics or ("*",), wants, since)
        self.hub.answer(self.connection, encode_answer(0, {}))
        self.lines = [line for line in self.lines if line.get("id") != 0]
        return made

    def take(self) -> list[tuple[str, str]]:
        """Give what was written since: (topic, cursor), or ("answer", id)."""
        lines, self.lines = self.lines, []
        return [
            (line["params"]["topic"], line["params"]["cursor"])
            if "params" in line
            else ("answer", line["id"])
            for line in lines
        ]


@pytest.fixture
def hub(journal: FakeJournal) -> Hub:
    """Give a hub on an empty journal."""
    return Hub(journal, lambda: CLOCK_MS)


@pytest.fixture
def socket(hub: Hub) -> FakeSocket:
    """Give a connection of that hub."""
    return FakeSocket(hub)


def test_live_events_do_not_touch_the_journal(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """A subscriber that keeps up gets events straight from the announcement."""
    socket.subscribe()
    for _ in range(3):
        hub.announce([journal.add()])
    assert socket.take() == [("memory/changed", f"j1:{n}") for n in (1, 2, 3)]
    assert journal.reads == 0
    assert hub.published == 3


def test_a_full_socket_is_fed_from_the_journal(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """What was announced while the socket was full comes when it drains, once, in order, and live goes on."""
    socket.subscribe()
    hub.announce([journal.add()])
    socket.fill()
    for _ in range(500):
        hub.announce([journal.add()])
    assert socket.take() == [("memory/changed", "j1:1")]
    socket.drain()
    hub.announce([journal.add()])
    assert socket.take() == [("memory/changed", f"j1:{n}") for n in range(2, 503)]


def test_a_socket_that_fills_in_the_middle(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """Where a batch stops for want of room is where it goes on."""
    socket.subscribe()
    socket.room = 1
    hub.announce([journal.add(data='{"p":"' + "x" * 40_000 + '"}') for _ in range(20)])
    first = socket.take()
    assert 0 < len(first) < 20
    socket.drain()
    assert first + socket.take() == [("memory/changed", f"j1:{n}") for n in range(1, 21)]


def test_a_turn_is_bounded(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """One call of pump handles a bounded number of events, also of those that nobody wants."""
    for _ in range(1000):
        journal.add()
    hub.announce([journal.add()])
    hub.subscribe(socket.connection, ["none"], lambda _event: True, "j1:0")
    socket.connection.answer(b'{"id":1}\n', 0)
    turns = 0
    while hub.pump(socket.connection):
        turns += 1
    assert 5 <= turns <= 20


def test_events_that_were_not_announced_are_found(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """An event that got into the journal without an announcement comes before the next that is announced."""
    socket.subscribe()
    journal.add()
    hub.announce([journal.add()])
    assert socket.take() == [("memory/changed", "j1:1"), ("memory/changed", "j1:2")]


def test_journaled_but_not_announced_yet(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """A subscription made between journal and announcement gets the event once, with `since` and without."""
    event = journal.add()
    other = FakeSocket(hub)
    assert socket.subscribe() == (1, "j1:0")
    assert other.subscribe(since="j1:1") == (1, "j1:1")
    hub.announce([event])
    hub.announce([journal.add()])
    assert socket.take() == [("memory/changed", "j1:1"), ("memory/changed", "j1:2")]
    assert other.take() == [("memory/changed", "j1:2")]


def test_an_answer_waits_for_the_events_before_it_only(
    hub: Hub, journal: FakeJournal, socket: FakeSocket
) -> None:
    """Made after event 2, the answer follows it and goes before event 3, though the socket was full all the time."""
    socket.subscribe()
    socket.fill()
    hub.announce([journal.add(), journal.add()])
    hub.answer(socket.connection, encode_answer(7, {}))
    hub.announce([journal.add()])
    assert socket.take() == []
    socket.drain()
    assert socket.take() == [
        ("memory/changed", "j1:1"),
        ("memory/changed", "j1:2"),
        ("answer", 7),
        ("memory/changed", "j1:3"),
    ]


def test_a_subscription_is_held_until_its_answer(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """Events published between subscribing and the answer come, after it."""
    hub.subscribe(socket.connection, ["*"], lambda _event: True, None)
    hub.announce([journal.add()])
    assert socket.take() == []
    hub.answer(socket.connection, encode_answer(1, {}))
    assert socket.take() == [("answer", 1), ("memory/changed", "j1:1")]


def test_two_subscriptions_of_one_connection(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """Each has its own number, filter and place."""
    hub.announce([journal.add("daemon/started", None), journal.add()])
    socket.subscribe("daemon/*", since="j1:0")
    socket.subscribe("memory/*")
    hub.announce([journal.add()])
    assert [(line["params"]["subscription"], line["params"]["cursor"]) for line in socket.lines] == [
        (1, "j1:1"),
        (2, "j1:3"),
    ]


SINCE = [
    # since, oldest kept, → start, gap
    ("j1:10", 1, "j1:10", None),
    ("j1:4", 1, "j1:4", None),
    ("j1:0", 1, "j1:0", None),
    ("j1:3", 4, "j1:3", None),
    ("j1:2", 4, "j1:3", {"reason": "expired", "missed": 1}),
    ("j1:0", 11, "j1:10", {"reason": "expired", "missed": 10}),
    ("j1:10", 11, "j1:10", None),
    ("j1:11", 1, "j1:10", {"reason": "journal-reset", "missed": None}),
    ("j0:3", 1, "j1:10", {"reason": "journal-reset", "missed": None}),
]


@pytest.mark.parametrize("case", SINCE, ids=lambda case: f"{case[0]} of {case[1]}")
def test_since(hub: Hub, journal: FakeJournal, socket: FakeSocket, case) -> None:
    """Where a subscription begins, what gap it is told, and that every event after that place follows."""
    since, oldest, start, gap = case
    hub.announce([journal.add() for _ in range(10)])
    journal.forget_to(oldest - 1)
    assert socket.subscribe(since=since) == (1, start)
    events = [line["params"] for line in socket.lines]
    if gap is not None:
        told = events.pop(0)
        assert (told["topic"], told["cursor"], told["data"]) == ("bus/gap", start, gap)
        assert told["time"] == "1970-01-01T00:00:05.000Z"
    first = int(start.partition(":")[2]) + 1
    assert [event["cursor"] for event in events] == [f"j1:{n}" for n in range(first, 11)]


def test_since_that_is_no_cursor(hub: Hub, socket: FakeSocket) -> None:
    """Nonsense is a mistake of the caller's, not a gap."""
    with pytest.raises(InvalidParams):
        hub.subscribe(socket.connection, ["*"], lambda _event: True, "nonsense")
    assert socket.connection.subscriptions == {}


def test_expired_while_the_socket_was_full(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """A reader overtaken by retention gets the gap in the place of what is gone, then the rest; it is counted."""
    socket.subscribe("memory/*")
    socket.fill()
    hub.announce([journal.add() for _ in range(10)])
    journal.forget_to(6)
    hub.answer(socket.connection, encode_answer(1, {}))
    socket.drain()
    assert socket.take() == [
        ("bus/gap", "j1:6"),
        *[("memory/changed", f"j1:{n}") for n in range(7, 11)],
        ("answer", 1),
    ]
    assert hub.dropped == 6


def test_expired_to_the_very_end(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """When everything is gone the gap is told all the same, and live goes on behind it."""
    socket.subscribe()
    socket.fill()
    hub.announce([journal.add() for _ in range(10)])
    journal.forget_to(10)
    socket.drain()
    hub.announce([journal.add()])
    assert socket.take() == [("bus/gap", "j1:10"), ("memory/changed", "j1:11")]


def test_a_hole_in_the_middle_is_no_gap(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """What a purge took out of the middle of the journal is passed over in silence, at its end too."""
    socket.subscribe()
    socket.fill()
    hub.announce([journal.add() for _ in range(5)])
    kept = [event for event in journal.read(0, 10) if event.sequence in (1, 3)]

    class Purged(FakeJournal):
        head = 5
        oldest = 1

        def read(self, after: int, limit: int) -> list[StoredEvent]:
            return [event for event in kept if event.sequence > after][:limit]

    hub._journal = Purged()
    hub.answer(socket.connection, encode_answer(1, {}))
    socket.drain()
    assert socket.take() == [("memory/changed", "j1:1"), ("memory/changed", "j1:3"), ("answer", 1)]


def test_replayed_is_said_of_reads_before_the_subscription(
    hub: Hub, journal: FakeJournal, socket: FakeSocket
) -> None:
    """A read that happened before is marked; one that a slow reader gets late is not; other topics never are."""
    hub.announce([journal.add("read-state/read"), journal.add()])
    socket.subscribe(since="j1:0")
    socket.fill()
    hub.announce([journal.add("read-state/read")])
    socket.drain()
    assert [line["params"].get("replayed") for line in socket.lines] == [True, None, None]


def test_an_event_too_long_for_a_line_is_a_gap(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """A line that no client could take is told as one missing event."""
    socket.subscribe()
    hub.announce([journal.add(data='{"p":"' + "x" * LINE_BYTES + '"}'), journal.add()])
    assert socket.take() == [("bus/gap", "j1:1"), ("memory/changed", "j1:2")]
    assert hub.dropped == 1


def test_detach_forgets(hub: Hub, journal: FakeJournal, socket: FakeSocket) -> None:
    """A connection that has gone is neither counted nor written to."""
    socket.subscribe()
    assert hub.subscriptions == 1
    hub.detach(socket.connection)
    hub.announce([journal.add()])
    assert (hub.subscriptions, socket.take()) == (0, [])


def test_a_hub_begins_where_the_journal_is() -> None:
    """After a restart the head is the journal's, and `since` from before the restart replays."""
    journal = FakeJournal()
    for _ in range(5):
        journal.add()
    hub = Hub(journal, lambda: CLOCK_MS)
    assert hub.cursor == "j1:5"
    socket = FakeSocket(hub)
    assert socket.subscribe(since="j1:3") == (1, "j1:3")
    assert socket.take() == [("memory/changed", "j1:4"), ("memory/changed", "j1:5")]


class PumpingHub(Hub):
    """A hub without the short cut: everything goes by `pump`."""

    def _hand_over(self, connection: Connection, events: Sequence[StoredEvent]) -> bool:
        del connection, events
        return False


class Bytes(FakeSocket):
    """A connection of which the test sees the bytes."""

    def __init__(self, hub: Hub) -> None:
        self.bytes = b""
        super().__init__(hub)

    def _write(self, data: bytes) -> None:
        self.bytes += data
        super()._write(data)


TOPICS = ("memory/changed", "memory/index", "read-state/read")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("announce"), st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4)),
        st.tuples(st.just("journal"), st.sampled_from(TOPICS)),
        st.tuples(
            st.just("subscribe"), st.integers(0, 2), st.sampled_from(("*", "memory/*", "none")), st.booleans()
        ),
        st.tuples(st.just("hold"), st.integers(0, 2)),
        st.tuples(st.just("answer"), st.integers(0, 2)),
        st.tuples(st.just("fill"), st.integers(0, 2)),
        st.tuples(st.just("drain"), st.integers(0, 2)),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_short_cut_writes_what_pump_would(steps: list[tuple]) -> None:
    """Whatever full sockets, late subscriptions and waiting answers there are: the same bytes, in the same order."""
    written = []
    for kind in (Hub, PumpingHub):
        journal = FakeJournal()
        hub = kind(journal, lambda: CLOCK_MS)
        sockets = [Bytes(hub) for _ in range(3)]
        for step in steps:
            play(step, hub, journal, sockets)
        for each in sockets:
            each.drain()
        written.append([each.bytes for each in sockets])
    assert written[0] == written[1]


def play(step: tuple, hub: Hub, journal: FakeJournal, sockets: list[Bytes]) -> None:
    what, first, *more = step
    if what == "announce":
        hub.announce([journal.add(topic) for topic in first])
    elif what == "journal":
        journal.add(first)
    elif what == "subscribe" and sockets[first].connection.pending is None:
        sockets[first].subscribe(more[0], since="j1:0" if more[1] else None)
    elif what == "hold":
        hub.subscribe(sockets[first].connection, ["*"], lambda _event: True, None)
    elif what == "answer" and sockets[first].connection.pending is None:
        hub.answer(sockets[first].connection, encode_answer(7, {}))
    elif what == "fill":
        sockets[first].fill()
    elif what == "drain":
        sockets[first].drain()


def test_one_line_is_made_for_all_who_keep_up(hub: Hub, journal: FakeJournal) -> None:
    """Subscribers of the same number are handed the very same bytes."""
    sockets = [Bytes(hub) for _ in range(3)]
    handed: list[bytes] = []
    for each in sockets:
        each.subscribe()
        each.connection.write = handed.append
    hub.announce([journal.add()])
    assert len(handed) == 3
    assert len({id(line) for line in handed}) == 1


def test_a_filter_that_fails_is_its_connections_own_affair(hub: Hub, journal: FakeJournal) -> None:
    """The others are told; whoever pumps the connection meets the error."""
    broken, well = FakeSocket(hub), FakeSocket(hub)
    met: list[str] = []

    def wants(_event: StoredEvent) -> bool:
        raise ValueError("a bug of the filter's")

    def wake() -> None:
        try:
            hub.pump(broken.connection)
        except ValueError as error:
            met.append(str(error))

    broken.subscribe(wants=wants)
    broken.connection.wake = wake
    well.subscribe()
    hub.announce([journal.add()])
    assert (met, broken.take(), well.take()) == (["a bug of the filter's"], [], [("memory/changed", "j1:1")])
