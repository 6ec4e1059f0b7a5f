"""From readings to events: what is kept, what is told, and what comes back when the disk refuses."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daemon.bed import BROKEN, RefusingDatabase, good
from zcsyncd.daemon.database import Database
from zcsyncd.daemon.store import Store
from zcsyncd.errors import ZcsyncdError
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.fact import FileStat, parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.snapshot import Snapshot

DIR = "/home/u/.zcode/cli/memories/projects/app-0123456789abcdef/memory"


class Shelf:
    """A store over a real database; time is moved by the test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.now_ms = 1_000_000
        self.told: list[tuple[str, dict]] = []
        self.refused: list[tuple[str, ...]] = []
        self.database = RefusingDatabase(str(place / "state.db"), "boot", "1")
        self.store = Store(
            self.database,
            {ZCODE.name: ZCODE},
            lambda events: self.told.extend((e.topic, json.loads(e.data)) for e in events),
            clock_ms=lambda: self.now_ms,
            grace_ms=60_000,
            muted=lambda _directory: frozenset(),
            refused=lambda directories: self.refused.append(tuple(directories)),
        )

    @property
    def topics(self) -> list[str]:
        return [topic for topic, _ in self.told]

    def known(self) -> dict[str, object]:
        """What another daemon would find, with what is kept now in its place."""
        self.database.close()
        with_it = Database(str(self.place / "state.db"), "boot", "1")
        with_it.close()
        return {kept.snapshot.directory: kept for kept in with_it.known}


def fact(file: str, text: str = "", *, inode: int = 1, mtime_ns: int = 5):
    content = (text or good(name=file)).encode()
    return parse_fact(file, content, FileStat(mtime_ns, mtime_ns, len(content), inode), read_at_ns=9)


def index(text: str, mtime_ns: int = 5):
    content = text.encode()
    return parse_index(
        "MEMORY.md", content, FileStat(mtime_ns, mtime_ns, len(content), 1), read_at_ns=9, caps=ZCODE.caps
    )


def snapshot(*facts, text: str | None = None) -> Snapshot:
    return Snapshot(DIR, ZCODE.name, index(text) if text is not None else None, {f.file: f for f in facts})


@pytest.fixture
def shelf(tmp_path):
    """A store that is closed at the end."""
    made = Shelf(tmp_path)
    yield made
    with contextlib.suppress(sqlite3.ProgrammingError):  # closed by the test
        made.database.close()


def taken(shelf, shown, **how):
    shelf.store.take(shown, ZCODE, **how)
    shelf.store.audit(DIR)
    assert shelf.store.commit()
    shelf.told.clear()


# -- news, and what is adopted


def test_a_directory_that_is_news(shelf):
    """It is told before its files, its index after them; it begins now."""
    assert shelf.store.take(snapshot(fact("a.md"), text="- [A](a.md) — x\n"), ZCODE) == 2
    shelf.store.commit()
    assert shelf.topics == ["memory/dir-added", "memory/changed", "memory/index"]
    kept = shelf.store.kept[DIR]
    assert (kept.first_seen_ms, kept.changed_ms, kept.adopt) == (1_000_000, 1_000_000, "settled")


def test_a_directory_that_is_adopted(shelf):
    """It is kept and counted in silence, over its grace too: only counts are told."""
    broken = snapshot(fact("a.md", BROKEN), fact("b.md"), text="- [A](a.md) — x\n- [C](c.md) — y\n")
    assert shelf.store.take(broken, ZCODE, adopt=True) == 0
    shelf.store.audit(DIR)
    shelf.store.commit()
    assert shelf.topics == ["memory/audit"]
    assert (shelf.told[0][1]["appeared"], shelf.told[0][1]["cleared"]) == ([], [])
    shelf.told.clear()
    shelf.now_ms += 60_000
    shelf.store.audit(DIR)
    shelf.store.commit()
    assert [data["appeared"] for _, data in shelf.told] == [[]]
    assert shelf.told[0][1]["counts"] == {"error": 2, "warning": 1, "info": 0}
    assert DIR in shelf.known()


def test_a_known_directory_is_never_adopted(shelf):
    """What the state knows already is compared, also in a first scan that adopts the rest."""
    taken(shelf, snapshot(fact("a.md")), adopt=True)
    assert shelf.store.take(snapshot(fact("a.md"), fact("b.md")), ZCODE, adopt=True) == 1
    shelf.store.commit()
    assert shelf.topics == ["memory/changed"]


def test_nothing_new_writes_nothing(shelf):
    """The same reading again is neither told nor written."""
    shown = snapshot(fact("a.md"))
    taken(shelf, shown)
    assert shelf.store.take(replace(shown, facts=dict(shown.facts)), ZCODE) == 0
    assert shelf.store.work.empty


def test_gone_before_forget(shelf):
    """Files are told as deleted, findings as over, and then the directory as removed; nothing of it is left."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    assert shelf.store.gone(DIR) == 2
    shelf.store.forget(DIR)
    shelf.store.commit()
    assert shelf.topics == ["memory/changed", "memory/index", "memory/audit", "memory/dir-removed"]
    assert {change["kind"] for change in shelf.told[0][1]["changes"]} == {"deleted"}
    assert shelf.store.kept == {}
    assert shelf.known() == {}


def test_what_is_not_kept_goes_in_silence(shelf):
    """A second goodbye, or one of a directory that was never kept, says nothing."""
    taken(shelf, snapshot(fact("a.md")))
    shelf.store.forget(DIR)
    shelf.store.forget(DIR)
    assert shelf.store.gone(DIR) == 0
    shelf.store.audit(DIR)
    shelf.store.commit()
    assert shelf.topics == ["memory/dir-removed"]


def test_a_dismissed_finding_goes_in_silence(shelf):
    """What a person silenced is not told as over when its directory goes."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    (key,) = shelf.store.kept[DIR].rows
    assert shelf.store.dismiss(key, undo=False) == DIR
    shelf.store.commit()
    shelf.told.clear()
    shelf.store.gone(DIR)
    shelf.store.forget(DIR)
    shelf.store.commit()
    assert "memory/audit" not in shelf.topics


def test_a_dismissal_is_of_a_finding(shelf):
    """An unknown key is nobody's; a dismissal that is taken back without a finding is forgotten for good."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    assert shelf.store.dismiss("no-such:000000000000", undo=False) is None
    (key,) = shelf.store.kept[DIR].rows
    shelf.store.dismiss(key, undo=False)
    shelf.store.commit()
    assert shelf.store.kept[DIR].counts == (0, 0, 0)
    taken(shelf, snapshot(fact("a.md"), text="- [A](a.md) — x\n"))
    shelf.store.forget_dismissal(key)
    shelf.store.commit()
    shelf.told.clear()
    shelf.store.take(snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"), ZCODE)
    shelf.store.audit(DIR)
    shelf.store.commit()
    assert [f["key"] for topic, data in shelf.told if topic == "memory/audit" for f in data["appeared"]] == [
        key
    ]


# -- a disk that refuses


def test_a_refused_group_is_as_if_it_had_not_been(shelf):
    """Snapshots, findings, counts and dismissals come back as they were before the group, not before its last step."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    before = shelf.store.kept[DIR]
    (key,) = before.rows
    shelf.database.full = True
    shelf.store.take(snapshot(fact("a.md"), fact("b.md"), text="- [A](a.md) — x\n"), ZCODE)
    shelf.store.take(snapshot(fact("b.md"), text="- [A](a.md) — x\n"), ZCODE)
    shelf.store.dismiss(key, undo=False)
    shelf.store.audit(DIR)
    assert shelf.store.kept[DIR] is not before
    assert not shelf.store.commit()
    assert shelf.store.kept == {DIR: before}
    assert shelf.store.dismissed == set()
    assert (shelf.told, shelf.refused) == ([], [(DIR,)])
    assert "full" in str(shelf.store.last_error)


def test_a_refused_dismissal_speaks_on(shelf):
    """A dismissal that could not be kept is not in force, and who asked for it is told."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    (key,) = shelf.store.kept[DIR].rows
    shelf.database.full = True
    shelf.store.dismiss(key, undo=False)
    with pytest.raises(ZcsyncdError, match="cannot be written") as caught:
        shelf.store.commit_or_raise()
    assert "room" in str(caught.value.hint)
    assert shelf.store.dismissed == set()
    assert shelf.store.kept[DIR].counts == (1, 0, 0)
    shelf.database.full = False
    shelf.store.dismiss(key, undo=False)
    shelf.store.commit_or_raise()
    assert (shelf.store.dismissed, shelf.store.kept[DIR].counts) == ({key}, (0, 0, 0))


def test_a_refused_taking_back_stays_silenced(shelf):
    """The other way round: what was silenced stays so when its end cannot be written."""
    taken(shelf, snapshot(fact("a.md", BROKEN), text="- [A](a.md) — x\n"))
    (key,) = shelf.store.kept[DIR].rows
    shelf.store.dismiss(key, undo=False)
    shelf.store.commit()
    shelf.database.full = True
    shelf.store.dismiss(key, undo=True)
    shelf.store.forget_dismissal(key)
    assert not shelf.store.commit()
    assert shelf.store.dismissed == {key}


def test_refused_comings_and_goings(shelf):
    """A new directory is unknown again, a removed one is known again."""
    shelf.database.full = True
    shelf.store.take(snapshot(fact("a.md")), ZCODE)
    assert not shelf.store.commit()
    assert shelf.store.kept == {}
    shelf.database.full = False
    taken(shelf, snapshot(fact("a.md")))
    before = shelf.store.kept[DIR]
    shelf.database.full = True
    shelf.store.gone(DIR)
    shelf.store.forget(DIR)
    assert not shelf.store.commit()
    assert shelf.store.kept == {DIR: before}
    assert DIR in shelf.known()


def test_the_complaint_ends_with_the_next_success(shelf):
    """`last_error` stands as long as the disk refuses; an empty group proves nothing."""
    shelf.database.full = True
    shelf.store.tell("daemon/started", {"version": "1", "pid": 1})
    assert not shelf.store.commit()
    shelf.database.full = False
    assert shelf.store.commit()
    assert shelf.store.last_error is not None
    shelf.store.tell("daemon/started", {"version": "1", "pid": 1})
    assert shelf.store.commit()
    assert shelf.store.last_error is None
    shelf.store.raise_refusal()


# -- the short way and the long way

FILES = ("a.md", "b.md", "sub/c.md", "d.md", "e.md")
TEXTS = (good("one"), good("two"), good("one", "Other."), BROKEN, "no front matter", good("one") + "\n")
INDEXES = ("- [A](a.md) — x\n", "- [A](a.md) — y\n- [B](b.md) — z\n", "")
disks = st.fixed_dictionaries(
    {},
    optional={file: st.tuples(st.sampled_from(TEXTS), st.integers(1, 3)) for file in FILES},
)


def seen(
    before: Snapshot | None, disk: dict[str, tuple[str, int]], page: str | None, mtime_ns: int
) -> Snapshot:
    """A look at a disk, which shares with the snapshot before what has not changed."""
    facts = {}
    for file, (text, inode) in disk.items():
        known = before.facts.get(file) if before else None
        same = known is not None and known == fact(file, text, inode=inode, mtime_ns=known.stat.mtime_ns)
        facts[file] = known if same else fact(file, text, inode=inode, mtime_ns=mtime_ns)
    of_before = before.index if before else None
    if page is None:
        shown = None
    elif of_before is not None and of_before == index(page, of_before.stat.mtime_ns):
        shown = of_before
    else:
        shown = index(page, mtime_ns)
    return Snapshot(DIR, ZCODE.name, shown, facts)


@settings(max_examples=60, deadline=None)
@given(
    first=disks,
    then=disks,
    pages=st.tuples(*[st.none() | st.sampled_from(INDEXES)] * 2),
    also=st.sets(st.sampled_from([*FILES, "MEMORY.md", "none.md"])),
)
def test_named_files_tell_the_same_as_a_full_comparison(first, then, pages, also):
    """`take(files=…)` with every file that may differ tells and keeps what the full comparison tells and keeps."""
    before = seen(None, first, pages[0], 5)
    after = seen(before, then, pages[1], 6)
    differing = {
        file for file in {*before.facts, *after.facts} if before.facts.get(file) is not after.facts.get(file)
    }
    outcomes = []
    for files in (None, frozenset(differing | also)):
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place))
            taken(shelf, before)
            shelf.now_ms += 1000
            count = shelf.store.take(after, ZCODE, files=files)
            shelf.store.audit(DIR)
            shelf.store.commit()
            kept = shelf.store.kept[DIR]
            outcomes.append((count, shelf.told, kept.snapshot, kept.rows, kept.changed_ms, shelf.known()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][-1][DIR].snapshot == after


# -- directories that are gone


FIVE = [fact(f"n{number}.md", inode=number) for number in range(6)]


def gone(shelf):
    """A directory of six facts that went, and is remembered."""
    taken(shelf, snapshot(*FIVE, text="".join(f"- [N]({one.file}) \u2014 x\n" for one in FIVE)))
    shelf.store.gone(DIR)
    shelf.store.forget(DIR, is_gone=True)
    assert shelf.store.commit()
    shelf.told.clear()


def codes(shelf):
    return [row.finding.code for row in shelf.store.kept[DIR].rows.values()]


def test_a_directory_that_came_back_is_told_anew(shelf):
    """What it lacks is a loss of the time when it went; it is news though the directory is new."""
    gone(shelf)
    went_ms = shelf.store.gone_before[DIR].at_ms
    shelf.now_ms += 3_600_000
    shelf.store.take(snapshot(), ZCODE)
    shelf.store.audit(DIR)
    assert shelf.store.commit()
    assert codes(shelf) == ["mass-delete"]
    [loss] = shelf.store.kept[DIR].past.losses
    assert went_ms <= loss.at_ms < went_ms + 1_000
    assert [one["code"] for one in shelf.told[-1][1]["appeared"]] == ["mass-delete"]
    assert shelf.store.gone_before == {}
    assert shelf.known()[DIR].gone_ms is None


def test_what_could_not_be_written_of_a_return_is_as_before(shelf):
    """The disk refuses: the directory is gone as before, and its return is told when there is room."""
    gone(shelf)
    before = dict(shelf.store.gone_before)
    shelf.database.full = True
    shelf.store.take(snapshot(), ZCODE)
    assert not shelf.store.commit()
    assert (shelf.store.kept, shelf.store.gone_before) == ({}, before)
    shelf.database.full = False
    taken(shelf, snapshot())
    assert codes(shelf) == ["mass-delete"]


def test_a_directory_that_could_not_be_noted_as_gone_is_still_there(shelf):
    """The other way round."""
    taken(shelf, snapshot(*FIVE))
    before = dict(shelf.store.kept)
    shelf.database.full = True
    shelf.store.forget(DIR, is_gone=True)
    assert not shelf.store.commit()
    assert (shelf.store.kept, shelf.store.gone_before) == (before, {})


def test_directories_that_are_gone_are_not_remembered_for_ever(shelf, monkeypatch):
    """The ones that went first are forgotten when there are too many, and all when they are old."""
    monkeypatch.setattr("zcsyncd.daemon.store.MOST_GONE", 2)
    for name in "abc":
        where = f"/m/{name}"
        shelf.store.take(Snapshot(where, ZCODE.name, None, {one.file: one for one in FIVE}), ZCODE)
        shelf.store.forget(where, is_gone=True)
        shelf.now_ms += 1_000
    assert shelf.store.commit()
    assert list(shelf.store.gone_before) == ["/m/b", "/m/c"]
    shelf.store.forget_gone_before(shelf.store.gone_before["/m/c"].at_ms)
    assert shelf.store.commit()
    assert {where: kept.gone_ms is None for where, kept in shelf.known().items()} == {"/m/c": False}
