"""A memory directory at one moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index


@dataclass(frozen=True, slots=True)
class Stray:
    """Something in a memory directory that is neither fact nor index but that a rule speaks of.

    `kind` is one of
    `temp` (a writer's `<path>.tmp.<pid>.<12 hex>`), `lock` (`*.lock`), `special` (a FIFO, device or directory called
    `x.md`), `broken-link` (a symlink `x.md` to nothing), `symlinked-directory`, `unreadable-directory`,
    `directory` (any other directory below), `other-file` (any other name, for the rules on names and copies).
    """

    file: str
    kind: str
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Index, facts and strays of one directory; unchanged facts are shared with the snapshot before."""

    directory: str
    layout: str
    index: Index | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """By `file`."""
    strays: Mapping[str, Stray] = field(default_factory=dict)
    """By `file`."""
    folds_case: bool = False
    """The file system takes `A.md` and `a.md` for one file."""
