"""What the files of a memory directory were: saved versions, by content, compressed, in the daemon's database.

Rule 1: what a file has now is saved while it is there, so that whatever pen comes next, the bytes before are had back.
A version is *current* (`at_ms` null) as long as the file has it, and *former* from the moment of the change on.
Rule 2: bytes are saved once, under their hash; a file's former versions are of different bytes each.
Rule 3: age and number remove former versions only (daemon.forgetting).
Rule 4: an act of our own pen has a number, its batch: all that it replaced is taken back together. A file that it
made has an absent version before it: no hash, no bytes.
Rule 5: the last act is taken back as a whole or not at all. Where what it replaced was not saved, or is saved no
more, a row without a file says so (`BrokenAct`).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zcsyncd.daemon.database import Database, Transaction, from_stored, stored, whole_number
from zcsyncd.errors import ZcsyncdError

MOST_HASHES = 20
"""Former versions of an index that are compared with what came of it."""
CUT = ""
"""What a version became whose bytes a purge has edited: nothing that anybody ever saw."""
NO_FILE = ""
"""The file of a row that stands for an act which cannot be taken back."""
_COLUMNS = "saved, dir, file, hash, size, mtime_ns, host, session, at_ms, reason, batch, became"
_FORMER = "dir = ? and file = ? and at_ms is not null"
_CURRENT = "dir = ? and file = ? and at_ms is null"

By = tuple[str, str]
"""Host and id of the session that wrote."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file's content and the time that the file had with it."""

    hash: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a file is not what it was."""

    reason: str
    """`updated`, `file`, `deleted`, `renamed` (another pen); `write`, `forget`, `repair`, `restore` (ours)."""
    at_ms: int
    by: By | None = None
    batch: int | None = None
    """The number of our own act; None: another pen."""


@dataclass(frozen=True, slots=True)
class BrokenAct:
    """The last act of our own pen on a directory, where not all that it replaced is saved."""

    reason: str
    """What it was: `write`, `forget`, `repair`, `restore`; `purged`: what it replaced is saved no more."""
    at_ms: int
    unkept: tuple[str, ...]
    """Files that it wrote while the history was switched off; empty: it was on."""


@dataclass(frozen=True, slots=True)
class Version:
    """One saved version of one file."""

    saved: int
    directory: str
    file: str
    hash: str | None
    """None: there was no such file."""
    size: int
    mtime_ns: int
    by: By | None
    """Who wrote this content, where that is known."""
    at_ms: int | None
    """When the file ceased to be this; None: it is what the file has now."""
    reason: str | None
    batch: int | None
    became: str | None
    """The hash of what replaced it; None: nothing."""

    def to_wire(self) -> dict[str, object]:
        """Give a row of `history.list`."""
        from zcsyncd.memory.answers import time_text
        from zcsyncd.memory.revision import mtime_ms

        row: dict[str, object] = {
            "saved": self.saved,
            "file": self.file,
            "at": time_text(self.at_ms or 0),
            "sizeBytes": self.size,
            "contentHash": self.hash,
            "reason": self.reason,
            "mtimeMs": mtime_ms(self.mtime_ns),
        }
        if self.by is not None:
            row["by"] = {"host": self.by[0], "id": self.by[1]}
        if self.batch is not None:
            row["batch"] = self.batch
        return row


class History:
    """Adds to transactions what is to be saved, and finds it again."""

    def __init__(self, database: Database, *, enabled: bool, most_versions: int) -> None:
        self.enabled = enabled
        self.stored_bytes = int(database.query("select coalesce(sum(length(data)), 0) from contents")[0][0])
        """What the contents take at the most: equal bytes that came again are counted twice until the next tidying."""
        self._database = database
        self.most_versions = most_versions
        self._batch = int(database.query("select coalesce(max(batch), 0) from versions")[0][0])
        self._last: dict[object, int] = {}
        """The number of our last act, by directory, as far as it was asked for."""
        self._pending: dict[str, bytes] = {}
        """Contents in transactions that are not committed yet."""

    # -- saving

    def begin_batch(self) -> int:
        """Give the number of a new act of our own pen."""
        self._batch += 1
        return self._batch

    def replaced(
        self,
        work: Transaction,
        directory: str,
        file: str,
        *,
        was: Held | None,
        now: Held | None,
        content: bytes | None,
        cause: Cause,
    ) -> bool:
        """Save that a file is not what it was; False when the bytes that it has now are still to be saved.

        `was`, `now`: None where there is no such file, or none that can be read. `content`: the bytes of `now`; None:
        they are not at hand.
        """
        if not self.enabled:
            self._note_unkept(work, directory, file, cause)
            return True
        place = (stored(directory), stored(file))
        self._retire(work, place, was=was, now=now, cause=cause)
        if now is None:
            return True
        if content is None:
            return False
        self.hold(work, directory, file, now=now, content=content, by=cause.by)
        return True

    def _note_unkept(self, work: Transaction, directory: str, file: str, cause: Cause) -> None:
        """Note that an act of ours wrote a file whose former bytes nobody saved: no earlier act is the last one now."""
        if cause.batch is None:
            return
        _add(
            work,
            "delete from versions where dir = ? and file = ? and batch < ?",
            (stored(directory), NO_FILE, cause.batch),
        )
        _add(
            work,
            "insert into versions (dir, file, size, mtime_ns, at_ms, reason, batch, became)"
            " values (?, ?, 0, 0, ?, ?, ?, ?)",
            (stored(directory), NO_FILE, cause.at_ms, cause.reason, cause.batch, stored(file)),
        )

    def _retire(
        self,
        work: Transaction,
        place: tuple[object, ...],
        *,
        was: Held | None,
        now: Held | None,
        cause: Cause,
    ) -> None:
        told = (cause.at_ms, cause.reason, cause.batch, now.hash if now else None)
        if was is None and cause.batch is not None:
            # An act begins with everything committed: a file that has no version by now has none.
            is_new = not self._database.query(
                "select 1 from versions where dir = ? and file = ? limit 1", place
            )
            if not is_new:
                _add(work, f"delete from versions where {_FORMER} and hash is null", place)
            _add(
                work,
                "insert into versions (dir, file, hash, size, mtime_ns, at_ms, reason, batch, became)"
                " values (?, ?, null, 0, 0, ?, ?, ?, ?)",
                (*place, *told),
            )
            if is_new:
                return
        if was is not None:
            # Somebody may have touched the file since it was saved: the time that counts is its last one.
            _add(work, f"update versions set mtime_ns = ? where {_CURRENT} and hash = ?",
                 (whole_number(was.mtime_ns), *place, was.hash))  # fmt: skip
        # Bytes that the file had before already keep the number that a person may have noted; and where our own act had
        # replaced them, its batch, or an undo would take an earlier act for the last one.
        again = f"{_FORMER} and hash in (select hash from versions where {_CURRENT})"
        if cause.batch is None:
            _add(work, f"update versions set at_ms = ? where {again} and batch is not null",
                 (cause.at_ms, *place, *place))  # fmt: skip
            again += " and batch is null"
        _add(
            work,
            f"update versions set at_ms = ?, reason = ?, batch = ?, became = ? where {again}",
            (*told, *place, *place),
        )
        _add(
            work,
            f"delete from versions where {_CURRENT} and hash in (select hash from versions where {_FORMER})",
            (*place, *place),
        )
        _add(work, f"update versions set at_ms = ?, reason = ?, batch = ?, became = ? where {_CURRENT}",
             (*told, *place))  # fmt: skip
        # What the last act of ours replaced does not go by number.
        _add(
            work,
            f"delete from versions where saved in (select saved from versions where {_FORMER}"
            " order by at_ms desc, saved desc limit -1 offset ?)"
            " and (batch is null or batch < ?)",
            (*place, self.most_versions, self._last_of(place[0], cause.batch)),
        )

    def _last_of(self, directory: object, batch: int | None) -> int:
        """Give the number of our last act on a directory, which may be this one; 0 when there was none."""
        if batch is not None:
            self._last[directory] = batch
        elif directory not in self._last:
            rows = self._database.query("select max(batch) from versions where dir = ?", (directory,))
            self._last[directory] = int(rows[0][0] or 0)
        return self._last[directory]

    def hold(
        self,
        work: Transaction,
        directory: str,
        file: str,
        *,
        now: Held,
        content: bytes,
        by: By | None = None,
    ) -> None:
        """Save the bytes that a file has now."""
        if not self.enabled:
            return
        place = (stored(directory), stored(file))
        data = zlib.compress(content)
        self.stored_bytes += len(data)
        self._pending[now.hash] = content
        _add(work, "insert or ignore into contents (hash, data) values (?, ?)", (now.hash, data))
        _add(work, f"delete from versions where {_CURRENT}", place)
        host, session = by or (None, None)
        _add(
            work,
            "insert into versions (dir, file, hash, size, mtime_ns, host, session) values (?, ?, ?, ?, ?, ?, ?)",
            (*place, now.hash, now.size, whole_number(now.mtime_ns), _or_none(host), _or_none(session)),
        )

    def put_aside(
        self, work: Transaction, directory: str, file: str, content: bytes, *, mtime_ns: int, at_ms: int
    ) -> None:
        """Save bytes that a file had for a moment, and that lie nowhere any more."""
        if not self.enabled:
            return
        digest = hashlib.sha256(content).hexdigest()
        place = (stored(directory), stored(file))
        _add(
            work,
            "insert or ignore into contents (hash, data) values (?, ?)",
            (digest, zlib.compress(content)),
        )
        _add(
            work,
            "insert into versions (dir, file, hash, size, mtime_ns, at_ms, reason) select ?, ?, ?, ?, ?, ?, 'updated'"
            " where not exists (select 1 from versions where dir = ? and file = ? and hash = ?)",
            (*place, digest, len(content), whole_number(mtime_ns), at_ms, *place, digest),
        )

    def let_go(self, work: Transaction, directory: str, at_ms: int) -> None:
        """Save that a directory is kept no more: what its files had is former from now on."""
        name = stored(directory)
        same = "select 1 from versions o where o.dir = v.dir and o.file = v.file and o.hash = v.hash and o.at_ms is"
        _add(
            work,
            f"update versions as v set at_ms = ? where dir = ? and at_ms is not null and exists ({same} null)",
            (at_ms, name),
        )
        _add(
            work,
            f"delete from versions as v where dir = ? and at_ms is null and exists ({same} not null)",
            (name,),
        )
        _add(
            work,
            "update versions set at_ms = ?, reason = 'deleted' where dir = ? and at_ms is null",
            (at_ms, name),
        )

    def settled(self) -> None:
        """Take that all transactions so far were committed, or are void."""
        self._pending.clear()

    # -- finding

    def current(self, directory: str) -> dict[str, str]:
        """Give the hash of what is saved as a directory's files have it now, by file."""
        rows = self._database.query(
            "select file, hash from versions where dir = ? and at_ms is null", (stored(directory),)
        )
        return {from_stored(file): digest for file, digest in rows}

    def directories(self) -> set[str]:
        """Give all directories of which a current version is saved."""
        rows = self._database.query("select distinct dir from versions where at_ms is null")
        return {from_stored(directory) for (directory,) in rows}

    def holds(self, directory: str, file: str, digest: str) -> bool:
        """Tell whether these bytes are saved as what the file has now."""
        place = (stored(directory), stored(file))
        rows = self._database.query(f"select 1 from versions where {_CURRENT} and hash = ?", (*place, digest))
        return bool(rows)

    def bytes_of(self, digest: str) -> bytes | None:
        """Give the bytes with this hash; None when they are not saved."""
        waiting = self._pending.get(digest)
        if waiting is not None:
            return waiting
        rows = self._database.query("select data from contents where hash = ?", (digest,))
        try:
            return zlib.decompress(rows[0][0]) if rows else None
        except zlib.error as error:
            raise ZcsyncdError(
                f"a saved version in {self._database.path} is damaged: {error}",
                hint="another saved version of the file may be whole: `zcsyncd history list`",
            ) from error

    def version(self, saved: int) -> Version | None:
        """Find a version by its number."""
        return next(self._versions(f"saved = ? and file != '{NO_FILE}'", (saved,), 1), None)

    def versions(self, directory: str, file: str | None, limit: int) -> list[Version]:
        """List a directory's former versions, the newest first."""
        where, values = f"dir = ? and at_ms is not null and file != '{NO_FILE}'", [stored(directory)]
        if file is not None:
            where, values = _FORMER, [stored(directory), stored(file)]
        return list(self._versions(where, values, limit))

    def saved_as(self, directory: str, file: str, batch: int) -> int | None:
        """Give the number of the version that an act of ours replaced."""
        rows = self._database.query(
            f"select max(saved) from versions where {_FORMER} and batch = ? and hash is not null",
            (stored(directory), stored(file), batch),
        )
        saved: int | None = rows[0][0]
        return saved

    def former_hashes(self, directory: str, file: str) -> list[str]:
        """Give the hashes of a file's former versions, the newest first."""
        rows = self._database.query(
            f"select hash from versions where {_FORMER} and hash is not null order by at_ms desc, saved desc limit ?",
            (stored(directory), stored(file), MOST_HASHES),
        )
        return [digest for (digest,) in rows]

    def last_batch(self, directory: str) -> list[Version]:
        """Give what our last act on a directory replaced, by number."""
        rows = self._database.query("select max(batch) from versions where dir = ?", (stored(directory),))
        if rows[0][0] is None:
            return []
        found = self._versions(
            f"dir = ? and batch = ? and file != '{NO_FILE}'", (stored(directory), rows[0][0]), 1_000_000
        )
        return sorted(found, key=lambda version: version.saved)

    def broken_act(self, directory: str) -> BrokenAct | None:
        """Tell of our last act on a directory that it cannot be taken back; None: it can, or there was none."""
        place = stored(directory)
        rows = self._database.query(
            "select reason, at_ms, became from versions where dir = ? and file = ?"
            " and batch = (select max(batch) from versions where dir = ?) order by saved",
            (place, NO_FILE, place),
        )
        if not rows:
            return None
        unkept = tuple(from_stored(file) for _, _, file in rows if file is not None)
        return BrokenAct(rows[0][0], rows[0][1], unkept)

    def _versions(self, where: str, values: Sequence[object], limit: int) -> Iterator[Version]:
        rows = self._database.query(
            f"select {_COLUMNS} from versions where {where} order by at_ms desc, saved desc limit ?",
            (*values, limit),
        )
        return map(_version, rows)


def _version(row: tuple[Any, ...]) -> Version:
    saved, directory, file, digest, size, mtime_ns, host, session, at_ms, reason, batch, became = row
    by = None if host is None else (from_stored(host), from_stored(session))
    return Version(
        saved, from_stored(directory), from_stored(file), digest, size, mtime_ns, by, at_ms, reason, batch, became
    )  # fmt: skip


def _or_none(text: str | None) -> str | bytes | None:
    return None if text is None else stored(text)


def _add(work: Transaction, statement: str, values: Sequence[object]) -> None:
    work.statements.append((statement, values))
