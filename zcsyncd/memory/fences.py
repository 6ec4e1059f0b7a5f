"""Code fences of Markdown, line by line: which lines stand in one. Pure.

Rule 1: a fence ends at its like, at the end of the list item or quote that holds it, or with the text
(CommonMark 0.31, "Fenced code blocks").
"""

from __future__ import annotations

import re

_OPENING = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]{1,4}(?![ \t])|[ \t])")
_CODE_INDENT = 4
_TAB = 4
MAX_DEPTH = 20
"""Lists in lists: the parser that hosts use looks no deeper either."""


class Fences:
    """Where a reader of lines stands. Lines that stand in an HTML comment need not be told."""

    def __init__(self) -> None:
        self._mark = ""
        self._quoted = False
        self._depth = 0
        self._items: list[int] = []
        self._in_text = False
        """The last line was a paragraph's: the next may go on with it at any depth."""

    def takes(self, line: str) -> bool:
        """Read the next line; tell whether it opens a fence, stands in one, or closes it."""
        rest = line.lstrip(" \t")
        if not rest:
            self._in_text = False
            self._mark = "" if self._quoted else self._mark
            return bool(self._mark)
        column = _width(line[: len(line) - len(rest)])
        quoted = rest.startswith(">")
        if quoted:
            rest = rest.lstrip("> \t")
        if self._mark:
            if (self._quoted and not quoted) or (not self._quoted and column < self._depth):
                self._mark = ""
            else:
                self._close(rest, column, quoted)
                return True
        if quoted:
            self._items.clear()
            column = 0
        return self._open(rest, column, quoted)

    def _close(self, rest: str, column: int, quoted: bool) -> None:
        run = rest.rstrip(" \t")
        near = quoted or column - self._depth < _CODE_INDENT
        if near and len(run) >= len(self._mark) and run == self._mark[0] * len(run):
            self._mark = ""

    def _open(self, rest: str, column: int, quoted: bool) -> bool:
        marker = _MARKER.match(rest)
        plain = not marker and not _OPENING.match(rest) and not rest.startswith("#")
        if self._in_text and plain:
            return False
        while self._items and column < self._items[-1]:
            self._items.pop()
        while marker and len(self._items) < MAX_DEPTH:
            column += _width(marker.group())
            self._items.append(column)
            rest = rest[marker.end() :]
            marker = _MARKER.match(rest)
        depth = self._items[-1] if self._items else 0
        opening = _OPENING.match(rest)
        if opening and column - depth < _CODE_INDENT:
            self._mark = opening.group(1) or opening.group(2)
            self._depth, self._quoted = depth, quoted
        self._in_text = not self._mark and not rest.startswith("#")
        return bool(self._mark)


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(_TAB))
