"""A journal in memory, which also forgets its oldest events when it is told to."""

from __future__ import annotations

from collections.abc import Sequence

from zcsyncd.bus.events import StoredEvent


class FakeJournal:
    """Keeps events in a list; `forget_to` is what retention does."""

    def __init__(self, journal_id: str = "j1", head: int = 0) -> None:
        self.journal_id = journal_id
        self._before = head
        self._events: list[StoredEvent] = []
        self.reads = 0

    @property
    def head(self) -> int:
        return self._before + len(self._events)

    @property
    def oldest(self) -> int:
        return self._before + 1

    def read(self, after: int, limit: int) -> Sequence[StoredEvent]:
        self.reads += 1
        first = max(after - self._before, 0)
        return self._events[first : first + limit]

    def add(
        self,
        topic: str = "memory/changed",
        directory: str | None = "/m",
        data: str = "{}",
        session: tuple[str, str] | None = None,
    ) -> StoredEvent:
        made = StoredEvent(self.head + 1, 1_796_055_660_123, topic, directory, session, data)
        self._events.append(made)
        return made

    def forget_to(self, sequence: int) -> None:
        """Drop every event up to and with `sequence`."""
        self._events = self._events[sequence - self._before :]
        self._before = sequence
