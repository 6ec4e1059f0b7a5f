"""What a session has not been told: the events since its baseline, merged, as the answer of `session.news`. Pure.

Rule 1: an event is told until an answer that covers it is confirmed, and then no more.
Rule 2: no news is what the session wrote itself, or what it has read of the present content since.
Rule 3: half of a write (a fact without its entry, an entry without its fact) is held back until it is whole or the
grace is over; over a confirmation it is carried as `Told.held`.
Rule 4: the events and the snapshots must be of one moment: what was found is committed before news is asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.answers import finding_answer
from zcsyncd.memory.audit import Finding, indexed
from zcsyncd.memory.audit.scene import Scene, set_scene
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index
from zcsyncd.memory.links import leaves
from zcsyncd.memory.revision import revision
from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.sessions.entries import EntryKind, EntryNet
from zcsyncd.sessions.files import FileNet
from zcsyncd.sessions.items import Scenery, items_of
from zcsyncd.sessions.knowing import without_read
from zcsyncd.sessions.merge import Event, Merged, merge, visible_entries
from zcsyncd.sessions.session import Held, Session, Told
from zcsyncd.sessions.wording import Alarm, text_for

__all__ = ["ALARM_CODES", "Event", "IndexNews", "News", "news"]

ALARM_CODES: Final = frozenset(
    {
        "entry-lost",
        "fact-blanked",
        "mass-delete",
        "index-unreadable",
        "index-swallowed",
        "index-over-lines",
        "index-over-units",
    }
)
"""Findings that the person should hear of from the model."""
MAX_CHANGES: Final = 500
MAX_ENTRIES: Final = 500
"""Of one kind."""
MAX_ALARMS: Final = 100
CHANGES_BYTES: Final = 400_000
ENTRIES_BYTES: Final = 100_000
"""Of one kind. All parts together, at their most, fit one line of the wire (1 MiB)."""
ALARMS_BYTES: Final = 100_000
TEXT_CHARS: Final = 1_000
"""Of a longer description, title or hook the answer has the beginning: it is news, not the fact."""
TOKEN_DIGITS: Final = 16

_NO_CAPS: Final = Caps(0, 0)  # what is asked of a scene here does not hang on them


@dataclass(frozen=True, slots=True)
class IndexNews:
    """What became of the index of the session's own directory."""

    stale: bool = False
    """The session was given another text of it than the present one; where nobody knows which: it changed."""
    added: tuple[Mapping[str, object], ...] = ()
    """Entries as the wire has them."""
    changed: tuple[Mapping[str, object], ...] = ()
    removed: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class News:
    """One answer of `session.news`."""

    told: Told
    """What the account is to remember of it."""
    index: IndexNews
    changes: tuple[Mapping[str, object], ...]
    """Changes as the wire has them, each with its `dir`; at most `MAX_CHANGES`."""
    more: bool
    """A list is cut: who wants all of it reads the state anew."""
    alarms: tuple[Mapping[str, object], ...]
    """Findings as the wire has them."""
    text: str
    """For the model; empty when there is nothing to say."""
    count: int
    """How many things the text tells or counts: the open news of `session.list`."""

    def to_wire(self) -> dict[str, object]:
        """Give the result of `session.news` (docs/protocol.md)."""
        index = self.index
        answer: dict[str, object] = {
            "token": self.told.token,
            "index": {
                "stale": index.stale,
                "added": list(index.added),
                "changed": list(index.changed),
                "removed": list(index.removed),
            },
            "changes": list(self.changes),
            "alarms": list(self.alarms),
            "text": self.text,
        }
        if self.more:
            answer["more"] = True
        return answer


def news(
    session: Session,
    events: Iterable[Event],
    *,
    snapshots: Mapping[str, Snapshot],
    main: str | None,
    alarms: Sequence[tuple[str, Finding, int]],
    head: int,
    now_ms: int,
    grace_ms: int,
    indexless: Collection[str] = (),
) -> News:
    """Give what a session is to be told.

    `events`: of the session's directories, in order; those up to its baseline or beyond `head` are left out here.
    `snapshots`: those directories as they are at `head`; one that is missing is gone. `main`: hello's `dir`; None:
    there is none (yet). `alarms`: the open findings of `ALARM_CODES`, neither pending nor dismissed, with their
    directory and since when (epoch ms). `indexless`: directories whose layout has no index: no entry is waited for.
    """
    # One after the other: of a hundred thousand nothing but what is left of them stays in memory.
    since = (event for event in events if session.baseline < event.sequence <= head)
    merged = without_read(merge(session.who, since, session.held, snapshots), session, snapshots)
    wait = _Wait(snapshots, now_ms, grace_ms, indexless)
    files = [net for net in merged.files if not wait.holds_file(net)]
    entries = [net for net in merged.entries if not wait.holds_entry(net)]
    wait.keep_unseen(session.held)
    unsaid = [each for each in alarms if each[1].code in ALARM_CODES and each[1].key not in session.alarms]

    changes, more_changes = _fitting((_change(net, snapshots) for net in files), MAX_CHANGES, CHANGES_BYTES)
    alarm_rows, more_alarms = _fitting(
        (finding_answer(each, where, at, pending=False, dismissed=False) for where, each, at in unsaid),
        MAX_ALARMS,
        ALARMS_BYTES,
    )
    index, more_entries = _index_news(session, merged, entries, snapshots, main)
    items = items_of(files, entries, Scenery(session, snapshots, main, wait.reaches, merged.entry_dirs))
    said = unsaid[: len(alarm_rows)]
    told = Told("", max(head, session.baseline), wait.held(), tuple(finding.key for _, finding, _ in said))
    return News(
        replace(told, token=_token(session, told)),
        index,
        changes,
        more_changes or more_alarms or more_entries,
        alarm_rows,
        text_for(items, [_alarm(finding, where, main) for where, finding, _ in said]),
        len(items) + len(said),
    )


class _Wait:
    """What is half-written, and may still become whole."""

    def __init__(
        self, snapshots: Mapping[str, Snapshot], now_ms: int, grace_ms: int, indexless: Collection[str]
    ) -> None:
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._indexless = indexless
        self._reached: dict[str, Collection[str]] = {}
        self._scenes: dict[str, Scene] = {}
        self._held: dict[tuple[str, str], int] = {}

    def holds_file(self, net: FileNet) -> bool:
        """Tell whether a new fact still waits for its entry."""
        if net.kind != "added" or net.is_index or not self._is_young(net.since_ms):
            return False
        return not self.reaches(net.directory, net.file) and self._hold(net.directory, net.file, net.since_ms)

    def holds_entry(self, net: EntryNet) -> bool:
        """Tell whether a new entry still waits for its fact. One that leads elsewhere waits for none."""
        if net.kind != "added" or leaves(net.target) or not self._is_young(net.since_ms):
            return False
        scene = self._scene(net.directory)
        if scene is None or scene.place(net.target) is not None or scene.unknowable(net.target):
            return False
        return self._hold(net.directory, net.target, net.since_ms)

    def keep_unseen(self, held: Iterable[Held]) -> None:
        """Go on holding entries of an index that cannot be read now: no event will tell them when it can be again."""
        for each in held:
            snapshot = self._snapshots.get(each.directory)
            unseen = visible_entries(snapshot) is None and snapshot and each.file not in snapshot.facts
            if unseen and self._is_young(each.since_ms):
                self._hold(each.directory, each.file, each.since_ms)

    def reaches(self, directory: str, file: str) -> bool:
        """Tell whether the index reaches a fact; so it is taken for one where there is no index to name it."""
        if directory in self._indexless:
            return True
        if directory not in self._reached:
            snapshot = self._snapshots.get(directory)
            self._reached[directory] = indexed(snapshot) if snapshot else ()
        return file in self._reached[directory]

    def held(self) -> tuple[Held, ...]:
        """Give what was held back, by directory and name."""
        return tuple(Held(*place, since_ms) for place, since_ms in sorted(self._held.items()))

    def _hold(self, directory: str, file: str, since_ms: int) -> bool:
        self._held[directory, file] = since_ms
        return True

    def _is_young(self, since_ms: int) -> bool:
        # A clock that was set back must not hold anything for longer than the grace.
        return 0 <= self._now_ms - since_ms < self._grace_ms

    def _scene(self, directory: str) -> Scene | None:
        if directory not in self._scenes and directory in self._snapshots:
            self._scenes[directory] = set_scene(self._snapshots[directory], _NO_CAPS, self._now_ms)
        return self._scenes.get(directory)


def _index_news(
    session: Session,
    merged: Merged,
    entries: Iterable[EntryNet],
    snapshots: Mapping[str, Snapshot],
    main: str | None,
) -> tuple[IndexNews, bool]:
    """Give the index part, and whether any of it is cut."""
    rows: dict[EntryKind, list[Mapping[str, object]]] = {"added": [], "changed": [], "removed": []}
    for net in entries:
        if net.directory == main:
            rows[net.kind].append(
                {"target": net.target, "title": _cut(net.title), "hook": _cut(net.hook), "line": net.line}
            )
    cut = {kind: _fitting(each, MAX_ENTRIES, ENTRIES_BYTES) for kind, each in rows.items()}
    stale = main is not None and _is_stale(session, merged, snapshots.get(main), main)
    index = IndexNews(stale, cut["added"][0], cut["changed"][0], cut["removed"][0])
    return index, any(more for _, more in cut.values())


def _is_stale(session: Session, merged: Merged, snapshot: Snapshot | None, main: str) -> bool:
    if main in session.index_reads:
        index = snapshot.index if snapshot else None
        return session.index_reads[main] != (index.text_hash if index else None)
    return any(net.is_index and net.directory == main and net.kind != "file" for net in merged.files)


# -- rows of the wire


def _change(net: FileNet, snapshots: Mapping[str, Snapshot]) -> Mapping[str, object]:
    """Give a Change with its `dir`: what the file is now, and nothing more of one that is gone."""
    row: dict[str, object] = {"dir": net.directory, "kind": net.kind, "file": net.file}
    if net.from_ is not None:
        row["from"] = net.from_
    if net.updated:
        row["updated"] = True
    if net.kind != "deleted":
        row.update(_present(net, snapshots.get(net.directory)))
    if net.by is not None:
        row["by"] = {"host": net.by[0], "id": net.by[1]}
    return row


def _present(net: FileNet, snapshot: Snapshot | None) -> Mapping[str, object]:
    file: Fact | Index | None = snapshot.facts.get(net.file) if snapshot else None
    if file is None and snapshot and net.is_index:
        file = snapshot.index
    if file is None:
        return {
            word: _cut(text)
            for word in ("name", "description", "type", "revision", "contentHash")
            if (text := net.text(word))
        }
    row: dict[str, str | None] = {}
    if isinstance(file, Fact):
        row = {"name": file.name, "description": file.description, "type": file.type}
    row["revision"] = revision(file.stat.mtime_ns, file.stat.size)
    row["contentHash"] = file.content_hash
    return {word: _cut(text) for word, text in row.items() if text is not None}


def _alarm(finding: Finding, directory: str, main: str | None) -> Alarm:
    return Alarm(finding.code, finding.message, finding.file, None if directory == main else directory)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else text[:TEXT_CHARS] + "…"


def _fitting(
    rows: Iterable[Mapping[str, object]], most: int, most_bytes: int
) -> tuple[tuple[Mapping[str, object], ...], bool]:
    """Take rows from the first on as far as they fit; tell whether any are left out."""
    taken: list[Mapping[str, object]] = []
    size = 0
    for row in rows:
        size += len(json.dumps(row)) + 2
        if len(taken) == most or size > most_bytes:
            return tuple(taken), True
        taken.append(row)
    return tuple(taken), False


def _token(session: Session, told: Told) -> str:
    """Name an answer by what it covers: the same answer, given twice, may be confirmed by either."""
    held = [(each.directory, each.file, each.since_ms) for each in told.held]
    covers = [session.who, session.journal, session.baseline, told.upto, held, told.alarms]
    return hashlib.sha256(json.dumps(covers).encode()).hexdigest()[:TOKEN_DIGITS]
