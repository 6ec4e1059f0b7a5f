"""The wire's own words for events: what is in the journal, and what a subscriber gets. Pure.

Rule 1: an event is frozen when it is made; its data is JSON text from then on.
Rule 2: a cursor is `<journal id>:<sequence>`; it is made and read here only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from zcsyncd.bus.limits import PROTOCOL

__all__ = ["PROTOCOL", "Journal", "StoredEvent", "cursor", "parse_cursor", "rfc3339", "topic_filter"]

CURSOR_PATTERN = r"^[^:\s]{1,128}:[0-9]{1,18}$"
"""What a cursor looks like: 18 digits fit into SQLite's 64-bit integers."""

_CURSOR = re.compile(r"([^:\s]{1,128}):([0-9]{1,18})", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """The event's `data` member as JSON text on one line (zcsyncd.bus.codec.data_text makes it)."""


class Journal(Protocol):
    """What the hub asks of the journal (zcsyncd.daemon.database keeps the real one)."""

    @property
    def journal_id(self) -> str:
        """The first half of every cursor: no colon, no white space, at most 128 characters."""

    @property
    def head(self) -> int:
        """The sequence of the newest event; 0 when there has been none."""

    @property
    def oldest(self) -> int:
        """The sequence of the oldest event that is still kept; head + 1 when none is."""

    def read(self, after: int, limit: int) -> Sequence[StoredEvent]:
        """Give at most `limit` events with a greater sequence than `after`, in order."""


def cursor(journal_id: str, sequence: int) -> str:
    """Name a place in the event stream."""
    return f"{journal_id}:{sequence}"


def parse_cursor(text: str) -> tuple[str, int] | None:
    """Give journal id and sequence; None for text that is no cursor."""
    found = _CURSOR.fullmatch(text)
    return (found[1], int(found[2])) if found else None


def rfc3339(time_ms: int) -> str:
    """Give epoch milliseconds as the wire writes a time: `2026-11-30T16:21:00.123Z`."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def topic_filter(globs: Sequence[str]) -> Callable[[str], bool]:
    """Give a test for topics: True if any glob fits the whole topic.

    `*` stands for any characters, `/` included; every other character stands for itself.
    """
    # Most subscribers ask for the same few topics: one test for all of them, and what it needs is at hand.
    return _filter(tuple(globs))


class _Fitting(dict[str, bool]):
    """Topic → does it fit; topics are few and ours, so remembering each is cheaper than matching and stays small."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        super().__init__()
        self._pattern = re.compile("|".join(map(_expression, globs)) if globs else "(?!)", re.DOTALL)

    def __missing__(self, topic: str) -> bool:
        answer = self[topic] = self._pattern.fullmatch(topic) is not None
        return answer


@lru_cache(maxsize=64)
def _filter(globs: tuple[str, ...]) -> Callable[[str], bool]:
    return _Fitting(globs).__getitem__


def _expression(glob: str) -> str:
    """Translate a glob; atomic groups keep a glob of many stars from taking exponential time.

    Taking each middle piece at its leftmost place is never wrong, so nothing has to be tried twice.
    """
    first, *rest = glob.split("*")
    if not rest:
        return re.escape(first)
    *middle, last = rest
    atoms = "".join(f"(?>.*?{re.escape(piece)})" for piece in middle if piece)
    return f"{re.escape(first)}{atoms}.*{re.escape(last)}"
