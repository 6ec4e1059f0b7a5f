"""The Layout record: what one kind of memory store looks like, so that the pipeline need not know it. Pure.

A store has roots (one per user, or several at once). Below a root lie memory directories, each at a fixed number
of levels; a `Tree` says where. Everything below a memory directory belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Caps:
    """What a host puts before its model at most: lines, and UTF-16 code units."""

    lines: int
    units: int


@dataclass(frozen=True, slots=True)
class Root:
    """One place where a store of a layout may lie, and where that place was named."""

    layout: str
    path: str
    source: str
    """`default`, the name of an environment variable, `config`, or the settings file that names it."""


class RootsOf(Protocol):
    """How a layout finds its roots."""

    def __call__(
        self, env: Mapping[str, str], home: str, configured: Sequence[str], settings: object = None, /
    ) -> tuple[Root, ...]:
        """Give the roots, the host's own first, each once.

        `settings` is the parsed content of the layout's `settings_file`; None when there is none.
        """


@dataclass(frozen=True, slots=True)
class Tree:
    """Where memory directories lie below `base`: one test of a name per level.

    Without levels `base` is itself a memory directory. The directory at the last level is the memory directory;
    below it every directory is part of it.
    """

    layout: str
    base: str
    levels: tuple[Callable[[str], bool], ...]

    def directory_of(self, path: str, separator: str = "/") -> str | None:
        """Tell the memory directory that `path` is or lies in; None above or beside one.

        `path` is absolute, normalised, and in the system's own spelling.
        """
        if path == self.base:
            return self.base if not self.levels else None
        prefix = self.base if self.base.endswith(separator) else self.base + separator
        if not path.startswith(prefix):
            return None
        parts = path[len(prefix) :].split(separator)
        if len(parts) < len(self.levels):
            return None
        for test, part in zip(self.levels, parts, strict=False):
            if not test(part):
                return None
        return prefix + separator.join(parts[: len(self.levels)]) if self.levels else self.base

    def leads_to_directory(self, path: str, separator: str = "/") -> bool:
        """Tell whether the directory `path` is the base, on the way to memory directories, or in one."""
        if path == self.base:
            return True
        prefix = self.base if self.base.endswith(separator) else self.base + separator
        if not path.startswith(prefix):
            return False
        parts = path[len(prefix) :].split(separator)
        return all(test(part) for test, part in zip(self.levels, parts, strict=False))


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind of memory store."""

    name: str
    index_name: str | None
    """File name of the link index, None where the store has none."""
    ending: str
    """What a fact's file name ends in."""
    caps: Caps
    audited: bool
    """Whether the index and fact rules apply."""
    writable: bool
    variables: tuple[str, ...]
    """Environment variables that move its roots."""
    roots: RootsOf
    """(environment, home, roots from our configuration) → roots, the host's own first, each once."""
    tree: Callable[[str], Tree]
    """A root's path → where its memory directories lie."""
    directory: Callable[[str, str], str]
    """(a root's path, a working directory) → the memory directory that the host would make for it."""
    label: Callable[[str], str]
    """A memory directory's path → a short name for people."""
    settings_file: Callable[[str], str] | None = None
    """A home → the host's JSON settings file that may name one more root; None where there is no such file."""
