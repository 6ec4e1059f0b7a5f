"""What files were: saved versions in a real database, filled by the river and asked for by number."""

import contextlib
import itertools
import os
import sqlite3
import zlib

import pytest

from tests.daemon.bed import good
from zcsyncd.daemon.database import Database, NewEvent, Transaction, transaction
from zcsyncd.daemon.forgetting import purge, tidy
from zcsyncd.daemon.history import Cause, Held, History
from zcsyncd.daemon.keeping import Keeping

ENTRY = "- [A](a.md) — what\n"


def digest(text):
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


class Shelf:
    """A history of one directory, changed by hand."""

    def __init__(self, path, **options):
        self.database = Database(str(path / "state.db"), "boot", "1")
        self.history = History(self.database, **({"enabled": True, "most_versions": 20} | options))
        self.now = {}
        self.clock = itertools.count(1_000)

    def become(self, text, file="a.md", batch=None, by=None, directory="/m"):
        work = Transaction()
        was, now = (
            self.now.get((directory, file)),
            None if text is None else Held(digest(text), len(text), 7_000_000),
        )
        cause = Cause("updated" if batch is None else "write", next(self.clock), by, batch)
        content = None if text is None else text.encode()
        self.history.replaced(work, directory, file, was=was, now=now, content=content, cause=cause)
        self.now[directory, file] = now
        self.database.commit(work)
        self.history.settled()

    def texts(self, file="a.md"):
        found = self.history.versions("/m", file, 100)
        return [self.history.bytes_of(v.hash).decode() if v.hash else None for v in found]


@pytest.fixture
def shelf(tmp_path):
    made = []

    def make(**options):
        made.append(Shelf(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.database.close()


def test_each_content_before_a_change_is_had_back(shelf):
    """The newest first; what the file has now is no former version."""
    one = shelf()
    for text in ("1", "2", "3", None):
        one.become(text)
    assert one.texts() == ["3", "2", "1"]


def test_equal_bytes_are_saved_once(shelf):
    """A file that goes back and forth has two versions, which keep their numbers; equal files share the bytes."""
    one = shelf()
    for text in ("A", "B", "A", "B", "A"):
        one.become(text)
    first = {v.hash: v.saved for v in one.history.versions("/m", "a.md", 100)}
    assert one.texts() == ["B", "A"]
    one.become("B")
    assert {v.hash: v.saved for v in one.history.versions("/m", "a.md", 100)} == first
    one.become("A", file="b.md")
    assert one.database.query("select count(*) from contents") == [(2,)]


def test_so_many_versions_of_a_file_and_no_more(shelf):
    """The oldest go; what the file has now is not counted."""
    one = shelf(most_versions=3)
    for number in range(6):
        one.become(str(number))
    assert one.texts() == ["4", "3", "2"]
    assert one.history.current("/m") == {"a.md": digest("5")}


def test_an_act_of_ours_is_found_as_one(shelf):
    """All files of the last act, one that it made included, with what they became."""
    one = shelf()
    one.become("old index", file="MEMORY.md")
    batch = one.history.begin_batch()
    one.become("fact", file="b.md", batch=batch)
    one.become("new index", file="MEMORY.md", batch=batch, by=("pi", "s1"))
    told = {v.file: (v.hash, v.became, v.size) for v in one.history.last_batch("/m")}
    assert told == {
        "b.md": (None, digest("fact"), 0),
        "MEMORY.md": (digest("old index"), digest("new index"), 9),
    }
    one.become("newer index", file="MEMORY.md")
    assert one.history.versions("/m", "MEMORY.md", 1)[0].by == ("pi", "s1")


def test_switched_off_nothing_is_saved(shelf):
    """Not a byte."""
    one = shelf(enabled=False)
    one.become("1")
    one.become("2")
    assert one.database.query("select count(*) from versions") == [(0,)]
    assert one.database.query("select count(*) from contents") == [(0,)]


def test_age_takes_former_versions_only(shelf):
    """What the file has now stays, however long ago it was saved."""
    one = shelf()
    for text in ("1", "2", "3"):
        one.become(text)
    one.become("x", file="b.md")
    tidied = tidy(one.database.path, most_bytes=1 << 30, oldest_ms=1 << 50)
    assert one.texts() == []
    assert one.history.current("/m").keys() == {"a.md", "b.md"}
    assert not tidied.is_full
    assert one.database.query("select count(*) from contents") == [(2,)]


def test_room_takes_the_oldest_former_versions_first(shelf):
    """Until the contents fit; a file's number of versions does not matter."""
    one = shelf()
    noise = [os.urandom(3_000).hex() for _ in range(8)]
    for text in noise:
        one.become(text)
    one.become("x", file="b.md")
    whole = tidy(one.database.path, most_bytes=1 << 30, oldest_ms=0).stored_bytes
    over = sum(len(zlib.compress(text.encode())) for text in noise[:2])
    tidied = tidy(one.database.path, most_bytes=whole - over, oldest_ms=0)
    assert one.texts() == noise[-2:1:-1]
    assert not tidied.is_full


def test_what_the_files_have_now_goes_last(shelf):
    """Only when it is more than the room by itself; then it is told."""
    one = shelf()
    for name in "abcd":
        one.become(os.urandom(3_000).hex(), file=f"{name}.md")
    tidied = tidy(one.database.path, most_bytes=7_000, oldest_ms=0)
    assert tidied.is_full
    assert tidied.stored_bytes <= 7_000
    assert one.history.current("/m").keys() == {"c.md", "d.md"}


def test_damaged_bytes_are_told(shelf):
    """Never given out as something else."""
    from zcsyncd.errors import ZcsyncdError

    one = shelf()
    one.become("1")
    with sqlite3.connect(one.database.path) as connection:
        connection.execute("update contents set data = x'00'")
    connection.close()
    with pytest.raises(ZcsyncdError, match="damaged"):
        one.history.bytes_of(digest("1"))


def test_a_purge_takes_one_file_or_all_or_what_is_old(shelf):
    """It tells how many; other files of other directories keep theirs."""
    one = shelf()
    for text in ("1", "2"):
        one.become(text)
        one.become(text, file="b.md")
        one.become(text, directory="/other")
    path = one.database.path
    assert purge(path, "/m", "a.md", before_ms=None, current=False) == 1
    assert one.texts() == []
    assert one.history.current("/m").keys() == {"a.md", "b.md"}
    assert purge(path, "/m", "b.md", before_ms=0, current=False) == 0
    assert purge(path, "/m", None, before_ms=None, current=True) == 3
    assert one.history.current("/m") == {}
    assert len(one.history.versions("/other", None, 10)) == 1


# -- by the river


def test_the_river_saves_what_was_before_each_change(bed):
    """Another pen's changes: the bytes before, the reason, the time that the file had."""
    memory = bed.memory()
    memory.save("MEMORY.md", ENTRY)
    memory.save("a.md", good(body="one"))
    keeping = Keeping(bed.store)

    async def story():
        await bed.start()
        await keeping.finish()
        memory.save("a.md", good(body="two"))
        await bed.tell(memory.event("a.md"))
        os.unlink(memory.path("a.md"))
        await bed.tell(memory.event("a.md"))
        history = bed.store.memory.history
        found = history.versions(memory.dir, "a.md", 10)
        assert [v.reason for v in found] == ["deleted", "updated"]
        assert [history.bytes_of(v.hash).decode() for v in found] == [good(body="two"), good(body="one")]
        assert history.current(memory.dir).keys() == {"MEMORY.md"}

    bed.play(story)


def test_a_rename_is_a_version_of_the_old_name(bed):
    """And what the new name has now is saved."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        await Keeping(bed.store).finish()
        os.rename(memory.path("a.md"), memory.path("b.md"))
        await bed.tell(memory.event("a.md", "b.md"))
        assert [(v.file, v.reason) for v in bed.store.memory.history.versions(memory.dir, None, 9)] == [
            ("a.md", "renamed")
        ]
        assert bed.store.memory.history.current(memory.dir).keys() == {"b.md"}

    bed.play(story)


def test_equal_bytes_that_are_saved_are_not_read_again(bed, monkeypatch):
    """After a start only what differs is opened."""
    memory = bed.memory()
    for name in "abc":
        memory.save(f"{name}.md", good(name=name))

    async def story():
        await bed.start()
        await Keeping(bed.store).finish()
        memory.save("b.md", good(body="other"))
        bed.store.memory.history.enabled = False  # as if it had been changed while nobody looked
        await bed.tell(memory.event("b.md"))
        bed.store.memory.history.enabled = True
        opened = []
        import zcsyncd.daemon.keeping as module

        real = module.read_file
        monkeypatch.setattr(module, "read_file", lambda where, file: opened.append(file) or real(where, file))
        await Keeping(bed.store).finish()
        assert opened == ["b.md"]
        assert bed.store.memory.history.current(memory.dir)["b.md"] == digest(good(body="other"))

    bed.play(story)


def test_a_full_disk_delays_what_is_saved(bed):
    """The directory is remembered, and its bytes are saved when the disk takes them."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        bed.database.full = True
        await Keeping(bed.store).finish()
        assert bed.store.memory.history.current(memory.dir) == {}
        bed.database.full = False
        await Keeping(bed.store).finish()
        assert bed.store.memory.history.current(memory.dir).keys() == {"a.md"}

    bed.play(story)


def test_a_directory_that_is_gone_keeps_its_former_versions(bed):
    """They can be restored; nothing of it is current, and none of its words are found."""
    memory = bed.memory()
    memory.save("a.md", good(body="needle"))

    async def story():
        await bed.start()
        await Keeping(bed.store).finish()
        assert [f.file for f in bed.store.memory.finder.find("needle", None, 5)] == ["a.md"]
        memory.remove()
        await bed.tell(memory.event(whole=True, lost=True))
        assert [v.file for v in bed.store.memory.history.versions(memory.dir, None, 9)] == ["a.md"]
        assert bed.store.memory.history.current(memory.dir) == {}
        assert bed.store.memory.finder.find("needle", None, 5) == []

    bed.play(story)


# -- steps


def test_a_purge_leaves_the_loop_its_turns(shelf, monkeypatch):
    """Between any two of its steps the loop answers and commits, and no step touches more than a bounded number of rows."""
    import asyncio

    from zcsyncd.daemon import forgetting

    one = shelf(most_versions=5_000)
    work = Transaction()
    for number in range(1_000):
        one.history.put_aside(
            work, "/m", f"n{number % 7}.md", f"text {number}".encode(), mtime_ns=0, at_ms=number
        )
        work.tell(NewEvent("memory/changed", "/m", '{"changes":[{"file":"n1.md","name":"x"}]}', 1))
    one.database.commit(work)
    loop = asyncio.new_event_loop()
    answered = []

    async def ping():
        step = Transaction()
        step.learn_cwd(f"/cwd/{len(answered)}", 1)
        one.database.commit(step)
        answered.append(len(answered))

    @contextlib.contextmanager
    def watched(connection):
        before = connection.total_changes
        with transaction(connection):
            yield
        assert connection.total_changes - before <= 3 * forgetting.STEP
        asyncio.run_coroutine_threadsafe(ping(), loop).result(20)

    monkeypatch.setattr(forgetting, "transaction", watched)
    removed = loop.run_until_complete(
        asyncio.to_thread(purge, one.database.path, "/m", None, before_ms=None, current=True)
    )
    loop.close()
    assert removed == 1_000
    assert len(answered) >= 10
    assert one.database.query("select count(*) from contents") == [(0,)]
    assert len(one.database.cwds()) == len(answered)


@pytest.mark.parametrize("by", ["age", "room"])
def test_an_act_that_loses_a_part_by_tidying_is_not_taken_back(shelf, by):
    """Its other half stays as a version; it is noted that the act is broken, and only of the last act."""
    one = shelf()
    for text in ("1", "2"):
        one.become(text, batch=one.history.begin_batch() if text == "2" else None)
    batch = one.history.begin_batch()
    one.become("3", batch=batch)
    one.clock = itertools.count(5_000)
    one.become("- [A](a.md)", file="MEMORY.md")
    one.become("- [A](a.md)\n- [B](b.md)", file="MEMORY.md", batch=batch)
    assert one.history.broken_act("/m") is None
    taken = one.database.query("select sum(length(data)) from contents")[0][0]
    most = taken - 1 if by == "room" else 1 << 30
    tidy(one.database.path, most_bytes=most, oldest_ms=2_000 if by == "age" else 0)
    if by == "room":  # the first act's version went, which is not the last one
        assert one.history.broken_act("/m") is None
        tidy(one.database.path, most_bytes=most - 12, oldest_ms=0)
    broken = one.history.broken_act("/m")
    assert (broken.reason, broken.unkept) == ("purged", ())
    assert [version.file for version in one.history.last_batch("/m")] == ["MEMORY.md"]
    assert all(version.file for version in one.history.versions("/m", None, 100))
