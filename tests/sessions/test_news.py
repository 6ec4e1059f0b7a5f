"""What a session has not been told, merged."""

import json
from dataclasses import replace

import pytest

from tests.sessions.shared_memory import (
    DIR,
    GRACE_MS,
    ME,
    OTHER,
    SharedMemory,
    after_compaction,
    entry,
    index,
    short,
    told,
)
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.sessions.merge import Event
from zcsyncd.sessions.news import ALARM_CODES, MAX_CHANGES, news
from zcsyncd.sessions.session import Held
from zcsyncd.sessions.wording import BEGIN, END, TEXT_LINES, TEXT_UNITS

A, B, C = "a.md", "b.md", "c.md"


def memory(*files):
    """Make a directory whose facts have their entries, and hold their own names' first letter."""
    made = SharedMemory()
    made.write({file: f"{file[0]}1" for file in files}, [entry(file) for file in files])
    return made


# Each case: facts at the baseline, writes after it (facts, by), and what is told of them.
NETS = {
    "nothing": ([A], [], []),
    "added": ([], [({A: "1"}, OTHER)], [("added", A, None)]),
    "added, then changed": ([], [({A: "1"}, OTHER), ({A: "2"}, OTHER)], [("added", A, None)]),
    "added, then deleted": ([], [({A: "1"}, OTHER), ({A: None}, OTHER)], []),
    "changed three times": (
        [A],
        [({A: "2"}, OTHER), ({A: "3"}, OTHER), ({A: "4"}, None)],
        [("updated", A, None)],
    ),
    "changed, then deleted": ([A], [({A: "2"}, OTHER), ({A: None}, OTHER)], [("deleted", A, None)]),
    "deleted, then back with other content": (
        [A],
        [({A: None}, OTHER), ({A: "9"}, OTHER)],
        [("updated", A, None)],
    ),
    "away under another name and back": ([A], [({A: None, B: "a1"}, None), ({A: "a1", B: None}, None)], []),
    "renamed, deleted, then back with what it held all the time": (
        [A],
        [({A: None, B: "a1"}, None), ({B: None}, None), ({A: "a1"}, None)],
        [],
    ),
    "renamed": ([A], [({A: None, B: "a1"}, OTHER)], [("renamed", B, A)]),
    "renamed twice": (
        [A],
        [({A: None, B: "a1"}, OTHER), ({B: None, C: "a1"}, None)],
        [("renamed", C, A)],
    ),
    "renamed, then deleted": (
        [A],
        [({A: None, B: "a1"}, OTHER), ({B: None}, None)],
        [("deleted", A, None)],
    ),
    "new and renamed is new under its last name": (
        [],
        [({A: "1"}, None), ({A: None, B: "1"}, None)],
        [("added", B, None)],
    ),
    "two swapped through a third name": (
        [A, B],
        [({A: None, C: "a1"}, None), ({B: None, A: "b1"}, None), ({C: None, B: "a1"}, None)],
        [("updated", A, None), ("updated", B, None)],
    ),
    "renamed, and another takes the old name": (
        [A],
        [({A: None, B: "a1"}, None), ({A: "7"}, None)],
        [("updated", A, None), ("added", B, None)],
    ),
    "only stamped": ([A], [({A: "s1~a1"}, None)], [("file", A, None)]),
    "stamped, then back": ([A], [({A: "s1~a1"}, None), ({A: "a1"}, None)], []),
    "stamped, then changed": ([A], [({A: "s1~a1"}, None), ({A: "2"}, None)], [("updated", A, None)]),
    "stamped, changed, then as it was stamped": (
        [A],
        [({A: "s1~a1"}, None), ({A: "2"}, None), ({A: "s1~a1"}, None)],
        [("file", A, None)],
    ),
    "changed, then stamped": ([A], [({A: "2"}, None), ({A: "s2~2"}, None)], [("updated", A, None)]),
    "own: added": ([], [({A: "1"}, ME)], []),
    "own: changed": ([A], [({A: "2"}, ME)], []),
    "own: deleted": ([A], [({A: None}, ME)], []),
    "own: renamed": ([A], [({A: None, B: "a1"}, ME)], []),
    "another's, then own": ([A], [({A: "2"}, OTHER), ({A: "3"}, ME)], []),
    "own, then another's": ([A], [({A: "2"}, ME), ({A: "3"}, OTHER)], [("updated", A, None)]),
    "own new one, then another's": ([], [({A: "1"}, ME), ({A: "2"}, OTHER)], [("updated", A, None)]),
    "own new one, then deleted by another": (
        [],
        [({A: "1"}, ME), ({A: None}, OTHER)],
        [("deleted", A, None)],
    ),
    "own new one, then renamed by another": (
        [],
        [({A: "1"}, ME), ({A: None, B: "1"}, OTHER)],
        [("renamed", B, A)],
    ),
    "deleted by another, own made anew": ([A], [({A: None}, OTHER), ({A: "2"}, ME)], []),
    "changed by another, then moved by the session, which has not read it": (
        [A],
        [({A: "2"}, OTHER), ({A: None, B: "2"}, ME)],
        [("updated", B, None)],
    ),
    "own change in an id of another host is another's": (
        [A],
        [({A: "2"}, ("claude-code", ME[1]))],
        [("updated", A, None)],
    ),
}


@pytest.mark.parametrize(("files", "writes", "expected"), NETS.values(), ids=NETS)
def test_all_events_of_a_file_are_one_change(files, writes, expected):
    """What came and went cancels, renames collapse, and a session's own writes are no news to it."""
    shared = memory(*files)
    session = shared.session()
    for facts, by in writes:
        shared.write(facts, by=by)
    assert short(shared.news(session, grace_ms=0)) == expected


def test_a_renamed_file_that_was_changed_says_so():
    """Renamed and changed is one change, which tells both."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: None, B: "a1"}).write({B: "2"}, by=OTHER)
    answer = shared.news(session)
    (row,) = answer.changes
    assert (row["kind"], row["from"], row["updated"], row["contentHash"]) == ("renamed", A, True, "2")
    assert "Renamed and changed: `a.md` is now" in answer.text


def test_a_change_tells_what_the_file_is_now_and_who_wrote_last():
    """A Change of the news has its directory, the present name, description and revision, and the last writer."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"}, by=OTHER).write({A: "3"}, by=OTHER, descriptions={A: "the latest"})
    assert shared.news(session).to_wire()["changes"] == [
        {
            "dir": DIR,
            "kind": "updated",
            "file": A,
            "name": "a",
            "description": "the latest",
            "type": "user",
            "revision": "mtime:1000:size:10",
            "contentHash": "3",
            "by": {"host": "zcode", "id": "other"},
        }
    ]


def test_a_writer_is_not_named_for_what_somebody_unknown_did_after():
    """The writer named is the last one; if that one is not known, nobody is named."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"}, by=OTHER).write({A: "3"})
    answer = shared.news(session)
    assert "by" not in answer.changes[0]
    assert "zcode" not in answer.text


def test_who_moves_what_another_wrote_is_not_the_writer():
    """A file that another changed and the session then moved is told with the other's name."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"}, by=OTHER).write({A: None, B: "2"}, by=ME)
    assert shared.news(session).changes[0]["by"] == {"host": "zcode", "id": "other"}


# -- baselines and confirmations


def test_what_is_not_confirmed_is_said_again_and_what_is_confirmed_is_not():
    """Unconfirmed news comes again, under the same token; confirmed, nothing is left."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"})
    first, again = shared.news(session), shared.news(session)
    assert first == again
    after = shared.news(told(session, first))
    assert after.changes == ()
    assert (after.text, after.count, after.index.added) == ("", 0, ())
    assert after.told.token != first.told.token


def test_after_a_compaction_everything_since_the_start_comes_once_more():
    """A compaction goes back to the start: what was confirmed since is told again, but alarms are not."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"})
    session = told(session, shared.news(session, alarms=[alarm("index-swallowed")]))
    shared.write({B: "1"}, [entry(A), entry(B)])
    answer = shared.news(after_compaction(session), alarms=[alarm("index-swallowed")])
    assert short(answer) == [("updated", A, None), ("added", B, None)]
    assert answer.alarms == ()


def test_events_up_to_the_baseline_and_beyond_the_head_are_left_out():
    """Only what lies between the baseline and the head is told, whatever is handed over."""
    shared = memory(A, B)
    shared.write({A: "2"})
    session = shared.session()
    shared.write({B: "2"})
    late = Event(99, 0, "memory/changed", DIR, {"changes": [{"kind": "updated", "file": "late.md"}]})
    shared.events.append(late)
    answer = news(
        session,
        shared.events,
        snapshots={DIR: shared.snapshot},
        main=DIR,
        alarms=(),
        head=late.sequence - 1,
        now_ms=0,
        grace_ms=0,
    )
    assert short(answer) == [("updated", B, None)]
    assert answer.told.upto == 98


def test_other_events_are_no_news():
    """Audits, reads and the daemon's own events tell a model nothing."""
    shared = memory(A)
    session = shared.session()
    for topic in ("memory/audit", "read-state/read", "memory/dir-added", "bus/gap"):
        shared.events.append(Event(shared.head + 1, 0, topic, DIR, {"changes": "odd"}))
    answer = shared.news(session)
    assert (answer.changes, answer.text) == ((), "")


@pytest.mark.parametrize(
    "odd", [{}, {"changes": None}, {"changes": [1, {}, {"file": 3}]}, {"by": 1, "added": [2]}]
)
def test_odd_data_raises_nothing(odd):
    """An event whose data is not as it should be tells nothing and breaks nothing."""
    shared = memory(A)
    session = shared.session()
    for topic in ("memory/changed", "memory/index"):
        shared.events.append(Event(shared.head + 1, 0, topic, DIR, odd))
    assert shared.news(session).changes == ()


# -- what the session has read


def test_what_was_read_since_is_no_news():
    """A file whose present content the session has read is no news, be it new or changed."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2", B: "1"}, [entry(A), entry(B)], by=OTHER)
    reads = {(DIR, file): shared.read(file) for file in (A, B)}
    assert short(shared.news(replace(session, reads=reads))) == []
    forgotten = {place: replace(read, forgotten=True) for place, read in reads.items()}
    assert len(short(shared.news(replace(session, reads=forgotten)))) == 2


def test_another_stamp_on_what_was_read_is_told_as_a_stamp():
    """Where only ZCode's stamp differs from what was read, the change is `file`, and the text is silent."""
    shared = memory(A)
    session = replace(shared.session(), reads={(DIR, A): shared.read(A)})
    shared.write({A: "2"}).write({A: "s9~a1"})
    answer = shared.news(session)
    assert short(answer) == [("file", A, None)]
    assert answer.text == ""


def test_the_text_names_what_the_session_had_read():
    """Facts that changed or went and that the session has read are named as such; others are not."""
    shared = memory(A, B, C)
    session = replace(shared.session(), reads={(DIR, file): shared.read(file) for file in (A, B)})
    shared.write({A: "2", B: None, C: "2"})
    text = shared.news(session).text
    assert f"Changed (you have read it as it was before): “Title of {A}”" in text
    assert "Gone (you have read it): “Title of b.md” (`b.md`)" in text
    assert f"Changed: “Title of {C}”" in text


def test_what_came_was_read_and_went_is_told_as_gone():
    """A file that came and went between two answers is news to one who read it meanwhile, once."""
    shared = memory()
    session = shared.session()
    shared.write({A: "1"}, by=OTHER).wait(10)
    session = replace(session, reads={(DIR, A): shared.read(A)})
    shared.wait(10).write({A: None}, by=OTHER)
    answer = shared.news(session)
    assert short(answer) == [("deleted", A, None)]
    assert short(shared.news(told(session, answer))) == []
    earlier = replace(session, reads={(DIR, A): replace(session.reads[DIR, A], at_ms=0)})
    assert short(shared.news(earlier)) == []


def test_what_the_session_took_away_itself_is_not_told_as_gone():
    """A file of another's that the session read and then deleted is no news."""
    shared = memory()
    session = shared.session()
    shared.write({A: "1"}, by=OTHER)
    session = replace(session, reads={(DIR, A): shared.read(A)})
    shared.write({A: None}, by=ME)
    assert short(shared.news(session)) == []


# -- the index


ENTRIES = {
    "added": ([], [[("x.txt", "X", "h")]], (["x.txt"], [], [])),
    "removed": ([("x.txt", "X", "h")], [[]], ([], [], ["x.txt"])),
    "changed": ([("x.txt", "X", "h")], [[("x.txt", "X", "new")]], ([], ["x.txt"], [])),
    "changed twice": (
        [("x.txt", "X", "h")],
        [[("x.txt", "X", "1")], [("x.txt", "X", "2")]],
        ([], ["x.txt"], []),
    ),
    "changed, then removed": ([("x.txt", "X", "h")], [[("x.txt", "X", "1")], []], ([], [], ["x.txt"])),
    "added, then removed": ([], [[("x.txt", "X", "h")], []], ([], [], [])),
    "removed, then back": ([("x.txt", "X", "h")], [[], [("x.txt", "X", "h")]], ([], [], [])),
    "removed, then back with another hook": (
        [("x.txt", "X", "h")],
        [[], [("x.txt", "X", "other")]],
        ([], ["x.txt"], []),
    ),
    "added, then changed": ([], [[("x.txt", "X", "h")], [("x.txt", "X", "2")]], (["x.txt"], [], [])),
    "moved": (
        [("x.txt", "X", "h"), ("y.txt", "Y", "h")],
        [[("y.txt", "Y", "h"), ("x.txt", "X", "h")]],
        ([], [], []),
    ),
}


@pytest.mark.parametrize(("before", "writes", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_all_events_of_an_entry_are_one(before, writes, expected):
    """Entries are merged by target; what came and went, or says again what it said, is nothing."""
    shared = SharedMemory().write(entries=before)
    session = shared.session()
    for entries in writes:
        shared.write(entries=entries, by=OTHER)
    part = shared.news(session, grace_ms=0).index
    assert (
        tuple([row["target"] for row in rows] for rows in (part.added, part.changed, part.removed))
        == expected
    )
    assert part.stale is (shared.snapshot.index.text_hash != session.index_reads[DIR])


def test_entries_are_told_as_they_stand_now_and_those_gone_as_they_were():
    """Title, hook and line are the present index's; a removed entry's are the former ones."""
    shared = SharedMemory().write(entries=[("x.txt", "X", "h"), ("y.txt", "Y", "was")])
    session = shared.session()
    shared.write(entries=[("z.txt", "Z", "1"), ("x.txt", "X", "2")]).write(
        entries=[("z.txt", "Z", "latest"), ("x.txt", "X", "2")]
    )
    wire = shared.news(session, grace_ms=0).to_wire()["index"]
    assert wire == {
        "stale": True,
        "added": [{"target": "z.txt", "title": "Z", "hook": "latest", "line": 1}],
        "changed": [{"target": "x.txt", "title": "X", "hook": "2", "line": 2}],
        "removed": [{"target": "y.txt", "title": "Y", "hook": "was", "line": 2}],
    }


def test_own_entries_are_no_news_though_the_index_is_stale():
    """The index event names no writer: the change of the file, right before it, does."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"}, [entry(A), entry(B)], by=ME)
    shared.write({C: "1"}, [entry(A), entry(B), entry(C)], by=OTHER)
    answer = shared.news(session)
    assert [row["target"] for row in answer.index.added] == [C]
    assert short(answer) == [("added", C, None)]
    assert answer.index.stale


def test_two_entries_of_one_target_make_no_news_of_an_own_write():
    """Whichever of two entries with one target the session itself changes or takes out, it is not told of it."""
    twins = [("x.txt", "X", "1"), ("x.txt", "X", "2")]
    shared = SharedMemory().write(entries=twins)
    session = shared.session()
    shared.write(entries=[twins[0], ("x.txt", "X", "3")], by=ME).write(entries=[twins[0]], by=ME)
    part = shared.news(session).index
    assert (part.added, part.changed, part.removed) == ((), (), ())


def test_an_index_that_was_given_again_is_no_news():
    """A session that holds the present text of the index needs no word about its entries; facts are another matter."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"}, [entry(A), entry(B)], by=OTHER)
    given = {DIR: shared.snapshot.index.text_hash}
    answer = shared.news(replace(session, index_reads=given))
    assert (answer.index.stale, answer.index.added) == (False, ())
    assert [row["file"] for row in answer.changes] == [B]
    shared.write(index_file=replace(shared.snapshot.index, truncated=True, content_hash="cut"))
    assert [row["target"] for row in shared.news(replace(session, index_reads=given)).index.added] == [B]


STALE = {
    "given, unchanged": ("same", False, False),
    "given, changed": ("same", True, True),
    "given another long ago, and nothing since": ("other", False, True),
    "given that there was none": (None, False, True),
    "nobody knows, unchanged": ("unknown", False, False),
    "nobody knows, changed": ("unknown", True, True),
}


@pytest.mark.parametrize(("given", "changed", "expected"), STALE.values(), ids=STALE)
def test_the_index_is_stale_when_another_text_was_given(given, changed, expected):
    """`stale` compares the text given with the present one; without one it tells whether the index changed."""
    shared = memory(A)
    session = shared.session()
    if given != "same":
        session = replace(session, index_reads={} if given == "unknown" else {DIR: given})
    if changed:
        shared.write(entries=[])
    assert shared.news(session).index.stale is expected


def test_another_writing_of_the_same_index_makes_nothing_stale():
    """An index whose bytes differ but whose text and entries do not is a `file` change: no news to the model."""
    shared = memory(A)
    session = shared.session(index_reads={})
    shared.write(index_file=replace(shared.snapshot.index, content_hash="with CRLF"))
    answer = shared.news(session)
    assert [row["kind"] for row in answer.changes] == ["file"]
    assert (answer.index.stale, answer.text) == (False, "")


def test_an_index_that_changed_beside_its_entries_is_said_once():
    """Prose of the index that changed is one line; confirmed, it is said no more, though the index stays stale."""
    shared = memory(A)
    session = shared.session()
    shared.write(entries=[entry(A)], text="other prose")
    answer = shared.news(session)
    assert "The index `MEMORY.md` changed outside its entries." in answer.text
    after = shared.news(told(session, answer))
    assert (after.text, after.index.stale) == ("", True)


def test_an_index_that_is_gone_is_one_line():
    """A deleted index is told as such, not entry by entry."""
    shared = memory(A, B, C)
    session = shared.session()
    shared.write(index_file=None)
    answer = shared.news(session)
    assert len(answer.index.removed) == 3
    assert answer.text.split("\n")[1:-1] == ["- The index `MEMORY.md` is gone."]
    assert answer.index.stale


def test_an_index_that_cannot_be_read_tells_nothing_of_entries():
    """A read error is never "empty": entries are not told as gone."""
    shared = memory(A, B)
    session = shared.session()
    shared.write(index_file=replace(index([], encoding=None), file="MEMORY.md"))
    answer = shared.news(session)
    assert (answer.index.removed, answer.text) == ((), "")
    assert answer.index.stale


def test_without_a_directory_there_is_no_index_news():
    """A session whose directory does not exist yet has an empty index part."""
    answer = news(
        SharedMemory().session(index_reads={}),
        [],
        snapshots={},
        main=None,
        alarms=(),
        head=0,
        now_ms=0,
        grace_ms=0,
    )
    assert answer.to_wire() == {
        "token": answer.told.token,
        "index": {"stale": False, "added": [], "changed": [], "removed": []},
        "changes": [],
        "alarms": [],
        "text": "",
    }


def test_a_directory_that_is_gone_is_told_file_by_file():
    """Every fact of a directory that went is told as deleted; so is its index."""
    shared = memory(A, B)
    session = shared.session()
    shared.delete_directory()
    answer = shared.news(session)
    assert [(row["kind"], row["file"]) for row in answer.changes] == [
        ("deleted", "MEMORY.md"),
        ("deleted", A),
        ("deleted", B),
    ]
    assert answer.index.stale


# -- halves of a write


def test_a_new_fact_waits_for_its_entry_over_a_confirmation():
    """A fact without its entry is held back, carried over a confirmation, and told with its entry, once."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"}, by=OTHER)
    first = shared.news(session)
    assert (short(first), first.text) == ([], "")
    assert first.told.held == (Held(DIR, B, shared.now_ms),)
    session = told(session, first)
    shared.wait(1_000).write(entries=[entry(A), entry(B)])
    second = shared.news(session)
    assert short(second) == [("added", B, None)]
    assert [row["target"] for row in second.index.added] == [B]
    assert f"- New: “Title of {B}” (`{B}`)" in second.text
    assert second.told.held == ()
    assert short(shared.news(told(session, second))) == []


def test_an_entry_waits_for_its_fact_over_a_confirmation():
    """An entry whose fact is not there yet is held back likewise."""
    shared = memory(A)
    session = shared.session()
    shared.write(entries=[entry(A), entry(B)])
    first = shared.news(session)
    assert (first.index.added, first.text) == ((), "")
    session = told(session, first)
    shared.wait(1_000).write({B: "1"})
    second = shared.news(session)
    assert ([row["target"] for row in second.index.added], short(second)) == ([B], [("added", B, None)])


@pytest.mark.parametrize("half", ["fact", "entry"])
def test_a_half_is_told_when_the_grace_is_over(half):
    """What stays half is told after the grace, and the clock goes on over confirmations."""
    shared = memory(A)
    session = shared.session()
    if half == "fact":
        shared.write({B: "1"})
    else:
        shared.write(entries=[entry(A), entry(B)])
    session = told(session, shared.news(session))
    shared.wait(GRACE_MS - 1)
    answer = shared.news(session)
    assert answer.text == ""
    session = told(session, answer)
    shared.wait(1)
    answer = shared.news(session)
    if half == "fact":
        assert short(answer) == [("added", B, None)]
        assert f"- New: `{B}`, which the index does not name yet: “what it says”" in answer.text
    else:
        assert [row["target"] for row in answer.index.added] == [B]
        assert f"- New entry: “Title of {B}” (`{B}`), but there is no such file" in answer.text
    assert shared.news(told(session, answer)).text == ""


def test_a_held_fact_that_went_is_dropped():
    """Nobody hears of a fact that came and went unseen, be it before or after a confirmation."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"})
    session = told(session, shared.news(session))
    shared.write({B: None}).wait(GRACE_MS)
    answer = shared.news(session)
    assert (short(answer), answer.told.held) == ([], ())


def test_a_held_fact_that_is_renamed_is_new_under_its_new_name():
    """A rename of what was held back keeps it held, under the new name and since it first came."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"})
    since_ms = shared.now_ms
    session = told(session, shared.news(session))
    shared.wait(5).write({B: None, C: "1"})
    answer = shared.news(session)
    assert (short(answer), answer.told.held) == ([], (Held(DIR, C, since_ms),))
    shared.wait(GRACE_MS)
    assert short(shared.news(told(session, answer))) == [("added", C, None)]


def test_a_fact_that_a_hub_file_reaches_is_whole():
    """An entry need not name a fact itself: what an indexed file links to is reached."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"})
    hub = replace(shared.snapshot.facts[A], references=(B,))
    shared.snapshot = replace(shared.snapshot, facts={**shared.snapshot.facts, A: hub})
    assert short(shared.news(session)) == [("added", B, None)]


def test_an_entry_that_is_changed_while_it_waits_waits_no_longer_for_that():
    """The grace begins when an entry came, not when it last changed."""
    shared = memory(A)
    session = shared.session()
    shared.write(entries=[entry(A), entry(B)]).wait(GRACE_MS - 1)
    shared.write(entries=[entry(A), (B, "T", "latest")])
    assert shared.news(session).index.added == ()
    shared.wait(1)
    assert [row["hook"] for row in shared.news(session).index.added] == ["latest"]


@pytest.mark.parametrize("half", ["fact", "entry"])
def test_what_waits_while_the_index_cannot_be_read_goes_on_waiting(half):
    """An index that cannot be read makes no held fact whole, and takes no held entry away."""
    shared = memory(A)
    session = shared.session()
    whole = index([entry(A), entry(B)])
    if half == "fact":
        shared.write({B: "1"})
    else:
        shared.write(index_file=whole)
    session = told(session, shared.news(session))
    shared.write(index_file=index([], encoding=None))
    answer = shared.news(session)
    assert (short(answer), [held.file for held in answer.told.held]) == ([], [B])
    session = told(session, answer)
    shared.write({B: "1"}, index_file=whole)
    assert short(shared.news(session)) == [("added", B, None)]
    if half == "entry":
        assert [row["target"] for row in shared.news(session).index.added] == [B]


@pytest.mark.parametrize("target", ["../outside.md", "/etc/hosts", "~/x.md", "topics/MEMORY.md"])
def test_an_entry_that_leads_elsewhere_waits_for_nothing(target):
    """An entry that leaves the directory, or names what a snapshot never holds, is told at once."""
    shared = memory(A)
    session = shared.session()
    shared.write(entries=[entry(A), (target, "Out", "h")])
    assert [row["target"] for row in shared.news(session).index.added] == [target]


def test_a_store_without_an_index_holds_nothing_back():
    """Where a layout has no index, no entry is waited for, and none is missed."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"})
    answer = shared.news(session, indexless={DIR})
    assert short(answer) == [("added", B, None)]
    assert "does not name" not in answer.text


def test_a_clock_that_was_set_back_holds_nothing_for_ever():
    """A half that seems to come from the future is told."""
    shared = memory(A)
    session = shared.session()
    shared.write({B: "1"}).wait(-10 * GRACE_MS)
    assert short(shared.news(session)) == [("added", B, None)]


# -- alarms


def alarm(code, key=None, message="it happened"):
    finding = Finding(
        key=key or f"{code}:1",
        code=code,
        severity="error",
        file="MEMORY.md",
        target=None,
        line=None,
        message=message,
        hint="mend it",
        fixable=False,
        graced=False,
    )
    return DIR, finding, 5_000


def test_alarms_are_told_once_per_key():
    """An open alarm is in the news until it is confirmed, and then never again; another key is another alarm."""
    shared = memory(A)
    session = shared.session()
    first = shared.news(session, alarms=[alarm("entry-lost")])
    assert first.to_wire()["alarms"] == [
        {
            "key": "entry-lost:1",
            "code": "entry-lost",
            "severity": "error",
            "dir": DIR,
            "file": "MEMORY.md",
            "message": "it happened",
            "hint": "mend it",
            "fixable": False,
            "since": "1970-01-01T00:00:05.000Z",
            "pending": False,
            "dismissed": False,
        }
    ]
    assert "the person should hear from you (entry-lost): “it happened”" in first.text
    session = told(session, first)
    second = shared.news(session, alarms=[alarm("entry-lost"), alarm("entry-lost", "entry-lost:2")])
    assert [row["key"] for row in second.alarms] == ["entry-lost:2"]


def test_findings_that_are_no_alarm_are_left_out():
    """Only the seven codes are for the person; other findings handed over are not told."""
    shared = memory(A)
    codes = [*sorted(ALARM_CODES), "fact-unindexed", "contention"]
    answer = shared.news(shared.session(), alarms=[alarm(code) for code in codes])
    assert [row["code"] for row in answer.alarms] == sorted(ALARM_CODES)


def test_alarms_beyond_the_bound_come_with_the_next_answer():
    """What an answer has no room for is not covered by its confirmation."""
    shared = memory(A)
    session = shared.session()
    every = [alarm("entry-lost", f"entry-lost:{number}") for number in range(150)]
    first = shared.news(session, alarms=every)
    assert (len(first.alarms), first.more) == (100, True)
    second = shared.news(told(session, first), alarms=every)
    assert (len(second.alarms), second.more) == (50, False)


# -- the text, and bounds


def test_a_fact_and_its_entry_are_one_line():
    """Neither a new, a changed, a renamed nor a deleted fact is told a second time for its entry."""
    shared = memory(A, B, C)
    session = shared.session()
    shared.write(
        {"new.md": "1", A: None, "moved.md": "a1", B: None, C: "2"},
        [entry("new.md"), entry("moved.md"), (C, "C", "another hook")],
    )
    lines = shared.news(session).text.split("\n")
    assert [line.split(":")[0] for line in lines[1:-1]] == ["- New", "- Gone", "- Changed", "- Renamed"]


def test_entries_without_a_change_of_their_fact_are_told():
    """An entry that came, changed or went by itself has a line of its own."""
    shared = memory(A, B, C)
    shared.write(entries=[entry(A), entry(B)])
    session = shared.session()
    shared.write(entries=[(A, "Title", "new hook"), entry(C)])
    lines = shared.news(session).text.split("\n")
    assert lines[1:-1] == [
        "- New entry: “Title of c.md” (`c.md`): “hook of c.md”",
        "- Entry changed: “Title” (`a.md`): “new hook”",
        "- Entry taken out of the index: “Title of b.md” (`b.md`), though the file is there",
    ]


def test_another_directory_is_named():
    """What happened in another directory of the session says where."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"})
    answer = news(
        session,
        shared.events,
        snapshots={DIR: shared.snapshot},
        main="/elsewhere",
        alarms=[alarm("entry-lost")],
        head=shared.head,
        now_ms=0,
        grace_ms=0,
    )
    assert "(`a.md`) in `/m`" in answer.text
    assert "ALARM about `MEMORY.md` in `/m`" in answer.text
    assert answer.index == type(answer.index)()


def test_many_changes_are_cut_and_counted():
    """At most 500 changes, then `more`; the text counts all, and the confirmation covers all."""
    shared = memory()
    session = shared.session()
    shared.write({f"f{number}.md": str(number) for number in range(1_200)})
    answer = shared.news(session, grace_ms=0)
    assert len(answer.changes) == MAX_CHANGES
    assert answer.to_wire()["more"] is True
    assert answer.count == 1_200
    assert "- And 1191 more: 1191 new." in answer.text
    assert len(answer.text.split("\n")) == TEXT_LINES
    assert shared.news(told(session, answer)).changes == ()


def test_an_answer_fits_one_line_of_the_wire():
    """Long descriptions, hooks and names in a full answer still fit 1 MiB."""
    shared = memory()
    session = shared.session()
    names = [f"{'長' * 60}{number}.md" for number in range(600)]
    shared.write(
        dict.fromkeys(names, "1"),
        [(name, "題" * 1_000, "鉤" * 4_000) for name in names],
        descriptions=dict.fromkeys(names, "説" * 4_000),
    )
    every = [alarm("entry-lost", f"entry-lost:{number}", "\u2028" * 2_000) for number in range(100)]
    answer = shared.news(session, alarms=every)
    assert answer.more
    assert len(json.dumps(answer.to_wire())) < 1_000_000
    assert len(answer.text) <= TEXT_UNITS


def test_purged_events_say_nothing_of_the_file():
    """An event that a purge has blanked still tells that a file changed, and nothing more."""
    shared = memory(A, B)
    session = shared.session()
    shared.write({A: None, B: "2"}, [(B, "T", "h")])
    blank = []
    for event in shared.events:
        data = json.loads(json.dumps(event.data))
        for change in data.get("changes", ()):
            for member in ("name", "description", "contentHash"):
                change.pop(member, None)
        for kind in ("added", "removed", "changed"):
            for row in data.get(kind, ()):
                row["title"] = row["hook"] = ""
        blank.append(replace(event, data=data))
    shared.events = blank
    answer = shared.news(session)
    assert short(answer) == [("deleted", A, None), ("updated", B, None)]
    assert answer.index.removed == ({"target": A, "title": "", "hook": "", "line": 1},)
    assert answer.index.changed == ({"target": B, "title": "T", "hook": "h", "line": 1},)
    assert "- Gone: `a.md`" in answer.text.split("\n")


def test_headings_of_a_document_are_changes_of_its_file():
    """A document whose headings came, went and were renamed has changed; only a reflow is a stamp."""
    shared = memory(A, B)
    session = shared.session()
    units = [
        {"kind": "added", "file": A, "unit": ["one"]},
        {"kind": "removed", "file": A, "unit": ["two"]},
        {"kind": "renamed", "file": A, "unit": ["new"], "from": ["old"]},
        {"kind": "file", "file": B, "unit": ["one"]},
    ]
    shared.events.append(Event(shared.head + 1, 0, "memory/changed", DIR, {"changes": units}))
    assert short(shared.news(session)) == [("updated", A, None), ("file", B, None)]


def test_the_text_is_framed():
    """Whatever is told stands between the same two lines."""
    shared = memory(A)
    session = shared.session()
    shared.write({A: "2"}, by=OTHER)
    line = "- Changed: “Title of a.md” (`a.md`), by zcode other: “hook of a.md”"
    assert shared.news(session).text == f"{BEGIN}\n{line}\n{END}"
