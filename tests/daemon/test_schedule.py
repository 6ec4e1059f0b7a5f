"""Periodic jobs: one run at a time, and each failure is shown."""

from __future__ import annotations

import asyncio
import time

from zcsyncd.daemon.schedule import Schedule

PATIENCE_S = 10.0


async def until(fact):
    """Let the loop turn until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def play(story):
    asyncio.run(story())


def test_a_failure_is_shown_until_the_next_success():
    """`status` tells the last error of a job, and that it is over when it is."""
    runs = []

    async def job():
        runs.append(None)
        if len(runs) == 1:
            raise OSError("disk full")

    async def story():
        schedule = Schedule(lambda: 1000 + len(runs))
        schedule.every("retention", 0.05, job)
        (state,) = schedule.states()
        assert (state.name, state.last_run_ms, state.last_error) == ("retention", None, None)
        schedule.start()
        await until(lambda: schedule.states()[0].last_error is not None)
        (state,) = schedule.states()
        assert state.last_error == "OSError: disk full"
        assert state.last_run_ms == 1001
        await until(lambda: schedule.states()[0].last_error is None)
        assert schedule.states()[0].last_run_ms >= 1002
        schedule.stop()

    play(story)


def test_the_next_run_is_told():
    """The first run is one interval away; the time is in epoch milliseconds."""

    async def job():
        pass

    async def story():
        schedule = Schedule(lambda: 0)
        now_ms = time.time() * 1000
        schedule.every("rescan", 600, job)
        schedule.start()
        (state,) = schedule.states()
        assert abs(state.next_run_ms - now_ms - 600_000) < 5_000
        schedule.stop()

    play(story)


def test_a_run_longer_than_its_interval_is_not_doubled():
    """While a job runs it is not begun again; the runs that were missed are not made up for."""
    running = []
    most = []
    begun = []

    async def job():
        running.append(None)
        begun.append(None)
        most.append(len(running))
        await release.wait()
        running.pop()

    async def story():
        nonlocal release
        release = asyncio.Event()
        schedule = Schedule(lambda: 0)
        ticks = []

        async def tick():
            ticks.append(None)

        schedule.every("long", 0.03, job)
        schedule.every("tick", 0.03, tick)
        schedule.start()
        await until(lambda: len(ticks) >= 8)
        assert begun == [None]
        release.set()
        await until(lambda: len(begun) >= 2)
        assert max(most) == 1
        assert len(begun) < 8
        schedule.stop()

    release = asyncio.Event()
    play(story)


def test_stop_twice_and_before_start():
    """Stopping is harmless whenever it comes, and ends all runs."""
    runs = []

    async def job():
        runs.append(None)

    async def story():
        never = Schedule(lambda: 0)
        never.every("a", 0.01, job)
        never.stop()
        schedule = Schedule(lambda: 0)
        schedule.every("a", 0.01, job)
        schedule.start()
        await until(lambda: runs)
        schedule.stop()
        schedule.stop()
        await asyncio.sleep(0)
        assert [state.name for state in schedule.states()] == ["a"]

    play(story)
