"""Who has read what: the account of sessions beside the store, and the events about it.

    a change is told ─► changed ─► read-state/stale     a session asks ─► read, check, news, confirm

Rule 1: what becomes of reads is written in the transaction of the change that did it; when the disk refuses, the
account goes back with the snapshots.
Rule 2: a session's own write is its read. A change is a session's when our own pen wrote for it, or when it announced
the write (`write.intent`) and nobody else did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zcsyncd.daemon.database import NewEvent, Transaction
from zcsyncd.daemon.remembering import file_of
from zcsyncd.daemon.words import encode
from zcsyncd.memory.answers import absolute
from zcsyncd.memory.revision import mtime_ms, revision
from zcsyncd.sessions.account import UNKNOWN, Account, Moment, Now, Read, Session, Stale, Who
from zcsyncd.sessions.rows import session_from, session_row

if TYPE_CHECKING:
    from zcsyncd.daemon.database import Database
    from zcsyncd.memory.changes import Change
    from zcsyncd.memory.fact import Fact
    from zcsyncd.memory.index import Index
    from zcsyncd.memory.snapshot import Snapshot

MOST_INTENTS = 1_000
"""Announced writes at a time; the oldest go."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A write that a session is about to make."""

    who: Who
    until_ms: int


class Readers:
    """The account, and what the daemon does with it."""

    def __init__(self, database: Database, clock_ms: Callable[[], int]) -> None:
        self.account = Account(_sessions(database.session_rows()))
        self._clock_ms = clock_ms
        self._before: Moment | None = None
        """The account before the open group."""
        self._intents: dict[tuple[str, str], list[Intent]] = {}

    # -- the group

    def begin(self) -> Account:
        """Give the account for a step that belongs to the open group."""
        if self._before is None:
            self._before = self.account.moment()
        return self.account

    def write(self, work: Transaction) -> None:
        """Add what changed in the account to a transaction that is about to be written."""
        if self._before is None:
            return
        for who in self.account.gone():
            work.drop_session(who)
        for who in self.account.dirty():
            session = self.account.get(who)
            if session is not None:
                work.save_session(who, session_row(session))

    def settled(self, *, written: bool) -> None:
        """Take that the group was written, or that it is void."""
        before, self._before = self._before, None
        if before is not None and not written:
            self.account.back_to(before)

    # -- what changes

    def changed(
        self, before: Snapshot | None, after: Snapshot, told: Sequence[Change], by: Who | None
    ) -> list[NewEvent]:
        """Take what became of a directory's files; give the events about reads that are outdated by it."""
        account, now_ms = self.begin(), self._clock_ms()
        stale: list[Stale] = []
        for change in told:
            now = now_of(file_of(after, change.file))
            if change.kind == "renamed" and now is not None:
                old = str(change.from_)
                stale += account.renamed(after.directory, old, change.file, now=now, by=by, at_ms=now_ms)
            else:
                stale += account.changed(after.directory, change.file, now, by, now_ms)
        if by is not None and before is not None and before.index is not after.index:
            account.index_wrote(by, after.directory, _text(before), _text(after))
        return [self._stale_event(one) for one in stale]

    def overdue(self, who: Who, directory: str, file: str, now: Now | None) -> NewEvent | None:
        """Give the event about a read that was outdated before it was reported; None: it is not."""
        stale = self.begin().overdue(who, directory, file, now)
        return None if stale is None else self._stale_event(stale)

    def dir_gone(self, directory: str) -> list[NewEvent]:
        """Take that a directory is gone with all its files."""
        return [self._stale_event(one) for one in self.begin().dir_gone(directory)]

    def _stale_event(self, stale: Stale) -> NewEvent:
        read, now = stale.read, stale.now
        data: dict[str, object] = {
            "absolutePath": absolute(read.directory, read.file),
            "session": {"host": stale.who[0], "id": stale.who[1]},
            "read": {
                "revision": None
                if UNKNOWN in (read.mtime_ms, read.size)
                else revision(read.mtime_ms * 1_000_000, read.size),
                "contentHash": read.content_hash,
            },
            "now": None
            if now is None
            else {"revision": revision(now.mtime_ms * 1_000_000, now.size), "contentHash": now.content_hash},
        }
        if stale.stamp:
            data["stamp"] = True
        return NewEvent("read-state/stale", read.directory, encode(data), self._clock_ms(), stale.who)

    # -- announced writes

    def announce(self, who: Who, directory: str, file: str, ttl_ms: int) -> list[Intent]:
        """Take that a session is about to write a file; give what others announced of it."""
        now_ms = self._clock_ms()
        others = [intent for intent in self._open(directory, file) if intent.who != who]
        self._intents.pop((directory, file), None)
        self._intents[directory, file] = [*others, Intent(who, now_ms + ttl_ms)]
        while len(self._intents) > MOST_INTENTS:
            del self._intents[next(iter(self._intents))]
        return others

    def writer_of(self, directory: str, files: Iterable[str]) -> Who | None:
        """Tell which session wrote these files, if just one announced it."""
        writers = {intent.who for file in files for intent in self._open(directory, file)}
        return writers.pop() if len(writers) == 1 else None

    def _open(self, directory: str, file: str) -> list[Intent]:
        now_ms = self._clock_ms()
        return [intent for intent in self._intents.get((directory, file), ()) if intent.until_ms > now_ms]

    def knew(self, who: Who, before: Snapshot) -> bool:
        """Tell whether a session knew the index that a write of its own replaced."""
        session = self.account.get(who)
        index = before.index
        if session is None or index is None:
            return False
        if session.index_reads.get(before.directory) == index.text_hash is not None:
            return True
        read = session.reads.get((before.directory, index.file))
        return read is not None and read.kind == "full" and read.content_hash == index.content_hash


def now_of(file: Fact | Index | None) -> Now | None:
    """Give what is on disk of a file, as the account compares it; None: there is no such file."""
    if file is None:
        return None
    meaning = getattr(file, "meaning_hash", None)
    return Now(file.content_hash, meaning, mtime_ms(file.stat.mtime_ns), file.stat.size)


def read_of(
    directory: str, file: str, kind: str, now: Now, at_ms: int, *, lines: tuple[int, int] | None = None
) -> Read:
    """Give the record of a read of what is on disk now."""
    assert kind in ("full", "partial", "truncated")
    return Read(
        directory,
        file,
        kind,  # type: ignore[arg-type]  # the schema knows these three
        now.content_hash,
        now.mtime_ms,
        now.size,
        at_ms,
        range=lines,
        meaning_hash=now.meaning_hash,
    )


def _text(snapshot: Snapshot) -> str | None:
    return snapshot.index.text_hash if snapshot.index else None


def _sessions(rows: Iterable[str]) -> list[Session]:
    found = []
    for row in rows:
        try:
            found.append(session_from(row))
        except ValueError:
            continue  # another version's: the session says hello anew, and adopts the present
    return found
