"""A database of an older schema, made as the version that had it made it, and one of a newer schema."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from zcsyncd.daemon import database as module
from zcsyncd.daemon.database import SCHEMA_VERSION, Database, abilities, look_at
from zcsyncd.errors import ConfigError, Unreadable

ROOT = Path(__file__).resolve().parents[2]
SCHEMA_1 = """
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
SCHEMA_2 = """
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
# file, stat, read_at_ns, content hash, encoding, name, description, type, malformed, meaning hash, links, references,
# symlink, listed, remarks: as schema 1 wrote a fact. The body's hash came with schema 2.
FACT_1 = ["a.md", [1, 2, 3, 4], 5, "c", "utf-8", "a", "says", "user", False, "m", ["b"], [], False, True, []]
INDEX_ROW = [
    "MEMORY.md", [1, 2, 3, 4], 5, "c", "utf-8", "t", 1, 2, False, [["a.md", "A", "hook", 1, False]], [], [],
    [["entry-inline", "says", None, None, None]],
]  # fmt: skip
FINDING_1 = ["entry-dangling:1", "entry-dangling", "error", "MEMORY.md", "b.md", 1, "says", None, True]


def old(path, schema):
    """Make a database of schema 1 or 2, with something in every table that a person would miss."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.executescript(SCHEMA_1 + (SCHEMA_2 if schema == 2 else ""))
        fact = FACT_1 if schema == 1 else [*FACT_1, "body"]
        for table, row in (
            ("meta", ("journal_id", "feed")),
            ("meta", ("clean", "1")),
            ("meta", ("head", "7")),
            ("meta", ("boot_id", "boot-0")),
            ("meta", ("version", "0.0.1")),
            ("meta", ("adopted", "1")),
            ("events", (7, 1000, "memory/changed", "/m", None, None, "{}")),
            ("directories", ("/m", "zcode", 10, 20, 0)),
            ("indexes", ("/m", json.dumps(INDEX_ROW))),
            ("facts", ("/m", "a.md", json.dumps(fact))),
            ("dismissed", ("k:1", "/m", 30)),
            ("allowed", ("/allowed", 40)),
            ("cwds", ("/home/u/app", 50)),
        ):
            connection.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
        if schema == 2:
            connection.execute("insert into contents values (1, 'h', x'00')")
            connection.execute(
                "insert into versions values (3, '/m', 'a.md', 'h', 1, 2, null, null, 60, 'write', 1, null)"
            )
            connection.execute("insert into sessions values ('pi', 's-1', '{}')")
            connection.execute("insert into temps values ('/m/.t', '/m', 'a.md')")
        connection.execute(f"pragma user_version={schema}")
        connection.commit()


def content(path):
    """Read everything that a database holds, changing nothing."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "select name from sqlite_master where type = 'table' order by name"
            )
        ]
        rows = {name: connection.execute(f"select * from {name}").fetchall() for name in names}
        return connection.execute("pragma user_version").fetchone()[0], rows


def files_of(path):
    """Give the bytes of a database and of what lies beside it; the shared memory is no content."""
    return {
        one.name: one.read_bytes()
        for one in path.parent.glob(f"{path.name}*")
        if not one.name.endswith("-shm")
    }


@pytest.mark.parametrize("schema", [1, 2])
def test_an_older_schema_migrates_forward(tmp_path, schema):
    """What was known is known afterwards; each file is read again, and a cursor of a client goes on."""
    path = tmp_path / "state.db"
    old(path, schema)
    with contextlib.closing(Database(str(path), "boot-1", "9")) as database:
        assert database.recovered_from is None
        assert (database.journal_id, database.head, database.oldest) == ("feed", 7, 7)
        assert [event.topic for event in database.read(0, 10)] == ["memory/changed"]
        assert (database.is_new, database.same_version) == (False, False)
        (kept,) = database.known
        snapshot = kept.snapshot
        assert (snapshot.directory, kept.first_seen_ms, kept.changed_ms, kept.gone_ms) == ("/m", 10, 20, None)
        assert (snapshot.facts["a.md"].name, snapshot.facts["a.md"].content_hash) == ("a", "c")
        assert snapshot.facts["a.md"].stat.size == -1
        assert snapshot.index is not None
        assert [entry.target for entry in snapshot.index.entries] == ["a.md"]
        assert database.dismissed() == {"k:1"}
        assert database.allowed() == {"/allowed"}
        assert database.cwds() == {"/home/u/app"}
        assert database.session_rows() == (["{}"] if schema == 2 else [])
        assert len(database.temps()) == (schema == 2)
        assert [row[0] for row in database.query("select saved from versions")] == (
            [3] if schema == 2 else []
        )
        assert database.query("select count(*) from gone") == [(0,)]
    assert content(path)[0] == SCHEMA_VERSION
    with contextlib.closing(Database(str(path), "boot-1", "9")) as again:
        assert again.same_version


def test_steps_lead_to_what_is_made_anew(tmp_path):
    """A database that went all the way has the tables and columns of one that was made today."""

    def shape(path):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return sorted(connection.execute("select type, name, sql from sqlite_master"), key=str)

    made = []
    for schema in (0, 1, 2):
        path = tmp_path / f"{schema}.db"
        if schema:
            old(path, schema)
        Database(str(path), "boot-1", "9").close()
        made.append(shape(path))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("schema", [1, 2])
def test_a_kill_within_the_upgrade_leaves_the_old(tmp_path, schema):
    """It is one transaction: whoever opens it next, old version or new, finds a whole database."""
    path = tmp_path / "state.db"
    old(path, schema)
    before = content(path)
    script = (
        "import os, signal, sys\n"
        "from zcsyncd.daemon import database\n"
        "def connect(path, real=database.connect):\n"
        "    made = real(path)\n"
        "    made.create_function('die', 0, lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
        "    return made\n"
        "database.connect = connect\n"
        "database._GONE_SCHEMA += ';pragma user_version=3;select die()'\n"
        "database.Database(sys.argv[1], 'boot-1', '9')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    assert content(path) == before
    with contextlib.closing(Database(str(path), "boot-1", "9")) as database:
        assert database.recovered_from is None
        assert len(database.known) == 1


def test_an_upgrade_that_fails_leaves_the_old(tmp_path, monkeypatch):
    """A disk that takes no more in the midst of it: told, and nothing is changed or put aside."""
    path = tmp_path / "state.db"
    old(path, 1)
    before = content(path)
    monkeypatch.setattr(
        module, "_GONE_SCHEMA", "pragma max_page_count=1;create table big as select zeroblob(9999999)"
    )
    with pytest.raises(Unreadable, match="full"):
        Database(str(path), "boot-1", "9")
    assert content(path) == before
    assert not list(tmp_path.glob("*broken*"))


@pytest.mark.parametrize("killed", [False, True])
def test_a_newer_schema_is_refused_unharmed(tmp_path, killed):
    """Byte for byte, even when its writer was killed and its last word lies in the log beside it."""
    path = tmp_path / "state.db"
    script = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('pragma journal_mode=wal')\n"
        "c.execute('create table what_is_new (a)')\n"
        "c.execute('pragma user_version=99')\n"
        "if sys.argv[2] == 'True': os._exit(0)\n"
        "c.close()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path), str(killed)], timeout=30, check=True)
    before = files_of(path)
    assert (f"{path.name}-wal" in before) is killed
    with pytest.raises(ConfigError, match=r"newer zcsyncd \(schema 99") as caught:
        Database(str(path), "boot-1", "9")
    assert caught.value.exit_code == 2
    assert caught.value.hint is not None
    assert files_of(path) == before
    found = look_at(str(path))
    assert found is not None
    assert (found.schema, found.damage, found.is_whole) == (99, 0, True)
    assert files_of(path) == before


def test_a_daemon_does_not_start_on_a_newer_one(tmp_path):
    """`run` ends with 2 and says what to do; the file is as it was."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute("pragma user_version=99")
    before = files_of(state / "state.db")
    done = subprocess.run(
        [sys.executable, "-m", "zcsyncd", "run"],
        cwd=ROOT,
        env={**os.environ, "ZCSYNCD_STATE_DIR": str(state), "ZCSYNCD_RUNTIME_DIR": str(tmp_path / "r")},
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "newer zcsyncd" in done.stderr
    assert "update zcsyncd" in done.stderr
    assert files_of(state / "state.db") == before


def test_a_look_at_a_database(tmp_path):
    """Size, schema and complaints, with nothing changed; None where there is none, an error where it is no database."""
    path = tmp_path / "state.db"
    assert look_at(str(path)) is None
    Database(str(path), "boot-1", "9").close()
    before = files_of(path)
    found = look_at(str(path))
    assert found is not None
    assert (found.schema, found.damage, found.is_whole) == (SCHEMA_VERSION, 0, True)
    assert found.size_bytes == path.stat().st_size
    assert files_of(path) == before
    with contextlib.closing(Database(str(path), "boot-1", "9")):
        alive = look_at(str(path))
        assert alive is not None
        assert alive.damage == 0
    path.write_bytes(path.read_bytes()[:8192] + os.urandom(20_000))
    with contextlib.suppress(Unreadable):
        damaged = look_at(str(path))
        assert damaged is not None
        assert damaged.damage
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unreadable, match="cannot be read"):
        look_at(str(path))


def test_what_this_sqlite_can():
    """Its version, and whether it searches."""
    version, can_search = abilities()
    assert version == sqlite3.sqlite_version
    assert can_search in (True, False)
