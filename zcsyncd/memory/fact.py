"""A fact file: bytes to front matter, meaning and remarks, as ZCode reads them. Pure.

Rule 1: nothing here raises for content. What cannot be parsed is a fact without a description, plus a remark.
Rule 2: a fact's own remarks are computed once, here; what needs its neighbours is the audit's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileStat:
    """What stat says of a file: the key by which a scan knows that nothing changed."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A defect that one file shows by itself; the audit turns it into a finding.

    `target` tells several remarks of one code apart in a finding's key (an entry's target, a hash of a line).
    """

    code: str
    message: str
    line: int | None = None
    hint: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact file at one moment. Bodies are not kept, only what they hash to."""

    file: str
    """Path relative to the memory directory, with `/`."""
    stat: FileStat
    read_at_ns: int
    """When it was read (wall clock): a file that was younger than 2 s then is hashed again."""
    content_hash: str | None
    """SHA-256 of the raw bytes, hex. None: it could not be read."""
    encoding: str | None
    """`utf-8`, `utf-16le`, `gbk`; None: ZCode cannot decode it either."""
    name: str | None
    description: str | None
    type: str | None
    """One of the four types, as ZCode accepts it; else None."""
    malformed: bool
    """There is no front matter that ZCode can read."""
    meaning_hash: str | None
    """Hash over name, description, type and body: equal means that only stamps or layout differ."""
    links: tuple[str, ...]
    """`[[name]]` links of the body, in order, each once."""
    references: tuple[str, ...]
    """Targets of `[](…)` links, resolved against the fact's folder, relative to the memory directory, each once."""
    symlink: bool
    listed: bool
    """ZCode's recall would list it (a binary or undecodable file vanishes there)."""
    remarks: tuple[Remark, ...]
