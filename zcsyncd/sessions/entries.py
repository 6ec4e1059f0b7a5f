"""What became of index entries: the rows of many events to one for each target. Pure.

Rule 1: what an entry says is what the present index says; events tell that it came, went or changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zcsyncd.memory.entries import Entry
from zcsyncd.sessions.session import Who

EntryKind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class EntryNet:
    """What became of one entry of an index, over all events."""

    kind: EntryKind
    directory: str
    target: str
    title: str
    """As it is; as it was, for `removed`. Empty after a purge."""
    hook: str
    line: int
    since_ms: int
    by: Who | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry as far as it is known."""

    title: str
    hook: str
    line: int
    told: bool = True
    """False: that it is there is known, not what it says."""


class Entries:
    """What is there and what the session knows, target by target."""

    def __init__(self, directory: str) -> None:
        self.held: dict[str, int] = {}
        self._directory = directory
        self._there: dict[str, _Line | None] = {}
        self._known: dict[str, _Line | None] = {}
        self._last: dict[str, tuple[int, Who | None]] = {}
        self._came_ms: dict[str, int] = {}
        self._was: dict[str, _Line] = {}
        """What an entry said when it was taken out."""

    def touch(self, target: str, entry: Entry | _Line | None) -> None:
        """Begin a target with what was there before."""
        if target in self._there:
            return
        base = None if entry is None else _Line(entry.title, entry.hook, entry.line, _is_told(entry))
        self._there[target] = self._known[target] = base
        if target in self.held:
            self._known[target] = None
            self._came_ms[target] = self.held[target]

    @property
    def is_touched(self) -> bool:
        """Tell whether another was at an entry."""
        return bool(self._last)

    def take(
        self, kind: EntryKind, row: Mapping[str, object], time_ms: int, by: Who | None, *, own: bool
    ) -> None:
        """Take an entry that an event tells."""
        target, line = row.get("target"), _line(row)
        if not isinstance(target, str):
            return
        before = {"added": None, "removed": line, "changed": _Line("", "", line.line, told=False)}[kind]
        self.touch(target, before)
        if kind == "removed":
            self._was[target] = line
            self._there[target] = None
        else:
            if self._there[target] is None:
                self._came_ms[target] = time_ms
            self._there[target] = line
        if own:
            self._known[target] = self._there[target]
            self._last.pop(target, None)
        else:
            self._last[target] = (time_ms, by)

    def net(self, visible: Mapping[str, Entry] | None) -> list[EntryNet]:
        """Give what the two pictures differ in. `visible` are the entries as they are; None: nobody knows."""
        found: list[EntryNet] = []
        for target in self._there:
            if target not in self._last and target not in self.held:
                continue  # nobody but the session itself was at it
            entry = visible.get(target) if visible is not None else None
            now = self._there[target] if visible is None else _as_line(entry)
            net = self._net_of(target, self._known[target], now)
            if net is not None:
                found.append(net)
        return sorted(found, key=lambda net: (net.line, net.target))

    def _net_of(self, target: str, known: _Line | None, now: _Line | None) -> EntryNet | None:
        kind: EntryKind
        if known is None and now is None:
            return None
        if now is None:
            kind, line = "removed", self._was.get(target) or known
        elif known is None:
            kind, line = "added", now
        elif known.told and (known.title, known.hook) == (now.title, now.hook):
            return None
        else:
            kind, line = "changed", now
        assert line is not None
        since_ms, by = self._last.get(target, (0, None))
        if kind == "added":
            since_ms = self._came_ms.get(target, since_ms)
        return EntryNet(kind, self._directory, target, line.title, line.hook, line.line, since_ms, by)


def _as_line(entry: Entry | None) -> _Line | None:
    return None if entry is None else _Line(entry.title, entry.hook, entry.line)


def _is_told(entry: Entry | _Line) -> bool:
    return entry.told if isinstance(entry, _Line) else True


def _line(row: Mapping[str, object]) -> _Line:
    title, hook, line = row.get("title"), row.get("hook"), row.get("line")
    return _Line(
        title if isinstance(title, str) else "",
        hook if isinstance(hook, str) else "",
        line if isinstance(line, int) else 0,
    )
