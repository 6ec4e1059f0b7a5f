"""Which memory directories there are: trees, what exists below them, and which paths are one directory. Door: os.

Directories are keyed by their path as it was found, no symlink resolved; (device, inode) only tells which of the paths
that exist now are one directory (docs/protocol.md, "Identity").
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zcsyncd.errors import Unreadable
from zcsyncd.layouts.layout import Tree
from zcsyncd.memory.disk import discover


@dataclass(slots=True)
class Grounds:
    """The trees that are watched, and the directories found below them."""

    trees: tuple[Tree, ...] = ()
    chief: dict[str, str] = field(default_factory=dict)
    """Every path of a directory that exists → the one by which it is kept."""
    generation: int = 0
    """Another number whenever `chief` is another: who remembers what was worked out from it looks here."""
    unlisted: set[str] = field(default_factory=set)
    """Bases below which not everything could be listed: what is missing there is not known to be gone."""

    def tree_of(self, directory: str) -> Tree | None:
        """Give the tree that a memory directory belongs to."""
        for tree in self.trees:
            if tree.directory_of(directory, os.sep) == directory:
                return tree
        return None

    def survey(self) -> None:
        """Look which directories exist now."""
        found: dict[str, None] = {}
        self.unlisted.clear()
        for tree in self.trees:
            try:
                found.update(dict.fromkeys(discover(tree)))
            except Unreadable:
                self.unlisted.add(tree.base)
                # What can be told of the directories known here still comes from looking at each.
                found.update({path: None for path in self.chief if tree.directory_of(path, os.sep) == path})
        self._set(chiefs(found))

    def note(self, directory: str) -> str:
        """Take in one path that may have appeared or vanished; give the path by which it is kept."""
        self._set(chiefs([*self.chief, *([] if directory in self.chief else [directory])]))
        return self.chief.get(directory, directory)

    def _set(self, chief: dict[str, str]) -> None:
        if chief != self.chief:
            self.chief = chief
            self.generation += 1

    def kept_as(self, path: str) -> str:
        """Give the path by which the directory at `path` is kept."""
        path = os.path.normpath(path)
        return self.chief.get(path, path)

    def place_of(self, path: str) -> tuple[str, str] | None:
        """Give the directory that a file's path lies in, as it is kept, and the file relative to it, with `/`.

        The path may go by an alias or through symlinks. None: it lies in none.
        """
        path = os.path.normpath(path)
        for spelled in (path, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))):
            place = spelled
            while (above := os.path.dirname(place)) != place:
                place = above
                if place in self.chief:
                    return self.chief[place], spelled[len(place) + 1 :].replace(os.sep, "/")
        return None

    def directories(self) -> list[str]:
        """List the directories that exist, each by the path by which it is kept."""
        return sorted(set(self.chief.values()))

    def aliases(self, directory: str) -> tuple[str, ...]:
        """List the other paths of a directory."""
        return tuple(
            sorted(path for path, chief in self.chief.items() if chief == directory and path != directory)
        )


def chiefs(paths: Iterable[str]) -> dict[str, str]:
    """Tell for each path that is a directory by which path it is kept: the one without a symlink, else the first."""
    same: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        same.setdefault((status.st_dev, status.st_ino), []).append(path)
    chief: dict[str, str] = {}
    for group in same.values():
        kept = (
            min(group, key=lambda path: (os.path.realpath(path) != path, path))
            if len(group) > 1
            else group[0]
        )
        chief.update(dict.fromkeys(group, kept))
    return chief


def translate(paths: Iterable[str], directory: str, chief: str) -> frozenset[str]:
    """Give paths that lie in `directory` as they are called below `chief`."""
    if directory == chief:
        return frozenset(paths)
    return frozenset(chief + path[len(directory) :] for path in paths)


def trees_for(bases: Mapping[str, Tree], extra: Sequence[Tree]) -> tuple[Tree, ...]:
    """Give all trees, each base once: a configured directory inside a root's tree is already watched there."""
    trees = dict(bases)
    for tree in extra:
        if not any(known.directory_of(tree.base, os.sep) == tree.base for known in trees.values()):
            trees.setdefault(tree.base, tree)
    return tuple(trees.values())
