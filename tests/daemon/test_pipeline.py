"""The whole way of a change, over real files and a real database; the test is the watch and the clock."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.daemon.bed import BROKEN, Bed, good
from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier

ENTRY = "- [A](a.md) — What it says\n"


def hold_up(seconds: float = 0.006) -> None:
    """Keep the loop for longer than a slice of a look may last, so that the look gives way next."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


# -- looks


def test_an_event_during_a_look_is_looked_at_after_it(bed):
    """A file that changes while its directory is being looked at is told again, as it is at the end."""
    memory = bed.memory()
    memory.save("a.md", good("one"))
    memory.save("z.md", good("last"))

    def save_again(file: str) -> None:
        if file == "z.md" and "three" not in (text := open_text(memory.path("a.md"))):
            assert "two" in text
            memory.save("a.md", good("three"))
            bed.watch.give(memory.event("a.md"))
            hold_up()

    async def story():
        await bed.start()
        memory.save("a.md", good("two"))
        bed.on_file = save_again
        bed.watch.give(memory.event(whole=True))
        await bed.rest()
        assert bed.changes() == [("updated", "a.md")] * 2
        told = [change["description"] for data in bed.data("memory/changed") for change in data["changes"]]
        assert told == ["two", "three"]

    bed.play(story)


def open_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_other_directories_go_on_beside_a_long_look(bed):
    """A look in slices keeps nobody else waiting."""
    long, quick = bed.memory("long"), bed.memory("quick")
    for name in ("a.md", "b.md", "c.md"):
        long.save(name, good("one"))
    quick.save("q.md", good("one"))
    order = []

    def in_between(file: str) -> None:
        order.append(file)
        if file == "b.md":
            quick.save("q.md", good("two"))
            bed.watch.give(quick.event("q.md"))
            hold_up()

    async def story():
        await bed.start()
        bed.on_file = in_between
        bed.watch.give(long.event(whole=True))
        await bed.rest()
        assert order == ["a.md", "b.md", "q.md", "c.md"]
        assert bed.changes() == [("updated", "q.md")]

    bed.play(story)


def test_many_paths_of_one_directory_are_one_batch(bed):
    """A burst over a directory is one event, however many of its paths were named."""
    memory = bed.memory()
    memory.save("a.md", good())
    names = [f"n{number:03}.md" for number in range(200)]

    async def story():
        await bed.start()
        for name in names:
            memory.save(name, good())
        await bed.tell(memory.event(*names))
        assert bed.changes() == [("added", name) for name in names]
        assert bed.topics.count("memory/changed") == 1

    bed.play(story)


def test_a_directory_whose_root_goes_during_a_look_is_let_go(bed):
    """What is no longer ours is neither kept nor told, whatever a look that had begun brings."""
    memory = bed.memory()
    memory.save("a.md", good("one"))

    def take_the_root_away(_file: str) -> None:
        bed.grounds.trees = ()

    async def story():
        await bed.start()
        memory.save("a.md", good("two"))
        bed.on_file = take_the_root_away
        await bed.tell(memory.event(whole=True))
        assert bed.store.kept == {}
        assert bed.topics == ["memory/dir-removed"]  # alone: its files are still there
        bed.groups.clear()
        await bed.tell(memory.event("a.md"))
        assert bed.told == []

    bed.play(story)


def test_nothing_is_told_after_stop(bed):
    """A scan that still ran, and what settles afterwards, add nothing to a journal that says it is over."""
    memory = bed.memory()
    memory.save("a.md", good("one"))
    memory.save("b.md", good("one"))

    async def story():
        await bed.start()
        begun = asyncio.Event()

        def note(_file: str) -> None:
            begun.set()
            hold_up()

        bed.on_file = note
        memory.save("b.md", BROKEN)
        scan = asyncio.create_task(bed.pipeline.scan("asked"))
        await begun.wait()
        await bed.pipeline.stop()
        at_stop = len(bed.told)
        await asyncio.gather(scan, return_exceptions=True)
        bed.watch.give(memory.event("b.md"), memory.event(whole=True), Unsure("overflow"))
        await bed.rest()
        await bed.pass_time(100)
        assert len(bed.told) == at_stop

    bed.play(story)


# -- groups, and the audit behind them


@pytest.mark.parametrize(("saves", "groups"), [(1, [1]), (64, [64]), (65, [64, 1]), (130, [64, 64, 2])])
def test_what_is_there_at_a_moment_is_one_transaction(bed, saves, groups):
    """A lone save is told at once; a burst in transactions of at most 64 looks, all of it without waiting."""
    memories = [bed.memory(f"p{number}") for number in range(saves)]
    for memory in memories:
        memory.save("a.md", good("one"))

    async def story():
        await bed.start()
        for memory in memories:
            memory.save("a.md", good("two"))
        bed.watch.give(*(memory.event("a.md") for memory in memories))
        await bed.rest()
        assert [len(group) for group in bed.groups] == groups
        assert bed.changes() == [("updated", "a.md")] * saves

    bed.play(story)


def test_changed_comes_before_index_before_audit(bed):
    """Within one batch of a directory the order of the protocol holds, and the news does not wait for the audit."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("MEMORY.md", ENTRY)

    async def story():
        await bed.start()
        memory.save("b.md", BROKEN)
        memory.save("MEMORY.md", ENTRY + "- [B](b.md) — Other\n")
        bed.watch.give(memory.event("b.md", "MEMORY.md"))
        await bed.rest()
        assert [[event.topic for event in group] for group in bed.groups] == [
            ["memory/changed", "memory/index"]
        ]
        await bed.pass_time(0.005)
        assert bed.topics == ["memory/changed", "memory/index", "memory/audit"]
        assert len(bed.codes()) == 1

    bed.play(story)


def test_the_audit_waits_for_a_pause(bed):
    """While saves come, a directory is not audited at each of them; 5 ms after the last one it is."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        for number in range(10):
            memory.save("a.md", BROKEN + str(number))
            bed.watch.give(memory.event("a.md"))
            await bed.pass_time(0.004)
        assert "memory/audit" not in bed.topics
        await bed.pass_time(0.001)
        assert bed.topics.count("memory/audit") == 1

    bed.play(story)


def test_the_audit_comes_at_the_latest_after_a_tenth_of_a_second(bed):
    """Saves without a pause do not keep the audit away for ever."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        began = bed.watch.now
        number = 0
        while "memory/audit" not in bed.topics:
            assert bed.watch.now - began <= 0.1 + 1e-6
            memory.save("a.md", BROKEN + str(number := number + 1))
            bed.watch.give(memory.event("a.md"))
            await bed.pass_time(0.004)
        assert bed.watch.now - began >= 0.1 - 1e-6

    bed.play(story)


def test_an_audit_that_fails_leaves_the_others(bed, caplog):
    """A bug in the rules of one directory is logged; the other directories of the batch are audited."""
    broken, whole = bed.memory("a"), bed.memory("b")
    for memory in (broken, whole):
        memory.save("a.md", good())

    def muted(directory: str) -> frozenset[str]:
        if directory == broken.dir:
            raise LookupError("a bug of the rules")
        return frozenset()

    async def story():
        await bed.start()
        bed.muted = muted
        for memory in (broken, whole):
            memory.save("a.md", BROKEN)
        await bed.tell(broken.event("a.md"), whole.event("a.md"))
        assert [event.directory for event in bed.told if event.topic == "memory/audit"] == [whole.dir]
        assert [record.message for record in caplog.records] == [f"audit failed dir={broken.dir!r}"]
        bed.muted = lambda _directory: frozenset()
        broken.save("a.md", BROKEN + "more")
        await bed.tell(broken.event("a.md"))
        assert [event.directory for event in bed.told if event.topic == "memory/audit"][-1] == broken.dir

    bed.play(story)


def test_a_grace_ends_by_itself(bed):
    """A fact without an entry is told when its minute is over, without any further event, and not before."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("MEMORY.md", ENTRY)

    async def story():
        await bed.start()
        memory.save("b.md", good(name="another"))
        await bed.tell(memory.event("b.md"))
        await bed.pass_time(59.99)
        assert bed.codes() == []
        await bed.pass_time(0.02)
        assert bed.codes() == ["fact-unindexed"]

    bed.play(story)


def test_a_barrier_passes_when_look_and_audit_are_over(bed):
    """Who waits at a barrier has been told everything that was before it, the audit too, without its pause."""
    memory = bed.memory()
    for name in ("a.md", "b.md", "c.md"):
        memory.save(name, good())
    passed = []

    async def story():
        await bed.start()
        bed.on_file = lambda _file: hold_up()
        memory.save("c.md", BROKEN)
        bed.watch.give(memory.event(whole=True), Barrier(lambda _barrier: passed.append(bed.topics)))
        await bed.until(lambda: passed)
        assert passed == [["memory/changed", "memory/audit"]]

    bed.play(story)


def test_a_barrier_waits_for_a_scan_that_was_asked_for_before_it(bed):
    """A lost event is looked for before anybody is told that all is told."""
    memory = bed.memory()
    memory.save("a.md", good())
    passed = []

    async def story():
        await bed.start()
        memory.save("a.md", BROKEN)
        bed.watch.give(Unsure("overflow"), Barrier(lambda _barrier: passed.append(bed.topics)))
        await bed.until(lambda: passed)
        assert passed == [["memory/changed", "memory/audit", "daemon/rescanned"]]

    bed.play(story)


# -- what a disk that is full does


def test_a_refused_change_is_told_once_when_there_is_room(bed):
    """What could not be written is undone, looked at again a second later, and told exactly once."""
    memory = bed.memory()
    memory.save("a.md", good("one"))

    async def story():
        await bed.start()
        before = bed.store.kept[memory.dir]
        bed.database.full = True
        memory.save("a.md", good("two"))
        await bed.tell(memory.event("a.md"))
        assert bed.told == []
        assert bed.store.kept[memory.dir].snapshot is before.snapshot
        assert "full" in str(bed.store.last_error)
        for _ in range(3):
            await bed.pass_time(1)
            assert bed.told == []
        bed.database.full = False
        await bed.pass_time(1.1)
        assert bed.changes() == [("updated", "a.md")]
        assert bed.store.last_error is None
        await bed.pass_time(100)
        assert bed.changes() == [("updated", "a.md")]

    bed.play(story)


def test_a_refused_directory_comes_and_goes_once(bed):
    """Also a new directory, and one that is gone, are told once the disk takes it."""
    old, new = bed.memory("old"), bed.memory("new")
    old.save("a.md", good())

    async def story():
        await bed.start()
        bed.database.full = True
        new.save("b.md", good())
        old.remove()
        await bed.tell(new.event(whole=True), old.event(whole=True))
        await bed.pass_time(1.1)
        assert bed.told == []
        assert set(bed.store.kept) == {old.dir}
        bed.database.full = False
        await bed.pass_time(1.1)
        await bed.pass_time(1.1)
        assert sorted(bed.changes()) == [("added", "b.md"), ("deleted", "a.md")]
        assert sorted(t for t in bed.topics if "dir-" in t) == ["memory/dir-added", "memory/dir-removed"]
        assert set(bed.store.kept) == {new.dir}

    bed.play(story)


def test_a_refused_finding_is_told_once_when_there_is_room(bed):
    """The change was written, its audit was not: the finding is told later, and once."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        memory.save("a.md", BROKEN)
        bed.watch.give(memory.event("a.md"))
        await bed.rest()
        assert bed.changes() == [("updated", "a.md")]
        bed.database.full = True
        await bed.pass_time(0.005)
        assert bed.codes() == []
        bed.database.full = False
        for _ in range(3):
            await bed.pass_time(1.1)
        assert len(bed.codes()) == 1
        assert bed.changes() == [("updated", "a.md")]

    bed.play(story)


# -- what is not believed at once


def test_an_empty_index_is_held_for_a_second(bed):
    """A file that was cut to nothing may be about to be written: nobody hears of it within that second."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("MEMORY.md", ENTRY)

    async def story():
        await bed.start()
        memory.save("MEMORY.md", "")
        await bed.tell(memory.event("MEMORY.md"))
        await bed.pass_time(0.9)
        assert bed.told == []
        memory.save("MEMORY.md", ENTRY + "more\n")
        await bed.tell(memory.event("MEMORY.md"))
        assert bed.changes() == [("updated", "MEMORY.md")]
        bed.groups.clear()
        memory.save("MEMORY.md", "")
        await bed.tell(memory.event("MEMORY.md"))
        await bed.pass_time(0.95)
        assert bed.told == []
        await bed.pass_time(0.05)
        assert bed.changes() == [("updated", "MEMORY.md")]

    bed.play(story)


def test_a_directory_that_goes_takes_its_held_index_along(bed):
    """An empty index in a directory made again has its own second, not the rest of another's."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("MEMORY.md", ENTRY)

    async def story():
        await bed.start()
        memory.save("MEMORY.md", "")
        await bed.tell(memory.event("MEMORY.md"))
        await bed.pass_time(0.5)
        memory.remove()
        await bed.tell(memory.event(whole=True))
        assert bed.topics[-1] == "memory/dir-removed"
        bed.groups.clear()
        memory.save("a.md", good())
        memory.save("MEMORY.md", "")
        await bed.tell(memory.event(whole=True))
        await bed.pass_time(0.9)
        await bed.tell(memory.event(whole=True))
        assert bed.told == []
        await bed.pass_time(0.1)
        await bed.tell(memory.event(whole=True))
        assert bed.changes() == [("added", "MEMORY.md"), ("added", "a.md")]

    bed.play(story)


def test_a_new_directory_is_told_in_one_batch_when_it_is_whole(bed):
    """While its files are being written nothing is told of it; then all of them at once."""
    memory = bed.memory()

    async def story():
        await bed.start()
        memory.save("a.md", good())
        memory.save("b.md", "half", young=True)
        await bed.tell(memory.event(whole=True))
        assert bed.told == []
        memory.save("b.md", good("whole"))
        await bed.tell(memory.event(whole=True))
        assert bed.topics[:2] == ["memory/dir-added", "memory/changed"]
        assert bed.changes() == [("added", "a.md"), ("added", "b.md")]
        assert bed.data("memory/changed")[0]["changes"][1]["description"] == "whole"

    bed.play(story)


def test_a_new_directory_that_is_never_still_is_told_after_a_second(bed):
    """Somebody who writes without end does not keep the rest from being told."""
    memory = bed.memory()

    async def story():
        await bed.start()
        memory.save("a.md", good())
        memory.save("b.md", "never whole", young=True)
        await bed.tell(memory.event(whole=True))
        await bed.pass_time(0.9)
        assert bed.told == []
        bed.watch.now += 0.11
        await bed.tell(memory.event(whole=True))
        assert bed.topics[0] == "memory/dir-added"
        assert ("added", "a.md") in bed.changes()

    bed.play(story)


# -- directories that go and come


def test_a_loss_is_not_told_twice_when_a_scan_was_quicker(bed):
    """Removed and made again; scans see both before the loss has settled: it is told once. A later loss is another."""

    async def story():
        memory = bed.memory()
        memory.save("a.md", good())
        await bed.start()
        await bed.pass_time(1.0)
        lost_at = bed.watch.now
        memory.remove()
        await bed.pass_time(0.01)
        await bed.pipeline.scan("schedule")
        memory.save("a.md", good())
        await bed.pass_time(0.01)
        await bed.pipeline.scan("schedule")
        await bed.tell(Settled(memory.dir, whole=True, lost=True, lost_at=lost_at))
        comings = [topic for topic in bed.topics if topic.startswith("memory/dir-")]
        assert comings == ["memory/dir-removed", "memory/dir-added"]
        assert bed.changes() == [("deleted", "a.md"), ("added", "a.md")]
        bed.groups.clear()
        await bed.tell(Settled(memory.dir, whole=True, lost=True, lost_at=bed.watch.now))
        assert [topic for topic in bed.topics if topic.startswith("memory/dir-")] == comings

    bed.play(story)


def test_a_base_that_went_takes_nothing_that_came_after_it(bed):
    """A scan saw what lies below the base that was made again before its removal was dealt with: told once."""

    async def story():
        memory = bed.memory()
        memory.save("a.md", good())
        await bed.start()
        await bed.pass_time(1.0)
        went_at = bed.watch.now
        memory.remove()
        await bed.pass_time(0.01)
        await bed.pipeline.scan("schedule")
        memory.save("a.md", good())
        await bed.pass_time(0.01)
        await bed.pipeline.scan("schedule")
        await bed.tell(Unsure("base-removed", bed.tree.base, went_at))
        comings = [topic for topic in bed.topics if topic.startswith("memory/dir-")]
        assert comings == ["memory/dir-removed", "memory/dir-added"]

    bed.play(story)


def test_a_lost_directory_is_removed_and_added(bed):
    """Removed and made again between two looks: told as two directories, not as changes of one."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("b.md", good("same"))

    async def story():
        await bed.start()
        memory.remove()
        memory.save("b.md", good("same"))
        memory.save("c.md", good("new"))
        await bed.tell(memory.event(whole=True, lost=True))
        assert [topic for topic in bed.topics if topic != "memory/audit"] == [
            "memory/changed",
            "memory/dir-removed",
            "memory/dir-added",
            "memory/changed",
        ]
        assert bed.changes() == [
            ("deleted", "a.md"),
            ("deleted", "b.md"),
            ("added", "b.md"),
            ("added", "c.md"),
        ]

    bed.play(story)


def test_a_base_that_was_removed_takes_all_its_directories(bed):
    """All below it are gone, then those that are there again are news; the base is named in the rescan."""
    gone, again = bed.memory("gone"), bed.memory("again")
    gone.save("a.md", good())
    again.save("a.md", good())

    async def story():
        await bed.start()
        gone.remove()
        await bed.tell(Unsure("base-removed", bed.tree.base))
        removed = [e.directory for e in bed.told if e.topic == "memory/dir-removed"]
        added = [e.directory for e in bed.told if e.topic == "memory/dir-added"]
        assert sorted(removed) == sorted([gone.dir, again.dir])
        assert added == [again.dir]
        (rescanned,) = bed.data("daemon/rescanned")
        assert rescanned["reason"] == "base-removed"
        assert rescanned["base"] == bed.tree.base

    bed.play(story)


def test_findings_of_a_directory_that_goes_are_over(bed):
    """What was told of it is told as cleared, before it is told as removed."""
    memory = bed.memory()
    memory.save("a.md", good())

    async def story():
        await bed.start()
        memory.save("a.md", BROKEN)
        await bed.tell(memory.event("a.md"))
        bed.groups.clear()
        memory.remove()
        await bed.tell(memory.event(whole=True))
        # `index-missing` was counted, not told, when the directory was adopted; its end is told all the same.
        assert bed.codes("cleared") == ["front-matter-invalid", "index-missing"]
        assert bed.topics == ["memory/changed", "memory/audit", "memory/dir-removed"]

    bed.play(story)


# -- scans


def test_two_scans_at_once_come_one_after_the_other(bed):
    """The second begins when the first has told what it found."""
    memory = bed.memory()
    memory.save("a.md", good())
    story_of = []

    async def story():
        await bed.start()
        bed.watch.on_rewatch = lambda: story_of.append(f"begin after {bed.topics.count('daemon/rescanned')}")
        bed.on_file = lambda _file: hold_up()
        await asyncio.gather(bed.pipeline.scan("asked"), bed.pipeline.scan("asked"))
        assert story_of == ["begin after 0", "begin after 1"]
        assert [data["drift"] for data in bed.data("daemon/rescanned")] == [0, 0]

    bed.play(story)


def test_drift_is_only_what_no_event_told(bed):
    """A scan counts what it found that no event had named, and not what events brought meanwhile."""
    memory, other = bed.memory(), bed.memory("other")
    for name in ("a.md", "b.md"):
        memory.save(name, good("one"))
    other.save("o.md", good("one"))

    def event_meanwhile(file: str) -> None:
        if file == "a.md":
            other.save("o.md", good("three"))
            bed.watch.give(other.event("o.md"))
            hold_up()

    async def story():
        await bed.start()
        memory.save("a.md", good("two"))
        await bed.tell(memory.event("a.md"))
        await bed.pipeline.scan("schedule")
        assert bed.data("daemon/rescanned") == []
        assert bed.pipeline.drift_found == 0
        memory.save("b.md", good("two, in silence"))
        bed.on_file = event_meanwhile
        await bed.pipeline.scan("schedule")
        await bed.rest()
        assert [data["drift"] for data in bed.data("daemon/rescanned")] == [1]
        assert bed.pipeline.drift_found == 1
        assert sorted(bed.changes()) == [("updated", "a.md"), ("updated", "b.md"), ("updated", "o.md")]

    bed.play(story)


def test_a_first_scan_of_a_known_state_tells_what_changed_meanwhile(bed, tmp_path):
    """What happened while no daemon ran is news of the start, and no drift: nobody was there to hear events."""
    memory = bed.memory()
    memory.save("a.md", good("one"))
    bed.play(bed.start)
    memory.save("a.md", good("two"))
    again = Bed(tmp_path)

    async def story():
        await again.pipeline.scan("start")
        assert again.changes() == [("updated", "a.md")]
        assert again.pipeline.drift_found == 0
        assert again.data("daemon/rescanned") == []
        assert again.pipeline.last_scan_ms == again.clock_ms()

    again.play(story)


def test_a_scan_that_a_settled_directory_interrupts_waits_for_both(bed):
    """`look_at` gives back only when what came meanwhile is told and audited too."""
    memory = bed.memory()
    memory.save("a.md", good())
    memory.save("b.md", good())

    def meanwhile(file: str) -> None:
        if file == "b.md" and "two" not in open_text(memory.path("a.md")):
            memory.save("a.md", good("two"))
            bed.watch.give(memory.event("a.md"))
            hold_up()

    async def story():
        await bed.start()
        bed.on_file = meanwhile
        await bed.pipeline.look_at([memory.dir])
        assert bed.changes() == [("updated", "a.md")]

    bed.play(story)


def test_polling_that_took_over_is_told(bed):
    """Who listens learns which base is polled from now on, and why."""

    async def story():
        await bed.start()
        await bed.tell(Degraded(bed.tree.base, "no watches left"))
        assert bed.data("daemon/degraded") == [{"base": bed.tree.base, "reason": "no watches left"}]

    bed.play(story)


def test_an_event_of_nobodys_directory_is_passed_over(bed):
    """A path that belongs to no tree is neither kept nor told."""

    async def story():
        await bed.start()
        await bed.tell(Settled("/nowhere/memory", frozenset({"/nowhere/memory/a.md"})))
        await bed.tell(Settled("/nowhere/memory", whole=True, lost=True))
        assert bed.told == []
        assert bed.store.kept == {}

    bed.play(story)
