"""The stream: order, barriers, holds, trees that come and go, idleness."""

from __future__ import annotations

import asyncio
import os
import stat
import time

import pytest

from zcsyncd.watching import stream
from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier


def _memory_of(home, project="p"):
    memory = home / "projects" / project / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    return memory


def test_a_flush_ends_after_everything_before_it_was_dealt_with(tmp_path, open_river):
    """All that was on the disk before the call has passed the consumer when it returns, quiet time or not."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, quiet_s=3600.0, longest_s=7200.0) as river:
            for number in range(50):
                (memory / f"{number}.md").symlink_to("x")
                await river.flushed()
                assert river.count(memory / f"{number}.md") == 1

    asyncio.run(main())


def test_many_flushes_at_once_all_end(tmp_path, open_river):
    """Each caller gets its answer."""
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            await asyncio.gather(*(river.flushed() for _ in range(50)))
        assert not (tmp_path / "canary").exists()

    asyncio.run(main())


def test_a_flush_waits_until_the_consumer_says_done(tmp_path, open_river):
    """The mark comes after all earlier items; the call returns when it is done with, not before."""
    memory = _memory_of(tmp_path)

    async def main():
        river = open_river(tmp_path)
        await river.watch.start()
        (memory / "a.md").write_text("x")
        flush = asyncio.create_task(river.watch.barrier())
        items = []
        async for item in river.watch.settled():
            items.append(item)
            if isinstance(item, Barrier):
                break
        assert items[0] == Settled(str(memory), frozenset({str(memory / "a.md")}))
        assert not flush.done()
        items[-1].done()
        await flush
        await river.watch.stop()

    asyncio.run(main())


def test_a_flush_waits_for_what_is_held(tmp_path, open_river):
    """An index that is not believed yet is delivered again first; what is held later is not waited for."""
    memory = _memory_of(tmp_path)
    index = memory / "MEMORY.md"
    held = []

    async def main():
        async with open_river(tmp_path) as river:

            def doubt(item):
                if isinstance(item, Settled) and str(index) in item.paths:
                    held.append(time.monotonic())
                    # The first time it is believed in 0.2 s; then something new is held for long.
                    river.watch.hold(
                        str(memory), str(index), time.monotonic() + (0.2 if len(held) == 1 else 3600)
                    )

            river.on_item = doubt
            index.touch()
            await river.flushed()
            assert river.count(index) == 2
            assert held[1] - held[0] >= 0.2

    asyncio.run(main())


def test_a_canary_directory_that_was_swept_away_is_made_again(tmp_path, open_river):
    """A cleaner of temporary files does not break flushes; the directory is private."""
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            canary = tmp_path / "canary"
            assert stat.S_IMODE(canary.stat().st_mode) == 0o700
            canary.rmdir()
            await river.flushed()
            assert await river.watch.alive()
            assert river.items == []

    asyncio.run(main())


def test_a_watcher_that_does_not_answer_is_not_relied_on(tmp_path, open_river, monkeypatch):
    """A flush whose canary is not heard asks for a scan of everything, and still ends."""
    _memory_of(tmp_path)
    monkeypatch.setattr(stream, "CANARY_S", 0.05)

    async def main():
        async with open_river(tmp_path) as river:
            asyncio.get_running_loop().remove_reader(river.watch._inotify.kernel.fileno())
            assert not await river.watch.alive()
            await river.flushed()
            assert river.items == [Unsure("canary")]

    asyncio.run(main())


def test_a_consumer_that_does_not_answer_is_not_alive(tmp_path, open_river, monkeypatch):
    """Events that come in and that nobody takes are no sign of life."""
    monkeypatch.setattr(stream, "CANARY_S", 0.05)

    async def main():
        river = open_river(tmp_path)
        await river.watch.start()
        assert not await river.watch.alive()
        await river.watch.stop()
        assert not await river.watch.alive()

    asyncio.run(main())


def test_a_watcher_that_is_armed_anew_tells_again(tmp_path, open_river, monkeypatch):
    """Of a dead inotify instance nothing is left; the new one watches all that the former did, and a scan is asked for."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            dead = river.watch._inotify
            asyncio.get_running_loop().remove_reader(dead.kernel.fileno())
            (memory / "a.md").write_text("unheard")
            river.watch.rearm()
            await river.until(lambda: Unsure("rearmed") in river.items)
            assert await river.watch.alive()
            assert river.watch._inotify is not dead
            (memory / "b.md").write_text("heard")
            await river.until(lambda: river.count(memory / "b.md"))

    asyncio.run(main())


def test_all_bases_are_polled_when_no_watch_can_be_relied_on(tmp_path, open_river):
    """Polling tells, the state says why, and a second call changes nothing."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, poll_s=0.05) as river:
            river.watch.distrust_all("no answer")
            river.watch.distrust_all("no answer")
            state = river.watch.state()[0]
            assert (state.kind, state.reason) == ("polling", "no answer")
            await river.until(lambda: Unsure("polling", str(river.base)) in river.items)
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            assert await river.watch.alive()
            assert [item for item in river.items if isinstance(item, Degraded)] == [
                Degraded(str(river.base), "no answer")
            ]

    asyncio.run(main())


def test_silence_is_told_only_of_what_no_event_named(tmp_path, open_river):
    """A directory of which an event waits is not silent; one of which none came is."""
    memory, other = _memory_of(tmp_path), _memory_of(tmp_path, "q")

    async def main():
        async with open_river(tmp_path, quiet_s=3600.0, longest_s=7200.0) as river:
            with (memory / "a.md").open("w") as file:
                file.write("x")
                file.flush()
                assert await river.watch.silent_in([str(memory), str(other)]) == [str(other)]

    asyncio.run(main())


def test_stopping_lets_go_of_everybody(tmp_path, open_river):
    """Who waits at a barrier nobody will pass is released; the stream ends; nothing of ours stays on the disk."""
    _memory_of(tmp_path)

    async def main():
        river = open_river(tmp_path)
        await river.watch.start()
        flush = asyncio.create_task(river.watch.barrier())
        await asyncio.sleep(0)
        await river.watch.stop()
        await flush
        assert [item async for item in river.watch.settled()] == []
        assert not await river.watch.alive()
        await river.watch.barrier()
        await river.watch.rewatch()

    asyncio.run(main())
    assert sorted(os.listdir(tmp_path)) == ["projects"]


def test_trees_may_come_and_go_while_it_runs(tmp_path, open_river):
    """A new base is watched and told, a removed one is silent afterwards, a kept one goes on undisturbed."""
    one, two = tmp_path / "one", tmp_path / "two"
    for base in (one, two):
        (base / "p" / "memory").mkdir(parents=True)

    async def main():
        async with open_river(tmp_path, open_river.tree_of(one)) as river:
            river.watch.set_trees([open_river.tree_of(one), open_river.tree_of(two)])
            await river.until(lambda: Unsure("base-added", str(two)) in river.items)
            (two / "p" / "memory" / "a.md").write_text("x")
            await river.until(lambda: river.count(two / "p" / "memory" / "a.md"))
            river.watch.set_trees([open_river.tree_of(two)])
            await river.until(lambda: Unsure("base-removed", str(one)) in river.items)
            (one / "p" / "memory" / "b.md").write_text("x")
            (two / "p" / "memory" / "b.md").write_text("x")
            await river.flushed()
            assert river.count(one / "p" / "memory" / "b.md") == 0
            assert river.count(two / "p" / "memory" / "b.md") == 1
            assert [state.base for state in river.watch.state()] == [str(two)]

    asyncio.run(main())


def test_state_tells_kind_watches_and_the_last_event(tmp_path, open_river):
    """A tree that has never given an event is seen as such."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, mode="inotify") as river:
            state = river.watch.state()[0]
            assert (state.layout, state.base, state.kind, state.watches) == (
                "test",
                str(river.base),
                "inotify",
                3,
            )
            assert (state.last_event_at, state.reason) == (None, None)
            (memory / "a.md").write_text("x")
            await river.flushed()
            assert abs(river.watch.state()[0].last_event_at - time.time()) < 60

    asyncio.run(main())


def test_what_is_current_is_told_only_where_it_is_known(tmp_path, open_river):
    """A directory is current when the kernel's queue and the settler hold nothing of it, in a tree that gives events.

    A save makes it not current at once, before the loop has heard of it, and for as long as it waits to be believed.
    """
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, mode="inotify", quiet_s=3600.0, longest_s=7200.0) as river:
            watch, directory = river.watch, str(memory)
            assert not watch.is_current(directory), "no event ever came: nobody knows"
            (memory / "a.md").write_text("x")
            await river.flushed()
            assert watch.is_current(directory)
            with (memory / "a.md").open("a") as file:
                file.write("y")
                file.flush()
                assert not watch.is_current(directory), "it lies in the kernel's queue"
                assert await watch._sing(), "the queue was drained"
                assert not watch.is_current(directory), "it is not believed yet"
            await river.flushed()
            assert watch.is_current(directory)
            watch.hold(directory, str(memory / "a.md"), watch.clock() + 3600)
            assert not watch.is_current(directory), "it is held"
        async with open_river(tmp_path, mode="poll") as river:
            (memory / "b.md").write_text("x")
            await river.flushed()
            assert not river.watch.is_current(str(memory)), "a poll tells late"

    asyncio.run(main())


def test_while_nothing_happens_nothing_runs(tmp_path, open_river):
    """No timer is set while nothing waits: an idle watch costs nothing."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            loop = asyncio.get_running_loop()
            await river.flushed()
            assert [timer for timer in loop._scheduled if not timer.cancelled()] == []
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md") == 1)
            (memory / "a.md").chmod(0o600)
            await river.until(lambda: river.count(memory / "a.md") == 2)
            await river.flushed()
            assert river.watch._timer is None
            assert len(river.watch._settler) == 0

    asyncio.run(main())


def test_a_busy_consumer_leaves_turns_to_others(tmp_path, open_river):
    """A consumer that computes without ever waiting does not keep the loop from a question."""
    memories = [_memory_of(tmp_path, f"p{number}") for number in range(40)]
    answered = []

    async def main():
        async with open_river(tmp_path, quiet_s=0.0) as river:

            def compute(item):
                if isinstance(item, Settled):
                    if not answered:
                        asyncio.get_running_loop().call_soon(lambda: answered.append(len(river.items)))
                    until = time.monotonic() + 0.004
                    while time.monotonic() < until:
                        pass

            river.on_item = compute
            for memory in memories:
                (memory / "a.md").write_text("x")
            await river.flushed()
            assert len(river.items) >= 40
            assert answered[0] <= 4

    asyncio.run(main())


def test_a_broken_descriptor_makes_it_poll(tmp_path, open_river):
    """If the kernel's reader fails, every tree is polled, and that is said; the next scan opens another reader."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, poll_s=0.02) as river:

            def broken():
                raise OSError(5, "Input/output error")

            river.watch._inotify.drain = broken
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.unsure("polling"))
            assert river.items[0] == Degraded(str(river.base), "inotify failed (Input/output error)")
            await river.watch.rewatch()
            assert river.watch.state()[0].kind == "inotify"
            (memory / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "b.md"))

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 3])
def test_rewatch_changes_nothing_while_nothing_changed(times, tmp_path, open_river):
    """A scheduled rescan is silent."""
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            for _ in range(times):
                await river.watch.rewatch()
            await river.flushed()
            assert river.items == []
            assert river.watch.state()[0].watches == 3

    asyncio.run(main())
