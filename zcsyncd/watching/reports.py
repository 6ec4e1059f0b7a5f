"""What a watcher of any kind reports to the stream: the one surface between them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Reports(Protocol):
    """Who takes what a watcher saw. Every call comes on the event loop."""

    def touched(self, directory: str, path: str, *, final: bool = False, weak: bool = False) -> None:
        """Tell an event of one path in a memory directory; see `Settler.touch`."""

    def whole(self, directory: str, *, lost: bool = False) -> None:
        """Tell that a memory directory, or a directory below it, appeared, moved, vanished or changed its mode.

        `lost`: the memory directory that was there is gone.
        """

    def unsure(self, reason: str, base: str | None) -> None:
        """Tell that everything below `base` is to be scanned."""

    def refused(self, base: str, reason: str) -> None:
        """Tell that the system gives no watches for `base`: somebody has to poll it."""

    def all_told(self) -> None:
        """Tell that this batch of events is over: what is due may go."""

    def overflowed(self) -> None:
        """Tell that events were lost, nobody knows where."""


@dataclass(frozen=True, slots=True)
class Names:
    """Which file names matter inside a memory directory."""

    ending: Callable[[str], bool]
    """Facts and the index: their content matters."""
    beside: Callable[[str], bool]
    """Locks and temporary files: only that they are there matters, and nothing of theirs is ever in a hurry."""


@dataclass(frozen=True, slots=True)
class TreeState:
    """How one tree is watched at the moment."""

    layout: str
    base: str
    kind: str
    """`inotify`, `observer` or `polling`."""
    watches: int
    last_event_at: float | None
    """Seconds since the epoch; None: this tree has never given an event."""
    reason: str | None
    """Why it is polled; None: it is watched."""
