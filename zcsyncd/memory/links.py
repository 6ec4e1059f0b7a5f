"""Links of one line of Markdown: a line to its `[text](target)` links, a target to a path. Pure.

Read as a person would, more tolerant than CommonMark: a target may hold blanks, brackets need not be escaped.

Rule 1: whatever a line holds, the time that it takes grows with its length only.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LINKS = 100
"""A line with more links than this is no entry; what stands behind is not looked at."""
MAX_TARGET_CHARS = 4096
"""The longest path that a system takes."""

_MARKS = re.compile(r"\\.|`+|!?\[|\]|<!--|-->|\(|\)")
_TOOLTIP = r"""(?:"[^"]{0,500}"|'[^']{0,500}'|\([^()]{0,500}\))"""
_TITLED = re.compile(rf"(\S+)\s+{_TOOLTIP}")
_AFTER_ANGLE = re.compile(rf"(?:[ \t]{{1,99}}{_TOOLTIP})?[ \t]{{0,99}}\)")
_URL = re.compile(r"//|(?:mailto|tel|data|file):|[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_DOTS = re.compile(r"(?:\.{1,2}\\)+")
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a line; offsets count characters of the line."""

    start: int
    """Where its `[` stands."""
    end: int
    """The first place behind its `)`."""
    title: str
    """As it is written."""
    target: str
    """As it is written, without `<…>` and a tooltip."""
    hidden: bool = False
    """It stands in an HTML comment within the line."""


def links(line: str) -> tuple[Link, ...]:
    """Give the links of a line in order; of nested ones the outermost. Images and code are none."""
    if "](" not in line:
        return ()
    marks = [(mark.start(), mark.group()) for mark in _MARKS.finditer(line)]
    closing = _pairs(marks)
    runs = _code_ends(marks)
    found: list[Link] = []
    opened: list[tuple[int, bool]] = []
    passed = 0
    hidden = False
    for at, word in marks:
        if at < passed:
            continue
        if word[0] == "`":
            passed = runs.get(at, 0)
        elif word == "<!--":
            hidden = True
        elif word == "-->":
            hidden = False
        elif word[-1] == "[" and word[0] != "\\":
            opened.append((at + len(word) - 1, word[0] == "!"))
        elif word == "]" and opened:
            start, image = opened.pop()
            aim = None if image else _aim(line, at + 1, closing)
            if aim is not None:
                while found and found[-1].start > start:
                    found.pop()
                found.append(Link(start, aim[1], line[start + 1 : at], aim[0], hidden))
                passed = aim[1]
                if len(found) == MAX_LINKS:
                    break
    return tuple(found)


def loose_link(line: str, start: int) -> Link | None:
    """Give the link that begins at `start` although its brackets or back-ticks do not pair; None if there is none.

    Its text goes to the first `](`, unless that belongs to a bracket which was opened after another was closed.
    """
    middle = line.find("](", start)
    if middle < 0 or not line.startswith("[", start):
        return None
    title = line[start + 1 : middle]
    if "[" in title[title.find("]") + 1 :] and "]" in title:
        return None
    marks = [
        (mark.start(), mark.group()) for mark in _MARKS.finditer(line, middle, middle + MAX_TARGET_CHARS)
    ]
    aim = _aim(line, middle + 1, _pairs(marks))
    return None if aim is None else Link(start, aim[1], title, aim[0])


def local_path(target: str) -> str | None:
    """Give the path that a link's target means, decoded and normalised with `/`; None for a URL or a mere anchor.

    A path that leaves its directory keeps its `../`, its `/`, its `~/` or its drive.
    """
    if _DRIVE.match(target):
        return posixpath.normpath(target.replace("\\", "/"))
    if target[:1] in ("", "#", "?") or _is_url(target):
        return None
    path = _without_anchor(target)
    dots = _DOTS.match(path)
    if dots:
        path = dots.group().replace("\\", "/") + path[dots.end() :]
    path = plain(path)
    if "%" in path:
        path = _percent_decoded(path)
    normal = posixpath.normpath(path.replace("\\", "/"))
    return None if normal == "." else normal


def leaves(path: str) -> bool:
    """Tell whether a path as `local_path` gives it leads out of the directory."""
    if path[1:2] == ":":
        return _DRIVE.match(path) is not None
    return path.startswith(("/", "../", "~/")) or path == ".."


def plain(text: str) -> str:
    """Give a text without the backslashes that escape punctuation."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _pairs(marks: Iterable[tuple[int, str]]) -> dict[int, int]:
    """Tell for each opening parenthesis where the one is that closes it."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for at, word in marks:
        if word == "(":
            opened.append(at)
        elif word == ")" and opened:
            closing[opened.pop()] = at
    return closing


def _code_ends(marks: list[tuple[int, str]]) -> dict[int, int]:
    """Tell for each run of back-ticks where the code ends that it begins: behind the next run of that length."""
    ends: dict[int, int] = {}
    following: dict[int, int] = {}
    for at, word in reversed(marks):
        if word[0] == "`":
            length = len(word)
            if length in following:
                ends[at] = following[length]
            following[length] = at + length
    return ends


def _aim(line: str, at: int, closing: dict[int, int]) -> tuple[str, int] | None:
    """Read `(target)` at a place: the target and the first place behind; None if none is there."""
    if line.startswith("(<", at):
        angle = line.find(">", at + 2, at + 2 + MAX_TARGET_CHARS)
        after = _AFTER_ANGLE.match(line, angle + 1) if angle >= 0 else None
        return (line[at + 2 : angle], after.end()) if after else None
    end = closing.get(at)
    if end is None or end - at > MAX_TARGET_CHARS:
        return None
    inner = line[at + 1 : end].strip()
    if len(inner.split(None, 1)) > 1:
        titled = _TITLED.fullmatch(inner)
        if titled:
            inner = titled.group(1)
        elif not _without_anchor(inner).lower().endswith(".md"):
            return None
    return inner, end + 1


def _is_url(target: str) -> bool:
    """Take an unknown scheme for one, but not where the whole is a file's name with a colon in it."""
    if _URL.match(target):
        return True
    return _SCHEME.match(target) is not None and not target.lower().endswith(".md")


def _without_anchor(target: str) -> str:
    """Cut `#…` off, but not from a name that holds the sign, as in `c#.md`."""
    if "#" not in target:
        return target
    ending = target.lower().find(".md#")
    if ending >= 0:
        return target[: ending + 3]
    return target if target.lower().endswith(".md") else target[: target.index("#")]


def _percent_decoded(path: str) -> str:
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return path


def legible(text: str, limit: int = 80) -> str:
    """Give a name for a message: one line of at most `limit` characters, what is unseen or steers written as code."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return _UNSEEN.sub(lambda found: f"\\u{{{ord(found.group()):x}}}", cut)
