"""The journal and the last snapshots: a real SQLite file each."""

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from zcsyncd.daemon.database import (
    Database,
    JournalRefused,
    NewEvent,
    Transaction,
    check_point,
    drop_events,
    plan_retention,
)
from zcsyncd.daemon.docket import FindingRow
from zcsyncd.errors import ConfigError, Unreadable
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.fact import Fact, FileStat, Remark
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot

FACT = Fact(
    file="sub/ä.md",
    stat=FileStat(1, 2, 3, 4),
    read_at_ns=5,
    content_hash="c",
    encoding="utf-8",
    name="名",
    description=None,
    type="user",
    malformed=False,
    meaning_hash="m",
    links=("a", "b"),
    references=("x.md",),
    symlink=False,
    listed=True,
    remarks=(Remark("description-missing", "says", 3, "hint", None),),
)
INDEX = Index(
    file="MEMORY.md",
    stat=FileStat(1, 2, 3, 4),
    read_at_ns=5,
    content_hash="c",
    encoding="utf-8",
    text_hash="t",
    lines=1,
    units=2,
    truncated=True,
    entries=(Entry("a.md", "A", "hook", 1), Entry("b.md", "B", "", 2, hidden=True)),
    beyond=("b.md",),
    swallowed=(),
    remarks=(Remark("entry-inline", "says"),),
)
ODD = "/m/caf\udce9-\ud83d"  # a name that is not UTF-8, and a lone surrogate from JSON


@pytest.fixture
def opened(tmp_path):
    """Open the database; every one is closed at the end."""
    made = []

    def opener(boot="boot-1", version="1"):
        made.append(Database(str(tmp_path / "state.db"), boot, version))
        return made[-1]

    yield opener
    for database in made:
        try:
            database.close()
        except sqlite3.ProgrammingError:  # closed by the test
            pass


def told(*topics):
    work = Transaction()
    for topic in topics:
        work.tell(NewEvent(topic, "/m", '{"n":1}', 1000))
    return work


def saved(snapshot, before=None):
    work = Transaction()
    work.save_directory(snapshot, 10, 20)
    work.save_files(before, snapshot)
    return work


def test_events_are_numbered_in_order(opened):
    """One strictly increasing sequence; what `commit` gives is what `read` gives."""
    database = opened()
    first = database.commit(told("a", "b"))
    second = database.commit(told("c"))
    assert [event.sequence for event in (*first, *second)] == [1, 2, 3]
    assert database.read(0, 10) == [*first, *second]
    assert database.read(1, 1) == [first[1]]
    assert (database.head, database.oldest) == (3, 1)


def test_the_file_is_private(opened):
    """A person's names of facts are in it: nobody else reads it, nor its WAL."""
    database = opened()
    database.commit(told("a"))
    for ending in ("", "-wal", "-shm"):
        assert stat.S_IMODE(os.stat(database.path + ending).st_mode) == 0o600


def test_snapshots_come_back_as_they_were(opened):
    """Every field of facts, index and directory survives, also names that are not UTF-8."""
    odd_fact = Fact(**{**{name: getattr(FACT, name) for name in FACT.__slots__}, "file": "caf\udce9.md"})
    snapshot = Snapshot(ODD, "zcode", INDEX, {FACT.file: FACT, odd_fact.file: odd_fact}, {}, folds_case=True)
    database = opened()
    database.commit(saved(snapshot))
    database.close()
    (kept,) = opened().known
    assert kept.snapshot == snapshot
    assert (kept.first_seen_ms, kept.changed_ms) == (10, 20)


def test_only_what_differs_is_written(opened):
    """A change of one fact writes one fact; a deletion takes its row."""
    other = Fact(**{**{name: getattr(FACT, name) for name in FACT.__slots__}, "file": "b.md"})
    before = Snapshot("/m", "zcode", INDEX, {FACT.file: FACT, "b.md": other})
    database = opened()
    database.commit(saved(before))
    changed = Fact(**{**{name: getattr(FACT, name) for name in FACT.__slots__}, "name": "new"})
    work = saved(Snapshot("/m", "zcode", INDEX, {FACT.file: changed}), before)
    assert len(work.statements) == 3  # the directory's row, the changed fact, the gone one
    database.commit(work)
    database.close()
    (kept,) = opened().known
    assert kept.snapshot.facts == {FACT.file: changed}


def test_another_version_distrusts_what_it_finds(opened):
    """Another version reads every file again: no stat fits, the hashes stay."""
    database = opened(version="1")
    database.commit(saved(Snapshot("/m", "zcode", INDEX, {FACT.file: FACT})))
    database.close()
    (kept,) = opened(version="2").known
    assert kept.snapshot.facts[FACT.file].stat.mtime_ns == -1
    assert kept.snapshot.facts[FACT.file].content_hash == "c"
    assert kept.snapshot.index.stat.mtime_ns == -1


def test_findings_and_dismissals_are_remembered(opened):
    """Since when, whether told, and what was said; dismissals, allowed directories, working directories."""
    row = FindingRow(
        7, True, Finding("k", "entry-dangling", "error", "MEMORY.md", "a.md", 3, "m", "h", True, True)
    )
    work = saved(Snapshot("/m", "zcode"))
    work.save_finding("/m", "k", row)
    work.dismiss("k2", "/m", 5, undo=False)
    work.allow("/else", 5, allowed=True)
    work.learn_cwd("/home/u/app", 5)
    database = opened()
    database.commit(work)
    database.close()
    again = opened()
    (kept,) = again.known
    assert kept.findings == {"k": row}
    assert (again.dismissed(), again.allowed(), again.cwds()) == ({"k2"}, {"/else"}, {"/home/u/app"})
    work = Transaction()
    work.dismiss("k2", "/m", 6, undo=True)
    work.allow("/else", 6, allowed=False)
    work.drop_directory("/m")
    again.commit(work)
    assert (again.dismissed(), again.allowed()) == (set(), set())
    again.close()
    assert opened().known == ()


def test_a_failing_transaction_writes_nothing(opened):
    """All or nothing: no event, no number."""
    database = opened()
    work = told("a")
    work.statements.append(("insert into no_such_table values (1)", ()))
    with pytest.raises(JournalRefused):
        database.commit(work)
    assert (database.head, database.read(0, 10)) == (0, [])
    assert [event.sequence for event in database.commit(told("b"))] == [1]


def test_the_journal_goes_on_after_a_clean_stop(opened):
    """Same id, next number; it is not new."""
    database = opened()
    assert database.is_new
    work = told("a")
    work.note_adopted()
    database.commit(work)
    journal_id = database.journal_id
    database.close()
    again = opened(boot="boot-2")
    assert (again.journal_id, again.head, again.is_new) == (journal_id, 1, False)


def test_kill_minus_nine_loses_nothing(tmp_path):
    """What `commit` returned for is there after SIGKILL, under the same id in the same boot."""
    path = str(tmp_path / "state.db")
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from zcsyncd.daemon.database import *\n"
            "d = Database(sys.argv[1], 'boot-1', '1')\n"
            "for n in range(100):\n"
            "    w = Transaction(); w.tell(NewEvent('t', '/m', '{}', n)); d.commit(w)\n"
            "print(d.journal_id, flush=True)\n"
            "time.sleep(60)\n",
            path,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    journal_id = child.stdout.readline().strip()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    database = Database(path, "boot-1", "1")
    assert (database.journal_id, database.head) == (journal_id, 100)
    assert len(database.read(0, 1000)) == 100
    database.close()


def test_an_unclean_stop_and_another_boot_begin_a_new_journal(opened):
    """Commits may be lost then, so no number is given twice under the same id."""
    database = opened("boot-1")
    work = told("a")
    work.note_adopted()
    database.commit(work)
    journal_id = database.journal_id
    database._connection.close()  # no clean stop
    again = opened("boot-2")
    assert again.journal_id != journal_id
    assert again.read(0, 10) == []
    assert not again.is_new


def test_a_newer_file_is_refused_unharmed(opened, tmp_path):
    """What a newer version wrote is left byte for byte, and the person is told what to do."""
    opened().close()
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("pragma user_version=99")
    connection.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(ConfigError, match="newer zcsyncd"):
        opened()
    assert (tmp_path / "state.db").read_bytes() == before


def test_a_broken_file_is_kept_aside(opened, tmp_path):
    """Garbage is moved away for a person to look at, and a new journal begins."""
    (tmp_path / "state.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    database = opened()
    assert database.is_new
    assert database.recovered_from is not None
    assert os.path.getsize(database.recovered_from) == 5100
    if sys.platform == "linux":
        # Whoever still holds it open would keep Windows from moving it.
        held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert database.recovered_from not in held


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"max_events": 3}, [1998, 1999, 2000]),
        ({"oldest_ms": 1995}, list(range(1995, 2001))),
        ({"max_bytes": 350}, [1998, 1999, 2000]),
        ({"max_events": 0}, []),
    ],
)
def test_retention_drops_the_oldest(opened, limits, left):
    """By number, by age, by size; numbers are never given twice, also when nothing is left."""
    database = opened()
    work = Transaction()
    for n in range(1, 2001):
        work.tell(NewEvent("t", "/m", "{}", n))
    database.commit(work)
    upto = plan_retention(
        database.path, **{"max_events": 10**6, "max_bytes": 10**9, "oldest_ms": 0, **limits}
    )
    database.forget_upto(upto)
    assert drop_events(database.path, upto) == 2000 - len(left)
    assert [event.sequence for event in database.read(0, 10)] == left
    assert database.oldest == (left[0] if left else 2001)
    database.close()
    again = opened()
    assert again.commit(told("next"))[0].sequence == 2001


def test_retention_of_an_empty_journal(opened):
    """Nothing to drop is no error."""
    assert plan_retention(opened().path, max_events=1, max_bytes=1, oldest_ms=10**15) == 0
    assert drop_events(opened().path, 5) == 0


def test_a_check_point_folds_the_log_into_the_file(opened, tmp_path):
    """The WAL does not grow for ever."""
    database = opened()
    for _ in range(50):
        database.commit(told("a"))
    check_point(database.path)
    with sqlite3.connect(f"file:{tmp_path}/state.db?mode=ro&immutable=1", uri=True) as connection:
        assert connection.execute("select count(*) from events").fetchone() == (50,)
    connection.close()


def test_a_first_scan_that_did_not_end_leaves_the_state_new(opened):
    """Killed in its first scan, the daemon adopts the rest in silence when it starts again."""
    database = opened()
    database.commit(saved(Snapshot("/m", "zcode", INDEX, {FACT.file: FACT})))
    database.close()
    assert opened().is_new


@pytest.mark.parametrize(
    "damage", ["update facts set row = '[]'", "update indexes set row = 'x'", "drop table findings"]
)
def test_rows_that_cannot_be_read_are_a_broken_file(opened, damage):
    """What is no row of ours is put aside like a broken file, and the daemon starts."""
    database = opened()
    database.commit(saved(Snapshot("/m", "zcode", INDEX, {FACT.file: FACT})))
    database._connection.execute(damage)
    database.close()
    again = opened()
    if damage.startswith("drop"):
        assert again.recovered_from is not None or again.known == ()
    else:
        assert (again.recovered_from is not None, again.known, again.is_new) == (True, (), True)


def test_a_place_that_cannot_be_opened_is_told(tmp_path):
    """A directory under the file's name: what, where, what to do."""
    (tmp_path / "state.db").mkdir()
    with pytest.raises(Unreadable, match="cannot be opened"):
        Database(str(tmp_path / "state.db"), "boot-1", "1")


def test_a_file_of_the_schema_before_is_brought_up_to_date(opened):
    """One that knows no directories that are gone keeps all that it holds, and learns them."""
    database = opened()
    snapshot = Snapshot("/m", "zcode", INDEX, {FACT.file: FACT})
    database.commit(saved(snapshot))
    path = database.path
    database.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("drop table gone")
        connection.execute("pragma user_version = 2")
        connection.commit()
    again = opened()
    (kept,) = again.known
    assert (kept.snapshot.facts[FACT.file].content_hash, kept.gone_ms) == (FACT.content_hash, None)
    work = Transaction()
    work.leave_directory(snapshot, 77)
    again.commit(work)
    again.close()
    (kept,) = opened().known
    assert (kept.snapshot, kept.gone_ms) == (snapshot, 77)
