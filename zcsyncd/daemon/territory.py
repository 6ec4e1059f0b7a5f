"""Whose memory is where: roots, named directories, what was allowed, and which directory a working directory has.
Door: os, and the settings files of hosts.

It answers three questions. Which trees are to be watched? Which directory belongs to this working directory? May this
session touch that directory? (docs/protocol.md, "Own and asked directories", "Scope".)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zcsyncd.config import Settings
from zcsyncd.daemon.grounds import Grounds, trees_for
from zcsyncd.layouts.layout import Layout, Root, Tree
from zcsyncd.layouts.own import NamedBy, Ownness, Surroundings, judge
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.layouts.resolve import Resolution, resolve
from zcsyncd.layouts.zcode import NAME as ZCODE_NAME
from zcsyncd.places import CONFIG_VARIABLE, home
from zcsyncd.settings import known_roots, pi_memory_dir

AGENT_DIRECTORIES = (".zcode", ".zcode/cli", ".pi", ".pi/agent", ".omp", ".omp/agent", ".claude", ".dsh")

MOST_CWDS = 10_000
"""Working directories that are learned."""
MOST_TOLD = 200
"""Directories asked for, and complaints, that are kept for `status`: any client can make more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A directory that somebody named and nobody allowed yet."""

    directory: str
    reason: str


@dataclass(slots=True)
class Territory:
    """What is known of roots and named directories; `refresh` looks again."""

    env: Mapping[str, str]
    settings: Settings
    grounds: Grounds
    allowed: set[str]
    cwds: set[str]
    roots: tuple[Root, ...] = ()
    asked: dict[str, Asked] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    """Directories of their own that settings name: directory → layout."""
    _by_directory: dict[str, list[str]] = field(default_factory=dict)
    _about_pi: dict[str | None, tuple[str, ...]] = field(default_factory=dict)
    """What is wrong with pi's settings for a working directory (None: for all), as they were read last."""
    _by_project: set[str] = field(default_factory=set)
    """Directories inside a project that the project's own file names, as far as sessions have led to them."""

    def layouts(self) -> Mapping[str, Layout]:
        """Give the layouts by name."""
        return {layout.name: layout for layout in LAYOUTS}

    def refresh(self) -> tuple[Tree, ...]:
        """Look up the roots and named directories anew; give all trees to watch."""
        known = known_roots(self.env, self.settings)
        self.roots = known.roots
        self.complaints[:] = known.complaints
        named_config = self.env.get(CONFIG_VARIABLE)
        if named_config and not os.path.exists(named_config):
            self._complain(
                f"{CONFIG_VARIABLE} names {named_config}, which is not there: all settings are at their defaults"
            )
        by_name = self.layouts()
        bases = {(tree := by_name[root.layout].tree(root.path)).base: tree for root in self.roots}
        self.grounds.trees = tuple(bases.values())  # what roots cover need not be watched by name
        self.named.clear()
        for named in self.settings.dirs:
            self._take_named(named.dir, named.layout or ZCODE_NAME, "config")
        self._take_pi(None)
        for directory in sorted(self.allowed | self._by_project):
            self._take_named(directory, ZCODE_NAME, "config")
        self.grounds.trees = trees_for(bases, [Tree(layout, path, ()) for path, layout in self.named.items()])
        self._by_directory = self._match(self.known_cwds())
        return self.grounds.trees

    def known_cwds(self) -> set[str]:
        """Give all working directories that are known."""
        return self.cwds | set(self.settings.zcode_cwds)

    def all_complaints(self) -> list[str]:
        """Give what is wrong in settings, each once."""
        about_pi = [complaint for complaints in self._about_pi.values() for complaint in complaints]
        return list(dict.fromkeys([*self.complaints, *about_pi]))[:MOST_TOLD]

    # -- whose

    def judge(self, directory: str, named_by: NamedBy, project: str | None = None) -> Ownness:
        """Tell whether a directory is own, asked for, or never to be kept."""
        real = os.path.realpath
        for path in (directory, real(directory)):
            if self._is_above(path):
                return Ownness("never", f"{path} holds the memory directories of several projects")
        person = home(self.env)
        agents = [os.path.join(person, name) for name in AGENT_DIRECTORIES]
        around = Surroundings(
            roots=tuple(dict.fromkeys(real(root.path) for root in self.roots)),
            homes=tuple(dict.fromkeys((person, real(person)))),
            agent_dirs=tuple(dict.fromkeys(real(path) for path in agents)),
            uid=os.getuid() if hasattr(os, "getuid") else None,
        )
        try:
            owner: int | None = os.stat(directory).st_uid
        except OSError:
            owner = None
        return judge(
            directory,
            real(directory),
            named_by=named_by,
            around=around,
            project=real(project) if project else None,
            owner=owner if around.uid is not None else None,
            in_place=self._covered(directory) or self._covered(real(directory)),
        )

    def _is_above(self, directory: str) -> bool:
        """Tell whether a place lies above, or on the way to, where a layout puts memory directories."""
        for tree in self.grounds.trees:
            if tree.levels and tree.directory_of(directory, os.sep) is None:
                prefix = directory.rstrip(os.sep) + os.sep
                if (tree.base + os.sep).startswith(prefix) or directory.startswith(tree.base + os.sep):
                    return True
        return False

    def _covered(self, directory: str) -> bool:
        """Tell whether a layout puts a memory directory there, not just a person's word."""
        tree = self.grounds.tree_of(directory)
        return tree is not None and bool(tree.levels)

    def _take_named(self, directory: str, layout: str, named_by: NamedBy, project: str | None = None) -> bool:
        """Take in a directory that somebody names; True when it is ours to watch (from now on)."""
        if directory in self.named:
            return True
        ownness = self.judge(directory, named_by, project)
        if ownness.kind == "own" or (ownness.kind == "asked" and directory in self.allowed):
            self.asked.pop(directory, None)
            if named_by == "project-file" and ownness.kind == "own":
                self._by_project.add(directory)
            if self.grounds.tree_of(directory) is None:
                self.named[directory] = layout
            return True
        if ownness.kind == "asked":
            if len(self.asked) < MOST_TOLD:
                self.asked[directory] = Asked(directory, ownness.reason)
        else:
            self._complain(f"{directory} is never watched: {ownness.reason}")
        return False

    def _complain(self, complaint: str) -> None:
        if complaint not in self.complaints and len(self.complaints) < MOST_TOLD:
            self.complaints.append(complaint)

    def _take_pi(self, cwd: str | None) -> str | None:
        """Take in what pi's zcode-memory.json names for a working directory; give it, None when it names none."""
        directory, named_by, complaints = pi_memory_dir(self.env, cwd or home(self.env))
        if cwd is None and named_by != "user":
            return None
        if complaints and (cwd in self._about_pi or len(self._about_pi) < MOST_TOLD):
            self._about_pi[cwd] = complaints
        elif not complaints:
            self._about_pi.pop(cwd, None)
        if directory is None:
            return None
        by: NamedBy = "user-setting" if named_by == "user" else "project-file"
        if self._take_named(directory, ZCODE_NAME, by, project=cwd) or directory in self.asked:
            return directory
        return None  # never to be kept: the working directory has what it would have without that file

    # -- which

    def resolve(self, cwd: str) -> Resolution:
        """Find the memory directory of a working directory; what its settings name is taken in on the way."""
        configured = self._take_pi(cwd)
        zcode = [root for root in self.roots if root.layout == ZCODE_NAME]
        found = resolve(cwd, configured=configured, roots=zcode, existing=self.grounds.chief)
        if configured is not None and configured in self.asked:
            warning = f"{configured} is not watched until `zcsyncd dirs --allow {configured}`"
            found = Resolution(
                found.dir, found.computed_dir, found.source, found.others, (*found.warnings, warning)
            )
        if found.dir is None or found.dir not in self.grounds.chief:
            return found
        chief = self.grounds.chief[found.dir]
        return Resolution(chief, found.computed_dir, found.source, found.others, found.warnings)

    def new_trees(self) -> bool:
        """Tell whether directories were named that no tree covers yet."""
        return any(self.grounds.tree_of(directory) is None for directory in self.named)

    def session_directories(self, cwd: str, dirs: Iterable[str]) -> frozenset[str]:
        """Give the directories that a session may reach, as they are kept."""
        resolution = self.resolve(cwd)
        # The computed one too, existing or not: the session hears of its coming and going.
        wanted = [resolution.dir or resolution.computed_dir, *resolution.others]
        named = [os.path.normpath(path) for path in dirs]
        wanted += [path for path in named if self._take_named(path, ZCODE_NAME, "client")]
        return frozenset(self.grounds.chief.get(path, path) for path in wanted if path not in self.asked)

    def learn(self, cwd: str) -> bool:
        """Remember a working directory; True when it was not known."""
        if cwd in self.cwds or len(self.cwds) >= MOST_CWDS:
            return False
        self.cwds.add(cwd)
        for directory, cwds in self._match([cwd]).items():
            self._by_directory.setdefault(directory, []).extend(cwds)
        return True

    def cwds_of(self, directory: str) -> list[str]:
        """List the known working directories that a directory was made for."""
        paths = (directory, *self.grounds.aliases(directory))
        return sorted({cwd for path in paths for cwd in self._by_directory.get(path, ())})

    def _match(self, cwds: Iterable[str]) -> dict[str, list[str]]:
        by_name = self.layouts()
        matched: dict[str, list[str]] = {}
        for cwd in cwds:
            if os.path.isabs(cwd):
                for root in self.roots:
                    matched.setdefault(by_name[root.layout].directory(root.path, cwd), []).append(cwd)
        return matched
