"""Our own things that stay when the service goes: where they lie, how large they are, their removal. Door: files.

Rule 1: only what we name ourselves is removed, and a directory only when nothing else is left in it: a variable may
have put it into somebody's documents.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zcsyncd.errors import Refused
from zcsyncd.install.files import drop_empty, size_of, take
from zcsyncd.places import CONFIG_VARIABLE, config_file, log_dir, runtime_dir, state_dir

_OURS = {
    "state": re.compile(
        r"state\.db(-wal|-shm|-journal)?|state\.db\.broken-[0-9a-f]+(-wal|-shm|-journal)?"
        r"|daemon\.lock|endpoint\.json(\..*)?|bus\.sock|canary/.*|hooks/.*|plugins/.*|log/zcsyncd\.log(\.\d+)?|log/service\.err"
    ),
    "log": re.compile(r"zcsyncd\.log(\.\d+)?|service\.err"),
    "runtime": re.compile(r"bus\.sock"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """One place of ours that is there."""

    what: str
    """`configuration`, `state`, `log` or `runtime`."""
    path: str
    size_bytes: int


def places(env: Mapping[str, str]) -> list[Place]:
    """List what is there, each place once."""
    named = [("configuration", config_file(env)), ("state", state_dir(env)), ("log", log_dir(env))]
    with contextlib.suppress(Refused):  # the system has none for us, so nothing of ours is there
        named.append(("runtime", runtime_dir(env)))
    found: list[Place] = []
    for what, path in named:
        size = size_of(path)
        # A log inside of the state directory is counted there.
        inside = any(path.startswith(other.path + os.sep) for other in found if other.what == "state")
        if size is not None and not inside:
            found.append(Place(what, path, size))
    return found


def purge(env: Mapping[str, str]) -> list[str]:
    """Remove all of it, and tell what was removed and what was left since it is not ours.

    Raises: Refused, when something cannot be removed.
    """
    said = []
    for place in places(env):
        if place.what == "configuration":
            take(place.path)
            if not env.get(CONFIG_VARIABLE):
                drop_empty(os.path.dirname(place.path))
        else:
            _empty(place.path, _OURS[place.what])
        left = sorted(_files(place.path)) if os.path.isdir(place.path) else []
        said.append(
            f"removed: {place.path}" if not left else f"left: {place.path} holds {left[0]}, which is not ours"
        )
    return said


def _empty(directory: str, ours: re.Pattern[str]) -> None:
    if os.path.islink(directory) or not os.path.isdir(directory):
        return
    for name in _files(directory):
        if ours.fullmatch(name.replace(os.sep, "/")):
            take(os.path.join(directory, name))
    below = [os.path.join(place, name) for place, names, _ in os.walk(directory) for name in names]
    drop_empty(*sorted(below, key=len, reverse=True), directory)


def _files(directory: str) -> Iterator[str]:
    """Give the files below a directory, relative to it."""
    for place, _, names in os.walk(directory):
        yield from (os.path.relpath(os.path.join(place, name), directory) for name in names)
