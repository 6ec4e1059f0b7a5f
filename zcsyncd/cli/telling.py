"""Events to words: what a person who follows `zcsyncd events` reads. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from zcsyncd.cli.answer import Answer, names_of, number_of, object_of, rows_of, text_of
from zcsyncd.cli.pages import SEVERITY_STYLES, counts_cell, finding_lines, session_name
from zcsyncd.cli.render import Paint, counted, fitted, harmless

MOST_LINES = 20
"""More changes of one event are counted, not listed; `--json` has them all."""
INDENT = "    "

_KIND_STYLES = {
    "added": "green",
    "updated": "blue",
    "renamed": "blue",
    "deleted": "red",
    "removed": "red",
    "file": "dim",
}


def event_lines(event: Answer, *, label: str, clock: str, cells: int | None, paint: Paint) -> list[str]:
    """Tell one event: a line of time, project, topic and sum, then a line for each thing that changed.

    `label` is a short name of the event's directory, empty for none; `clock` the time as it is shown; `cells` the
    width to keep to, None for none.
    """
    topic = str(event.get("topic", ""))
    data = object_of(event, "data")
    tell = _TELLERS.get(topic, _tell_other)
    words, details = tell(data, paint)
    head = [paint(clock, "dim")]
    if label:
        head.append(paint(harmless(label), "cyan"))
    head.append(paint(harmless(topic), "bold"))
    if words:
        head.append(words)
    shown = [INDENT + line for line in details[:MOST_LINES]]
    if len(details) > MOST_LINES:
        shown.append(f"{INDENT}… and {len(details) - MOST_LINES} more (--json tells them all)")
    return [*fitted(["  ".join(head)], cells), *fitted(shown, cells, hang=2)]


_Told = tuple[str, list[str]]


def _tell_changed(data: Answer, paint: Paint) -> _Told:
    changes = rows_of(data, "changes")
    told = [_change(change, paint) for change in changes]
    by = object_of(data, "by")
    writer = f" by {session_name(by)}" if by else ""
    more = ", more to come" if data.get("more") is True else ""
    if len(told) == 1:
        return told[0] + writer + more, []
    return counted(len(told), "change") + writer + more, told


def _change(change: Answer, paint: Paint) -> str:
    kind = text_of(change, "kind")
    words = [paint(kind, _KIND_STYLES.get(kind)), _unit_of(change)]
    if change.get("from") is not None:
        words.append(f"(was {_joined(change['from'])})")
    if kind == "file":
        words.append("(bytes only: its meaning is the same)")
    elif change.get("description") is not None:
        words.append(f"— {text_of(change, 'description')}")
    return " ".join(words)


def _unit_of(change: Answer) -> str:
    file = text_of(change, "file")
    return f"{file} › {_joined(change['unit'])}" if change.get("unit") is not None else file


def _joined(value: object) -> str:
    """Show a file, or a unit's headings from the outermost in."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " › ".join(harmless(str(part)) for part in value)
    return harmless(str(value))


def _tell_index(data: Answer, paint: Paint) -> _Told:
    details: list[str] = []
    words: list[str] = []
    for member, style in (("added", "green"), ("removed", "red"), ("changed", "blue")):
        entries = rows_of(data, member)
        if entries:
            words.append(f"{counted(len(entries), 'entry', 'entries')} {member}")
        details += [f"{paint(member, style)} {_entry(entry)}" for entry in entries]
    caps = object_of(data, "caps")
    if number_of(caps, "linesCap"):
        room = f"{number_of(caps, 'lines'):,} of {number_of(caps, 'linesCap'):,} lines"
        words.append(f"{room}, {number_of(caps, 'units'):,} of {number_of(caps, 'unitsCap'):,} units")
    beyond = names_of(caps, "beyond")
    if beyond:
        details.append(paint(f"past the cap, never seen by the model: {', '.join(beyond)}", "red"))
    if data.get("revision") is None and "revision" in data:
        words = ["the index is gone", *words]
    return "; ".join(words), details


def _entry(entry: Answer) -> str:
    hook = text_of(entry, "hook")
    title = text_of(entry, "title")
    return f"{text_of(entry, 'target')}  [{title}]" + (f" — {hook}" if hook else "")


def _tell_audit(data: Answer, paint: Paint) -> _Told:
    details: list[str] = []
    for finding in rows_of(data, "appeared"):
        # The key is for `audit --dismiss`, which shows it; here it would only be noise.
        details += finding_lines(finding, cells=None, paint=paint)[:-1]
    for finding in rows_of(data, "cleared"):
        place = text_of(finding, "file")
        details.append(
            f"{paint('cleared', 'green')} {text_of(finding, 'code')}" + (f"  {place}" if place else "")
        )
    counts = counts_cell(object_of(data, "counts"))
    return f"open now: {paint(counts.text, counts.style)}", details


def _tell_read(data: Answer, _paint: Paint) -> _Told:
    how = {"full": "read", "partial": "read in part", "truncated": "read, cut"}.get(
        str(data.get("kind")), "read"
    )
    lines = data.get("range")
    if isinstance(lines, Sequence) and len(lines) == 2:
        how += f", lines {harmless(str(lines[0]))} to {harmless(str(lines[1]))}"
    return f"{_session(data)} {how}: {text_of(data, 'absolutePath')}", []


def _tell_stale(data: Answer, paint: Paint) -> _Told:
    gone = data.get("now", "") is None
    what = "is gone" if gone else "has changed"
    words = f"what {_session(data)} had read {what}: {text_of(data, 'absolutePath')}"
    if data.get("stamp") is True:
        return f"{words} (bytes only: its meaning is the same)", []
    return paint(words, "yellow"), []


def _session(data: Answer) -> str:
    return session_name(object_of(data, "session"))


def _tell_dir(data: Answer, _paint: Paint) -> _Told:
    return f"layout {text_of(data, 'layout')}" if data.get("layout") is not None else "", []


def _tell_gap(data: Answer, paint: Paint) -> _Told:
    why = {
        "expired": "events are gone from the journal",
        "journal-reset": "the journal began anew",
    }.get(str(data.get("reason")), text_of(data, "reason"))
    missed = f", {number_of(data, 'missed'):,} missed" if data.get("missed") is not None else ""
    return paint(f"{why}{missed}: what you knew may be old", SEVERITY_STYLES["warning"]), []


def _tell_degraded(data: Answer, paint: Paint) -> _Told:
    words, details = _tell_other(data, paint)
    return paint(words, SEVERITY_STYLES["warning"]), details


def _tell_other(data: Answer, _paint: Paint) -> _Told:
    """Tell what has no words of its own, as `name=value`; a newer daemon may have topics that we do not know."""
    words = [f"{harmless(str(name))}={_value(value)}" for name, value in data.items()]
    return " ".join(words), []


def _value(value: object) -> str:
    return harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


_TELLERS: Mapping[str, Callable[[Answer, Paint], _Told]] = {
    "memory/changed": _tell_changed,
    "memory/index": _tell_index,
    "memory/audit": _tell_audit,
    "memory/dir-added": _tell_dir,
    "memory/dir-removed": _tell_dir,
    "read-state/read": _tell_read,
    "read-state/stale": _tell_stale,
    "bus/gap": _tell_gap,
    "daemon/degraded": _tell_degraded,
}
