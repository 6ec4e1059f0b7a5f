"""Watching trees through watchdog's observer: macOS, Windows, and whatever else it knows.
Door: the file system (stat), and watchdog's observer through observer.py.

Rule 1: every event means "this path is dirty"; kinds are ignored, since FSEvents melts them together and
ReadDirectoryChangesW leaves some out. So no event is final, and every path waits its quiet time.
Rule 2: one recursive watch per base; what leads to the base is watched not recursively: the nearest directory
above it that exists.
Rule 3: paths are told in the base's own spelling, whatever the system makes of them (`/private/var`, decomposed
letters).
"""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from dataclasses import dataclass

from zcsyncd.layouts.layout import Tree
from zcsyncd.opening import full_names
from zcsyncd.watching.observer import OVERFLOW, Observing, Seen
from zcsyncd.watching.reports import Names, Reports, TreeState

_SHORT_NAME = "~"
"""Stands in the names that Windows may tell in place of long ones, when whoever wrote used them: `MEMOR~1.MD`."""

Identity = tuple[int, int]
"""Device and inode."""


@dataclass(slots=True, eq=False)
class _Branch:
    """One tree while it is watched."""

    tree: Tree
    real: str
    """Where the base really lies."""
    base: Identity | None = None
    distrusted: bool = False
    """Something became of the base, so its watch was given up; whether it still is there is to be told."""
    parent: tuple[str, Identity] | None = None
    last_event_at: float | None = None


class Portable:
    """All trees that are watched through one watchdog observer."""

    def __init__(self, reports: Reports, names: Names, loop: AbstractEventLoop) -> None:
        self._reports = reports
        self._names = names
        self._branches: dict[Tree, _Branch] = {}
        self._observing = Observing(loop, self._on_seen)
        self._observing.start()

    def add(self, tree: Tree, *, tell: bool) -> None:
        """Watch a tree; with `tell`, report its base as added when it is there."""
        branch = self._branches[tree] = _Branch(tree, os.path.realpath(tree.base))
        self._look(branch, tell=tell)

    def remove(self, tree: Tree) -> None:
        """Watch a tree no longer, and tell nothing."""
        branch = self._branches.pop(tree, None)
        if branch is not None:
            self._drop_base(branch)
            self._drop_parent(branch)

    def __contains__(self, tree: object) -> bool:
        return tree in self._branches

    def look_again(self, base: str | None = None) -> Iterator[None]:
        """See whether the bases (this one) are still the same directories, and watch them anew where not."""
        for branch in list(self._branches.values()):
            if base is None or branch.tree.base == base:
                self._look(branch, tell=True)
                yield

    def states(self) -> list[TreeState]:
        """Tell how each tree is watched."""
        return [
            TreeState(
                branch.tree.layout,
                branch.tree.base,
                "observer",
                (branch.base is not None) + (branch.parent is not None),
                branch.last_event_at,
                None,
            )
            for branch in self._branches.values()
        ]

    def is_alive(self) -> bool:
        """Tell whether watchdog's thread runs."""
        return self._observing.is_alive()

    def close(self) -> None:
        """End watchdog's threads; this blocks for a moment."""
        self._observing.stop()

    def _on_seen(self, seen: list[Seen]) -> None:
        now = time.time()
        looks: dict[int, _Branch] = {}
        for watched, recursive, path, is_directory, word in dict.fromkeys(seen):
            if word == OVERFLOW:
                self._reports.overflowed()
                continue
            for branch in list(self._branches.values()):
                if recursive and watched == branch.tree.base:
                    branch.last_event_at = now
                    self._on_path(
                        branch, respell(path, branch.tree.base, branch.real), is_directory, word, looks
                    )
                elif not recursive and branch.parent is not None and watched == branch.parent[0]:
                    looks[id(branch)] = branch
                    if respell(path, branch.tree.base, branch.real) == branch.tree.base:
                        self._distrust(branch, word)
        for branch in looks.values():
            if branch.tree in self._branches:
                self._look(branch, tell=True)
        self._reports.all_told()

    def _on_path(
        self, branch: _Branch, path: str, is_directory: bool, word: str, looks: dict[int, _Branch]
    ) -> None:
        tree = branch.tree
        if sys.platform == "win32" and _SHORT_NAME in path[len(tree.base) :]:
            spelled = full_names(path)
            if spelled is None:
                # Of what is gone nobody knows the long name.
                self._reports.unsure("short-name", tree.base)
                return
            # What lies below the base keeps its depth; above it, the base's own spelling counts.
            depth = path.count(os.sep, len(tree.base.rstrip(os.sep)))
            path = os.sep.join((tree.base.rstrip(os.sep), *spelled.split(os.sep)[-depth:]))
        if path == tree.base:
            looks[id(branch)] = branch
            self._distrust(branch, word)
            return
        directory = tree.directory_of(path, os.sep)
        if directory is None:
            # What was made or moved here may have brought memory directories along, untold.
            if tree.leads_to_directory(path, os.sep) and word != "modified":
                self._reports.unsure("directories", tree.base)
        elif is_directory or path == directory:
            if word != "modified":  # each change of a file modifies its directory too
                self._reports.whole(directory)
        elif self._names.ending(os.path.basename(path)):
            self._reports.touched(directory, path)
        elif self._names.beside(os.path.basename(path)):
            if word != "modified":
                self._reports.touched(directory, path)
        elif word in ("deleted", "moved"):
            # A removed directory may be told as a file (Windows): its name says nothing.
            self._reports.whole(directory)

    def _distrust(self, branch: _Branch, word: str) -> None:
        # Made again at once it may have the old inode; the watch is on the old directory all the same.
        if word != "modified":
            branch.distrusted = branch.distrusted or branch.base is not None
            self._drop_base(branch)

    def _look(self, branch: _Branch, *, tell: bool) -> None:
        """Bring the watches of a base in line with the disk: the way to it first, so that no coming is missed."""
        try:
            self._look_at_parent(branch)
            self._look_at_base(branch, tell=tell)
        except OSError as error:
            self.remove(branch.tree)
            self._reports.refused(branch.tree.base, f"the system gives no watch ({error.strerror or error})")

    def _look_at_parent(self, branch: _Branch) -> None:
        for _ in range(len(branch.tree.base)):
            parent = _nearest(branch.tree.base)
            if parent is None or parent == branch.parent:
                return
            self._drop_parent(branch)
            self._observing.watch(parent[0], recursive=False)
            branch.parent = parent  # and once more: what lies nearer may have been made meanwhile

    def _look_at_base(self, branch: _Branch, *, tell: bool) -> None:
        tree, before = branch.tree, branch.base
        distrusted, branch.distrusted = branch.distrusted, False
        now = _identity(tree.base)
        if now == before and not distrusted:
            return
        self._drop_base(branch)
        if now is not None:
            branch.real = os.path.realpath(tree.base)
            self._observing.watch(tree.base, recursive=True)
            branch.base = now
        if tell:
            self._reports.unsure("base-removed" if now is None else "base-added", tree.base)

    def _drop_base(self, branch: _Branch) -> None:
        if branch.base is not None:
            branch.base = None
            self._observing.unwatch(branch.tree.base, recursive=True)

    def _drop_parent(self, branch: _Branch) -> None:
        if branch.parent is not None:
            path, branch.parent = branch.parent[0], None
            self._observing.unwatch(path, recursive=False)


def respell(path: str, base: str, real: str, separator: str = os.sep) -> str:
    """Give `path` as the base spells it: the system may tell it below the real path, or with other letters.

    Decomposed and composed letters are the same name on macOS; a path that does not lie below either is left alone.
    """
    for spelling in (base, real):
        for form in (path, unicodedata.normalize("NFC", path)):
            below = spelling if form is path else unicodedata.normalize("NFC", spelling)
            if form == below:
                return base
            if form.startswith(below.rstrip(separator) + separator):
                return base.rstrip(separator) + separator + form[len(below.rstrip(separator)) + 1 :]
    return path


def _identity(path: str) -> Identity | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino) if os.path.isdir(path) else None


def _nearest(base: str) -> tuple[str, Identity] | None:
    path = os.path.dirname(base)
    while True:
        identity = _identity(path)
        if identity is not None:
            return path, identity
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above
