"""Whose a directory is: which may be watched at once, which only after a person allowed it, which never. Pure.

Rule 1: a person's own settings may name any directory of theirs; a file that comes with a project may not.
Rule 2: symlinks are resolved before anything is judged; the caller brings the real paths.
Rule 3: what holds a home, an agent's directory or a file system is never a memory directory, whoever names it.
The rule is told in docs/protocol.md, "Own and asked directories".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from zcsyncd.layouts.nodepath import HERE, Platform, separator

NamedBy = Literal["root", "config", "user-setting", "project-file", "client"]
"""Who named it: a layout under a known root, our configuration, a host's per-user settings, a file of the project
(`.pi/zcode-memory.json`), or a client in its `hello`."""

Kind = Literal["own", "asked", "never"]


@dataclass(frozen=True, slots=True)
class Ownness:
    """What may be done with a directory, and why."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the judgement needs of this person's machine; every path is real: absolute, symlinks resolved."""

    roots: tuple[str, ...]
    """Every known root of every layout."""
    homes: tuple[str, ...]
    agent_dirs: tuple[str, ...]
    """The agents' own directories (`~/.zcode`, `~/.pi/agent`, …), which hold more than memory."""
    uid: int | None = None
    """The person; None where the system has no such number."""


def judge(
    directory: str,
    real: str,
    *,
    named_by: NamedBy,
    around: Surroundings,
    project: str | None = None,
    owner: int | None = None,
    in_place: bool = False,
    platform: Platform = HERE,
) -> Ownness:
    """Judge one directory.

    `directory` is as it was named, `real` with symlinks resolved. `project` is the real path of the project whose
    file names it. `owner` is the directory's owner; None when it does not exist yet or the system has none. `in_place`:
    a layout finds or computes a memory directory just there. A place above several memory directories is nobody's own
    by a client's word, or whoever names it would have them all.
    """
    why = never(directory, real, around=around, owner=owner, platform=platform)
    if why is not None:
        return Ownness("never", why)
    if named_by == "root":
        return Ownness("own", "found under a known root")
    if named_by == "config":
        return Ownness("own", "named in the configuration")
    if named_by == "user-setting":
        return Ownness("own", "named in a host's settings of this person")
    if in_place and any(_lies_in(real, root, platform) for root in around.roots):
        return Ownness("own", "is a memory directory of its layout under a known root")
    if named_by == "project-file":
        if (
            project is not None
            and _is_a_project(project, around, platform)
            and _lies_in(real, project, platform)
        ):
            return Ownness("own", "lies inside the project that names it")
        return Ownness("asked", "a project's file names a directory outside of the project")
    return Ownness("asked", "a client names a directory that no root and no setting of this person knows")


def never(
    directory: str,
    real: str,
    *,
    around: Surroundings,
    owner: int | None = None,
    platform: Platform = HERE,
) -> str | None:
    """Tell why a directory can never be a memory directory, also when a person allows it; None when it can."""
    for path in dict.fromkeys((directory, real)):
        if _is_top(path, platform):
            return f"{path} is the root of a file system"
        for what, places in (
            ("the home directory", around.homes),
            ("an agent's directory", around.agent_dirs),
            ("a memory root", around.roots),
        ):
            held = _first_held(path, places, platform)
            if held is not None:
                verb = "is" if _key(held, platform) == _key(path, platform) else "holds"
                return f"{path} {verb} {what}" + ("" if verb == "is" else f" {held}")
    if owner is not None and around.uid is not None and owner != around.uid:
        return f"{real} belongs to another owner (uid {owner}, not {around.uid})"
    return None


def _is_a_project(project: str, around: Surroundings, platform: Platform) -> bool:
    # In a home or above one everything of the person would be "inside the project".
    return not _is_top(project, platform) and _first_held(project, around.homes, platform) is None


def _first_held(path: str, places: Iterable[str], platform: Platform) -> str | None:
    """Find the first of the places that is `path` or lies in it."""
    for place in places:
        if _key(place, platform) == _key(path, platform) or _lies_in(place, path, platform):
            return place
    return None


def _key(path: str, platform: Platform) -> str:
    sign = separator(platform)
    return (path.lower() if platform == "win32" else path).rstrip(sign) + sign


def _lies_in(path: str, outer: str, platform: Platform) -> bool:
    """Tell whether `path` lies in `outer`, strictly."""
    inner_key, outer_key = _key(path, platform), _key(outer, platform)
    return inner_key != outer_key and inner_key.startswith(outer_key)


def _is_top(path: str, platform: Platform) -> bool:
    if platform == "posix":
        return path.rstrip("/") == ""
    # A drive (`C:\`) or a share (`\\host\share\`).
    bare = path.rstrip("\\/")
    return len(bare) <= 2 or (bare.startswith("\\\\") and bare.count("\\") <= 3)
