"""What differs between two snapshots."""

import pytest

from zcsyncd.memory.changes import Change, changes
from zcsyncd.memory.fact import Fact, FileStat
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot


def fact(file, content="c", meaning="m", *, inode=1, mtime_ns=1_000_000_000, size=10):
    return Fact(
        file=file,
        stat=FileStat(mtime_ns, mtime_ns, size, inode),
        read_at_ns=0,
        content_hash=content,
        encoding="utf-8",
        name=file.removesuffix(".md"),
        description="d",
        type="user",
        malformed=False,
        meaning_hash=meaning,
        links=(),
        references=(),
        symlink=False,
        listed=True,
        remarks=(),
    )


def index(content="i", text="t", entries=(), mtime_ns=1_000_000_000):
    return Index(
        file="MEMORY.md",
        stat=FileStat(mtime_ns, mtime_ns, 5, 9),
        read_at_ns=0,
        content_hash=content,
        encoding="utf-8",
        text_hash=text,
        lines=1,
        units=5,
        truncated=False,
        entries=tuple(entries),
        beyond=(),
        swallowed=(),
        remarks=(),
    )


def snapshot(*facts, index=None):
    return Snapshot("/m", "zcode", index, {each.file: each for each in facts})


def kinds(before, after):
    return [(change.kind, change.file, change.from_) for change in changes(before, after)]


CASES = {
    "nothing": (snapshot(fact("a.md")), snapshot(fact("a.md")), []),
    "touched: other time, same bytes": (
        snapshot(fact("a.md")),
        snapshot(fact("a.md", mtime_ns=2_000_000_000)),
        [],
    ),
    "added": (snapshot(), snapshot(fact("a.md")), [("added", "a.md", None)]),
    "deleted": (snapshot(fact("a.md")), snapshot(), [("deleted", "a.md", None)]),
    "other meaning": (
        snapshot(fact("a.md")),
        snapshot(fact("a.md", "c2", "m2")),
        [("updated", "a.md", None)],
    ),
    "stamped: other bytes, same meaning": (
        snapshot(fact("a.md")),
        snapshot(fact("a.md", "c2", "m")),
        [("file", "a.md", None)],
    ),
    "renamed": (snapshot(fact("a.md")), snapshot(fact("b.md")), [("renamed", "b.md", "a.md")]),
    "renamed and changed at once": (
        snapshot(fact("a.md")),
        snapshot(fact("b.md", "c2")),
        [("deleted", "a.md", None), ("added", "b.md", None)],
    ),
    "one gone, two copies come: no unique pair": (
        snapshot(fact("a.md", inode=7)),
        snapshot(fact("b.md", inode=8), fact("c.md", inode=9)),
        [("deleted", "a.md", None), ("added", "b.md", None), ("added", "c.md", None)],
    ),
    "one gone, two copies come: the inode tells": (
        snapshot(fact("a.md", inode=7)),
        snapshot(fact("b.md", inode=7), fact("c.md", inode=9)),
        [("renamed", "b.md", "a.md"), ("added", "c.md", None)],
    ),
    "two renamed, told apart by their bytes": (
        snapshot(fact("a.md", "1"), fact("b.md", "2")),
        snapshot(fact("x.md", "2"), fact("y.md", "1")),
        [("renamed", "x.md", "b.md"), ("renamed", "y.md", "a.md")],
    ),
    "two swapped": (
        snapshot(fact("a.md", "1", "m1"), fact("b.md", "2", "m2")),
        snapshot(fact("a.md", "2", "m2"), fact("b.md", "1", "m1")),
        [("updated", "a.md", None), ("updated", "b.md", None)],
    ),
    "became unreadable": (
        snapshot(fact("a.md")),
        snapshot(fact("a.md", None, None)),
        [("updated", "a.md", None)],
    ),
    "still unreadable": (snapshot(fact("a.md", None, None)), snapshot(fact("a.md", None, None)), []),
    "unreadable, of another size": (
        snapshot(fact("a.md", None, None)),
        snapshot(fact("a.md", None, None, size=11)),
        [("updated", "a.md", None)],
    ),
    "unreadable files are never paired": (
        snapshot(fact("a.md", None, None)),
        snapshot(fact("b.md", None, None)),
        [("deleted", "a.md", None), ("added", "b.md", None)],
    ),
    "a new directory": (
        None,
        snapshot(fact("a.md"), index=index()),
        [("added", "MEMORY.md", None), ("added", "a.md", None)],
    ),
    "a directory that went": (
        snapshot(fact("a.md"), index=index()),
        None,
        [("deleted", "MEMORY.md", None), ("deleted", "a.md", None)],
    ),
    "index: same bytes": (snapshot(index=index()), snapshot(index=index(mtime_ns=2_000_000_000)), []),
    "index: other bytes, same text and entries": (
        snapshot(index=index()),
        snapshot(index=index("i2")),
        [("file", "MEMORY.md", None)],
    ),
    "index: same text, but an entry became hidden": (
        snapshot(index=index(entries=[Entry("a.md", "A", "h", 1)])),
        snapshot(index=index("i2", entries=[Entry("a.md", "A", "h", 1, hidden=True)])),
        [("updated", "MEMORY.md", None)],
    ),
    "index: other text": (
        snapshot(index=index()),
        snapshot(index=index("i2", "t2")),
        [("updated", "MEMORY.md", None)],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES.keys())
def test_kinds(before, after, expected):
    """Each difference has one kind, the index comes first, then the files by name."""
    assert kinds(before, after) == expected


def test_what_a_change_carries():
    """A change tells name, description, type, revision and hash of the file as it is now."""
    (change,) = changes(
        snapshot(), snapshot(fact("a.md", "abc", mtime_ns=1_764_500_000_123_000_000, size=42))
    )
    assert change == Change(
        "added",
        "a.md",
        name="a",
        description="d",
        type="user",
        revision="mtime:1764500000123:size:42",
        content_hash="abc",
    )


def test_a_deleted_file_carries_its_name_and_what_it_was():
    """What is gone has no revision and no hash of its own, but the one that it had."""
    (change,) = changes(snapshot(fact("a.md")), snapshot())
    assert change == Change("deleted", "a.md", former_hash="c")
