"""The one place where inner records become the wire's words: changes and index to event data. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from zcsyncd.daemon.docket import Docket, FindingRow
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.answers import finding_answer
from zcsyncd.memory.changes import Change
from zcsyncd.memory.index import Entry, Index, entry_changes
from zcsyncd.memory.revision import revision

MAX_CHANGES = 500
"""Changes in one event; more become several events."""
MAX_ENTRIES = 500
"""Entries of one kind in a `memory/index` event."""
MAX_FINDINGS = 200
"""Findings of one kind in a `memory/audit` event."""
DATA_BYTES = 900_000
"""How long an event's data may grow, whatever the numbers say: with what stands around it, it must fit one line."""
TEXT_CHARS = 4_000
"""Of a longer description an event tells the beginning: it is news, not the fact."""

encode = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII JSON: a name that is not UTF-8 travels as an escaped lone surrogate. One character is one byte."""


def changed_data(changes: Sequence[Change], by: tuple[str, str] | None = None) -> Iterator[str]:
    """Give the data of the `memory/changed` events for one batch; `by` is the session that wrote, where it is known."""
    author = "" if by is None else f',"by":{encode({"host": by[0], "id": by[1]})}'
    waiting: list[str] = []
    size = 0
    for change in changes:
        text = encode(_change(change))
        if waiting and (len(waiting) == MAX_CHANGES or size + len(text) > DATA_BYTES):
            yield f'{{"changes":[{",".join(waiting)}]{author},"more":true}}'
            waiting, size = [], 0
        waiting.append(text)
        size += len(text) + 1
    if waiting:
        yield f'{{"changes":[{",".join(waiting)}]{author}}}'


def _fitting(items: Iterable[object], most: int, most_bytes: int) -> tuple[list[object], bool]:
    """Take items from the first on as far as they fit; tell whether any were left out."""
    taken: list[object] = []
    size = 0
    for item in items:
        size += len(encode(item)) + 1
        if len(taken) == most or size > most_bytes:
            return taken, True
        taken.append(item)
    return taken, False


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_CHARS else text[:TEXT_CHARS] + "…"


def _change(change: Change) -> dict[str, object]:
    members: dict[str, object] = {
        "kind": change.kind,
        "file": change.file,
        "unit": change.unit,
        "from": change.from_,
        "name": _cut(change.name),
        "description": _cut(change.description),
        "type": change.type,
        "revision": change.revision,
        "contentHash": change.content_hash,
        "formerHash": change.former_hash,
    }
    return {name: value for name, value in members.items() if value is not None}


def index_data(
    before: Index | None, after: Index | None, caps: Caps, by: tuple[str, str] | None = None
) -> str:
    """Give the data of a `memory/index` event; `by` is the session that wrote, where it is known."""
    differing = entry_changes(before, after)
    parts = DATA_BYTES // 4
    added, more_added = _fitting(map(_entry, differing.added), MAX_ENTRIES, parts)
    removed, more_removed = _fitting(map(_entry, differing.removed), MAX_ENTRIES, parts)
    changed, more_changed = _fitting(map(_entry, differing.changed), MAX_ENTRIES, parts)
    beyond, _ = _fitting(after.beyond if after else (), MAX_ENTRIES, parts)
    data: dict[str, object] = {
        "revision": revision(after.stat.mtime_ns, after.stat.size) if after else None,
        "contentHash": after.content_hash if after else None,
        "textHash": after.text_hash if after else None,
        "added": added,
        "removed": removed,
        "changed": changed,
        "caps": {
            "lines": after.lines if after else 0,
            "linesCap": caps.lines,
            "units": after.units if after else 0,
            "unitsCap": caps.units,
            "beyond": beyond,
        },
    }
    if more_added or more_removed or more_changed:
        data["more"] = True
    if by is not None:
        data["by"] = {"host": by[0], "id": by[1]}
    return encode(data)


def _entry(entry: Entry) -> dict[str, object]:
    return {"target": entry.target, "title": entry.title, "hook": entry.hook, "line": entry.line}


def audit_data(directory: str, docket: Docket) -> str:
    """Give the data of a `memory/audit` event."""
    error, warning, info = docket.counts
    parts = DATA_BYTES // 2
    appeared, more_appeared = _fitting((told(directory, row) for row in docket.appeared), MAX_FINDINGS, parts)
    cleared, more_cleared = _fitting((told(directory, row) for row in docket.cleared), MAX_FINDINGS, parts)
    data: dict[str, object] = {
        "appeared": appeared,
        "cleared": cleared,
        "counts": {"error": error, "warning": warning, "info": info},
    }
    if more_appeared or more_cleared:
        data["more"] = True
    return encode(data)


def told(
    directory: str, row: FindingRow, *, pending: bool = False, dismissed: bool = False
) -> dict[str, object]:
    """Give a Finding of the wire."""
    return finding_answer(row.finding, directory, row.since_ms, pending=pending, dismissed=dismissed)
