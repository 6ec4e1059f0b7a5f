"""What the model gets of an index: bytes to the prompt's text, as ZCode makes it. Pure.

Source: docs/format.md, "The index"; tests/vectors/index_injection.json.

Rule 1: to the byte. What looks like a slip of ZCode's (a front matter that ends inside a line, a cut inside a
surrogate pair) is kept.
Rule 2: offsets are kept beside the text, so that what the model does not see can be told by line and target.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zcsyncd.memory.comments import JS_BLANKS, Span, comment_spans
from zcsyncd.memory.text import Encoding, decode, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zcsyncd.layouts.layout import Caps

Cap = Literal["lines", "chars"]

_ADVICE = "Only part of it was loaded. Keep index entries to one line under ~200 chars; move detail into topic files."
_BLANKS = re.compile(f"[{JS_BLANKS}]*")
_STEP = 1024


@dataclass(frozen=True, slots=True)
class Injection:
    """The text that stands in the prompt, without the heading line that names the file."""

    text: str
    """The warning line included. A half of a surrogate pair, left by the cut, is U+FFFD, as it is sent."""
    truncated: bool
    lines: int
    """Lines after the strip and before the caps; 0 when nothing is left."""
    units: int
    """UTF-16 code units after the strip and before the caps."""
    over: tuple[Cap, ...]
    """The caps that are passed, lines first."""
    warning: str | None
    """The last line of `text`, if it was put there by ZCode."""
    text_hash: str
    """SHA-256 of `text` as UTF-8, hex."""
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Stripped:
    """An index without its leading block, its top-level comments and the blanks around it."""

    source: str
    """The whole text, CRLF as LF. Every offset counts characters of it."""
    front: int
    """Where a leading block that is dropped ends; 0: there is none."""
    comments: tuple[Span, ...]
    text: str
    """What is left."""
    kept: tuple[Span, ...]
    """Where `text` comes from, in order: spans that are as long as what they give."""

    def offset(self, index: int) -> int:
        """Tell where in `source` the character `text[index]` stands; the end of what is kept for the text's end."""
        for start, end in self.kept:
            if index < end - start:
                return start + index
            index -= end - start
        return self.kept[-1][1] if self.kept else 0

    def line(self, offset: int) -> int:
        """Tell the 1-based line of the file in which a place lies."""
        return 1 + self.source.count("\n", 0, offset) + self.source.count("\r", 0, offset)


def inject(content: bytes, caps: Caps) -> Injection | None:
    """Give what ZCode puts in the prompt of an index of these bytes; None if it cannot decode them (no index)."""
    decoded = decode(content)
    if decoded is None:
        return None
    stripped = strip(decoded.text)
    return injected(stripped.text, shown(stripped.text, caps), caps, decoded.encoding)


def strip(text: str) -> Stripped:
    """Take off what ZCode takes off before the caps."""
    source = well_formed(text).replace("\r\n", "\n")
    front = _front_end(source)
    rest = source[front:]
    if "<!--" not in rest:
        return _trimmed(source, front, (), rest, [(front, len(source))])
    # Any comment, wherever it stands, sends ZCode's text through a parser that turns each CR into LF as well.
    comments = tuple((start + front, end + front) for start, end in comment_spans(rest))
    doubled = [(front + at.start(), front + at.start() + 1) for at in re.finditer("\r\n", rest)]
    kept = _left(front, len(source), sorted([*comments, *doubled]))
    text = "".join(source[start:end] for start, end in kept).replace("\r", "\n")
    return _trimmed(source, front, comments, text, kept)


def shown(text: str, caps: Caps) -> int:
    """Tell how many characters of a stripped text fit the caps: all, or a cut at a line's end if there is one.

    The cut by units is the last line end at or before the cap; a first line over the cap is cut within, and half a
    surrogate pair counts as its character.
    """
    end = len(text)
    if text.count("\n") >= caps.lines:
        end = -1
        for _ in range(caps.lines):
            end = text.index("\n", end + 1)
        end = max(end, 0)
    if end <= caps.units and text.isascii():
        return end
    head = text[: min(end, caps.units + 1)]
    if end == len(head) and units_of(head) <= caps.units:
        return end
    # A character has at least one unit, so `head` holds all that may stay and the line end right behind it.
    near = head.encode("utf-16-le", "surrogatepass")[: 2 * (caps.units + 1)].decode("utf-16-le", "ignore")
    line_end = near.rfind("\n")
    if line_end > 0:
        return line_end
    whole = head.encode("utf-16-le", "surrogatepass")[: 2 * caps.units]
    return len(whole.decode("utf-16-le", "replace"))


def injected(text: str, end: int, caps: Caps, encoding: Encoding) -> Injection:
    """Put the warning behind `text[:end]` when a stripped text passes a cap; `end` is what `shown` tells."""
    lines = text.count("\n") + 1 if text else 0
    units = units_of(text)
    over: list[Cap] = []
    if lines > caps.lines:
        over.append("lines")
    if units > caps.units:
        over.append("chars")
    warning = _warning(lines, units, over, caps) if over else None
    whole = text if warning is None else f"{_cut(text[:end], caps)}\n\n{warning}"
    return Injection(
        text=whole,
        truncated=bool(over),
        lines=lines,
        units=units,
        over=tuple(over),
        warning=warning,
        text_hash=hashlib.sha256(whole.encode()).hexdigest(),
        encoding=encoding,
    )


def units_of(text: str) -> int:
    """Count UTF-16 code units, which is how JavaScript measures a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _front_end(source: str) -> int:
    """Tell where the leading block ends: any later `---` closes it, and blanks after that go too; 0 without one."""
    if not source.startswith("---"):
        return 0
    blanks = _BLANKS.match(source, 3)
    last = source.rfind("\n", 3, blanks.end() if blanks else 3)
    close = source.find("---", last + 1) if last >= 0 else -1
    after = _BLANKS.match(source, close + 3) if close >= 0 else None
    return after.end() if after else 0


def _left(start: int, end: int, dropped: Iterable[Span]) -> list[Span]:
    """Give what is left of a span without others in it, which may lie in one another."""
    kept: list[Span] = []
    for first, after in dropped:
        if first > start:
            kept.append((start, first))
        start = max(start, after)
    if start < end:
        kept.append((start, end))
    return kept


def _trimmed(
    source: str, front: int, comments: tuple[Span, ...], text: str, kept: Sequence[Span]
) -> Stripped:
    body = text.lstrip(JS_BLANKS)
    left = _without_head(kept, len(text) - len(body))
    return Stripped(source, front, comments, body.rstrip(JS_BLANKS), tuple(left))


def _without_head(kept: Iterable[Span], length: int) -> list[Span]:
    left: list[Span] = []
    for start, end in kept:
        gone = min(length, end - start)
        length -= gone
        if start + gone < end:
            left.append((start + gone, end))
    return left


def _cut(text: str, caps: Caps) -> str:
    """Leave of a last character that is over the cap with its second half what UTF-8 can hold of the first."""
    return text if units_of(text) <= caps.units else text[:-1] + "\ufffd"


def _warning(lines: int, units: int, over: Sequence[Cap], caps: Caps) -> str:
    if "lines" not in over:
        what = f"{_size(units)} (limit: {_size(caps.units)}) — index entries are too long"
    elif "chars" not in over:
        what = f"{lines} lines (limit: {caps.lines})"
    else:
        what = f"{lines} lines and {_size(units)}"
    return f"> WARNING: MEMORY.md is {what}. {_ADVICE}"


def _size(units: int) -> str:
    """Write a size as ZCode does: one digit, ties up, no `.0`. Whole numbers throughout, so that ties are ties."""
    if units < _STEP:
        return f"{units} bytes"
    unit, word = _STEP, "KB"
    if units >= _STEP**2:
        unit, word = (_STEP**2, "MB") if units < _STEP**3 else (_STEP**3, "GB")
    tenths = (units * 20 + unit) // (2 * unit)
    whole, tenth = divmod(tenths, 10)
    return f"{whole}.{tenth}{word}" if tenth else f"{whole}{word}"
