"""Watching trees by looking again and again, where the system gives no watches or they stay silent.
Door: the file system (stat, listing), one thread.

An own scan and not watchdog's: that one ends for good when its directory is removed, takes two threads a tree,
scans what lies beside the memory directories too, and does not compare ctimes.

Rule 1: the thread only lists and compares; what differs is told on the event loop. A mount that hangs hangs this
thread alone, and does not keep the process from ending.
Rule 2: the first pass over a tree tells nothing; it says that from now on differences will be told.
"""

from __future__ import annotations

import contextlib
import os
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.reports import Names

Key = tuple[int, ...]
"""mtime_ns, ctime_ns, size, inode of a file; the inode alone of a directory; empty for what cannot be looked at."""

STOP_S = 1.0
"""So long the end of a pass is waited for when leaving."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a tree looked like in one pass: memory directory → path → key. None: the base is missing."""

    directories: Mapping[str, Mapping[str, Key]] | None


@dataclass(frozen=True, slots=True)
class Drift:
    """How two pictures of a tree differ."""

    tree: Tree
    first: bool
    """The tree was pictured for the first time: nothing to tell."""
    paths: tuple[tuple[str, str], ...] = ()
    """(memory directory, path)."""
    whole: tuple[str, ...] = ()
    base: str | None = None
    """`base-added` or `base-removed`; None: neither."""


def take_picture(tree: Tree, names: Names) -> Picture:
    """Look at every file that counts below a tree's base, once."""
    if not os.path.isdir(tree.base):
        return Picture(None)
    return Picture({directory: dict(_files(directory, names)) for directory in _directories(tree)})


def compare(tree: Tree, before: Picture | None, after: Picture) -> Drift:
    """Tell what differs; `before` None: nothing is known yet."""
    if before is None:
        return Drift(tree, first=True)
    if before.directories is None or after.directories is None:
        if before.directories is after.directories:
            return Drift(tree, first=False)
        return Drift(tree, first=False, base="base-added" if before.directories is None else "base-removed")
    paths: list[tuple[str, str]] = []
    whole = set(before.directories) ^ set(after.directories)
    for directory, files in after.directories.items():
        former = before.directories.get(directory)
        if former is None or former == files:
            continue
        for path in former.keys() | files.keys():
            was, now = former.get(path), files.get(path)
            if was != now:
                paths.append((directory, path))
                if any(key is not None and len(key) < 4 for key in (was, now)):
                    whole.add(directory)
    return Drift(tree, first=False, paths=tuple(paths), whole=tuple(sorted(whole)))


class Poller:
    """Pictures its trees every `every_s` seconds, in one thread."""

    def __init__(
        self, loop: AbstractEventLoop, names: Names, every_s: float, on_drift: Callable[[Drift], None]
    ) -> None:
        self._loop = loop
        self._names = names
        self._every_s = every_s
        self._on_drift = on_drift
        self._trees: tuple[Tree, ...] = ()
        self._wake = threading.Event()
        self._ending = False
        self._thread: threading.Thread | None = None

    def add(self, tree: Tree) -> None:
        """Poll a tree from now on; its first pass begins at once."""
        self._trees = (*self._trees, tree)
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="zcsyncd-polling", daemon=True)
            self._thread.start()

    def remove(self, tree: Tree) -> None:
        """Poll a tree no longer."""
        self._trees = tuple(kept for kept in self._trees if kept != tree)

    def is_alive(self) -> bool:
        """Tell whether the thread runs, or is not needed."""
        return self._thread is None or self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; this blocks until its pass is over, `STOP_S` at most."""
        self._ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        pictures: dict[Tree, Picture] = {}
        while not self._ending:
            trees = self._trees
            pictures = {tree: picture for tree, picture in pictures.items() if tree in trees}
            for tree in trees:
                after = take_picture(tree, self._names)
                drift = compare(tree, pictures.get(tree), after)
                pictures[tree] = after
                if self._ending:
                    return
                if drift.first or drift.paths or drift.whole or drift.base:
                    with contextlib.suppress(RuntimeError):  # the loop was closed under us
                        self._loop.call_soon_threadsafe(self._on_drift, drift)
            self._wake.wait(self._every_s)
            self._wake.clear()


def _directories(tree: Tree) -> Iterator[str]:
    found = [tree.base]
    for test in tree.levels:
        found = [path for above in found for path in _led_on(above, test)]
    yield from found


def _led_on(above: str, test: Callable[[str], bool]) -> list[str]:
    try:
        with os.scandir(above) as entries:
            return [entry.path for entry in entries if test(entry.name) and _is_dir(entry, follow=True)]
    except OSError:
        return []


def _files(directory: str, names: Names) -> Iterator[tuple[str, Key]]:
    below = [directory]
    for path in below:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if _is_dir(entry, follow=False):
                        below.append(entry.path)
                        yield entry.path, (entry.inode(),)
                    elif names.ending(entry.name) or names.beside(entry.name):
                        yield entry.path, _key(entry)
        except OSError:
            yield path, ()


def _is_dir(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _key(entry: os.DirEntry[str]) -> Key:
    # os.stat, not entry.stat: on Windows the listing's own times lag behind while a file is open.
    for follow in (True, False):
        try:
            seen = os.stat(entry.path, follow_symlinks=follow)
        except OSError:
            continue
        return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino
    return (0, 0, 0, 0)
