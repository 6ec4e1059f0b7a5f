"""What is kept of files beside their snapshots: what they were (history), and their words (finder).

Rule 1: this only adds to transactions; the store says when they are written (daemon.store, Rule 3).
Rule 2: what is not at hand, or what the disk refused, makes its directory *unkept*; it is saved in slices then
(daemon.keeping).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zcsyncd.daemon.database import Transaction
from zcsyncd.daemon.finder import Finder
from zcsyncd.daemon.history import By, Cause, Held, History
from zcsyncd.memory.fact import Fact

if TYPE_CHECKING:
    from zcsyncd.daemon.database import Database
    from zcsyncd.memory.changes import Change
    from zcsyncd.memory.index import Index
    from zcsyncd.memory.snapshot import Snapshot

MOST_WAITING_BYTES = 8 * 1024 * 1024
"""What may wait in memory for its words to be taken in; the rest is read again."""


@dataclass(frozen=True, slots=True)
class Act:
    """An act of our own pen."""

    reason: str
    """`write`, `forget`, `repair` or `restore`."""
    batch: int
    by: By | None = None


def cause_of(act: Act | None, by: By | None, at_ms: int) -> Cause:
    """Give the cause of what changed at a time. `act` None: another pen wrote; `by`: the session that it belongs to."""
    return Cause("updated", at_ms, by) if act is None else Cause(act.reason, at_ms, by, act.batch)


def files_of(changes: Iterable[Change]) -> set[str]:
    """Name all files that changes are about, those that were moved away included."""
    files: set[str] = set()
    for change in changes:
        files.add(change.file)
        if change.from_ is not None:
            files.add(str(change.from_))
    return files


@dataclass(frozen=True, slots=True)
class _Changed:
    """One file in its two states, and what it has now as far as it is at hand."""

    directory: str
    file: str
    was: Fact | Index | None
    now: Fact | Index | None
    content: bytes | None


class Memory:
    """History and words, kept in step with the snapshots."""

    def __init__(
        self, database: Database, *, keeps_history: bool, most_versions: int, searches: bool
    ) -> None:
        self.history = History(database, enabled=keeps_history, most_versions=most_versions)
        self.finder = Finder(database, enabled=searches)
        self.unkept: set[str] = set()
        """Directories of which not all bytes, or words, are saved."""
        self._touched: set[str] = set()
        self._words: dict[tuple[str, str], tuple[str, bytes] | None] = {}
        """Facts whose words are to be taken in: hash and bytes; None: dropped."""
        self._words_bytes = 0

    def changed(
        self,
        work: Transaction,
        before: Snapshot | None,
        after: Snapshot,
        *,
        told: Sequence[Change],
        contents: Mapping[str, bytes],
        cause: Cause,
    ) -> None:
        """Save what changed files were and are. `contents`: what was read of them, as far as it is at hand."""
        self._touched.add(after.directory)
        for change in told:
            because = cause
            if cause.batch is None and change.kind != "added":
                because = replace(cause, reason=change.kind)
            for file in (change.file,) if change.from_ is None else (str(change.from_), change.file):
                was, now = file_of(before, file), file_of(after, file)
                self._save(work, _Changed(after.directory, file, was, now, contents.get(file)), because)

    def _save(self, work: Transaction, one: _Changed, cause: Cause) -> None:
        saved = self.history.replaced(
            work,
            one.directory,
            one.file,
            was=_held(one.was),
            now=_held(one.now),
            content=one.content,
            cause=cause,
        )
        if not saved:
            self.unkept.add(one.directory)
        if not self.finder.enabled or not isinstance(one.now or one.was, Fact):
            return
        digest = one.now.content_hash if one.now else None
        if digest is None:
            self._words[one.directory, one.file] = None
        elif one.content is None or self._words_bytes + len(one.content) > MOST_WAITING_BYTES:
            self.unkept.add(one.directory)
        else:
            self._words_bytes += len(one.content)
            self._words[one.directory, one.file] = (digest, one.content)

    def taken(self) -> set[str]:
        """Give the directories that were saved since the last time; their transactions are being written."""
        touched, self._touched = self._touched, set()
        self.history.settled()
        return touched

    def words(self) -> tuple[Transaction, set[str]]:
        """Give the transaction that takes in the words of what changed, and the directories that it is about."""
        words, self._words, self._words_bytes = self._words, {}, 0
        work = Transaction()
        for (directory, file), found in words.items():
            if found is None:
                self.finder.drop(work, directory, file)
            else:
                self.finder.put(work, directory, file, *found)
        return work, {directory for directory, _ in words}

    def let_go(self, work: Transaction, directory: str, at_ms: int) -> None:
        """Take that a directory is kept no more: what its files had is former, and its words are not found."""
        self.history.let_go(work, directory, at_ms)
        self.finder.drop(work, directory)
        self.unkept.discard(directory)
        self._words = {place: words for place, words in self._words.items() if place[0] != directory}


def file_of(snapshot: Snapshot | None, file: str) -> Fact | Index | None:
    """Give a fact, or the index, by its name; None: there is none."""
    if snapshot is None:
        return None
    index = snapshot.index
    return index if index is not None and index.file == file else snapshot.facts.get(file)


def _held(file: Fact | Index | None) -> Held | None:
    if file is None or file.content_hash is None:
        return None
    return Held(file.content_hash, file.stat.size, file.stat.mtime_ns)
