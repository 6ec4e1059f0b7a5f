"""A real directory to a Snapshot."""

import os
import socket
import time

import pytest

from zcsyncd.errors import NotFound, Refused, Unreadable
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory import disk
from zcsyncd.memory.changes import changes
from zcsyncd.memory.disk import discover, look, read_file, read_snapshot

FACT = "---\nname: {0}\ndescription: about {0}\nmetadata:\n  node_type: memory\n  type: user\n---\n\nbody\n"
OLD_NS = 1_700_000_000_000_000_000


@pytest.fixture
def memory(tmp_path):
    """A directory with an index and two facts, old enough for their times to tell."""
    directory = tmp_path / "memory"
    directory.mkdir()
    for name in ("a", "b"):
        (directory / f"{name}.md").write_text(FACT.format(name))
    (directory / "MEMORY.md").write_text("- [a](a.md) — about a\n- [b](b.md) — about b\n")
    return directory


def finish(slices):
    """Run a look to its end; give the Reading and the number of slices."""
    count = 0
    while True:
        try:
            next(slices)
            count += 1
        except StopIteration as done:
            return done.value, count


def glance(directory, before=None, **how):
    return finish(look(str(directory), ZCODE, before, **how))[0]


def aged(snapshot):
    """Give a snapshot whose files were old when they were read."""
    import dataclasses

    def old(file):
        return dataclasses.replace(file, read_at_ns=file.read_at_ns + 10**12)

    return dataclasses.replace(
        snapshot,
        index=old(snapshot.index) if snapshot.index else None,
        facts={name: old(fact) for name, fact in snapshot.facts.items()},
    )


def test_reads_index_and_facts(memory):
    """Facts by relative name, the index apart."""
    (memory / "sub").mkdir()
    (memory / "sub" / "c.md").write_text(FACT.format("c"))
    (memory / "sub" / "MEMORY.md").write_text("- [x](x.md)\n")
    snapshot = read_snapshot(str(memory), ZCODE)
    assert sorted(snapshot.facts) == ["a.md", "b.md", "sub/c.md"]
    assert [entry.target for entry in snapshot.index.entries] == ["a.md", "b.md"]
    assert snapshot.facts["a.md"].description == "about a"


def test_no_directory_is_none(tmp_path):
    """Nothing there: None; a file in its place: None."""
    assert read_snapshot(str(tmp_path / "none"), ZCODE) is None
    (tmp_path / "file").write_text("x")
    assert read_snapshot(str(tmp_path / "file"), ZCODE) is None


def test_an_unchanged_file_is_not_read_again(memory):
    """A scan reads only files whose stat differs, and shares the rest."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "b.md").write_text(FACT.format("other"))
    reading = glance(memory, before)
    assert reading.read == 1
    assert reading.snapshot.facts["a.md"] is before.facts["a.md"]
    assert reading.snapshot.facts["b.md"].name == "other"


def test_a_file_that_was_young_is_read_again(memory):
    """Written less than two seconds before it was read: its time may lie."""
    before = read_snapshot(str(memory), ZCODE)
    assert glance(memory, before).read == 3


def test_a_named_file_is_read_whatever_its_stat_says(memory):
    """Same size and time, other bytes: an event is enough."""
    path = memory / "a.md"
    before = aged(read_snapshot(str(memory), ZCODE))
    status = path.stat()
    path.write_text(FACT.format("z"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    reading = glance(memory, before, named=frozenset({str(path)}))
    assert reading.read == 1
    assert reading.snapshot.facts["a.md"].name == "z"
    assert reading.snapshot.facts["b.md"] is before.facts["b.md"]


def test_a_named_file_that_is_gone(memory):
    """A deletion is believed after a stat."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "a.md").unlink()
    after = glance(memory, before, named=frozenset({str(memory / "a.md")})).snapshot
    assert sorted(after.facts) == ["b.md"]
    assert sorted(before.facts) == ["a.md", "b.md"]


def test_a_named_index_that_is_gone(memory):
    """The index can go too."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "MEMORY.md").unlink()
    assert glance(memory, before, named=frozenset({str(memory / "MEMORY.md")})).snapshot.index is None


def test_a_named_directory_makes_it_a_look_at_everything(memory):
    """A subdirectory that was moved in brings all its files."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "sub").mkdir()
    (memory / "sub" / "c.md").write_text(FACT.format("c"))
    after = glance(memory, before, named=frozenset({str(memory / "sub")})).snapshot
    assert sorted(after.facts) == ["a.md", "b.md", "sub/c.md"]


def test_a_named_file_in_a_directory_that_is_gone(memory):
    """The whole directory went: None, not an empty one."""
    before = aged(read_snapshot(str(memory), ZCODE))
    for path in memory.iterdir():
        path.unlink()
    memory.rmdir()
    assert glance(memory, before, named=frozenset({str(memory / "a.md")})) is None


def test_odd_files_are_strays(memory):
    """FIFO, socket, directory called x.md, broken link, temp file, lock: none is read, none blocks."""
    os.mkfifo(memory / "fifo.md")
    (memory / "dir.md").mkdir()
    (memory / "dir.md" / "inner.md").write_text(FACT.format("inner"))
    (memory / "gone.md").symlink_to("nowhere")
    (memory / "loop.md").symlink_to("loop.md")
    (memory / "a.md.tmp.123.0123456789ab").write_text("half")
    (memory / ".lock.lock").write_text("1")
    (memory / "note.txt").write_text("x")
    (memory / "linked").symlink_to(memory / "dir.md")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(memory / "sock.md"))
        snapshot = read_snapshot(str(memory), ZCODE)
    assert {file: stray.kind for file, stray in snapshot.strays.items()} == {
        "fifo.md": "special",
        "sock.md": "special",
        "dir.md": "special",
        "gone.md": "broken-link",
        "loop.md": "broken-link",
        "a.md.tmp.123.0123456789ab": "temp",
        ".lock.lock": "lock",
        "note.txt": "other-file",
        "linked": "symlinked-directory",
    }
    assert sorted(snapshot.facts) == ["a.md", "b.md", "dir.md/inner.md"]


def test_a_named_path_through_a_symlinked_directory_is_not_read(memory, tmp_path):
    """A symlinked directory is not entered, not even by name."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text(FACT.format("x"))
    (memory / "linked").symlink_to(tmp_path / "elsewhere")
    before = aged(read_snapshot(str(memory), ZCODE))
    after = glance(memory, before, named=frozenset({str(memory / "linked" / "x.md")})).snapshot
    assert sorted(after.facts) == ["a.md", "b.md"]


def test_a_symlinked_fact_is_read_and_marked(memory, tmp_path):
    """ZCode lists file symlinks, so we do; rules may speak of them."""
    (tmp_path / "outside.md").write_text(FACT.format("outside"))
    (memory / "link.md").symlink_to(tmp_path / "outside.md")
    fact = read_snapshot(str(memory), ZCODE).facts["link.md"]
    assert (fact.name, fact.symlink) == ("outside", True)


def test_a_file_over_five_mebibytes_is_unreadable(memory):
    """Not read, not empty: a fact (or index) with a remark."""
    with (memory / "a.md").open("r+b") as file:
        file.truncate(5 * 1024 * 1024 + 1)
    with (memory / "MEMORY.md").open("r+b") as file:
        file.truncate(5 * 1024 * 1024 + 1)
    snapshot = read_snapshot(str(memory), ZCODE)
    assert snapshot.facts["a.md"].content_hash is None
    assert [remark.code for remark in snapshot.facts["a.md"].remarks] == ["fact-unreadable"]
    assert [remark.code for remark in snapshot.index.remarks] == ["index-unreadable"]


def test_five_mebibytes_of_index_are_read(memory):
    """At the bound it is still an index."""
    line = b"- [a](a.md) \xe2\x80\x94 x\n"
    (memory / "MEMORY.md").write_bytes((line * (5 * 1024 * 1024 // len(line))).ljust(5 * 1024 * 1024, b"\n"))
    index = read_snapshot(str(memory), ZCODE).index
    assert index.content_hash is not None
    assert index.truncated


def test_an_empty_index_is_held_back_until_it_is_believed(memory):
    """Size 0 may be the middle of a write: what was known stays, and the path is told as held."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "MEMORY.md").write_text("")
    path = str(memory / "MEMORY.md")
    for named in (None, frozenset({path})):
        reading = glance(memory, before, named=named, believe_empty=lambda *_: False)
        assert reading.snapshot.index is before.index
        assert reading.held == (path,)
    reading = glance(memory, before, named=frozenset({path}), believe_empty=lambda *_: True)
    assert reading.snapshot.index.stat.size == 0
    assert reading.held == ()


def test_an_index_known_to_be_empty_is_not_held(memory):
    """It was believed before; nobody asks again."""
    (memory / "MEMORY.md").write_text("")
    before = read_snapshot(str(memory), ZCODE)
    assert glance(memory, before, believe_empty=lambda *_: False).held == ()


def test_a_scan_holds_back_what_is_being_written(memory):
    """A scan that falls into a write keeps what was known; the path comes due again."""
    before = aged(read_snapshot(str(memory), ZCODE))
    (memory / "a.md").write_text("")
    (memory / "new.md").write_text("ha")
    reading = glance(memory, before, settled_ns=10**12)
    assert reading.snapshot.facts["a.md"] is before.facts["a.md"]
    assert "new.md" not in reading.snapshot.facts
    assert sorted(reading.held) == [str(memory / "a.md"), str(memory / "new.md")]
    assert "new.md" in glance(memory, before, named=frozenset(reading.held)).snapshot.facts


def test_ignored_files_are_not_there(memory):
    """A pattern of the person's hides a file from a scan and from an event alike."""
    before = read_snapshot(str(memory), ZCODE)
    hidden = glance(memory, None, ignored=lambda file: file == "a.md").snapshot
    assert sorted(hidden.facts) == ["b.md"]
    (memory / "x.md").write_text("x")
    named = frozenset({str(memory / "x.md")})
    assert (
        "x.md" not in glance(memory, before, named=named, ignored=lambda file: file == "x.md").snapshot.facts
    )


def test_a_long_look_is_cut_into_slices(memory, monkeypatch):
    """Others get their turn after a few milliseconds."""
    monkeypatch.setattr(disk, "SLICE_S", -1.0)
    _, slices = finish(look(str(memory), ZCODE, None))
    assert slices >= 3


def test_names_that_are_not_utf8(memory):
    """Any name that the system allows is a name."""
    raw = os.fsencode(str(memory)) + b"/caf\xe9\n\x1b[31m.md"
    with open(raw, "wb") as file:
        file.write(FACT.format("odd").encode())
    snapshot = read_snapshot(str(memory), ZCODE)
    assert "caf\udce9\n\x1b[31m.md" in snapshot.facts
    before = aged(snapshot)
    os.unlink(raw)
    assert [change.kind for change in changes(before, glance(memory, before).snapshot)] == ["deleted"]


def test_reading_leaves_every_byte_and_time(memory):
    """Nothing is written, no time is touched (but the access time, which is the system's)."""

    def state():
        return {
            path.name: (
                path.read_bytes(),
                path.stat().st_mtime_ns,
                path.stat().st_ctime_ns,
                path.stat().st_mode,
            )
            for path in sorted(memory.rglob("*"))
        }

    before = state()
    read_snapshot(str(memory), ZCODE)
    assert state() == before


class TestPermissions:
    """As an ordinary user: root may read everything."""

    def test_an_unreadable_file_is_a_fact_with_a_remark(self, memory, as_ordinary_user):
        """No permission: not empty, not gone."""
        (memory / "a.md").chmod(0)

        def check():
            snapshot = read_snapshot(str(memory), ZCODE)
            assert [remark.code for remark in snapshot.facts["a.md"].remarks] == ["fact-unreadable"]
            assert snapshot.facts["b.md"].name == "b"

        as_ordinary_user(check, memory)

    def test_an_unreadable_subdirectory_keeps_what_was_known(self, memory, as_ordinary_user):
        """Unreadable is not gone."""
        sub = memory / "sub"
        sub.mkdir()
        (sub / "c.md").write_text(FACT.format("c"))

        def check():
            before = read_snapshot(str(memory), ZCODE)
            sub.chmod(0)
            after = glance(memory, before).snapshot
            assert changes(before, after) == ()
            assert after.strays["sub"].kind == "unreadable-directory"

        as_ordinary_user(check, memory)

    def test_a_directory_that_cannot_be_entered_keeps_what_was_known(self, memory, as_ordinary_user):
        """Listed, but no file in it can be asked after: nothing is gone, and a rule can speak of it."""

        def check():
            before = read_snapshot(str(memory), ZCODE)
            memory.chmod(0o444)
            after = glance(memory, before).snapshot
            memory.chmod(0o700)
            assert changes(before, after) == ()
            assert after.strays[""].kind == "unreadable-directory"

        as_ordinary_user(check, memory)

    def test_an_unreadable_directory_raises(self, memory, as_ordinary_user):
        """The caller must not take it for an empty one."""

        def check():
            memory.chmod(0)
            with pytest.raises(Unreadable, match="cannot be listed"):
                read_snapshot(str(memory), ZCODE)

        as_ordinary_user(check, memory)


def test_read_file_says_what_is_wrong(memory):
    """Missing, outside, no regular file: each its own error."""
    assert read_file(str(memory), "a.md")[0] == FACT.format("a").encode()
    with pytest.raises(NotFound):
        read_file(str(memory), "none.md")
    for outside in ("../x.md", "/etc/passwd", "a/../../x.md", "", "a\0.md"):
        with pytest.raises(Refused):
            read_file(str(memory), outside)
    os.mkfifo(memory / "fifo.md")
    with pytest.raises(Unreadable, match="not a regular file"):
        read_file(str(memory), "fifo.md")
    (memory / "linked").symlink_to(memory)
    with pytest.raises(Refused, match="symlink"):
        read_file(str(memory), "linked/a.md")


def test_discover_lists_what_exists(tmp_path):
    """Only `<slug>-<hash16>/memory`, in order; files and strangers are passed over."""
    base = tmp_path / "memories" / "projects"
    for name in ("b-0123456789abcdef", "a-0123456789abcdef", "no-hash", "c-0123456789abcdef"):
        (base / name / "memory").mkdir(parents=True)
    (base / "c-0123456789abcdef" / "memory").rmdir()
    (base / "c-0123456789abcdef" / "memory").write_text("a file")
    tree = ZCODE.tree(str(tmp_path))
    assert list(discover(tree)) == [
        str(base / "a-0123456789abcdef" / "memory"),
        str(base / "b-0123456789abcdef" / "memory"),
    ]
    assert list(discover(ZCODE.tree(str(tmp_path / "none")))) == []


def test_time_is_the_wall_clock(memory):
    """`read_at_ns` is comparable with mtimes."""
    before = time.time_ns()
    fact = read_snapshot(str(memory), ZCODE).facts["a.md"]
    assert before <= fact.read_at_ns <= time.time_ns()
