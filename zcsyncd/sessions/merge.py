"""From the journal's events to what is left of them: what came and went cancels, renames collapse. Pure.

Two pictures are drawn from the same beginning: what is there, and what the session knows. Another's change goes into
the first only, the session's own into both; the difference is its news.

Rule 1: nothing here raises for an event that lacks what a purge took out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from zcsyncd.memory.audit.names import INDEX_NAME
from zcsyncd.memory.entries import Entry
from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.sessions.entries import Entries, EntryKind, EntryNet
from zcsyncd.sessions.files import FileNet, Files
from zcsyncd.sessions.session import Held, Who

KINDS: Final[tuple[EntryKind, ...]] = ("changed", "removed", "added")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the journal, its data read."""

    sequence: int
    time_ms: int
    topic: str
    directory: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Merged:
    """All events in one."""

    files: tuple[FileNet, ...] = ()
    """By directory, the index first, then by name."""
    passed: tuple[FileNet, ...] = ()
    """Files, as `deleted`, that came and went; `since_ms` is when they came. News for one who read them meanwhile."""
    entries: tuple[EntryNet, ...] = ()
    """By directory, as they stand in the index that holds them."""
    entry_dirs: frozenset[str] = frozenset()
    """Directories whose index changed in its entries, cancelled changes included, or cannot be read."""


def merge(
    who: Who, events: Iterable[Event], held: Iterable[Held], snapshots: Mapping[str, Snapshot]
) -> Merged:
    """Give what a session does not know, if these are the events since it was told last.

    `held`: what was there already by then, but was not told. `snapshots` are of after the last event.
    """
    folds: dict[str, _Fold] = {}
    for each in held:
        _fold(folds, each.directory, snapshots).hold(each)
    for event in events:
        if event.topic == "memory/changed":
            _fold(folds, event.directory, snapshots).take_changes(event, who)
        elif event.topic == "memory/index":
            _fold(folds, event.directory, snapshots).take_index(event, who)
    files: list[FileNet] = []
    passed: list[FileNet] = []
    entries: list[EntryNet] = []
    entry_dirs: set[str] = set()
    for directory in sorted(folds):
        fold = folds[directory]
        fold.finish()
        files += fold.files.net(fold.index_name)
        passed += fold.files.passed()
        entries += fold.entries.net(fold.visible)
        if fold.visible is None or fold.entries.is_touched:
            entry_dirs.add(directory)
    return Merged(tuple(files), tuple(passed), tuple(entries), frozenset(entry_dirs))


def visible_entries(snapshot: Snapshot | None) -> dict[str, Entry] | None:
    """Give the first entry of each target that is not hidden; None: the index cannot be read, so nobody knows."""
    index = snapshot.index if snapshot else None
    if index is None:
        return {}
    if index.encoding is None:
        return None
    found: dict[str, Entry] = {}
    for entry in index.entries:
        if not entry.hidden:
            found.setdefault(entry.target, entry)
    return found


def _fold(folds: dict[str, _Fold], directory: str, snapshots: Mapping[str, Snapshot]) -> _Fold:
    if directory not in folds:
        folds[directory] = _Fold(directory, snapshots.get(directory))
    return folds[directory]


class _Fold:
    """One directory's events on the way to their difference."""

    def __init__(self, directory: str, snapshot: Snapshot | None) -> None:
        self.files = Files(directory)
        self.entries = Entries(directory)
        self.index_name = snapshot.index.file if snapshot and snapshot.index else INDEX_NAME
        self.visible = visible_entries(snapshot)
        self._facts = snapshot.facts if snapshot else {}
        self._index_by: Who | None = None

    def hold(self, held: Held) -> None:
        self.files.held[held.file] = held.since_ms
        self.entries.held[held.file] = held.since_ms

    def take_changes(self, event: Event, who: Who) -> None:
        by = _by(event.data)
        for number, change in enumerate(_mappings(event.data.get("changes"))):
            if change.get("file") == self.index_name:
                self._index_by = by
            self.files.take(change, by, event.time_ms, f"#{event.sequence}.{number}", own=by == who)

    def take_index(self, event: Event, who: Who) -> None:
        """Take the entries. Who wrote them is told with the file: that event comes before this one."""
        by = _by(event.data) or self._index_by
        for kind in KINDS:
            for row in _mappings(event.data.get(kind)):
                self.entries.take(kind, row, event.time_ms, by, own=by == who)

    def finish(self) -> None:
        """Look which half of what was held is there, where no event tells."""
        for file in self.files.held:
            self.files.touch(file, existed=file in self._facts)
            if self.visible is not None:
                self.entries.touch(file, self.visible.get(file))


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _by(data: Mapping[str, object]) -> Who | None:
    by = data.get("by")
    if not isinstance(by, Mapping):
        return None
    host, name = by.get("host"), by.get("id")
    return (host, name) if isinstance(host, str) and isinstance(name, str) else None
