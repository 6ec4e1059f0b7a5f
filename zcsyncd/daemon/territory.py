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
from zcsyncd.settings import PI_FILE, known_roots, pi_memory_dir

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


@dataclass(frozen=True, slots=True)
class Claim:
    """By whose word a directory that no root covers is kept."""

    layout: str
    named_by: NamedBy
    project: str | None = None
    """The working directory whose project's file names it."""

    @property
    def personal(self) -> bool:
        """Whether the person named it, and not a project or a client."""
        return self.named_by in ("config", "user-setting")


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
    named: dict[str, Claim] = field(default_factory=dict)
    """Directories that no root covers and that are kept by somebody's word."""
    generation: int = 0
    """Another number whenever a session's directories may be others."""
    _by_directory: dict[str, list[str]] = field(default_factory=dict)
    _about_pi: dict[str | None, tuple[str, ...]] = field(default_factory=dict)
    """What is wrong with pi's settings for a working directory (None: for all), as they were read last."""
    _stale: bool = False
    _configured: dict[str, str | None] = field(default_factory=dict)
    """What pi's settings named for a working directory when they were read last."""

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
            self._claim(named.dir, Claim(named.layout or ZCODE_NAME, "config"))
        for directory in sorted(self.allowed):
            self._claim(directory, Claim(ZCODE_NAME, "config"))
        self._take_pi(None)
        for cwd in sorted(self.known_cwds()):
            if os.path.exists(os.path.join(cwd, ".pi", PI_FILE)):
                self._take_pi(cwd)
        trees = [Tree(claim.layout, path, ()) for path, claim in self.named.items()]
        self.grounds.trees = trees_for(bases, trees)
        self._stale = False
        self.generation += 1
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

    def _claim(self, directory: str, claim: Claim) -> bool:
        """Judge a directory that somebody names, each time anew; True when it is ours to watch (from now on)."""
        known = self.named.get(directory)
        if known is not None and known.personal:
            return True
        ownness = self.judge(directory, claim.named_by, claim.project)
        if ownness.kind == "own" or (ownness.kind == "asked" and directory in self.allowed):
            self.asked.pop(directory, None)
            if known is None and not self._covered(directory):
                self.named[directory] = claim
                self.generation += 1
            return True
        if known == claim:
            # It was own, and a symlink leads elsewhere by now: no longer.
            del self.named[directory]
            self.generation += 1
        if ownness.kind == "asked":
            if len(self.asked) < MOST_TOLD:
                self.asked[directory] = Asked(directory, ownness.reason)
        else:
            self._complain(f"{directory} is never watched: {ownness.reason}")
        return False

    def still_ours(self, directory: str) -> bool:
        """Judge a kept directory again before it is looked at: what a name leads to may have changed."""
        if self._covered(directory):
            return True
        claim = self.named.get(directory)
        if claim is None:
            return False
        kind = self.judge(directory, claim.named_by, claim.project).kind
        return kind == "own" or (kind == "asked" and directory in self.allowed)

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
        if cwd is not None and self._configured.get(cwd, directory) != directory:
            self._stale = True  # what was named before may be nobody's now
            self.generation += 1
        if cwd is not None and (cwd in self._configured or len(self._configured) < MOST_CWDS):
            self._configured[cwd] = directory
        if directory is None:
            return None
        by: NamedBy = "user-setting" if named_by == "user" else "project-file"
        claim = Claim(ZCODE_NAME, by, None if named_by == "user" else cwd)
        if self._claim(directory, claim) or directory in self.asked:
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
        """Tell whether other directories are named than are watched."""
        watched = {tree.base for tree in self.grounds.trees if not tree.levels}
        return (
            self._stale
            or not watched <= self.named.keys()
            or any(self.grounds.tree_of(directory) is None for directory in self.named)
        )

    def session_directories(self, cwd: str, dirs: Iterable[str]) -> frozenset[str]:
        """Give the directories that a session may reach, as they are kept."""
        resolution = self.resolve(cwd)
        # The computed one too, existing or not: the session hears of its coming and going.
        wanted = [resolution.dir or resolution.computed_dir, *resolution.others]
        named = [os.path.normpath(path) for path in dirs]
        wanted += [path for path in named if self._claim(path, Claim(ZCODE_NAME, "client"))]
        return frozenset(self.grounds.chief.get(path, path) for path in wanted if self._is_ours(path))

    def _is_ours(self, path: str) -> bool:
        return path in self.named or self._covered(path) or path in self.grounds.chief.values()

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
