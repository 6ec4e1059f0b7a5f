"""Forgetting: what age, number and room ask to drop, and what a person wants gone for good. For threads.

Everything here opens a connection of its own and works in short transactions: the loop's own commits wait for the
same lock.

Rule 1: age and room take former versions, the oldest first; only when what the files have now is more than the room by
itself does that go as well.
Rule 2: a purge leaves no bytes: deleted rows are overwritten (`secure_delete`), the index of words is written anew, the
write-ahead log is cut to nothing, and the journal keeps which file changed, not what was said of it. Saved versions of
the index stay, without the file's entries.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from glob import escape, glob
from typing import TYPE_CHECKING, Any

from zcsyncd.daemon.database import connect, from_stored, stored, transaction
from zcsyncd.errors import Refused, ZcsyncdError
from zcsyncd.memory.entry_lines import remove

if TYPE_CHECKING:
    import sqlite3

STEP = 200
"""Versions that are dropped in one transaction."""
MERGE_PAGES = 64
"""Pages of the index of words that are written anew in one transaction."""
WAIT_S = 5.0
"""How long a purge waits for readers to let go of the write-ahead log."""

_ORPHANS = "delete from contents where hash not in (select hash from versions where hash is not null)"
_TAKEN = "select coalesce(sum(length(data)), 0) from contents"


@dataclass(frozen=True, slots=True)
class Tidied:
    """What is left after tidying."""

    stored_bytes: int
    is_full: bool
    """What the files have now needs all the room there is."""


def tidy(path: str, *, most_bytes: int, oldest_ms: int) -> Tidied:
    """Drop former versions before `oldest_ms`, then the oldest until the contents fit into `most_bytes`."""
    with closing(connect(path)) as connection:
        with transaction(connection):
            connection.execute("delete from versions where at_ms < ?", (oldest_ms,))
            connection.execute(_ORPHANS)
        taken = _fit(connection, most_bytes, "at_ms is not null", "at_ms, saved")
        is_full = taken > most_bytes
        if is_full:
            taken = _fit(connection, most_bytes, "at_ms is null", "saved")
        connection.execute("pragma wal_checkpoint(passive)").fetchall()
        return Tidied(taken, is_full)


def _fit(connection: sqlite3.Connection, most_bytes: int, which: str, order: str) -> int:
    """Drop versions until the contents fit; give what they take."""
    while (taken := int(connection.execute(_TAKEN).fetchone()[0])) > most_bytes:
        over = taken - most_bytes
        rows = connection.execute(
            "select v.saved, length(c.data) from versions v join contents c on c.hash = v.hash"
            f" where {which} order by {order} limit {STEP}"
        ).fetchall()
        if not rows:
            break
        dropped: list[tuple[int]] = []
        for saved, size in rows:
            dropped.append((saved,))
            over -= size
            if over <= 0:
                break
        with transaction(connection):
            connection.executemany("delete from versions where saved = ?", dropped)
            connection.execute(_ORPHANS)
    return taken


def purge(
    path: str,
    directory: str,
    file: str | None,
    *,
    before_ms: int | None,
    current: bool,
    index_name: str | None = None,
) -> int:
    """Remove saved versions of a directory, or of one file of it, for good; give how many.

    `before_ms`: only those that were replaced before. `current`: the file is gone, and what is saved as its present
    content goes too, with its words. `index_name`: the index's, whose saved versions have entries of the file.

    Raises: ZcsyncdError, when a reader holds the write-ahead log for too long; everything else is done then.
    """
    place = stored(directory)
    with closing(connect(path)) as connection:
        removed = 0
        for name in [None] if file is None else _former_names(connection, place, file):
            with transaction(connection):
                removed += _drop(connection, place, name, before_ms, current=current and name == file)
                if name is not None and index_name is not None and name != index_name:
                    _strike_entries(connection, place, index_name, name)
                connection.execute(_ORPHANS)
            _redact(connection, place, name, before_ms)
        _rewrite_words(connection)
        _cut_log(connection, path)
    for broken in glob(escape(path) + ".broken-*"):
        os.unlink(broken)  # a damaged database that was put aside may hold the very bytes
    return removed


def _drop(
    connection: sqlite3.Connection,
    directory: str | bytes,
    file: str | None,
    before_ms: int | None,
    *,
    current: bool,
) -> int:
    """Drop saved versions of one file (None: of all files), and with `current` its words; give how many."""
    where, place = "dir = ?", [directory]
    if file is not None:
        where, place = "dir = ? and file = ?", [directory, stored(file)]
    if before_ms is not None:
        return _delete(connection, f"versions where at_ms < ? and {where}", (before_ms, *place))
    removed = _delete(connection, f"versions where at_ms is not null and {where}", place)
    if current:
        removed += _delete(connection, f"versions where {where}", place)
        _delete(connection, f"search where rowid in (select id from searched where {where})", place)
        _delete(connection, f"searched where {where}", place)
    return removed


def _former_names(connection: sqlite3.Connection, directory: str | bytes, file: str) -> list[str]:
    """Name a file, and what it was called before it was renamed: under an old name lies the same text.

    A rename that settled in two halves is a deletion and a new file of the same bytes.
    """
    names = [stored(file)]
    for name in names:
        rows = connection.execute(
            "select distinct file from versions where dir = ? and reason in ('renamed', 'deleted') and hash in"
            " (select hash from versions where dir = ? and file = ?) and file not in"
            " (select file from versions where dir = ? and at_ms is null)",
            (directory, directory, name, directory),
        )
        names += [former for (former,) in rows if former not in names]
    return [from_stored(name) for name in names]


def _delete(connection: sqlite3.Connection, what: str, values: Sequence[Any]) -> int:
    return connection.execute(f"delete from {what}", tuple(values)).rowcount


def _strike_entries(
    connection: sqlite3.Connection, directory: str | bytes, index_name: str, file: str
) -> None:
    """Take a file's entries out of the saved versions of its index: their hooks say what the file said."""
    rows = connection.execute(
        "select distinct c.hash, c.data from contents c join versions v on v.hash = c.hash"
        " where v.dir = ? and v.file = ? and v.at_ms is not null",
        (directory, index_name),
    ).fetchall()
    for digest, data in rows:
        content = zlib.decompress(data)
        try:
            without = remove(content, file)
        except Refused:  # not UTF-8: our pen never wrote it, and it cannot be edited
            without = b"" if file.encode() in content else None
        if without is None:
            continue
        now = hashlib.sha256(without).hexdigest()
        connection.execute(
            "insert or ignore into contents (hash, data) values (?, ?)", (now, zlib.compress(without))
        )
        connection.execute(
            "update versions set hash = ?, size = ? where dir = ? and file = ? and hash = ? and at_ms is not null",
            (now, len(without), directory, index_name, digest),
        )


def _cut_log(connection: sqlite3.Connection, path: str) -> None:
    until = time.monotonic() + WAIT_S
    while connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]:
        if time.monotonic() > until:
            raise ZcsyncdError(
                f"{path}-wal is in use and may still hold what was purged",
                hint="end other programs that read it, then purge again",
            )
        time.sleep(0.01)


# -- the journal


def _redact(
    connection: sqlite3.Connection, directory: str | bytes, file: str | None, before_ms: int | None
) -> None:
    """Take out of a directory's events what they say of a file (None: of all files)."""
    upto = before_ms if before_ms is not None else 1 << 62
    needle = "" if file is None else json.dumps(file)[1:-1]
    after = 0
    while True:
        rows = connection.execute(
            "select seq, topic, data from events where dir = ? and time_ms < ? and seq > ? and instr(data, ?) > 0"
            " order by seq limit ?",
            (directory, upto, after, needle, STEP),
        ).fetchall()
        if not rows:
            return
        after = rows[-1][0]
        said = [(seq, topic, json.loads(text)) for seq, topic, text in rows]
        bare = [
            (json.dumps(data, separators=(",", ":")), seq)
            for seq, topic, data in said
            if _blank(topic, data, file)
        ]
        if bare:
            with transaction(connection):
                connection.executemany("update events set data = ? where seq = ?", bare)


def _rewrite_words(connection: sqlite3.Connection) -> None:
    """Merge the index of words until nothing of dropped rows is left in it, in steps."""
    if not connection.execute("select 1 from sqlite_master where name = 'search'").fetchone():
        return
    pages = -MERGE_PAGES  # negative: begin to merge everything
    while True:
        before = connection.total_changes
        with transaction(connection):
            connection.execute("insert into search (search, rank) values ('merge', ?)", (pages,))
        if connection.total_changes - before < 2:
            return
        pages = MERGE_PAGES


def _blank(topic: str, data: dict[str, Any], file: str | None) -> bool:
    """Blank what an event says of a file; tell whether it said anything."""
    blanked = False
    if topic == "memory/changed":
        for change in data["changes"]:
            if file is None or file in (change["file"], change.get("from")):
                for member in ("name", "description", "contentHash", "formerHash"):
                    blanked |= change.pop(member, None) is not None
    elif topic == "memory/index":
        for entry in (entry for kind in ("added", "removed", "changed") for entry in data[kind]):
            if file is None or entry["target"] == file:
                entry["title"] = entry["hook"] = ""
                blanked = True
    elif topic == "memory/audit":
        for finding in (finding for kind in ("appeared", "cleared") for finding in data[kind]):
            if file is None or file in (finding.get("file"), finding.get("target")):
                finding["message"] = "(purged)"
                blanked = finding.pop("hint", None) is not None or True
    elif topic == "read-state/read":
        # Whose file it is about is told by a path; its name is at the end of it.
        path = str(data.get("absolutePath", "")).replace("\\", "/")
        blanked = (file is None or path.endswith("/" + file)) and data.pop("contentHash", None) is not None
    elif topic == "read-state/stale":
        path = str(data.get("absolutePath", "")).replace("\\", "/")
        for member in ("read", "now") if file is None or path.endswith("/" + file) else ():
            if data.get(member) and data[member].get("contentHash") is not None:
                data[member]["contentHash"] = None
                blanked = True
    return blanked
