"""The wire's own words for events: what is in the journal, and what a subscriber gets. Pure.

Rule 1: an event is frozen when it is made; its data is JSON text from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PROTOCOL = 1
"""The version of the protocol that this daemon speaks."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event as the journal holds it."""

    sequence: int
    time_ms: int
    topic: str
    directory: str | None
    """The memory directory; None for `daemon/*`."""
    session: tuple[str, str] | None
    """(host, id) of the session that a `read-state/*` event is about."""
    data: str
    """The event's `data` member as JSON text."""


class Journal(Protocol):
    """What the hub asks of the journal (zcsyncd.daemon.database keeps the real one)."""

    @property
    def journal_id(self) -> str:
        """The first half of every cursor."""

    @property
    def head(self) -> int:
        """The sequence of the newest event; 0 when there has been none."""

    @property
    def oldest(self) -> int:
        """The sequence of the oldest event that is still kept; head + 1 when none is."""

    def read(self, after: int, limit: int) -> Sequence[StoredEvent]:
        """Give at most `limit` events with a greater sequence than `after`, in order."""
