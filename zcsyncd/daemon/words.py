"""The one place where inner records become the wire's words: changes and index to event data. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

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
"""Findings of one kind in a `memory/audit` event: with their messages they must fit one line."""

encode = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII JSON: a name that is not UTF-8 travels as an escaped lone surrogate."""


def changed_data(changes: Sequence[Change]) -> Iterator[str]:
    """Give the data of the `memory/changed` events for one batch."""
    for start in range(0, len(changes), MAX_CHANGES):
        data: dict[str, object] = {
            "changes": [_change(change) for change in changes[start : start + MAX_CHANGES]]
        }
        if start + MAX_CHANGES < len(changes):
            data["more"] = True
        yield encode(data)


def _change(change: Change) -> dict[str, object]:
    members: dict[str, object] = {
        "kind": change.kind,
        "file": change.file,
        "unit": change.unit,
        "from": change.from_,
        "name": change.name,
        "description": change.description,
        "type": change.type,
        "revision": change.revision,
        "contentHash": change.content_hash,
    }
    return {name: value for name, value in members.items() if value is not None}


def index_data(before: Index | None, after: Index | None, caps: Caps) -> str:
    """Give the data of a `memory/index` event."""
    differing = entry_changes(before, after)
    data: dict[str, object] = {
        "revision": revision(after.stat.mtime_ns, after.stat.size) if after else None,
        "contentHash": after.content_hash if after else None,
        "textHash": after.text_hash if after else None,
        "added": _entries(differing.added),
        "removed": _entries(differing.removed),
        "changed": _entries(differing.changed),
        "caps": {
            "lines": after.lines if after else 0,
            "linesCap": caps.lines,
            "units": after.units if after else 0,
            "unitsCap": caps.units,
            "beyond": list(after.beyond[:MAX_ENTRIES]) if after else [],
        },
    }
    if max(len(differing.added), len(differing.removed), len(differing.changed)) > MAX_ENTRIES:
        data["more"] = True
    return encode(data)


def _entries(entries: Sequence[Entry]) -> list[dict[str, object]]:
    return [
        {"target": entry.target, "title": entry.title, "hook": entry.hook, "line": entry.line}
        for entry in entries[:MAX_ENTRIES]
    ]


def audit_data(directory: str, docket: Docket) -> str:
    """Give the data of a `memory/audit` event."""
    error, warning, info = docket.counts
    data: dict[str, object] = {
        "appeared": [told(directory, row) for row in docket.appeared[:MAX_FINDINGS]],
        "cleared": [told(directory, row) for row in docket.cleared[:MAX_FINDINGS]],
        "counts": {"error": error, "warning": warning, "info": info},
    }
    if max(len(docket.appeared), len(docket.cleared)) > MAX_FINDINGS:
        data["more"] = True
    return encode(data)


def told(
    directory: str, row: FindingRow, *, pending: bool = False, dismissed: bool = False
) -> dict[str, object]:
    """Give a Finding of the wire."""
    return finding_answer(row.finding, directory, row.since_ms, pending=pending, dismissed=dismissed)
