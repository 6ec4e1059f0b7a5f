"""Which directory a verb is about: the named one, else that of the working directory. Door: the bus, the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zcsyncd.cli import offline
from zcsyncd.cli.console import Console, here
from zcsyncd.errors import NoDaemon, NotFound
from zcsyncd.layouts.registry import LAYOUTS

if TYPE_CHECKING:
    from zcsyncd.cli.asking import Daemon


def directory_of(named: str | None, daemon: Daemon, console: Console) -> str:
    """Give the directory that a verb is about: the named one, else that of the working directory.

    Raises:
        NotFound: the working directory has no memory yet.
    """
    if named is not None:
        return os.path.abspath(named)
    cwd = here()
    try:
        answer = daemon.ask("dirs.resolve", {"cwd": cwd})
    except NoDaemon:
        return offline.directory_for(cwd, console.env)
    if not isinstance(answer.get("dir"), str):
        raise offline.no_memory(cwd, str(answer.get("computedDir")))
    return str(answer["dir"])


def place_of(named: str | None, daemon: Daemon, console: Console) -> dict[str, object]:
    """Give `dir` for a first fact's place, too: where the working directory has no memory yet, give `cwd` instead.

    Who writes with `cwd` makes the directory.
    """
    try:
        return {"dir": directory_of(named, daemon, console)}
    except NotFound:
        return {"cwd": here()}


def label_of(directory: object) -> str:
    """Give a directory's short name by the layout whose rules give it one; others are called by their last part."""
    if not isinstance(directory, str):
        return ""
    return LAYOUTS[0].label(directory)
