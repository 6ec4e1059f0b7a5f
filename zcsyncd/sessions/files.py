"""What became of files: Changes of many events to one for each file. Pure.

Rule 1: what a file held before the first event is not known, but it has a word of its own, so that it is found again.
Rule 2: one name is one line of the difference; a file is `renamed` only where the old name is free now and the new one
was free before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from zcsyncd.sessions.session import Who

NetKind = Literal["added", "updated", "renamed", "deleted", "file"]


@dataclass(frozen=True, slots=True)
class FileNet:
    """What became of one file, over all events."""

    kind: NetKind
    directory: str
    file: str
    from_: str | None = None
    """`renamed`: the name that the session knows it by."""
    updated: bool = False
    """`renamed`: it says something else, too."""
    since_ms: int = 0
    """When it came, for `added`; else when it was last changed."""
    by: Who | None = None
    """Who wrote last, where that is known."""
    data: Mapping[str, object] = field(default_factory=dict)
    """The last Change that an event told of it; empty without one."""
    is_index: bool = False

    def text(self, member: str) -> str:
        """Give what the last Change said; empty if it said nothing, or it was purged."""
        value = self.data.get(member)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class _State:
    """What one file holds. Words that are no hash stand for contents that nobody told."""

    lineage: str
    """Stays while the file is changed and renamed."""
    content: str
    sense: str
    """Stays while only stamps or layout change."""


@dataclass(frozen=True, slots=True)
class _Last:
    time_ms: int
    by: Who | None
    data: Mapping[str, object]


class Files:
    """What is there and what the session knows, file by file."""

    def __init__(self, directory: str) -> None:
        self.held: dict[str, int] = {}
        self._directory = directory
        self._there: dict[str, _State | None] = {}
        self._known: dict[str, _State | None] = {}
        self._last: dict[str, _Last] = {}
        """By others; without names that the session wrote itself since."""
        self._came_ms: dict[str, int] = {}
        """By lineage."""
        self._arrived_ms: dict[str, int] = {}
        """By name."""
        self._hash_of: dict[str, str] = {}
        self._sense_of: dict[str, str] = {}

    def touch(self, file: str, *, existed: bool, former: object = None) -> None:
        """Begin a name: what is met first tells whether it was there before, and with which hash (`former`)."""
        if file in self._there:
            return
        word = f"={file}"
        base = _State(word, word, word) if existed else None
        if existed and isinstance(former, str):
            self._hash_of[word] = former
            self._sense_of.setdefault(former, word)
        self._there[file] = self._known[file] = base
        if file in self.held:
            self._known[file] = None
            self._came_ms[word] = self.held[file]

    def take(
        self, change: Mapping[str, object], by: Who | None, time_ms: int, word: str, *, own: bool
    ) -> None:
        """Take a Change of an event. `word` stands for the content if the event does not tell its hash."""
        file, kind = change.get("file"), change.get("kind")
        if not isinstance(file, str):
            return
        if "unit" in change and kind != "file":
            kind = "updated"  # a heading of a document came, went or changed: to its file that is one thing
        told = change.get("contentHash")
        content = told if isinstance(told, str) else word
        last = _Last(time_ms, by, change)
        old = change.get("from")
        if kind == "renamed" and isinstance(old, str):
            self._rename(old, file, told if isinstance(told, str) else None, last, own=own)
            return
        self.touch(file, existed=kind != "added", former=change.get("formerHash"))
        now = self._next(file, kind, content, time_ms)
        self._there[file] = now
        if own:
            self._known[file] = now
            self._last.pop(file, None)
        else:
            self._last[file] = last

    def _next(self, file: str, kind: object, content: str, time_ms: int) -> _State | None:
        was = self._there[file]
        if kind in ("deleted", "removed"):
            return None
        sense = self._sense_of.get(content, content)
        if was is None:
            lineage = f"+{content}.{time_ms}.{len(self._came_ms)}"
            self._came_ms[lineage] = self._arrived_ms[file] = time_ms
            return _State(lineage, content, sense)
        if kind == "file":
            self._sense_of.setdefault(content, was.sense)
            sense = was.sense
        return _State(was.lineage, content, sense)

    def _rename(self, old: str, file: str, content: str | None, last: _Last, *, own: bool) -> None:
        self.touch(old, existed=True)
        self.touch(file, existed=False)
        state = self._there[old] or _State(f"={old}", content or f"={old}", content or f"={old}")
        if content is not None:
            # A rename keeps the bytes: now it is known what the file held all the time.
            self._hash_of[state.content] = content
            self._sense_of.setdefault(content, state.sense)
        self._there[file], self._there[old] = state, None
        self._arrived_ms[file] = last.time_ms
        if own:
            # Who moves a file has not read it: what it knew of the content is what it knows.
            self._known[file], self._known[old] = self._known[old] or state, None
            before = self._last.pop(old, None)
            self._last.pop(file, None)
            if before is not None:
                self._last[file] = before
        else:
            self._last[file] = self._last[old] = last

    def net(self, index_name: str) -> list[FileNet]:
        """Give what the two pictures differ in."""
        gone = {
            known.lineage: file
            for file, known in self._known.items()
            if known is not None and self._there[file] is None
        }
        renamed: dict[str, str] = {}
        for file, now in self._there.items():
            if now is not None and self._known[file] is None and now.lineage in gone:
                renamed[file] = gone[now.lineage]
        moved_away = set(renamed.values())
        found = [
            net
            for file in self._there
            if file not in moved_away and (net := self._net_of(file, renamed.get(file))) is not None
        ]
        found = [replace(net, is_index=True) if net.file == index_name else net for net in found]
        return sorted(found, key=lambda net: (not net.is_index, net.file))

    def _net_of(self, file: str, old: str | None) -> FileNet | None:
        known, now = self._known[old if old is not None else file], self._there[file]
        kind: NetKind
        updated = False
        if known is None and now is None:
            return None
        if known is None:
            kind = "added"
        elif now is None:
            kind = "deleted"
        elif old is not None:
            kind, updated = "renamed", self._differ(known, now) == "updated"
        else:
            differing = self._differ(known, now)
            if differing is None:
                return None
            kind = differing
        last = self._last.get(file)
        since_ms = last.time_ms if last else 0
        if kind == "added" and now is not None:
            since_ms = self._came_ms.get(now.lineage, since_ms)
        by, data = (last.by, last.data) if last else (None, {})
        return FileNet(kind, self._directory, file, old, updated, since_ms, by, data)

    def _differ(self, known: _State, now: _State) -> Literal["updated", "file"] | None:
        if self._content(known) == self._content(now):
            return None
        return "file" if known.sense == now.sense else "updated"

    def _content(self, state: _State) -> str:
        return self._hash_of.get(state.content, state.content)

    def passed(self) -> list[FileNet]:
        """Give what came and went, but not what the session itself let go of."""
        return [
            FileNet(
                "deleted",
                self._directory,
                file,
                since_ms=self._arrived_ms.get(file, self.held.get(file, 0)),
                by=last.by,
                data=last.data,
            )
            for file, last in sorted(self._last.items())
            if self._there[file] is None and self._known[file] is None
        ]
