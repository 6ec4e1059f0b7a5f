"""A session, what it has read and what it was told: the records. Pure.

Every record is a value; what changes over time is which one is kept (sessions/account).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Who = tuple[str, str]
"""A session's name: its host and its id there, whatever connections it comes by."""
Place = tuple[str, str]
"""A memory directory as it is kept (no alias), and a file relative to it, with `/`."""
Kind = Literal["full", "partial", "truncated"]
State = Literal["current", "stale", "truncated", "partial", "unread", "gone"]
Outdated = Literal["stale", "gone"]

UNKNOWN = -1
"""The `mtime_ms` or `size` of a read that nobody told."""


@dataclass(frozen=True, slots=True)
class Now:
    """What is on disk of a file at this moment."""

    content_hash: str | None
    """SHA-256 of the raw bytes, hex. None: the file is there but cannot be read."""
    meaning_hash: str | None
    """`memory.fact.Fact.meaning_hash`; None for an index, and for what cannot be read."""
    mtime_ms: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a session has read of one file."""

    directory: str
    file: str
    kind: Kind
    content_hash: str | None
    """Of the whole file that was read (of, for `partial`). None: nobody knows."""
    mtime_ms: int
    """Epoch milliseconds, truncated; `UNKNOWN`: nobody knows."""
    size: int
    """Bytes of the whole file; `UNKNOWN`: nobody knows."""
    at_ms: int
    range: tuple[int, int] | None = None
    """First and last line, for `partial`; None: nobody knows, or all."""
    forgotten: bool = False
    """A compaction may have taken it out of the model's context: `unread`."""
    own: bool = False
    """The session wrote it."""
    meaning_hash: str | None = None
    """Of what was read: equal under another content hash means that only a stamp of ZCode differs."""
    outdated: Outdated | None = None
    """What the session was told of it: that other content is there by now, or no file. None: nothing."""

    @property
    def place(self) -> Place:
        """What the read is kept under."""
        return (self.directory, self.file)


@dataclass(frozen=True, slots=True)
class Stale:
    """What a session had read is no longer what is on disk."""

    who: Who
    read: Read
    now: Now | None
    """None: the file is gone."""
    stamp: bool
    """The bytes differ and say the same: ZCode has stamped the file, or laid it out anew."""


@dataclass(frozen=True, slots=True)
class Held:
    """A change held back: half of a write (a fact without its entry, an entry without its fact)."""

    directory: str
    file: str
    since_ms: int
    """When the half was first seen, epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer of `session.news` that waits for its confirmation."""

    token: str
    upto: int
    """Sequence of the last event that it covers."""
    held: tuple[Held, ...] = ()
    """What it leaves for later, though its event is covered."""
    alarms: tuple[str, ...] = ()
    """Keys of the findings that it told."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of one agent, over any number of connections and restarts."""

    who: Who
    cwd: str
    first_ms: int
    last_contact_ms: int
    journal: str
    """The id of the journal that the sequences belong to."""
    baseline: int
    """It was told everything up to this sequence."""
    start_baseline: int
    """The baseline at its last `start`, else at its first hello: where a compaction goes back to."""
    dirs: tuple[str, ...] = ()
    """Directories that its client resolved by itself."""
    held: tuple[Held, ...] = ()
    """Carried over the last confirmation."""
    told: Told | None = None
    """The last answer given; None: nothing waits for a confirmation."""
    confirmed: str | None = None
    """The token confirmed last: a client that did not hear our answer says it again."""
    alarms: frozenset[str] = frozenset()
    """Keys of the findings that it was told of, and confirmed, once."""
    index_reads: Mapping[str, str | None] = field(default_factory=dict)
    """Directory → hash of the index text that it was given; None: that there is no index. The oldest first."""
    reads: Mapping[Place, Read] = field(default_factory=dict)
    """The oldest first."""
