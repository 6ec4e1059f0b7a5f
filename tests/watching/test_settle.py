"""The settler: what may be believed when."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.watching.settle import Settled, Settler

QUIET, LONGEST = 0.05, 1.0


def _settler(most_paths: int = 4096) -> Settler:
    return Settler(quiet_s=QUIET, longest_s=LONGEST, most_paths=most_paths)


def _paths(found: list[Settled]) -> set[str]:
    return {path for each in found for path in each.paths}


def test_nothing_waits_at_first():
    """An empty settler has nothing due and never will."""
    empty = _settler()
    assert empty.due(1e9) == []
    assert empty.next_due() is None
    assert len(empty) == 0


def test_it_tells_for_which_directory_something_waits():
    """A path, the whole directory, or a hold: each counts for its own directory, until it is delivered."""
    settler = _settler()
    settler.touch("/d", "/d/a.md", 0.0)
    settler.whole("/e", 0.0)
    settler.hold("/f", "/f/MEMORY.md", 1.0)
    assert [settler.waits_for(directory) for directory in ("/d", "/e", "/f", "/g")] == [
        True,
        True,
        True,
        False,
    ]
    settler.due(9.0)
    assert not any(settler.waits_for(directory) for directory in ("/d", "/e", "/f", "/g"))


@pytest.mark.parametrize(
    ("events", "due_at"),
    [
        ([(0.0, {"final": True})], 0.0),
        ([(0.0, {})], 0.05),
        ([(0.0, {}), (0.04, {})], 0.09),
        ([(0.0, {}), (0.04, {"final": True})], 0.04),
        ([(0.0, {"final": True}), (0.01, {})], 0.06),
        ([(0.0, {"final": True}), (0.01, {"weak": True})], 0.0),
        ([(0.0, {}), (0.04, {"weak": True})], 0.05),
        ([(0.0, {"weak": True})], 0.05),
        ([(i * 0.04, {}) for i in range(100)], 1.0),
    ],
    ids=[
        "final",
        "bare",
        "bare-again",
        "bare-then-final",
        "final-then-bare",
        "final-then-weak",
        "bare-then-weak",
        "weak",
        "for-ever",
    ],
)
def test_a_path_is_due_when_its_last_event_says(events, due_at):
    """A final event is due at once, a bare one after its quiet time, and never later than the longest wait."""
    it = _settler()
    for now, kind in events:
        it.touch("/d", "/d/a.md", now, **kind)
    assert it.next_due() == pytest.approx(due_at)
    assert it.due(due_at - 0.001) == []
    assert it.due(due_at + 1e-9) == [Settled("/d", frozenset({"/d/a.md"}))]
    assert it.next_due() is None


def test_a_final_path_drags_no_neighbour_along():
    """What is half written stays where it is when its neighbour goes."""
    it = _settler()
    it.touch("/d", "/d/half.md", 0.0)
    it.touch("/d", "/d/done.md", 0.01, final=True)
    assert _paths(it.due(0.01)) == {"/d/done.md"}
    assert _paths(it.due(0.06)) == {"/d/half.md"}


def test_what_is_due_together_comes_in_one_record_per_directory():
    """Both halves of a rename are in one batch, other directories in others."""
    it = _settler()
    it.touch("/d", "/d/a.md", 0.0, final=True)
    it.touch("/d", "/d/b.md", 0.0, final=True)
    it.touch("/e", "/e/c.md", 0.0, final=True)
    assert it.due(0.0) == [
        Settled("/d", frozenset({"/d/a.md", "/d/b.md"})),
        Settled("/e", frozenset({"/e/c.md"})),
    ]


def test_a_whole_directory_waits_for_all_that_is_written_in_it():
    """A look at everything would read half-written files: it waits for quiet, within the same bounds."""
    it = _settler()
    it.whole("/d", 0.0)
    it.touch("/d", "/d/a.md", 0.03, final=True)
    assert it.due(0.06) == [Settled("/d", frozenset({"/d/a.md"}))]
    assert it.due(0.081) == [Settled("/d", whole=True)]
    it.whole("/d", 2.0)
    for step in range(60):
        it.touch("/d", "/d/a.md", 2.0 + step * 0.02, final=True)
    assert it.next_due() is not None
    assert any(each.whole for each in it.due(3.0))


def test_a_hold_comes_due_at_its_time_and_ends_with_an_earlier_delivery():
    """An index of size 0 is delivered again later, once."""
    it = _settler()
    it.hold("/d", "/d/MEMORY.md", 1.0)
    assert it.next_due() == 1.0
    it.expedite(0.5)
    assert it.due(0.5) == []
    assert it.due(1.0) == [Settled("/d", frozenset({"/d/MEMORY.md"}))]
    it.hold("/d", "/d/MEMORY.md", 3.0)
    it.touch("/d", "/d/MEMORY.md", 2.0, final=True)
    assert _paths(it.due(2.0)) == {"/d/MEMORY.md"}
    assert it.next_due() is None


def test_a_hold_delivers_nothing_that_is_being_written():
    """When its time comes in the middle of a write, the end of the write is waited for."""
    it = _settler()
    it.hold("/d", "/d/MEMORY.md", 1.0)
    it.touch("/d", "/d/MEMORY.md", 0.99)
    assert it.due(1.0) == []
    assert _paths(it.due(1.05)) == {"/d/MEMORY.md"}
    assert it.next_due() is None


def test_expedite_skips_all_quiet_times():
    """A flush does not wait for quiet."""
    it = _settler()
    it.touch("/d", "/d/a.md", 0.0)
    it.whole("/e", 0.0)
    it.expedite(0.001)
    assert it.due(0.001) == [Settled("/d", frozenset({"/d/a.md"})), Settled("/e", whole=True)]


def test_too_many_paths_become_one_look_at_the_directory():
    """Names are kept up to a bound; then the directory is looked at as a whole, no later than they would have been."""
    it = _settler(most_paths=10)
    for number in range(35):
        it.touch("/d", f"/d/{number}.md", number / 1000)
    assert len(it) <= 11
    found = it.due(LONGEST)
    assert [each.whole for each in found] == [True]
    assert it.next_due() is None


def test_a_flood_leaves_no_litter():
    """Neither out-of-date entries nor directories stay behind after a flood of finished saves."""
    it = _settler()
    for number in range(50_000):
        it.touch("/d", f"/d/{number % 5000}.md", number / 1e6)
    assert len(it._heap) < 3 * 4096 + 1024
    it.due(10.0)
    assert len(it) == 0
    assert not it._areas
    assert not it._heap


operation = st.tuples(
    st.sampled_from(["bare", "final", "weak", "whole", "hold", "due", "expedite"]),
    st.sampled_from(["/d", "/e"]),
    st.integers(0, 5),
    st.floats(0, 0.4, allow_nan=False),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(operation, max_size=60), st.sampled_from([2, 4096]))
def test_nothing_is_lost_and_nothing_comes_before_its_time(operations, most_paths):
    """After any history each event is followed by a delivery, within the bounds, and by none too early."""
    it = _settler(most_paths)
    now = 0.0
    first: dict[tuple[str, str | None], float] = {}
    earliest: dict[tuple[str, str | None], float] = {}
    holds: dict[tuple[str, str], float] = {}

    def deliver():
        wholes = set()
        for each in it.due(now):
            for path in each.paths:
                key = each.directory, path
                if most_paths > 2:  # else a path may have become part of a look at the whole, and waits on
                    assert now >= min(earliest.get(key, math.inf), holds.get(key, math.inf)) - 1e-9
                first.pop(key, None)
                earliest.pop(key, None)
                holds.pop(key, None)
            if each.whole:
                wholes.add(each.directory)
        for key in list(first):
            if key[0] in wholes and (key[1] is None or most_paths == 2):
                del first[key]
                earliest.pop(key, None)
        for key in [key for key, until in holds.items() if until <= now and key in first]:
            holds[key] = earliest[key]  # it is being written: the hold stands until its own time comes
        for key, since in first.items():
            assert now < since + LONGEST + 1e-9, f"{key} was due"
        for key, until in holds.items():
            if most_paths == 2 and now >= until:
                # Its former event became part of a look at the whole, and it was touched again since: it is being
                # written, and the hold stands until its own time comes.
                until = holds[key] = it.holds[key]
            assert now < until, f"the hold of {key} was due"

    for what, directory, number, pause in operations:
        now += pause
        path = f"{directory}/{number}.md"
        key = directory, path
        if what in ("bare", "final", "weak"):
            if what != "weak" or key not in first:
                earliest[key] = now if what == "final" else min(now + QUIET, first.get(key, now) + LONGEST)
            first.setdefault(key, now)
            it.touch(directory, path, now, final=what == "final", weak=what == "weak")
        elif what == "whole":
            first.setdefault((directory, None), now)
            it.whole(directory, now)
        elif what == "hold":
            holds[key] = now + 1.0
            it.hold(directory, path, now + 1.0)
        elif what == "expedite":
            it.expedite(now)
            earliest.update(dict.fromkeys(earliest, now))
        else:
            deliver()
        assert len(it) <= 2 * (most_paths + 1)
        following = it.next_due()
        assert (following is None) == (len(it) == 0 and not it.holds)
    now += LONGEST + 1.0
    deliver()
    assert not first
    assert not holds
    assert len(it) == 0


def test_a_loss_says_when_it_was():
    """The time of the last loss, however long it took to settle; without a loss there is none."""
    settler = Settler(quiet_s=0.05, longest_s=1.0)
    settler.whole("/m", 1.0, lost=True)
    settler.whole("/m", 1.02, lost=True)
    settler.touch("/m", "/m/a.md", 1.04)
    settler.whole("/n", 1.0)
    told = {item.directory: item for item in settler.due(9.0)}
    assert (told["/m"].lost, told["/m"].lost_at) == (True, 1.02)
    assert not told["/n"].lost
    settler.whole("/m", 10.0)
    [again] = settler.due(20.0)
    assert not again.lost
