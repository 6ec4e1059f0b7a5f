"""The index MEMORY.md: bytes to the text that the model gets, and to entries. Pure.

Rule 1: the text that is injected is ZCode's to the byte (tests/vectors/index_injection.json).
Rule 2: entries are read tolerantly; a line that is not ours is never judged as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from zcsyncd.memory.fact import FileStat, Remark


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
