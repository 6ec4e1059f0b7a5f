"""The lines of an index: a stripped text to entries, and to where the model stops seeing them. Pure.

Rule 1: a link to a local target makes an entry, wherever it stands; a URL, an anchor, an image or code makes none.
Rule 2: of several links in a line the first is the line's entry. Further ones to `.md` files are reached as well, but
a mention is no second entry of its target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zcsyncd.memory.fences import Fences
from zcsyncd.memory.links import links, local_path, loose_link, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zcsyncd.memory.injection import Stripped
    from zcsyncd.memory.links import Link

MAX_TITLE_CHARS = 1_000
MAX_HOOK_CHARS = 4_000
"""An event must hold an entry; what is longer is cut with `…`."""
MAX_ENTRIES = 5_000
"""Entries that are read where the model gets none any more: whoever has this many is told by `index-over-lines`, and a
hundred thousand of them would keep the loop for seconds at every save."""
MAX_ODD_CHARS = 1_000_000
"""Forty prompts full: so much is looked at of lines that hold links but are not in the written form."""
ODD_LINE_CHARS = 200
"""What such a line counts for beside its length."""
MAX_LINE_CHARS = 25_000
"""A prompt full: links further along a line in another than the written form are not looked for."""
MAX_FENCED_LINES = 10_000
"""Fifty prompts full: further down, and behind what the model gets, a code fence hides nothing more."""
LONG_LINE_CHARS = 200

_WRITTEN = re.compile(
    r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([^\[\]`\\<>]*)\]\(([\w./-]+)\)"
    r"(?:(?:[ \t]+(?:[—–―]{1,3}|-{1,3})|:)[ \t]+(.*))?"
)
_LEAD = re.compile(r"[\s>\ufeff]*")
_MARKER = re.compile(r"-(?=\[)|(?:[-*+•]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
_EMPHASIS = re.compile(r"[*_~]{1,3}")
_SEPARATOR = re.compile(r"\s*(?:[—–―]{1,3}|-{1,3}(?=\s|$)|[:：|])\s*")
_RULE = re.compile(r"[-*_= \t]+")
_DEFINITION = re.compile(r"\[[^\]]+\]:")
_MATTERS = re.compile(r"\]\(|WARNING: MEMORY\.md is ")
_WARNING = re.compile(r"[\s>]*>\s*WARNING: MEMORY\.md is ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line with a target."""

    target: str
    """The target, decoded (`%20`, `<…>`, `#anchor` cut off), relative to the memory directory, normalised with
    `/`; one that leaves the directory keeps its `../`."""
    title: str
    hook: str
    """What stands behind the link, without the dash; empty when there is none."""
    line: int
    """1-based line of the file."""
    hidden: bool = False
    """Inside a top-level HTML comment or a code fence: the model does not see it as an entry."""


@dataclass(slots=True)
class Page:
    """What the lines of an index hold, gathered in one go."""

    entries: list[Entry] = field(default_factory=list)
    """All of them, the ones that the model does not get included, in the file's order."""
    own: list[Entry] = field(default_factory=list)
    """Entries that have their line to themselves and are not hidden: no mention is among them."""
    seen: set[str] = field(default_factory=set)
    """Targets that the model gets."""
    beyond: dict[str, None] = field(default_factory=dict)
    """Targets behind the cut, in order; without them that are seen, see `unseen`."""
    swallowed: dict[str, None] = field(default_factory=dict)
    """Targets in the leading block."""
    inline: list[tuple[int, str]] = field(default_factory=list)
    """Bullets and paragraphs that the model gets and that hold no link: number and text of the first line."""
    long: list[tuple[int, str]] = field(default_factory=list)
    """Entry lines over 200 characters: number and text."""
    warnings: list[int] = field(default_factory=list)
    """Lines that hold ZCode's own warning."""

    def unseen(self, targets: Iterable[str]) -> tuple[str, ...]:
        """Leave out the targets that another entry shows to the model."""
        return tuple(target for target in targets if target not in self.seen)


def read_page(stripped: Stripped, cut: int | None, *, own_name: str) -> Page:
    """Read the lines of an index.

    `cut` is the offset in the source behind which the model gets nothing, None when it gets all. `own_name` is the
    index's own name: a link to it is none.
    """
    return _Reader(stripped, cut, own_name).read()


@dataclass(frozen=True, slots=True)
class _Place:
    """A line, and where it stands."""

    number: int
    offset: int
    commented: bool
    """It begins in a comment that is dropped."""
    fenced: bool


class _Reader:
    """Goes through the lines once. Nothing but the page is left of it."""

    def __init__(self, stripped: Stripped, cut: int | None, own_name: str) -> None:
        self._text = stripped.source.replace("\r", "\n")
        self._front = stripped.front
        self._comments = stripped.comments
        self._begin = stripped.kept[0][0] if stripped.kept else len(self._text)
        self._cut = stripped.offset(len(stripped.text)) if cut is None else cut
        self._own_name = own_name
        self._page = Page()
        self._fences = Fences() if "```" in self._text or "~~~" in self._text else None
        self._passed = 0
        """Comments that end before the place that was asked for last."""
        self._odd_chars = 0
        self._in_block = False
        self._bare: tuple[int, str] | None = None
        """The bullet or paragraph that is being read, as long as no link was seen in it."""

    def read(self) -> Page:
        for number, offset, text in self._lines():
            if len(self._page.entries) >= MAX_ENTRIES and offset >= self._cut:
                break
            place = None
            if self._fences is not None or self._comments:
                commented = self._is_commented(offset)
                fenced = (
                    self._fences is not None
                    and not commented
                    and offset >= self._front
                    and self._fences.takes(text)
                )
                place = _Place(number, offset, commented, fenced)
            written = _WRITTEN.fullmatch(text)
            if written is not None and self._read_written(text, number, offset, written, place):
                self._end_block()
                self._in_block = True
                continue
            if self._odd_chars > MAX_ODD_CHARS and offset >= self._cut:
                continue
            place = place or _Place(number, offset, commented=False, fenced=False)
            linked = self._read_odd(text, place)
            if place.commented or place.fenced or offset < self._front or offset >= self._cut:
                self._end_block()
            else:
                self._follow_block(text, number, linked=linked)
        self._end_block()
        return self._page

    def _lines(self) -> Iterator[tuple[int, int, str]]:
        """Give number, offset and text of the lines that matter, none of them blank.

        Of what the model does not get these are the ones with a link; fences are still followed there for a while.
        """
        text = self._text
        start = text.rfind("\n", 0, self._begin) + 1
        yield from self._linked_lines(1, 0, start)
        number = 1 + text.count("\n", 0, start)
        while start < len(text):
            if start >= self._cut and (self._fences is None or number > MAX_FENCED_LINES):
                self._fences = None
                yield from self._linked_lines(number, start, len(text))
                return
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            line = text[start:end]
            if line and not line.isspace():
                yield number, start, line
            else:
                self._end_block()
                if self._fences is not None:
                    self._fences.takes("")
            number, start = number + 1, end + 1

    def _linked_lines(self, number: int, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
        """Give the lines with a link, or with ZCode's warning, which stands at the end when it was written there."""
        text = self._text
        while found := _MATTERS.search(text, start, stop):
            begin = text.rfind("\n", start, found.start()) + 1 or start
            number += text.count("\n", start, begin)
            end = text.find("\n", found.start())
            end = len(text) if end < 0 else end
            yield number, begin, text[begin:end]
            number, start = number + 1, end + 1

    def _is_commented(self, place: int) -> bool:
        """Tell whether a place lies in a comment that is dropped. Places are asked for in rising order."""
        comments = self._comments
        while self._passed < len(comments) and comments[self._passed][1] <= place:
            self._passed += 1
        return self._passed < len(comments) and comments[self._passed][0] <= place

    def _read_written(
        self, text: str, number: int, offset: int, found: re.Match[str], place: _Place | None
    ) -> bool:
        """Read a line in the written form or close to it, which nearly all are; False if it is not quite."""
        title, target, hook = found.groups("")
        if "](" in hook or "/" in target or target[0] == "." or target == self._own_name:
            return False
        start, end = offset + found.start(1) - 1, offset + found.end(2) + 1
        if place is None and start >= self._front and end <= self._cut and len(text) <= LONG_LINE_CHARS:
            entry = Entry(target, title.strip(), hook.rstrip(), number)
            self._page.entries.append(entry)
            self._page.own.append(entry)
            self._page.seen.add(target)
            return True
        hidden = place is not None and (place.fenced or self._is_commented(start))
        self._add(_entry(target, title, hook, number, hidden=hidden), start, end, own=True)
        if not hidden:
            self._measure(text, number)
        return True

    def _read_odd(self, text: str, place: _Place) -> bool:
        """Read any other line; tell whether it holds a link of any kind."""
        if _WARNING.match(text) and not (place.commented or place.fenced):
            self._page.warnings.append(place.number)
        if "](" not in text:
            return "://" in text or _DEFINITION.match(text) is not None
        text = text[:MAX_LINE_CHARS]
        self._odd_chars += len(text) + ODD_LINE_CHARS
        if self._odd_chars > MAX_ODD_CHARS:
            return True
        start, bullet, table = _lead(text)
        found = links(text)
        if bullet and text.startswith("[", start) and not any(link.start == start for link in found):
            loose = loose_link(text, start)
            if loose is not None:
                found = (loose, *(link for link in found if link.start >= loose.end))
        self._take(text, place, found, start, listed=bullet or table)
        return bool(found)

    def _take(self, text: str, place: _Place, found: tuple[Link, ...], start: int, *, listed: bool) -> None:
        first = True
        for link in found:
            path = local_path(link.target)
            if path is None or path == self._own_name or (not first and not path.lower().endswith(".md")):
                continue
            hook, own = _behind(text, link, start, listed=listed) if first else ("", False)
            hidden = link.hidden or place.fenced or self._is_commented(place.offset + link.start)
            entry = _entry(path, plain(link.title), hook, place.number, hidden=hidden)
            self._add(entry, place.offset + link.start, place.offset + link.end, own=own)
            if first and not hidden:
                self._measure(text, place.number)
            first = False

    def _add(self, entry: Entry, start: int, end: int, *, own: bool) -> None:
        """Add an entry whose link stands at these offsets of the source."""
        page = self._page
        page.entries.append(entry)
        if start < self._front:
            page.swallowed[entry.target] = None
            return
        if entry.hidden:
            return
        if end > self._cut:
            page.beyond[entry.target] = None
        else:
            page.seen.add(entry.target)
        if own:
            page.own.append(entry)

    def _measure(self, text: str, number: int) -> None:
        if len(text.strip()) > LONG_LINE_CHARS:
            self._page.long.append((number, text.strip()))

    def _follow_block(self, text: str, number: int, *, linked: bool) -> None:
        """Keep the bullet or paragraph that this line begins or goes on with."""
        lead = _LEAD.match(text)
        rest = text[lead.end() :] if lead else text
        bullet = _MARKER.match(rest) is not None
        if bullet or not self._in_block:
            self._end_block()
            if not rest or rest[0] in "#<|" or _RULE.fullmatch(rest) or _WARNING.match(text):
                return
            self._in_block = True
            self._bare = None if linked else (number, rest.strip())
        elif rest.startswith("#"):
            self._end_block()
        elif linked:
            self._bare = None

    def _end_block(self) -> None:
        if self._bare is not None:
            self._page.inline.append(self._bare)
        self._bare = None
        self._in_block = False


def _lead(text: str) -> tuple[int, bool, bool]:
    """Tell where a line's content begins, and whether it is a list item's or a table row's."""
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    marker = _MARKER.match(text, start)
    table = text.startswith("|", start)
    if marker:
        start = marker.end()
    elif table:
        start += 1
    emphasis = _EMPHASIS.match(text, start)
    if emphasis and text.startswith("[", emphasis.end()):
        start = emphasis.end()
    return start, marker is not None, table


def _behind(text: str, link: Link, start: int, *, listed: bool) -> tuple[str, bool]:
    """Give what stands behind a line's first link, and whether the line is that link's own.

    It is when the link leads the line, or when a dash or colon sets a hook off in a list. Elsewhere the link is a
    mention in running text, which has no hook.
    """
    rest = text[link.end :]
    emphasis = _EMPHASIS.match(rest)
    if emphasis and text.startswith(emphasis.group(), link.start - len(emphasis.group())):
        rest = rest[emphasis.end() :]
    separator = _SEPARATOR.match(rest)
    leading = link.start <= start or not text[start : link.start].strip()
    if not leading and not (listed and separator):
        return "", False
    if not listed and not separator and rest.strip():
        return "", False
    hook = rest[separator.end() :] if separator else rest
    return hook.strip().rstrip("|").rstrip() if text.lstrip().startswith("|") else hook.strip(), True


def _entry(target: str, title: str, hook: str, line: int, *, hidden: bool) -> Entry:
    title, hook = title.strip(), hook.strip()
    if len(title) > MAX_TITLE_CHARS:
        title = title[: MAX_TITLE_CHARS - 1] + "…"
    if len(hook) > MAX_HOOK_CHARS:
        hook = hook[: MAX_HOOK_CHARS - 1] + "…"
    return Entry(target, title, hook, line, hidden)
