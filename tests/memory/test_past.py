"""What is remembered of a directory: batch by batch, within bounds, over restarts."""

import hashlib
import json
import string
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.fact import FileStat, parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.past import (
    CONTENTION_MS,
    DELETIONS_MS,
    MAX_LISTED_FILES,
    MAX_LOSS_CHARS,
    MAX_LOSSES,
    MAX_REMOVALS,
    MAX_STATE_FILES,
    MAX_STATES,
    Loss,
    Past,
    due_ms,
    end,
    follow,
    let_go,
    past_from,
    past_row,
    same_row,
)
from zcsyncd.memory.snapshot import Snapshot

CAPS = Caps(lines=200, units=25_000)
START_MS = 1_796_000_000_000
NOTHING_KEPT = {"bytes_of": lambda _digest: None, "former_indexes": tuple}


def fact_text(name, body="Text.\n"):
    """Give a fact's text."""
    return f"---\nname: {name}\ndescription: about {name}\nmetadata:\n  type: user\n---\n\n{body}"


def snapshot(files):
    """Build a snapshot from texts by file name."""
    index, facts = None, {}
    for file, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        stat = FileStat(0, 0, len(raw), 1)
        if file == "MEMORY.md":
            index = parse_index(file, raw, stat, read_at_ns=0, caps=CAPS)
        else:
            facts[file] = parse_fact(file, raw, stat, read_at_ns=0)
    return Snapshot("/m", "zcode", index, facts)


def numbered(count, first=0):
    """Give facts by file name."""
    return {f"f{number}.md": fact_text(f"f{number}") for number in range(first, first + count)}


def index_of(*names):
    """Give an index with an entry for each name."""
    return "".join(f"- [{name}]({name}.md) — about {name}\n" for name in names)


def step(past, before, after, at_ms=START_MS, *, ours=False, files=None, **doors):
    """Follow one batch."""
    return follow(past, before, after, at_ms=at_ms, files=files, ours=ours, **{**NOTHING_KEPT, **doors})


def codes(past):
    """Give the codes of what is remembered as lost."""
    return [loss.code for loss in past.losses]


# -- what is remembered at all -------------------------------------------------------------------------------


def test_a_new_directory_lost_nothing():
    """Without a snapshot before there is nothing to compare with, and the same past comes back."""
    past = Past()
    assert step(past, None, snapshot(numbered(3))) is past


@pytest.mark.parametrize("files", [None, ["f0.md"], ["f0.md", "MEMORY.md", "unheard-of.md"], []])
def test_a_batch_that_changed_no_bytes_is_not_remembered(files):
    """Equal bytes, read again or not, give the very same past."""
    past = Past()
    before = snapshot({"MEMORY.md": index_of("f0"), **numbered(2)})
    again = snapshot({"MEMORY.md": index_of("f0"), **numbered(2)})
    assert step(past, before, again, files=files) is past
    assert step(past, before, before, files=files) is past


def test_new_facts_and_new_entries_are_not_remembered():
    """A fact that appears, and an entry that does, change nothing in what a restart must know."""
    past = Past()
    before = snapshot(numbered(2))
    more = snapshot(numbered(3))
    assert step(past, before, more, files=["f2.md"]) is past
    first = snapshot({**numbered(3), "MEMORY.md": index_of("f0")})
    assert step(past, more, first, files=["MEMORY.md"]) is past
    second = snapshot({**numbered(3), "MEMORY.md": index_of("f0", "f1")})
    assert same_row(step(past, first, second, files=["MEMORY.md"]), past)


def test_only_named_files_are_compared():
    """With `files`, a batch costs by them: no other fact is looked at."""

    class Counting(dict):
        asked = 0

        def get(self, *args):
            Counting.asked += 1
            return super().get(*args)

        def __iter__(self):
            raise AssertionError("all facts were walked")

        items = values = keys = __iter__

    before = snapshot({"MEMORY.md": index_of("f0"), **numbered(50)})
    changed = {**numbered(50), "f3.md": fact_text("f3", "Other text.\n")}
    after = snapshot({"MEMORY.md": index_of("f0"), **changed})
    was = Snapshot("/m", "zcode", before.index, Counting(before.facts))
    now = Snapshot("/m", "zcode", after.index, Counting(after.facts))
    past = step(Past(), was, now, files=["f3.md"])
    assert list(past.states) == ["f3.md"]
    assert Counting.asked == 2
    gone = Snapshot(
        "/m", "zcode", after.index, Counting({f: x for f, x in after.facts.items() if f != "f3.md"})
    )
    assert step(past, now, gone, files=["f3.md"]).deletions == ((START_MS, "f3.md"),)


def test_the_doors_are_asked_only_where_an_entry_vanished():
    """A save, a new entry and a changed hook ask neither the history nor the disk."""

    def never(*_args):
        raise AssertionError("asked")

    doors = {"bytes_of": never, "former_indexes": never, "still_there": never}
    facts = numbered(3)
    texts = [
        index_of("f0", "f1"),
        index_of("f0", "f1", "f2"),
        index_of("f2", "f1", "f0").replace("about", "on"),
    ]
    past = Past()
    for was, now in pairwise(texts):
        past = step(
            past, snapshot({"MEMORY.md": was, **facts}), snapshot({"MEMORY.md": now, **facts}), **doors
        )
    assert past.losses == ()


# -- lost entries --------------------------------------------------------------------------------------------


def test_a_lost_entry_is_remembered_as_it_was():
    """Title, hook, line and the version that holds it are kept for the repair."""
    text = "# Facts\n\n" + index_of("f0", "f1", "f2")
    facts = numbered(3)
    before = snapshot({"MEMORY.md": text, **facts})
    past = step(Past(), before, snapshot({"MEMORY.md": index_of("f2"), **facts}))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert past.losses == tuple(
        Loss(
            "entry-lost",
            START_MS,
            "MEMORY.md",
            f"f{number}.md",
            title=f"f{number}",
            hook=f"about f{number}",
            line=3 + number,
            held_in=digest,
        )
        for number in range(2)
    )


def test_a_disappearance_that_has_not_settled_is_no_loss():
    """Facts that the disk no longer has are not "still there", though their deletion is yet to be told."""
    facts = numbered(4)
    before = snapshot({"MEMORY.md": index_of("f0", "f1", "f2"), **facts})
    after = snapshot({"MEMORY.md": index_of("f0"), **facts})
    asked = []

    def gone(file):
        asked.append(file)
        return False

    past = step(Past(), before, after, still_there=gone)
    assert (past.losses, past.removals) == ((), ())
    assert asked == ["f1.md", "f2.md"]


def test_the_oldest_losses_go_first():
    """A directory remembers a bounded number of losses; of one write the first entries, of many writes the last."""
    facts = numbered(MAX_LOSSES + 300)
    names = [file.removesuffix(".md") for file in facts]
    full = snapshot({"MEMORY.md": index_of(*names), **facts})
    past = step(Past(), full, snapshot({"MEMORY.md": index_of("f0"), **facts}))
    assert [loss.target for loss in past.losses] == [f"f{number}.md" for number in range(1, MAX_LOSSES + 1)]
    two = snapshot({"MEMORY.md": index_of("f1200", "f1201", "f0"), **facts})
    past = step(past, two, snapshot({"MEMORY.md": index_of("f0"), **facts}), START_MS + 1)
    assert len(past.losses) == MAX_LOSSES
    assert [loss.target for loss in past.losses[:1] + past.losses[-2:]] == ["f3.md", "f1200.md", "f1201.md"]


def test_the_words_of_all_losses_are_bounded():
    """Very long hooks make fewer losses, and a row that stays of a size to be written often."""
    facts = numbered(200)
    hooks = "".join(f"- [f{number}](f{number}.md) — {'文' * 3_900}\n" for number in range(200))
    before = snapshot({"MEMORY.md": hooks, **facts})
    past = step(Past(), before, snapshot({"MEMORY.md": "# Empty\n", **facts}))
    assert 50 < len(past.losses) < 100
    assert sum(len(loss.hook) for loss in past.losses) <= MAX_LOSS_CHARS
    assert len(past_row(past)) < 8 * MAX_LOSS_CHARS


def test_removals_are_bounded():
    """Entries that are taken out one by one are remembered up to a number, the last ones."""
    facts = numbered(MAX_REMOVALS + 20)
    names = [file.removesuffix(".md") for file in facts]
    past = Past()
    for number in range(len(names)):
        before = snapshot({"MEMORY.md": index_of(*names[number:]), **facts})
        after = snapshot({"MEMORY.md": "# Facts\n" + index_of(*names[number + 1 :]), **facts})
        past = step(past, before, after, START_MS + number)
    assert len(past.removals) == MAX_REMOVALS
    assert past.removals[-1] == (START_MS + len(names) - 1, f"{names[-1]}.md")


# -- deletions -----------------------------------------------------------------------------------------------


def without(files, *gone):
    """Leave files out."""
    return {file: text for file, text in files.items() if file not in gone}


def test_deletions_of_one_minute_count_together():
    """Five facts that go one by one are one deletion, if the minute holds them."""
    for gap_ms, expected in ((14_000, ["mass-delete"]), (16_000, [])):
        files, past = numbered(10), Past()
        for number in range(5):
            fewer = without(files, f"f{number}.md")
            past = step(past, snapshot(files), snapshot(fewer), START_MS + number * gap_ms)
            files = fewer
        assert codes(past) == expected, gap_ms


def test_a_deletion_that_goes_on_is_one_loss():
    """What goes in the same minute is added to the loss, each file once."""
    files, past = numbered(100), Past()
    for first in range(0, 60, 20):
        fewer = without(files, *numbered(20, first))
        past = step(past, snapshot(files), snapshot(fewer), START_MS + first)
        files = fewer
    (loss,) = past.losses
    assert (loss.count, len(loss.lost)) == (60, 60)


def test_two_deletions_at_one_moment_are_counted_once_each():
    """Batches that bear the same time, or come after the clock went back, are added, and nothing twice."""
    files, past = numbered(40), Past()
    for first, at_ms in ((0, START_MS), (20, START_MS), (30, START_MS - 5_000)):
        fewer = without(files, *numbered(10 if first else 20, first))
        past = step(past, snapshot(files), snapshot(fewer), at_ms)
        files = fewer
    (loss,) = past.losses
    assert (loss.count, len(set(loss.lost))) == (40, 40)


def test_a_very_large_deletion_is_counted_and_listed_in_part():
    """The names are bounded, the count is not, and one more deletion does not count the others again."""
    files = numbered(MAX_LISTED_FILES + 200)
    past = step(Past(), snapshot(files), snapshot({}))
    (loss,) = past.losses
    assert (loss.count, len(loss.lost)) == (700, MAX_LISTED_FILES)
    one = snapshot({"g.md": "Text.\n"})
    (loss,) = step(past, one, snapshot({}), START_MS + 1_000).losses
    assert (loss.count, len(loss.lost)) == (701, MAX_LISTED_FILES)


def test_a_rename_in_two_halves_is_no_deletion():
    """Facts that come back under other names within the minute take their deletion back, whichever half is first."""
    files = numbered(8)
    moved = {f"sub/{file}": text for file, text in files.items()}
    past = step(Past(), snapshot(files), snapshot({}))
    assert codes(past) == ["mass-delete"]
    some = dict(list(moved.items())[:4])
    past = step(past, snapshot({}), snapshot(some), START_MS + 100)
    assert codes(past) == []
    past = step(past, snapshot(some), snapshot(moved), START_MS + 200)
    assert (past.losses, past.deletions, dict(past.gone)) == ((), (), {})
    both = {**files, **moved}
    past = step(
        step(Past(), snapshot(files), snapshot(both)), snapshot(both), snapshot(moved), START_MS + 100
    )
    assert past.losses == ()


def test_what_our_pen_deleted_is_not_counted():
    """Our own deletions neither make a mass deletion nor add to one."""
    files = numbered(20)
    rest = without(files, *numbered(10))
    past = step(Past(), snapshot(files), snapshot(rest), ours=True)
    assert (past.losses, past.deletions) == ((), ())
    past = step(past, snapshot(rest), snapshot(without(rest, *numbered(3, 10))), START_MS + 1)
    assert past.losses == ()


def test_a_second_mass_deletion_adds_to_the_first():
    """A week later more facts go: the loss holds what is still missing of the first, and the new ones."""
    files = numbered(30)
    first = without(files, *numbered(10))
    past = step(Past(), snapshot(files), snapshot(first))
    restored = {**first, **numbered(4)}
    later = START_MS + 7 * 86_400_000
    past = step(past, snapshot(first), snapshot(restored), later - 1, ours=True)
    past = end(past, snapshot(restored), now_ms=later - 1)
    past = step(past, snapshot(restored), snapshot(without(restored, *numbered(6, 10))), later)
    (loss,) = past.losses
    assert (loss.count, loss.lost) == (12, tuple(f"f{number}.md" for number in range(4, 16)))


# -- states --------------------------------------------------------------------------------------------------


def test_states_are_bounded():
    """Of a file the last states are kept, of files those that changed last, and none for longer than ten minutes."""
    past = Past()
    for number in range(MAX_STATES + 5):
        was, now = (snapshot({"f.md": fact_text("f", f"{n}\n")}) for n in (number, number + 1))
        past = step(past, was, now, START_MS + number)
    assert len(past.states["f.md"]) == MAX_STATES
    many = numbered(MAX_STATE_FILES + 20)
    changed = {file: text + "more\n" for file, text in many.items()}
    for number, file in enumerate(many):
        was, now = snapshot({file: many[file]}), snapshot({file: changed[file]})
        past = step(past, was, now, START_MS + 100 + number)
    assert len(past.states) == MAX_STATE_FILES
    assert "f.md" not in past.states
    over = START_MS + 100 + len(many) + CONTENTION_MS
    assert end(past, snapshot(changed), now_ms=over).states == {}


def test_when_time_alone_ends_something_is_told():
    """Contention is over ten minutes after it was last seen; everything else waits for the directory."""
    assert due_ms(Past()) is None
    lost = Loss("entry-lost", 5, "MEMORY.md", "a.md")
    assert due_ms(Past(losses=(lost,))) is None
    fights = Loss("contention", 7, "b.md"), Loss("contention", 9, "a.md")
    assert due_ms(Past(losses=(lost, *fights))) == 7 + CONTENTION_MS


def test_ending_nothing_gives_the_same_past():
    """A past with nothing to end comes back as it is."""
    facts = numbered(3)
    before = snapshot({"MEMORY.md": index_of("f0", "f1", "f2"), **facts})
    after = snapshot({"MEMORY.md": index_of("f0"), **facts})
    past = step(Past(), before, after)
    assert codes(past) == ["entry-lost", "entry-lost"]
    assert end(past, after, now_ms=START_MS + 1) is past
    assert end(Past(), after, now_ms=START_MS) == Past()


def test_deletions_are_let_go_after_their_minute():
    """When the minute is over, ending lets them go; the loss that they made stays."""
    files = numbered(10)
    past = step(Past(), snapshot(files), snapshot(without(files, *numbered(6))))
    left = snapshot(without(files, *numbered(6)))
    assert end(past, left, now_ms=START_MS + DELETIONS_MS) is past
    over = end(past, left, now_ms=START_MS + DELETIONS_MS + 1)
    assert (over.deletions, dict(over.gone), over.peak) == ((), {}, 0)
    assert codes(over) == ["mass-delete"]


def test_a_file_that_is_let_go_leaves_no_trace():
    """Neither its name nor a hash of it stays, wherever it was remembered; the others do."""
    files = numbered(12)
    names = [file.removesuffix(".md") for file in files]
    before = snapshot({"MEMORY.md": index_of(*names).replace("(f1.md)", "(%66%31.md)"), **files})
    changed = {**files, "f1.md": "Text.\n", "f2.md": "Text.\n"}
    lost = snapshot({"MEMORY.md": "# None\n", **changed})
    past = step(Past(removals=((1, "f1.md"), (2, "f2.md"))), before, lost)
    past = step(past, lost, snapshot({"MEMORY.md": "# None\n"}), START_MS + 1)
    assert {"entry-lost", "fact-blanked", "mass-delete"} <= set(codes(past))
    left = let_go(past, "f1.md")
    assert '"f1.md"' not in past_row(left) + repr(left).replace("'", '"')
    assert past.gone["f1.md"] in past_row(past)
    assert len(left.losses) == len(past.losses) - 2
    assert (left.losses[-1].count, len(left.losses[-1].lost)) == (11, 11)
    assert [file for _, file in left.removals] == ["f2.md"]


# -- rows ----------------------------------------------------------------------------------------------------

_text = st.text(
    st.sampled_from(list(string.ascii_letters + '文"\\\n\u202e\udce9\ud800🎯—'))
    | st.characters(exclude_categories=[]),
    max_size=12,
)
_ms = st.integers(0, 2**45)
_digests = st.text("0123456789abcdef", min_size=1, max_size=8)
_losses = st.builds(
    Loss,
    code=st.sampled_from(["entry-lost", "fact-blanked", "fact-shrunk", "mass-delete", "contention"]),
    at_ms=_ms,
    file=st.none() | _text,
    target=st.none() | _text,
    title=_text,
    hook=_text,
    line=st.none() | st.integers(1, 10**6),
    single=st.booleans(),
    held_in=st.none() | _digests,
    size=st.integers(0, 10**9),
    lost=st.lists(_text, max_size=4).map(tuple),
    count=st.integers(0, 10**6),
)


@st.composite
def _pasts(draw):
    gone = draw(st.dictionaries(_text, _digests, max_size=4))
    return Past(
        losses=draw(st.lists(_losses, max_size=5).map(tuple)),
        deletions=tuple((draw(_ms), file) for file in gone),
        states=draw(
            st.dictionaries(
                _text,
                st.lists(st.tuples(_ms, st.sampled_from("ab")), min_size=3, max_size=8).map(tuple),
                max_size=3,
            )
        ),
        peak=draw(st.integers(0, 10**6)),
        gone=gone,
        removals=draw(st.lists(st.tuples(_ms, _text), max_size=4).map(tuple)),
        away_ms=draw(st.none() | _ms),
    )


@settings(max_examples=200, deadline=None)
@given(_pasts())
def test_a_past_survives_a_restart(past):
    """Whatever names, words and times it holds, the row gives the same past, and is plain ASCII on one line."""
    row = past_row(past)
    assert row.isascii()
    assert "\n" not in row
    assert past_from(row) == past
    assert same_row(past_from(row), past)


@settings(max_examples=100, deadline=None)
@given(_pasts(), _pasts())
def test_equal_rows_are_told_without_making_them(one, other):
    """Whether a row must be written anew is the same question as whether the rows differ."""
    assert same_row(one, one)
    if same_row(one, other):
        assert past_row(one) == past_row(other)


def test_a_usual_save_leaves_the_row_as_it_is():
    """Only what a restart must know is in the row: the states of a file that goes on and on are not."""
    past = Past()
    for number in range(6):
        was, now = (snapshot({"f.md": fact_text("f", f"{n}\n")}) for n in (number, number + 1))
        then = step(past, was, now, START_MS + number)
        assert same_row(past, then)
        past = then
    assert past_row(past) == past_row(Past()) == "{}"
    back = step(past, now, snapshot({"f.md": fact_text("f", "3\n")}), START_MS + 10)
    assert not same_row(past, back)
    assert past_from(past_row(back)).states == back.states


@pytest.mark.parametrize(
    "row",
    [
        "",
        "no json",
        "null",
        "[]",
        "7",
        '{"losses":7}',
        '{"losses":[7]}',
        '{"losses":[{}]}',
        '{"losses":[{"code":"entry-lost"}]}',
        '{"losses":[{"code":"entry-lost","at_ms":"x"}]}',
        '{"losses":[{"code":"mass-delete","at_ms":1,"lost":[7]}]}',
        '{"deletions":[[1]]}',
        '{"deletions":[["a","b","c"]]}',
        '{"states":[1]}',
        '{"states":{"a":[[1,2]]}}',
        '{"removals":[[1,2,3]]}',
        '{"peak":"many"}',
        '{"awayMs":"then"}',
        "[" * 100_000,
    ],
)
def test_an_odd_row_remembers_nothing(row):
    """A row that is none of ours is an empty past, never an exception."""
    assert past_from(row) == Past()


def test_a_newer_programs_row_is_read_as_far_as_it_is_known():
    """Unknown codes and members are left out, the rest is read."""
    row = {
        "losses": [
            {"code": "fact-burnt", "at_ms": 1},
            {"code": "contention", "at_ms": 2, "file": "a.md", "mood": "grim"},
        ],
        "weather": "fair",
    }
    assert past_from(json.dumps(row)) == Past(losses=(Loss("contention", 2, "a.md"),))


# -- whatever happens ----------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
_bodies = st.sampled_from(["Text.\n", "x" * 3_000, "[b](b.md)\n", ""])
_indexes = (
    st.none()
    | st.lists(_names, max_size=7).map(lambda names: index_of(*names))
    | st.sampled_from([b"\0\0\0", "", "---\n- [a](a.md)\n---\n", "<!--\n- [a](a.md)\n-->\n"])
)


@st.composite
def _directories(draw):
    files = {f"{name}.md": fact_text(name, draw(_bodies)) for name in draw(st.sets(_names))}
    if draw(st.booleans()):
        files["a.md"] = draw(st.sampled_from(["", "---\n---\nText.\n", "---\nname: [\n---\nText.\n", b"\0"]))
    index = draw(_indexes)
    return files if index is None else {"MEMORY.md": index, **files}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_directories(), st.integers(0, 400_000), st.booleans()), min_size=2, max_size=8))
def test_whatever_happens_is_followed(batches):
    """No sequence of states raises; a second look at the same state remembers nothing more; a restart changes nothing."""
    kept, former = {}, []
    past, before, at_ms = Past(), None, START_MS
    for files, gap_ms, ours in batches:
        at_ms += gap_ms
        after = snapshot(files)
        index = files.get("MEMORY.md")
        raw = index.encode() if isinstance(index, str) else index
        if raw is not None:
            kept[hashlib.sha256(raw).hexdigest()] = raw
        doors = {"bytes_of": kept.get, "former_indexes": lambda: tuple(former)}
        then = step(past, before, after, at_ms, ours=ours, **doors)
        assert step(then, after, after, at_ms, **doors) is then
        if ours:
            assert {loss.target for loss in then.losses} <= {loss.target for loss in past.losses}
        ended = end(then, after, now_ms=at_ms)
        assert end(ended, after, now_ms=at_ms) is ended
        assert set(ended.losses) <= set(then.losses)
        assert past_from(past_row(ended)).losses == ended.losses
        if raw is not None:
            former.insert(0, hashlib.sha256(raw).hexdigest())
        past, before = ended, after
