"""Settling: which paths of which directory may be believed by now. Time is an argument. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """A memory directory in which something is due.

    `paths` are absolute; `whole` asks for a look at the whole directory (it appeared, vanished, a subdirectory
    moved): the disk tells what became of it.
    """

    directory: str
    paths: frozenset[str] = frozenset()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Unsure:
    """Events may have been lost: everything below `base` (None: everywhere) is to be scanned."""

    reason: str
    """`overflow`, `watch-lost`, `base-added`, `base-removed`, `polling`."""
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Degraded:
    """A base is polled from now on, since the system refuses watches or they stay silent."""

    base: str
    reason: str
