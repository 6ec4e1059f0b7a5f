"""Fan-out: journal to subscribers, each at the pace of its own socket. Pure.

Rule 1: replay after `since`, a slow reader and live delivery are one piece of code, `pump`: it takes a connection's
subscriptions from their places in the journal as far as the socket and the journal go. Whoever has everything and has
room is handed what was just announced without it (`_hand_over`): the same lines, the same place afterwards.
Rule 2: a subscriber has a place, no queue; memory does not grow with how slowly it reads.
Rule 3: time and sockets are arguments; the journal's rows are the truth, what was just announced a short cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from zcsyncd.bus.codec import encode_gap, event_head, event_tail
from zcsyncd.bus.connection import Connection, Gap, Subscription
from zcsyncd.bus.events import Journal, StoredEvent, cursor, parse_cursor, topic_filter
from zcsyncd.bus.limits import FEED_EVENTS, LINE_BYTES, WRITE_BYTES
from zcsyncd.errors import InvalidParams


class Hub:
    """The one place where events meet subscribers. All calls come from one loop."""

    def __init__(self, journal: Journal, now_ms: Callable[[], int]) -> None:
        """Take the journal, and a clock (epoch milliseconds) for the time of a gap."""
        self._journal = journal
        self._now_ms = now_ms
        self._head = journal.head
        self._connections: dict[Connection, None] = {}
        self._recent: Sequence[StoredEvent] = ()
        self._tails: dict[tuple[int, bool], bytes] = {}
        self._lines: dict[tuple[int, int], bytes] = {}
        self.published = 0
        """Events announced since the start."""
        self.dropped = 0
        """Events that some subscriber did not get, each counted once for each of them."""

    # -- what the daemon calls --------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """Sequence of the last event announced."""
        return self._head

    @property
    def cursor(self) -> str:
        """The head as clients write it."""
        return cursor(self._journal.journal_id, self._head)

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are."""
        return sum(len(connection.subscriptions) for connection in self._connections)

    def announce(self, events: Sequence[StoredEvent]) -> None:
        """Send events that are in the journal now to whoever wants them and can take them at once.

        `events` are those just journaled, in order.
        """
        if not events:
            return
        # Those that a subscription may have begun behind of are `pump`'s business, and so is what takes long.
        plain = events[0].sequence > self._head and len(events) <= FEED_EVENTS
        self._head = max(self._head, events[-1].sequence)
        self.published += len(events)
        self._recent = events
        try:
            for connection in tuple(self._connections):
                if connection.subscriptions and not (plain and self._hand_over(connection, events)):
                    connection.wake()
        finally:
            # Whoever could not take them reads them from the journal.
            self._recent = ()
            self._tails.clear()
            self._lines.clear()

    # -- what the server calls --------------------------------------------------------------------------------

    def attach(self, connection: Connection) -> None:
        """Take a connection in."""
        self._connections[connection] = None

    def detach(self, connection: Connection) -> None:
        """Let a connection go, with its subscriptions."""
        self._connections.pop(connection, None)
        connection.subscriptions.clear()

    def subscribe(
        self,
        connection: Connection,
        topics: Sequence[str],
        wants: Callable[[StoredEvent], bool],
        since: str | None,
    ) -> tuple[int, str]:
        """Add a subscription; give its number and the cursor from which it goes on.

        Without `since` that is the head; with a good one it is `since`; else the place of the gap, which is told
        before the first event.

        Raises: InvalidParams for a `since` that is no cursor; Overloaded.
        """
        start, gap = self._start(since)
        made = connection.subscribe(topic_filter(topics), wants, start, self._head, gap)
        if gap is not None and gap.missed is not None:
            self.dropped += gap.missed
        return made.number, cursor(self._journal.journal_id, start)

    def answer(self, connection: Connection, line: bytes, *, last: bool = False) -> None:
        """Have an answer that was made just now written in its place, then whatever else is due."""
        connection.answer(line, self._head, last=last)
        connection.wake()

    def pump(self, connection: Connection) -> bool:
        """Write what is due; True: there is more, and it should be called again after the others had their turn."""
        budget = FEED_EVENTS
        while connection.writable and not connection.finished:
            pending = connection.pending
            upto = self._head if pending is None else pending.barrier
            behind = _first_behind(connection, upto)
            if behind is not None:
                if budget <= 0:
                    return True
                budget -= self._feed(connection, behind, upto, budget)
            elif pending is not None:
                if pending.line:
                    connection.write(pending.line)
                connection.answer_written()
            else:
                break
        return False

    # -- inside -----------------------------------------------------------------------------------------------

    def _start(self, since: str | None) -> tuple[int, Gap | None]:
        if since is None:
            return self._head, None
        place = parse_cursor(since)
        if place is None:
            raise InvalidParams(
                "`since`: expected a cursor `<journal id>:<sequence>` as events and answers carry it",
                parameter="since",
                expected="a cursor",
            )
        journal_id, sequence = place
        if journal_id != self._journal.journal_id or sequence > max(self._head, self._journal.head):
            return self._head, Gap("journal-reset", None)
        last_missing = self._journal.oldest - 1
        if sequence < last_missing:
            return last_missing, Gap("expired", last_missing - sequence)
        return sequence, None

    def _hand_over(self, connection: Connection, events: Sequence[StoredEvent]) -> bool:
        """Write what was just announced to a connection that has room and has all that came before.

        False: nothing was written, and `pump` has to see to it.
        """
        if not connection.writable or connection.pending is not None or connection.finished:
            return False
        lines: list[bytes] = []
        try:
            for subscription in connection.subscriptions.values():
                if not self._take(subscription, events, lines):
                    return False
        except Exception:  # noqa: BLE001 - a filter's bug: `pump` meets it again, and costs its connection only
            return False
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        if len(data) > WRITE_BYTES:
            return False
        for subscription in connection.subscriptions.values():
            subscription.cursor = self._head
        if data:
            connection.write(data)
        return True

    def _take(self, subscription: Subscription, events: Sequence[StoredEvent], lines: list[bytes]) -> bool:
        """Add the lines that a subscription gets; False: it is not right before these events."""
        if subscription.cursor != events[0].sequence - 1 or subscription.held or subscription.gap is not None:
            return False
        for event in events:
            if subscription.topic_fits(event.topic) and subscription.wants(event):
                key = (subscription.number, event.sequence)
                line = self._lines.get(key)
                if line is None:
                    line = self._lines[key] = event_head(key[0]) + self._tail(event, replayed=False)
                lines.append(line)
        return True

    def _feed(self, connection: Connection, subscription: Subscription, upto: int, limit: int) -> int:
        """Take one subscription forward by at most `limit` events, until the socket is full; tell how many."""
        events = self._events_after(subscription, limit)
        if subscription.gap is not None:
            self._tell_gap(connection, subscription)
            return 1
        if not events:
            # Nothing is left between its place and the head (a purge took it).
            subscription.cursor = max(subscription.cursor, upto)
            return 1
        lines: list[bytes] = []
        size = looked_at = 0
        for event in events:
            if event.sequence > upto:
                subscription.cursor = max(subscription.cursor, upto)
                break
            looked_at += 1
            if subscription.passes(event):
                line = self._line(subscription, event)
                lines.append(line)
                size += len(line)
            subscription.cursor = event.sequence
            if size >= WRITE_BYTES:
                connection.write(b"".join(lines))
                lines, size = [], 0
                if not connection.writable:
                    break
        if lines:
            connection.write(b"".join(lines))
        return max(looked_at, 1)

    def _events_after(self, subscription: Subscription, limit: int) -> Sequence[StoredEvent]:
        """Give what comes next; note a gap when the journal no longer has what comes next."""
        if subscription.gap is not None:
            return ()
        recent = self._recent
        if recent and subscription.cursor >= recent[0].sequence - 1:
            first = bisect_right(recent, subscription.cursor, key=_sequence)
            return recent[first : first + limit]
        events = self._journal.read(subscription.cursor, limit)
        # Asked after reading: retention may run beside us, and a gap told once too often is better than none.
        last_missing = self._journal.oldest - 1
        if subscription.cursor < last_missing:
            missed = last_missing - subscription.cursor
            self.dropped += missed
            subscription.gap = Gap("expired", missed)
            subscription.cursor = last_missing
        return events

    def _tell_gap(self, connection: Connection, subscription: Subscription) -> None:
        gap, subscription.gap = subscription.gap, None
        if gap is not None:
            connection.write(self._gap_line(subscription.number, subscription.cursor, gap))

    def _gap_line(self, number: int, sequence: int, gap: Gap) -> bytes:
        data = {"reason": gap.reason, "missed": gap.missed}
        return encode_gap(number, self._journal.journal_id, sequence, self._now_ms(), data)

    def _line(self, subscription: Subscription, event: StoredEvent) -> bytes:
        replayed = event.topic == "read-state/read" and event.sequence <= subscription.replay_to
        tail = self._tail(event, replayed=replayed)
        line = event_head(subscription.number) + tail
        if len(line) <= LINE_BYTES:
            return line
        # A bug of whoever made it; telling that something is missing is true, a line too long breaks the client.
        self.dropped += 1
        return self._gap_line(subscription.number, event.sequence, Gap("expired", 1))

    def _tail(self, event: StoredEvent, *, replayed: bool) -> bytes:
        if not self._recent:
            return event_tail(self._journal.journal_id, event, replayed=replayed)
        key = (event.sequence, replayed)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = event_tail(self._journal.journal_id, event, replayed=replayed)
        return tail


def _sequence(event: StoredEvent) -> int:
    return event.sequence


def _first_behind(connection: Connection, upto: int) -> Subscription | None:
    for subscription in connection.subscriptions.values():
        if not subscription.held and (subscription.gap is not None or subscription.cursor < upto):
            return subscription
    return None
