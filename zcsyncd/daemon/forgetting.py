"""Forgetting: what age, number and room ask to drop, and what a person wants gone for good. For threads.

Everything here opens a connection of its own and works in short transactions: the loop's own commits wait for the
same lock.

Rule 1: age and room take former versions, the oldest first; only when what the files have now is more than the room by
itself does that go as well.
Rule 2: a purge leaves no bytes: deleted rows are overwritten (`secure_delete`), the index of words is written anew, the
write-ahead log is cut to nothing, and the journal keeps which file changed, not what was said of it. Saved versions of
the index stay, without the file's entries, those in comments and code fences included.
Rule 3: the last act of our own pen that loses a version cannot be taken back as a whole any more, and this is noted.
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
from zcsyncd.daemon.history import CUT, NO_FILE
from zcsyncd.errors import Refused, ZcsyncdError
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.entry_lines import drop_lines, remove
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import parse_index

if TYPE_CHECKING:
    import sqlite3

STEP = 200
"""Versions that are dropped in one transaction."""
MERGE_PAGES = 64
"""Pages of the index of words that are written anew in one transaction."""
WAIT_S = 5.0
"""How long a purge waits for readers to let go of the write-ahead log."""

_NO_STAT = FileStat(0, 0, 0, 0)
_NO_CAPS = Caps(0, 0)  # what is asked of an index here does not hang on them
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
        _drop_versions(connection, "v.at_ms < ?", (oldest_ms,))
        _drop_orphans(connection)
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
            "select v.saved, length(c.data), v.hash from versions v join contents c on c.hash = v.hash"
            f" where {which} order by {order} limit {STEP}"
        ).fetchall()
        if not rows:
            break
        dropped: list[tuple[int, str]] = []
        for saved, size, digest in rows:
            dropped.append((saved, digest))
            over -= size
            if over <= 0:
                break
        with transaction(connection):
            _note_broken(
                connection, f"v.saved in ({', '.join('?' * len(dropped))})", [row[0] for row in dropped]
            )
            connection.executemany("delete from versions where saved = ?", [row[:1] for row in dropped])
            _drop_contents(connection, [digest for _, digest in dropped])
    return taken


def _drop_contents(connection: sqlite3.Connection, hashes: Sequence[str]) -> None:
    """Drop those of some contents that are no file's any more."""
    connection.executemany(
        "delete from contents where hash = ? and not exists"
        " (select 1 from versions v where v.hash = contents.hash)",
        [(digest,) for digest in hashes],
    )


def _drop_orphans(connection: sqlite3.Connection) -> None:
    """Drop all contents that are no file's any more, in steps: those, too, that others left behind."""
    last = -1
    while True:
        with transaction(connection):
            rows = connection.execute(
                "select id from contents c where id > ? and not exists"
                f" (select 1 from versions v where v.hash = c.hash) order by id limit {STEP}",
                (last,),
            ).fetchall()
            connection.executemany("delete from contents where id = ?", rows)
        if len(rows) < STEP:
            return
        last = rows[-1][0]


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
            removed += _drop(connection, place, name, before_ms, current=current and name == file)
            if name is not None and index_name is not None and name != index_name:
                _strike_entries(connection, place, index_name, name)
            _redact(connection, place, name, before_ms)
        _drop_orphans(connection)
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
    where, place = "v.dir = ?", [directory]
    if file is not None:
        where, place = "v.dir = ? and v.file = ?", [directory, stored(file)]
        with transaction(connection):
            connection.execute(
                "update versions set became = '' where dir = ? and file = ? and became = ?",
                (directory, NO_FILE, stored(file)),
            )
    if before_ms is not None:
        return _drop_versions(connection, f"{where} and v.at_ms < ?", (*place, before_ms))
    everything = file is None  # with it goes whatever could be taken back
    former = f"{where} and v.at_ms is not null"
    removed = _drop_versions(connection, former, place, note=not everything)
    if current:
        removed += _drop_versions(connection, where, place, note=not everything)
        _drop_words(connection, where, place)
    return removed


def _drop_versions(
    connection: sqlite3.Connection, where: str, values: Sequence[Any], *, note: bool = True
) -> int:
    """Drop saved versions (`v`) in steps, and with `note` say which last act loses by it; give how many they were."""
    if note:
        with transaction(connection):
            _note_broken(connection, where, values)
    removed = 0
    while True:
        with transaction(connection):
            # What stands for no file is no version: it goes only where everything does, or with its time.
            rows = connection.execute(
                f"select v.saved, v.file, v.hash from versions v where {where} limit {STEP}", tuple(values)
            ).fetchall()
            connection.executemany("delete from versions where saved = ?", [(saved,) for saved, _, _ in rows])
            _drop_contents(connection, [digest for _, _, digest in rows if digest is not None])
        removed += len([file for _, file, _ in rows if file != NO_FILE])
        if len(rows) < STEP:
            return removed


def _drop_words(connection: sqlite3.Connection, where: str, values: Sequence[Any]) -> None:
    while True:
        with transaction(connection):
            rows = connection.execute(
                f"select v.id from searched v where {where} limit {STEP}", tuple(values)
            ).fetchall()
            connection.executemany("delete from search where rowid = ?", rows)
            connection.executemany("delete from searched where id = ?", rows)
        if len(rows) < STEP:
            return


def _note_broken(connection: sqlite3.Connection, where: str, values: Sequence[Any]) -> None:
    """Note of each directory whose last act replaced one of these versions that it is not taken back as a whole."""
    connection.execute(
        "insert into versions (dir, file, size, mtime_ns, at_ms, reason, batch)"
        " select distinct v.dir, ?, 0, 0, ?, 'purged', v.batch from versions v join"
        " (select dir, max(batch) as batch from versions where batch is not null group by dir) l"
        f" on l.dir = v.dir and l.batch = v.batch where {where} and v.file != ? and not exists"
        " (select 1 from versions n where n.dir = v.dir and n.file = ? and n.batch = v.batch)",
        (NO_FILE, time.time_ns() // 1_000_000, *values, NO_FILE, NO_FILE),
    )


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


def _strike_entries(
    connection: sqlite3.Connection, directory: str | bytes, index_name: str, file: str
) -> None:
    """Take a file's entries out of the saved versions of its index: their hooks say what the file said."""
    hashes = connection.execute(
        "select distinct hash from versions where dir = ? and file = ? and at_ms is not null and hash is not null",
        (directory, index_name),
    ).fetchall()
    for (digest,) in hashes:
        with transaction(connection):
            found = connection.execute("select data from contents where hash = ?", (digest,)).fetchone()
            without = _without(zlib.decompress(found[0]), index_name, file) if found else None
            if without is None:
                continue
            now = hashlib.sha256(without).hexdigest()
            connection.execute(
                "insert or ignore into contents (hash, data) values (?, ?)", (now, zlib.compress(without))
            )
            # An act that is taken back must not give the index these bytes: they are no state that it ever had.
            connection.execute(
                "update versions set hash = ?, size = ?, became = ?"
                " where dir = ? and file = ? and hash = ? and at_ms is not null",
                (now, len(without), CUT, directory, index_name, digest),
            )
            _drop_contents(connection, [digest])


def _without(content: bytes, index_name: str, file: str) -> bytes | None:
    """Give a saved index without a file's entries, hidden ones too; None: it has none."""
    try:
        cut = remove(content, file)
        left = content if cut is None else cut
        while numbers := _hidden_lines(left, index_name, file):
            left = drop_lines(left, numbers)
    except Refused:  # not UTF-8: our pen never wrote it, and it cannot be edited
        return b"" if file.encode() in content else None
    return None if left == content else left


def _hidden_lines(content: bytes, index_name: str, file: str) -> list[int]:
    """Give the lines of a file's entries that the model does not see."""
    index = parse_index(index_name, content, _NO_STAT, read_at_ns=0, caps=_NO_CAPS)
    return [entry.line for entry in index.entries if entry.hidden and entry.target == file]


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
