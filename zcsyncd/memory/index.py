"""The index MEMORY.md: bytes to the text that the model gets, and to entries. Pure.

Rule 1: the text that is injected is ZCode's to the byte (tests/vectors/index_injection.json).
Rule 2: entries are read tolerantly; a line that is not ours is never judged as one.
Rule 3: nothing here raises for content, and whatever it is the time grows with its length only.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from zcsyncd.memory.entries import LONG_LINE_CHARS, Entry, read_page
from zcsyncd.memory.fact import FileStat, Remark
from zcsyncd.memory.injection import Injection, inject, injected, shown, strip
from zcsyncd.memory.links import leaves, legible
from zcsyncd.memory.text import cut_inside_character, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zcsyncd.layouts.layout import Caps
    from zcsyncd.memory.entries import Page
    from zcsyncd.memory.injection import Stripped
    from zcsyncd.memory.text import Decoded

__all__ = [
    "Entry",
    "EntryChanges",
    "Index",
    "Injection",
    "entry_changes",
    "inject",
    "parse_index",
    "unreadable_index",
]

MAX_LISTED = 10
"""Names in one message; the others are counted."""
MAX_REMARKS = 200
"""Remarks of one code; the last one counts the others."""
NEAR_CAP_PERCENT = 90
DIGEST_CHARS = 12

_Defect = TypeVar("_Defect")


@dataclass(frozen=True, slots=True)
class Index:
    """The index at one moment."""

    file: str
    stat: FileStat
    read_at_ns: int
    content_hash: str | None
    """SHA-256 of the raw bytes, hex. None: it could not be read."""
    encoding: str | None
    text_hash: str | None
    """SHA-256 (hex) of the injected text as UTF-8; None when there is none."""
    lines: int
    """Lines after the strip and before the caps."""
    units: int
    """UTF-16 code units after the strip and before the caps."""
    truncated: bool
    entries: tuple[Entry, ...]
    beyond: tuple[str, ...]
    """Targets of entries past a cap: the model never sees them."""
    swallowed: tuple[str, ...]
    """Targets of entries that ZCode drops with a leading `---` block."""
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """What became of the entries that the model sees; each in the order of the index that holds it."""

    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()
    """As they were."""
    changed: tuple[Entry, ...] = ()
    """As they are: the same target, another title or hook."""


def parse_index(file: str, content: bytes, stat: FileStat, *, read_at_ns: int, caps: Caps) -> Index:
    """Read an index as the model gets it, and its entries, those included that the model does not see.

    Bytes that ZCode cannot decode give an unreadable index with a hash. `read_at_ns` is wall-clock time.
    """
    digest = hashlib.sha256(content).hexdigest()
    decoded = decode(content)
    if decoded is None:
        reason = (
            "its bytes are neither UTF-8, nor UTF-16 with a mark, nor GBK, so the model has no index at all"
        )
        return replace(unreadable_index(file, stat, reason, read_at_ns=read_at_ns), content_hash=digest)
    stripped = strip(decoded.text)
    end = shown(stripped.text, caps)
    injection = injected(stripped.text, end, caps, decoded.encoding)
    cut = stripped.offset(end) if injection.truncated else None
    page = read_page(stripped, cut, own_name=file)
    remarks = (
        *_encoding_remarks(content, decoded),
        *_swallow_remarks(page, stripped),
        *_cap_remarks(page, injection, caps, 0 if cut is None else stripped.line(cut + 1)),
        *_warning_remarks(page),
        *_outside_remarks(page),
        *_duplicate_remarks(page),
        *_hidden_remarks(page),
        *_inline_remarks(page),
        *_long_remarks(page),
    )
    return Index(
        file=file,
        stat=stat,
        read_at_ns=read_at_ns,
        content_hash=digest,
        encoding=decoded.encoding,
        text_hash=injection.text_hash,
        lines=injection.lines,
        units=injection.units,
        truncated=injection.truncated,
        entries=tuple(page.entries),
        beyond=page.unseen(page.beyond),
        swallowed=page.unseen(page.swallowed),
        remarks=remarks,
    )


def unreadable_index(file: str, stat: FileStat, reason: str, *, read_at_ns: int) -> Index:
    """Give the index that is there but cannot be read: no entries, no hash, and the remark that says so."""
    message = f"{legible(file)} cannot be read: {legible(reason, 200)}"
    hint = (
        "Nothing is written to it meanwhile. Check its owner and mode, and that it is a text file in UTF-8."
    )
    return Index(
        file=file,
        stat=stat,
        read_at_ns=read_at_ns,
        content_hash=None,
        encoding=None,
        text_hash=None,
        lines=0,
        units=0,
        truncated=False,
        entries=(),
        beyond=(),
        swallowed=(),
        remarks=(Remark("index-unreadable", message, hint=hint),),
    )


def entry_changes(before: Index | None, after: Index | None) -> EntryChanges:
    """Tell which entries came, went, or say something else; None is an index that is not there.

    Only entries that are not hidden count, and where they stand does not. Of several with one target those that are
    alike are paired first, the others in their order. An index that cannot be read tells nothing, before or after.
    """
    if any(index is not None and index.encoding is None for index in (before, after)):
        return EntryChanges()
    was, now = _by_target(_from_difference(before, after)), _by_target(_from_difference(after, before))
    added: list[Entry] = []
    removed: list[Entry] = []
    changed: list[Entry] = []
    for target in {**now, **was}:
        old, new = was.get(target, []), now.get(target, [])
        if len(old) == 1 == len(new) and _says(old[0]) == _says(new[0]):
            continue  # nearly all of them: an index is seldom rewritten
        old, new = _unlike(old, new)
        pairs = min(len(old), len(new))
        changed += new[:pairs]
        added += new[pairs:]
        removed += old[pairs:]
    return EntryChanges(
        *(tuple(sorted(part, key=lambda entry: entry.line)) for part in (added, removed, changed))
    )


def _from_difference(index: Index | None, other: Index | None) -> Sequence[Entry]:
    """Give an index's entries from the first on that is another: an index mostly grows at its end."""
    here = index.entries if index else ()
    there = other.entries if other else ()
    same = 0
    for one, two in zip(here, there, strict=False):
        if one != two:
            break
        same += 1
    return here[same:]


def _by_target(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if not entry.hidden:
            found.setdefault(entry.target, []).append(entry)
    return found


def _unlike(old: list[Entry], new: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Leave out of both what they have in common."""
    return _without(old, Counter(map(_says, new))), _without(new, Counter(map(_says, old)))


def _without(entries: Iterable[Entry], known: Counter[tuple[str, str]]) -> list[Entry]:
    left = []
    for entry in entries:
        if known[_says(entry)]:
            known[_says(entry)] -= 1
        else:
            left.append(entry)
    return left


def _says(entry: Entry) -> tuple[str, str]:
    return entry.title, entry.hook


def _encoding_remarks(content: bytes, decoded: Decoded) -> list[Remark]:
    if decoded.encoding == "gbk" and cut_inside_character(content):
        message = (
            "the index ends within a character: half-written, or cut. ZCode reads all of it as GBK, garbled"
        )
        return [Remark("index-unreadable", message, hint="Write the file again, whole and in UTF-8.")]
    if decoded.encoding != "utf-8" or decoded.lossy:
        what = {"gbk": "GBK", "utf-16le": "UTF-16", "utf-8": "UTF-8 with bytes that are none"}[
            decoded.encoding
        ]
        message = f"the index is {what}: ZCode can read it, others garble it, and our writes refuse it"
        return [Remark("index-encoding", message, hint="Save the file as UTF-8.")]
    return []


def _swallow_remarks(page: Page, stripped: Stripped) -> list[Remark]:
    lost = page.unseen(page.swallowed)
    if not lost:
        return []
    last = stripped.line(stripped.source.rindex("---", 0, stripped.front))
    message = (
        f"the first line is `---`, so ZCode drops everything up to the `---` in line {last}: "
        f"the model never sees {_listed(lost)}"
    )
    return [
        Remark(
            "index-swallowed", message, 1, hint="Delete the `---` in line 1, or put a blank line before it."
        )
    ]


def _cap_remarks(page: Page, injection: Injection, caps: Caps, cut_line: int) -> list[Remark]:
    if not injection.over:
        return near_remarks(injection, caps)
    lost = page.unseen(page.beyond)
    what = f"so it never sees {_listed(lost)}" if lost else "but no entry is lost by it"
    seen = f"from line {cut_line} on the model gets nothing, {what}"
    hint = "Shorten entries to one line, move detail into the facts, or gather entries in a file that the index names."
    remarks = []
    if "lines" in injection.over:
        message = f"the index has {injection.lines} lines, {caps.lines} are the most: {seen}"
        remarks.append(Remark("index-over-lines", message, cut_line, hint=hint))
    if "chars" in injection.over:
        message = f"the index has {injection.units} UTF-16 units, {caps.units} are the most: {seen}"
        remarks.append(Remark("index-over-units", message, cut_line, hint=hint))
    return remarks


def near_remarks(injection: Injection, caps: Caps) -> list[Remark]:
    """Say that an index within the caps will soon be over them; empty when it will not."""
    near = []
    if injection.lines * 100 >= caps.lines * NEAR_CAP_PERCENT:
        near.append(f"{injection.lines} of {caps.lines} lines")
    if injection.units * 100 >= caps.units * NEAR_CAP_PERCENT:
        near.append(f"{injection.units} of {caps.units} UTF-16 units")
    if not near:
        return []
    message = f"the index has {' and '.join(near)}: what comes on top of that the model will not get"
    return [
        Remark(
            "index-near-cap",
            message,
            hint="Shorten entries, or gather several in a file that the index names.",
        )
    ]


def _warning_remarks(page: Page) -> list[Remark]:
    if not page.warnings:
        return []
    more = f" (and {len(page.warnings) - 1} more such lines)" if len(page.warnings) > 1 else ""
    message = f"the line `> WARNING: MEMORY.md is …` is ZCode's note in the prompt and was written into the file{more}"
    return [Remark("warning-on-disk", message, page.warnings[0], hint="Delete the line.")]


def _outside_remarks(page: Page) -> list[Remark]:
    leaving = [entry for entry in page.entries if not entry.hidden and leaves(entry.target)]
    hint = "Copy what it says into a fact of this directory, or name the file without a link."
    return _bounded(
        _each_target(leaving),
        lambda entry: Remark(
            "entry-outside",
            f"the entry's target {legible(entry.target)} leaves the memory directory",
            entry.line,
            hint=hint,
            target=entry.target,
        ),
    )


def _duplicate_remarks(page: Page) -> list[Remark]:
    if len({entry.target for entry in page.own}) == len(page.own):
        return []
    first: dict[str, Entry] = {}
    count: Counter[str] = Counter()
    again: list[tuple[Entry, int]] = []
    for entry in page.own:
        count[entry.target] += 1
        if first.setdefault(entry.target, entry) is not entry:
            again.append((entry, count[entry.target]))
    return _bounded(
        again,
        lambda found: Remark(
            "entry-duplicate",
            f"{legible(found[0].target)} has an entry in line {first[found[0].target].line} already",
            found[0].line,
            hint="Keep the better one.",
            target=f"{found[0].target}#{found[1]}",
        ),
    )


def _hidden_remarks(page: Page) -> list[Remark]:
    return _bounded(
        _each_target(entry for entry in page.entries if entry.hidden),
        lambda entry: Remark(
            "entry-hidden",
            f"the entry for {legible(entry.target)} is in an HTML comment or a code fence: to the model it is none",
            entry.line,
            hint="Take it out of there if it is meant to be read.",
            target=entry.target,
        ),
    )


def _inline_remarks(page: Page) -> list[Remark]:
    message = "content without a link: it costs room in every prompt"
    return _line_remarks(
        "entry-inline", page.inline, message, "Move it into a fact, and leave an entry here."
    )


def _long_remarks(page: Page) -> list[Remark]:
    message = f"an entry line over {LONG_LINE_CHARS} characters: it costs room in every prompt"
    return _line_remarks(
        "entry-long", page.long, message, "Shorten the hook, and move the detail into the fact."
    )


def _line_remarks(code: str, lines: Iterable[tuple[int, str]], message: str, hint: str) -> list[Remark]:
    """Make a remark of each line, told apart by what it says: equal lines share one."""
    numbers: dict[str, int] = {}
    for number, text in lines:
        numbers.setdefault(text, number)
    return _bounded(
        list(numbers.items()),
        lambda line: Remark(
            code,
            message,
            line[1],
            hint=hint,
            target=hashlib.sha256(line[0].encode()).hexdigest()[:DIGEST_CHARS],
        ),
    )


def _each_target(entries: Iterable[Entry]) -> list[Entry]:
    """Give the first entry of each target."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.target, entry)
    return list(first.values())


def _bounded(defects: Sequence[_Defect], remark: Callable[[_Defect], Remark]) -> list[Remark]:
    """Make remarks of the first `MAX_REMARKS` defects; the last one counts the others."""
    remarks = [remark(defect) for defect in defects[:MAX_REMARKS]]
    more = len(defects) - len(remarks)
    if more:
        remarks[-1] = replace(remarks[-1], message=f"{remarks[-1].message} (and {more} more like this)")
    return remarks


def _listed(targets: Sequence[str]) -> str:
    names = ", ".join(legible(target) for target in targets[:MAX_LISTED])
    more = len(targets) - MAX_LISTED
    return f"{names} and {more} more" if more > 0 else names
