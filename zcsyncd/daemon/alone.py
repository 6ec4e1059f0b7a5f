"""One request answered without a running daemon: a short one, without socket and watch, for the control command; and
what the daemon remembers of a directory, for the command to read.

Rule 1: the same lock, history, journal and rules as the running daemon's; what is written here its subscribers hear of
when they come back.
"""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from zcsyncd.bus.requests import check_params
from zcsyncd.bus.server import Call
from zcsyncd.daemon.app import Daemon, opened
from zcsyncd.daemon.database import opened_to_read, recalled, stored
from zcsyncd.daemon.handlers import Handlers
from zcsyncd.daemon.history import MOST_HASHES
from zcsyncd.memory.disk import is_there
from zcsyncd.memory.past import Past, end, follow, past_from
from zcsyncd.places import state_dir

if TYPE_CHECKING:
    import sqlite3

    from zcsyncd.bus.server import Link
    from zcsyncd.memory.snapshot import Snapshot


_WRITING = frozenset(
    {"memory.write", "memory.forget", "memory.repair", "history.restore", "history.undo", "history.purge"}
)


class _Nobody:
    """The connection of somebody who has no connection: reaches everything, has no session."""

    number = 0
    session = None


def answer_alone(env: Mapping[str, str], method: str, params: Mapping[str, object]) -> dict[str, object]:
    """Answer a request about memory or history as the daemon of this environment would.

    Raises:
        AlreadyRunning: a daemon runs; it is to be asked.
        ZcsyncdError: what the daemon would say is wrong with the request.
    """
    checked = check_params(method, params)

    async def answer(daemon: Daemon) -> dict[str, object]:
        daemon.sweep()
        await daemon.look_once(checked)
        if method == "memory.search":
            await daemon.keeping.finish()
        try:
            answer = await Handlers(daemon).answer(Call(method, checked, cast("Link", _Nobody())))
            if method in _WRITING:
                # What comes after us may destroy what nobody watches: it is saved now.
                await daemon.keeping.finish()
            return answer
        finally:
            await daemon.pipeline.stop()
            daemon.database.close()

    with opened(env, logs=False) as make:

        async def main() -> dict[str, object]:
            return await answer(make())

        return asyncio.run(main())


def past_alone(
    env: Mapping[str, str], directory: str, snapshot: Snapshot, index: bytes | None
) -> tuple[Past, frozenset[str]]:
    """Give what a directory has lost, as the daemon would tell it after a look, and the keys that are dismissed.

    That is what the database of this environment remembers, and what became of it since. Nothing is written.
    `snapshot`: the directory as it is; `index`: the bytes of its index, where it has one.

    Raises: Unreadable, when the database cannot be read.
    """
    with opened_to_read(os.path.join(state_dir(env), "state.db")) as connection:
        if connection is None:
            return Past(), frozenset()
        places = dict.fromkeys([os.path.abspath(directory), os.path.realpath(directory)])
        found = (recalled(connection, place) for place in places)
        known = next((one for one in found if one is not None), None)
        if known is None or known.snapshot.layout != snapshot.layout:
            return Past(), frozenset()
        place, now_ms = known.snapshot.directory, time.time_ns() // 1_000_000
        present = snapshot.index.content_hash if snapshot.index else None
        past = follow(
            past_from(known.past) if known.past else Past(),
            known.snapshot,
            snapshot,
            at_ms=now_ms if known.gone_ms is None else known.gone_ms,
            files=None,
            ours=False,
            bytes_of=lambda digest: index if digest == present else _saved(connection, digest),
            former_indexes=lambda: _former_indexes(connection, place, snapshot),
            still_there=lambda file: is_there(directory, file),
        )
        dismissed = frozenset(key for (key,) in connection.execute("select key from dismissed"))
    return end(past, snapshot, now_ms=now_ms, dismissed=dismissed), dismissed


def _saved(connection: sqlite3.Connection, digest: str) -> bytes | None:
    row = connection.execute("select data from contents where hash = ?", (digest,)).fetchone()
    try:
        return zlib.decompress(row[0]) if row else None
    except zlib.error:
        return None


def _former_indexes(connection: sqlite3.Connection, directory: str, snapshot: Snapshot) -> list[str]:
    rows = connection.execute(
        "select hash from versions where dir = ? and file = ? and at_ms is not null and hash is not null"
        " order by at_ms desc, saved desc limit ?",
        (stored(directory), snapshot.index.file if snapshot.index else "", MOST_HASHES),
    )
    return [digest for (digest,) in rows]
