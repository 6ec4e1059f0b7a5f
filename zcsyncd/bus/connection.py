"""One connection's state: who speaks, what it asked, what it listens to, what it still has to be sent. Pure.

Rule 1: requests are answered one at a time, so answers come in the order asked and at most one waits to be written.
Rule 2: an answer is written after every event that was published before it was made and passes a subscription.
Rule 3: a new subscription is held back until the answer that tells its number has been written.
Rule 4: there is no queue of events: a subscription remembers its place in the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from zcsyncd.bus.codec import Decoder, Message
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.limits import SUBSCRIPTIONS, WAITING
from zcsyncd.errors import InvalidParams, NotFound, Overloaded

Reason = Literal["start", "attach", "compact", "fork"]
Scope = Literal["session", "all"]
GapReason = Literal["expired", "journal-reset"]


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of one agent, as `hello` named it."""

    host: str
    id: str
    cwd: str
    reason: Reason = "attach"
    parent: str | None = None
    """The id of the session, of the same host, that this one was forked from."""
    dirs: tuple[str, ...] = ()
    """Directories that the client resolved by itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the client's environment that move roots."""
    scope: Scope = "session"
    """`all`: the connection reaches every directory, not only the session's."""


def session_of(params: Mapping[str, object]) -> Session:
    """Read `hello`'s checked `session` (zcsyncd.bus.requests.check_params has seen it).

    Raises: InvalidParams for a fork without a parent.
    """
    parent, dirs, env = params.get("parent"), params.get("dirs"), params.get("env")
    reason, scope = params.get("reason"), params.get("scope")
    if reason == "fork" and parent is None:
        raise InvalidParams(
            "`session.parent`: a fork names the session that it comes from",
            parameter="session.parent",
            expected="a string",
        )
    return Session(
        host=str(params["host"]),
        id=str(params["id"]),
        cwd=str(params["cwd"]),
        reason=reason if reason in ("start", "compact", "fork") else "attach",
        parent=str(parent) if parent is not None else None,
        dirs=tuple(str(each) for each in dirs) if isinstance(dirs, list) else (),
        env={str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {},
        scope="all" if scope == "all" else "session",
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that a subscription will never get."""

    reason: GapReason
    missed: int | None
    """How many events of the journal (of any topic and directory); None: nobody knows."""


@dataclass(slots=True)
class Subscription:
    """One subscription's filter and place."""

    number: int
    topic_fits: Callable[[str], bool]
    wants: Callable[[StoredEvent], bool]
    cursor: int
    """Sequence of the last event that was sent or passed over."""
    replay_to: int
    """Events up to this one had happened before the subscription began."""
    gap: Gap | None = None
    """To be told before the next event, with `cursor` as its place."""
    held: bool = True

    def passes(self, event: StoredEvent) -> bool:
        """Tell whether the subscriber is to get the event."""
        return self.topic_fits(event.topic) and self.wants(event)


@dataclass(frozen=True, slots=True)
class Pending:
    """An answer that waits for the events before it."""

    line: bytes
    """Empty for the end of the connection."""
    barrier: int
    """Sequence of the last event that comes before it."""
    last: bool = False
    """Nothing is written after it."""


class Connection:
    """What is known of one connection; the server does the reading and writing."""

    __slots__ = (
        "_decoder",
        "_number",
        "_waiting",
        "client",
        "finished",
        "pending",
        "session",
        "subscriptions",
        "wake",
        "writable",
        "write",
    )

    def __init__(self, write: Callable[[bytes], None], wake: Callable[[], None]) -> None:
        """Take how to send bytes, and how to have the hub's `pump` called for this connection."""
        self.write = write
        self.wake = wake
        self.writable = True
        """The socket takes more bytes at once."""
        self.session: Session | None = None
        self.client: Mapping[str, object] = {}
        """`hello`'s `client`: name, version, pid, as far as told."""
        self.subscriptions: dict[int, Subscription] = {}
        self.pending: Pending | None = None
        self.finished = False
        """The last line has been written."""
        self._decoder = Decoder()
        self._waiting: deque[Message] = deque()
        self._number = 0

    # -- requests ---------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes from the client."""
        self._decoder.receive_data(data)
        self._fill()

    def receive_eof(self) -> None:
        """Take note that the client sends no more."""
        self._decoder.receive_eof()
        self._fill()

    @property
    def full(self) -> bool:
        """So many requests wait that reading should pause."""
        return len(self._waiting) >= WAITING

    def next_request(self) -> Message | None:
        """Take the next request off the queue; None when none waits or an answer is still to be written."""
        if not self.ready:
            return None
        message = self._waiting.popleft()
        self._fill()
        return message

    def forget_requests(self) -> None:
        """Drop what waits and what is yet to be read from the client."""
        self._waiting.clear()
        self._decoder = Decoder()

    def lost(self) -> None:
        """Take note that nothing can be written any more."""
        self.writable = False
        self.pending = None

    @property
    def ready(self) -> bool:
        """A request waits, and nothing keeps it from being answered."""
        return bool(self._waiting) and self.pending is None and not self.finished

    @property
    def idle(self) -> bool:
        """No request waits, and no answer."""
        return not self._waiting and self.pending is None

    def _fill(self) -> None:
        # Whole requests beyond the bound stay bytes, which are cheaper and bounded by what one read gives.
        while not self.full and (message := self._decoder.next_message()) is not None:
            self._waiting.append(message)

    # -- answers ----------------------------------------------------------------------------------------------

    def answer(self, line: bytes, barrier: int, *, last: bool = False) -> None:
        """Have a line written after the events up to `barrier`."""
        self.pending = Pending(line, barrier, last)

    def answer_written(self) -> None:
        """Take note that the pending line is on its way: the subscriptions that it tells of may begin."""
        self.finished = self.pending is not None and self.pending.last
        self.pending = None
        for subscription in self.subscriptions.values():
            subscription.held = False

    # -- subscriptions ----------------------------------------------------------------------------------------

    def subscribe(
        self,
        topic_fits: Callable[[str], bool],
        wants: Callable[[StoredEvent], bool],
        cursor: int,
        replay_to: int,
        gap: Gap | None,
    ) -> Subscription:
        """Add a subscription, held back until the next answer.

        Raises: Overloaded.
        """
        if len(self.subscriptions) >= SUBSCRIPTIONS:
            raise Overloaded(
                f"this connection has {SUBSCRIPTIONS} subscriptions already",
                hint="end one with events.unsubscribe, or give one subscription several topics",
                limit=SUBSCRIPTIONS,
            )
        self._number += 1
        made = Subscription(self._number, topic_fits, wants, cursor, replay_to, gap)
        self.subscriptions[made.number] = made
        return made

    def unsubscribe(self, number: int) -> None:
        """End a subscription: none of its events is written from now on.

        Raises: NotFound.
        """
        if self.subscriptions.pop(number, None) is None:
            raise NotFound(f"no subscription {number} on this connection", subscription=number)

    def drop_held(self) -> None:
        """Take back what a request that failed has subscribed to."""
        held = [number for number, subscription in self.subscriptions.items() if subscription.held]
        for number in held:
            del self.subscriptions[number]
