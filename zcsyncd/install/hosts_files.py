"""A host's settings file, edited: what was there is kept beside it, and the new one is renamed into place. Door: files.

Rule 1: what the person had before our first entry is kept as `<file>.before-zcsyncd`. Taking our entry out again gives
that very file back, if nothing else was changed meanwhile.
Rule 2: a symlink is followed: it is the person's own way to keep settings elsewhere, and stays.
Rule 3: a host may write while we do: what changed under us is read anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Literal

from zcsyncd.errors import Refused
from zcsyncd.install.files import put, read, take
from zcsyncd.install.hosts_json import parse

BACKUP = ".before-zcsyncd"
_TRIES = 5
_PRIVATE = 0o600
"""Settings may hold tokens: a file that we make is nobody else's to read."""

Value = dict[str, object]


def value_of(path: str) -> Value:
    """Give what a settings file holds; nothing for one that is not there.

    Raises: Refused.
    """
    return parse(path, read(path)).value


def edit(
    path: str, change: Callable[[Value, Value | None], Value], has_ours: Callable[[Value], bool]
) -> Literal["written", "updated", "unchanged", "removed"]:
    """Change a settings file; `change` gives the new value, or the old one where there is nothing to do.

    It is given the value that is there, and the one that was there before us; None where nobody knows.

    Raises: Refused, when it cannot be read as JSON, or cannot be written, or changes all the time.
    """
    real = os.path.realpath(path)
    for _ in range(_TRIES):
        content = read(real)
        document = parse(path, content)
        before = _before(path, real)
        made = change(document.value, before[1])
        if made == document.value:
            return "unchanged"
        text: bytes | None = document.text(made)
        if not has_ours(made):
            if before[1] is not None and _filled(before[1]) == _filled(made):
                text = before[0]
            elif not made and before[0] is None:
                text = None  # there was none before us
        if read(real) != content:
            continue
        if text is None:
            take(real)
            return "removed"
        if content is not None and (before[0] is None or not has_ours(document.value)):
            put(real + BACKUP, content, _mode(real))
        put(real, text, _mode(real))
        if text == before[0]:
            take(real + BACKUP)
        return "written" if content is None else "updated"
    raise Refused(f"{path} changes all the time: nothing was written", hint="end the host, then try again")


def _filled(value: object) -> object:
    """Give a value without its empty objects and lists: those that we emptied are taken out."""
    if not isinstance(value, dict):
        return value
    kept = {name: _filled(one) for name, one in value.items()}
    return {name: one for name, one in kept.items() if one not in ({}, [])}


def _before(path: str, real: str) -> tuple[bytes | None, Value | None]:
    """Give what was there before us, as bytes and as a value."""
    try:
        before = read(real + BACKUP)
        return before, None if before is None else parse(path, before).value
    except Refused:
        return None, None


def _mode(real: str) -> int:
    try:
        return stat.S_IMODE(os.stat(real).st_mode)
    except OSError:
        return _PRIVATE
