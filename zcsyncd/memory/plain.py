"""The plain index: headings, blank lines, and entries of the one form that we write. Nearly every index is. Pure.

What the reader (memory/entries.py) would say of such a page is known without asking it: no line hides another, none
tears another apart. So one entry more is put at its end, and read, at the cost of that entry. Both functions give
None for everything else; `memory.entry_lines.insert` and `memory.index.parse_index` say it then.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.entries import LONG_LINE_CHARS, Entry
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import Index, near_remarks
from zcsyncd.memory.injection import injected, shown, strip

MOST_BYTES = 64 * 1024

_TEXT = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\[\]()\\`<>|~]*"
_ENTRY = rf"- \[({_TEXT})\]\(((?!MEMORY\.md\))\w[\w-]*\.md)\)(?: — ({_TEXT}))?\n"
_LAST = re.compile(_ENTRY)
_LINE = _ENTRY.replace("(" + _TEXT + ")", _TEXT).replace(r"((?!", r"(?:(?!")
_PAGE = re.compile(rf"(?:\n|#{{1,6}} {_TEXT}\n|{_LINE})*{_LINE}")


def append(content: bytes, line: str) -> bytes | None:
    """Put an entry's line behind the last line of a plain index; None: the index, or the line, is not plain."""
    new = f"{line}\n"
    return content + new.encode() if _LAST.fullmatch(new) and _is_plain(content) else None


def grown(
    index: Index, content: bytes, longer: bytes, stat: FileStat, *, read_at_ns: int, caps: Caps
) -> Index | None:
    """Read `longer`, which is `content` and one entry more; `index` is what was read of `content`."""
    if index.remarks or index.truncated or not longer.startswith(content) or not _is_plain(content):
        return None
    if hashlib.sha256(content).hexdigest() != index.content_hash:
        return None
    line = longer[len(content) :].decode("utf-8", "replace")
    found = _LAST.fullmatch(line)
    if found is None or len(line) > LONG_LINE_CHARS:
        return None
    title, target, hook = found.groups("")
    text = longer.decode()
    stripped = strip(text)
    injection = injected(stripped.text, shown(stripped.text, caps), caps, "utf-8")
    known = any(entry.target == target for entry in index.entries)
    if known or injection.truncated or near_remarks(injection, caps):
        return None
    return replace(
        index,
        stat=stat,
        read_at_ns=read_at_ns,
        content_hash=hashlib.sha256(longer).hexdigest(),
        text_hash=injection.text_hash,
        lines=injection.lines,
        units=injection.units,
        entries=(*index.entries, Entry(target, title.strip(), hook.strip(), text.count("\n"))),
    )


def _is_plain(content: bytes) -> bool:
    if len(content) > MOST_BYTES:
        return False
    try:
        return _PAGE.fullmatch(content.decode()) is not None
    except UnicodeDecodeError:
        return False
