"""Watching trees through inotify: which directories have a watch, and what their events mean.
Door: the file system (stat, listing), and inotify through observer.py.

Rule 1: recursion is ours: add the watch, then list, then tell. What was put into a directory before its watch
lived is found by the listing, what comes later gives an event.
Rule 2: the disk is the truth. An event about a directory only says "look at this name": whether it is still the
same one is told by the watch's number (the kernel gives the old one exactly as long as it is).
Rule 3: the way to a base is watched too, not recursively: every directory above it that we could change, and the
nearest that exists. So a base that is missing, removed and made again, or moved away is noticed.
Rule 4: one directory may be reached on several paths (links, overlapping trees); its events are told for each.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.observer import Kernel, KernelEvent
from zcsyncd.watching.reports import Names, Reports, TreeState

# inotify(7)
MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, UNMOUNT = 0x400, 0x800, 0x2000
ONLYDIR, DONT_FOLLOW, EXCL_UNLINK, MASK_ADD, ISDIR = 0x1000000, 0x2000000, 0x4000000, 0x20000000, 0x40000000

_SELF = DELETE_SELF | MOVE_SELF | UNMOUNT
_ENTRY = MOVED_FROM | MOVED_TO | CREATE | DELETE | ATTRIB
ABOVE = _ENTRY | DELETE_SELF | MOVE_SELF | ONLYDIR | EXCL_UNLINK | MASK_ADD
"""On the way to memory directories only entries count, not what is written there (hosts write logs beside)."""
INSIDE = ABOVE | MODIFY | CLOSE_WRITE

MOST_HALVES = 64
"""Renames whose second half has not come: it follows at once, or never."""

MOST_TRIES = 32
"""Times that the way to a base is gone again because something was made meanwhile: deeper than paths are."""

_NO_WATCH = -1
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NO_ROOM = frozenset({errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class _NoRoom(Exception):
    """The system has no watch left for this tree."""


@dataclass(slots=True, eq=False)
class _Node:
    """A directory of a tree, or the place where its base should be."""

    branch: _Branch
    path: str
    level: int
    """How many of the tree's levels lie above its entries."""
    directory: str | None
    """The memory directory that it is or lies in; None: it is on the way to some."""
    parent: _Node | None
    wd: int = _NO_WATCH
    state: str = "new"
    """`new`, `live`, `blind` (there, but not to be read), `missing` (so waits a base, or a link's target)."""
    children: dict[str, _Node] = field(default_factory=dict)
    steps: dict[tuple[str, str], _Step] = field(default_factory=dict)
    gone: bool = False

    @property
    def inner(self) -> bool:
        """Tell whether it lies below a memory directory, where links are not followed."""
        return self.directory is not None and self.directory != self.path

    @property
    def awaited(self) -> bool:
        """Tell whether its place is kept while nothing is there: it may come back without its parent's telling."""
        return self.parent is None or (not self.inner and os.path.islink(self.path))


@dataclass(slots=True, eq=False)
class _Step:
    """A directory on the way to a base or behind a link: which of its entries leads on."""

    node: _Node
    path: str
    name: str
    wd: int = _NO_WATCH


@dataclass(slots=True, eq=False)
class _Branch:
    """One tree while it is watched."""

    tree: Tree
    root: _Node = field(init=False)
    watches: int = 0
    last_event_at: float | None = None

    def __post_init__(self) -> None:
        directory = self.tree.base if not self.tree.levels else None
        self.root = _Node(self, self.tree.base, 0, directory, None)


class Inotify:
    """All trees that are watched through one inotify instance.

    Raises: OSError, when there is no instance to be had.
    """

    def __init__(self, reports: Reports, names: Names) -> None:
        self._reports = reports
        self._names = names
        self._branches: dict[Tree, _Branch] = {}
        self._bound: dict[int, list[_Node | _Step]] = {}
        self._halves: dict[int, tuple[str, str]] = {}
        self._canary_wd = _NO_WATCH
        self._closing = False
        self._now: float | None = None
        self.canary_seen: set[str] = set()
        """Names of canaries whose events have come; the caller takes them out."""
        self.kernel = Kernel(self)

    # -- trees

    def add(self, tree: Tree, *, tell: bool) -> None:
        """Watch a tree; with `tell`, report its base as added when it is there."""
        branch = self._branches[tree] = _Branch(tree)
        for _ in self._walk(branch.root, tell=tell):
            pass

    def remove(self, tree: Tree) -> None:
        """Watch a tree no longer, and tell nothing."""
        branch = self._branches.pop(tree, None)
        if branch is not None:
            self._forget(branch.root)

    def __contains__(self, tree: object) -> bool:
        return tree in self._branches

    def look_again(self, base: str | None = None) -> Iterator[None]:
        """Walk all trees (those of `base`), add watches anew and report what turns out to be another directory.

        Iterate to go on; one step is one directory.
        """
        for branch in list(self._branches.values()):
            if base is None or branch.tree.base == base:
                yield from self._walk(branch.root, tell=True)

    def has_told(self, directory: str) -> bool:
        """Tell whether an event ever came from the tree that a directory lies in: some file systems are silent."""
        return any(
            branch.last_event_at is not None
            and (directory == branch.tree.base or directory.startswith(branch.tree.base + os.sep))
            for branch in self._branches.values()
        )

    def states(self) -> list[TreeState]:
        """Tell how each tree is watched."""
        return [
            TreeState(
                branch.tree.layout, branch.tree.base, "inotify", branch.watches, branch.last_event_at, None
            )
            for branch in self._branches.values()
        ]

    def watch_canary(self, directory: str) -> None:
        """Watch the private directory in which canaries are put.

        Raises: OSError.
        """
        self._canary_wd = self.kernel.add(directory, CREATE | ONLYDIR | MASK_ADD)

    def drain(self) -> None:
        """Take what the kernel has queued, for a slice of time."""
        self._now = None
        self.kernel.drain()
        self._reports.all_told()

    def close(self) -> None:
        """End all watches."""
        self._closing = True
        self.kernel.close()

    # -- events, called by the kernel reader

    def on_event(self, event: KernelEvent) -> None:
        """Take an event about a watched directory itself, or about a directory in it."""
        self.on_entry(event.wd, event.mask, event.cookie, event.name)

    def on_entry(self, wd: int, mask: int, cookie: int, raw_name: bytes) -> None:
        """Take an event; an empty name stands for the watched directory itself."""
        name = os.fsdecode(raw_name)
        if wd == self._canary_wd:
            self.canary_seen.add(name)
        for role in tuple(self._bound.get(wd, ())):
            if isinstance(role, _Step):
                if mask & _SELF or name == role.name:
                    self._look(role.node)
            elif not role.gone:
                self._stamp(role.branch)
                if not name:
                    self._on_self(role, mask)
                elif role.directory is None:
                    if mask & _ENTRY and role.branch.tree.levels[role.level](name):
                        self._look_at_entry(role, name, mask)
                elif mask & ISDIR:
                    self._on_directory(role, role.directory, mask, name)
                else:
                    self._on_file(role, role.directory, mask, cookie, name)

    def on_watch_deleted(self, wd: int) -> None:
        """Learn that the kernel has dropped a watch."""
        self.kernel.forget(wd)
        if self._closing:
            return
        if wd == self._canary_wd:
            self._canary_wd = _NO_WATCH
        for role in self._bound.pop(wd, ()):
            role.wd = _NO_WATCH
            node = role.node if isinstance(role, _Step) else role
            if role is node:
                node.branch.watches -= 1
            self._look(node)

    def on_queue_overflow(self) -> None:
        """Learn that events were lost."""
        self._halves.clear()
        self._reports.overflowed()

    def _on_self(self, node: _Node, mask: int) -> None:
        if mask & _SELF:
            self._look(node)
        elif mask & ATTRIB and node.directory is not None:
            self._reports.whole(node.directory)

    def _on_directory(self, node: _Node, directory: str, mask: int, name: str) -> None:
        if mask & _ENTRY:
            self._look_at_entry(node, name, mask)
            self._reports.whole(directory)

    def _on_file(self, node: _Node, directory: str, mask: int, cookie: int, name: str) -> None:
        if not self._names.ending(name):
            if mask & (_ENTRY & ~ATTRIB) and self._names.beside(name):
                self._reports.touched(directory, node.path + os.sep + name)
            return
        path = node.path + os.sep + name
        if mask & (CLOSE_WRITE | MOVED_TO):
            if mask & MOVED_TO:
                self._second_half(directory, cookie)
            self._reports.touched(directory, path, final=True)
        elif mask & MOVED_FROM:
            self._first_half(directory, path, cookie)
            self._reports.touched(directory, path)
        elif mask & (MODIFY | CREATE | DELETE):
            self._reports.touched(directory, path)
        elif mask & ATTRIB:
            self._reports.touched(directory, path, weak=True)

    def _first_half(self, directory: str, path: str, cookie: int) -> None:
        while len(self._halves) >= MOST_HALVES:
            del self._halves[next(iter(self._halves))]
        self._halves[cookie] = directory, path

    def _second_half(self, directory: str, cookie: int) -> None:
        # A file that moved to another name that counts has been renamed: no editor's dance, both ends are final,
        # and being due together they are told as one rename. Where the other name is nobody's fact (`x.md~`),
        # this is not reached, and the first half waits for what the editor writes in its place.
        half = self._halves.get(cookie)
        if half is not None and half[0] == directory:
            self._reports.touched(directory, half[1], final=True)
            del self._halves[cookie]

    def _stamp(self, branch: _Branch) -> None:
        if self._now is None:
            self._now = time.time()
        branch.last_event_at = self._now

    # -- directories

    def _look(self, node: _Node) -> None:
        for _ in self._walk(node, tell=True):
            pass

    def _look_at_entry(self, node: _Node, name: str, mask: int) -> None:
        child = node.children.get(name)
        if child is None:
            path = os.path.join(node.path, name)
            above = node.directory is None
            if not _is_directory(path, follow=above) and not (above and os.path.islink(path)):
                if above and mask & ISDIR and mask & (DELETE | MOVED_FROM):
                    self._passed_by(node, path)
                return
            child = self._new(node, name)
        self._look(child)

    def _passed_by(self, node: _Node, path: str) -> None:
        # It came and went before its first event was read, but a scan may have seen it in between.
        if node.level + 1 == len(node.branch.tree.levels):
            self._reports.whole(path)
        else:
            self._reports.unsure("directories", node.branch.tree.base)

    def _walk(self, top: _Node, *, tell: bool) -> Iterator[None]:
        """Bring a node and all below it in line with the disk; what is new or gone is told when `tell`."""
        stack = [(top, tell)]
        try:
            while stack:
                node, told = stack.pop()
                if node.gone:
                    continue
                stack += self._visit(node, tell=told)
                yield
        except _NoRoom as full:
            self.remove(top.branch.tree)
            self._reports.refused(top.branch.tree.base, str(full))

    def _visit(self, node: _Node, *, tell: bool) -> list[tuple[_Node, bool]]:
        if not node.inner:
            self._approach(node)
        before, same = node.state, self._attach(node)
        if node.state == "missing":
            self._vanish(node, tell=tell and before in ("live", "blind"))
            return []
        if not same and tell:
            tell = self._appear(node, again=before == node.state == "live")
        names = _directories(node.path, follow=node.directory is None) if node.state == "live" else set()
        if node.directory is None:
            test = node.branch.tree.levels[node.level]
            names = {name for name in names if test(name)}
        names.update(node.children)
        return [
            (node.children.get(name) or self._new(node, name), tell) for name in sorted(names, reverse=True)
        ]

    def _new(self, parent: _Node, name: str) -> _Node:
        path = os.path.join(parent.path, name)
        level = min(parent.level + 1, len(parent.branch.tree.levels))
        directory = parent.directory
        if directory is None and level == len(parent.branch.tree.levels):
            directory = path
        child = parent.children[name] = _Node(parent.branch, path, level, directory, parent)
        return child

    def _attach(self, node: _Node) -> bool:
        """Put the node's watch where its path leads now, and tell whether it is what it was before."""
        mask = ABOVE if node.directory is None else INSIDE
        before, blind = node.wd, node.state == "blind"
        try:
            wd = self._watch(node.path, mask | (DONT_FOLLOW if node.inner else 0))
        except OSError as error:
            self._unbind(node)
            node.state = "missing" if error.errno in _MISSING else "blind"
            return blind and node.state == "blind"
        if wd != before:
            self._unbind(node)
            self._bind(wd, node)
        node.state = "live"
        return wd == before

    def _appear(self, node: _Node, *, again: bool) -> bool:
        """Tell of a new directory (in place of another one: `again`).

        Gives whether those below are to be told each for itself.
        """
        if node.directory is not None:
            self._reports.whole(node.directory, lost=again and node.directory == node.path)
        elif node.parent is None:
            if again:
                self._reports.unsure("base-removed", node.path)
            self._reports.unsure("base-added", node.path)
            return False
        return True

    def _vanish(self, node: _Node, *, tell: bool) -> None:
        awaited = node.awaited
        gone = self._forget(node, awaited=awaited)
        if not awaited and node.parent is not None:
            node.parent.children.pop(os.path.basename(node.path), None)
        if not tell:
            return
        if node.parent is None and node.directory is None:
            self._reports.unsure("base-removed", node.path)
            return
        paths = {each.path for each in gone}
        for directory in {each.directory for each in gone if each.directory is not None}:
            self._reports.whole(directory, lost=directory in paths)

    def _forget(self, top: _Node, *, awaited: bool = False) -> list[_Node]:
        """Give up the watches of a node and of all below it; the way to an `awaited` one is watched on."""
        found = [top]
        for node in found:
            found += node.children.values()
            node.children = {}
            self._unbind(node)
            if node is top and awaited:
                continue
            node.gone = True
            for step in node.steps.values():
                self._unbind(step)
            node.steps = {}
        return found

    # -- the way to a base, and to where a link points

    def _approach(self, node: _Node) -> None:
        """Watch the directories whose entries lead to `node`, so that its coming and going is noticed."""
        ways = [node.path] if node.parent is None else []
        if node.parent is None or os.path.islink(node.path):
            real = os.path.realpath(node.path)
            if real not in ways:
                ways.append(real)
        found: set[tuple[str, str]] = set()
        for way in ways:
            for _ in range(MOST_TRIES):
                last = self._approach_on(node, way, found)
                # A directory that was made while we went up has told nobody: go again.
                if last is None or last == way or not os.access(last, os.R_OK):
                    break
        for key in [key for key in node.steps if key not in found]:
            self._unbind(node.steps.pop(key))

    def _approach_on(self, node: _Node, way: str, found: set[tuple[str, str]]) -> str | None:
        """Watch one way; gives the nearest place on it that was missing, or the way's own end."""
        nearest = None
        for path, name, wd in self._way(way):
            step = node.steps.setdefault((path, name), _Step(node, path, name))
            if step.wd != wd:
                self._unbind(step)
                self._bind(wd, step)
            found.add((path, name))
            nearest = nearest or os.path.join(path, name)
        return nearest

    def _way(self, way: str) -> Iterator[tuple[str, str, int]]:
        found, path = False, way
        while True:
            parent, name = os.path.split(path)
            if parent == path:
                return
            # What we cannot write into, nobody of ours renames; the nearest existing one is needed in any case.
            if found and not os.access(parent, os.W_OK):
                return
            try:
                wd = self._watch(parent, ABOVE)
            except OSError:
                pass  # missing, or not ours to read: the next one above tells when that changes
            else:
                found = True
                yield parent, name, wd
            path = parent

    # -- watches

    def _watch(self, path: str, mask: int) -> int:
        try:
            return self.kernel.add(path, mask)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise _NoRoom(f"the system gives no more watches ({error.strerror})") from None
            raise

    def _bind(self, wd: int, role: _Node | _Step) -> None:
        role.wd = wd
        self._bound.setdefault(wd, []).append(role)
        if isinstance(role, _Node):
            role.branch.watches += 1

    def _unbind(self, role: _Node | _Step) -> None:
        wd, role.wd = role.wd, _NO_WATCH
        bound = self._bound.get(wd)
        if bound is None:
            return
        bound.remove(role)
        if isinstance(role, _Node):
            role.branch.watches -= 1
        if not bound:
            del self._bound[wd]
            self.kernel.drop(wd)


def _is_directory(path: str, *, follow: bool) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path, follow_symlinks=follow).st_mode)
    except OSError:
        return False


def _directories(path: str, *, follow: bool) -> set[str]:
    try:
        with os.scandir(path) as entries:
            return {entry.name for entry in entries if _leads_on(entry, follow=follow)}
    except OSError:
        return set()  # it vanished or was closed to us meanwhile: an event of its own tells that


def _leads_on(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) or (follow and entry.is_symlink())
    except OSError:
        return False
