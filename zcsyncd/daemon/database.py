"""The journal of events and the last snapshots, in one SQLite file. Door: sqlite3.

Rule 1: what is told and what it was compared with are written in one transaction. A kill -9 between two transactions
therefore neither loses a change nor tells it twice.
Rule 2: one connection writes, on the loop (WAL, synchronous=NORMAL: a commit survives the death of the process);
check-points and retention run in a thread with a connection of their own.
Rule 3: numbers that clients hold are never given to other events: after an unclean stop and a new boot, in which the
last commits may be lost, the journal gets a new id.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zcsyncd.bus.events import StoredEvent
from zcsyncd.daemon.docket import FindingRow
from zcsyncd.daemon.rows import (
    distrusted,
    fact_from,
    fact_row,
    finding_from,
    finding_row,
    index_from,
    index_row,
)
from zcsyncd.errors import ConfigError, Unreadable, ZcsyncdError
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index
from zcsyncd.memory.snapshot import Snapshot

SCHEMA_VERSION = 3
BUSY_MS = 5_000
RETENTION_STEP = 500
"""Events that retention drops in one transaction."""
CHECKPOINT_ROWS = 2_000
"""Rows written, about 8 MiB of WAL, after which the daemon asks its thread for a check-point at once."""

_SCHEMA = """
create table meta (key text primary key, value text not null) without rowid;
create table events (
  seq integer primary key, time_ms integer not null, topic text not null, dir text, host text, session text,
  data text not null);
create table directories (
  dir text primary key, layout text not null, first_seen_ms integer not null, changed_ms integer not null,
  folds_case integer not null) without rowid;
create table indexes (dir text primary key, row text not null) without rowid;
create table facts (dir text not null, file text not null, row text not null, primary key (dir, file)) without rowid;
create table findings (
  dir text not null, key text not null, since_ms integer not null, told integer not null, row text not null,
  primary key (dir, key)) without rowid;
create table dismissed (key text primary key, dir text not null, at_ms integer not null) without rowid;
create table allowed (dir text primary key, at_ms integer not null) without rowid;
create table cwds (cwd text primary key, seen_ms integer not null) without rowid;
"""
_HISTORY_SCHEMA = """
create table contents (id integer primary key, hash text not null unique, data blob not null);
create table versions (
  saved integer primary key autoincrement, dir text not null, file text not null, hash text, size integer not null,
  mtime_ns integer not null, host text, session text, at_ms integer, reason text, batch integer, became text);
create index versions_of_file on versions (dir, file, at_ms);
create index versions_by_hash on versions (hash);
create table pasts (dir text primary key, row text not null) without rowid;
create table temps (path text primary key, dir text not null, file text not null) without rowid;
create table sessions (host text not null, id text not null, row text not null, primary key (host, id)) without rowid;
create table searched (
  id integer primary key, dir text not null, file text not null, hash text not null, unique (dir, file));
"""
_GONE_SCHEMA = """
create table gone (dir text primary key, layout text not null, at_ms integer not null, folds_case integer not null)
without rowid;
"""
_SEARCH_SCHEMA = """
create virtual table search using fts5 (name, description, body, tokenize = "unicode61 remove_diacritics 2")
"""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before it has its number."""

    topic: str
    directory: str | None
    data: str
    time_ms: int
    session: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class KeptDirectory:
    """A directory as the database knows it at the start."""

    snapshot: Snapshot
    first_seen_ms: int
    changed_ms: int
    findings: Mapping[str, FindingRow]
    past: str | None = None
    """What is remembered of it beside the snapshot, as a row (memory.past)."""
    gone_ms: int | None = None
    """When it went, epoch milliseconds; it is remembered for what may come in its place. None: it is there."""


@dataclass(slots=True)
class Transaction:
    """What one commit writes: gathered first, so that nothing can fail half-way."""

    events: list[NewEvent] = field(default_factory=list)
    statements: list[tuple[str, Sequence[object]]] = field(default_factory=list)

    def tell(self, event: NewEvent) -> None:
        """Add an event."""
        self.events.append(event)

    def save_directory(self, snapshot: Snapshot, first_seen_ms: int, changed_ms: int) -> None:
        """Save the directory's own row."""
        self.statements.append(
            (
                "insert or replace into directories values (?, ?, ?, ?, ?)",
                (
                    stored(snapshot.directory),
                    snapshot.layout,
                    first_seen_ms,
                    changed_ms,
                    int(snapshot.folds_case),
                ),
            )
        )

    def save_files(
        self, before: Snapshot | None, after: Snapshot, files: Collection[str] | None = None
    ) -> None:
        """Save the index and the facts that are not the very ones of the snapshot before.

        `files`: the only ones that may differ.
        """
        known: Mapping[str, Fact] = before.facts if before else {}
        directory = stored(after.directory)
        if after.index is not (before.index if before else None):
            self._save_index(directory, after.index)
        for file in after.facts if files is None else files:
            fact = after.facts.get(file)
            if fact is not None and known.get(file) is not fact:
                self.statements.append(
                    (
                        "insert or replace into facts values (?, ?, ?)",
                        (directory, stored(file), fact_row(fact)),
                    )
                )
        for file in known if files is None else files:
            if file in known and file not in after.facts:
                self.statements.append(
                    ("delete from facts where dir = ? and file = ?", (directory, stored(file)))
                )

    def _save_index(self, directory: str | bytes, index: Index | None) -> None:
        if index is None:
            self.statements.append(("delete from indexes where dir = ?", (directory,)))
        else:
            self.statements.append(
                ("insert or replace into indexes values (?, ?)", (directory, index_row(index)))
            )

    def drop_directory(self, directory: str) -> None:
        """Forget a directory and what was found in it."""
        for table in ("directories", "indexes", "facts", "findings", "pasts", "gone"):
            self.statements.append((f"delete from {table} where dir = ?", (stored(directory),)))  # noqa: S608  our own names

    def leave_directory(self, snapshot: Snapshot, at_ms: int) -> None:
        """Take that a directory is gone, and keep what it was: its files and what is remembered of it."""
        place = stored(snapshot.directory)
        for table in ("directories", "findings"):
            self.statements.append((f"delete from {table} where dir = ?", (place,)))  # noqa: S608  our own names
        self.statements.append(
            (
                "insert or replace into gone values (?, ?, ?, ?)",
                (place, snapshot.layout, at_ms, int(snapshot.folds_case)),
            )
        )

    def return_directory(self, directory: str) -> None:
        """Take that a directory that was gone is there again."""
        self.statements.append(("delete from gone where dir = ?", (stored(directory),)))

    def save_finding(self, directory: str, key: str, row: FindingRow) -> None:
        """Save what is remembered of a finding."""
        self.statements.append(
            (
                "insert or replace into findings values (?, ?, ?, ?, ?)",
                (stored(directory), stored(key), row.since_ms, int(row.told), finding_row(row.finding)),
            )
        )

    def drop_finding(self, directory: str, key: str) -> None:
        """Forget a finding that is over."""
        self.statements.append(
            ("delete from findings where dir = ? and key = ?", (stored(directory), stored(key)))
        )

    def dismiss(self, key: str, directory: str, at_ms: int, *, undo: bool) -> None:
        """Remember (or take back) a dismissal."""
        if undo:
            self.statements.append(("delete from dismissed where key = ?", (stored(key),)))
        else:
            self.statements.append(
                ("insert or replace into dismissed values (?, ?, ?)", (stored(key), stored(directory), at_ms))
            )

    def allow(self, directory: str, at_ms: int, *, allowed: bool) -> None:
        """Remember (or take back) that a person allowed a directory."""
        if allowed:
            self.statements.append(
                ("insert or replace into allowed values (?, ?)", (stored(directory), at_ms))
            )
        else:
            self.statements.append(("delete from allowed where dir = ?", (stored(directory),)))

    def learn_cwd(self, cwd: str, at_ms: int) -> None:
        """Remember a working directory."""
        self.statements.append(("insert or replace into cwds values (?, ?)", (stored(cwd), at_ms)))

    def save_past(self, directory: str, row: str) -> None:
        """Remember what a directory was, beside its snapshot."""
        self.statements.append(("insert or replace into pasts values (?, ?)", (stored(directory), row)))

    def note_temp(self, path: str, directory: str, file: str) -> None:
        """Remember a temporary file that is about to be made for a file, so that the next start can take it away."""
        self.statements.append(
            ("insert or replace into temps values (?, ?, ?)", (stored(path), stored(directory), stored(file)))
        )

    def drop_temp(self, path: str) -> None:
        """Forget a temporary file that is gone."""
        self.statements.append(("delete from temps where path = ?", (stored(path),)))

    def save_session(self, who: tuple[str, str], row: str) -> None:
        """Remember a session (host, id)."""
        self.statements.append(
            ("insert or replace into sessions values (?, ?, ?)", (stored(who[0]), stored(who[1]), row))
        )

    def drop_session(self, who: tuple[str, str]) -> None:
        """Forget a session."""
        self.statements.append(
            ("delete from sessions where host = ? and id = ?", (stored(who[0]), stored(who[1])))
        )

    def note_adopted(self) -> None:
        """Remember that a first scan has been made to its end: what is found from now on is news."""
        self.statements.append(("insert or replace into meta values ('adopted', '1')", ()))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.events and not self.statements


def stored(value: str) -> str | bytes:
    """SQLite takes no lone surrogates (names that are not UTF-8): such a text is stored as its bytes."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def whole_number(value: int) -> int:
    """SQLite's integers have 64 bits: what is beyond them (a file's time in the year 2300) is as far as they go."""
    return max(-(1 << 63), min(value, (1 << 63) - 1))


def from_stored(value: str | bytes) -> str:
    """Give back what `stored` made of a text."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


class JournalRefused(Exception):
    """The disk took no transaction: it is full, read-only, or broken."""


class Database:
    """The one connection that writes. It is the hub's journal too.

    Raises:
        ConfigError: the file was written by a newer version.
        Unreadable: the place cannot be written.
    """

    def __init__(self, path: str, boot_id: str, version: str) -> None:
        self.path = path
        self.is_new = True
        self.same_version = True
        self.can_search = False
        """SQLite was built with FTS5."""
        self._version = version
        self._journal_id = ""
        self.recovered_from: str | None = None
        self.known: tuple[KeptDirectory, ...] = ()
        """Every directory with its snapshot as it was last told, as it was found when the file was opened."""
        self.rows_written = 0
        self._head = 0
        self._oldest = 1
        self._connection = self._open(boot_id)
        self._inode = os.stat(path).st_ino

    # -- opening

    def _open(self, boot_id: str) -> sqlite3.Connection:
        try:
            return self._prepared(boot_id)
        except OSError as error:
            raise Unreadable(
                f"{self.path} cannot be opened: {error.strerror}", hint="check its place and the permissions"
            ) from error
        except (sqlite3.DatabaseError, ValueError, TypeError, LookupError) as error:
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                raise Unreadable(
                    f"{self.path} cannot be opened: {error}", hint="check the disk and the permissions"
                ) from error
            # Broken: keep what is there for a person to look at, and begin anew (clients get `journal-reset`).
            self.recovered_from = f"{self.path}.broken-{secrets.token_hex(4)}"
            os.replace(self.path, self.recovered_from)
            for ending in ("-wal", "-shm"):
                if os.path.exists(self.path + ending):
                    os.replace(self.path + ending, self.recovered_from + ending)
            return self._prepared(boot_id)

    def _prepared(self, boot_id: str) -> sqlite3.Connection:
        _refuse_newer(self.path)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        os.close(descriptor)
        connection = connect(self.path)
        try:
            self._set_up(connection, boot_id)
            # Read here, so that a page or a row that cannot be read is found while the file can still be put aside.
            self.known = tuple(_directories(connection, trusted=self.same_version))
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection, boot_id: str) -> None:
        connection.execute("pragma wal_autocheckpoint=0")
        version = connection.execute("pragma user_version").fetchone()[0]
        _check_version(self.path, version)
        with transaction(connection):
            for statement in _upgrade(version).split(";"):
                connection.execute(statement)
            connection.execute(f"pragma user_version={SCHEMA_VERSION}")
            meta = dict(connection.execute("select key, value from meta"))
            journal_id = meta.get("journal_id")
            lost_commits = meta.get("clean") == "0" and meta.get("boot_id") != boot_id
            if journal_id is None or lost_commits:
                journal_id = secrets.token_hex(8)
                connection.execute("delete from events")
            state = {"journal_id": journal_id, "clean": "0", "boot_id": boot_id, "version": self._version}
            connection.executemany("insert or replace into meta values (?, ?)", state.items())
            kept = connection.execute("select max(seq), min(seq) from events").fetchone()
            self._head = max(kept[0] or 0, int(meta.get("head", "0")))
            self._oldest = kept[1] if kept[1] is not None else self._head + 1
        self._journal_id = journal_id
        self.same_version = meta.get("version", self._version) == self._version and version in (
            0,
            SCHEMA_VERSION,
        )
        self.can_search = _can_search(connection)
        self.is_new = "adopted" not in meta

    # -- the journal

    @property
    def journal_id(self) -> str:
        """The first half of every cursor."""
        return self._journal_id

    @property
    def head(self) -> int:
        """The sequence of the newest event; 0 when there has been none."""
        return self._head

    @property
    def oldest(self) -> int:
        """The sequence of the oldest event that is still kept; head + 1 when none is."""
        return self._oldest

    def read(self, after: int, limit: int) -> list[StoredEvent]:
        """Give at most `limit` events with a greater sequence than `after`, in order."""
        rows = self._connection.execute(
            "select seq, time_ms, topic, dir, host, session, data from events where seq > ? order by seq limit ?",
            (after, limit),
        )
        return [_event(row) for row in rows]

    def commit(self, work: Transaction) -> list[StoredEvent]:
        """Write a transaction; give its events with their numbers.

        Raises: JournalRefused, and nothing is written.
        """
        if work.empty:
            return []
        stored = [
            StoredEvent(
                self._head + n, event.time_ms, event.topic, event.directory, event.session, event.data
            )
            for n, event in enumerate(work.events, 1)
        ]
        try:
            with transaction(self._connection):
                for statement, values in work.statements:
                    self._connection.execute(statement, values)
                self._connection.executemany(
                    "insert into events values (?, ?, ?, ?, ?, ?, ?)", map(_event_row, stored)
                )
        except (sqlite3.Error, OverflowError) as error:
            raise JournalRefused(str(error)) from error
        self._head += len(stored)
        self.rows_written += len(work.statements) + len(stored)
        return stored

    # -- what was known

    def query(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Give the rows of a question.

        Raises: ZcsyncdError, when the file cannot be read.
        """
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise ZcsyncdError(
                f"{self.path} cannot be read: {error}", hint="check the disk; the log may say more"
            ) from error

    def dismissed(self) -> set[str]:
        """Give the keys of all dismissed findings."""
        return {from_stored(key) for (key,) in self._connection.execute("select key from dismissed")}

    def allowed(self) -> set[str]:
        """Give the directories that a person allowed."""
        return {
            from_stored(directory) for (directory,) in self._connection.execute("select dir from allowed")
        }

    def cwds(self) -> set[str]:
        """Give the working directories that were learned."""
        return {from_stored(cwd) for (cwd,) in self._connection.execute("select cwd from cwds")}

    def session_rows(self) -> list[str]:
        """Give the rows of all sessions."""
        return [row for (row,) in self._connection.execute("select row from sessions")]

    def told_since(
        self, sequence: int, directories: Collection[str], topics: Sequence[str], limit: int
    ) -> list[StoredEvent]:
        """Give at most `limit` events of directories with a greater sequence, in order."""
        places, names = ", ".join("?" * len(directories)), ", ".join("?" * len(topics))
        rows = self.query(
            "select seq, time_ms, topic, dir, host, session, data from events"  # noqa: S608  our own words
            f" where seq > ? and dir in ({places}) and topic in ({names}) order by seq limit ?",
            (sequence, *map(stored, directories), *topics, limit),
        )
        return [_event(row) for row in rows]

    def temps(self) -> list[tuple[str, str, str]]:
        """Give the temporary files that our pen was about to make: path, directory, and the file that it was for."""
        rows = self.query("select path, dir, file from temps")
        return [(from_stored(path), from_stored(name), from_stored(file)) for path, name, file in rows]

    # -- keeping it small

    def forget_upto(self, sequence: int) -> None:
        """Take events up to `sequence` for gone, before `drop_events` drops them: a gap told too soon harms nobody."""
        self._oldest = max(self._oldest, sequence + 1)

    def is_in_place(self) -> bool:
        """Tell whether the file at the path is still the one that is written to."""
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Note the clean stop, fold the WAL into the file, close."""
        with transaction(self._connection):
            self._connection.executemany(
                "insert or replace into meta values (?, ?)", [("clean", "1"), ("head", str(self._head))]
            )
        self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._connection.close()


@contextmanager
def opened_to_read(path: str) -> Iterator[sqlite3.Connection | None]:
    """Open a database that nobody writes to, and change nothing; None: it is not there, or not of this version.

    Raises: Unreadable.
    """
    if not os.path.isfile(path):
        yield None
        return
    # What is not folded in yet lies beside it, where a daemon was killed. Else nothing needs to be made beside it.
    in_log = os.path.exists(path + "-wal") and os.path.getsize(path + "-wal") > 0
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'' if in_log else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_MS / 1000)) as connection:
            version = connection.execute("pragma user_version").fetchone()[0]
            yield connection if version == SCHEMA_VERSION else None
    except sqlite3.Error as error:
        raise Unreadable(
            f"{path} cannot be read: {error}", hint="check the disk and the permissions"
        ) from error


@dataclass(frozen=True, slots=True)
class Look:
    """What can be told of a database without changing it, and without its content."""

    size_bytes: int
    wal_bytes: int
    schema: int
    damage: int
    """How many complaints SQLite has about it."""
    is_whole: bool
    """False: there was no time to check all of it."""


def look_at(path: str, *, longest_s: float = 8.0) -> Look | None:
    """Check a database that a daemon may be writing to; None: it is not there.

    Raises: Unreadable, when it cannot be opened or is no database.
    """
    wal = path + "-wal"
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path} cannot be looked at: {error.strerror}") from error
    if not os.path.isfile(path):
        raise Unreadable(f"{path} is no file", hint="move it away")
    wal_bytes = os.path.getsize(wal) if os.path.exists(wal) else 0
    until = time.monotonic() + longest_s
    try:
        with closing(_opened_unharmed(path)) as connection:
            schema = connection.execute("pragma user_version").fetchone()[0]
            connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            try:
                found = connection.execute("pragma quick_check").fetchall()
            except sqlite3.OperationalError as error:
                if "interrupted" not in str(error):
                    raise
                return Look(size, wal_bytes, schema, 0, is_whole=False)
    except sqlite3.Error as error:
        raise Unreadable(
            f"{path} cannot be read: {error}", hint="check the disk and the permissions"
        ) from error
    return Look(size, wal_bytes, schema, 0 if found == [("ok",)] else len(found), is_whole=True)


def abilities() -> tuple[str, bool]:
    """Give SQLite's version, and whether it can search (FTS5)."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return sqlite3.sqlite_version, _can_search(connection)


def recalled(connection: sqlite3.Connection, directory: str) -> KeptDirectory | None:
    """Give one directory, there or gone, as it was last told."""
    return next(_directories(connection, trusted=True, only=directory), None)


def _directories(
    connection: sqlite3.Connection, *, trusted: bool, only: str | None = None
) -> Iterator[KeptDirectory]:
    """Give every directory (or one) with its snapshot as it was last told, those that are gone as well."""
    where, place = ("", ()) if only is None else (" where dir = ?", (stored(only),))
    facts: dict[str, dict[str, Fact]] = {}
    ask = connection.execute
    for directory, file, row in ask(f"select dir, file, row from facts{where}", place):  # noqa: S608  our own words
        fact = fact_from(row)
        facts.setdefault(from_stored(directory), {})[from_stored(file)] = (
            fact if trusted else distrusted(fact)
        )
    findings: dict[str, dict[str, FindingRow]] = {}
    for name, key, since_ms, told, row in ask(f"select * from findings{where}", place):  # noqa: S608  our own words
        remembered = FindingRow(since_ms, bool(told), finding_from(row))
        findings.setdefault(from_stored(name), {})[from_stored(key)] = remembered
    pasts = dict(ask(f"select dir, row from pasts{where}", place))  # noqa: S608  our own words
    indexes = dict(ask(f"select dir, row from indexes{where}", place))  # noqa: S608  our own words
    rows = ask(
        f"select dir, layout, first_seen_ms, changed_ms, folds_case, null from directories{where}"  # noqa: S608
        f" union all select dir, layout, at_ms, at_ms, folds_case, at_ms from gone{where} order by 1",
        (*place, *place),
    ).fetchall()
    for name, layout, first_seen_ms, changed_ms, folds_case, gone_ms in rows:
        directory = from_stored(name)
        row = indexes.pop(name, None)
        index: Index | None = index_from(row) if row else None
        if index is not None and not trusted:
            index = distrusted(index)
        snapshot = Snapshot(directory, layout, index, facts.pop(directory, {}), {}, bool(folds_case))
        yield KeptDirectory(
            snapshot,
            first_seen_ms,
            changed_ms,
            findings.pop(directory, {}),
            pasts.pop(name, None),
            gone_ms,
        )


def _refuse_newer(path: str) -> None:
    """Look at the version before the file is opened to be written: even to close it would fold its log into it.

    Raises: ConfigError.
    """
    if not os.path.isfile(path) or os.path.islink(path):
        return
    try:
        with closing(_opened_unharmed(path)) as connection:
            version = connection.execute("pragma user_version").fetchone()[0]
    except sqlite3.Error:
        return  # what is wrong with it shows when it is opened
    _check_version(path, version)


def _check_version(path: str, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path} was written by a newer zcsyncd (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="update zcsyncd, or move the file away",
        )


def _opened_unharmed(path: str) -> sqlite3.Connection:
    """Open a database to read it, and leave it and what lies beside it as it is.

    What is not folded in yet lies beside it, where a daemon runs or was killed. Else nothing is made beside it.
    """
    wal = path + "-wal"
    has_log = os.path.exists(wal) and (os.path.getsize(wal) > 0 or os.path.exists(path + "-shm"))
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=BUSY_MS / 1000)


def _upgrade(version: int) -> str:
    """Give the statements that bring a file of an older schema (0: an empty one) to today's."""
    steps = (_SCHEMA, _HISTORY_SCHEMA, _GONE_SCHEMA)
    return "".join(steps[version:])


def _can_search(connection: sqlite3.Connection) -> bool:
    """Make the table of words where there is none; False when this SQLite cannot search."""
    if connection.execute("select 1 from sqlite_master where name = 'search'").fetchone():
        return True
    try:
        connection.execute(_SEARCH_SCHEMA)
    except sqlite3.OperationalError:
        return False
    return True


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """Tell damage from a disk that is full, locked or read-only."""
    return any(word in str(error) for word in ("disk image", "no such table", "no such column"))


def _event(row: tuple[Any, ...]) -> StoredEvent:
    seq, time_ms, topic, directory, host, session, data = row
    return StoredEvent(
        seq,
        time_ms,
        topic,
        None if directory is None else from_stored(directory),
        None if host is None else (from_stored(host), from_stored(session)),
        data,
    )


def _event_row(event: StoredEvent) -> tuple[object, ...]:
    host, session = event.session or (None, None)
    return (
        event.sequence,
        event.time_ms,
        event.topic,
        None if event.directory is None else stored(event.directory),
        None if host is None else stored(host),
        None if session is None else stored(session),
        event.data,
    )


def connect(path: str) -> sqlite3.Connection:
    """Open a connection as all of ours are: deleted rows are overwritten, and nothing goes to temporary files."""
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
    try:
        for pragma in (
            "journal_mode=wal",
            "synchronous=normal",
            "secure_delete=on",
            "cache_size=-2000",
            "temp_store=memory",
        ):
            connection.execute(f"pragma {pragma}")
    except BaseException:
        connection.close()  # or Windows would not let a broken file be put aside
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite may have rolled back by itself
            connection.execute("rollback")
        raise


def check_point(path: str) -> None:
    """Fold the WAL into the file. For a thread: opens a connection of its own."""
    with closing(connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(passive)").fetchall()


def plan_retention(path: str, *, max_events: int, max_bytes: int, oldest_ms: int) -> int:
    """Give the sequence up to which the journal's limits ask to drop events, 0 for none. For a thread.

    `oldest_ms`: events before this time go.
    """
    with closing(connect(path)) as connection:
        last = connection.execute("select max(seq) from events").fetchone()[0]
        if last is None:
            return 0
        by_age = (
            connection.execute("select max(seq) from events where time_ms < ?", (oldest_ms,)).fetchone()[0]
            or 0
        )
        by_size = _past_size(
            connection.execute("select seq, length(data) from events order by seq desc"), max_bytes
        )
        return max(int(by_age), int(last) - max_events, by_size, 0)


def drop_events(path: str, upto: int) -> int:
    """Drop events up to a sequence; give how many. For a thread. The head's number is kept: it is never given twice.

    The journal must have been told before (`Database.forget_upto`), so that nobody reads across what is being dropped.
    """
    with closing(connect(path)) as connection:
        first, last = connection.execute("select min(seq), max(seq) from events").fetchone()
        if first is None:
            return 0
        with transaction(connection):
            connection.execute("insert or replace into meta values ('head', ?)", (str(last),))
        gone = 0
        for until in range(first + RETENTION_STEP, upto + RETENTION_STEP, RETENTION_STEP):
            # Small steps: the loop's own commits wait for this lock.
            with transaction(connection):
                gone += connection.execute("delete from events where seq <= ?", (min(until, upto),)).rowcount
        connection.execute("pragma wal_checkpoint(passive)").fetchall()
        return gone


def _past_size(sizes: Iterable[tuple[int, int]], max_bytes: int) -> int:
    total = 0
    for seq, size in sizes:
        total += size + 100  # the columns beside the data
        if total > max_bytes:
            return seq
    return 0
