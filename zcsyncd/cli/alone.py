"""A request to the daemon, or where there is none, done here by the same rules. Door: the bus, the daemon's package.

Rule 1: directly only when nobody listens at the address. A daemon that listens and gives no answer may be doing what
was asked; done twice it would be wrong. One whose first scan still runs will be ready soon.
Rule 2: the daemon's package is imported when it is needed, and here only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zcsyncd.bus.requests import check_params
from zcsyncd.errors import NoDaemon
from zcsyncd.memory.past import Past
from zcsyncd.places import state_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zcsyncd.cli.asking import Daemon
    from zcsyncd.memory.snapshot import Snapshot

ACTS = frozenset(
    {"memory.write", "memory.forget", "memory.repair", "history.restore", "history.undo", "history.purge"}
)
"""Requests that change something."""


def ask_or_do(daemon: Daemon, method: str, params: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Ask the daemon, or do it without one. Give the answer, and a note when it was done directly.

    Raises:
        NoDaemon: one listens but did not answer; whether it did what was asked is not known.
        ZcsyncdError: what is wrong with the request.
    """
    try:
        return daemon.ask(method, params), ""
    except NoDaemon as error:
        if not daemon.is_absent:
            if method in ACTS:
                error.hint = (
                    "whether it was done is not known: `zcsyncd history list` tells what was replaced"
                )
            raise
        note = f"done directly: {error.message}"
    from zcsyncd.daemon.alone import answer_alone

    return answer_alone(daemon.env, method, check_params(method, params)), note


def past_of(
    env: Mapping[str, str], directory: str, snapshot: Snapshot, index: bytes | None
) -> tuple[Past, frozenset[str]]:
    """Give what a directory has lost by what the daemon remembers of it, and the keys of dismissed findings.

    `index`: the bytes of its index. Raises: Unreadable, when there is a database and it cannot be read.
    """
    if not os.path.exists(os.path.join(state_dir(env), "state.db")):
        return Past(), frozenset()
    from zcsyncd.daemon.alone import past_alone

    return past_alone(env, directory, snapshot, index)
